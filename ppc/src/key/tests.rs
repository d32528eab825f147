use proptest::prelude::*;

use super::*;

/// Bytes in which dots, zeros and ones are far more frequent than in real names.
fn any_name() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        Just(b'.'),
        Just(0_u8),
        Just(1_u8),
        Just(2_u8),
        Just(255_u8),
        Just(b'a'),
        any::<u8>(),
    ];
    proptest::collection::vec(byte, 0..12)
}

fn any_key() -> impl Strategy<Value = PpcKey> {
    let hash = prop_oneof![Just([0_u8; 20]), Just([1_u8; 20]), any::<[u8; 20]>()];
    (any_name(), hash).prop_map(|(name, hash)| PpcKey::new(name, Sha1Git(hash)).unwrap())
}

#[test]
fn names_fall_into_extension_and_stem() {
    let cases: [(&[u8], &[u8], &[u8]); 12] = [
        (b"doxygen.h", b"h", b"doxygen"),
        (b"a.tar.gz", b"gz", b"a.tar"),
        (b".gitignore", b"gitignore", b""),
        (b"..a", b"a", b"."),
        (b"Makefile", b"", b"Makefile"),
        (b"foo.", b"", b"foo."),
        (b"a.b.", b"", b"a.b."),
        (b".", b"", b"."),
        (b"..", b"", b".."),
        (b"", b"", b""),
        (b"\xff.\xfe", b"\xfe", b"\xff"),
        (b"a\n.b\0", b"b\0", b"a\n"),
    ];
    for (name, ext, stem) in cases {
        assert_eq!(split_name(name), (ext, stem));
        assert_eq!(join_name(ext, stem).unwrap(), name);
    }
}

#[test]
fn pairs_that_no_name_has_are_refused() {
    assert_eq!(join_name(b"", b"a.b"), None);
    assert_eq!(join_name(b"tar.gz", b"a"), None);
    assert!(prefix_of_ext(b"tar.gz").is_err());
}

#[test]
fn the_binary_form_is_as_documented() {
    let key = PpcKey::new(&b"a\0\x01.c"[..], Sha1Git([7; 20])).unwrap();
    let mut expected = b"c\0a\x01\x01\x01\x02\0".to_vec();
    expected.extend([7; 20]);
    assert_eq!(key.encode(), expected);
}

#[test]
fn bytes_of_no_key_are_refused() {
    let hash = [9_u8; 20];
    let encoded = |names: &[u8]| [names, &hash].concat();
    assert!(PpcKey::decode(&encoded(b"c\0a\0")).is_ok());
    for names in [
        &b""[..],
        b"c",
        b"c\0",
        b"c\0a",
        b"c\0a\0\0",
        b"c\0a\0b",
        b"c\0a\x01\0",
        b"c\0a\x01\x03\0",
        b"\0a.b\0",
        b"a.b\0c\0",
    ] {
        assert!(PpcKey::decode(&encoded(names)).is_err(), "{names:?}");
    }
    assert!(PpcKey::decode(&hash[1..]).is_err());
    assert!(PpcKey::decode(&encoded(&[b'a'; 70_000])).is_err());
}

#[test]
fn the_text_form_reads_like_the_name() {
    let hello = "swh:1:cnt:b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0";
    let cases: [(&[u8], &str); 8] = [
        (b"doxygen.h", "h.doxygen"),
        (b"a.tar.gz", "gz.a.tar"),
        (b".gitignore", "gitignore."),
        (b"Makefile", ".Makefile"),
        (b"..", "..."),
        (b"", "."),
        (b"100%\n\xff.x", "x.100%25%0A%FF"),
        ("é \"q\".c".as_bytes(), "c.é \"q\""),
    ];
    for (name, text) in cases {
        let key = PpcKey::of(name, b"hello").unwrap();
        assert_eq!(key.to_string(), format!("{text}.{hello}"));
        assert_eq!(key.to_string().parse::<PpcKey>().unwrap(), key);
    }
}

#[test]
fn malformed_texts_are_refused_with_what_is_wrong() {
    let zeros = "0".repeat(40);
    let cases = [
        ("h.a".to_owned(), "does not end in a SWHID"),
        (
            format!("h.a.swh:1:cnt:{}é", &zeros[2..]),
            "does not end in a SWHID",
        ),
        (format!("h.a.swh:1:dir:{zeros}"), "names no content"),
        (format!("h.aswh:1:cnt:{zeros}"), "no dot precedes"),
        (format!("a.swh:1:cnt:{zeros}"), "no dot ends the extension"),
        (format!("h.%4.swh:1:cnt:{zeros}"), "two hex digits"),
        (format!(".a.b.swh:1:cnt:{zeros}"), "no file name falls"),
        (format!("a%2Eb.c.swh:1:cnt:{zeros}"), "no file name falls"),
    ];
    for (text, expected) in cases {
        let message = text.parse::<PpcKey>().unwrap_err().to_string();
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn a_name_too_long_for_a_key_is_a_limit_error_and_the_longest_is_none() {
    let hash = Sha1Git([0; 20]);
    let longest = vec![b'a'; KEY_BYTES_MAX - 22];
    let key = PpcKey::new(longest.clone(), hash).unwrap();
    assert_eq!(key.encode().len(), KEY_BYTES_MAX);
    assert_eq!(PpcKey::decode(&key.encode()).unwrap(), key);

    let longer = [longest, vec![b'a']].concat();
    let error = PpcKey::new(longer, hash).unwrap_err();
    assert_eq!(error.kind(), ppc_engine::ErrorKind::Limit);
    assert!(PpcKey::new(vec![0; 40_000], hash).is_err());
}

#[test]
fn a_paths_file_name_is_what_follows_its_last_slash() {
    for (path, name) in [
        (&b"src/main.rs"[..], &b"main.rs"[..]),
        (b"main.rs", b"main.rs"),
        (b"/", b""),
        (b"a/", b""),
        (b"", b""),
        (b"a\\b.c", b"a\\b.c"),
    ] {
        assert_eq!(file_name(path), name);
    }
}

proptest! {
    #[test]
    fn names_and_pairs_correspond_one_to_one(name in any_name(), ext in any_name(), stem in any_name()) {
        let (found_ext, found_stem) = split_name(&name);
        prop_assert_eq!(join_name(found_ext, found_stem), Some(name.clone()));
        if let Some(joined) = join_name(&ext, &stem) {
            prop_assert_eq!(split_name(&joined), (ext.as_slice(), stem.as_slice()));
        }
    }

    #[test]
    fn the_binary_form_round_trips_and_has_the_computed_length(key in any_key()) {
        let encoded = key.encode();
        prop_assert_eq!(encoded.len(), binary::encoded_bytes(key.name()));
        prop_assert_eq!(PpcKey::decode(&encoded).unwrap(), key);
    }

    #[test]
    fn the_binary_form_orders_like_extension_stem_hash(a in any_key(), b in any_key()) {
        let triple = |key: &PpcKey| (key.ext().to_vec(), key.stem().to_vec(), key.hash());
        prop_assert_eq!(a.encode().cmp(&b.encode()), triple(&a).cmp(&triple(&b)));
        prop_assert_eq!(a.cmp(&b), triple(&a).cmp(&triple(&b)));
    }

    #[test]
    fn decoding_any_bytes_never_panics_and_accepts_one_form(bytes in any_name(), hash in any::<[u8; 20]>()) {
        let encoded = [bytes.as_slice(), &hash].concat();
        if let Ok(key) = PpcKey::decode(&encoded) {
            prop_assert_eq!(key.encode(), encoded);
        }
        let _ = PpcKey::decode(&bytes);
    }

    #[test]
    fn the_text_form_round_trips_on_one_line(key in any_key()) {
        let text = key.to_string();
        prop_assert!(!text.chars().any(char::is_control));
        prop_assert_eq!(text.parse::<PpcKey>().unwrap(), key);
    }

    #[test]
    fn parsing_any_text_never_panics(text in any::<String>(), names in "[.%a-c0-9]{0,9}") {
        let _ = text.parse::<PpcKey>();
        let zeros = "0".repeat(40);
        if let Ok(key) = format!("{names}swh:1:cnt:{zeros}").parse::<PpcKey>() {
            prop_assert_eq!(key.to_string().parse::<PpcKey>().unwrap(), key);
        }
    }

    #[test]
    fn prefixes_hold_exactly_their_keys(key in any_key(), other in any_key(), cut in any::<prop::sample::Index>()) {
        let encoded = key.encode();
        let by_ext = prefix_of_ext(other.ext()).unwrap();
        prop_assert_eq!(encoded.starts_with(&by_ext), key.ext() == other.ext());
        let by_name = prefix_of_name(other.name());
        prop_assert_eq!(encoded.starts_with(&by_name), key.name() == other.name());
        let start = &other.stem()[..cut.index(other.stem().len() + 1)];
        let by_start = prefix_of_stem_start(other.ext(), start).unwrap();
        prop_assert_eq!(
            encoded.starts_with(&by_start),
            key.ext() == other.ext() && key.stem().starts_with(start)
        );
    }
}
