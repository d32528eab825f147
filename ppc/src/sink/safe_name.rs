//! File names that every common file system takes, from names that are any bytes.

use std::fmt::Write;

use crate::key::split_name;
use crate::text::Escaped;

/// Longest safe name in bytes: below the 255 of most file systems, and leaving room for what tools
/// append.
const NAME_BYTES_MAX: usize = 200;
/// Longest extension that a shortened name keeps.
const KEPT_EXT_BYTES_MAX: usize = 16;
/// What replaces the middle of a shortened name. No escape looks like it.
const CUT_MARK: &str = "%~";
/// The name of a file without one. No escape looks like it.
const EMPTY_NAME: &str = "%";

/// What Windows does not allow in a name.
const FORBIDDEN: &[char] = &['/', '\\', ':', '*', '?', '"', '<', '>', '|'];
/// What Windows takes for devices, with any extension and in any case.
const DEVICES: &[&str] = &[
    "con", "prn", "aux", "nul", "conin$", "conout$", "clock$", "com0", "com1", "com2", "com3",
    "com4", "com5", "com6", "com7", "com8", "com9", "com¹", "com²", "com³", "lpt0", "lpt1", "lpt2",
    "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9", "lpt¹", "lpt²", "lpt³",
];

/// A name for a file called `name` that is safe on every common file system.
///
/// Most names stay as they are. Escaped as `%XX` are: `%`, bytes that are not UTF-8, characters
/// that cannot be seen, separators and what else Windows forbids, a dot or space at the end (so
/// `.` and `..` too), and the first letter of a Windows device name. Longer names than 200 bytes
/// are shortened, keeping the extension. Two names may become one, as names may on a file system
/// that ignores case, so something else must keep files apart.
#[must_use]
pub fn safe_file_name(name: &[u8]) -> String {
    if name.is_empty() {
        return EMPTY_NAME.to_owned();
    }
    let mut safe = escape(name);
    if let Some(last @ ('.' | ' ')) = safe.chars().next_back() {
        safe.pop();
        // Writing to a string cannot fail.
        let _ = write!(safe, "%{:02X}", u32::from(last));
    }
    let device = safe
        .split('.')
        .next()
        .unwrap_or_default()
        .trim_end_matches(' ');
    if DEVICES.contains(&device.to_lowercase().as_str()) {
        let first = safe.remove(0);
        safe.insert_str(0, &format!("%{:02X}", u32::from(first)));
    }
    if safe.len() > NAME_BYTES_MAX {
        return shorten(&safe, split_name(name).0);
    }
    safe
}

fn escape(bytes: &[u8]) -> String {
    Escaped {
        bytes,
        also: FORBIDDEN,
    }
    .to_string()
}

fn shorten(safe: &str, ext: &[u8]) -> String {
    let mut ending = CUT_MARK.to_owned();
    let ext = escape(ext);
    if !ext.is_empty() && ext.len() <= KEPT_EXT_BYTES_MAX && !ext.ends_with([' ', '.']) {
        ending.push('.');
        ending.push_str(&ext);
    }
    let kept = safe.floor_char_boundary(NAME_BYTES_MAX - ending.len());
    format!("{}{ending}", safe.get(..kept).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_troublesome_names_change() {
        for name in [
            "main.c",
            ".gitignore",
            "a b.c",
            "é.rs",
            "-x",
            "console.c",
            "com10.c",
        ] {
            assert_eq!(safe_file_name(name.as_bytes()), name);
        }
        for (name, safe) in [
            (&b""[..], "%"),
            (b".", "%2E"),
            (b"..", ".%2E"),
            (b"../../etc/passwd", "..%2F..%2Fetc%2Fpasswd"),
            (b"C:\\x", "C%3A%5Cx"),
            (b"a\0b", "a%00b"),
            (b"100%", "100%25"),
            (b"foo.", "foo%2E"),
            (b"foo ", "foo%20"),
            (b"CON", "%43ON"),
            (b"con.tar.gz", "%63on.tar.gz"),
            (b"nul .txt", "%6Eul .txt"),
            (b"\xff.c", "%FF.c"),
        ] {
            assert_eq!(safe_file_name(name), safe);
        }
        let long = safe_file_name(&[&[b'n'; 300][..], b".c"].concat());
        assert_eq!(long.len(), 200);
        assert!(long.ends_with("n%~.c"));
    }

    proptest! {
        #[test]
        fn safe_names_are_safe_and_escapes_can_be_undone(
            name in proptest::collection::vec(any::<u8>(), 0..300),
            text in "[a-zA-Z .\\\\/:%~]{0,8}",
        ) {
            for name in [name.as_slice(), text.as_bytes()] {
                let safe = safe_file_name(name);
                prop_assert!(!safe.is_empty() && safe.len() <= NAME_BYTES_MAX);
                prop_assert!(!safe.contains(FORBIDDEN) && !safe.chars().any(char::is_control));
                prop_assert!(!safe.ends_with(['.', ' ']));
                if !name.is_empty() && !safe.contains(CUT_MARK) {
                    let undone = crate::text::unescape(safe.as_bytes()).unwrap();
                    prop_assert_eq!(undone.as_ref(), name);
                }
            }
        }
    }
}
