//! Keyspace options as bytes.
//!
//! ```text
//! options = version 1 | level{7} | table_bytes_target v | base_level_bytes v
//!           | level_multiplier v | tombstone_percent_trigger 1
//! level   = layout | compression | dictionary_bytes v | filter 1 | key_block_bytes v
//!           | inline_value_bytes_max v
//! layout  = see `options::layout_codec`
//! compression = 1                            none
//!             | 2 level v (zigzag)           zstd
//! filter  = 1 none | 2 fuse8 | 3 fuse16
//! ```
//!
//! `v` is a varint. A tag that is not listed is the mark of a newer release, not of damage: the
//! record's checksum has been verified by then.

use crate::coding::{Cursor, put_varint};
use crate::error::{Error, Result};
use crate::options::{
    Compression, FilterPolicy, KeyspaceOptions, LEVEL_COUNT, TableOptions, put_layout, take_layout,
    unknown, unzigzag, zigzag,
};

const VERSION: u8 = 1;

const COMPRESSION_NONE: u8 = 1;
const COMPRESSION_ZSTD: u8 = 2;

const FILTER_NONE: u8 = 1;
const FILTER_FUSE8: u8 = 2;
const FILTER_FUSE16: u8 = 3;

/// Appends the options.
pub(super) fn put_options(out: &mut Vec<u8>, options: &KeyspaceOptions) {
    out.push(VERSION);
    for level in &options.levels {
        put_table_options(out, level);
    }
    put_varint(out, options.table_bytes_target);
    put_varint(out, options.base_level_bytes);
    put_varint(out, u64::from(options.level_multiplier));
    out.push(options.tombstone_percent_trigger);
}

/// Reads what [`put_options`] appended, and checks the values' ranges.
pub(super) fn take_options(cursor: &mut Cursor<'_>) -> Result<KeyspaceOptions> {
    let version = cursor.u8("options version")?;
    if version != VERSION {
        return Err(unknown("keyspace options version", version.into()));
    }
    let mut options = KeyspaceOptions::default();
    debug_assert_eq!(options.levels.len(), LEVEL_COUNT);
    for level in &mut options.levels {
        *level = take_table_options(cursor)?;
    }
    options.table_bytes_target = cursor.varint("table_bytes_target")?;
    options.base_level_bytes = cursor.varint("base_level_bytes")?;
    options.level_multiplier = cursor.varint_u32("level_multiplier")?;
    options.tombstone_percent_trigger = cursor.u8("tombstone_percent_trigger")?;
    options.validate().map_err(|error| {
        Error::corruption(format!(
            "keyspace options are out of range: {}",
            error.message()
        ))
    })?;
    Ok(options)
}

fn put_table_options(out: &mut Vec<u8>, options: &TableOptions) {
    put_layout(out, options.layout);
    match options.compression {
        Compression::None => out.push(COMPRESSION_NONE),
        Compression::Zstd { level } => {
            out.push(COMPRESSION_ZSTD);
            put_varint(out, zigzag(level));
        }
    }
    put_varint(out, u64::from(options.dictionary_bytes));
    out.push(match options.filter {
        FilterPolicy::None => FILTER_NONE,
        FilterPolicy::Fuse8 => FILTER_FUSE8,
        FilterPolicy::Fuse16 => FILTER_FUSE16,
    });
    put_varint(out, u64::from(options.key_block_bytes));
    put_varint(out, u64::from(options.inline_value_bytes_max));
}

fn take_table_options(cursor: &mut Cursor<'_>) -> Result<TableOptions> {
    let layout = take_layout(cursor)?;
    let compression = match cursor.u8("compression")? {
        COMPRESSION_NONE => Compression::None,
        COMPRESSION_ZSTD => Compression::Zstd {
            level: unzigzag(cursor.varint_u32("zstd level")?),
        },
        other => return Err(unknown("compression", other.into())),
    };
    let dictionary_bytes = cursor.varint_u32("dictionary_bytes")?;
    let filter = match cursor.u8("filter")? {
        FILTER_NONE => FilterPolicy::None,
        FILTER_FUSE8 => FilterPolicy::Fuse8,
        FILTER_FUSE16 => FilterPolicy::Fuse16,
        other => return Err(unknown("filter", other.into())),
    };
    Ok(TableOptions {
        layout,
        compression,
        dictionary_bytes,
        filter,
        key_block_bytes: cursor.varint_u32("key_block_bytes")?,
        inline_value_bytes_max: cursor.varint_u32("inline_value_bytes_max")?,
    })
}
