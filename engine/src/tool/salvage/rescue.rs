//! Makes every table readable: sound ones as they are, of damaged ones a copy of what is sound.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use super::survey::SourceTable;
use super::{
    LostPart, SCRATCH_SUFFIX, SalvageLoss, SalvageOptions, SalvagePhase, SalvageProgress,
    SalvageReport,
};
use crate::db::{Db, table_meta};
use crate::error::{Error, ErrorKind, Result};
use crate::iter::{InternalIterator, RangeTombstone};
use crate::manifest::TableMeta;
use crate::options::{ReadMode, TableOptions};
use crate::read::{LevelIter, OpenTable, TableRun};
use crate::stats::Stats;
use crate::table::{IterContext, Loss, TableProperties, TableReader, TableWriter};
use crate::types::{FileNumber, KeyspaceId, SeqNo};
use crate::vfs::Vfs;

/// The first phase of a salvage.
pub(super) struct Rescue<'a> {
    pub(super) db: &'a Db,
    pub(super) options: &'a SalvageOptions,
    pub(super) has_manifest: bool,
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
        if !self.has_manifest {
            self.place_in_history(&mut tables);
        }
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
                None => self.damaged(source, report)?,
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
        let mut newest = SeqNo::ZERO;
        for table in tables.iter_mut().rev() {
            let vfs = &*self.options.db.vfs;
            let opened = TableReader::open(vfs, &table.path, ReadMode::Pread, None, SeqNo::ZERO);
            let Ok(reader) = opened else { continue };
            if reader.properties().outside_history {
                table.seq_base = SeqNo(newest.0 + 1);
            } else {
                newest = newest.max(reader.properties().seq_max);
            }
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
    ) -> Result<(Option<Table>, Option<TableProperties>)> {
        let db = self.db.inner();
        let path = db.dir().join(format!("{}{SCRATCH_SUFFIX}", source.number));
        let options = TableOptions::blocks(1, 64 << 10);
        let pool = db.compression_pool();
        let mut writer = TableWriter::create(db.vfs(), path.clone(), &options, pool)?;
        let salvaged = crate::table::salvage(
            &**db.vfs(),
            &source.path,
            source.id,
            source.seq_base,
            &mut |entry| {
                self.options.cancel.check("the salvage")?;
                writer.add(entry.key, entry.seq, entry.kind, entry.value)
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
        let table = Table {
            meta: Arc::new(table_meta(writer.finish()?, source.number)),
            path,
            tombstones: salvaged.range_tombstones,
        };
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
