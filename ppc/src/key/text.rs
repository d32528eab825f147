//! Keys as text: `ext.stem.swh:1:cnt:<hex>`, as in `h.doxygen.swh:1:cnt:b6fc4c62...`.
//!
//! The text is read from its end: the SWHID has a fixed length, and before it the first dot ends
//! the extension, which holds none. A name without extension starts with the dot
//! (`.Makefile.swh:1:cnt:...`). `%` and every byte that is not part of printable UTF-8 is written
//! `%XX`, so a text is one line, safe to show and to copy; when read, any byte may be so written.
//!
//! So are two beginnings by which a text would be taken for something else: the colon of an extension
//! that begins with `swh:`, as a SWHID does, and a blank, which is cut off an id on a command line.

use std::fmt;
use std::str::FromStr;

use ppc_engine::{Error, Result};

use super::{PpcKey, join_name, split_name};
use crate::swhid::Swhid;
use crate::text::{Escaped, quote, unescape};

impl fmt::Display for PpcKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ext, stem) = split_name(self.name());
        let escaped = |bytes| Escaped { bytes, also: &[] };
        let (beginning, ext) = match ext {
            [b's', b'w', b'h', b':', rest @ ..] => ("swh%3A", rest),
            [b' ', rest @ ..] => ("%20", rest),
            _ => ("", ext),
        };
        write!(
            f,
            "{beginning}{}.{}.{}",
            escaped(ext),
            escaped(stem),
            self.swhid()
        )
    }
}

impl FromStr for PpcKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let malformed = |reason: &str| {
            Error::invalid_input(format!(
                "malformed key {}: {reason}",
                quote(text.as_bytes())
            ))
            .with_remedy("a key is written ext.stem.swh:1:cnt:<40 hex digits>")
        };
        let swhid_at = text.len().checked_sub(Swhid::TEXT_BYTES);
        let Some((names, swhid)) = swhid_at.and_then(|at| text.split_at_checked(at)) else {
            return Err(malformed("it does not end in a SWHID"));
        };
        let swhid: Swhid = swhid
            .parse()
            .map_err(|_| malformed("it does not end in a SWHID"))?;
        let hash = swhid.content_hash()?;
        let Some(names) = names.strip_suffix('.') else {
            return Err(malformed("no dot precedes the SWHID"));
        };
        let Some((ext, stem)) = names.split_once('.') else {
            return Err(malformed("no dot ends the extension"));
        };
        let (Some(ext), Some(stem)) = (unescape(ext.as_bytes()), unescape(stem.as_bytes())) else {
            return Err(malformed("a \"%\" is not followed by two hex digits"));
        };
        let Some(name) = join_name(&ext, &stem) else {
            return Err(malformed("no file name falls into this extension and stem"));
        };
        Self::new(name, hash)
    }
}
