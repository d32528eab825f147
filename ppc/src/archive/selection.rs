//! Which contents an operation concerns.

use ppc_engine::KeyRange;

use crate::Result;
use crate::key::{prefix_of_ext, prefix_of_name, prefix_of_stem_start};

/// A range of contents in key order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Selection {
    /// Every content.
    #[default]
    All,
    /// Those whose file name has this extension; empty for names without one.
    Ext(Vec<u8>),
    /// Those with this file name.
    Name(Vec<u8>),
    /// Those with this extension and a stem that begins so.
    StemStart {
        /// The extension.
        ext: Vec<u8>,
        /// What the stem begins with.
        stem_start: Vec<u8>,
    },
}

impl Selection {
    /// The binary keys selected. Fails on an extension that no name has.
    pub fn key_range(&self) -> Result<KeyRange> {
        Ok(match self {
            Self::All => KeyRange::all(),
            Self::Ext(ext) => KeyRange::prefix(&prefix_of_ext(ext)?),
            Self::Name(name) => KeyRange::prefix(&prefix_of_name(name)),
            Self::StemStart { ext, stem_start } => {
                KeyRange::prefix(&prefix_of_stem_start(ext, stem_start)?)
            }
        })
    }
}
