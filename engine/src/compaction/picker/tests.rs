//! Golden texts: a tree in, what was picked out.

use super::*;
use crate::compaction::plan::JobId;
use crate::compaction::testing::table;
use crate::options::TableOptions;

struct Tree {
    version: Version,
    busy: Busy,
    options: KeyspaceOptions,
    oldest_seq: SeqNo,
    covered_entries: u64,
}

fn tree(text: &str) -> Tree {
    let (version, busy) = crate::compaction::testing::tree(text);
    let options = KeyspaceOptions {
        base_level_bytes: 1000,
        table_bytes_target: 100,
        ..KeyspaceOptions::default()
    };
    Tree {
        version,
        busy,
        options,
        oldest_seq: SeqNo::MAX,
        covered_entries: 0,
    }
}

impl Tree {
    fn pick(&self) -> Option<Plan> {
        let picker = Picker {
            version: &self.version,
            options: &self.options,
            l0_compaction_trigger: 4,
            busy: &self.busy,
            oldest_seq: self.oldest_seq,
            covered_entries: &|_| self.covered_entries,
        };
        picker.pick().map(|pick| pick.plan)
    }

    fn picked(&self) -> String {
        self.pick()
            .map_or("nothing".to_owned(), |plan| plan.to_string())
    }
}

#[test]
fn l0_waits_for_its_trigger_then_goes_to_the_last_level_of_a_young_store() {
    assert_eq!(tree("L0 3:a-z 2:a-z 1:a-z").picked(), "nothing");
    assert_eq!(
        tree("L0 4:a-z 3:a-z 2:a-z 1:a-z").picked(),
        "young-tables: L0 1 2 3 4 merge to L6"
    );
}

#[test]
fn l0_carries_what_it_overlaps_in_the_base_level_and_no_more() {
    let tree = tree(
        "L0 4:c-d 3:c-e 2:c-f 1:d-e
         L6 10:a-b 11:d-g 12:h-k",
    );
    assert_eq!(tree.picked(), "young-tables: L0 2 3 4 1 L6 11 merge to L6");
}

#[test]
fn l0_tables_that_share_no_key_form_compactions_of_their_own() {
    let tree = tree(
        "L0 5:a-b 4:x-z 3:a-c 2:m-n 1:b-c
         L6 10:a-d 11:l-p",
    );
    assert_eq!(tree.picked(), "young-tables: L0 3 5 1 L6 10 merge to L6");
}

#[test]
fn a_base_table_that_bridges_l0_tables_joins_their_compactions() {
    let tree = tree(
        "L0 4:a-b 3:c-d 2:m-n 1:x-y
         L6 10:b-m",
    );
    assert_eq!(tree.picked(), "young-tables: L0 4 3 2 L6 10 merge to L6");
}

#[test]
fn sequential_writes_move_down_without_a_rewrite() {
    let tree = tree("L0 4:g-h 3:e-f 2:c-d 1:a-b");
    assert_eq!(tree.picked(), "young-tables: L0 1 move to L6");
}

#[test]
fn a_move_must_not_bring_another_layout_to_the_last_level() {
    let mut tree = tree("L0 4:g-h 3:e-f 2:c-d 1:a-b");
    let upper = TableOptions::blocks(1, 1 << 14);
    tree.options.levels = KeyspaceOptions::tiered(upper, TableOptions::default()).levels;
    assert_eq!(tree.picked(), "young-tables: L0 1 merge to L6");
}

#[test]
fn a_run_that_was_to_be_merged_is_not_moved() {
    // A bulk load whose merge was stopped leaves tables that are not written as any level's are.
    let tree = tree("L0 4:g-h:100:= 3:e-f:100:= 2:c-d:100:= 1:a-b:100:=:^");
    assert_eq!(tree.picked(), "young-tables: L0 1 merge to L6");
}

#[test]
fn an_l0_table_never_passes_an_older_one_that_has_to_stay() {
    // Table 2 is held; 5 and 6 overlap it, so their entries must stay above its own. Table 4
    // overlaps only 5, which is newer, and may go.
    let tree = tree("L0 8:x-y 7:x-y 6:c-d 5:b-f 4:e-f 3:x-z 2:a-c* 1:x-z");
    assert_eq!(tree.picked(), "young-tables: L0 1 3 7 8 merge to L6");
    let busy = super::tests::tree("L0 6:c-d 5:b-f 4:e-f 3:e-f 2:a-c* 1:a-a");
    assert_eq!(busy.picked(), "young-tables: L0 3 4 merge to L6");
}

#[test]
fn a_level_over_its_target_sends_the_table_that_rewrites_least() {
    let tree = tree(
        "L5 1:a-d:400 2:e-h:400 3:i-l:400
         L6 10:a-b:500 11:c-d:500 12:f-g:300 13:j-k:9000",
    );
    assert_eq!(tree.picked(), "level-bytes: L5 2 L6 12 merge to L6");
}

#[test]
fn a_compaction_grows_where_it_costs_nothing_below() {
    // Table 3 lies inside what 11 makes the compaction rewrite anyway.
    let tree = tree(
        "L5 2:e-h:400 3:i-l:40 4:n-z:600
         L6 11:f-m:300 13:n-z:9000",
    );
    assert_eq!(tree.picked(), "level-bytes: L5 2 3 L6 11 merge to L6");
}

#[test]
fn jobs_run_side_by_side_only_where_they_do_not_meet() {
    let mut tree = tree(
        "L5 1:a-d:1200 2:e-h:1200 3:i-l:400
         L6 10:a-b:500 11:c-d:500 12:f-g:300 13:j-k:9000",
    );
    let first = tree.pick().unwrap();
    tree.busy.reserve(JobId(1), &first);
    let second = tree.pick().unwrap();
    assert_eq!(second.to_string(), "level-bytes: L5 1 L6 10 11 merge to L6");
    tree.busy.reserve(JobId(2), &second);
    // What is left of L5 is within its target.
    assert_eq!(tree.picked(), "nothing");
    tree.busy.release(JobId(1));
    assert_eq!(tree.picked(), "level-bytes: L5 2 L6 12 merge to L6");
}

#[test]
fn no_second_job_writes_into_the_span_of_a_running_one() {
    // A bulk load is about to appear in L6 where the L0 tables would go.
    let mut tree = tree("L0 4:c-d 3:c-e 2:c-f 1:c-e");
    let span = Span::of(&table("9:f-k"));
    tree.busy.hold(JobId(1), Vec::new(), Some((6, span)));
    assert_eq!(tree.picked(), "nothing");
    tree.busy.release(JobId(1));
    assert_eq!(tree.picked(), "young-tables: L0 1 2 3 4 merge to L6");
}

#[test]
fn tables_dense_with_tombstones_go_on_their_own_account() {
    assert_eq!(tree("L5 1:a-d:100:!49\nL6 10:a-d:900").picked(), "nothing");
    assert_eq!(
        tree("L5 1:a-d:100:!50\nL6 10:a-d:900").picked(),
        "tombstones: L5 1 L6 10 merge to L6"
    );
    // In the last level they are rewritten in place.
    assert_eq!(
        tree("L6 10:a-d:900:!600").picked(),
        "tombstones: L6 10 merge to L6"
    );
}

#[test]
fn a_lone_delete_does_not_rewrite_a_large_table() {
    assert_eq!(tree("L0 4:c-c:1:!1\nL6 1:a-d:1000").picked(), "nothing");
    assert_eq!(
        tree("L0 4:c-c:1:!1\nL6 1:a-d:20").picked(),
        "tombstones: L0 4 L6 1 merge to L6"
    );
}

#[test]
fn tombstones_that_a_snapshot_needs_are_not_rewritten_in_vain() {
    let mut tree = tree("L6 10:a-d:900:!600:@80");
    tree.oldest_seq = SeqNo(79);
    assert_eq!(tree.picked(), "nothing");
    tree.oldest_seq = SeqNo(80);
    assert_eq!(tree.picked(), "tombstones: L6 10 merge to L6");
}

#[test]
fn a_range_tombstone_weighs_what_it_covers() {
    let mut tree = tree("L5 1:a-x):100:~1\nL6 10:a-d:900 11:e-h:900");
    assert_eq!(tree.picked(), "nothing");
    tree.covered_entries = 1500;
    assert_eq!(tree.picked(), "tombstones: L5 1 L6 10 11 merge to L6");
}

#[test]
fn tombstones_above_nothing_are_rewritten_not_moved() {
    // L6 holds nothing of a-d: the tombstones can go at once. With data in L6, but none in L5,
    // the table moves down first.
    assert_eq!(
        tree("L4 1:a-d:100:!80\nL6 10:x-z:90000").picked(),
        "tombstones: L4 1 merge to L5"
    );
    assert_eq!(
        tree("L4 1:a-d:100:!80\nL6 10:a-z:900").picked(),
        "tombstones: L4 1 move to L5"
    );
}

#[test]
fn a_move_over_a_mountain_of_grandparents_is_a_merge() {
    let mut tree = tree(
        "L4 1:a-d:2000
         L6 10:a-b:90000 11:c-d:90000",
    );
    tree.options.base_level_bytes = 1000;
    assert_eq!(tree.picked(), "level-bytes: L4 1 merge to L5");
    tree.options.table_bytes_target = 1 << 20;
    assert_eq!(tree.picked(), "level-bytes: L4 1 move to L5");
}
