//! The stretch of keys that a table (its entries and its range tombstones) reaches over.

use std::cmp::Ordering;
use std::ops::Bound;

use crate::manifest::TableMeta;
use crate::types::KeyRange;

/// Where a [`Span`] ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SpanEnd {
    /// With this key.
    Included(Vec<u8>),
    /// Before this key.
    Excluded(Vec<u8>),
    /// With the last key there can be.
    Unbounded,
}

impl SpanEnd {
    fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Included(key) | Self::Excluded(key) => Some(key),
            Self::Unbounded => None,
        }
    }

    /// Whether a span that ends here lies wholly before `key`.
    fn is_before(&self, key: &[u8]) -> bool {
        match self {
            Self::Included(end) => end.as_slice() < key,
            Self::Excluded(end) => end.as_slice() <= key,
            Self::Unbounded => false,
        }
    }
}

impl PartialOrd for SpanEnd {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SpanEnd {
    /// The end that reaches further is the greater.
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |end: &Self| match end {
            Self::Excluded(_) => 0,
            Self::Included(_) => 1,
            Self::Unbounded => 2,
        };
        match (self.key(), other.key()) {
            (Some(a), Some(b)) => a.cmp(b).then(rank(self).cmp(&rank(other))),
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

/// An unbroken stretch of user keys, never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first key.
    pub(crate) start: Vec<u8>,
    /// Where it ends.
    pub(crate) end: SpanEnd,
}

impl Span {
    /// What a table reaches over.
    pub(crate) fn of(table: &TableMeta) -> Self {
        let end = if table.unbounded_end {
            SpanEnd::Unbounded
        } else if table.largest_exclusive {
            SpanEnd::Excluded(table.largest.clone())
        } else {
            SpanEnd::Included(table.largest.clone())
        };
        Self {
            start: table.smallest.clone(),
            end,
        }
    }

    /// What the tables reach over together, gaps included; none if there are no tables.
    pub(crate) fn of_all<'a>(tables: impl IntoIterator<Item = &'a TableMeta>) -> Option<Self> {
        tables.into_iter().map(Self::of).reduce(Self::union)
    }

    /// Both and the gap between them.
    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    /// Whether some key lies in both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        !self.end.is_before(&other.start) && !other.end.is_before(&self.start)
    }

    /// Whether the whole span lies before `other`.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        self.end.is_before(&other.start)
    }

    /// The range of exactly these keys.
    pub(crate) fn to_range(&self) -> KeyRange {
        let end = match &self.end {
            SpanEnd::Included(end) => Bound::Included(end.clone()),
            SpanEnd::Excluded(end) => Bound::Excluded(end.clone()),
            SpanEnd::Unbounded => Bound::Unbounded,
        };
        KeyRange {
            start: Bound::Included(self.start.clone()),
            end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: &str, end: SpanEnd) -> Span {
        Span {
            start: start.as_bytes().to_vec(),
            end,
        }
    }

    fn included(key: &str) -> SpanEnd {
        SpanEnd::Included(key.as_bytes().to_vec())
    }

    fn excluded(key: &str) -> SpanEnd {
        SpanEnd::Excluded(key.as_bytes().to_vec())
    }

    #[test]
    fn an_exclusive_end_touches_no_key_of_its_neighbour() {
        let left = span("a", excluded("m"));
        assert!(!left.overlaps(&span("m", included("z"))));
        assert!(left.is_before(&span("m", included("z"))));
        assert!(span("a", included("m")).overlaps(&span("m", included("z"))));
        assert!(span("a", SpanEnd::Unbounded).overlaps(&span("zz", included("zz"))));
    }

    #[test]
    fn ends_order_by_reach() {
        assert!(excluded("m") < included("m"));
        assert!(included("m") < excluded("n"));
        assert!(included("z") < SpanEnd::Unbounded);
    }
}
