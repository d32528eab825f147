//! Carries out a plan: moves tables or merges them, then changes the tree with one manifest edit.

use std::sync::Arc;
use std::time::Instant;

use super::merge::{Merge, Watch};
use super::output::{Encoding, TableFactory, Written};
use super::plan::{Input, Plan};
use super::stripes::Stripes;
use super::ticket::Ticket;
use crate::db::DbInner;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::{Edit, TableMeta};
use crate::stats::Counter;
use crate::types::KeyspaceId;

/// What a job did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) tables_read: u64,
    pub(crate) tables_written: u64,
    pub(crate) tables_moved: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    pub(crate) encoding: Encoding,
}

impl Outcome {
    /// Adds what another job did.
    pub(crate) fn add(&mut self, other: Self) {
        self.tables_read += other.tables_read;
        self.tables_written += other.tables_written;
        self.tables_moved += other.tables_moved;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.encoding.add(other.encoding);
    }
}

/// Runs the ticket's plan to its end. On an error nothing has changed and no file is left behind.
pub(crate) fn run_plan(
    db: &Arc<DbInner>,
    ticket: &Ticket<'_>,
    watch: &dyn Watch,
) -> Result<Outcome> {
    let begun = Instant::now();
    let plan = ticket.plan();
    let outcome = if plan.trivial_move {
        move_tables(db, ticket)
    } else {
        rewrite_tables(db, ticket, watch)
    };
    let outcome = outcome.map_err(|error| {
        if ticket.space().is_dropped() {
            // Whatever failed, it failed because its tables went away.
            return cancelled("the keyspace was dropped while it was compacted");
        }
        error.in_keyspace(&ticket.space().name)
    })?;
    tracing::info!(
        keyspace = ticket.space().name,
        %plan,
        tables_written = outcome.tables_written,
        bytes_read = outcome.bytes_read,
        bytes_written = outcome.bytes_written,
        frame_bytes_copied = outcome.encoding.frame_bytes_copied,
        value_bytes_encoded = outcome.encoding.value_bytes_encoded,
        threads = ticket.threads(),
        micros = begun.elapsed().as_micros(),
        "compacted"
    );
    Ok(outcome)
}

/// The error of a job that was told to stop.
pub(crate) fn cancelled(message: &str) -> Error {
    Error::new(ErrorKind::Cancelled, message)
}

fn move_tables(db: &Arc<DbInner>, ticket: &Ticket<'_>) -> Result<Outcome> {
    let plan = ticket.plan();
    let tables: Vec<Arc<TableMeta>> = plan
        .inputs
        .iter()
        .map(|input| Arc::clone(&input.table))
        .collect();
    let count = tables.len() as u64;
    db.commit(edits(ticket.space().id, plan, tables))?;
    db.stats().add(Counter::TrivialMoves, count);
    Ok(Outcome {
        tables_moved: count,
        ..Outcome::default()
    })
}

fn rewrite_tables(db: &Arc<DbInner>, ticket: &Ticket<'_>, watch: &dyn Watch) -> Result<Outcome> {
    let plan = ticket.plan();
    check_free_space(db, ticket)?;
    let options = ticket.space().options();
    // In this order: see `Stripes::new`.
    let visible = db.visible_seq();
    let stripes = Stripes::new(db.snapshots(), visible);
    let factory = TableFactory::new(db);
    let merge = Merge {
        db,
        space: ticket.space(),
        plan,
        version: ticket.version(),
        options: &options,
        stripes: &stripes,
        factory: &factory,
        threads: ticket.threads(),
        watch,
    };
    let Written {
        tables: written,
        encoding,
    } = merge.run()?;
    let outcome = Outcome {
        tables_read: plan.inputs.len() as u64,
        tables_written: written.len() as u64,
        tables_moved: 0,
        bytes_read: plan.stored_bytes(),
        bytes_written: written.iter().map(|table| table.stored_bytes).sum(),
        encoding,
    };
    if !written.is_empty() {
        factory.sync_dir()?;
    }
    let written = written.into_iter().map(Arc::new).collect();
    factory.settle(db.commit(edits(ticket.space().id, plan, written)))?;
    let stats = db.stats();
    stats.add(Counter::Compactions, 1);
    stats.add(Counter::CompactionBytesRead, outcome.bytes_read);
    stats.add(Counter::CompactionBytesWritten, outcome.bytes_written);
    stats.add(Counter::CompactionFramesCopied, encoding.frames_copied);
    stats.add(
        Counter::CompactionFrameBytesCopied,
        encoding.frame_bytes_copied,
    );
    stats.add(
        Counter::CompactionValueBytesEncoded,
        encoding.value_bytes_encoded,
    );
    Ok(outcome)
}

fn edits(keyspace: KeyspaceId, plan: &Plan, outputs: Vec<Arc<TableMeta>>) -> Vec<Edit> {
    let removed = plan
        .inputs
        .iter()
        .map(|Input { level, table }| Edit::RemoveTable {
            keyspace,
            level: *level as u8,
            number: table.number,
        });
    let added = outputs.into_iter().map(|table| Edit::AddTable {
        keyspace,
        level: plan.output_level as u8,
        table,
    });
    removed.chain(added).collect()
}

/// Fails unless the outputs fit beside the inputs, which only go when the outputs are in force,
/// beside what other jobs are about to write, and beside the next flush.
fn check_free_space(db: &Arc<DbInner>, ticket: &Ticket<'_>) -> Result<()> {
    let dir = db.dir();
    let free = db.vfs().free_bytes(dir);
    let free = free.map_err(|error| Error::io("read the free space of", dir, error))?;
    let Some(free) = free else { return Ok(()) };
    let flush_bytes = db.options().memtable_bytes as u64;
    let needed = ticket.bytes_reserved_by_all().saturating_add(flush_bytes);
    if free >= needed {
        return Ok(());
    }
    let own = ticket.plan().stored_bytes();
    Err(Error::new(
        ErrorKind::NoSpace,
        format!(
            "a compaction of {own} bytes needs {needed} bytes free (other jobs and the next flush \
             counted) and finds {free}"
        ),
    )
    .at_path(dir)
    .with_remedy("free some space; reads go on, and the compaction is tried again by itself"))
}
