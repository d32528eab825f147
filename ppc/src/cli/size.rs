//! Byte sizes as people write and read them: `64MiB`, `1.5 GiB`.
//!
//! `K`, `M`, `G`, `T` alone and with `iB` are powers of 1024; with `B` they are powers of 1000, as
//! in `dd` and `sort`. Case does not matter, and a blank may stand before the unit.

use std::fmt;
use std::str::FromStr;

/// A number of bytes, printed with a binary unit and three significant digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ByteSize(pub(crate) u64);

const BINARY_UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        let mut unit = 0;
        // 1023.6 would print as "1024": it is one of the next unit already.
        while value >= 1023.5 && unit + 1 < BINARY_UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let name = BINARY_UNITS.get(unit).copied().unwrap_or("B");
        let decimals = match value {
            _ if unit == 0 => 0,
            value if value < 9.995 => 2,
            value if value < 99.95 => 1,
            _ => 0,
        };
        f.pad(&format!("{value:.decimals$} {name}"))
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let refuse = || format!("'{text}' is no size; write a number and a unit, such as 64MiB");
        let multiplier = unit_bytes(unit.trim()).ok_or_else(refuse)?;
        let number = number.replace('_', "");
        if let Ok(whole) = number.parse::<u64>() {
            return whole
                .checked_mul(multiplier)
                .map(Self)
                .ok_or_else(|| format!("'{text}' is more bytes than 64 bits can count"));
        }
        let fraction: f64 = number.parse().map_err(|_| refuse())?;
        let bytes = (fraction * multiplier as f64).round();
        if bytes >= u64::MAX as f64 {
            return Err(format!("'{text}' is more bytes than 64 bits can count"));
        }
        Ok(Self(bytes as u64))
    }
}

/// Bytes of one `unit`; none if there is no such unit.
fn unit_bytes(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    if unit.is_empty() || unit == "b" {
        return Some(1);
    }
    let exponent = match unit.chars().next()? {
        'k' => 1,
        'm' => 2,
        'g' => 3,
        't' => 4,
        'p' => 5,
        'e' => 6,
        _ => return None,
    };
    match unit.get(1..)? {
        "" | "ib" => Some(1024_u64.pow(exponent)),
        "b" => Some(1000_u64.pow(exponent)),
        _ => None,
    }
}

/// A whole number with a comma between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// So many of a thing, in the plural unless there is one: `1 file`, `1,234 files`, `0 copies`.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    let number = grouped(count);
    match thing.strip_suffix('y') {
        _ if count == 1 => format!("{number} {thing}"),
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {thing}s"),
    }
}

/// `part` of `whole` in percent with two decimals; a dash where there is no whole.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.2} %", part as f64 * 100.0 / whole as f64)
}

/// Seconds as a person would say them: `0.4 s`, `37 s`, `5 min 12 s`, `3 h 20 min`.
pub(crate) fn duration(time: std::time::Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Option<u64> {
        text.parse::<ByteSize>().ok().map(|size| size.0)
    }

    #[test]
    fn sizes_are_read_as_written() {
        assert_eq!(parse("0"), Some(0));
        assert_eq!(parse("512"), Some(512));
        assert_eq!(parse("64MiB"), Some(64 << 20));
        assert_eq!(parse("64 mib"), Some(64 << 20));
        assert_eq!(parse("64M"), Some(64 << 20));
        assert_eq!(parse("64MB"), Some(64_000_000));
        assert_eq!(parse("1.5GiB"), Some(3 << 29));
        assert_eq!(parse("1_000k"), Some(1_024_000));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "MiB",
            "-1",
            "1XiB",
            "1MiBs",
            "1.2.3K",
            ".",
            "99999999P",
            "17E",
            "ä",
            "1é",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn three_digits_are_printed() {
        let print = |bytes| ByteSize(bytes).to_string();
        assert_eq!(print(0), "0 B");
        assert_eq!(print(1023), "1023 B");
        assert_eq!(print(1024), "1.00 KiB");
        assert_eq!(print((1 << 20) - 1), "1.00 MiB");
        assert_eq!(print(15 << 30), "15.0 GiB");
        assert_eq!(print(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn numbers_group_by_thousands() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(123), "123");
        assert_eq!(grouped(1_234), "1,234");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }

    #[test]
    fn one_thing_is_no_plural() {
        assert_eq!(counted(0, "file"), "0 files");
        assert_eq!(counted(1, "file"), "1 file");
        assert_eq!(counted(1_234, "copy"), "1,234 copies");
    }

    #[test]
    fn durations_take_two_units_at_most() {
        assert_eq!(duration(Duration::from_millis(430)), "0.4 s");
        assert_eq!(duration(Duration::from_secs(312)), "5 min 12 s");
        assert_eq!(duration(Duration::from_secs(12_000)), "3 h 20 min");
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back_nearly_the_same(bytes in 0..u64::MAX >> 1) {
            let text = ByteSize(bytes).to_string();
            let back = parse(&text).unwrap();
            prop_assert!(back.abs_diff(bytes) <= bytes / 150, "{bytes} {text} {back}");
        }

        #[test]
        fn parsing_never_panics(text in ".*") {
            let _ = parse(&text);
        }
    }
}
