//! Hashes of contents: the four that archives know a content by.
//!
//! | kind | of | used by |
//! |---|---|---|
//! | `sha1_git` | `"blob " length NUL content`, SHA-1 | git, SWHIDs, our keys |
//! | `sha1` | content, SHA-1 | Software Heritage's object store, Boffa's tars, the paper's Parquet |
//! | `sha256` | content, SHA-256 | Software Heritage, Nix |
//! | `blake2s256` | content, BLAKE2s with 32 bytes | Software Heritage |
//!
//! [`Hashes::of`] computes any set of them in one pass over the bytes. Everything here is pure and
//! may be called from any thread.

mod hex;
mod multi;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use ppc_engine::{Error, Result};
use sha1::Digest;

pub(crate) use hex::decode as decode_hex;
pub use multi::{HashKinds, Hashes};

/// Declares a hash as a newtype over its bytes, shown and parsed as lowercase hex.
macro_rules! hash_type {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, $label:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $bytes]);

        impl $name {
            /// Length in bytes.
            pub const BYTES: usize = $bytes;

            /// The hash these bytes are, if there are exactly [`Self::BYTES`] of them.
            #[must_use]
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self)
            }

            /// The raw bytes.
            #[must_use]
            pub fn as_bytes(&self) -> &[u8; $bytes] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                hex::write(f, &self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($label, ":{}"), self)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            /// Parses hex digits of either case.
            fn from_str(text: &str) -> Result<Self> {
                hex::decode::<$bytes>(text.as_bytes()).map(Self).ok_or_else(|| {
                    Error::invalid_input(format!(
                        "malformed {} {}: expected {} hex digits",
                        $label,
                        crate::text::quote(text.as_bytes()),
                        2 * $bytes
                    ))
                })
            }
        }
    };
}

hash_type!(
    /// A git blob id: SHA-1 of `"blob "`, the decimal length, NUL and the content.
    Sha1Git, 20, "sha1_git"
);
hash_type!(
    /// SHA-1 of the content alone.
    Sha1, 20, "sha1"
);
hash_type!(
    /// SHA-256 of the content.
    Sha256, 32, "sha256"
);
hash_type!(
    /// BLAKE2s with an output of 32 bytes, of the content.
    Blake2s256, 32, "blake2s256"
);

impl Sha1Git {
    /// The git blob id of `content`.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        let mut hasher = multi::blob_hasher(content.len());
        hasher.update(content);
        Self(hasher.finalize().into())
    }
}

impl Sha1 {
    /// The SHA-1 of `content`.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        Self(sha1::Sha1::digest(content).into())
    }
}

/// Which hash of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum HashKind {
    /// [`Sha1Git`].
    Sha1Git = 0,
    /// [`Sha1`].
    Sha1 = 1,
    /// [`Sha256`].
    Sha256 = 2,
    /// [`Blake2s256`].
    Blake2s256 = 3,
}

impl HashKind {
    /// Every kind, in the order in which they are listed and computed.
    pub const ALL: [Self; 4] = [Self::Sha1Git, Self::Sha1, Self::Sha256, Self::Blake2s256];

    /// The name by which options, columns and messages call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha1Git => "sha1_git",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Blake2s256 => "blake2s256",
        }
    }

    /// Length of such a hash in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Sha1Git => Sha1Git::BYTES,
            Self::Sha1 => Sha1::BYTES,
            Self::Sha256 => Sha256::BYTES,
            Self::Blake2s256 => Blake2s256::BYTES,
        }
    }

    /// The hash of this kind with these raw bytes, if their number is right.
    #[must_use]
    pub fn from_slice(self, bytes: &[u8]) -> Option<ContentHash> {
        match self {
            Self::Sha1Git => Sha1Git::from_slice(bytes).map(ContentHash::Sha1Git),
            Self::Sha1 => Sha1::from_slice(bytes).map(ContentHash::Sha1),
            Self::Sha256 => Sha256::from_slice(bytes).map(ContentHash::Sha256),
            Self::Blake2s256 => Blake2s256::from_slice(bytes).map(ContentHash::Blake2s256),
        }
    }

    /// The hash of this kind written as these hex digits.
    pub fn parse_hex(self, text: &str) -> Result<ContentHash> {
        Ok(match self {
            Self::Sha1Git => ContentHash::Sha1Git(text.parse()?),
            Self::Sha1 => ContentHash::Sha1(text.parse()?),
            Self::Sha256 => ContentHash::Sha256(text.parse()?),
            Self::Blake2s256 => ContentHash::Blake2s256(text.parse()?),
        })
    }

    /// The hash of this kind of `content`.
    #[must_use]
    pub fn of(self, content: &[u8]) -> ContentHash {
        match self {
            Self::Sha1Git => ContentHash::Sha1Git(Sha1Git::of(content)),
            Self::Sha1 => ContentHash::Sha1(Sha1::of(content)),
            Self::Sha256 => ContentHash::Sha256(Sha256(sha2::Sha256::digest(content).into())),
            Self::Blake2s256 => {
                ContentHash::Blake2s256(Blake2s256(blake2::Blake2s256::digest(content).into()))
            }
        }
    }
}

impl fmt::Display for HashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for HashKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| {
            Error::invalid_input(format!(
                "unknown hash kind {}",
                crate::text::quote(text.as_bytes())
            ))
            .with_remedy("use one of sha1_git, sha1, sha256, blake2s256")
        })
    }
}

/// A hash of one of the four kinds. Shown and parsed as `kind:hex`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContentHash {
    /// A git blob id.
    Sha1Git(Sha1Git),
    /// SHA-1 of the content alone.
    Sha1(Sha1),
    /// SHA-256.
    Sha256(Sha256),
    /// BLAKE2s, 32 bytes.
    Blake2s256(Blake2s256),
}

impl ContentHash {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> HashKind {
        match self {
            Self::Sha1Git(_) => HashKind::Sha1Git,
            Self::Sha1(_) => HashKind::Sha1,
            Self::Sha256(_) => HashKind::Sha256,
            Self::Blake2s256(_) => HashKind::Blake2s256,
        }
    }

    /// The raw bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Sha1Git(hash) => &hash.0,
            Self::Sha1(hash) => &hash.0,
            Self::Sha256(hash) => &hash.0,
            Self::Blake2s256(hash) => &hash.0,
        }
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.kind())?;
        hex::write(f, self.as_bytes())
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ContentHash {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((kind, digits)) = text.split_once(':') else {
            return Err(Error::invalid_input(format!(
                "malformed hash {}: expected kind:hex",
                crate::text::quote(text.as_bytes())
            ))
            .with_remedy("write for example sha1_git:b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"));
        };
        kind.parse::<HashKind>()?.parse_hex(digits)
    }
}
