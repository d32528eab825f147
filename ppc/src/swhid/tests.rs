use proptest::prelude::*;

use super::*;

const HELLO: &str = "swh:1:cnt:b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0";
const SNAPSHOT: &str = "swh:1:snp:d7f1b9eb7ccb596c2622c4780febaa02549830f9";
const REVISION: &str = "swh:1:rev:309cf2674ee7a0749978cf8265ab91a60aea0f7d";

fn reason(text: &str) -> String {
    text.parse::<QualifiedSwhid>().unwrap_err().to_string()
}

#[test]
fn a_content_is_named_by_its_git_blob_id() {
    let swhid = Swhid::content(Sha1Git::of(b"hello"));
    assert_eq!(swhid.to_string(), HELLO);
    assert_eq!(HELLO.len(), Swhid::TEXT_BYTES);
    assert_eq!(HELLO.parse::<Swhid>().unwrap(), swhid);
    assert!(REVISION.parse::<Swhid>().unwrap().content_hash().is_err());
}

#[test]
fn malformed_cores_are_refused_with_the_part_that_is_wrong() {
    let zeros = "0".repeat(40);
    let cases = [
        ("", "does not begin"),
        ("SWH:1:cnt:00", "does not begin"),
        ("swh:2:cnt:00", "version \"2\""),
        ("swh:1", "object type \"\""),
        ("swh:1:ori:00", "object type \"ori\""),
        ("swh:1:cnt:", "40 lowercase hex"),
        (&format!("swh:1:cnt:{zeros}0"), "40 lowercase hex"),
        (&format!("swh:1:cnt:{}A", &zeros[1..]), "40 lowercase hex"),
        (&format!(" swh:1:cnt:{zeros}"), "does not begin"),
    ];
    for (text, expected) in cases {
        let message = text.parse::<Swhid>().unwrap_err().to_string();
        assert!(message.contains(expected), "{text}: {message}");
    }
    let qualified = format!("{HELLO};lines=1");
    let message = qualified.parse::<Swhid>().unwrap_err().to_string();
    assert!(message.contains("qualifiers are not allowed"), "{message}");
}

#[test]
fn qualifiers_come_in_any_order_and_leave_in_one() {
    let text = format!(
        "{HELLO};lines=9-15;path=/a%3Bb/%C3%A9%FF.c;anchor={REVISION};bytes=3;visit={SNAPSHOT};\
         origin=https://example.org/x%2520y%3Bz"
    );
    let parsed: QualifiedSwhid = text.parse().unwrap();
    let qualifiers = &parsed.qualifiers;
    let origin = "https://example.org/x%20y;z";
    assert_eq!(qualifiers.origin.as_deref(), Some(origin));
    assert_eq!(
        qualifiers.path.as_deref(),
        Some(&b"/a;b/\xc3\xa9\xff.c"[..])
    );
    assert_eq!(
        qualifiers.lines,
        Some(Fragment {
            first: 9,
            last: Some(15)
        })
    );
    assert_eq!(
        parsed.to_string(),
        format!(
            "{HELLO};origin=https://example.org/x%2520y%3Bz;visit={SNAPSHOT};anchor={REVISION};\
             path=/a%3Bb/é%FF.c;lines=9-15;bytes=3"
        )
    );
}

#[test]
fn malformed_qualifiers_are_refused_with_the_one_that_is_wrong() {
    let cases = [
        ("", "qualifier \"\" has no \"=\""),
        ("lines", "has no \"=\""),
        ("lines=", "\"lines\" is empty"),
        ("color=red", "\"color\" is none of"),
        ("lines=1;lines=2", "given twice"),
        ("lines=0", "from 1 up"),
        ("lines=+1", "from 1 up"),
        ("lines=1-", "from 1 up"),
        ("lines=1-2-3", "from 1 up"),
        ("lines=5-4", "ends before it begins"),
        ("bytes=99999999999999999999", "from 0 up"),
        ("path=a", "does not begin with \"/\""),
        ("path=/%4", "two hex digits"),
        ("origin=%FF", "not UTF-8"),
        (&format!("visit={REVISION}"), "must be a snapshot"),
        ("visit=swh:1:snp:0", "in visit, hash \"0\""),
        (&format!("anchor={HELLO}"), "anchor must be"),
    ];
    for (qualifier, expected) in cases {
        let message = reason(&format!("{HELLO};{qualifier}"));
        assert!(message.contains(expected), "{qualifier}: {message}");
    }
    assert!(reason(&format!("{REVISION};lines=1")).contains("only be given for a content"));
}

fn any_swhid() -> impl Strategy<Value = Swhid> {
    let object_type = prop_oneof![
        Just(ObjectType::Content),
        Just(ObjectType::Directory),
        Just(ObjectType::Revision),
        Just(ObjectType::Release),
        Just(ObjectType::Snapshot),
    ];
    (object_type, any::<[u8; 20]>()).prop_map(|(object_type, hash)| Swhid {
        object_type,
        hash: Sha1Git(hash),
    })
}

fn any_fragment(smallest: u64) -> impl Strategy<Value = Fragment> {
    (smallest..=u64::MAX, proptest::option::of(any::<u64>())).prop_map(|(first, last)| Fragment {
        first,
        last: last.map(|last| last.max(first)),
    })
}

fn any_qualified() -> impl Strategy<Value = QualifiedSwhid> {
    let option = proptest::option::of::<BoxedStrategy<_>>;
    let path = proptest::collection::vec(any::<u8>(), 0..40).prop_map(|tail| {
        let mut path = b"/".to_vec();
        path.extend(tail);
        path
    });
    (
        any::<[u8; 20]>().prop_map(|hash| Swhid::content(Sha1Git(hash))),
        proptest::option::of(".{1,40}"),
        any_swhid().prop_map(|mut visit| {
            visit.object_type = ObjectType::Snapshot;
            Some(visit)
        }),
        any_swhid().prop_map(|anchor| Some(anchor).filter(|a| a.content_hash().is_err())),
        proptest::option::of(path),
        option(any_fragment(1).boxed()),
        option(any_fragment(0).boxed()),
    )
        .prop_map(
            |(core, origin, visit, anchor, path, lines, bytes)| QualifiedSwhid {
                core,
                qualifiers: Qualifiers {
                    origin,
                    visit,
                    anchor,
                    path,
                    lines,
                    bytes,
                },
            },
        )
}

proptest! {
    #[test]
    fn cores_round_trip(swhid in any_swhid()) {
        prop_assert_eq!(swhid.to_string().parse::<Swhid>().unwrap(), swhid);
    }

    #[test]
    fn qualified_swhids_round_trip_on_one_line(swhid in any_qualified()) {
        let text = swhid.to_string();
        prop_assert!(!text.chars().any(char::is_control));
        prop_assert_eq!(text.parse::<QualifiedSwhid>().unwrap(), swhid);
    }

    #[test]
    fn parsing_any_text_never_panics(
        text in any::<String>(),
        tail in "[;=%a-z0-9:/-]{0,60}",
    ) {
        let _ = text.parse::<QualifiedSwhid>();
        if let Ok(swhid) = format!("{HELLO};{tail}").parse::<QualifiedSwhid>() {
            prop_assert_eq!(swhid.to_string().parse::<QualifiedSwhid>().unwrap(), swhid);
        }
    }
}
