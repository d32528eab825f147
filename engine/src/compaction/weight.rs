//! How much of deeper levels a table's range tombstones delete.

use std::ops::Bound;
use std::sync::Arc;

use super::targets::LAST_LEVEL;
use crate::db::DbInner;
use crate::error::Result;
use crate::manifest::{TableMeta, Version};
use crate::types::KeyRange;

/// An estimate of the entries below `level` that the range tombstones of `table` cover. Tables
/// wholly covered count with all their entries, others by the covered share of their bytes.
pub(crate) fn covered_entries(
    db: &Arc<DbInner>,
    version: &Version,
    level: usize,
    table: &Arc<TableMeta>,
) -> Result<u64> {
    let mut covered = 0u64;
    for tombstone in db.table(table)?.range_tombstones() {
        let range = KeyRange {
            start: Bound::Included(tombstone.start.clone()),
            end: tombstone
                .end
                .clone()
                .map_or(Bound::Unbounded, Bound::Excluded),
        };
        for deeper in level + 1..=LAST_LEVEL {
            for other in version.overlapping(deeper, &range) {
                let bytes = db
                    .table(&other)?
                    .approximate_bytes(&range, db.iter_context(false))?;
                let entries = u128::from(other.entries) * u128::from(bytes)
                    / u128::from(other.stored_bytes.max(1));
                let entries = u64::try_from(entries).unwrap_or(u64::MAX);
                covered = covered.saturating_add(entries.min(other.entries));
            }
        }
    }
    Ok(covered)
}
