//! A manifest record's payload: edits, one after another.
//!
//! ```text
//! edits = (tag 1 | length v | body)*
//! tag 1  create keyspace    id v | name bytes | options
//!     2  set options        id v | options
//!     3  drop keyspace      id v
//!     4  add table          keyspace v | level 1 | number v | id 8 | stored_bytes v | raw_bytes v
//!                           | entries v | tombstones v | range_tombstones v | flags 1
//!                           | smallest bytes | largest bytes | seq_min v | seq_max v | seq_base v
//!                           flags: 1 largest is exclusive, 2 unbounded end
//!     5  remove table       keyspace v | level 1 | number v
//!     6  flushed up to      keyspace v | seq v
//!     7  next file number   number v
//!     8  next keyspace id   id v
//!     9  last sequence      seq v
//!    10  store id           id 8
//!        right behind the edit that adds a table, more of it:
//!   128  repeated keys       count v
//!   129  provisional
//! ```
//!
//! `v` is a varint, `bytes` a varint length and that many bytes. Tags from 128 on may be skipped by
//! a release that does not know them; other unknown tags must be refused.

use std::sync::Arc;

use super::edit::Edit;
use super::options_codec::{put_options, take_options};
use super::version::TableMeta;
use crate::coding::{Cursor, put_bytes, put_u64, put_varint};
use crate::dir::FILE_NUMBER_MAX;
use crate::error::{Error, ErrorKind, Result};
use crate::options::LEVEL_COUNT;
use crate::types::{FileId, FileNumber, KeyspaceId, SeqNo};

const TAG_CREATE_KEYSPACE: u8 = 1;
const TAG_SET_OPTIONS: u8 = 2;
const TAG_DROP_KEYSPACE: u8 = 3;
const TAG_ADD_TABLE: u8 = 4;
const TAG_REMOVE_TABLE: u8 = 5;
const TAG_FLUSHED_UP_TO: u8 = 6;
const TAG_NEXT_FILE: u8 = 7;
const TAG_NEXT_KEYSPACE: u8 = 8;
const TAG_LAST_SEQ: u8 = 9;
const TAG_STORE_ID: u8 = 10;
const TAG_SKIPPABLE_MIN: u8 = 128;
// What was found worth knowing of a table later: a build that does not know it does without.
const TAG_REPEATED_KEYS: u8 = 128;
const TAG_PROVISIONAL: u8 = 129;

const FLAG_LARGEST_EXCLUSIVE: u8 = 1;
const FLAG_UNBOUNDED_END: u8 = 2;

/// The payload of a record with these edits.
pub(super) fn encode_edits<'a>(edits: impl IntoIterator<Item = &'a Edit>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut body = Vec::new();
    for edit in edits {
        body.clear();
        let tag = put_body(&mut body, edit);
        out.push(tag);
        put_bytes(&mut out, &body);
        if let Edit::AddTable { table, .. } = edit {
            put_more_of_table(&mut out, table);
        }
    }
    out
}

/// Gives each edit of a payload to `on_edit`.
pub(super) fn decode_edits(
    payload: &[u8],
    on_edit: &mut dyn FnMut(&Edit) -> Result<()>,
) -> Result<()> {
    let mut cursor = Cursor::new(payload);
    // The edit before, which the next one may have more to say of.
    let mut before: Option<Edit> = None;
    while !cursor.is_empty() {
        let tag = cursor.u8("edit tag")?;
        let mut body = Cursor::new(cursor.bytes("edit")?);
        if let TAG_REPEATED_KEYS | TAG_PROVISIONAL = tag {
            take_more_of_table(tag, &mut body, before.as_mut())?;
            continue;
        }
        if let Some(edit) = take_body(tag, &mut body)? {
            body.finish("edit")?;
            if let Some(before) = before.replace(edit) {
                on_edit(&before)?;
            }
        }
    }
    before.map_or(Ok(()), |last| on_edit(&last))
}

fn put_more_of_table(out: &mut Vec<u8>, table: &TableMeta) {
    if let Some(repeated_keys) = table.repeated_keys {
        let mut body = Vec::new();
        put_varint(&mut body, repeated_keys);
        out.push(TAG_REPEATED_KEYS);
        put_bytes(out, &body);
    }
    if table.provisional {
        out.push(TAG_PROVISIONAL);
        put_bytes(out, &[]);
    }
}

fn take_more_of_table(tag: u8, body: &mut Cursor<'_>, before: Option<&mut Edit>) -> Result<()> {
    let Some(Edit::AddTable { table, .. }) = before else {
        return Err(Error::corruption(
            "manifest edit tells more of a table where none was added",
        ));
    };
    let table = Arc::make_mut(table);
    match tag {
        TAG_REPEATED_KEYS => table.repeated_keys = Some(body.varint("repeated keys")?),
        _ => table.provisional = true,
    }
    body.finish("edit")
}

fn put_body(out: &mut Vec<u8>, edit: &Edit) -> u8 {
    match edit {
        Edit::CreateKeyspace { id, name, options } => {
            put_varint(out, u64::from(id.0));
            put_bytes(out, name.as_bytes());
            put_options(out, options);
            TAG_CREATE_KEYSPACE
        }
        Edit::SetKeyspaceOptions { id, options } => {
            put_varint(out, u64::from(id.0));
            put_options(out, options);
            TAG_SET_OPTIONS
        }
        Edit::DropKeyspace { id } => {
            put_varint(out, u64::from(id.0));
            TAG_DROP_KEYSPACE
        }
        Edit::AddTable {
            keyspace,
            level,
            table,
        } => {
            put_varint(out, u64::from(keyspace.0));
            out.push(*level);
            put_table(out, table);
            TAG_ADD_TABLE
        }
        Edit::RemoveTable {
            keyspace,
            level,
            number,
        } => {
            put_varint(out, u64::from(keyspace.0));
            out.push(*level);
            put_varint(out, number.0);
            TAG_REMOVE_TABLE
        }
        Edit::FlushedUpTo { keyspace, seq } => {
            put_varint(out, u64::from(keyspace.0));
            put_varint(out, seq.0);
            TAG_FLUSHED_UP_TO
        }
        Edit::NextFileNumber(number) => {
            put_varint(out, number.0);
            TAG_NEXT_FILE
        }
        Edit::NextKeyspace(next) => {
            put_varint(out, u64::from(*next));
            TAG_NEXT_KEYSPACE
        }
        Edit::LastSeq(seq) => {
            put_varint(out, seq.0);
            TAG_LAST_SEQ
        }
        Edit::StoreId(id) => {
            put_u64(out, id.0);
            TAG_STORE_ID
        }
    }
}

/// None for an edit that may be skipped.
fn take_body(tag: u8, body: &mut Cursor<'_>) -> Result<Option<Edit>> {
    let edit = match tag {
        TAG_CREATE_KEYSPACE => Edit::CreateKeyspace {
            id: take_keyspace(body)?,
            name: body.str("keyspace name")?.to_owned(),
            options: take_options(body)?,
        },
        TAG_SET_OPTIONS => Edit::SetKeyspaceOptions {
            id: take_keyspace(body)?,
            options: take_options(body)?,
        },
        TAG_DROP_KEYSPACE => Edit::DropKeyspace {
            id: take_keyspace(body)?,
        },
        TAG_ADD_TABLE => Edit::AddTable {
            keyspace: take_keyspace(body)?,
            level: take_level(body)?,
            table: Arc::new(take_table(body)?),
        },
        TAG_REMOVE_TABLE => Edit::RemoveTable {
            keyspace: take_keyspace(body)?,
            level: take_level(body)?,
            number: take_file_number(body)?,
        },
        TAG_FLUSHED_UP_TO => Edit::FlushedUpTo {
            keyspace: take_keyspace(body)?,
            seq: take_seq(body)?,
        },
        TAG_NEXT_FILE => Edit::NextFileNumber(take_file_number(body)?),
        TAG_NEXT_KEYSPACE => Edit::NextKeyspace(body.varint_u32("next keyspace id")?),
        TAG_LAST_SEQ => Edit::LastSeq(take_seq(body)?),
        TAG_STORE_ID => Edit::StoreId(FileId(body.u64("store id")?)),
        TAG_SKIPPABLE_MIN.. => return Ok(None),
        unknown => {
            let message = format!("manifest edit {unknown} is not known to this build");
            return Err(Error::new(ErrorKind::Unsupported, message)
                .with_remedy("open the store with the release that wrote it, or a newer one"));
        }
    };
    Ok(Some(edit))
}

fn put_table(out: &mut Vec<u8>, table: &TableMeta) {
    put_varint(out, table.number.0);
    put_u64(out, table.id.0);
    put_varint(out, table.stored_bytes);
    put_varint(out, table.raw_bytes);
    put_varint(out, table.entries);
    put_varint(out, table.tombstones);
    put_varint(out, u64::from(table.range_tombstones));
    let exclusive = u8::from(table.largest_exclusive) * FLAG_LARGEST_EXCLUSIVE;
    let unbounded = u8::from(table.unbounded_end) * FLAG_UNBOUNDED_END;
    out.push(exclusive | unbounded);
    put_bytes(out, &table.smallest);
    put_bytes(out, &table.largest);
    put_varint(out, table.seq_min.0);
    put_varint(out, table.seq_max.0);
    put_varint(out, table.seq_base.0);
}

fn take_table(body: &mut Cursor<'_>) -> Result<TableMeta> {
    let number = take_file_number(body)?;
    let id = FileId(body.u64("file id")?);
    let stored_bytes = body.varint("stored bytes")?;
    let raw_bytes = body.varint("raw bytes")?;
    let entries = body.varint("entries")?;
    let tombstones = body.varint("tombstones")?;
    let range_tombstones = body.varint_u32("range tombstones")?;
    let flags = body.u8("table flags")?;
    if flags & !(FLAG_LARGEST_EXCLUSIVE | FLAG_UNBOUNDED_END) != 0 {
        return Err(Error::corruption(format!(
            "table flags {flags:#04x} are not known"
        )));
    }
    Ok(TableMeta {
        number,
        id,
        stored_bytes,
        raw_bytes,
        entries,
        tombstones,
        range_tombstones,
        repeated_keys: None,
        provisional: false,
        largest_exclusive: flags & FLAG_LARGEST_EXCLUSIVE != 0,
        unbounded_end: flags & FLAG_UNBOUNDED_END != 0,
        smallest: body.bytes("smallest key")?.to_vec(),
        largest: body.bytes("largest key")?.to_vec(),
        seq_min: take_seq(body)?,
        seq_max: take_seq(body)?,
        seq_base: take_seq(body)?,
    })
}

fn take_keyspace(body: &mut Cursor<'_>) -> Result<KeyspaceId> {
    body.varint_u32("keyspace id").map(KeyspaceId)
}

fn take_file_number(body: &mut Cursor<'_>) -> Result<FileNumber> {
    let number = body.varint("file number")?;
    if number <= FILE_NUMBER_MAX {
        return Ok(FileNumber(number));
    }
    let message = format!("file number {number} is out of range");
    Err(Error::corruption(message))
}

fn take_level(body: &mut Cursor<'_>) -> Result<u8> {
    let level = body.u8("level")?;
    if usize::from(level) < LEVEL_COUNT {
        return Ok(level);
    }
    Err(Error::corruption(format!("there is no level {level}")))
}

fn take_seq(body: &mut Cursor<'_>) -> Result<SeqNo> {
    let seq = SeqNo(body.varint("sequence number")?);
    if seq <= SeqNo::MAX {
        return Ok(seq);
    }
    Err(Error::corruption(format!(
        "sequence number {seq} is out of range"
    )))
}
