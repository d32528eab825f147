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
//! | clustered | one value, beside those like it; small lone values together | it and its bases |

mod blocks;
mod clustered;
mod samples;

use bytes::Bytes;

use crate::error::Result;
use crate::options::{Compression, Layout, TableOptions};

use self::blocks::BlocksWriter;
use self::clustered::ClusteredWriter;
pub(crate) use self::clustered::planned_with;
use super::key_block::FramePlace;
pub(crate) use crate::codec::BaseFrame;
use crate::codec::Dictionary;

/// Takes raw frames in the order of their ordinals.
pub(crate) trait FrameSink {
    /// Takes the next frame and returns its ordinal.
    fn push(&mut self, frame: RawFrame) -> Result<u32>;

    /// Takes the table's dictionary from a layout that trains its own, before the first frame.
    fn set_dictionary(&mut self, dictionary: Dictionary) -> Result<()>;
}

/// A frame before compression.
#[derive(Debug)]
pub(crate) struct RawFrame {
    pub(crate) bytes: Bytes,
    /// The lengths of the values in it: what a dictionary is trained on.
    pub(crate) value_lens: Vec<u32>,
    /// The frame whose bytes serve as prefix; pushed before.
    pub(crate) base: Option<BaseFrame>,
}

/// The writer side of any layout.
#[derive(Debug)]
pub(crate) enum LayoutWriter {
    Blocks(BlocksWriter),
    Clustered(Box<ClusteredWriter>),
}

impl LayoutWriter {
    pub(crate) fn new(options: &TableOptions) -> Self {
        match options.layout {
            Layout::Blocks { bytes } => Self::Blocks(BlocksWriter::new(bytes)),
            Layout::Clustered(cluster) => {
                let mut cluster = cluster;
                let mut dictionary_bytes = options.dictionary_bytes;
                if options.compression == Compression::None {
                    // Neither would help anybody.
                    cluster.depth_max = 0;
                    dictionary_bytes = 0;
                }
                Self::Clustered(Box::new(ClusteredWriter::new(cluster, dictionary_bytes)))
            }
        }
    }

    /// Holds back no more than about this many bytes of values at a time.
    pub(crate) fn limit_window(&mut self, bytes: usize) {
        match self {
            Self::Blocks(_) => {}
            Self::Clustered(clustered) => clustered.limit_window(bytes),
        }
    }

    /// The table has its dictionary, or shall have none: trains no other.
    pub(crate) fn train_no_dictionary(&mut self) {
        match self {
            Self::Blocks(_) => {}
            Self::Clustered(clustered) => clustered.train_no_dictionary(),
        }
    }

    /// Takes the next value in key order.
    pub(crate) fn add(&mut self, value: Bytes, sink: &mut dyn FrameSink) -> Result<()> {
        match self {
            Self::Blocks(blocks) => blocks.add(value, sink),
            Self::Clustered(clustered) => clustered.add(value, sink),
        }
    }

    /// Hands out what is left, then says where each value went, in the order they came.
    pub(crate) fn finish(self, sink: &mut dyn FrameSink) -> Result<Vec<FramePlace>> {
        match self {
            Self::Blocks(blocks) => blocks.finish(sink),
            Self::Clustered(clustered) => clustered.finish(sink),
        }
    }

    /// Bytes held.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Blocks(blocks) => blocks.memory_bytes(),
            Self::Clustered(clustered) => clustered.memory_bytes(),
        }
    }
}
