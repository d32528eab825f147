//! What lies where in a table, and what groups of its values take.

use super::*;
use crate::iter::InternalIterator;

/// Sizes by group were estimated from where a group's first and last value lie. A long value that is
/// written while a block is open lies before it, so a group could be said to take nearly twice what
/// it does, and another less. Now shares are exact.
#[test]
fn groups_take_what_their_values_take_and_all_together_everything() {
    let mut entries = Vec::new();
    for n in 0..300_u64 {
        // Every tenth value stands alone while a block of the others is open.
        let len = match n % 10 {
            3 => 150_000,
            5 => 40,
            _ => 3_000,
        };
        entries.push(TestEntry {
            key: format!("{}{n:04}", ["a", "b", "c"][n as usize / 100]).into_bytes(),
            seq: 1,
            value: (n % 50 != 9).then(|| text(n, len)),
        });
    }
    let options = TableOptions::blocks(3, 64 << 10);
    let fixture = build(&entries, &[], &options, 1).unwrap();
    for mode in [ReadMode::Mmap, ReadMode::Pread] {
        let table = fixture.open(mode, 0).unwrap();
        let extents = table.frame_extents().unwrap();
        let values = table.values_by_frame(plain_iter()).unwrap();
        let mut by_group = Vec::new();
        let mut group_of = |key: &[u8]| Ok(usize::from(key[0] - b'a'));
        table
            .add_value_bytes(plain_iter(), &mut group_of, &mut by_group)
            .unwrap();
        let properties = table.properties();
        let all = properties.stored_value_bytes + properties.inline_value_bytes;
        assert_eq!(by_group.iter().sum::<u64>(), all);

        // What a group really takes: its own frames, and of a shared one no more than all.
        let mut own = [0_u64; 3];
        let mut shared = [0_u64; 3];
        let mut cursor = table.iter(plain_iter());
        let mut groups = vec![[false; 3]; extents.len()];
        cursor.seek_to_first().unwrap();
        while cursor.valid() {
            let group = usize::from(cursor.key().user_key[0] - b'a');
            match cursor.frame_place() {
                Some(place) => groups[place.frame as usize][group] = true,
                None => own[group] += cursor.value_len() as u64,
            }
            cursor.next().unwrap();
        }
        for (extent, groups) in extents.iter().zip(&groups) {
            let bytes = extent.end - extent.start;
            let is_shared = groups.iter().filter(|it| **it).count() > 1;
            for group in (0..3).filter(|group| groups[*group]) {
                *(if is_shared {
                    &mut shared[group]
                } else {
                    &mut own[group]
                }) += bytes;
            }
        }
        assert!(shared.iter().any(|bytes| *bytes > 0));
        for group in 0..3 {
            assert!(by_group[group] >= own[group]);
            assert!(by_group[group] <= own[group] + shared[group]);
        }

        assert_eq!(extents.len() as u64, properties.frames);
        let framed = entries
            .iter()
            .filter(|it| it.value.as_ref().is_some_and(|v| v.len() > 128));
        assert_eq!(values.iter().sum::<u64>() as usize, framed.count());
        let raw: u64 = extents
            .iter()
            .map(|extent| u64::from(table.frame_header(extent).unwrap().0.raw_len))
            .sum();
        assert_eq!(
            raw,
            properties.raw_value_bytes - properties.inline_value_bytes
        );
        let blocks = table.key_block_extents().unwrap();
        assert_eq!(blocks.len() as u64, properties.key_blocks);
        let contents: Vec<_> = (0..blocks.len())
            .map(|block| table.key_block_content(block, &plain_iter()).unwrap())
            .collect();
        assert_eq!(contents.iter().map(|it| it.entries).sum::<u64>(), 300);
        assert_eq!(contents[0].first, entries[0].key);
        assert_eq!(contents.last().unwrap().last, entries[299].key);
    }
}
