use super::*;
use proptest::prelude::*;

fn plan_counting(values: &[Vec<u8>], options: ClusterOptions) -> (ClusterPlan, u64) {
    let mut clusterer = Clusterer::new(options);
    for value in values {
        clusterer.add(value);
    }
    clusterer.plan_counting()
}

fn plan(values: &[Vec<u8>]) -> ClusterPlan {
    plan_counting(values, ClusterOptions::default()).0
}

/// Checks what holds of every plan; gives each value's depth.
fn check(plan: &ClusterPlan, count: usize, depth_max: u32) -> Vec<u32> {
    assert_eq!(plan.base.len(), count);
    let mut places = vec![None; count];
    for (place, &value) in plan.order.iter().enumerate() {
        let before = places[value as usize].replace(place);
        assert_eq!(before, None, "value {value} stands twice");
    }
    assert_eq!(plan.order.len(), count);
    let mut depths = vec![0; count];
    let mut root = 0;
    let mut firsts = Vec::new();
    for &value in &plan.order {
        match plan.base[value as usize] {
            None => {
                root = value;
                firsts.push(value);
            }
            Some(base) => {
                assert!(places[base as usize] < places[value as usize]);
                depths[value as usize] = depths[base as usize] + 1;
                let mut top = base;
                while let Some(base) = plan.base[top as usize] {
                    top = base;
                }
                assert_eq!(top, root, "value {value} stands in another cluster");
                let first = firsts.last_mut().unwrap();
                *first = value.min(*first);
            }
        }
    }
    assert!(firsts.is_sorted(), "clusters are out of key order");
    assert!(depths.iter().all(|&depth| depth <= depth_max));
    depths
}

/// A file of `lines` lines; those of one `seed` are alike, but for the `edited` ones.
fn file(seed: usize, lines: usize, edited: &[usize]) -> Vec<u8> {
    let mut text = String::new();
    for line in 0..lines {
        let is_edited = edited.iter().position(|&other| other == line);
        let version = is_edited.map_or(0, |at| at + 1 + edited.len() * line);
        text += &format!("    let name_{seed}_{line} = compute({seed}, {version});\n");
    }
    text.into_bytes()
}

/// A number for each `n` that looks random.
fn mixed(n: usize) -> usize {
    xxhash_rust::xxh3::xxh3_64(&(n as u64).to_le_bytes()) as usize
}

fn noise(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| mixed(at + (seed << 24)) as u8).collect()
}

#[test]
fn versions_share_a_base_and_strangers_stand_alone() {
    let mut values = Vec::new();
    for n in 0..60 {
        let seed = n % 3;
        values.push(file(seed, 300, &[mixed(n) % 300, mixed(n + 100) % 300]));
    }
    for n in 0..10 {
        values.push(file(10 + n, 300, &[]));
    }
    let plan = plan(&values);
    check(&plan, values.len(), 1);
    for (value, base) in plan.base.iter().enumerate() {
        if let Some(base) = base {
            assert!(value < 60);
            assert_eq!(value % 3, *base as usize % 3);
        }
    }
    // Three clusters of 20, or nearly: a base that serves many.
    let followers = plan.base.iter().flatten().count();
    assert!((54..=57).contains(&followers), "{followers}");
}

#[test]
fn odd_windows_are_planned() {
    for count in [0, 1, 2, 100] {
        let values = vec![Vec::new(); count];
        let plan = plan(&values);
        check(&plan, count, 1);
        assert!(plan.base.iter().all(Option::is_none));
        assert!(plan.order.is_sorted());
    }
    let different: Vec<_> = (0..50).map(|seed| file(seed, 40, &[])).collect();
    let alone = plan(&different);
    check(&alone, 50, 1);
    assert!(alone.base.iter().all(Option::is_none));

    let equal = vec![file(1, 200, &[]); 50];
    let star = plan(&equal);
    check(&star, 50, 1);
    assert_eq!(star.base.iter().flatten().count(), 49);

    let random: Vec<_> = (0..20).map(|seed| noise(5_000, seed)).collect();
    assert!(plan(&random).base.iter().all(Option::is_none));
}

#[test]
fn files_without_lines_are_recognised() {
    // A minified file and a binary one, each with bytes put in near the beginning.
    let minified: String = (0..3_000)
        .map(|n| format!("function f{n}(a){{return a*{}}};", mixed(n) % 1_000))
        .collect();
    for whole in [minified.into_bytes(), noise(60_000, 7)] {
        let mut edited = whole.clone();
        edited.splice(1_000..1_000, *b"something new");
        let plan = plan(&[whole, edited]);
        check(&plan, 2, 1);
        assert_eq!(plan.base.iter().flatten().count(), 1);
    }
}

#[test]
fn indents_and_line_ends_do_not_hide_likeness() {
    let text = String::from_utf8(file(1, 200, &[])).unwrap();
    let other = text.replace('\n', "\r\n").replace("    let", "\t\tlet");
    let plan = plan(&[text.into_bytes(), other.into_bytes()]);
    assert_eq!(plan.base.iter().flatten().count(), 1);
}

#[test]
fn a_base_far_longer_than_its_follower_does_not_pay() {
    // Three parts of a long value: its sketch knows them, but for each all of it would be decoded.
    let long = file(1, 4_000, &[]);
    let part = long.len() / 20;
    let mut values = vec![long.clone()];
    values.extend((1..4).map(|n| long[n * part..][..part].to_vec()));
    let weighing = ClusterOptions {
        sketch_entries_max: 1024,
        ..ClusterOptions::default()
    };
    let (plan, _) = plan_counting(&values, weighing);
    assert!(!plan.base.contains(&Some(0)), "{plan:?}");
    let careless = ClusterOptions {
        saved_bytes_per_1000_decoded: 0,
        ..weighing
    };
    let (plan, _) = plan_counting(&values, careless);
    assert_eq!(plan.base, [None, Some(0), Some(0), Some(0)]);
}

#[test]
fn what_is_everywhere_makes_no_base() {
    // Every file opens with the same licence, which is half of it: a dictionary holds that.
    let licence = file(1_000, 40, &[]);
    let values: Vec<_> = (0..200)
        .map(|seed| [licence.clone(), file(seed, 60, &[])].concat())
        .collect();
    // Sketches that are exact enough to tell a quarter from a half.
    let options = ClusterOptions {
        saved_bytes_per_1000_decoded: 50,
        sketch_entries_max: 64,
        ..ClusterOptions::default()
    };
    let (plan, _) = plan_counting(&values, options);
    assert_eq!(plan.base.iter().flatten().count(), 0);
    // Two of them alone have no dictionary to speak of.
    let (plan, _) = plan_counting(&values[..2], options);
    assert_eq!(plan.base.iter().flatten().count(), 1);
}

#[test]
fn chains_reach_the_depth_that_is_allowed() {
    // Each version replaces a tenth of the one before: near ones are alike, far ones are not.
    let values: Vec<_> = (0..12)
        .map(|version| file(1, 1_000, &[])[version * 1_600..][..16_000].to_vec())
        .collect();
    for depth_max in [1, 2, 4] {
        let options = ClusterOptions {
            saved_bytes_per_1000_decoded: 5,
            depth_max,
            ..ClusterOptions::default()
        };
        let (plan, _) = plan_counting(&values, options);
        let depths = check(&plan, values.len(), depth_max);
        assert_eq!(depths.iter().max(), Some(&depth_max));
    }
}

#[test]
fn work_grows_with_the_window_alone_however_alike_values_are() {
    let everywhere = file(7, 3, &[]);
    type Make<'a> = Box<dyn Fn(usize) -> Vec<u8> + 'a>;
    let windows: [(&str, Make<'_>); 4] = [
        ("equal", Box::new(|_| file(1, 100, &[]))),
        (
            "a few lines in all",
            Box::new(|n| [everywhere.clone(), file(n + 10, 30, &[])].concat()),
        ),
        (
            "versions",
            Box::new(|n| file(1, 100, &[n % 100, mixed(n) % 100])),
        ),
        (
            "lines out of a few",
            Box::new(|n| {
                (0..40)
                    .flat_map(|at| file(mixed(n * 40 + at) % 80, 1, &[]))
                    .collect()
            }),
        ),
    ];
    for (name, make) in windows {
        let work = |count: usize| {
            let values: Vec<_> = (0..count).map(&make).collect();
            let options = ClusterOptions {
                saved_bytes_per_1000_decoded: 10,
                depth_max: 4,
                ..ClusterOptions::default()
            };
            let (plan, work) = plan_counting(&values, options);
            check(&plan, count, 4);
            work
        };
        let (few, many) = (work(500), work(4_000));
        assert!(many < 8 * few * 3 / 2, "{name}: {few} then {many}");
        assert!(many < 4_000 * 4_000, "{name}: {many}");
    }
}

#[test]
fn sketches_stay_small() {
    let mut clusterer = Clusterer::new(ClusterOptions::default());
    for seed in 0..64 {
        clusterer.add(&file(seed, 2_000, &[]));
    }
    // A vector may have grown to twice what it holds.
    assert!(clusterer.memory_bytes() <= 2 * 64 * (64 * 8 + 32));
}

#[test]
fn shares_are_estimated_in_bytes() {
    let whole = file(1, 1_000, &[]);
    let half = [file(1, 500, &[]), file(2, 500, &[])].concat();
    let mut sketches = Sketches::default();
    for value in [&whole, &half] {
        sketches.push(value, 256);
    }
    let (whole, half) = (sketches.get(0), sketches.get(1));
    let distinct = i64::from(whole.distinct_bytes) - 31_000;
    assert!(distinct.abs() < 6_000, "{}", whole.distinct_bytes);
    let shared = whole.bytes_shared_with(&half);
    assert!((11_000..20_000).contains(&shared), "{shared}");
    assert_eq!(whole.bytes_shared_with(&whole), whole.distinct_bytes);
}

fn values() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let line = prop_oneof![
        4 => (0..30_usize).prop_map(|seed| file(seed, 1, &[])),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => Just(b"\n".to_vec()),
    ];
    let of_lines = proptest::collection::vec(line, 0..30).prop_map(|lines| lines.concat());
    let value = prop_oneof![
        5 => of_lines,
        1 => (0..1_500_usize, 0..3_usize).prop_map(|(len, seed)| noise(len, seed)),
    ];
    proptest::collection::vec(value, 0..60)
}

proptest! {
    #[test]
    fn plans_hold_what_they_promise(
        values in values(),
        sketch_entries_max in 1..100_u32,
        saved_bytes_per_1000_decoded in 0..120_u32,
        depth_max in 1..5_u32,
    ) {
        let options = ClusterOptions { sketch_entries_max, saved_bytes_per_1000_decoded, depth_max };
        let (plan, _) = plan_counting(&values, options);
        check(&plan, values.len(), depth_max);
        prop_assert_eq!(plan_counting(&values, options).0, plan);
    }

    #[test]
    fn pieces_are_the_lines_of_a_text(lines in proptest::collection::vec("[ \t]{0,3}[a-z]{0,20}[ \r]{0,2}", 0..40)) {
        let text = lines.join("\n");
        let mut found = Vec::new();
        pieces::for_each_piece(text.as_bytes(), |piece| found.push(piece.to_vec()));
        let expected: Vec<_> = lines
            .iter()
            .map(|line| line.trim_ascii().as_bytes().to_vec())
            .filter(|line| line.len() >= pieces::PIECE_BYTES_MIN)
            .collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn long_lines_are_cut_without_loss(line in proptest::collection::vec(b'a'..=b'z', 257..4_000)) {
        let mut found = Vec::new();
        pieces::for_each_piece(&line, |piece| {
            assert!(piece.len() <= pieces::PIECE_BYTES_MAX);
            found.extend_from_slice(piece);
        });
        prop_assert_eq!(found, line);
    }
}
