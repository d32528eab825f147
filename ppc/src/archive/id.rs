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
/// the other kinds), or 40 bare hex digits, which are a git blob id.
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
        let text = text.trim();
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
