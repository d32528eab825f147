//! The cells of a hash column, and which kind of hash they are.

use parquet::data_type::ByteArray;

use crate::hash::{ContentHash, HashKind, Sha1, Sha1Git, decode_hex};
use crate::source::StatedHash;
use crate::swhid::Swhid;
use crate::text::quote;

/// Rows tried before a column without a known kind is left undecided.
const TRIED_ROWS_MAX: u32 = 16;

/// What is known of a hash column.
#[derive(Debug, Clone)]
pub(super) struct HashColumn {
    pub(super) column: usize,
    kind: Option<HashKind>,
    tried_rows: u32,
}

impl HashColumn {
    pub(super) fn new(column: usize, kind: Option<HashKind>) -> Self {
        Self {
            column,
            kind,
            tried_rows: 0,
        }
    }

    /// The hash that a cell states for `content`.
    ///
    /// 40 hex digits may be sha1_git or sha1, and both occur under the same column name. The first
    /// row whose content confirms one settles the column; if the first rows confirm neither, the
    /// importer is left to check both.
    pub(super) fn stated(&mut self, cell: &ByteArray, content: &[u8]) -> StatedHash {
        let stated = parse(cell.data(), self.kind);
        let StatedHash::Either20(bytes) = stated else {
            return stated;
        };
        if self.tried_rows == TRIED_ROWS_MAX {
            return stated;
        }
        self.tried_rows += 1;
        let candidates = [
            ContentHash::Sha1Git(Sha1Git(bytes)),
            ContentHash::Sha1(Sha1(bytes)),
        ];
        for candidate in candidates {
            if candidate.kind().of(content) == candidate {
                self.kind = Some(candidate.kind());
                return StatedHash::Known(candidate);
            }
        }
        stated
    }
}

/// A cell as a hash: hex digits, raw bytes, `kind:hex`, or a SWHID.
fn parse(cell: &[u8], kind: Option<HashKind>) -> StatedHash {
    let malformed = || StatedHash::Malformed(quote(cell));
    let text = std::str::from_utf8(cell).unwrap_or_default();
    let labelled = text
        .parse::<Swhid>()
        .and_then(|swhid| swhid.content_hash())
        .map(ContentHash::Sha1Git)
        .or_else(|_| text.parse::<ContentHash>());
    if let Ok(hash) = labelled {
        let is_expected = kind.is_none_or(|kind| kind == hash.kind());
        return if is_expected {
            StatedHash::Known(hash)
        } else {
            malformed()
        };
    }
    if let Some(kind) = kind {
        let raw = kind.from_slice(cell);
        let hash = raw.or_else(|| kind.parse_hex(text).ok());
        return hash.map_or_else(malformed, StatedHash::Known);
    }
    let short = cell.try_into().ok().or_else(|| decode_hex(cell));
    if let Some(bytes) = short {
        return StatedHash::Either20(bytes);
    }
    let long = cell.try_into().ok().or_else(|| decode_hex(cell));
    long.map_or_else(malformed, StatedHash::Either32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(text: &str) -> ByteArray {
        ByteArray::from(text)
    }

    #[test]
    fn a_cell_is_read_as_hex_raw_labelled_or_swhid() {
        let hash = Sha1Git::of(b"hello");
        let known = StatedHash::Known(ContentHash::Sha1Git(hash));
        let git = Some(HashKind::Sha1Git);
        for text in [
            hash.to_string(),
            Swhid::content(hash).to_string(),
            format!("sha1_git:{hash}"),
        ] {
            assert_eq!(parse(text.as_bytes(), git), known, "{text}");
        }
        assert_eq!(parse(hash.as_bytes(), git), known);
        assert_eq!(parse(hash.as_bytes(), None), StatedHash::Either20(hash.0));
        assert_eq!(parse(&[b'a'; 64], None), StatedHash::Either32([0xaa; 32]));
        for (text, kind) in [("", None), ("abc", git), ("sha1:00", None)] {
            assert!(matches!(
                parse(text.as_bytes(), kind),
                StatedHash::Malformed(_)
            ));
        }
        let sha1 = parse(format!("sha1_git:{hash}").as_bytes(), Some(HashKind::Sha1));
        assert!(matches!(sha1, StatedHash::Malformed(_)));
    }

    #[test]
    fn the_first_confirmed_row_settles_the_kind() {
        let mut column = HashColumn::new(0, None);
        let unconfirmed = column.stated(&cell(&"0".repeat(40)), b"x");
        assert_eq!(unconfirmed, StatedHash::Either20([0; 20]));
        let confirmed = column.stated(&cell(&Sha1::of(b"y").to_string()), b"y");
        assert_eq!(
            confirmed,
            StatedHash::Known(ContentHash::Sha1(Sha1::of(b"y")))
        );
        let later = column.stated(&cell(&"0".repeat(40)), b"z");
        assert_eq!(later, StatedHash::Known(ContentHash::Sha1(Sha1([0; 20]))));
    }

    #[test]
    fn a_column_that_the_first_rows_do_not_confirm_stays_undecided() {
        let mut column = HashColumn::new(0, None);
        for _ in 0..TRIED_ROWS_MAX {
            column.stated(&cell(&"0".repeat(40)), b"x");
        }
        let late = column.stated(&cell(&Sha1::of(b"y").to_string()), b"y");
        assert_eq!(late, StatedHash::Either20(Sha1::of(b"y").0));
    }
}
