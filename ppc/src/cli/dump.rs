//! `ppc dump`: what the files of a store say.

use std::path::PathBuf;

use clap::Args;
use ppc_engine::{
    Compression, EntryDescription, EntryKind, FrameDescription, KeyBlockDescription,
    KeyspaceDescription, Layout, StoreDescription, TableDescription, TableEntry, describe_store,
    describe_table, list_frames, list_key_blocks, list_table,
};
use ppc_store::key::PpcKey;
use serde_json::{Value, json};

use super::failure::Failure;
use super::output::{Align, Output, Table};
use super::size::{ByteSize, grouped};
use super::store::{StoreArgs, explain_open};

/// Print what the manifest of a store lists, or what one table file holds
///
/// Opens nothing and takes no lock, so that it works on damaged stores as far as they can be read.
/// Made for people: its text may change between versions, where --json is kept.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  What there is:              ppc dump code.ppc
  How a table was built:      ppc dump code.ppc --table 000042.table
  Its keys as well:           ppc dump code.ppc --table 000042.table --keys
  Where its bytes went:       ppc dump code.ppc --table 000042.table --frames --key-blocks")]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Print this table file, by its name in the store's directory
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Print the table's frames as well: place, stored and raw length, encoding, number of values
    #[arg(long, requires = "table")]
    frames: bool,
    /// Print the table's key blocks as well: place, length, number of entries, first and last key
    #[arg(long, requires = "table")]
    key_blocks: bool,
    /// Print the table's keys as well
    #[arg(long, requires = "table")]
    keys: bool,
}

pub(crate) fn run(args: DumpArgs, out: &mut Output) -> Result<(), Failure> {
    let dir = &args.store.store;
    args.store.check_directory()?;
    let Some(table) = &args.table else {
        let store = describe_store(dir).map_err(|error| explain_open(error, dir))?;
        if out.is_json() {
            return out.json(&store_json(&store));
        }
        return print_store(&store, out);
    };
    let path = dir.join(table);
    let described = describe_table(&path)?;
    if out.is_json() {
        out.json(&table_json(&described))?;
    } else {
        print_table(&described, out)?;
    }
    if args.frames {
        list(out, |each| list_frames(&path, each), print_frame)?;
    }
    if args.key_blocks {
        list(out, |each| list_key_blocks(&path, each), print_key_block)?;
    }
    if args.keys {
        list(out, |each| list_table(&path, each), print_entry)?;
    }
    Ok(())
}

/// Prints everything that `walk` hands out; stops it when printing fails, as when the reader of a
/// pipe is gone.
fn list<T>(
    out: &mut Output,
    walk: impl FnOnce(&mut dyn FnMut(T) -> bool) -> ppc_store::Result<()>,
    print: impl Fn(T, &mut Output) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut printed = Ok(());
    let walked = walk(&mut |item| {
        printed = print(item, out);
        printed.is_ok()
    });
    printed?;
    Ok(walked?)
}

fn print_frame(frame: FrameDescription, out: &mut Output) -> Result<(), Failure> {
    let (at, stored_bytes) = (frame.range.start, frame.range.end - frame.range.start);
    if out.is_json() {
        return out.json(&json!({
            "frame": frame.ordinal,
            "offset": at,
            "stored_bytes": stored_bytes,
            "raw_bytes": frame.raw_bytes,
            "encoding": frame.encoding,
            "base": frame.base,
            "values": frame.values,
        }));
    }
    let number = |number: Option<u64>| number.map_or("?".to_owned(), |number| number.to_string());
    let base = frame.base.map_or(String::new(), |base| format!(" {base}"));
    out.line(&format!(
        "frame {} at {at}: {stored_bytes} B of {} B, {}{base}, {} values",
        frame.ordinal,
        number(frame.raw_bytes),
        frame.encoding,
        number(frame.values)
    ))
}

fn print_key_block(block: KeyBlockDescription, out: &mut Output) -> Result<(), Failure> {
    let (at, stored_bytes) = (block.range.start, block.range.end - block.range.start);
    let entries = block.entries.as_ref();
    let first = entries.map(|entries| key_text(&entries.first));
    let last = entries.map(|entries| key_text(&entries.last));
    if out.is_json() {
        return out.json(&json!({
            "key_block": block.ordinal,
            "offset": at,
            "stored_bytes": stored_bytes,
            "entries": entries.map(|entries| entries.count),
            "first": first,
            "last": last,
        }));
    }
    let holds = match (entries, first, last) {
        (Some(entries), Some(first), Some(last)) => {
            format!("{} entries, {first} to {last}", entries.count)
        }
        _ => "damaged".to_owned(),
    };
    let ordinal = block.ordinal;
    out.line(&format!(
        "key block {ordinal} at {at}: {stored_bytes} B, {holds}"
    ))
}

fn print_entry(entry: EntryDescription, out: &mut Output) -> Result<(), Failure> {
    let kind = match entry.kind {
        EntryKind::Put => "put",
        EntryKind::Delete => "delete",
    };
    let (key, bytes) = (key_text(&entry.key), entry.value_len);
    if out.is_json() {
        let seq = entry.seq.0;
        return out.json(&json!({ "key": key, "kind": kind, "seq": seq, "bytes": bytes }));
    }
    out.line(&format!("{kind} {key} {bytes} B seq {}", entry.seq))
}

/// A key of the contents as `ppc ls` prints it, any other one escaped.
fn key_text(key: &[u8]) -> String {
    match PpcKey::decode(key) {
        Ok(key) => key.to_string(),
        Err(_) => key.escape_ascii().to_string(),
    }
}

fn print_store(store: &StoreDescription, out: &mut Output) -> Result<(), Failure> {
    out.line(&format!(
        "store {}, manifest {}, table format {}, log format {}, next file {}, last seq {}",
        store.store_id,
        store.manifest.display(),
        store.table_format,
        store.log_format,
        store.next_file,
        store.last_seq
    ))?;
    for log in &store.logs {
        out.line(&format!(
            "log {}, {}",
            log.path.display(),
            ByteSize(log.bytes)
        ))?;
    }
    let mut table = Table::new(&[
        ("keyspace", Align::Left),
        ("level", Align::Left),
        ("file", Align::Left),
        ("entries", Align::Right),
        ("raw", Align::Right),
        ("stored", Align::Right),
        ("smallest", Align::Left),
        ("largest", Align::Left),
    ]);
    for keyspace in &store.keyspaces {
        for (level, it) in tables(keyspace) {
            let file = it.path.file_name().unwrap_or_default();
            table.row(vec![
                keyspace.name.clone(),
                format!("L{level}"),
                file.to_string_lossy().into_owned(),
                grouped(it.entries),
                ByteSize(it.raw_bytes).to_string(),
                ByteSize(it.stored_bytes).to_string(),
                shortened(&key_text(&it.smallest)),
                shortened(&key_text(&it.largest)),
            ]);
        }
    }
    table.print(out)
}

fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 40;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn tables(keyspace: &KeyspaceDescription) -> impl Iterator<Item = (usize, &TableEntry)> {
    let levels = keyspace.levels.iter().enumerate();
    levels.flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)))
}

fn print_table(table: &TableDescription, out: &mut Output) -> Result<(), Failure> {
    let properties = &table.properties;
    let mut line = |label: &str, text: String| out.line(&format!("{label:<16}{text}"));
    line("file", format!("{}, id {}", table.path.display(), table.id))?;
    line("made by", properties.created_by.clone())?;
    line(
        "layout",
        format!("{}, {}", layout_text(table), compression_text(table)),
    )?;
    line(
        "entries",
        format!(
            "{}, {} deletes, {} range deletes",
            grouped(properties.entries),
            grouped(properties.tombstones),
            grouped(properties.range_tombstones)
        ),
    )?;
    line(
        "raw",
        format!(
            "{} keys, {} values, of which {} beside the keys",
            ByteSize(properties.raw_key_bytes),
            ByteSize(properties.raw_value_bytes),
            ByteSize(properties.inline_value_bytes)
        ),
    )?;
    line(
        "stored",
        format!(
            "{}: {} in {} frames ({} raw), {} in {} key blocks, filter {}, dictionary {}",
            ByteSize(table.stored_bytes),
            ByteSize(properties.stored_value_bytes),
            grouped(properties.frames),
            grouped(properties.raw_frames),
            ByteSize(properties.key_area_bytes),
            grouped(properties.key_blocks),
            ByteSize(properties.filter_bytes),
            ByteSize(properties.dictionary_bytes)
        ),
    )?;
    line("smallest", key_text(&properties.smallest))?;
    line("largest", key_text(&properties.largest))?;
    for section in &table.sections {
        line(
            "section",
            format!(
                "{:<16}{} to {}",
                section.kind, section.range.start, section.range.end
            ),
        )?;
    }
    Ok(())
}

fn layout_text(table: &TableDescription) -> String {
    match &table.properties.layout {
        Layout::Blocks { bytes } => format!("blocks of {}", ByteSize(u64::from(*bytes))),
        Layout::Clustered(cluster) => format!(
            "clustered in windows of {}",
            ByteSize(u64::from(cluster.window_bytes))
        ),
        other => format!("{other:?}"),
    }
}

fn compression_text(table: &TableDescription) -> String {
    match table.properties.compression {
        Compression::None => "not compressed".to_owned(),
        Compression::Zstd { level } => format!("zstd {level}"),
        other => format!("{other:?}"),
    }
}

fn store_json(store: &StoreDescription) -> Value {
    let table = |(level, it): (usize, &TableEntry)| {
        json!({
            "level": level,
            "file": it.path.to_string_lossy(),
            "entries": it.entries,
            "tombstones": it.tombstones,
            "range_tombstones": it.range_tombstones,
            "raw_bytes": it.raw_bytes,
            "stored_bytes": it.stored_bytes,
            "smallest": key_text(&it.smallest),
            "largest": key_text(&it.largest),
            "seq_min": it.seqs.0.0,
            "seq_max": it.seqs.1.0,
        })
    };
    let keyspace = |it: &KeyspaceDescription| {
        json!({
            "name": it.name,
            "flushed_seq": it.flushed_seq.0,
            "tables": tables(it).map(table).collect::<Vec<_>>(),
        })
    };
    let log = |log: &ppc_engine::LogDescription| json!({ "file": log.path.to_string_lossy(), "bytes": log.bytes });
    json!({
        "store_id": store.store_id.to_string(),
        "manifest": store.manifest.to_string_lossy(),
        "table_format": store.table_format,
        "log_format": store.log_format,
        "next_file": store.next_file.0,
        "last_seq": store.last_seq.0,
        "logs": store.logs.iter().map(log).collect::<Vec<_>>(),
        "keyspaces": store.keyspaces.iter().map(keyspace).collect::<Vec<_>>(),
    })
}

fn table_json(table: &TableDescription) -> Value {
    let properties = &table.properties;
    let section = |it: &ppc_engine::SectionDescription| {
        json!({
            "kind": it.kind,
            "offset": it.range.start,
            "stored_bytes": it.range.end - it.range.start,
        })
    };
    json!({
        "file": table.path.to_string_lossy(),
        "id": table.id.to_string(),
        "created_by": properties.created_by,
        "layout": layout_text(table),
        "compression": compression_text(table),
        "stored_bytes": table.stored_bytes,
        "entries": properties.entries,
        "tombstones": properties.tombstones,
        "range_tombstones": properties.range_tombstones,
        "raw_key_bytes": properties.raw_key_bytes,
        "raw_value_bytes": properties.raw_value_bytes,
        "inline_value_bytes": properties.inline_value_bytes,
        "frames": properties.frames,
        "raw_frames": properties.raw_frames,
        "stored_value_bytes": properties.stored_value_bytes,
        "key_blocks": properties.key_blocks,
        "key_area_bytes": properties.key_area_bytes,
        "filter_bytes": properties.filter_bytes,
        "dictionary_bytes": properties.dictionary_bytes,
        "smallest": key_text(&properties.smallest),
        "largest": key_text(&properties.largest),
        "sections": table.sections.iter().map(section).collect::<Vec<_>>(),
    })
}
