//! What the benches reach inside this module. See [`crate::benching`].

use std::sync::Arc;

use bytes::Bytes;

use super::filter::{FilterView, build_filter, key_hash};
use super::key_block::{FramePlace, KeyBlock, KeyBlockBuilder, Search, StoredPlace};
use super::unit::{UnitHeader, UnitKind, open_unit};
use super::values::decode_unit;
use crate::codec::{Dictionary, FrameCodec, train};
use crate::error::{Error, Result};
use crate::options::{Compression, FilterPolicy, TableOptions};
use crate::types::{EntryKind, FileId, SeqNo};

const FILE: FileId = FileId(1);

/// Makes and opens frames as a table does: compressed, in a unit with a checksum.
#[derive(Debug, Clone)]
pub struct Frames(FrameCodec);

impl Frames {
    /// Frames of one compression, without a dictionary.
    #[must_use]
    pub fn new(compression: Compression) -> Self {
        Self(FrameCodec::new(&TableOptions {
            compression,
            ..TableOptions::default()
        }))
    }

    /// The same, with a dictionary of at most `dictionary_bytes` trained on these samples; none
    /// if they are too few.
    #[must_use]
    pub fn with_dictionary(
        mut self,
        samples: &[impl AsRef<[u8]>],
        dictionary_bytes: usize,
    ) -> Option<Self> {
        let lengths: Vec<usize> = samples.iter().map(|sample| sample.as_ref().len()).collect();
        let samples: Vec<&[u8]> = samples.iter().map(AsRef::as_ref).collect();
        let dictionary = train(&samples.concat(), &lengths, dictionary_bytes)?;
        self.0.dictionary = Some(Arc::new(dictionary));
        Some(self)
    }

    /// A frame's whole unit, as it lies in a file.
    ///
    /// # Errors
    ///
    /// When zstd fails.
    pub fn encode(&self, raw: Bytes) -> Result<Vec<u8>> {
        let frame = self.0.encode(raw)?;
        let stored = &frame.stored;
        let header = UnitHeader::encode(
            UnitKind::Frame,
            frame.codec,
            0,
            frame.raw_len,
            stored,
            FILE,
            0,
        )?;
        Ok([&header, &stored[..]].concat())
    }

    /// Checks a unit that [`Frames::encode`] made and decodes it into `out`, whose content it
    /// replaces.
    ///
    /// # Errors
    ///
    /// When the unit is damaged or of another codec.
    pub fn decode(&self, unit: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let unit = open_unit(unit, UnitKind::Frame, FILE, 0)?;
        let dictionary: Option<&Dictionary> = self.0.dictionary.as_deref();
        decode_unit(&unit, dictionary, out)
    }
}

/// The hash that filters are built on and probed with.
#[must_use]
pub fn hash_of_key(key: &[u8]) -> u64 {
    key_hash(key)
}

/// A filter's section.
#[derive(Debug, Clone)]
pub struct Filter(Vec<u8>);

impl Filter {
    /// Builds the filter of keys with these hashes; none where a table would do without.
    #[must_use]
    pub fn build(policy: FilterPolicy, hashes: Vec<u64>) -> Option<Self> {
        build_filter(policy, hashes).map(Self)
    }

    /// Opens the section and probes it for each hash; gives how many may be there.
    ///
    /// # Errors
    ///
    /// When the section is damaged.
    pub fn count(&self, hashes: &[u64]) -> Result<usize> {
        let view = FilterView::new(&self.0)?;
        Ok(hashes
            .iter()
            .filter(|&&hash| view.may_contain(hash))
            .count())
    }
}

/// A key block.
#[derive(Debug, Clone)]
pub struct SortedKeys {
    bytes: Vec<u8>,
    count: usize,
}

impl SortedKeys {
    /// Takes sorted keys as far as they fit into `block_bytes`, each the key of a frame of its own.
    ///
    /// # Errors
    ///
    /// When a block would exceed the format's limits.
    pub fn build(keys: &[impl AsRef<[u8]>], block_bytes: usize) -> Result<Self> {
        let mut builder = KeyBlockBuilder::default();
        let mut count: u32 = 0;
        for key in keys {
            if builder.len() >= block_bytes {
                break;
            }
            let place = StoredPlace::Frame(FramePlace {
                frame: count,
                offset: 0,
                len: 1,
            });
            builder.add(key.as_ref(), SeqNo(1), EntryKind::Put, place)?;
            count += 1;
        }
        Ok(Self {
            bytes: builder.finish(),
            count: count as usize,
        })
    }

    /// How many of the keys are in the block.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The ordinal of the key's frame; none if the block does not hold it.
    ///
    /// # Errors
    ///
    /// When the block is damaged.
    pub fn search(&self, key: &[u8]) -> Result<Option<u32>> {
        match KeyBlock::new(&self.bytes)?.search(key, SeqNo::MAX)? {
            Search::Found(entry) => match entry.place {
                StoredPlace::Frame(place) => Ok(Some(place.frame)),
                StoredPlace::Inline(_) => Err(Error::corruption("a value is inline")),
            },
            Search::Absent | Search::Beyond => Ok(None),
        }
    }
}
