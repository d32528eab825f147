//! Says what is in a file or directory of a store, without opening the store: beside a writer, and
//! where opening fails. Plain data, to be printed or written out by the caller.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dir::{FileKind, file_path, list_files};
use crate::error::{ErrorKind, Result};
use crate::iter::InternalIterator;
use crate::manifest::{Manifest, TableMeta};
use crate::options::{KeyspaceOptions, ReadMode};
use crate::stats::Stats;
use crate::table::{IterContext, TableProperties, TableReader, UnitCodec};
use crate::types::{EntryKind, FileId, FileNumber, KeyspaceId, SeqNo};
use crate::vfs::{DiskVfs, Vfs};

/// A section of a table file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SectionDescription {
    /// What it is, such as `key index`.
    pub kind: &'static str,
    /// Where it lies.
    pub range: Range<u64>,
}

/// An entry of a table; its value is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryDescription {
    /// The key.
    pub key: Vec<u8>,
    /// As stored: without the base that the manifest gives the table.
    pub seq: SeqNo,
    /// Put or delete.
    pub kind: EntryKind,
    /// Length of the value.
    pub value_len: u64,
}

/// A range delete of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeDeleteDescription {
    /// The first key deleted.
    pub start: Vec<u8>,
    /// The first key not deleted any more; none reaches to the end of the keyspace.
    pub end: Option<Vec<u8>>,
    /// As stored.
    pub seq: SeqNo,
}

/// What a table file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableDescription {
    /// The file.
    pub path: PathBuf,
    /// The random id in it.
    pub id: FileId,
    /// Its length.
    pub stored_bytes: u64,
    /// How it was built and what is in it.
    pub properties: TableProperties,
    /// In the order in which they lie, behind the values.
    pub sections: Vec<SectionDescription>,
    /// By start.
    pub range_deletes: Vec<RangeDeleteDescription>,
}

/// Opens a table file and says what it holds. Reads neither keys nor values.
pub fn describe_table(path: impl AsRef<Path>) -> Result<TableDescription> {
    describe_table_in(&DiskVfs, path.as_ref())
}

/// As [`describe_table`], in any file system.
pub fn describe_table_in(vfs: &dyn Vfs, path: &Path) -> Result<TableDescription> {
    let reader = TableReader::open(vfs, path, ReadMode::Pread, None, SeqNo::ZERO)?;
    let mut sections: Vec<SectionDescription> = reader
        .section_ranges()
        .map(|(kind, range)| SectionDescription {
            kind: kind.name(),
            range: range.clone(),
        })
        .collect();
    sections.sort_by_key(|section| section.range.start);
    let tombstones = reader.range_tombstones().iter();
    Ok(TableDescription {
        path: path.to_path_buf(),
        id: reader.id(),
        stored_bytes: reader.stored_bytes(),
        properties: reader.properties().clone(),
        sections,
        range_deletes: tombstones
            .map(|it| RangeDeleteDescription {
                start: it.start.clone(),
                end: it.end.clone(),
                seq: it.seq,
            })
            .collect(),
    })
}

/// Hands every entry of a table file to `sink`, in order, until it is told to stop with false.
/// Reads no values.
pub fn list_table(
    path: impl AsRef<Path>,
    sink: &mut dyn FnMut(EntryDescription) -> bool,
) -> Result<()> {
    list_table_in(&DiskVfs, path.as_ref(), sink)
}

/// As [`list_table`], in any file system.
pub fn list_table_in(
    vfs: &dyn Vfs,
    path: &Path,
    sink: &mut dyn FnMut(EntryDescription) -> bool,
) -> Result<()> {
    let reader = TableReader::open(vfs, path, ReadMode::Pread, None, SeqNo::ZERO)?;
    let mut cursor = reader.iter(uncached());
    cursor.seek_to_first()?;
    while cursor.valid() {
        let entry = cursor.key();
        let entry = EntryDescription {
            key: entry.user_key.to_vec(),
            seq: entry.seq,
            kind: entry.kind,
            value_len: cursor.value_len() as u64,
        };
        if !sink(entry) {
            break;
        }
        cursor.next()?;
    }
    Ok(())
}

/// A frame of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameDescription {
    /// Its number in the table, from 0.
    pub ordinal: u32,
    /// Where it lies in the file.
    pub range: Range<u64>,
    /// Bytes once decoded; none if its header is damaged.
    pub raw_bytes: Option<u64>,
    /// How it is stored: `zstd`, `zstd with dictionary`, `zstd with base` or `raw`; `damaged` if its
    /// header is.
    pub encoding: &'static str,
    /// The frame that must be decoded before it, if there is one.
    pub base: Option<u32>,
    /// Values in it; none if not all keys of the table can be read.
    pub values: Option<u64>,
}

/// Hands every frame of a table file to `sink`, in the order of the file, until it is told to stop
/// with false. Reads all keys and the frames' headers, and no value: damage to the values does not
/// show. Damaged keys are an error, after all frames.
pub fn list_frames(
    path: impl AsRef<Path>,
    sink: &mut dyn FnMut(FrameDescription) -> bool,
) -> Result<()> {
    list_frames_in(&DiskVfs, path.as_ref(), sink)
}

/// As [`list_frames`], in any file system.
pub fn list_frames_in(
    vfs: &dyn Vfs,
    path: &Path,
    sink: &mut dyn FnMut(FrameDescription) -> bool,
) -> Result<()> {
    let reader = TableReader::open(vfs, path, ReadMode::Pread, None, SeqNo::ZERO)?;
    let values = reader.values_by_frame(uncached());
    for (ordinal, range) in reader.frame_extents()?.into_iter().enumerate() {
        let header = match reader.frame_header(&range) {
            Ok(header) => Some(header),
            Err(error) if error.kind() == ErrorKind::Corruption => None,
            Err(error) => return Err(error),
        };
        let values = values.as_ref().ok();
        let frame = FrameDescription {
            ordinal: u32::try_from(ordinal).unwrap_or(u32::MAX),
            range,
            raw_bytes: header.map(|(header, _)| u64::from(header.raw_len)),
            base: header.and_then(|(_, base)| base),
            encoding: match header.map(|(header, _)| header.codec) {
                Some(UnitCodec::Raw) => "raw",
                Some(UnitCodec::Zstd) => "zstd",
                Some(UnitCodec::ZstdDictionary) => "zstd with dictionary",
                Some(UnitCodec::ZstdBase) => "zstd with base",
                None => "damaged",
            },
            values: values.and_then(|values| values.get(ordinal).copied()),
        };
        if !sink(frame) {
            return Ok(());
        }
    }
    values.map(drop).map_err(|error| error.at_path(path))
}

/// A key block of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyBlockDescription {
    /// Its number in the table, from 0.
    pub ordinal: u64,
    /// Where it lies in the file.
    pub range: Range<u64>,
    /// What it holds; none if it is damaged.
    pub entries: Option<KeyBlockEntries>,
}

/// The entries of a key block.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyBlockEntries {
    /// How many.
    pub count: u64,
    /// The first key.
    pub first: Vec<u8>,
    /// The last key.
    pub last: Vec<u8>,
}

/// Hands every key block of a table file to `sink`, in key order, until it is told to stop with
/// false. Reads no values. Damaged ones are handed out as such.
pub fn list_key_blocks(
    path: impl AsRef<Path>,
    sink: &mut dyn FnMut(KeyBlockDescription) -> bool,
) -> Result<()> {
    list_key_blocks_in(&DiskVfs, path.as_ref(), sink)
}

/// As [`list_key_blocks`], in any file system.
pub fn list_key_blocks_in(
    vfs: &dyn Vfs,
    path: &Path,
    sink: &mut dyn FnMut(KeyBlockDescription) -> bool,
) -> Result<()> {
    let reader = TableReader::open(vfs, path, ReadMode::Pread, None, SeqNo::ZERO)?;
    let context = uncached();
    for (block, range) in reader.key_block_extents()?.into_iter().enumerate() {
        let entries = match reader.key_block_content(block, &context) {
            Ok(content) => Some(KeyBlockEntries {
                count: content.entries,
                first: content.first,
                last: content.last,
            }),
            Err(error) if error.kind() == ErrorKind::Corruption => None,
            Err(error) => return Err(error.at_path(path)),
        };
        let described = KeyBlockDescription {
            ordinal: block as u64,
            range,
            entries,
        };
        if !sink(described) {
            break;
        }
    }
    Ok(())
}

/// A walk that leaves nothing behind.
fn uncached() -> IterContext {
    IterContext {
        cache: None,
        stats: Arc::new(Stats::new()),
        fill_cache: false,
    }
}

/// A table as the manifest knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableEntry {
    /// The file.
    pub path: PathBuf,
    /// The random id in it.
    pub id: FileId,
    /// Its length.
    pub stored_bytes: u64,
    /// Bytes of keys and values.
    pub raw_bytes: u64,
    /// Entries, deletes among them.
    pub entries: u64,
    /// Entries that are deletes.
    pub tombstones: u64,
    /// Range deletes.
    pub range_tombstones: u32,
    /// Smallest key.
    pub smallest: Vec<u8>,
    /// Largest key, or the end of a range delete.
    pub largest: Vec<u8>,
    /// Sequence numbers, smallest and largest.
    pub seqs: (SeqNo, SeqNo),
}

/// A keyspace as the manifest knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceDescription {
    /// Its id in the log.
    pub id: KeyspaceId,
    /// Its name.
    pub name: String,
    /// How its tables are written.
    pub options: KeyspaceOptions,
    /// Writes up to here are in tables.
    pub flushed_seq: SeqNo,
    /// Its tables by level, L0 first.
    pub levels: Vec<Vec<TableEntry>>,
}

/// A write-ahead log file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogDescription {
    /// The file.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
}

/// What the directory of a store holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreDescription {
    /// The directory.
    pub path: PathBuf,
    /// The random id of the store.
    pub store_id: FileId,
    /// Version of the table format that this build writes and reads.
    pub table_format: u32,
    /// Version of the manifest and log format that this build writes and reads.
    pub log_format: u32,
    /// The manifest in force.
    pub manifest: PathBuf,
    /// By id.
    pub keyspaces: Vec<KeyspaceDescription>,
    /// Write-ahead log files, oldest first.
    pub logs: Vec<LogDescription>,
    /// Every file number from here on is unused.
    pub next_file: FileNumber,
    /// Every sequence number up to here may be in use; the log may hold newer ones.
    pub last_seq: SeqNo,
}

/// Says what the manifest of a store lists, without opening the store. Takes no lock: what a writer
/// does meanwhile may be missing.
pub fn describe_store(dir: impl AsRef<Path>) -> Result<StoreDescription> {
    describe_store_in(&(Arc::new(DiskVfs) as Arc<dyn Vfs>), dir.as_ref())
}

/// As [`describe_store`], in any file system.
pub fn describe_store_in(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<StoreDescription> {
    let (manifest, state) = Manifest::recover(vfs, dir, true)?;
    let files = list_files(&**vfs, dir)?;
    let logs = files.iter().filter(|file| file.kind == FileKind::Wal);
    let keyspaces = state.keyspaces.iter();
    Ok(StoreDescription {
        path: dir.to_path_buf(),
        store_id: state.store_id,
        table_format: crate::table::FORMAT_VERSION,
        log_format: crate::log::FORMAT_VERSION,
        manifest: file_path(dir, FileKind::Manifest, manifest.in_force()),
        keyspaces: keyspaces
            .map(|(&id, keyspace)| KeyspaceDescription {
                id,
                name: keyspace.name.clone(),
                options: keyspace.options.clone(),
                flushed_seq: keyspace.flushed_seq,
                levels: keyspace
                    .version
                    .levels()
                    .iter()
                    .map(|level| level.iter().map(|table| table_entry(dir, table)).collect())
                    .collect(),
            })
            .collect(),
        logs: logs
            .map(|file| LogDescription {
                path: file_path(dir, FileKind::Wal, file.number),
                bytes: file.len,
            })
            .collect(),
        next_file: state.next_file,
        last_seq: state.last_seq,
    })
}

fn table_entry(dir: &Path, table: &TableMeta) -> TableEntry {
    TableEntry {
        path: file_path(dir, FileKind::Table, table.number),
        id: table.id,
        stored_bytes: table.stored_bytes,
        raw_bytes: table.raw_bytes,
        entries: table.entries,
        tombstones: table.tombstones,
        range_tombstones: table.range_tombstones,
        smallest: table.smallest.clone(),
        largest: table.largest.clone(),
        seqs: (table.seq_min, table.seq_max),
    }
}

impl fmt::Display for TableDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let properties = &self.properties;
        writeln!(f, "table {}", self.path.display())?;
        writeln!(f, "  id {}, {} bytes", self.id, self.stored_bytes)?;
        writeln!(f, "  written by {}", properties.created_by)?;
        if let Some(keyspace) = &properties.keyspace {
            writeln!(f, "  for keyspace {:?} ({})", keyspace.name, keyspace.id.0)?;
        }
        writeln!(
            f,
            "  {:?}, {:?}, filter {:?}",
            properties.layout, properties.compression, properties.filter
        )?;
        writeln!(
            f,
            "  {} entries, {} of them deletes, {} range deletes",
            properties.entries, properties.tombstones, properties.range_tombstones
        )?;
        writeln!(
            f,
            "  keys \"{}\" to \"{}\", sequence numbers {} to {}",
            properties.smallest.escape_ascii(),
            properties.largest.escape_ascii(),
            properties.seq_min,
            properties.seq_max
        )?;
        writeln!(
            f,
            "  values: {} raw bytes in {} frames of {} bytes",
            properties.raw_value_bytes, properties.frames, properties.stored_value_bytes
        )?;
        if properties.follower_frames > 0 {
            writeln!(f, "  {} frames have a base", properties.follower_frames)?;
        }
        if let Some(census) = &properties.census {
            for (kind, tally) in census.kinds().filter(|(_, tally)| tally.frames > 0) {
                writeln!(
                    f,
                    "  {kind}: {} frames, {} raw bytes in {}",
                    tally.frames, tally.raw_bytes, tally.stored_bytes
                )?;
            }
        }
        writeln!(
            f,
            "  keys: {} raw bytes in {} blocks of {} bytes",
            properties.raw_key_bytes, properties.key_blocks, properties.key_area_bytes
        )?;
        for section in &self.sections {
            let Range { start, end } = section.range;
            writeln!(f, "  {start:>12} {:>12} {}", end - start, section.kind)?;
        }
        Ok(())
    }
}

impl fmt::Display for StoreDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "store {}", self.path.display())?;
        writeln!(
            f,
            "  id {}, manifest {}",
            self.store_id,
            self.manifest.display()
        )?;
        writeln!(
            f,
            "  next file {}, last sequence number {}",
            self.next_file, self.last_seq
        )?;
        for log in &self.logs {
            writeln!(f, "  log {}, {} bytes", log.path.display(), log.bytes)?;
        }
        for keyspace in &self.keyspaces {
            writeln!(
                f,
                "keyspace {:?} ({}), flushed up to {}",
                keyspace.name, keyspace.id.0, keyspace.flushed_seq
            )?;
            for (number, level) in keyspace.levels.iter().enumerate() {
                for table in level {
                    writeln!(
                        f,
                        "  L{number} {} {} bytes, {} entries, \"{}\" to \"{}\"",
                        table.path.display(),
                        table.stored_bytes,
                        table.entries,
                        table.smallest.escape_ascii(),
                        table.largest.escape_ascii()
                    )?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::{DIR, build_store, tables};
    use crate::vfs::MemVfs;

    #[test]
    fn a_store_and_its_tables_are_described() {
        let vfs = MemVfs::new();
        let db = build_store(&vfs);
        let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
        let store = describe_store_in(&shared, Path::new(DIR)).unwrap();
        let names: Vec<_> = store.keyspaces.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["files", "sizes"]);
        let entries = store
            .keyspaces
            .iter()
            .flat_map(|it| it.levels.iter().flatten());
        let mut listed: Vec<_> = entries.map(|table| table.path.clone()).collect();
        listed.sort();
        assert_eq!(listed, tables(&vfs));
        assert!(!store.logs.is_empty());
        assert!(
            store.to_string().contains("keyspace \"sizes\" (1)"),
            "{store}"
        );
        let young = &store.keyspaces[0].levels[0][0];
        let table = describe_table_in(&vfs, &young.path).unwrap();
        assert_eq!(
            (table.id, table.stored_bytes),
            (young.id, young.stored_bytes)
        );
        assert_eq!(table.range_deletes.len(), 1);
        assert_eq!(table.properties.keyspace.as_ref().unwrap().name, "files");
        assert!(table.to_string().contains("key index"), "{table}");
        let mut keys = 0;
        list_table_in(&vfs, &young.path, &mut |entry| {
            keys += 1;
            entry.value_len > 0
        })
        .unwrap();
        assert_eq!(keys, table.properties.entries);
        let mut frames = Vec::new();
        list_frames_in(&vfs, &young.path, &mut |frame| {
            frames.push(frame);
            true
        })
        .unwrap();
        assert_eq!(frames.len() as u64, table.properties.frames);
        assert!(frames.iter().all(|frame| frame.encoding == "zstd"));
        let values: u64 = frames.iter().filter_map(|frame| frame.values).sum();
        assert_eq!(values, keys);
        let mut blocks = Vec::new();
        list_key_blocks_in(&vfs, &young.path, &mut |block| {
            blocks.push(block);
            true
        })
        .unwrap();
        assert_eq!(blocks.len() as u64, table.properties.key_blocks);
        let first = blocks[0].entries.as_ref().unwrap();
        assert_eq!(first.first, table.properties.smallest);
        drop(db);
    }
}
