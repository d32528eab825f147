//! Edits and options as bytes.

use std::sync::Arc;

use proptest::prelude::*;

use crate::dir::FILE_NUMBER_MAX;
use crate::error::{ErrorKind, Result};
use crate::manifest::edit_codec::{decode_edits, encode_edits};
use crate::manifest::{Edit, ManifestState, TableMeta};
use crate::options::{
    ClusterOptions, Compression, FilterPolicy, KeyspaceOptions, Layout, TableOptions,
};
use crate::types::{FileId, FileNumber, KeyspaceId, SeqNo};

fn any_table_options() -> impl Strategy<Value = TableOptions> {
    let blocks = (1024u32..1 << 24).prop_map(|bytes| Layout::Blocks { bytes });
    let cluster = (
        1024u32..=1 << 30,
        0u32..=1 << 20,
        8u32..=1024,
        0u32..=10_000,
    );
    let followers = (0u32..=8, -131_072i32..=22, 1024u32..=1 << 31, 4u32..=4096);
    let others = (0u32..=1000, 1024u32..=1 << 31, 0u32..=22);
    let clustered = (cluster, followers, others).prop_map(|(numbers, followers, others)| {
        Layout::Clustered(ClusterOptions {
            window_bytes: numbers.0,
            shared_frame_bytes: numbers.1,
            sketch_entries_max: numbers.2,
            saved_bytes_per_1000_decoded: numbers.3,
            depth_max: followers.0,
            follower_level: followers.1,
            long_distance_bytes: followers.2,
            long_distance_match_bytes: followers.3,
            doubt_per_mille: others.0,
            large_value_bytes: others.1,
            large_value_levels_up: others.2,
        })
    });
    let layout = prop_oneof![blocks, clustered];
    let compression = prop_oneof![
        Just(Compression::None),
        (-131_072i32..=22).prop_map(|level| Compression::Zstd { level }),
    ];
    let filter = prop_oneof![
        Just(FilterPolicy::None),
        Just(FilterPolicy::Fuse8),
        Just(FilterPolicy::Fuse16),
    ];
    (
        layout,
        compression,
        0u32..=1 << 20,
        filter,
        256u32..=1 << 20,
        0u32..=4096,
    )
        .prop_map(
            |(layout, compression, dictionary_bytes, filter, key_block_bytes, inline)| {
                TableOptions {
                    layout,
                    compression,
                    dictionary_bytes,
                    filter,
                    key_block_bytes,
                    inline_value_bytes_max: inline,
                }
            },
        )
}

fn any_options() -> impl Strategy<Value = KeyspaceOptions> {
    let numbers = (4096u64..1 << 34, 4096u64..1 << 50, 2u32..=100, 1u8..=100);
    (any_table_options(), any_table_options(), numbers).prop_map(|(upper, last, numbers)| {
        let mut options = KeyspaceOptions::tiered(upper, last);
        options.table_bytes_target = numbers.0;
        options.base_level_bytes = numbers.1;
        options.level_multiplier = numbers.2;
        options.tombstone_percent_trigger = numbers.3;
        options
    })
}

fn any_file_number() -> impl Strategy<Value = FileNumber> {
    (0..=FILE_NUMBER_MAX).prop_map(FileNumber)
}

fn any_table() -> impl Strategy<Value = TableMeta> {
    let counts: (_, _, _, _, _) = (
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<u32>(),
    );
    let seq = 0u64..1 << 56;
    let seqs = (seq.clone(), seq.clone(), seq);
    let keys = (
        any::<Vec<u8>>(),
        any::<Vec<u8>>(),
        any::<bool>(),
        any::<bool>(),
        any::<(Option<u64>, bool)>(),
    );
    (any_file_number(), any::<u64>(), counts, keys, seqs).prop_map(
        |(number, id, counts, keys, seqs)| TableMeta {
            number,
            id: FileId(id),
            stored_bytes: counts.0,
            raw_bytes: counts.1,
            entries: counts.2,
            tombstones: counts.3,
            range_tombstones: counts.4,
            repeated_keys: keys.4.0,
            provisional: keys.4.1,
            smallest: keys.0,
            largest: keys.1,
            largest_exclusive: keys.2,
            unbounded_end: keys.3,
            seq_min: SeqNo(seqs.0),
            seq_max: SeqNo(seqs.1),
            seq_base: SeqNo(seqs.2),
        },
    )
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let keyspace = any::<u32>().prop_map(KeyspaceId);
    let seq = (0u64..1 << 56).prop_map(SeqNo);
    prop_oneof![
        (keyspace.clone(), any::<String>(), any_options())
            .prop_map(|(id, name, options)| Edit::CreateKeyspace { id, name, options }),
        (keyspace.clone(), any_options())
            .prop_map(|(id, options)| Edit::SetKeyspaceOptions { id, options }),
        keyspace.clone().prop_map(|id| Edit::DropKeyspace { id }),
        (keyspace.clone(), 0u8..7, any_table()).prop_map(|(keyspace, level, table)| {
            let table = Arc::new(table);
            Edit::AddTable {
                keyspace,
                level,
                table,
            }
        }),
        (keyspace.clone(), 0u8..7, any_file_number()).prop_map(|(keyspace, level, number)| {
            Edit::RemoveTable {
                keyspace,
                level,
                number,
            }
        }),
        (keyspace, seq.clone()).prop_map(|(keyspace, seq)| Edit::FlushedUpTo { keyspace, seq }),
        any_file_number().prop_map(Edit::NextFileNumber),
        any::<u32>().prop_map(Edit::NextKeyspace),
        seq.prop_map(Edit::LastSeq),
        any::<u64>().prop_map(|id| Edit::StoreId(FileId(id))),
    ]
}

fn decode(payload: &[u8]) -> Result<Vec<Edit>> {
    let mut edits = Vec::new();
    decode_edits(payload, &mut |edit| {
        edits.push(edit.clone());
        Ok(())
    })?;
    Ok(edits)
}

proptest! {
    #[test]
    fn edits_round_trip(edits in prop::collection::vec(any_edit(), 0..20)) {
        prop_assert_eq!(decode(&encode_edits(&edits)).unwrap(), edits);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
        let _ = decode(&bytes);
    }

    #[test]
    fn no_change_of_valid_bytes_makes_the_decoder_panic(
        edits in prop::collection::vec(any_edit(), 1..4),
        at: prop::sample::Index,
        byte: u8,
    ) {
        let mut bytes = encode_edits(&edits);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let mut state = ManifestState::default();
        let _ = decode_edits(&bytes, &mut |edit| state.apply(edit));
        let _ = state.check();
    }
}

#[test]
fn a_table_that_an_earlier_build_added_has_no_count_of_repeated_keys() {
    let add = |repeated_keys, provisional| Edit::AddTable {
        keyspace: KeyspaceId(1),
        level: 0,
        table: Arc::new(TableMeta {
            repeated_keys,
            provisional,
            ..crate::compaction::testing::table("7:a-b")
        }),
    };
    let before = encode_edits(&[add(None, false)]);
    let now = encode_edits(&[add(Some(3), true)]);
    // What was added are edits of their own that an earlier build skips.
    assert_eq!(now, [&before[..], &[128, 1, 3, 129, 0]].concat());
    assert_eq!(decode(&before).unwrap(), [add(None, false)]);
    // Later builds may have more to say.
    let later = [&before[..], &[200, 1, 1, 128, 1, 3]].concat();
    assert_eq!(decode(&later).unwrap(), [add(Some(3), false)]);
    let astray = [&encode_edits(&[Edit::NextKeyspace(3)])[..], &[128, 1, 3]].concat();
    assert_eq!(decode(&astray).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn unknown_edits_are_refused_unless_marked_skippable() {
    let mut payload = encode_edits(&[Edit::NextKeyspace(3)]);
    payload.extend_from_slice(&[200, 2, 1, 2]);
    assert_eq!(decode(&payload).unwrap(), [Edit::NextKeyspace(3)]);
    payload.extend_from_slice(&[99, 0]);
    assert_eq!(decode(&payload).unwrap_err().kind(), ErrorKind::Unsupported);
}
