//! Layouts as bytes, in the manifest's options and in a table's properties.
//!
//! ```text
//! layout  = 1 bytes v                        blocks
//!         | 2 window_bytes v | shared_frame_bytes v | sketch_entries_max v
//!           | saved_bytes_per_1000_decoded v   clustered, of older releases
//!         | 3 options bytes                  clustered
//! options = (tag v | value v)*
//! ```
//!
//! An unknown tag below 128 is the mark of a newer release, and refused; one from 128 on is skipped.

use super::{ClusterOptions, LEVEL_MAX, Layout};
use crate::coding::{Cursor, put_bytes, put_varint};
use crate::error::{Error, ErrorKind, Result};

const BLOCKS: u8 = 1;
const CLUSTERED_OF_ONE_LEVEL: u8 = 2;
const CLUSTERED: u8 = 3;

/// From this tag on an unknown option may be skipped.
const TAG_SKIPPABLE_MIN: u64 = 128;

/// Appends the layout.
pub(crate) fn put_layout(out: &mut Vec<u8>, layout: Layout) {
    match layout {
        Layout::Blocks { bytes } => {
            out.push(BLOCKS);
            put_varint(out, u64::from(bytes));
        }
        Layout::Clustered(mut cluster) => {
            out.push(CLUSTERED);
            let follower_level = zigzag(cluster.follower_level);
            let mut options = Vec::new();
            for (tag, option) in (1..).zip(numbers(&mut cluster)) {
                put_varint(&mut options, tag);
                put_varint(&mut options, u64::from(*option));
            }
            put_varint(&mut options, TAG_FOLLOWER_LEVEL);
            put_varint(&mut options, follower_level);
            put_bytes(out, &options);
        }
    }
}

/// Tags count up from 1, in this order.
fn numbers(cluster: &mut ClusterOptions) -> [&mut u32; 10] {
    [
        &mut cluster.window_bytes,
        &mut cluster.shared_frame_bytes,
        &mut cluster.sketch_entries_max,
        &mut cluster.saved_bytes_per_1000_decoded,
        &mut cluster.depth_max,
        &mut cluster.long_distance_bytes,
        &mut cluster.long_distance_match_bytes,
        &mut cluster.doubt_per_mille,
        &mut cluster.large_value_bytes,
        &mut cluster.large_value_levels_up,
    ]
}

const TAG_FOLLOWER_LEVEL: u64 = 64;

/// Reads what [`put_layout`] appended, whatever the values' ranges.
pub(crate) fn take_layout(cursor: &mut Cursor<'_>) -> Result<Layout> {
    match cursor.u8("layout")? {
        BLOCKS => Ok(Layout::Blocks {
            bytes: cursor.varint_u32("block bytes")?,
        }),
        CLUSTERED_OF_ONE_LEVEL => {
            let mut cluster = ClusterOptions {
                follower_level: LEVEL_MAX as i32,
                doubt_per_mille: 120,
                large_value_bytes: 1 << 31,
                depth_max: 1,
                ..ClusterOptions::default()
            };
            for option in numbers(&mut cluster).into_iter().take(4) {
                *option = cursor.varint_u32("clustered option")?;
            }
            Ok(Layout::Clustered(cluster))
        }
        CLUSTERED => take_clustered(cursor.bytes("clustered options")?),
        other => Err(unknown("layout", u64::from(other))),
    }
}

fn take_clustered(options: &[u8]) -> Result<Layout> {
    let mut cluster = ClusterOptions::default();
    let mut cursor = Cursor::new(options);
    while !cursor.is_empty() {
        let tag = cursor.varint("clustered option")?;
        if tag == TAG_FOLLOWER_LEVEL {
            cluster.follower_level = unzigzag(cursor.varint_u32("follower_level")?);
            continue;
        }
        let index = usize::try_from(tag).ok().and_then(|tag| tag.checked_sub(1));
        let mut numbers = numbers(&mut cluster);
        if let Some(option) = index.and_then(|index| numbers.get_mut(index)) {
            **option = cursor.varint_u32("clustered option")?;
        } else if tag < TAG_SKIPPABLE_MIN {
            return Err(unknown("clustered option", tag));
        } else {
            cursor.varint("clustered option")?;
        }
    }
    Ok(Layout::Clustered(cluster))
}

/// A signed number with its sign in the lowest bit.
pub(crate) fn zigzag(value: i32) -> u64 {
    u64::from(((value << 1) ^ (value >> 31)).cast_unsigned())
}

/// The number that [`zigzag`] made this of.
pub(crate) fn unzigzag(value: u32) -> i32 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// What a newer release wrote.
pub(crate) fn unknown(what: &str, code: u64) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("{what} {code} is not known to this build"),
    )
    .with_remedy("open the store with the release that wrote it, or a newer one")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(bytes: &[u8]) -> Result<Layout> {
        let mut cursor = Cursor::new(bytes);
        let layout = take_layout(&mut cursor)?;
        assert!(cursor.is_empty());
        Ok(layout)
    }

    #[test]
    fn layouts_of_older_releases_mean_what_they_did() {
        let Layout::Clustered(cluster) = take(&[2, 5, 6, 7, 8]).unwrap() else {
            panic!("no clusters");
        };
        let expected = ClusterOptions {
            window_bytes: 5,
            shared_frame_bytes: 6,
            sketch_entries_max: 7,
            saved_bytes_per_1000_decoded: 8,
            // All at the table's one level.
            follower_level: 22,
            depth_max: 1,
            doubt_per_mille: 120,
            large_value_bytes: 1 << 31,
            ..ClusterOptions::default()
        };
        assert_eq!(cluster, expected);
    }

    #[test]
    fn options_of_newer_releases_are_skipped_only_where_they_say_so() {
        let cluster = ClusterOptions {
            follower_level: -7,
            depth_max: 0,
            ..ClusterOptions::default()
        };
        let mut bytes = Vec::new();
        put_layout(&mut bytes, Layout::Clustered(cluster));
        assert_eq!(take(&bytes).unwrap(), Layout::Clustered(cluster));
        let mut skippable = bytes.clone();
        skippable[1] += 3;
        skippable.extend([0x80, 1, 9]);
        assert_eq!(take(&skippable).unwrap(), Layout::Clustered(cluster));
        let mut refused = bytes;
        refused[1] += 2;
        refused.extend([100, 9]);
        assert_eq!(take(&refused).unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(take(&[4]).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
