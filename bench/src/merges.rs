//! What it costs to merge a few new values into clustered tables, beside encoding them anew.
//!
//! A store is loaded with a corpus but for every so-many-th content. Those are then put, and
//! compacted into the rest; afterwards the whole is compacted once more with nothing copied.
//! Processor time of all threads counts, so a busy machine matters little.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use ppc_engine::{
    BulkOptions, CompactOptions, Counter, Db, DbOptions, Durability, Keyspace, KeyspaceOptions,
    TableOptions,
};
use ppc_store::{Error, Result};

use crate::corpus::Corpus;
use crate::measure::cpu_seconds;

/// Merge a few contents into a clustered store, and tell what that costs beside encoding it anew.
#[derive(Args)]
pub struct MergesArgs {
    /// A corpus, as `ppc-bench corpus` writes it.
    corpus: PathBuf,
    /// Where to make the store; it is removed afterwards.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// MiB of the corpus to take.
    #[arg(long, default_value_t = 240)]
    mib: u64,
    /// One content in so many is new.
    #[arg(long, default_value_t = 100)]
    one_in: usize,
    /// How often to merge: each time as many other contents are new.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// zstd level.
    #[arg(long, default_value_t = 3)]
    level: i32,
    /// KiB of each table's dictionary.
    #[arg(long, default_value_t = 110)]
    dictionary_kib: u32,
}

/// What a compaction took.
struct Cost {
    seconds: f64,
    cpu_seconds: f64,
}

/// Runs it and prints a line for each step.
pub fn run(args: &MergesArgs) -> Result<()> {
    let rounds = args.rounds.min(args.one_in.saturating_sub(1));
    let corpus = Corpus::load_prefix(&args.corpus, args.mib << 20)?;
    let dir = tempfile::tempdir_in(&args.dir)
        .map_err(|error| Error::io("make a directory in", &args.dir, error))?;
    let db = Db::open(dir.path().join("store"), DbOptions::default())?;
    let mut last = TableOptions::clustered(args.level);
    last.dictionary_bytes = args.dictionary_kib << 10;
    let upper = TableOptions::blocks(1, 64 << 10);
    let keyspace = db.keyspace("contents", KeyspaceOptions::tiered(upper, last))?;
    println!(
        "{} contents of {} MiB, {rounds} times one in {} new, {} threads",
        corpus.len(),
        corpus.raw_bytes() >> 20,
        args.one_in,
        DbOptions::default().compression_threads
    );
    let is_new = |index: usize, round: usize| index % args.one_in == round;
    let mut loader = db.bulk_loader(BulkOptions::default())?;
    for (index, (key, value)) in corpus.iter().enumerate() {
        if (0..rounds).all(|round| !is_new(index, round)) {
            loader.put(&keyspace, key, value.to_vec().into())?;
        }
    }
    loader.finish(&mut |_| {})?;
    report("loaded", &db, None);
    for round in 0..rounds {
        for (index, (key, value)) in corpus.iter().enumerate() {
            if is_new(index, round) {
                keyspace.put(key, value, Durability::None)?;
            }
        }
        let cost = compact(&db, &CompactOptions::default())?;
        report("merged", &db, Some(&cost));
    }
    check(&keyspace, &corpus)?;
    let mut anew = CompactOptions::default();
    anew.rewrite_all = true;
    let cost = compact(&db, &anew)?;
    report("encoded anew", &db, Some(&cost));
    check(&keyspace, &corpus)?;
    db.close()
}

/// Compacts what was flushed before: writing the new contents to tables is no part of a merge.
fn compact(db: &Db, options: &CompactOptions) -> Result<Cost> {
    db.flush()?;
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    let work = db.compact_with(options, &mut |_| {})?;
    let cost = Cost {
        seconds: begun.elapsed().as_secs_f64(),
        cpu_seconds: cpu_seconds() - cpu,
    };
    println!(
        "{} tables read, {} written, {} moved; frames of {:.1} MiB copied, values of {:.1} MiB encoded",
        work.tables_read,
        work.tables_written,
        work.tables_moved,
        mib(work.frame_bytes_copied),
        mib(work.value_bytes_encoded)
    );
    Ok(cost)
}

fn report(what: &str, db: &Db, cost: Option<&Cost>) {
    let stats = db.stats();
    let tables = stats.keyspaces.iter().map(|it| it.total());
    let (stored, raw) = tables.fold((0, 0), |(stored, raw), level| {
        (stored + level.stored_bytes, raw + level.raw_bytes)
    });
    let cost = cost.map_or(String::new(), |cost| {
        format!(", {:.3} CPU-s, {:.3} s", cost.cpu_seconds, cost.seconds)
    });
    let share = 100.0 * stored as f64 / raw.max(1) as f64;
    println!(
        "{what}: {:.2} MiB, {share:.3} % of raw{cost}; {} compactions so far",
        mib(stored),
        stats.counters.get(Counter::Compactions)
    );
}

/// Fails unless every content is there.
fn check(keyspace: &Keyspace, corpus: &Corpus) -> Result<()> {
    for (key, value) in corpus.iter() {
        if keyspace.get(key)?.as_deref() != Some(value) {
            return Err(Error::corruption(format!(
                "\"{}\" is not what was put",
                key.escape_ascii()
            )));
        }
    }
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
