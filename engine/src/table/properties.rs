//! The properties section: how a table was built and what is in it.
//!
//! A list of `tag varint │ value`, where an even tag's value is a varint and an odd tag's is a
//! length and bytes. A reader skips tags it does not know, so properties can be added without a
//! new format version; what a reader must not ignore needs one.

use super::census::FrameCensus;
use crate::coding::{Cursor, put_bytes, put_varint};
use crate::error::Result;
use crate::options::{Compression, FilterPolicy, Layout, put_layout, take_layout, unknown};
use crate::types::{KeyspaceId, SeqNo};

/// The keyspace that a table was written for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnerKeyspace {
    /// Its id in the store that wrote the table.
    pub id: KeyspaceId,
    /// Its name.
    pub name: String,
}

/// How a table was built and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableProperties {
    /// How values became frames.
    pub layout: Layout,
    /// How frames were compressed.
    pub compression: Compression,
    /// Which filter was asked for; a table without keys has none.
    pub filter: FilterPolicy,
    /// Entries: values and deletes.
    pub entries: u64,
    /// Entries that are deletes.
    pub tombstones: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
    /// Entries of a key that a newer entry of the table has too: versions that compaction may drop.
    /// None in tables of builds that did not count them.
    pub repeated_keys: Option<u64>,
    /// Bytes of all keys.
    pub raw_key_bytes: u64,
    /// Bytes of all values.
    pub raw_value_bytes: u64,
    /// Bytes of the values that sit in key blocks; part of `raw_value_bytes`.
    pub inline_value_bytes: u64,
    /// Frames.
    pub frames: u64,
    /// Frames stored as they are, because compression gained less than an eighth.
    pub raw_frames: u64,
    /// Bytes of all frames in the file, with their headers.
    pub stored_value_bytes: u64,
    /// Key blocks.
    pub key_blocks: u64,
    /// Bytes of key blocks and key index.
    pub key_area_bytes: u64,
    /// Bytes of the filter.
    pub filter_bytes: u64,
    /// Bytes of the dictionary.
    pub dictionary_bytes: u64,
    /// Frames that are decoded with the help of a base.
    pub follower_frames: u64,
    /// Bytes of the values that lie in frames and were never planned together with all others: those
    /// that merges added while they copied the rest.
    pub unplanned_value_bytes: u64,
    /// The frames by kind; none in tables of builds that did not count them.
    pub census: Option<FrameCensus>,
    /// Smallest key of the entries; empty if there are none.
    pub smallest: Vec<u8>,
    /// Largest key of the entries.
    pub largest: Vec<u8>,
    /// Smallest sequence number, as stored.
    pub seq_min: SeqNo,
    /// Largest sequence number, as stored.
    pub seq_max: SeqNo,
    /// The program that wrote the table.
    pub created_by: String,
    /// The keyspace it was written for, where its writer knew. Only salvages go by it: the
    /// manifest says whose a table is.
    pub keyspace: Option<OwnerKeyspace>,
    /// The table was built outside the store's history, by a bulk load or for an ingest: its
    /// sequence numbers are 0, and its place in the history stands in the manifest only.
    pub outside_history: bool,
}

impl Default for TableProperties {
    fn default() -> Self {
        Self {
            layout: Layout::Blocks { bytes: 0 },
            compression: Compression::None,
            filter: FilterPolicy::None,
            entries: 0,
            tombstones: 0,
            range_tombstones: 0,
            repeated_keys: None,
            raw_key_bytes: 0,
            raw_value_bytes: 0,
            inline_value_bytes: 0,
            frames: 0,
            raw_frames: 0,
            stored_value_bytes: 0,
            key_blocks: 0,
            key_area_bytes: 0,
            filter_bytes: 0,
            dictionary_bytes: 0,
            follower_frames: 0,
            unplanned_value_bytes: 0,
            census: None,
            smallest: Vec::new(),
            largest: Vec::new(),
            seq_min: SeqNo::ZERO,
            seq_max: SeqNo::ZERO,
            created_by: concat!("ppc-engine ", env!("CARGO_PKG_VERSION")).to_owned(),
            keyspace: None,
            outside_history: false,
        }
    }
}

const TAG_LAYOUT: u64 = 1;
const TAG_COMPRESSION: u64 = 3;
const TAG_FILTER: u64 = 2;
const TAG_REPEATED_KEYS: u64 = 0;
const TAG_SMALLEST: u64 = 5;
const TAG_LARGEST: u64 = 7;
const TAG_CREATED_BY: u64 = 9;
const TAG_KEYSPACE: u64 = 11;
const TAG_OUTSIDE_HISTORY: u64 = 13;
const TAG_CENSUS: u64 = 15;
/// Counts follow each other at even tags from here on, in the order of [`counts`].
const TAG_COUNTS: u64 = 4;

impl TableProperties {
    /// The numbers, in the order of their tags.
    fn counts(&mut self) -> [&mut u64; 17] {
        [
            &mut self.entries,
            &mut self.tombstones,
            &mut self.range_tombstones,
            &mut self.raw_key_bytes,
            &mut self.raw_value_bytes,
            &mut self.inline_value_bytes,
            &mut self.frames,
            &mut self.raw_frames,
            &mut self.stored_value_bytes,
            &mut self.key_blocks,
            &mut self.key_area_bytes,
            &mut self.filter_bytes,
            &mut self.dictionary_bytes,
            &mut self.seq_min.0,
            &mut self.seq_max.0,
            &mut self.follower_frames,
            &mut self.unplanned_value_bytes,
        ]
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128);
        let mut section = |tag, value: &[u8]| {
            put_varint(&mut bytes, tag);
            put_bytes(&mut bytes, value);
        };
        let mut layout = Vec::new();
        put_layout(&mut layout, self.layout);
        section(TAG_LAYOUT, &layout);
        section(TAG_COMPRESSION, &encode_compression(self.compression));
        section(TAG_SMALLEST, &self.smallest);
        section(TAG_LARGEST, &self.largest);
        section(TAG_CREATED_BY, self.created_by.as_bytes());
        if let Some(keyspace) = &self.keyspace {
            section(TAG_KEYSPACE, &encode_keyspace(keyspace));
        }
        if self.outside_history {
            section(TAG_OUTSIDE_HISTORY, &[]);
        }
        if let Some(census) = &self.census {
            section(TAG_CENSUS, &census.encode());
        }
        put_varint(&mut bytes, TAG_FILTER);
        put_varint(&mut bytes, filter_code(self.filter));
        if let Some(repeated_keys) = self.repeated_keys {
            put_varint(&mut bytes, TAG_REPEATED_KEYS);
            put_varint(&mut bytes, repeated_keys);
        }
        for (tag, count) in (TAG_COUNTS..).step_by(2).zip(self.clone().counts()) {
            put_varint(&mut bytes, tag);
            put_varint(&mut bytes, *count);
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut properties = Self::default();
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            let tag = cursor.varint("property tag")?;
            if tag.is_multiple_of(2) {
                let value = cursor.varint("property value")?;
                properties.set_number(tag, value)?;
            } else {
                let value = cursor.bytes("property value")?;
                properties.set_bytes(tag, value)?;
            }
        }
        Ok(properties)
    }

    fn set_number(&mut self, tag: u64, value: u64) -> Result<()> {
        if tag == TAG_FILTER {
            self.filter = filter_from_code(value)?;
        } else if tag == TAG_REPEATED_KEYS {
            self.repeated_keys = Some(value);
        } else if let Some(index) = tag.checked_sub(TAG_COUNTS).map(|distance| distance / 2) {
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            if let Some(count) = self.counts().get_mut(index) {
                **count = value;
            }
        }
        Ok(())
    }

    fn set_bytes(&mut self, tag: u64, value: &[u8]) -> Result<()> {
        match tag {
            TAG_LAYOUT => self.layout = take_layout(&mut Cursor::new(value))?,
            TAG_COMPRESSION => self.compression = decode_compression(value)?,
            TAG_SMALLEST => self.smallest = value.to_vec(),
            TAG_LARGEST => self.largest = value.to_vec(),
            TAG_CREATED_BY => self.created_by = String::from_utf8_lossy(value).into_owned(),
            TAG_OUTSIDE_HISTORY => self.outside_history = true,
            TAG_CENSUS => self.census = Some(FrameCensus::decode(value)?),
            TAG_KEYSPACE => self.keyspace = Some(decode_keyspace(value)?),
            _ => {}
        }
        Ok(())
    }
}

fn encode_keyspace(keyspace: &OwnerKeyspace) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, u64::from(keyspace.id.0));
    bytes.extend_from_slice(keyspace.name.as_bytes());
    bytes
}

fn decode_keyspace(bytes: &[u8]) -> Result<OwnerKeyspace> {
    let mut cursor = Cursor::new(bytes);
    Ok(OwnerKeyspace {
        id: KeyspaceId(cursor.varint_u32("keyspace id")?),
        name: String::from_utf8_lossy(cursor.rest()).into_owned(),
    })
}

fn encode_compression(compression: Compression) -> Vec<u8> {
    let mut bytes = Vec::new();
    match compression {
        Compression::None => bytes.push(1),
        Compression::Zstd { level } => {
            bytes.push(2);
            bytes.extend_from_slice(&level.to_le_bytes());
        }
    }
    bytes
}

fn decode_compression(bytes: &[u8]) -> Result<Compression> {
    let mut cursor = Cursor::new(bytes);
    match cursor.u8("compression code")? {
        1 => Ok(Compression::None),
        2 => Ok(Compression::Zstd {
            level: cursor.u32("compression level")?.cast_signed(),
        }),
        other => Err(unknown("compression", u64::from(other))),
    }
}

fn filter_code(filter: FilterPolicy) -> u64 {
    match filter {
        FilterPolicy::None => 1,
        FilterPolicy::Fuse8 => 2,
        FilterPolicy::Fuse16 => 3,
    }
}

fn filter_from_code(code: u64) -> Result<FilterPolicy> {
    match code {
        1 => Ok(FilterPolicy::None),
        2 => Ok(FilterPolicy::Fuse8),
        3 => Ok(FilterPolicy::Fuse16),
        other => Err(unknown("filter", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn properties_round_trip_and_unknown_ones_are_skipped() {
        let mut properties = TableProperties {
            layout: Layout::Blocks { bytes: 4096 },
            compression: Compression::Zstd { level: -7 },
            filter: FilterPolicy::Fuse16,
            smallest: b"a".to_vec(),
            largest: vec![0xff; 300],
            keyspace: Some(OwnerKeyspace {
                id: KeyspaceId(300),
                name: "files".to_owned(),
            }),
            outside_history: true,
            repeated_keys: Some(7),
            census: Some(FrameCensus::default()),
            ..TableProperties::default()
        };
        for (index, count) in properties.counts().into_iter().enumerate() {
            *count = 1 << (3 * index);
        }
        let mut bytes = properties.encode();
        put_varint(&mut bytes, 1000);
        put_varint(&mut bytes, 1);
        put_varint(&mut bytes, 1001);
        put_bytes(&mut bytes, b"later");
        assert_eq!(TableProperties::decode(&bytes).unwrap(), properties);
    }

    proptest! {
        #[test]
        fn no_bytes_make_properties_panic(bytes: Vec<u8>) {
            let _ = TableProperties::decode(&bytes);
        }
    }
}
