//! `ppc stats`: what a store holds and takes.

use clap::Args;
use ppc_engine::{DbStats, KeyspaceStats, LevelStats};
use ppc_store::archive::ArchiveStats;
use serde_json::{Value, json};

use super::Global;
use super::failure::Failure;
use super::output::{Align, Output, Table};
use super::progress::Watcher;
use super::size::{ByteSize, grouped, percent};
use super::store::StoreArgs;

/// Extensions printed where not all are asked for.
const EXTENSIONS_SHOWN: usize = 20;

/// Show what a store holds and takes: files, bytes, ratio, by extension and by tree level
///
/// Walks all keys to count by extension, and reads no content; the tables themselves tell of their frames
/// and clusters. What an extension takes is exact, a
/// block of several being shared out as their bytes are; what was deleted counts until `ppc compact`.
/// Raw bytes by tree level are those of contents and keys.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  ppc stats code.ppc
  All extensions:          ppc stats code.ppc --all
  For a program:           ppc stats code.ppc --json | jq .stored_bytes")]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Do not count by extension, and answer at once
    #[arg(long, conflicts_with = "all")]
    fast: bool,
    /// Show every extension, not only the most frequent ones
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(args: StatsArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let archive = args.store.open_read_only()?;
    if args.fast {
        let engine = archive.db().stats();
        if out.is_json() {
            return out.json(&engine_json(&engine));
        }
        return print_keyspaces(&engine, out);
    }
    let watcher = Watcher::new(global.quiet, None);
    let stats = archive.stats(&watcher);
    watcher.finish()?;
    let stats = stats?;
    if out.is_json() {
        return out.json(&to_json(&stats));
    }
    print_summary(&stats, out)?;
    out.line("")?;
    print_extensions(&stats, args.all, out)?;
    out.line("")?;
    print_frames(&stats, out)?;
    out.line("")?;
    print_keyspaces(&stats.engine, out)
}

fn print_summary(stats: &ArchiveStats, out: &mut Output) -> Result<(), Failure> {
    let mut line = |label: &str, text: String| out.line(&format!("{label:<14}{text}"));
    line("files", grouped(stats.files))?;
    line("raw", ByteSize(stats.raw_bytes()).to_string())?;
    line(
        "stored",
        format!(
            "{}: {} contents, {} their keys, {} indexes",
            ByteSize(stats.stored_bytes()),
            ByteSize(stats.value_stored_bytes()),
            ByteSize(
                stats
                    .content_stored_bytes
                    .saturating_sub(stats.value_stored_bytes())
            ),
            ByteSize(stats.index_stored_bytes)
        ),
    )?;
    line(
        "ratio",
        format!(
            "{} (contents alone {})",
            percent(stats.stored_bytes(), stats.raw_bytes()),
            percent(stats.value_stored_bytes(), stats.raw_bytes())
        ),
    )
}

fn print_extensions(stats: &ArchiveStats, all: bool, out: &mut Output) -> Result<(), Failure> {
    let mut table = Table::new(&[
        ("extension", Align::Left),
        ("files", Align::Right),
        ("raw", Align::Right),
        ("stored", Align::Right),
        ("ratio", Align::Right),
    ]);
    let shown = if all { usize::MAX } else { EXTENSIONS_SHOWN };
    for extension in stats.extensions.iter().take(shown) {
        let ext = match extension.ext.as_slice() {
            b"" => "(none)".to_owned(),
            ext => ext.escape_ascii().to_string(),
        };
        table.row(vec![
            ext,
            grouped(extension.files),
            ByteSize(extension.raw_bytes).to_string(),
            ByteSize(extension.stored_bytes).to_string(),
            percent(extension.stored_bytes, extension.raw_bytes),
        ]);
    }
    table.print(out)?;
    let hidden = stats.extensions.len().saturating_sub(shown);
    if hidden > 0 {
        out.line(&format!("... and {hidden} more; --all shows them"))?;
    }
    Ok(())
}

/// The kinds of frames, and how clusters look where there are any.
fn print_frames(stats: &ArchiveStats, out: &mut Output) -> Result<(), Failure> {
    let census = &stats.frames;
    let total = census.total();
    let mut table = Table::new(&[
        ("frames of contents", Align::Left),
        ("frames", Align::Right),
        ("raw", Align::Right),
        ("stored", Align::Right),
        ("ratio", Align::Right),
        ("of all stored", Align::Right),
    ]);
    for (kind, tally) in census.kinds().filter(|(_, tally)| tally.frames > 0) {
        table.row(vec![
            describe_kind(kind).to_owned(),
            grouped(tally.frames),
            ByteSize(tally.raw_bytes).to_string(),
            ByteSize(tally.stored_bytes).to_string(),
            percent(tally.stored_bytes, tally.raw_bytes),
            percent(tally.stored_bytes, total.stored_bytes),
        ]);
    }
    table.print(out)?;
    if stats.tables_without_census > 0 {
        let tables = grouped(stats.tables_without_census);
        out.line(&format!(
            "{tables} tables do not tell of their frames; `ppc compact --rewrite` writes them anew"
        ))?;
    }
    if census.followers.frames == 0 {
        return Ok(());
    }
    let tenth = |at: usize| match at {
        9 => "90 % and more".to_owned(),
        _ => format!("{} to {} %", at * 10, at * 10 + 10),
    };
    histogram("followers stored in", &census.stored_tenths, tenth, out)?;
    let bases = |at: usize| at.to_string();
    histogram("bases to decode before", &census.depths, bases, out)?;
    let frames = |at: usize| match at {
        0 => "2".to_owned(),
        7 => "over 128".to_owned(),
        _ => format!("{} to {}", (1 << at) + 1, 2 << at),
    };
    histogram("frames in a cluster", &census.cluster_sizes, frames, out)
}

fn describe_kind(kind: &str) -> &str {
    match kind {
        "base" => "bases",
        "follower" => "followers of a base",
        "lone" => "lone contents",
        "shared" => "shared by several",
        "raw" => "not compressible",
        other => other,
    }
}

/// Counts as a table with a bar for each, up to the last that is not 0.
fn histogram(
    title: &str,
    counts: &[u64],
    label: impl Fn(usize) -> String,
    out: &mut Output,
) -> Result<(), Failure> {
    const BAR_CELLS: u64 = 30;
    out.line("")?;
    let total = counts.iter().sum::<u64>();
    let most = counts.iter().copied().max().unwrap_or_default().max(1);
    let used = counts.iter().rposition(|count| *count > 0);
    let mut table = Table::new(&[
        (title, Align::Left),
        ("count", Align::Right),
        ("share", Align::Right),
        ("", Align::Left),
    ]);
    for (at, count) in counts.iter().enumerate().take(used.map_or(0, |at| at + 1)) {
        let cells = (count * BAR_CELLS).div_ceil(most);
        table.row(vec![
            label(at),
            grouped(*count),
            percent(*count, total),
            "#".repeat(usize::try_from(cells).unwrap_or_default()),
        ]);
    }
    table.print(out)
}

fn print_keyspaces(engine: &DbStats, out: &mut Output) -> Result<(), Failure> {
    let mut table = Table::new(&[
        ("keyspace", Align::Left),
        ("level", Align::Left),
        ("tables", Align::Right),
        ("entries", Align::Right),
        ("deletes", Align::Right),
        ("raw", Align::Right),
        ("stored", Align::Right),
        ("ratio", Align::Right),
    ]);
    for keyspace in &engine.keyspaces {
        if keyspace.memtable_entries > 0 {
            table.row(vec![
                keyspace.name.clone(),
                "memory".to_owned(),
                String::new(),
                grouped(keyspace.memtable_entries),
                String::new(),
                ByteSize(keyspace.memtable_raw_bytes).to_string(),
            ]);
        }
        for (number, level) in used_levels(keyspace) {
            table.row(vec![
                keyspace.name.clone(),
                format!("L{number}"),
                grouped(level.tables),
                grouped(level.entries),
                grouped(level.tombstones + level.range_tombstones),
                ByteSize(level.raw_bytes).to_string(),
                ByteSize(level.stored_bytes).to_string(),
                percent(level.stored_bytes, level.raw_bytes),
            ]);
        }
    }
    table.print(out)
}

fn used_levels(keyspace: &KeyspaceStats) -> impl Iterator<Item = (usize, &LevelStats)> {
    let levels = keyspace.levels.iter().enumerate();
    levels.filter(|(_, level)| level.tables > 0)
}

fn to_json(stats: &ArchiveStats) -> Value {
    let extension = |it: &ppc_store::archive::ExtensionStats| {
        json!({
            "ext": String::from_utf8_lossy(&it.ext),
            "files": it.files,
            "raw_bytes": it.raw_bytes,
            "stored_bytes": it.stored_bytes,
        })
    };
    json!({
        "files": stats.files,
        "raw_bytes": stats.raw_bytes(),
        "stored_bytes": stats.stored_bytes(),
        "content_stored_bytes": stats.content_stored_bytes,
        "value_stored_bytes": stats.value_stored_bytes(),
        "index_stored_bytes": stats.index_stored_bytes,
        "extensions": stats.extensions.iter().map(extension).collect::<Vec<_>>(),
        "frames": census_json(stats),
        "engine": engine_json(&stats.engine),
    })
}

fn census_json(stats: &ArchiveStats) -> Value {
    let census = &stats.frames;
    let kind = |(kind, tally): (&'static str, ppc_engine::FrameTally)| {
        json!({
            "kind": kind,
            "frames": tally.frames,
            "raw_bytes": tally.raw_bytes,
            "stored_bytes": tally.stored_bytes,
        })
    };
    json!({
        "kinds": census.kinds().map(kind).collect::<Vec<_>>(),
        "followers_by_stored_tenth": census.stored_tenths,
        "by_bases_before": census.depths,
        "clusters_by_frames_log2": census.cluster_sizes,
        "tables_without_census": stats.tables_without_census,
    })
}

fn engine_json(engine: &DbStats) -> Value {
    let level = |(number, level): (usize, &LevelStats)| {
        json!({
            "level": number,
            "tables": level.tables,
            "entries": level.entries,
            "tombstones": level.tombstones,
            "range_tombstones": level.range_tombstones,
            "raw_bytes": level.raw_bytes,
            "stored_bytes": level.stored_bytes,
        })
    };
    let keyspace = |it: &KeyspaceStats| {
        json!({
            "name": it.name,
            "memtable_entries": it.memtable_entries,
            "memtable_raw_bytes": it.memtable_raw_bytes,
            "levels": used_levels(it).map(level).collect::<Vec<_>>(),
        })
    };
    json!({ "keyspaces": engine.keyspaces.iter().map(keyspace).collect::<Vec<_>>() })
}
