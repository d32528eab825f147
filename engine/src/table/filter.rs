//! The filter section: a binary fuse filter over the key hashes, probed in place.
//!
//! ```text
//! ┌──────────────┬──────────┬────────────────────┬─────────────────────────────────────────┐
//! │ bits u8      │ zero × 3 │ descriptor, 20 B   │ fingerprints, `bits` wide, little-endian │
//! │ 8 or 16      │          │ see below          │                                         │
//! └──────────────┴──────────┴────────────────────┴─────────────────────────────────────────┘
//! descriptor   seed u64 │ segment length u32 │ segment mask u32 │ segment count length u32
//! ```
//!
//! Sections start at a multiple of eight and a unit header is sixteen bytes, so the fingerprints
//! are aligned for two-byte loads in a mapping.

use xorf::{
    BinaryFuse8, BinaryFuse8Ref, BinaryFuse16, BinaryFuse16Ref, DmaSerializable, Filter as _,
    FilterRef as _,
};

use crate::coding::Cursor;
use crate::error::{Error, Result};
use crate::options::FilterPolicy;

/// Bytes before the fingerprints.
const PREFIX_BYTES: usize = 4 + DESCRIPTOR_BYTES;
const DESCRIPTOR_BYTES: usize = <BinaryFuse8 as DmaSerializable>::DESCRIPTOR_LEN;

/// The hash that filters are built on and probed with.
pub(crate) fn key_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

/// Builds the filter of keys with these hashes; none if the policy wants none, there are no keys,
/// or the construction fails (then the table does without one, which costs time, not answers).
pub(crate) fn build_filter(policy: FilterPolicy, mut hashes: Vec<u64>) -> Option<Vec<u8>> {
    hashes.sort_unstable();
    // Construction never ends well with duplicates: several versions of a key, or a collision.
    hashes.dedup();
    if hashes.is_empty() || hashes.len() > u32::MAX as usize / 4 {
        return None;
    }
    match policy {
        FilterPolicy::None => None,
        FilterPolicy::Fuse8 => {
            let filter = BinaryFuse8::try_from(hashes.as_slice()).ok()?;
            Some(encode(8, &filter, &filter.fingerprints))
        }
        FilterPolicy::Fuse16 => {
            let filter = BinaryFuse16::try_from(hashes.as_slice()).ok()?;
            let fingerprints: Vec<u8> = filter
                .fingerprints
                .iter()
                .flat_map(|fingerprint| fingerprint.to_le_bytes())
                .collect();
            Some(encode(16, &filter, &fingerprints))
        }
    }
}

fn encode(bits: u8, filter: &impl DmaSerializable, fingerprints: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; PREFIX_BYTES];
    if let Some((head, descriptor)) = bytes.split_at_mut_checked(4) {
        head.copy_from_slice(&[bits, 0, 0, 0]);
        filter.dma_copy_descriptor_to(descriptor);
    }
    bytes.extend_from_slice(fingerprints);
    bytes
}

/// Fingerprint width of a filter whose layout was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterWidth {
    Bits8,
    Bits16,
}

/// A filter over borrowed bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilterView<'a> {
    width: FilterWidth,
    descriptor: &'a [u8],
    fingerprints: &'a [u8],
}

impl<'a> FilterView<'a> {
    /// Takes apart a filter's bytes and checks that no probe can leave them.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        let bits = cursor.u32("filter width")?;
        let descriptor = cursor.take(DESCRIPTOR_BYTES, "filter descriptor")?;
        let fingerprints = cursor.rest();
        let mut fields = Cursor::new(descriptor);
        fields.u64("filter seed")?;
        let segment = u64::from(fields.u32("filter segment length")?);
        let mask = u64::from(fields.u32("filter segment mask")?);
        let span = u64::from(fields.u32("filter segment count length")?);
        let (width, bytes_each) = match bits {
            8 => (FilterWidth::Bits8, 1),
            16 => (FilterWidth::Bits16, 2),
            _ => return Err(Error::corruption(format!("filter of {bits} bits"))),
        };
        // A probe reads at h0 < span, and in the two segments that follow h0's.
        let reach = span + 2 * segment;
        let sound = segment.is_power_of_two()
            && mask == segment - 1
            && span > 0
            && span.is_multiple_of(segment)
            && reach <= u64::from(u32::MAX)
            && fingerprints.len() as u64 == reach * bytes_each;
        if !sound {
            return Err(Error::corruption("filter descriptor is inconsistent"));
        }
        Ok(Self {
            width,
            descriptor,
            fingerprints,
        })
    }

    /// Whether fingerprints can be read where they lie.
    pub(crate) fn in_place(&self) -> bool {
        match self.width {
            FilterWidth::Bits8 => true,
            FilterWidth::Bits16 => {
                cfg!(target_endian = "little") && self.fingerprints.as_ptr().align_offset(2) == 0
            }
        }
    }

    /// Whether the key with this hash may be in the table; never wrongly false.
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        match self.width {
            FilterWidth::Bits8 => {
                BinaryFuse8Ref::from_dma(self.descriptor, self.fingerprints).contains(&hash)
            }
            FilterWidth::Bits16 if self.in_place() => {
                BinaryFuse16Ref::from_dma(self.descriptor, self.fingerprints).contains(&hash)
            }
            // Unaligned or of the other byte order: no filter is better than a wrong answer.
            FilterWidth::Bits16 => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn aligned(bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }

    #[test]
    fn filters_of_few_keys_have_no_false_negatives() {
        for policy in [FilterPolicy::Fuse8, FilterPolicy::Fuse16] {
            assert!(build_filter(policy, Vec::new()).is_none());
            for count in 1..200u64 {
                let hashes: Vec<u64> = (0..count).map(|n| key_hash(&n.to_le_bytes())).collect();
                let mut twice = hashes.clone();
                twice.extend_from_slice(&hashes);
                let bytes = aligned(&build_filter(policy, twice).unwrap());
                let filter = FilterView::new(&bytes).unwrap();
                for hash in hashes {
                    assert!(filter.may_contain(hash), "{policy:?} {count}");
                }
            }
        }
    }

    #[test]
    fn filters_rule_most_other_keys_out() {
        let hashes: Vec<u64> = (0..10_000u64).map(|n| key_hash(&n.to_le_bytes())).collect();
        let others = 10_000..30_000u64;
        for (policy, max) in [(FilterPolicy::Fuse8, 200), (FilterPolicy::Fuse16, 5)] {
            let bytes = build_filter(policy, hashes.clone()).unwrap();
            let filter = FilterView::new(&bytes).unwrap();
            let wrong = others
                .clone()
                .filter(|n| filter.may_contain(key_hash(&n.to_le_bytes())))
                .count();
            assert!(wrong < max, "{policy:?}: {wrong} false positives in 20000");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_filter_panic(
            bits in prop_oneof![Just(8u32), Just(16)],
            seed: u64, log in 0u32..6, segments in 0u32..9, extra in 0usize..4, hash: u64,
        ) {
            let segment = 1u32 << log;
            let mut bytes = bits.to_le_bytes().to_vec();
            bytes.extend_from_slice(&seed.to_le_bytes());
            bytes.extend_from_slice(&segment.to_le_bytes());
            bytes.extend_from_slice(&(segment - 1).to_le_bytes());
            bytes.extend_from_slice(&(segment * segments).to_le_bytes());
            let len = (segment * (segments + 2) * bits / 8) as usize + extra;
            bytes.resize(bytes.len() + len, 0xa5);
            if let Ok(filter) = FilterView::new(&bytes) {
                let _ = filter.may_contain(hash);
            }
        }
    }
}
