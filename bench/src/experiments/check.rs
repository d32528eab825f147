//! The untimed pass: every answer of an open store against the corpus.

use ppc_store::{Error, Result};

use crate::corpus::Corpus;
use crate::peers::{Peer, Store, Wanted};
use crate::workload::shuffled;

/// Keys in one call of the batched pass.
const BATCH: usize = 100;

/// Gets every key, one by one in key order; in batches, some in random order; and by a scan where
/// there is one. Fails at the first wrong answer. Leaves the store's files read once.
pub(super) fn check(
    peer: &dyn Peer,
    store: &dyn Store,
    corpus: &Corpus,
    batches: usize,
) -> Result<()> {
    check_gets(store, corpus)?;
    check_batches(store, corpus, batches)?;
    if peer.can_scan() {
        check_scan(store, corpus)?;
    }
    Ok(())
}

fn wanted(corpus: &Corpus, ordinal: usize) -> Wanted<'_> {
    Wanted {
        key: corpus.key(ordinal),
        ordinal: u32::try_from(ordinal).unwrap_or(u32::MAX),
    }
}

fn wrong(corpus: &Corpus, ordinal: usize, how: &str) -> Error {
    let key = corpus.key(ordinal).escape_ascii();
    Error::corruption(format!("{how}: wrong answer for key {ordinal}, {key}"))
}

fn check_gets(store: &dyn Store, corpus: &Corpus) -> Result<()> {
    let mut reader = store.reader();
    for ordinal in 0..corpus.len() {
        let mut is_right = false;
        reader.get(wanted(corpus, ordinal), &mut |value| {
            is_right = value == corpus.value(ordinal);
        })?;
        if !is_right {
            return Err(wrong(corpus, ordinal, "get"));
        }
    }
    Ok(())
}

fn check_batches(store: &dyn Store, corpus: &Corpus, batches: usize) -> Result<()> {
    let mut reader = store.reader();
    let keys = u32::try_from(corpus.len()).unwrap_or(u32::MAX);
    let ordinals = shuffled(keys, 0);
    for batch in ordinals.chunks(BATCH).take(batches) {
        let questions: Vec<_> = batch
            .iter()
            .map(|&ordinal| wanted(corpus, ordinal as usize))
            .collect();
        let mut right = vec![false; batch.len()];
        reader.multi_get(&questions, &mut |place, value| {
            if let (Some(slot), Some(&ordinal)) = (right.get_mut(place), batch.get(place)) {
                *slot = value == corpus.value(ordinal as usize);
            }
        })?;
        for (is_right, &ordinal) in right.iter().zip(batch) {
            if !is_right {
                return Err(wrong(corpus, ordinal as usize, "multi-get"));
            }
        }
    }
    Ok(())
}

fn check_scan(store: &dyn Store, corpus: &Corpus) -> Result<()> {
    let mut ordinal = 0;
    let mut first_wrong = None;
    store.reader().scan(&mut |key, value| {
        let is_right =
            ordinal < corpus.len() && key == corpus.key(ordinal) && value == corpus.value(ordinal);
        if !is_right && first_wrong.is_none() {
            first_wrong = Some(ordinal);
        }
        ordinal += 1;
    })?;
    match first_wrong {
        Some(ordinal) if ordinal < corpus.len() => Err(wrong(corpus, ordinal, "scan")),
        None if ordinal == corpus.len() => Ok(()),
        _ => Err(Error::corruption(format!(
            "a scan gave {ordinal} entries where {} were stored",
            corpus.len()
        ))),
    }
}
