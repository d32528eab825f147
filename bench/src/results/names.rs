//! How cells and figures are called where people read them.

use super::{Cell, Experiment, Keys, Load, Temperature};

/// How a store was made: the part of a cell that decides what it holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Configuration {
    /// The store.
    pub peer: String,
    /// How values came in.
    pub load: Load,
    /// What turns values into units.
    pub layout: String,
    /// Compression and level.
    pub codec: String,
    /// Bytes of a block; 0 without.
    pub block_bytes: u32,
    /// Bytes of dictionary; 0 without.
    pub dictionary_bytes: u32,
}

/// What was asked of a store: the part of a cell that decides what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Workload {
    /// The experiment.
    pub experiment: Experiment,
    /// Bytes of decoded blocks or frames that the store may cache; 0 where it has no such cache.
    pub cache_bytes: u64,
    /// Which keys.
    pub keys: Keys,
    /// Keys in one call.
    pub batch: u32,
    /// Threads that ask.
    pub threads: u32,
    /// Page cache.
    pub temperature: Temperature,
}

impl Configuration {
    /// That of a cell.
    pub fn of(cell: &Cell) -> Self {
        Self {
            peer: cell.peer.clone(),
            load: cell.load,
            layout: cell.layout.clone(),
            codec: cell.codec.clone(),
            block_bytes: cell.block_bytes,
            dictionary_bytes: cell.dictionary_bytes,
        }
    }

    /// Whether values share blocks in key order, as in the paper.
    pub fn is_blocks(&self) -> bool {
        self.layout == "blocks" || self.block_bytes > 0
    }

    /// Whether values came in the way this peer is loaded by default: RocksDB as in the paper, ours
    /// by its own bulk load.
    pub fn is_default_load(&self) -> bool {
        match self.peer.as_str() {
            "rocksdb" => self.load == Load::Puts,
            "ppc" => self.load == Load::Sorted,
            _ => true,
        }
    }

    /// A short name: `RocksDB zstd-9/128 KiB`, `ppc balanced zstd-3`. The load is named where it is
    /// not the default.
    pub fn name(&self) -> String {
        format!("{} {}", peer_name(&self.peer), self.name_in_peer())
    }

    /// The name without the peer's: `zstd-9/128 KiB`, `balanced zstd-3`.
    pub fn name_in_peer(&self) -> String {
        let mut name = self.recipe();
        if !self.is_default_load() {
            name.push_str(&format!(", {}", load_name(self.load)));
        }
        name
    }

    /// The name without the peer's and the load.
    pub fn recipe(&self) -> String {
        let mut name = String::new();
        // Blocks are told by their size, and single files by the absence of one.
        if self.layout != "blocks" && self.layout != "files" {
            name = format!("{} ", self.layout);
        }
        name.push_str(&self.codec);
        if self.block_bytes > 0 {
            name.push_str(&format!("/{}", bytes(u64::from(self.block_bytes))));
        }
        if self.dictionary_bytes > 0 {
            name.push_str(&format!(
                " + {} dict",
                bytes(u64::from(self.dictionary_bytes))
            ));
        }
        name
    }
}

impl Workload {
    /// That of a cell.
    pub fn of(cell: &Cell) -> Self {
        Self {
            experiment: cell.experiment,
            cache_bytes: cell.cache_bytes,
            keys: cell.keys,
            batch: cell.batch,
            threads: cell.threads,
            temperature: cell.temperature,
        }
    }

    /// What is done, without threads and temperature: `single gets, uniform`.
    pub fn action(&self) -> String {
        let keys = match self.keys {
            Keys::None => "",
            Keys::Uniform => ", uniform",
            Keys::PowerLaw => ", power law",
            Keys::Ordered => ", in key order",
        };
        match self.experiment {
            Experiment::Build => "build".to_owned(),
            Experiment::Scan => "scan".to_owned(),
            Experiment::Miss if self.batch > 1 => format!("misses by {}{keys}", self.batch),
            Experiment::Miss => format!("misses{keys}"),
            Experiment::Mixed => format!("gets between updates and deletes{keys}"),
            Experiment::Get if self.batch > 1 => format!("multi-gets of {}{keys}", self.batch),
            Experiment::Get => format!("single gets{keys}"),
        }
    }

    /// All of it: `single gets, uniform, 1 thread, warm, 64 MiB cache`.
    pub fn name(&self) -> String {
        let plural = if self.threads == 1 { "" } else { "s" };
        let temperature = match (self.experiment, self.temperature) {
            (Experiment::Build, _) => "",
            (_, Temperature::Warm) => ", warm",
            (_, Temperature::Cold) => ", cold",
        };
        let cache = match (self.experiment, self.cache_bytes) {
            (Experiment::Build, _) | (_, 0) => String::new(),
            (_, cache_bytes) => format!(", {} cache", bytes(cache_bytes)),
        };
        format!(
            "{}, {} thread{plural}{temperature}{cache}",
            self.action(),
            self.threads
        )
    }
}

/// A peer as its makers write it.
pub fn peer_name(peer: &str) -> &str {
    match peer {
        "rocksdb" => "RocksDB",
        other => other,
    }
}

/// How values came in, in words.
pub fn load_name(load: Load) -> &'static str {
    match load {
        Load::Puts => "puts",
        Load::ShuffledPuts => "shuffled puts",
        Load::Sorted => "sorted load",
        Load::Shuffled => "shuffled load",
    }
}

/// Bytes with a binary unit and three significant digits.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut units = UNITS.into_iter();
    let mut unit = units.next().unwrap_or_default();
    // 1023.6 would print as 1024: it is one of the next unit already.
    while value >= 1023.5
        && let Some(next) = units.next()
    {
        value /= 1024.0;
        unit = next;
    }
    let decimals = match value {
        value if value.fract() == 0.0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// Three significant digits, thousands apart: `0.0123`, `4.56`, `78.9`, `1,230`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0" } else { "–" }.to_owned();
    }
    if size >= 99.95 {
        return thousands(value);
    }
    let decimals = if size >= 9.995 {
        1
    } else if size >= 0.9995 {
        2
    } else {
        // 0.0123 needs four decimals for three digits.
        (2.0 - size.log10().floor()).clamp(3.0, 12.0) as usize
    };
    format!("{value:.decimals$}")
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 { "-" } else { "" }.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share as percent with two decimals: `15.49 %`.
pub fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// The day of a time in seconds since 1970, UTC: `2026-12-01`.
pub fn date(unix_seconds: u64) -> String {
    // Days since 0000-03-01, in eras of 400 years (Howard Hinnant, "chrono-compatible low-level
    // date algorithms").
    let days = unix_seconds / 86_400 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::testing::record;

    #[test]
    fn configurations_are_called_as_in_the_paper() {
        let blocks = record()
            .peer("rocksdb")
            .load(Load::Puts)
            .codec("zstd-9")
            .blocks(128 << 10);
        let name = |builder: crate::results::testing::Builder| {
            Configuration::of(&builder.build().cell).name()
        };
        assert_eq!(name(blocks.clone()), "RocksDB zstd-9/128 KiB");
        assert_eq!(
            name(blocks.clone().load(Load::Sorted)),
            "RocksDB zstd-9/128 KiB, sorted load"
        );
        assert_eq!(
            name(blocks.dictionary(64 << 10)),
            "RocksDB zstd-9/128 KiB + 64 KiB dict"
        );
        assert_eq!(
            name(record().layout("dense").codec("zstd-6")),
            "ppc dense zstd-6"
        );
        assert_eq!(
            name(record().peer("files").layout("blocks").codec("none")),
            "files none"
        );
    }

    #[test]
    fn workloads_say_what_is_done() {
        let get = Workload::of(&record().build().cell);
        assert_eq!(get.name(), "single gets, uniform, 1 thread, warm");
        let batched = Workload {
            batch: 100,
            threads: 2,
            temperature: Temperature::Cold,
            ..get
        };
        assert_eq!(
            batched.name(),
            "multi-gets of 100, uniform, 2 threads, cold"
        );
        let build = Workload {
            experiment: Experiment::Build,
            keys: Keys::None,
            ..get
        };
        assert_eq!(build.name(), "build, 1 thread");
    }

    #[test]
    fn numbers_have_three_digits() {
        let pairs = [
            (0.0, "0"),
            (0.012_345, "0.0123"),
            (0.5, "0.500"),
            (1.005, "1.00"),
            (0.9996, "1.00"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (99.96, "100"),
            (1234.6, "1,235"),
            (-1_234_567.0, "-1,234,567"),
            (f64::NAN, "–"),
        ];
        for (value, text) in pairs {
            assert_eq!(number(value), text);
        }
        assert_eq!(bytes(4096), "4 KiB");
        assert_eq!(bytes(1_610_612_736), "1.50 GiB");
        assert_eq!(bytes(1_048_500), "1.00 MiB");
        assert_eq!(percent(0.1549), "15.49 %");
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_796_083_199), "2026-11-30");
        assert_eq!(date(1_796_083_200), "2026-12-01");
        assert_eq!(date(4_107_542_400), "2100-03-01");
    }
}
