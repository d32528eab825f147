//! A SWHID with qualifiers: where its object was seen, and which part of it is meant.
//!
//! ```text
//! swh:1:cnt:<hex>;origin=<url>;visit=<snp>;anchor=<dir|rev|rel|snp>;path=</...>;lines=9-15;bytes=..
//! ```
//!
//! Decisions where texts in the wild differ:
//! 1. Qualifiers may come in any order; they are written in the order above.
//! 2. A qualifier that the standard does not define, one given twice, and an empty one are refused:
//!    keeping them would let two spellings of one identifier compare as different.
//! 3. Every `%XX` in an origin or path is decoded. When written, `%`, `;`, what is not UTF-8, and
//!    what cannot be seen are encoded, spaces too.
//! 4. `lines` and `bytes` name parts of a content, so they are refused on other objects.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use ppc_engine::{Error, Result};

use super::{ObjectType, Swhid, malformed, parse_core};
use crate::text::{Escaped, quote, unescape};

/// A SWHID with its qualifiers, of which there may be none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QualifiedSwhid {
    /// The identifier itself.
    pub core: Swhid,
    /// Where it was seen and which part is meant.
    pub qualifiers: Qualifiers,
}

/// The qualifiers of a SWHID.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Qualifiers {
    /// URL of the place where the object was found.
    pub origin: Option<String>,
    /// The snapshot of that origin.
    pub visit: Option<Swhid>,
    /// The object that `path` starts from: a directory, revision, release or snapshot.
    pub anchor: Option<Swhid>,
    /// Absolute path of the object below the anchor. Names are bytes.
    pub path: Option<Vec<u8>>,
    /// Lines of a content, the first being 1.
    pub lines: Option<Fragment>,
    /// Bytes of a content, the first being 0.
    pub bytes: Option<Fragment>,
}

/// One position, or a range with both ends in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// The first position.
    pub first: u64,
    /// The last position, if a range was given.
    pub last: Option<u64>,
}

impl From<Swhid> for QualifiedSwhid {
    fn from(core: Swhid) -> Self {
        Self {
            core,
            qualifiers: Qualifiers::default(),
        }
    }
}

impl FromStr for QualifiedSwhid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).map_err(|reason| malformed(text, &reason))
    }
}

fn parse(text: &str) -> Result<QualifiedSwhid, String> {
    let mut parts = text.split(';');
    let core = parse_core(parts.next().unwrap_or_default())?;
    let mut qualifiers = Qualifiers::default();
    for part in parts {
        let Some((name, value)) = part.split_once('=') else {
            return Err(format!("qualifier {} has no \"=\"", quote(part.as_bytes())));
        };
        if value.is_empty() {
            return Err(format!("qualifier {} is empty", quote(name.as_bytes())));
        }
        let given_before = match name {
            "origin" => qualifiers.origin.replace(parse_origin(value)?).is_some(),
            "visit" => qualifiers.visit.replace(parse_visit(value)?).is_some(),
            "anchor" => qualifiers.anchor.replace(parse_anchor(value)?).is_some(),
            "path" => qualifiers.path.replace(parse_path(value)?).is_some(),
            "lines" => {
                let lines = parse_fragment(core, name, value, 1)?;
                qualifiers.lines.replace(lines).is_some()
            }
            "bytes" => {
                let bytes = parse_fragment(core, name, value, 0)?;
                qualifiers.bytes.replace(bytes).is_some()
            }
            _ => {
                return Err(format!(
                    "qualifier {} is none of origin, visit, anchor, path, lines, bytes",
                    quote(name.as_bytes())
                ));
            }
        };
        if given_before {
            return Err(format!("qualifier {name:?} is given twice"));
        }
    }
    Ok(QualifiedSwhid { core, qualifiers })
}

fn parse_escaped<'a>(name: &str, value: &'a str) -> Result<Cow<'a, [u8]>, String> {
    unescape(value.as_bytes())
        .ok_or_else(|| format!("{name} has a \"%\" that two hex digits do not follow"))
}

fn parse_origin(value: &str) -> Result<String, String> {
    String::from_utf8(parse_escaped("origin", value)?.into_owned())
        .map_err(|_| "origin is not UTF-8 once decoded".to_owned())
}

fn parse_visit(value: &str) -> Result<Swhid, String> {
    let visit = parse_core(value).map_err(|reason| format!("in visit, {reason}"))?;
    if visit.object_type != ObjectType::Snapshot {
        return Err("visit must be a snapshot, swh:1:snp:...".to_owned());
    }
    Ok(visit)
}

fn parse_anchor(value: &str) -> Result<Swhid, String> {
    let anchor = parse_core(value).map_err(|reason| format!("in anchor, {reason}"))?;
    if anchor.object_type == ObjectType::Content {
        return Err("anchor must be a directory, revision, release or snapshot".to_owned());
    }
    Ok(anchor)
}

fn parse_path(value: &str) -> Result<Vec<u8>, String> {
    let path = parse_escaped("path", value)?.into_owned();
    if path.first() != Some(&b'/') {
        return Err("path does not begin with \"/\"".to_owned());
    }
    Ok(path)
}

fn parse_fragment(core: Swhid, name: &str, value: &str, smallest: u64) -> Result<Fragment, String> {
    if core.object_type != ObjectType::Content {
        return Err(format!("{name} can only be given for a content"));
    }
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse::<u64>().ok().filter(|_| is_number);
        number.filter(|number| *number >= smallest).ok_or_else(|| {
            format!(
                "{name} {} is neither a number nor two with \"-\" between, from {smallest} up",
                quote(value.as_bytes())
            )
        })
    };
    let (first, last) = match value.split_once('-') {
        None => (number(value)?, None),
        Some((first, last)) => (number(first)?, Some(number(last)?)),
    };
    if last.is_some_and(|last| last < first) {
        return Err(format!("{name} {value} ends before it begins"));
    }
    Ok(Fragment { first, last })
}

impl fmt::Display for QualifiedSwhid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |bytes| Escaped {
            bytes,
            also: &[';', ' '],
        };
        write!(f, "{}", self.core)?;
        let qualifiers = &self.qualifiers;
        if let Some(origin) = &qualifiers.origin {
            write!(f, ";origin={}", escaped(origin.as_bytes()))?;
        }
        if let Some(visit) = &qualifiers.visit {
            write!(f, ";visit={visit}")?;
        }
        if let Some(anchor) = &qualifiers.anchor {
            write!(f, ";anchor={anchor}")?;
        }
        if let Some(path) = &qualifiers.path {
            write!(f, ";path={}", escaped(path))?;
        }
        if let Some(lines) = &qualifiers.lines {
            write!(f, ";lines={lines}")?;
        }
        if let Some(bytes) = &qualifiers.bytes {
            write!(f, ";bytes={bytes}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        match self.last {
            Some(last) => write!(f, "-{last}"),
            None => Ok(()),
        }
    }
}
