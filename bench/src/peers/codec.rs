//! Names of compression, as the paper writes them.

use std::fmt;
use std::str::FromStr;

/// Compression and its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Codec {
    /// Values as they are.
    None,
    /// zstd at a level from 1 to 22, or negative.
    Zstd(i32),
    /// zlib at a level from 1 to 9.
    Zlib(i32),
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Zstd(level) => write!(f, "zstd-{level}"),
            Self::Zlib(level) => write!(f, "zlib-{level}"),
            Self::Snappy => f.write_str("snappy"),
            Self::Lz4 => f.write_str("lz4"),
        }
    }
}

impl FromStr for Codec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let level = |digits: &str| digits.parse::<i32>().ok();
        let codec = match text.split_once('-') {
            None => match text {
                "none" => Some(Self::None),
                "snappy" => Some(Self::Snappy),
                "lz4" => Some(Self::Lz4),
                _ => None,
            },
            Some(("zstd", digits)) => level(digits).map(Self::Zstd),
            Some(("zlib", digits)) => level(digits).map(Self::Zlib),
            Some(_) => None,
        };
        codec.ok_or_else(|| {
            format!("{text:?} is no codec; write none, snappy, lz4, zlib-6 or zstd-3")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["none", "zstd-3", "zstd--5", "zlib-6", "snappy", "lz4"] {
            assert_eq!(name.parse::<Codec>().unwrap().to_string(), name);
        }
        for wrong in ["", "zstd", "zstd-x", "lz4-1", "brotli-3"] {
            assert!(wrong.parse::<Codec>().is_err(), "{wrong}");
        }
    }
}
