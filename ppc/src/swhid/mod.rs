//! SWHIDs (ISO/IEC 18670, version 1): `swh:1:cnt:<40 lowercase hex>` and their qualifiers.
//!
//! [`Swhid`] is the core identifier, [`QualifiedSwhid`] one with qualifiers. Both parse any text
//! without panicking, and refuse what the standard does not allow: an upper-case or short hash,
//! another scheme or version. Pure; may be used from any thread.

mod qualified;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use ppc_engine::{Error, Result};

use crate::hash::Sha1Git;
use crate::text::quote;

pub use qualified::{Fragment, QualifiedSwhid, Qualifiers};

/// What a SWHID names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectType {
    /// The bytes of a file.
    Content,
    /// A directory tree.
    Directory,
    /// A revision (commit).
    Revision,
    /// A release (tag).
    Release,
    /// A snapshot: all branches of a repository at one time.
    Snapshot,
}

impl ObjectType {
    /// The three letters that stand for it.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Content => "cnt",
            Self::Directory => "dir",
            Self::Revision => "rev",
            Self::Release => "rel",
            Self::Snapshot => "snp",
        }
    }

    fn from_code(code: &str) -> Option<Self> {
        Some(match code {
            "cnt" => Self::Content,
            "dir" => Self::Directory,
            "rev" => Self::Revision,
            "rel" => Self::Release,
            "snp" => Self::Snapshot,
            _ => return None,
        })
    }
}

impl fmt::Display for ObjectType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A core SWHID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Swhid {
    /// What it names.
    pub object_type: ObjectType,
    /// The object's hash; of a content, its git blob id.
    pub hash: Sha1Git,
}

impl Swhid {
    /// Length of the text form, always.
    pub const TEXT_BYTES: usize = 50;

    /// The SWHID of a content with this hash.
    #[must_use]
    pub fn content(hash: Sha1Git) -> Self {
        Self {
            object_type: ObjectType::Content,
            hash,
        }
    }

    /// The hash, if this names a content; else an error that says what it names.
    pub fn content_hash(&self) -> Result<Sha1Git> {
        if self.object_type == ObjectType::Content {
            return Ok(self.hash);
        }
        Err(Error::invalid_input(format!(
            "{self} names no content but a {}",
            format!("{:?}", self.object_type).to_lowercase()
        ))
        .with_remedy("give the SWHID of a file's content, swh:1:cnt:..."))
    }
}

impl fmt::Display for Swhid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "swh:1:{}:{}", self.object_type, self.hash)
    }
}

impl fmt::Debug for Swhid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Swhid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse_core(text).map_err(|reason| malformed(text, &reason))
    }
}

/// The error for a text that is no SWHID, for `reason`.
fn malformed(text: &str, reason: &str) -> Error {
    Error::invalid_input(format!(
        "malformed SWHID {}: {reason}",
        quote(text.as_bytes())
    ))
}

fn parse_core(text: &str) -> Result<Swhid, String> {
    let Some(rest) = text.strip_prefix("swh:") else {
        return Err("it does not begin with \"swh:\"".to_owned());
    };
    let (version, rest) = rest.split_once(':').unwrap_or((rest, ""));
    if version != "1" {
        return Err(format!(
            "version {} is not known, only \"1\" is",
            quote(version.as_bytes())
        ));
    }
    let (code, digits) = rest.split_once(':').unwrap_or((rest, ""));
    let Some(object_type) = ObjectType::from_code(code) else {
        return Err(format!(
            "object type {} is none of cnt, dir, rev, rel, snp",
            quote(code.as_bytes())
        ));
    };
    if digits.contains(';') {
        return Err("qualifiers are not allowed here".to_owned());
    }
    // The standard wants lowercase, so that an identifier has one spelling.
    let is_lower = !digits.bytes().any(|byte| byte.is_ascii_uppercase());
    match crate::hash::decode_hex(digits.as_bytes()) {
        Some(hash) if is_lower => Ok(Swhid {
            object_type,
            hash: Sha1Git(hash),
        }),
        _ => Err(format!(
            "hash {} is not 40 lowercase hex digits",
            quote(digits.as_bytes())
        )),
    }
}
