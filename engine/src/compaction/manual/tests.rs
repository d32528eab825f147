//! Golden texts: a tree in, every step of a manual compaction out. Steps are carried out by putting
//! one table with the next free number, of the inputs' span, in their place.

use super::*;
use crate::compaction::testing::tree;

struct Steps {
    version: Version,
    busy: Busy,
    options: KeyspaceOptions,
    next: u64,
}

impl Steps {
    fn new(text: &str) -> Self {
        let (version, busy) = tree(text);
        Self {
            version,
            busy,
            options: KeyspaceOptions {
                base_level_bytes: 1000,
                table_bytes_target: 100,
                ..KeyspaceOptions::default()
            },
            next: 100,
        }
    }

    fn carry_out(&mut self, plan: &Plan) {
        for Input { level, table } in &plan.inputs {
            self.version.remove(*level, table.number).unwrap();
        }
        if plan.trivial_move {
            for Input { table, .. } in &plan.inputs {
                let table = Arc::clone(table);
                self.version.add(plan.output_level, table).unwrap();
            }
            return self.version.check().unwrap();
        }
        let Some(first) = plan.inputs.first() else {
            return;
        };
        let tables = plan.inputs.iter().map(|input| &input.table);
        let mut merged = TableMeta::clone(&first.table);
        merged.smallest = tables
            .clone()
            .map(|table| table.smallest.clone())
            .min()
            .unwrap();
        merged.largest = tables
            .clone()
            .map(|table| table.largest.clone())
            .max()
            .unwrap();
        let raw_bytes: u64 = tables.map(|table| table.raw_bytes).sum();
        // There would be several of at most this size.
        merged.raw_bytes = raw_bytes.min(self.options.table_bytes_target);
        merged.number = FileNumber(self.next);
        (merged.seq_min, merged.seq_max, merged.tombstones) = (SeqNo(0), SeqNo(0), 0);
        merged.repeated_keys = Some(0);
        self.next += 1;
        self.version
            .add(plan.output_level, Arc::new(merged))
            .unwrap();
        self.version.check().unwrap();
    }

    fn run(&mut self, range: &KeyRange, rewrite_all: bool) -> Vec<String> {
        let first_new = FileNumber(self.next);
        let mut pass = Pass::new(range, rewrite_all, &self.version, first_new);
        let mut steps = Vec::new();
        loop {
            match pass.choose(&self.version, &self.options, &self.busy, 4) {
                Choice::Done => return steps,
                Choice::Wait => {
                    steps.push("wait".to_owned());
                    return steps;
                }
                Choice::Run(plan) => {
                    steps.push(plan.to_string());
                    self.carry_out(&plan);
                    pass.done(&plan);
                }
            }
            assert!(steps.len() < 50, "no end: {steps:?}");
        }
    }
}

fn steps(text: &str) -> Vec<String> {
    Steps::new(text).run(&KeyRange::all(), false)
}

#[test]
fn data_goes_down_level_by_level_one_table_at_a_time() {
    assert_eq!(
        steps(
            "L0 4:c-e 3:a-d
             L4 5:a-g:9000 6:h-k:9000
             L5 7:a-c 8:d-f 9:i-j
             L6 10:a-b:90000 11:e-f:90000 12:x-z:90000:="
        ),
        [
            "manual: L0 3 4 merge to L3",
            "manual: L3 100 L4 5 merge to L4",
            "manual: L4 101 L5 7 8 merge to L5",
            "manual: L4 6 L5 9 merge to L5",
            "manual: L5 102 L6 10 11 merge to L6",
            // The merge left nothing in it to drop.
            "manual: L5 103 move to L6",
        ]
    );
}

#[test]
fn a_clean_last_level_is_left_alone() {
    let clean = "L6 1:a-b:100:= 2:c-d:100:@0:= 3:e-f:100:=";
    assert!(steps(clean).is_empty());
    let rewritten = Steps::new(clean).run(&KeyRange::all(), true);
    assert_eq!(rewritten, ["rewrite: L6 1 2 3 merge to L6"]);
}

#[test]
fn tables_that_may_hold_garbage_are_rewritten_in_portions() {
    assert_eq!(
        steps("L6 9:a-b:100 2:c-d:100:= 3:e-f:500 4:g-h:400 5:i-j:400:!1"),
        [
            "manual: L6 9 merge to L6",
            "manual: L6 3 merge to L6",
            "manual: L6 4 5 merge to L6",
        ]
    );
}

#[test]
fn small_neighbours_become_one() {
    assert_eq!(
        steps("L6 1:a-b:10:= 2:c-d:10:= 3:e-f:100:= 4:g-h:10:= 5:i-j:20:= 6:k-l:20:="),
        ["manual: L6 1 2 merge to L6"]
    );
}

#[test]
fn what_holds_no_version_twice_goes_down_as_it_is() {
    // A load by puts was compressed twice or more: a flushed table has many sequence numbers, which
    // used to be all that was known of it, and was joined with the next where it was half as large
    // as tables should be.
    assert_eq!(
        steps("L0 3:e-f:60:%0 2:c-d:60:%0 1:a-b:60:%0"),
        [
            "manual: L0 1 move to L6",
            "manual: L0 2 move to L6",
            "manual: L0 3 move to L6",
        ]
    );
    assert_eq!(
        steps("L0 6:i-j:900:%0 5:g-h:60:%1 4:e-f:60:%0:!1 3:c-d:60:%0:~1 2:a-b:60"),
        [
            "manual: L0 2 merge to L6",
            "manual: L0 3 merge to L6",
            "manual: L0 4 merge to L6",
            "manual: L0 5 merge to L6",
            "manual: L0 6 merge to L6",
        ]
    );
    assert!(steps("L6 1:a-b:60:%0 2:c-d:60:%0").is_empty());
}

#[test]
fn what_holds_no_version_twice_is_rewritten_where_the_last_level_has_other_tables() {
    let mut tree = Steps::new("L0 2:c-d:60:%0 1:a-b:60:%0\n L5 3:x-y:60:%0");
    let upper = crate::options::TableOptions::blocks(1, 1 << 14);
    tree.options.levels = KeyspaceOptions::tiered(upper, Default::default()).levels;
    assert_eq!(
        tree.run(&KeyRange::all(), false),
        [
            "manual: L0 1 move to L5",
            "manual: L0 2 move to L5",
            "manual: L5 1 merge to L6",
            "manual: L5 2 merge to L6",
            "manual: L5 3 merge to L6",
        ]
    );
}

#[test]
fn only_tables_of_the_range_are_touched() {
    let text = "L0 4:x-z 3:a-b
         L5 7:a-c 8:p-q
         L6 10:a-c:100 11:d-f:100 12:p-z:100";
    let range = KeyRange::new("a".as_bytes().."d".as_bytes());
    let run = Steps::new(text).run(&range, false);
    assert_eq!(
        run,
        [
            "manual: L0 3 L5 7 merge to L5",
            "manual: L5 100 L6 10 merge to L6",
        ]
    );
}

#[test]
fn l0_tables_that_a_job_holds_are_waited_for() {
    assert_eq!(steps("L0 4:a-c 3:b-d*"), ["wait"]);
}
