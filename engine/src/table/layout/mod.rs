//! Layouts: how a table's values become frames, and how a frame gives a value back.
//!
//! The writer side is [`LayoutWriter`]: values come in key order, raw frames go out to a
//! [`FrameSink`], and when all is done the layout says where each value went. It need not decide
//! at once, nor keep the order of keys: keys wait (see `table::spool`) until it has. Frames are
//! numbered in the order they are handed out, which is their order in the file.
//!
//! The reader side is [`ValueSource`]: from a frame's ordinal to its raw bytes, however many
//! frames that takes to decode.
//!
//! | layout | frame | decodes for one value |
//! |---|---|---|
//! | blocks | values in key order up to a size; a longer value alone | that one frame |

mod blocks;

use bytes::Bytes;

use crate::error::Result;
use crate::options::Layout;

use self::blocks::BlocksWriter;
use super::key_block::FramePlace;

/// Takes raw frames in the order of their ordinals.
pub(crate) trait FrameSink {
    /// Takes the next frame and returns its ordinal.
    fn push(&mut self, frame: RawFrame) -> Result<u32>;
}

/// A frame before compression.
#[derive(Debug)]
pub(crate) struct RawFrame {
    pub(crate) bytes: Bytes,
    /// The lengths of the values in it: what a dictionary is trained on.
    pub(crate) value_lens: Vec<u32>,
}

/// The writer side of any layout.
#[derive(Debug)]
pub(crate) enum LayoutWriter {
    Blocks(BlocksWriter),
}

impl LayoutWriter {
    pub(crate) fn new(layout: Layout) -> Self {
        match layout {
            Layout::Blocks { bytes } => Self::Blocks(BlocksWriter::new(bytes)),
        }
    }

    /// Takes the next value in key order.
    pub(crate) fn add(&mut self, value: Bytes, sink: &mut dyn FrameSink) -> Result<()> {
        match self {
            Self::Blocks(blocks) => blocks.add(value, sink),
        }
    }

    /// Hands out what is left, then says where each value went, in the order they came.
    pub(crate) fn finish(self, sink: &mut dyn FrameSink) -> Result<Vec<FramePlace>> {
        match self {
            Self::Blocks(blocks) => blocks.finish(sink),
        }
    }

    /// Bytes held.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Blocks(blocks) => blocks.memory_bytes(),
        }
    }
}
