//! What came of tuning, for people and for machines.

use std::path::Path;

use ppc_engine::TableOptions;
use ppc_store::tune::{
    Choice, Figures, Limit, Measured, Measurement, Miss, NearMiss, Objective,
    PROCESSOR_TIME_SOURCE, Sample, Tuning, pareto,
};
use serde_json::{Value, json};

use super::super::failure::Failure;
use super::super::output::{Align, Output, Table, one_line};
use super::super::size::{ByteSize, grouped};
use super::super::whatif::shape;
use super::Goal;

const MIB: f64 = (1_u64 << 20) as f64;
const GIB: f64 = (1_u64 << 30) as f64;

/// Contents below which a sample says little: a table of a store has 256 MiB.
const SAMPLE_BYTES_TELLING: u64 = 4 << 20;

/// Everything there is to tell.
pub(super) struct Report<'a> {
    pub(super) store: &'a Path,
    pub(super) is_new: bool,
    pub(super) has_sources: bool,
    pub(super) sample: &'a Sample,
    pub(super) tuning: &'a Tuning,
    pub(super) figures: Vec<Figures>,
    pub(super) goal: Goal,
    pub(super) choice: &'a Choice,
    pub(super) is_applied: bool,
}

impl Report<'_> {
    pub(super) fn print(&self, out: &mut Output) -> Result<(), Failure> {
        if out.is_json() {
            return out.json(&self.to_json());
        }
        self.print_circumstances(out)?;
        out.line("")?;
        self.print_table(out)?;
        out.line("")?;
        match self.choice {
            Choice::Found { index, admitted } => self.print_recommendation(*index, *admitted, out),
            Choice::NoneMeets { closest } => {
                out.line("Nothing that was tried keeps to the limits. The closest:")?;
                closest
                    .iter()
                    .try_for_each(|near| out.line(&format!("  {}", self.near_miss(near))))
            }
        }
    }

    /// Why nothing is recommended, on one line.
    pub(super) fn none_meets(&self) -> String {
        let Choice::NoneMeets { closest } = self.choice else {
            return String::new();
        };
        let closest = closest.first().map(|near| self.near_miss(near));
        format!(
            "none of the {} sets of options that were tried keeps to the limits; closest: {}",
            self.tuning.measured.len(),
            closest.unwrap_or_else(|| "none".to_owned())
        )
    }

    fn print_circumstances(&self, out: &mut Output) -> Result<(), Failure> {
        let mut line = |label: &str, text: &str| out.line(&one_line(&format!("{label:<10}{text}")));
        let sample = self.sample;
        let whence = match self.has_sources {
            true => "the sources".to_owned(),
            false => self.store.display().to_string(),
        };
        let runs = match sample.runs() {
            1 => "one run".to_owned(),
            runs => format!("{runs} runs"),
        };
        line(
            "sample",
            &format!(
                "{} in {} files of {whence}, {runs} of neighbours in key order",
                ByteSize(sample.content_bytes()),
                grouped(sample.entries().len() as u64)
            ),
        )?;
        if sample.content_bytes() < SAMPLE_BYTES_TELLING {
            line("caution", "so small a sample says little of larger stores")?;
        }
        if let Some(coverage) = sample.coverage() {
            let (files, bytes) = (grouped(coverage.files), ByteSize(coverage.bytes));
            let looked_at = match coverage.is_cut_short {
                true => format!(
                    "only {files} files, {bytes}: there was no time for more, raise --seconds"
                ),
                false => format!("{files} files, {bytes}: everything"),
            };
            line("read", &looked_at)?;
        }
        let rounds = match self.tuning.rounds {
            1 => "once: there was no time for a second round".to_owned(),
            rounds => format!("{rounds} times, medians"),
        };
        let time = match PROCESSOR_TIME_SOURCE {
            "clock" => "by the clock, as this system tells no processor time",
            _ => "by processor time",
        };
        line(
            "measured",
            &format!("{rounds}; speeds of one core, {time}; single random gets, nothing cached"),
        )?;
        line(
            "energy",
            &format!(
                "not metered: CPU-seconds, of a GiB {}, stand in for it; ppc-bench meters joules",
                self.work()
            ),
        )?;
        let left_out = &self.tuning.left_out;
        if let Some(first) = left_out.first() {
            let more = match left_out.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            line(
                "left out",
                &format!(
                    "{}{more}, for want of time: raise --seconds, or lower --sample",
                    first.name
                ),
            )?;
        }
        Ok(())
    }

    fn print_table(&self, out: &mut Output) -> Result<(), Failure> {
        let mut table = Table::new(&[
            ("pareto", Align::Left),
            ("options", Align::Left),
            ("ratio", Align::Right),
            ("build MiB/s", Align::Right),
            ("get MiB/s", Align::Right),
            ("us/get", Align::Right),
            ("decoded/returned", Align::Right),
            ("CPU-s/GiB", Align::Right),
            ("", Align::Left),
        ]);
        let chosen = self.chosen();
        for (index, ((measured, figures), is_pareto)) in self.rows().enumerate() {
            let mark = if is_pareto { "*" } else { "" };
            let notes: Vec<&str> = [
                (index == 0).then_some(self.base_name()),
                (Some(index) == chosen).then_some("recommended"),
            ]
            .into_iter()
            .flatten()
            .collect();
            table.row(vec![
                mark.to_owned(),
                measured.candidate.name.clone(),
                format!("{:.2} %", figures.ratio * 100.0),
                format!("{:.0}", figures.build_bytes_per_second / MIB),
                format!("{:.0}", figures.get_bytes_per_second / MIB),
                format!("{:.0}", measured.get_microseconds()),
                format!("{:.1}", measured.decoded_per_returned()),
                format!("{:.1}", figures.seconds_per_byte(self.goal.reads) * GIB),
                notes.join(", "),
            ]);
        }
        table.print(out)
    }

    fn print_recommendation(
        &self,
        index: usize,
        admitted: usize,
        out: &mut Output,
    ) -> Result<(), Failure> {
        let Some(measured) = self.tuning.measured.get(index) else {
            return Ok(());
        };
        let mut line = |text: &str| out.line(&one_line(text));
        line(&format!("Recommended: {}.", measured.candidate.name))?;
        line(&format!("Why: {}.", self.reason(index, admitted)))?;
        line(&format!("As options: {}", flags(&measured.candidate.table)))?;
        let store = self.store.display();
        if !self.is_applied {
            return line(match self.is_new {
                true => "Nothing was written: --apply makes the store, empty, with these options.",
                false => "Nothing was changed: --apply writes these options into the store.",
            });
        }
        if self.is_new {
            return line(&format!(
                "Made {store}, empty, with these options: `ppc import {store} ...` fills it."
            ));
        }
        if index == 0 {
            return line(&format!(
                "{store} has these options already. Tables from before it had them stay as they \
                 are until `ppc compact {store} --rewrite` writes them anew."
            ));
        }
        line(&format!(
            "Written into {store}: tables written from now on follow it. Those that are there stay \
             as they are until `ppc compact {store} --rewrite` writes them anew."
        ))
    }

    /// Why the recommended one, in words.
    fn reason(&self, index: usize, admitted: usize) -> String {
        let Some(figures) = self.figures.get(index) else {
            return String::new();
        };
        let merit = match self.goal.objective {
            Objective::Smallest => format!("the smallest, {:.2} %", figures.ratio * 100.0),
            Objective::FastestGet => format!(
                "gets at {:.0} MiB/s of a core, the fastest or within 3 % of it",
                figures.get_bytes_per_second / MIB
            ),
            Objective::FastestBuild => format!(
                "builds at {:.0} MiB/s of a core, the fastest or within 3 % of it",
                figures.build_bytes_per_second / MIB
            ),
            Objective::Cheapest => format!(
                "{:.1} CPU-seconds for a GiB {}, the fewest or within 3 % of it",
                figures.seconds_per_byte(self.goal.reads) * GIB,
                self.work()
            ),
            _ => "nearest to the best in ratio, building and gets together".to_owned(),
        };
        let measured = self.tuning.measured.len();
        let among = match self.goal.limits.is_none() {
            true => format!("of the {measured} that were tried"),
            false => format!("of the {admitted} of {measured} that keep to the limits"),
        };
        let mut reason = format!("{merit}, {among}");
        if let (Some(base), false) = (self.figures.first(), index == 0) {
            reason.push_str(&format!(
                "; against {}: {:.2} times the bytes, builds {:.2} times as fast, gets {:.2} times \
                 as fast",
                self.base_name(),
                figures.ratio / base.ratio.max(1e-9),
                figures.build_bytes_per_second / base.build_bytes_per_second.max(1e-9),
                figures.get_bytes_per_second / base.get_bytes_per_second.max(1e-9),
            ));
        }
        reason
    }

    /// What the first candidate is to the user.
    fn base_name(&self) -> &'static str {
        if self.is_new { "the default" } else { "now" }
    }

    /// What the cost is the cost of.
    fn work(&self) -> String {
        match self.goal.reads {
            1.0 => "built and got once".to_owned(),
            reads => format!("built, got {reads} times"),
        }
    }

    fn near_miss(&self, near: &NearMiss) -> String {
        let name = self.tuning.measured.get(near.index);
        let name = name.map_or("?", |measured| &measured.candidate.name);
        let misses: Vec<String> = near.misses.iter().map(miss_text).collect();
        format!("{name}: {}", misses.join("; "))
    }

    fn chosen(&self) -> Option<usize> {
        match self.choice {
            Choice::Found { index, .. } => Some(*index),
            Choice::NoneMeets { .. } => None,
        }
    }

    /// Each candidate with its figures, and whether it is in the Pareto set.
    fn rows(&self) -> impl Iterator<Item = ((&Measured, &Figures), bool)> {
        let rows = self.tuning.measured.iter().zip(&self.figures);
        rows.zip(pareto(&self.figures))
    }

    fn to_json(&self) -> Value {
        let limits = &self.goal.limits;
        let candidates: Vec<Value> = self
            .rows()
            .map(|((measured, figures), is_pareto)| self.candidate(measured, figures, is_pareto))
            .collect();
        let left_out = self.tuning.left_out.iter();
        let left_out: Vec<&str> = left_out.map(|candidate| &candidate.name[..]).collect();
        let (recommended, reason, closest) = match self.choice {
            Choice::Found { index, admitted } => {
                let reason = self.reason(*index, *admitted);
                (candidates.get(*index).cloned(), Some(reason), None)
            }
            Choice::NoneMeets { closest } => {
                let closest = closest.iter().map(|near| self.near_miss_json(near));
                (None, None, Some(closest.collect::<Vec<_>>()))
            }
        };
        json!({
            "sample": {
                "content_bytes": self.sample.content_bytes(),
                "files": self.sample.entries().len(),
                "runs": self.sample.runs(),
                "sources": self.sample.coverage().map(|coverage| json!({
                    "files": coverage.files,
                    "bytes": coverage.bytes,
                    "cut_short": coverage.is_cut_short,
                })),
            },
            "rounds": self.tuning.rounds,
            "time_source": PROCESSOR_TIME_SOURCE,
            "energy": "not metered",
            "objective": self.goal.objective.name(),
            "reads": self.goal.reads,
            "limits": {
                "ratio_max": limits.ratio_max,
                "build_bytes_per_second_min": limits.build_min,
                "get_bytes_per_second_min": limits.get_min,
            },
            "candidates": candidates,
            "left_out": left_out,
            "recommended": recommended,
            "reason": reason,
            "closest": closest,
            "applied": self.is_applied,
        })
    }

    fn candidate(&self, measured: &Measured, figures: &Figures, is_pareto: bool) -> Value {
        let table = &measured.candidate.table;
        let (level, block_bytes) = shape(table);
        let rounds: Vec<Value> = measured.rounds.iter().map(round).collect();
        json!({
            "name": measured.candidate.name,
            "zstd_level": level,
            "block_bytes": block_bytes,
            "dictionary_bytes": table.dictionary_bytes,
            "ratio": figures.ratio,
            "build_bytes_per_second": figures.build_bytes_per_second,
            "get_bytes_per_second": figures.get_bytes_per_second,
            "get_microseconds": measured.get_microseconds(),
            "get_decoded_per_returned": measured.decoded_per_returned(),
            "cpu_seconds_per_gib": figures.seconds_per_byte(self.goal.reads) * GIB,
            "pareto": is_pareto,
            "rounds": rounds,
        })
    }

    fn near_miss_json(&self, near: &NearMiss) -> Value {
        let name = self.tuning.measured.get(near.index);
        let misses = near.misses.iter().map(|miss| {
            json!({
                "limit": limit_name(miss.limit),
                "wanted": miss.wanted,
                "measured": miss.measured,
            })
        });
        json!({
            "name": name.map(|measured| &measured.candidate.name),
            "misses": misses.collect::<Vec<_>>(),
        })
    }
}

fn round(round: &Measurement) -> Value {
    json!({
        "stored_bytes": round.stored_bytes,
        "build_cpu_seconds": round.build.processor.as_secs_f64(),
        "build_seconds": round.build.clock.as_secs_f64(),
        "gets": round.gets,
        "returned_bytes": round.returned_bytes,
        "decoded_bytes": round.decoded_bytes,
        "get_cpu_seconds": round.get.processor.as_secs_f64(),
        "get_seconds": round.get.clock.as_secs_f64(),
    })
}

fn limit_name(limit: Limit) -> &'static str {
    match limit {
        Limit::RatioMax => "ratio-max",
        Limit::BuildMin => "build-min",
        Limit::GetMin => "get-min",
    }
}

fn miss_text(miss: &Miss) -> String {
    let by = miss.share() * 100.0;
    let speed = |what: &str| {
        format!(
            "{what} {:.0} MiB/s, {by:.1} % below {:.0}",
            miss.measured / MIB,
            miss.wanted / MIB
        )
    };
    match miss.limit {
        Limit::RatioMax => format!(
            "ratio {:.2} %, {by:.1} % above {:.2} %",
            miss.measured * 100.0,
            miss.wanted * 100.0
        ),
        Limit::BuildMin => speed("builds"),
        Limit::GetMin => speed("gets"),
    }
}

/// The options as `ppc import` and `ppc compact` take them.
fn flags(table: &TableOptions) -> String {
    let (level, block_bytes) = shape(table);
    let mut flags = Vec::new();
    if let Some(level) = level {
        flags.push(format!("--zstd-level {level}"));
    }
    let block = match block_bytes {
        bytes if bytes.is_multiple_of(1024) => format!("{}KiB", bytes / 1024),
        bytes => bytes.to_string(),
    };
    flags.push(format!("--block-size {block}"));
    let dictionary = match table.dictionary_bytes {
        bytes if bytes > 0 && bytes.is_multiple_of(1024) => format!("{}KiB", bytes / 1024),
        bytes => bytes.to_string(),
    };
    flags.push(format!("--dictionary {dictionary}"));
    flags.join(" ")
}
