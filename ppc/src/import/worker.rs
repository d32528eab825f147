//! Hashing workers: from what was read to what can be stored.

use std::sync::atomic::Ordering;

use crossbeam_channel::{Receiver, Sender};

use super::Context;
use crate::Result;
use crate::archive::check_length;
use crate::budget::Permit;
use crate::hash::{HashKinds, Hashes, Sha1Git};
use crate::key::PpcKey;
use crate::source::{Problem, SourceFile, SourceItem, StatedHash};

/// Items read together, and their place in reading order.
pub(super) struct Batch {
    pub(super) ordinal: u64,
    pub(super) items: Vec<SourceItem>,
    /// The memory of all items, given back when the batch is dropped.
    pub(super) permit: Permit,
}

/// A batch with everything computed that does not depend on order.
pub(super) struct HashedBatch {
    pub(super) ordinal: u64,
    pub(super) items: Vec<HashedItem>,
    /// How many commits had been made when the archive was asked what it has.
    pub(super) commits_seen: u64,
    /// As in [`Batch`].
    pub(super) _permit: Permit,
}

/// An item, hashed where it is a file.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every item is a file; boxing it would cost an allocation each"
)]
pub(super) enum HashedItem {
    File(HashedFile),
    Problem(Problem),
}

/// A file, hashed.
pub(super) struct HashedFile {
    pub(super) file: SourceFile,
    /// Its key and hashes, and whether the archive had the content.
    pub(super) outcome: Result<Hashed>,
    /// Stated hashes that are not the content's.
    pub(super) mismatches: Vec<Mismatch>,
}

/// A hash that a source states and the content has not.
pub(super) struct Mismatch {
    pub(super) stated: StatedHash,
    /// The content's own, of the same kind where there is one such kind.
    pub(super) computed: String,
}

/// What hashing found.
pub(super) struct Hashed {
    pub(super) key: PpcKey,
    pub(super) hashes: Hashes,
    pub(super) is_present: bool,
    /// Whether the name in the key is from the list of names, not from the source.
    pub(super) is_named: bool,
}

/// Hashes batches until there are no more, or nobody wants them.
pub(super) fn run(context: Context<'_>, batches: &Receiver<Batch>, hashed: &Sender<HashedBatch>) {
    let indexes = context.archive.indexes();
    for batch in batches {
        let commits_seen = context.commits.load(Ordering::Acquire);
        let hash_item = |item| match item {
            SourceItem::File(file) => HashedItem::File(hash(context, indexes, file)),
            SourceItem::Problem(problem) => HashedItem::Problem(problem),
        };
        let done = HashedBatch {
            ordinal: batch.ordinal,
            items: batch.items.into_iter().map(hash_item).collect(),
            commits_seen,
            _permit: batch.permit,
        };
        if hashed.send(done).is_err() {
            return;
        }
    }
}

fn hash(context: Context<'_>, indexes: HashKinds, file: SourceFile) -> HashedFile {
    let stated_kinds = file.stated.iter().flat_map(|stated| stated.kinds().iter());
    let kinds: HashKinds = indexes.iter().chain(stated_kinds).collect();
    let hashes = Hashes::of(kinds, &file.content);
    let wrong = file
        .stated
        .iter()
        .filter(|stated| !stated.is_confirmed_by(&hashes));
    let mismatches = wrong
        .map(|stated| Mismatch {
            computed: computed(stated, &hashes, &file.content),
            stated: stated.clone(),
        })
        .collect();
    let outcome = find(context, &file, hashes);
    HashedFile {
        file,
        outcome,
        mismatches,
    }
}

/// The content's hashes that a stated one should have been.
fn computed(stated: &StatedHash, hashes: &Hashes, content: &[u8]) -> String {
    let kinds = stated.kinds();
    let texts: Vec<String> = kinds
        .iter()
        .filter_map(|kind| hashes.get(kind))
        .map(|hash| hash.to_string())
        .collect();
    if texts.is_empty() {
        return crate::ContentHash::Sha1Git(Sha1Git::of(content)).to_string();
    }
    texts.join(", ")
}

fn find(context: Context<'_>, file: &SourceFile, hashes: Hashes) -> Result<Hashed> {
    let hash = hashes
        .sha1_git
        .unwrap_or_else(|| Sha1Git::of(&file.content));
    let names = context.options.names.as_ref();
    let listed = names.map(|names| names.get(hash)).transpose()?.flatten();
    let is_named = listed.is_some();
    let name = listed.unwrap_or_else(|| file.name.clone());
    check_length(&name, file.content.len())?;
    Ok(Hashed {
        key: PpcKey::new(name, hash)?,
        hashes,
        is_present: context.archive.has_sha1_git(hash)?,
        is_named,
    })
}
