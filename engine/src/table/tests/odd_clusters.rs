//! Clustered tables of what nobody writes every day: huge values, very many, and all of a kind. With
//! the options of every profile.

use super::clustered::{check, entries, file, noise};
use super::*;
use crate::iter::InternalIterator;
use crate::options::{Profile, TableOptions};
use crate::table::key_hash;

/// Builds a table and reads each value once, by a get.
fn read_back(values: impl IntoIterator<Item = Vec<u8>>, options: &TableOptions) -> u64 {
    let entries = entries(values);
    let fixture = build(&entries, &[], options, 2).unwrap();
    let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
    let stats = Stats::new();
    let context = plain(&stats);
    for entry in &entries {
        let found = reader.find(&entry.key, key_hash(&entry.key), SeqNo::MAX, &context);
        let value = reader.read(&found.unwrap().unwrap().place, &context);
        assert!(value.unwrap() == entry.value.as_deref().unwrap());
    }
    fixture.summary.stored_bytes
}

#[test]
fn every_profile_gives_back_what_it_was_given() {
    let one_line = |n: u64| {
        file(4, n, 500)
            .iter()
            .map(|byte| byte.max(&b' '))
            .copied()
            .collect()
    };
    let sets: [Vec<Vec<u8>>; 6] = [
        vec![file(1, 1, 100)],
        (0..30).map(|_| file(1, 1, 100)).collect(),
        (0..30).map(|n| noise(n, 3000)).collect(),
        (0..30).map(|n| file(n % 5, n, 60 + 2 * n)).collect(),
        (0..5).map(one_line).collect(),
        (0..30)
            .map(|n| [noise(1, 9000), noise(n, 100)].concat())
            .collect(),
    ];
    for profile in Profile::ALL {
        for values in &sets {
            let entries = entries(values.iter().cloned());
            let options = TableOptions::profile(profile);
            check(&build(&entries, &[], &options, 2).unwrap(), &entries);
        }
    }
}

#[test]
fn a_huge_value_is_the_base_of_another() {
    // Not to be compressed by itself, and far longer than any level of zstd looks back.
    let huge = noise(1, 24 << 20);
    let other = [&huge[..20 << 20], &file(1, 1, 100)].concat();
    for profile in Profile::ALL {
        let values = [huge.clone(), other.clone(), file(1, 1, 100)];
        let stored = read_back(values, &TableOptions::profile(profile));
        let helps = profile != Profile::Fast;
        assert_eq!(stored < 26 << 20, helps, "{profile:?}: {stored}");
    }
}

#[test]
fn many_values_without_a_byte_take_next_to_nothing() {
    let options = TableOptions {
        inline_value_bytes_max: 0,
        ..TableOptions::balanced()
    };
    let entries = entries((0..1_000_000).map(|_| Vec::new()));
    let fixture = build(&entries, &[], &options, 2).unwrap();
    assert!(fixture.summary.stored_bytes < 16 << 20);
    let reader = fixture.open(ReadMode::Mmap, 0).unwrap();
    let mut iter = reader.iter(plain_iter());
    iter.seek_to_first().unwrap();
    let mut count = 0;
    while iter.valid() {
        assert!(iter.value().unwrap().is_empty());
        count += 1;
        iter.next().unwrap();
    }
    assert_eq!(count, 1_000_000);
}

#[test]
fn thousands_that_cannot_be_told_apart_are_one_cluster_or_none() {
    let same = file(1, 0, 12);
    let equal = (0..6000).map(|_| same.clone());
    let tailed = (0..6000u64).map(|n| [&same[..], &n.to_le_bytes()].concat());
    for profile in Profile::ALL {
        let options = TableOptions::profile(profile);
        let raw = 6000 * same.len() as u64;
        assert!(read_back(equal.clone(), &options) < raw / 6);
        assert!(read_back(tailed.clone(), &options) < raw / 6);
    }
}

/// Takes some GiB of memory: `cargo test -p ppc-engine --lib -- --ignored a_value_of_a_gib`.
#[test]
#[ignore = "takes minutes and some GiB of memory"]
fn a_value_of_a_gib_is_read_back() {
    let chunk = noise(1, 1 << 20);
    let mut huge = chunk.repeat(1 << 10);
    for (n, part) in huge.chunks_mut(1 << 20).enumerate() {
        part[..8].copy_from_slice(&(n as u64).to_le_bytes());
    }
    let values = [file(1, 1, 100), huge, file(1, 2, 100), chunk];
    let stored = read_back(values, &TableOptions::balanced());
    assert!(stored < 64 << 20, "{stored}");
}
