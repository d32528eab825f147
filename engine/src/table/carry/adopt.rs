//! Bases of the continued table for values that are new to it.
//!
//! Fresh values are planned among themselves; what they are most like may be old. Values of similar
//! keys are often alike, so each fresh value looks at the clusters of its neighbours in key order, and
//! joins the one whose base gains it most, if any does. Few bases are decoded for it.

use std::collections::HashMap;

use bytes::Bytes;

use super::survey::Survey;
use super::{CarriedValue, Source};
use crate::cluster::{ClusterOptions, LoneSketch};
use crate::error::Result;

/// Neighbours looked at on either side, at most.
const NEIGHBOURS_MAX: usize = 8;
/// Bases of theirs that are compared, at most.
const BASES_MAX: usize = 2;
/// Bytes of values that may be held until their clusters are written; the rest joins none.
const HELD_BYTES_MAX: u64 = 16 << 20;
/// Sketches of bases that are kept, of some 500 bytes each.
const SKETCHES_MAX: usize = 4096;

/// Which fresh values join which clusters.
#[derive(Debug, Default)]
pub(super) struct Adopted {
    /// By the ordinal of their base in the continued table.
    by_base: HashMap<u32, Vec<Joining>>,
    /// By position.
    is_adopted: Vec<bool>,
    pub(super) raw_bytes: u64,
}

/// A fresh value that joins a cluster. Held, for it may have been dear to decode.
#[derive(Debug)]
pub(super) struct Joining {
    pub(super) value: CarriedValue,
    pub(super) bytes: Bytes,
}

impl Adopted {
    /// Those that join a base's cluster, in key order.
    pub(super) fn of_base(&self, base: u32) -> &[Joining] {
        self.by_base.get(&base).map_or(&[], Vec::as_slice)
    }

    /// Whether the value at a position joins a cluster.
    pub(super) fn contains(&self, position: usize) -> bool {
        self.is_adopted.get(position).copied().unwrap_or_default()
    }
}

/// Looks for bases for all `values` that are in no copied frame of `continued`, the source of that
/// index.
pub(super) fn adopt(
    sources: &[Source],
    continued: u32,
    survey: &Survey,
    values: &[CarriedValue],
    options: ClusterOptions,
) -> Result<Adopted> {
    let mut adopted = Adopted {
        is_adopted: vec![false; values.len()],
        ..Adopted::default()
    };
    let Some(source) = sources.get(continued as usize) else {
        return Ok(adopted);
    };
    let root = |value: &CarriedValue| {
        if value.source == continued {
            survey.root(value.place.frame)
        } else {
            None
        }
    };
    let mut sketches: HashMap<u32, LoneSketch> = HashMap::new();
    for (position, value) in values.iter().enumerate() {
        if value.source == continued && survey.is_copied(value.place.frame) {
            continue;
        }
        let before = values.get(..position).unwrap_or_default().iter().rev();
        let after = values.get(position + 1..).unwrap_or_default().iter();
        let mut roots = Vec::with_capacity(2 * BASES_MAX);
        nearest(before.take(NEIGHBOURS_MAX).filter_map(root), &mut roots);
        nearest(after.take(NEIGHBOURS_MAX).filter_map(root), &mut roots);
        let from = sources
            .get(value.source as usize)
            .filter(|_| !roots.is_empty());
        let Some(from) = from else {
            continue;
        };
        let value_bytes = u64::from(value.place.len);
        if adopted.raw_bytes + value_bytes > HELD_BYTES_MAX {
            continue;
        }
        let raw = from.values.framed_value(value.place)?;
        let own = LoneSketch::new(&raw, &options);
        let mut best = (0, None);
        for base in roots {
            if sketches.len() >= SKETCHES_MAX {
                sketches.clear();
            }
            let sketch = match sketches.entry(base) {
                std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::hash_map::Entry::Vacant(new) => {
                    let raw = source.values.raw_frame(base)?;
                    new.insert(LoneSketch::new(&raw, &options))
                }
            };
            let gain = own.gain_from(sketch, &options);
            if gain > best.0 {
                best = (gain, Some(base));
            }
        }
        if let (_, Some(base)) = best {
            // A copy: it may be a slice of something much larger.
            let joining = Joining {
                value: *value,
                bytes: Bytes::copy_from_slice(&raw),
            };
            adopted.by_base.entry(base).or_default().push(joining);
            if let Some(is_adopted) = adopted.is_adopted.get_mut(position) {
                *is_adopted = true;
            }
            adopted.raw_bytes += value_bytes;
        }
    }
    Ok(adopted)
}

/// Adds the first few different ones.
fn nearest(roots: impl Iterator<Item = u32>, into: &mut Vec<u32>) {
    let most = into.len() + BASES_MAX;
    for root in roots {
        if into.len() < most && !into.contains(&root) {
            into.push(root);
        }
    }
}
