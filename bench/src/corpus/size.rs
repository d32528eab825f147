//! Byte sizes as people write and read them: `256MiB`, `1.5GiB`.

use std::fmt;
use std::str::FromStr;

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ByteSize(pub(super) u64);

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        let mut unit = UNITS[0];
        for larger in &UNITS[1..] {
            // From here on it would be printed with four digits.
            if value < 1023.5 {
                break;
            }
            value /= 1024.0;
            unit = larger;
        }
        let decimals = match value {
            _ if unit == UNITS[0] => 0,
            value if value < 9.995 => 2,
            value if value < 99.95 => 1,
            _ => 0,
        };
        f.pad(&format!("{value:.decimals$} {unit}"))
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("{text:?} is no size; write a number and a unit, such as 256MiB");
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
        let unit = unit.trim();
        let exponent = UNITS.iter().position(|known| {
            unit.eq_ignore_ascii_case(known) || (unit.is_empty() && *known == UNITS[0])
        });
        let factor = 1024_f64.powi(exponent.ok_or_else(refuse)? as i32);
        let bytes = number.parse::<f64>().map_err(|_| refuse())? * factor;
        if bytes >= u64::MAX as f64 {
            return Err(format!("{text:?} is more than 64 bits can count"));
        }
        Ok(Self(bytes as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in [
            ("256MiB", 256 << 20),
            ("1.5 gib", 3 << 29),
            ("100", 100),
            ("7B", 7),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "MiB", "1 parsec", "-1", "1.2.3", "99999999999TiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (3 << 29, "1.50 GiB"),
            (1_048_500, "1.00 MiB"),
            (300 << 20, "300 MiB"),
        ] {
            assert_eq!(ByteSize(bytes).to_string(), text);
        }
    }
}
