//! Makes every table readable: sound ones as they are, of damaged ones a copy of what is sound.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use super::survey::SourceTable;
use super::{
    LostPart, SCRATCH_SUFFIX, SalvageLoss, SalvageOptions, SalvagePhase, SalvageProgress,
    SalvageReport,
};
use crate::db::{Db, DbInner, table_meta};
use crate::error::{Error, ErrorKind, Result};
use crate::iter::{InternalIterator, RangeTombstone};
use crate::manifest::TableMeta;
use crate::options::{ReadMode, TableOptions};
use crate::read::{LevelIter, OpenTable, TableRun};
use crate::stats::Stats;
use crate::table::{IterContext, Loss, Salvaged, TableProperties, TableReader, TableWriter};
use crate::types::{EntryKind, FileNumber, KeyspaceId, SeqNo};
use crate::vfs::Vfs;

/// The first phase of a salvage.
pub(super) struct Rescue<'a> {
    pub(super) db: &'a Db,
    pub(super) options: &'a SalvageOptions,
}

/// Tables that can be read from end to end.
#[derive(Debug, Default)]
pub(super) struct Rescued {
    pub(super) keyspaces: BTreeMap<String, Vec<Table>>,
    /// Names of keyspaces that the tables tell.
    pub(super) names: BTreeMap<KeyspaceId, String>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Table {
    meta: Arc<TableMeta>,
    path: PathBuf,
    tombstones: Vec<RangeTombstone>,
}

impl Rescue<'_> {
    pub(super) fn run(
        &self,
        mut tables: Vec<SourceTable>,
        report: &mut SalvageReport,
        progress: &mut dyn FnMut(SalvageProgress),
    ) -> Result<Rescued> {
        self.place_in_history(&mut tables);
        let mut state = SalvageProgress {
            phase: SalvagePhase::Rescue,
            bytes: 0,
            bytes_total: tables.iter().map(|table| table.stored_bytes).sum(),
        };
        let mut rescued = Rescued::default();
        for source in &tables {
            let (table, properties) = match self.sound(source)? {
                Some((table, properties)) => {
                    report.tables_sound += 1;
                    (Some(table), Some(properties))
                }
                None => self.damaged(source, report, &mut rescued)?,
            };
            if let Some(table) = table {
                let name = self.owner(source, properties, report, &mut rescued);
                rescued.keyspaces.entry(name).or_default().push(table);
            }
            state.bytes += source.stored_bytes;
            progress(state);
        }
        Ok(rescued)
    }

    /// Numbers what was built outside the history: newer than everything in tables begun before,
    /// which is the least that is true.
    fn place_in_history(&self, tables: &mut [SourceTable]) {
        if tables.iter().all(|table| table.id.is_some()) {
            return;
        }
        let mut by_age: Vec<&mut SourceTable> = tables.iter_mut().collect();
        by_age.sort_by_key(|table| table.number);
        let mut newest = SeqNo::ZERO;
        for table in by_age {
            let vfs = &*self.options.db.vfs;
            let opened = TableReader::open(vfs, &table.path, ReadMode::Pread, None, SeqNo::ZERO);
            let Ok(reader) = opened else { continue };
            let properties = reader.properties();
            // What the manifest's readable part names has its place.
            if table.id.is_none() && properties.outside_history {
                table.seq_base = SeqNo(newest.0 + 1);
            }
            newest = newest.max(SeqNo(properties.seq_max.0.saturating_add(table.seq_base.0)));
        }
    }

    /// The table, if nothing is wrong with it.
    fn sound(&self, source: &SourceTable) -> Result<Option<(Table, TableProperties)>> {
        let vfs = &*self.options.db.vfs;
        let mode = ReadMode::Pread;
        let opened = TableReader::open(vfs, &source.path, mode, source.id, source.seq_base);
        let checked = opened.and_then(|reader| {
            let cancel = &self.options.cancel;
            let verification = reader.verify(&mut |_| cancel.check("the salvage"))?;
            Ok((reader, verification.problems.is_empty()))
        });
        let reader = match checked {
            Ok((reader, true)) => reader,
            Ok((_, false)) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            Err(_) => return Ok(None),
        };
        let mut meta = table_meta(reader.summary(), source.number);
        meta.seq_base = source.seq_base;
        let table = Table {
            meta: Arc::new(meta),
            path: source.path.clone(),
            tombstones: reader.range_tombstones().to_vec(),
        };
        Ok(Some((table, reader.properties().clone())))
    }

    /// What is sound of a table, as a table of its own.
    fn damaged(
        &self,
        source: &SourceTable,
        report: &mut SalvageReport,
        rescued: &mut Rescued,
    ) -> Result<(Option<Table>, Option<TableProperties>)> {
        let db = self.db.inner();
        let mut entries = Scratch::create(db, format!("{}{SCRATCH_SUFFIX}", source.number))?;
        let mut orphans = None;
        let salvaged = crate::table::salvage(
            &**db.vfs(),
            &source.path,
            source.id,
            source.seq_base,
            &mut |found| {
                self.options.cancel.check("the salvage")?;
                match found {
                    Salvaged::Entry(it) => entries.writer.add(it.key, it.seq, it.kind, it.value),
                    Salvaged::Orphan(it) if self.options.orphans_keyspace.is_some() => {
                        let scratch = match &mut orphans {
                            Some(scratch) => scratch,
                            none => none.insert(Scratch::create(
                                db,
                                format!("{}.orphans{SCRATCH_SUFFIX}", source.number),
                            )?),
                        };
                        report.orphans += 1;
                        let key = orphan_key(source.number, it.frame, it.offset);
                        let (seq, kind) = (SeqNo::ZERO, EntryKind::Put);
                        scratch.writer.add(&key, seq, kind, it.bytes)
                    }
                    Salvaged::Orphan(_) => Ok(()),
                }
            },
        );
        let salvaged = match salvaged {
            Ok(salvaged) => salvaged,
            Err(error) if is_of_source(&error, source) => {
                report.tables_lost += 1;
                report.losses.push(SalvageLoss {
                    path: source.path.clone(),
                    keyspace: source.keyspace.clone(),
                    part: LostPart::Table(error),
                });
                return Ok((None, None));
            }
            Err(error) => return Err(error),
        };
        report.tables_damaged += 1;
        let losses = salvaged.losses.into_iter();
        report.losses.extend(losses.map(|loss| SalvageLoss {
            path: source.path.clone(),
            keyspace: source.keyspace.clone(),
            part: loss.into(),
        }));
        if let (Some(orphans), Some(name)) = (orphans, &self.options.orphans_keyspace) {
            let table = orphans.finish(source.number, Vec::new())?;
            let tables = rescued.keyspaces.entry(name.clone()).or_default();
            tables.push(table);
        }
        let table = entries.finish(source.number, salvaged.range_tombstones)?;
        Ok((Some(table), salvaged.properties))
    }

    /// Whose the table is.
    fn owner(
        &self,
        source: &SourceTable,
        properties: Option<TableProperties>,
        report: &mut SalvageReport,
        rescued: &mut Rescued,
    ) -> String {
        let told = properties.and_then(|properties| properties.keyspace);
        if let Some(owner) = &told {
            // Tables come newest first, and the newest name is the right one.
            rescued
                .names
                .entry(owner.id)
                .or_insert_with(|| owner.name.clone());
        }
        if let Some(name) = &source.keyspace {
            return name.clone();
        }
        if let Some(owner) = told {
            return owner.name;
        }
        report.losses.push(SalvageLoss {
            path: source.path.clone(),
            keyspace: None,
            part: LostPart::Keyspace,
        });
        self.options.fallback_keyspace.clone()
    }
}

/// A table of the target that goes when the salvage ends.
struct Scratch {
    path: PathBuf,
    writer: TableWriter,
}

impl Scratch {
    fn create(db: &DbInner, name: String) -> Result<Self> {
        let path = db.dir().join(name);
        let options = TableOptions::blocks(1, 64 << 10);
        let pool = db.compression_pool();
        let writer = TableWriter::create(db.vfs(), path.clone(), &options, pool)?;
        Ok(Self { path, writer })
    }

    fn finish(self, number: FileNumber, tombstones: Vec<RangeTombstone>) -> Result<Table> {
        Ok(Table {
            meta: Arc::new(table_meta(self.writer.finish()?, number)),
            path: self.path,
            tombstones,
        })
    }
}

/// See [`SalvageOptions::orphans_keyspace`].
fn orphan_key(table: FileNumber, frame: u32, offset: u32) -> Vec<u8> {
    let mut key = table.0.to_be_bytes().to_vec();
    key.extend_from_slice(&frame.to_be_bytes());
    key.extend_from_slice(&offset.to_be_bytes());
    key
}

/// Whether an error means that the source's bytes cannot be had, not that the new store cannot be
/// written.
fn is_of_source(error: &Error, source: &SourceTable) -> bool {
    use ErrorKind::{Corruption, Io, NotFound, Unsupported};
    error.path() == Some(source.path.as_path())
        && [Corruption, Io, NotFound, Unsupported].contains(&error.kind())
}

impl From<Loss> for LostPart {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::Value { key, lost_base, .. } => Self::Value { key, lost_base },
            Loss::Keys { after, before } => Self::Keys { after, before },
            Loss::Bytes(range) => Self::Bytes(range),
            Loss::RangeTombstones => Self::RangeDeletes,
        }
    }
}

impl Rescued {
    fn tables(&self, keyspace: &str) -> &[Table] {
        self.keyspaces.get(keyspace).map_or(&[], Vec::as_slice)
    }

    /// Bytes of all keys and values.
    pub(super) fn raw_bytes(&self) -> u64 {
        let tables = self.keyspaces.values().flatten();
        tables.map(|table| table.meta.raw_bytes).sum()
    }

    pub(super) fn tombstones(&self, keyspace: &str) -> Vec<RangeTombstone> {
        let tables = self.tables(keyspace).iter();
        tables.flat_map(|table| table.tombstones.clone()).collect()
    }

    /// The keyspace's tables in as few sorted runs as keep those that shadow others before them.
    pub(super) fn sources(
        &self,
        keyspace: &str,
        vfs: &Arc<dyn Vfs>,
    ) -> Vec<Box<dyn InternalIterator>> {
        let tables = self.tables(keyspace);
        let opener: Arc<dyn OpenTable> = Arc::new(Opener {
            vfs: Arc::clone(vfs),
            paths: tables
                .iter()
                .map(|table| (table.meta.number, table.path.clone()))
                .collect(),
            context: IterContext {
                cache: None,
                stats: Arc::new(Stats::new()),
                fill_cache: false,
            },
        });
        let mut runs: Vec<Vec<Arc<TableMeta>>> = Vec::new();
        for table in tables {
            let range = table.meta.key_range();
            let in_the_way = |run: &Vec<Arc<TableMeta>>| run.iter().any(|it| it.overlaps(&range));
            let behind = runs.iter().rposition(in_the_way).map_or(0, |run| run + 1);
            match runs.get_mut(behind) {
                Some(run) => run.push(Arc::clone(&table.meta)),
                None => runs.push(vec![Arc::clone(&table.meta)]),
            }
        }
        runs.into_iter()
            .map(|mut run| {
                run.sort_by(|a, b| a.smallest.cmp(&b.smallest));
                let cursor = LevelIter::new(TableRun::List(run), Arc::clone(&opener));
                Box::new(cursor) as Box<dyn InternalIterator>
            })
            .collect()
    }
}

/// Opens tables where they lie.
struct Opener {
    vfs: Arc<dyn Vfs>,
    paths: HashMap<FileNumber, PathBuf>,
    context: IterContext,
}

impl OpenTable for Opener {
    fn open(&self, table: &Arc<TableMeta>) -> Result<Box<dyn InternalIterator>> {
        let path = self.paths.get(&table.number);
        let path = path.ok_or_else(|| Error::corruption("a table was lost meanwhile"))?;
        let base = table.seq_base;
        let reader = TableReader::open(&*self.vfs, path, ReadMode::Pread, Some(table.id), base)?;
        Ok(Box::new(reader.iter(self.context.clone())))
    }
}
