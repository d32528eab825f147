use proptest::prelude::*;

use super::*;

#[test]
fn hello_has_the_hashes_that_git_and_coreutils_print() {
    let hashes = Hashes::of(HashKinds::ALL, b"hello");
    let expected = [
        "sha1_git:b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0",
        "sha1:aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d",
        "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
        "blake2s256:19213bacc58dee6dbde3ceb9a47cbb330b3d86f8cca8997eb00be456f140ca25",
    ];
    for (kind, text) in HashKind::ALL.into_iter().zip(expected) {
        assert_eq!(hashes.get(kind).unwrap().to_string(), text);
        assert_eq!(text.parse::<ContentHash>().unwrap(), kind.of(b"hello"));
    }
}

#[test]
fn the_empty_content_is_gits_empty_blob() {
    assert_eq!(
        Sha1Git::of(b"").to_string(),
        "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    );
}

#[test]
fn malformed_hashes_are_refused_with_what_was_expected() {
    for text in [
        "",
        "b6fc",
        &"g".repeat(40),
        &"a".repeat(41),
        "é".repeat(20).as_str(),
    ] {
        let message = text.parse::<Sha1Git>().unwrap_err().to_string();
        assert!(message.contains("expected 40 hex digits"), "{message}");
    }
    assert!("sha1-git:00".parse::<ContentHash>().is_err());
    assert!("00".parse::<ContentHash>().is_err());
}

proptest! {
    #[test]
    fn one_pass_equals_each_hash_alone(
        content in proptest::collection::vec(any::<u8>(), 0..40_000),
        bits in 0_u8..16,
    ) {
        let kinds: HashKinds = HashKind::ALL
            .into_iter()
            .filter(|kind| bits & (1 << *kind as u8) != 0)
            .collect();
        let hashes = Hashes::of(kinds, &content);
        for kind in HashKind::ALL {
            let expected = kinds.contains(kind).then(|| kind.of(&content));
            prop_assert_eq!(hashes.get(kind), expected);
        }
    }

    #[test]
    fn hex_round_trips_in_either_case(bytes in any::<[u8; 32]>()) {
        let text = Sha256(bytes).to_string();
        prop_assert_eq!(text.parse::<Sha256>().unwrap(), Sha256(bytes));
        prop_assert_eq!(text.to_uppercase().parse::<Sha256>().unwrap(), Sha256(bytes));
    }

    #[test]
    fn parsing_any_text_never_panics(text in any::<String>()) {
        let _ = text.parse::<ContentHash>();
        let _ = text.parse::<Sha1Git>();
    }
}
