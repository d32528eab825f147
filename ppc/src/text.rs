//! Bytes as text: percent escapes for keys and SWHIDs, quotes for messages.
//!
//! What is written literally is decided by a fixed table, not by the Unicode version of the
//! standard library, so that a text written today is written the same by any later build: every
//! valid UTF-8 character but control characters and the invisible ones that change the direction
//! or the joining of their neighbours, and `%` itself. Each byte of anything else becomes `%XX`.

use std::borrow::Cow;
use std::fmt;

/// Longest piece of unknown text that an error message repeats.
const QUOTED_CHARS_MAX: usize = 120;

/// Whether a character must not stand in a line that people read and copy.
fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Bytes shown with percent escapes; `also` are further characters to escape.
pub(crate) struct Escaped<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) also: &'static [char],
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.bytes.utf8_chunks() {
            let mut text = chunk.valid();
            let escape = |c: char| c == '%' || self.also.contains(&c) || is_unprintable(c);
            while let Some((at, character)) = text.char_indices().find(|(_, c)| escape(*c)) {
                let (literal, rest) = text.split_at(at);
                let (escaped, rest) = rest.split_at(character.len_utf8());
                f.write_str(literal)?;
                write_escapes(f, escaped.as_bytes())?;
                text = rest;
            }
            f.write_str(text)?;
            write_escapes(f, chunk.invalid())?;
        }
        Ok(())
    }
}

fn write_escapes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "%{byte:02X}"))
}

/// Undoes [`Escaped`], whatever it chose to escape. None if a `%` is not followed by two hex
/// digits.
pub(crate) fn unescape(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(first) = text.iter().position(|byte| *byte == b'%') else {
        return Some(Cow::Borrowed(text));
    };
    let (literal, mut rest) = text.split_at(first);
    let mut bytes = literal.to_vec();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let [decoded] = crate::hash::decode_hex::<1>(after.get(..2)?)?;
            bytes.push(decoded);
            rest = after.get(2..)?;
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    Some(Cow::Owned(bytes))
}

/// `bytes` in double quotes on one line, cut if long, for an error message.
pub(crate) fn quote(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..4 * QUOTED_CHARS_MAX).unwrap_or(bytes));
    let shown: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    let cut = shown.len() < text.len() || text.len() < bytes.len();
    format!("{shown:?}{}", if cut { "..." } else { "" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn escaped(bytes: &[u8]) -> String {
        Escaped {
            bytes,
            also: &[';'],
        }
        .to_string()
    }

    #[test]
    fn only_what_cannot_be_read_is_escaped() {
        assert_eq!(escaped("a b/é\u{4e16}.c".as_bytes()), "a b/é\u{4e16}.c");
        assert_eq!(escaped(b"100%;\n\xff"), "100%25%3B%0A%FF");
        assert_eq!(escaped("\u{202e}gpj.exe".as_bytes()), "%E2%80%AEgpj.exe");
    }

    #[test]
    fn broken_escapes_are_refused() {
        for text in ["%", "a%4", "%zz", "%%41"] {
            assert_eq!(unescape(text.as_bytes()), None, "{text}");
        }
        assert_eq!(unescape(b"%4a%4A").unwrap().as_ref(), b"JJ");
    }

    #[test]
    fn quotes_stay_on_one_line_and_short() {
        assert_eq!(quote(b"a\n\"b"), r#""a\n\"b""#);
        let long = quote(&[b'x'; 10_000]);
        assert!(long.ends_with("x\"...") && long.len() < 200);
    }

    proptest! {
        #[test]
        fn escapes_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let text = escaped(&bytes);
            prop_assert!(!text.chars().any(is_unprintable) && !text.contains(';'));
            let decoded = unescape(text.as_bytes()).unwrap();
            prop_assert_eq!(decoded.as_ref(), bytes.as_slice());
        }
    }
}
