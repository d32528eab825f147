//! Golden texts: a tree in, how a load's runs are merged out.

use super::*;
use crate::compaction::testing::tree;

fn merge_of(text: &str, runs: &[u64]) -> String {
    let (version, _) = tree(text);
    let options = KeyspaceOptions {
        base_level_bytes: 1000,
        table_bytes_target: 100,
        ..KeyspaceOptions::default()
    };
    let runs = runs.iter().copied().map(FileNumber).collect();
    let plan = next_merge(&version, &options, &runs);
    plan.map_or("nothing".to_owned(), |plan| plan.to_string())
}

#[test]
fn runs_alone_go_straight_to_the_last_level() {
    assert_eq!(
        merge_of("L0 3:a-z:100:= 2:c-k:100:= 1:l-y:100:=", &[1, 2, 3]),
        "bulk-merge: L0 3 2 1 merge to L6"
    );
    assert_eq!(merge_of("L6 7:a-z", &[1, 2]), "nothing");
}

#[test]
fn a_table_that_meets_nothing_moves_unless_it_was_written_for_the_merge() {
    let one_at_a_time = |flag: &str| merge_of(&format!("L0 2:x-z 1:a-b:100:={flag}"), &[1, 2]);
    assert_eq!(one_at_a_time(""), "bulk-merge: L0 1 move to L6");
    assert_eq!(one_at_a_time(":^"), "bulk-merge: L0 1 merge to L6");
    // What was moved is done, though its number is still one of the load's.
    let rest = "L0 2:x-z:100:=\n L6 1:a-b:100:=";
    assert_eq!(merge_of(rest, &[1, 2]), "bulk-merge: L0 2 move to L6");
    let over_others = "L0 1:a-b:100:=\n L6 7:b-c:50";
    assert_eq!(
        merge_of(over_others, &[1]),
        "bulk-merge: L0 1 L6 7 merge to L6"
    );
}

#[test]
fn newer_tables_stay_and_older_ones_go_along_where_they_overlap() {
    assert_eq!(
        merge_of("L0 9:a-z 5:c-k 4:d-l 3:k-n 2:x-z", &[4, 5]),
        "bulk-merge: L0 5 4 3 merge to L6"
    );
}

#[test]
fn a_store_no_larger_than_the_load_is_taken_along_to_the_last_level() {
    assert_eq!(
        merge_of(
            "L0 5:a-k:3000 4:c-l:3000
             L5 6:a-c:1000
             L6 7:a-f:2000 8:g-k:2000 9:x-z:90000",
            &[4, 5]
        ),
        "bulk-merge: L0 5 4 L5 6 L6 7 8 merge to L6"
    );
}

#[test]
fn a_larger_store_is_not_rewritten_for_a_small_load() {
    assert_eq!(
        merge_of(
            "L0 5:a-k:300 4:c-l:300
             L5 6:a-c:100
             L6 7:a-f:20000 8:g-k:20000",
            &[4, 5]
        ),
        "bulk-merge: L0 5 4 L5 6 merge to L5"
    );
    // Not even the base level is cheap: there is no higher one to go to.
    assert_eq!(
        merge_of(
            "L0 5:a-k:300 4:c-l:300\nL5 6:a-c:9000\nL6 7:a-f:90000",
            &[4, 5]
        ),
        "bulk-merge: L0 5 4 merge to L4"
    );
}

#[test]
fn unconnected_runs_are_merged_one_group_after_the_other() {
    let tree = "L0 5:a-c 4:b-d 3:p-r 2:q-s";
    assert_eq!(
        merge_of(tree, &[2, 3, 4, 5]),
        "bulk-merge: L0 5 4 merge to L6"
    );
    assert_eq!(
        merge_of("L0 3:p-r 2:q-s", &[2, 3]),
        "bulk-merge: L0 3 2 merge to L6"
    );
}
