//! The names by which users ask for a content.

use std::fmt;
use std::str::FromStr;

use crate::hash::{ContentHash, Sha1Git};
use crate::key::PpcKey;
use crate::swhid::QualifiedSwhid;
use crate::text::quote;
use crate::{Error, Result};

/// What names one content: a SWHID, a PPC key, or a hash.
///
/// As text: `swh:1:cnt:<hex>` with any qualifiers, `py.setup.swh:1:cnt:<hex>`, `sha256:<hex>` (and
/// the other kinds), or 40 bare hex digits, which are a git blob id. Blanks around it do not count.
/// The text of a key always reads back as that key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Id {
    /// A PPC key. Finds the content also where it is stored under another name.
    Key(PpcKey),
    /// A hash of the content; a SWHID is its `sha1_git`.
    Hash(ContentHash),
}

impl FromStr for Id {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // ASCII blanks only: a key may begin with any other.
        let text = text.trim_ascii();
        if text.starts_with("swh:") {
            let swhid = text.parse::<QualifiedSwhid>()?.core.content_hash()?;
            return Ok(Self::Hash(ContentHash::Sha1Git(swhid)));
        }
        if text.contains("swh:1:") {
            return Ok(Self::Key(text.parse()?));
        }
        if text.len() == 2 * Sha1Git::BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Self::Hash(ContentHash::Sha1Git(text.parse()?)));
        }
        if text.contains(':') {
            return Ok(Self::Hash(text.parse()?));
        }
        Err(
            Error::invalid_input(format!("{} names no content", quote(text.as_bytes())))
                .with_remedy(
                    "give a SWHID (swh:1:cnt:<40 hex digits>), a PPC key as `ppc ls` prints it, \
                     or a hash such as sha256:<64 hex digits>",
                ),
        )
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => key.fmt(f),
            Self::Hash(hash) => hash.fmt(f),
        }
    }
}

impl From<PpcKey> for Id {
    fn from(key: PpcKey) -> Self {
        Self::Key(key)
    }
}

impl From<ContentHash> for Id {
    fn from(hash: ContentHash) -> Self {
        Self::Hash(hash)
    }
}

impl From<Sha1Git> for Id {
    fn from(hash: Sha1Git) -> Self {
        Self::Hash(ContentHash::Sha1Git(hash))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HELLO: &str = "swh:1:cnt:b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0";

    /// A key whose extension began with `swh:` was listed in a form that was taken for a malformed
    /// SWHID, and one whose extension began with a blank in a form that lost the blank.
    #[test]
    fn keys_that_begin_like_something_else_read_back() {
        for (name, text) in [
            (&b"x.swh:1"[..], "swh%3A1.x"),
            (b"x.swh:", "swh%3A.x"),
            (b".swh:1:cnt:0", "swh%3A1:cnt:0."),
            (b"x. c", "%20c.x"),
            (b"x. ", "%20.x"),
            ("x.\u{a0}c".as_bytes(), "\u{a0}c.x"),
            ("x.\u{3000}c".as_bytes(), "\u{3000}c.x"),
            (b"x.sha256:1", "sha256:1.x"),
            (b"swh:1:cnt:0", ".swh:1:cnt:0"),
        ] {
            let key = PpcKey::of(name, b"hello").unwrap();
            assert_eq!(key.to_string(), format!("{text}.{HELLO}"));
            assert_eq!(key.to_string().parse::<Id>().unwrap(), Id::Key(key));
        }
        let spaced = format!(" {HELLO}\t\n");
        assert_eq!(spaced.parse::<Id>().unwrap(), HELLO.parse::<Id>().unwrap());
    }

    /// How extensions begin that look like something else.
    const STARTS: &[&str] = &["", "swh:", "swh:1:cnt:", " ", "%", "\u{a0}", "sha1:", "\t"];

    proptest! {
        #[test]
        fn every_key_reads_back_as_an_id(
            stem in any::<Vec<u8>>(),
            start in proptest::sample::select(STARTS),
            rest in any::<Vec<u8>>(),
        ) {
            let name = [&stem[..], b".", start.as_bytes(), &rest].concat();
            let key = PpcKey::of(name, b"hello").unwrap();
            prop_assert_eq!(key.to_string().parse::<Id>().unwrap(), Id::Key(key));
        }
    }
}
