//! `ppc-bench targets`: where the clustered layout stands beside RocksDB, goal by goal.
//!
//! Both sides of every line come from one run: same machine, same commit, same corpus. What was not
//! measured says so.

mod goals;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::Args;
use ppc_store::Result;
use serde::Serialize;

use crate::results::{
    Cell, Configuration, CorpusResults, Load, Measurement, Results, Run, bytes, date, group,
    largest_of_each, number,
};
use goals::{BESIDES, OF_BLOCKS, PROFILES, Reference};

pub use goals::Figure;

/// Print how each profile stands beside RocksDB, against the goals of the clustered layout
///
/// A line for each goal: our figure, and its ratio to RocksDB with the configuration named, measured
/// in the same run. The verdict is about RocksDB loaded by puts, as in the paper; the ratio to
/// RocksDB loaded by sorted SST files stands beside it. Gets, scans and misses are those of one
/// thread, warm, with as many bytes of cache on both sides. For all corpora together, bytes add up, and so does the time to pass each corpus
/// once.
#[derive(Debug, Args)]
pub struct TargetsArgs {
    /// Results, as `ppc-bench paper` writes them
    #[arg(required = true, value_name = "RESULTS.jsonl")]
    results: Vec<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// Runs `ppc-bench targets`.
///
/// # Errors
///
/// Results that cannot be read.
pub fn run(args: &TargetsArgs) -> Result<()> {
    let results = Results::read(&args.results)?;
    for note in &results.notes {
        eprintln!("ppc-bench: {note}");
    }
    let runs = group(results.records);
    if args.json {
        let all: Vec<_> = runs
            .iter()
            .map(|run| serde_json::json!({ "machine": run.machine, "scopes": scopes(run) }))
            .collect();
        println!("{:#}", serde_json::Value::from(all));
    } else {
        for run in &runs {
            print!("{}", text(run));
        }
    }
    Ok(())
}

/// How a line came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The ratio keeps the bound.
    Met,
    /// It does not.
    Missed,
    /// No bound here.
    NoTarget,
    /// One side, or both, was not measured.
    NotMeasured,
}

impl Verdict {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::NoTarget => "no target",
            Self::NotMeasured => "not measured",
        }
    }
}

/// One figure of one configuration beside RocksDB's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Ours: `balanced zstd-3`.
    pub configuration: String,
    /// What is compared.
    pub figure: Figure,
    /// Our figure, in the unit of its name.
    pub ours: Option<f64>,
    /// Bytes of cache on both sides, where a cache matters.
    pub cache_bytes: Option<u64>,
    /// RocksDB's configuration.
    pub reference: String,
    /// Ours to RocksDB loaded by puts.
    pub ratio_to_puts: Option<f64>,
    /// Ours to RocksDB loaded by sorted SST files.
    pub ratio_to_sorted: Option<f64>,
    /// The bound, and whether the ratio must not exceed it.
    pub target: Option<f64>,
    /// How it came out.
    pub verdict: Verdict,
    /// What was not measured, where the verdict needs it.
    pub missing: Option<&'static str>,
}

/// What [`Line::cells`] are.
pub const HEAD: [&str; 8] = [
    "ppc",
    "figure",
    "RocksDB",
    "verdict",
    "ours",
    "ratio",
    "target",
    "ratio to sorted SSTs",
];

impl Line {
    /// The bound with its direction: `≤ 0.75`.
    pub fn target_text(&self) -> String {
        let sign = if self.figure == Figure::Stored {
            "≤"
        } else {
            "≥"
        };
        self.target
            .map_or_else(|| "–".to_owned(), |target| format!("{sign} {target:.2}"))
    }

    /// What is compared, with the cache if there is one.
    pub fn figure_text(&self) -> String {
        match self.cache_bytes {
            None | Some(0) => self.figure.name().to_owned(),
            Some(cache_bytes) => format!("{}, {} cache", self.figure.name(), bytes(cache_bytes)),
        }
    }

    /// The cells below [`HEAD`].
    pub fn cells(&self) -> [String; 8] {
        let ratio = |ratio: Option<f64>| ratio.map_or_else(|| "–".to_owned(), number);
        [
            self.configuration.clone(),
            self.figure_text(),
            self.reference.clone(),
            match self.missing {
                Some(missing) => format!("{}: {missing}", self.verdict.name()),
                None => self.verdict.name().to_owned(),
            },
            self.ours_text(),
            ratio(self.ratio_to_puts),
            self.target_text(),
            ratio(self.ratio_to_sorted),
        ]
    }

    /// Our figure with its unit where the name has none.
    pub fn ours_text(&self) -> String {
        match (self.ours, self.figure) {
            (None, _) => "not measured".to_owned(),
            (Some(ours), Figure::Stored) => bytes(ours as u64),
            (Some(ours), _) => number(ours),
        }
    }
}

/// The lines of one corpus, or of all together.
#[derive(Debug, Serialize)]
pub struct Scope {
    /// The corpus: name, size and files; or which are taken together.
    pub name: String,
    /// Goal by goal, profile by profile.
    pub lines: Vec<Line>,
    /// Our blocks beside RocksDB's of the same codec and size; they have no goals.
    pub blocks: Vec<Line>,
}

/// All scopes of a run: each corpus (of one name the largest), then, where there are several, all
/// together.
pub fn scopes(run: &Run) -> Vec<Scope> {
    let corpora = largest_of_each(run);
    let mut scopes: Vec<Scope> = corpora
        .iter()
        .map(|results| {
            let corpus = &results.corpus;
            Scope {
                name: format!(
                    "{}: {}, {} files",
                    corpus.name,
                    bytes(corpus.raw_bytes),
                    number(corpus.files as f64)
                ),
                lines: lines(&[results]),
                blocks: blocks(&[results]),
            }
        })
        .collect();
    if corpora.len() > 1 {
        let names: Vec<&str> = corpora
            .iter()
            .map(|results| results.corpus.name.as_str())
            .collect();
        scopes.push(Scope {
            name: format!("all together: {}", names.join(", ")),
            lines: lines(&corpora),
            blocks: blocks(&corpora),
        });
    }
    scopes
}

fn lines(corpora: &[&CorpusResults]) -> Vec<Line> {
    let ours = ours(corpora);
    let mut lines = Vec::new();
    for (profile, goals) in PROFILES {
        let mut measured: Vec<_> = ours
            .iter()
            .filter(|own| own.layout == profile)
            .map(|own| (own.name_in_peer(), Some(own)))
            .collect();
        if measured.is_empty() {
            measured.push((profile.to_owned(), None));
        }
        for (name, own) in measured {
            for goal in goals.iter().chain(&BESIDES) {
                let bound = if corpora.len() > 1 {
                    Some(goal.together)
                } else {
                    goal.each
                };
                lines.push(line(
                    corpora,
                    &name,
                    own,
                    goal.figure,
                    goal.reference,
                    bound,
                ));
            }
        }
    }
    lines
}

fn blocks(corpora: &[&CorpusResults]) -> Vec<Line> {
    let ours = ours(corpora);
    let mut lines = Vec::new();
    for own in ours.iter().filter(|own| own.layout == "blocks") {
        for figure in OF_BLOCKS {
            lines.push(line(
                corpora,
                &own.name_in_peer(),
                Some(own),
                figure,
                Reference::Same,
                None,
            ));
        }
    }
    lines
}

/// Our configurations, in order, each once.
fn ours(corpora: &[&CorpusResults]) -> Vec<Configuration> {
    let mut ours: Vec<Configuration> = corpora
        .iter()
        .flat_map(|results| results.cells.keys())
        .filter(|cell| cell.peer == "ppc")
        .map(Configuration::of)
        .collect();
    ours.sort();
    ours.dedup();
    ours
}

fn line(
    corpora: &[&CorpusResults],
    name: &str,
    own: Option<&Configuration>,
    figure: Figure,
    reference: Reference,
    target: Option<f64>,
) -> Line {
    let pair = |load| own.and_then(|own| pair(corpora, own, figure, reference, load));
    let (puts, sorted) = (pair(Load::Puts), pair(Load::Sorted));
    let alone = || {
        let own = own?;
        figure.over(corpora, |results| {
            find(results, figure, |cell| Configuration::of(cell) == *own)
        })
    };
    let ours = puts.or(sorted).map(|pair| pair.ours).or_else(alone);
    let ratio_to_puts = puts.map(|pair| pair.ours / pair.theirs);
    let any_puts = || theirs(corpora, own, figure, reference, Load::Puts, None);
    let missing = match (puts, ours) {
        (Some(_), _) => None,
        (None, None) if any_puts().is_none() => Some("neither side"),
        (None, None) => Some("ours"),
        (None, Some(_)) if any_puts().is_none() => Some("RocksDB by puts"),
        (None, Some(_)) => Some("with equal caches"),
    };
    let verdict = match (ratio_to_puts, target) {
        (None, _) => Verdict::NotMeasured,
        (_, None) => Verdict::NoTarget,
        (Some(ratio), Some(target)) => {
            let met = if figure == Figure::Stored {
                ratio <= target
            } else {
                ratio >= target
            };
            if met { Verdict::Met } else { Verdict::Missed }
        }
    };
    Line {
        configuration: name.to_owned(),
        figure,
        ours,
        cache_bytes: puts.or(sorted).and_then(|pair| pair.cache_bytes),
        reference: match (reference, own) {
            (Reference::Blocks(codec, block_bytes), _) => {
                format!("{codec}/{}", bytes(u64::from(block_bytes)))
            }
            (Reference::Same, Some(own)) => own.recipe(),
            (Reference::Same, None) => "the same".to_owned(),
            (Reference::Best, _) => "its best".to_owned(),
        },
        ratio_to_puts,
        ratio_to_sorted: sorted.map(|pair| pair.ours / pair.theirs),
        target,
        verdict,
        missing,
    }
}

/// A figure of ours and RocksDB's, with the same bytes of cache.
#[derive(Debug, Clone, Copy)]
struct Pair {
    /// Where it matters.
    cache_bytes: Option<u64>,
    ours: f64,
    theirs: f64,
}

fn pair(
    corpora: &[&CorpusResults],
    own: &Configuration,
    figure: Figure,
    reference: Reference,
    load: Load,
) -> Option<Pair> {
    for cache_bytes in caches(corpora, own, figure) {
        let same_cache = |cell: &Cell| cache_bytes.is_none_or(|bytes| cell.cache_bytes == bytes);
        let ours = figure.over(corpora, |results| {
            find(results, figure, |cell| {
                Configuration::of(cell) == *own && same_cache(cell)
            })
        });
        let theirs = theirs(corpora, Some(own), figure, reference, load, cache_bytes);
        if let (Some(ours), Some(theirs)) = (ours, theirs) {
            return Some(Pair {
                cache_bytes,
                ours,
                theirs,
            });
        }
    }
    None
}

/// RocksDB's figure, with these bytes of cache or any.
fn theirs(
    corpora: &[&CorpusResults],
    own: Option<&Configuration>,
    figure: Figure,
    reference: Reference,
    load: Load,
    cache_bytes: Option<u64>,
) -> Option<f64> {
    figure.over(corpora, |results| {
        let matches = |cell: &Cell| {
            cell.peer == "rocksdb"
                && cell.load == load
                && cache_bytes.is_none_or(|bytes| cell.cache_bytes == bytes)
                && reference.is(cell, own)
        };
        match reference {
            Reference::Best => best(results, figure, matches),
            _ => find(results, figure, matches),
        }
    })
}

/// The sizes of cache to try until both sides have one: the largest first where keys recur, since
/// that is what a cache is for, else the smallest.
fn caches(corpora: &[&CorpusResults], own: &Configuration, figure: Figure) -> Vec<Option<u64>> {
    if matches!(figure, Figure::Stored | Figure::Build) {
        return vec![None];
    }
    let mut caches: Vec<Option<u64>> = corpora
        .iter()
        .flat_map(|results| results.cells.keys())
        .filter(|cell| figure.is_of(cell) && Configuration::of(cell) == *own)
        .map(|cell| Some(cell.cache_bytes))
        .collect();
    caches.sort_unstable();
    caches.dedup();
    if figure == Figure::PowerLawGet {
        caches.reverse();
    }
    caches
}

/// The first cell that gives the figure. Cells are ordered by experiment, builds first, and by
/// threads, so that stored bytes are those after the build, and builds those of the fewest threads.
fn find(
    results: &CorpusResults,
    figure: Figure,
    matches: impl Fn(&Cell) -> bool,
) -> Option<&Measurement> {
    results
        .cells
        .values()
        .find(|measurement| figure.is_of(&measurement.cell) && matches(&measurement.cell))
}

/// The cell with the greatest rate.
fn best(
    results: &CorpusResults,
    figure: Figure,
    matches: impl Fn(&Cell) -> bool,
) -> Option<&Measurement> {
    results
        .cells
        .values()
        .filter(|measurement| figure.is_of(&measurement.cell) && matches(&measurement.cell))
        .filter_map(|measurement| Some((figure.rate(measurement)?.median, measurement)))
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, measurement)| measurement)
}

/// The tables of a run, as Markdown that also reads well unrendered.
fn text(run: &Run) -> String {
    let machine = &run.machine;
    let (first, last) = run.period();
    let mut text = format!(
        "{}, {} processors, {} of memory, Linux {}, commit {}, {}\n",
        machine.cpu,
        machine.cpus,
        bytes(machine.memory_bytes),
        machine.kernel,
        machine.commit,
        if date(first) == date(last) {
            date(first)
        } else {
            format!("{} to {}", date(first), date(last))
        }
    );
    for scope in scopes(run) {
        text.push_str(&format!("\n### {}\n\n", scope.name));
        text.push_str(&table(&scope.lines));
        if !scope.blocks.is_empty() {
            text.push_str(
                "\nBlocks in key order, ours beside RocksDB's of the same codec and size:\n\n",
            );
            text.push_str(&table(&scope.blocks));
        }
    }
    text.push('\n');
    text
}

fn table(lines: &[Line]) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(lines.iter().map(Line::cells));
    markdown(&rows)
}

/// A Markdown table whose columns line up; the first row is its head.
fn markdown<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let mut widths = [3; COLUMNS];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (width, cell) in widths.iter().zip(row) {
            text.push_str(&format!("| {cell:<width$} "));
        }
        text.push_str("|\n");
        if index == 0 {
            for width in widths {
                text.push_str(&format!("|{}", "-".repeat(width + 2)));
            }
            text.push_str("|\n");
        }
    }
    text
}
