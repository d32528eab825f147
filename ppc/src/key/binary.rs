//! Keys as bytes that order like (extension, stem, hash), and the prefixes that group them.
//!
//! ```text
//! ┌───────────────────┬────┬──────────────┬────┬──────────────────┐
//! │ escaped extension │ 00 │ escaped stem │ 00 │ sha1_git (20)    │
//! └───────────────────┴────┴──────────────┴────┴──────────────────┘
//!   escaped: 00 -> 01 01, 01 -> 01 02, any other byte as it is
//! ```
//!
//! The terminator 00 is smaller than every byte that can follow in its place, so a part that is a
//! prefix of another comes first; 00 < 01 < the rest also holds of the escaped bytes. File names
//! hardly ever contain 00 or 01, so a key costs its name and 22 bytes, less the dot.

use bytes::Bytes;
use ppc_engine::{Error, KEY_BYTES_MAX, Result};

use super::{PpcKey, join_name, split_name};
use crate::hash::Sha1Git;
use crate::text::quote;

const TERMINATOR: u8 = 0;
const ESCAPE: u8 = 1;
/// What follows [`ESCAPE`] for a 00, and one more for a 01.
const ESCAPED_ZERO: u8 = 1;
const ESCAPED_ONE: u8 = 2;

impl PpcKey {
    /// The binary form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(self.name.len() + 1 + Sha1Git::BYTES + 8);
        self.encode_into(&mut encoded);
        encoded
    }

    /// Appends the binary form to `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let (ext, stem) = split_name(&self.name);
        escape_into(out, ext);
        out.push(TERMINATOR);
        escape_into(out, stem);
        out.push(TERMINATOR);
        out.extend_from_slice(self.hash.as_bytes());
    }

    /// The key with this binary form. Any bytes may be given; those of no key are a corruption
    /// error.
    pub fn decode(encoded: &[u8]) -> Result<Self> {
        decode(encoded).ok_or_else(|| {
            Error::corruption(format!(
                "key {} of {} bytes is no PPC key",
                quote(encoded),
                encoded.len()
            ))
        })
    }
}

fn decode(encoded: &[u8]) -> Option<PpcKey> {
    if encoded.len() > KEY_BYTES_MAX {
        return None;
    }
    let (names, hash) = encoded.split_at_checked(encoded.len().checked_sub(Sha1Git::BYTES)?)?;
    let (ext, rest) = unescape_part(names)?;
    let (stem, rest) = unescape_part(rest)?;
    if !rest.is_empty() {
        return None;
    }
    Some(PpcKey {
        name: Bytes::from(join_name(&ext, &stem)?),
        hash: Sha1Git::from_slice(hash)?,
    })
}

/// Prefix of the keys whose extension is `ext`; empty for names without one.
///
/// Fails if it holds a dot, since then no name has it.
pub fn prefix_of_ext(ext: &[u8]) -> Result<Vec<u8>> {
    if ext.contains(&b'.') {
        return Err(
            Error::invalid_input(format!("extension {} holds a dot", quote(ext)))
                .with_remedy("give what follows the last dot of the file names, as in \"gz\""),
        );
    }
    let mut prefix = Vec::with_capacity(ext.len() + 1);
    escape_into(&mut prefix, ext);
    prefix.push(TERMINATOR);
    Ok(prefix)
}

/// Prefix of the keys whose file name is `name`.
#[must_use]
pub fn prefix_of_name(name: &[u8]) -> Vec<u8> {
    let (ext, stem) = split_name(name);
    let mut prefix = Vec::with_capacity(name.len() + 2);
    escape_into(&mut prefix, ext);
    prefix.push(TERMINATOR);
    escape_into(&mut prefix, stem);
    prefix.push(TERMINATOR);
    prefix
}

/// Prefix of the keys whose extension is `ext` and whose stem begins with `stem_start`.
pub fn prefix_of_stem_start(ext: &[u8], stem_start: &[u8]) -> Result<Vec<u8>> {
    let mut prefix = prefix_of_ext(ext)?;
    escape_into(&mut prefix, stem_start);
    Ok(prefix)
}

/// Length of the binary form of a key with this name.
pub(super) fn encoded_bytes(name: &[u8]) -> usize {
    let (ext, stem) = split_name(name);
    let escapes = name.iter().filter(|byte| **byte <= ESCAPE).count();
    ext.len() + stem.len() + escapes + 2 + Sha1Git::BYTES
}

fn escape_into(out: &mut Vec<u8>, part: &[u8]) {
    for &byte in part {
        match byte {
            TERMINATOR => out.extend_from_slice(&[ESCAPE, ESCAPED_ZERO]),
            ESCAPE => out.extend_from_slice(&[ESCAPE, ESCAPED_ONE]),
            _ => out.push(byte),
        }
    }
}

/// The part up to the terminator, and what follows that.
fn unescape_part(encoded: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let end = encoded.iter().position(|byte| *byte == TERMINATOR)?;
    let (escaped, rest) = encoded.split_at(end);
    let mut part = Vec::with_capacity(escaped.len());
    let mut bytes = escaped.iter().copied();
    while let Some(byte) = bytes.next() {
        part.push(match byte {
            ESCAPE => match bytes.next()? {
                ESCAPED_ZERO => TERMINATOR,
                ESCAPED_ONE => ESCAPE,
                _ => return None,
            },
            _ => byte,
        });
    }
    Some((part, rest.get(1..)?))
}
