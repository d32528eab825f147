//! What makes an engine store an archive: one record in keyspace `meta`, written when the archive
//! is created and checked on every open.
//!
//! ```text
//! key "archive" -> ┌──────────────────────┬───────────────────────────────┐
//!                  │ format version (u32) │ indexes: a bit for each kind  │   little endian
//!                  └──────────────────────┴───────────────────────────────┘
//! ```
//!
//! The record is written last, when every keyspace is there. A store without it is taken for an
//! archive cut off while it was created only if it holds no keyspace with an entry, and no table
//! lies beside it that may have been lost; without such tables it is somebody else's.

use std::path::Path;

use ppc_engine::{Batch, Db, Durability, ErrorKind, IterOptions, KeyspaceOptions};

use crate::hash::{HashKind, HashKinds};
use crate::{Error, Result};

const META: &str = "meta";
const RECORD_KEY: &[u8] = b"archive";

/// The only format of archives so far.
const FORMAT_VERSION: u32 = 1;
const RECORD_BYTES: usize = 5;

/// An archive's indexes, as it has them or is about to get them.
pub(super) struct Indexes {
    pub(super) kinds: HashKinds,
    /// Whether the record is still to be written, by [`complete`].
    pub(super) is_new: bool,
}

/// The indexes of an archive, or those to create if the store is empty. `wanted` are the indexes
/// beside `sha1_git` that the caller insists on.
pub(super) fn open_or_begin(db: &Db, path: &Path, wanted: Option<HashKinds>) -> Result<Indexes> {
    if let Some(indexes) = read(db, path)? {
        return Ok(Indexes {
            kinds: check(indexes, wanted, path)?,
            is_new: false,
        });
    }
    check_nothing_is_lost(db, path)?;
    if !is_empty(db)? {
        return Err(foreign(path));
    }
    let kinds = wanted.unwrap_or(HashKinds::NONE).with(HashKind::Sha1Git);
    // What an attempt with other indexes left, if it was cut off.
    for kind in HashKind::ALL {
        if !kinds.contains(kind) {
            db.drop_keyspace(kind.name())?;
        }
    }
    Ok(Indexes {
        kinds,
        is_new: true,
    })
}

/// Makes a store an archive, once it has all keyspaces.
pub(super) fn complete(db: &Db, indexes: HashKinds) -> Result<()> {
    let keyspace = db.keyspace(META, KeyspaceOptions::default())?;
    let mut batch = Batch::new();
    batch.put(&keyspace, RECORD_KEY, encode(indexes));
    db.write(batch, Durability::Sync)
}

/// The archive's indexes.
pub(super) fn open(db: &Db, path: &Path, wanted: Option<HashKinds>) -> Result<HashKinds> {
    if let Some(indexes) = read(db, path)? {
        return check(indexes, wanted, path);
    }
    check_nothing_is_lost(db, path)?;
    if !is_empty(db)? {
        return Err(foreign(path));
    }
    Err(Error::new(
        ErrorKind::NotFound,
        "no archive yet: its creation was cut off",
    )
    .at_path(path)
    .with_remedy("open it for writing, which completes it"))
}

/// Fails if an archive that has lost its record may have lost more: no table is written before the
/// record is.
fn check_nothing_is_lost(db: &Db, path: &Path) -> Result<()> {
    let unlisted = db.unlisted_tables()?;
    let lost = unlisted.iter().filter(|table| table.may_be_lost).count();
    if lost == 0 {
        return Ok(());
    }
    let tables = if lost == 1 { "table is" } else { "tables are" };
    Err(Error::corruption(format!(
        "the archive has lost its format record, and {lost} {tables} there that it does not list: \
         its manifest has lost its end"
    ))
    .at_path(path)
    .with_remedy("run salvage to keep what is readable"))
}

/// Writes the record anew if it was lost: the indexes are those whose keyspaces are there.
pub(crate) fn restore(db: &Db) -> Result<()> {
    let keyspace = db.keyspace(META, KeyspaceOptions::default())?;
    if keyspace.contains(RECORD_KEY)? {
        return Ok(());
    }
    let names = db.keyspace_names();
    let is_there = |kind: &HashKind| names.iter().any(|name| name == kind.name());
    let indexes: HashKinds = HashKind::ALL.into_iter().filter(is_there).collect();
    let record = encode(indexes.with(HashKind::Sha1Git));
    keyspace.put(RECORD_KEY, record, Durability::Sync)
}

fn read(db: &Db, path: &Path) -> Result<Option<HashKinds>> {
    let Some(keyspace) = db.existing_keyspace(META)? else {
        return Ok(None);
    };
    let Some(record) = keyspace.get(RECORD_KEY)? else {
        return Ok(None);
    };
    decode(&record)
        .map(Some)
        .map_err(|error| error.at_path(path))
}

fn encode(indexes: HashKinds) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..4].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    record[4] = indexes.iter().fold(0, |bits, kind| bits | bit(kind));
    record
}

fn decode(record: &[u8]) -> Result<HashKinds> {
    let Some((version, rest)) = record.split_first_chunk::<4>() else {
        return Err(Error::corruption(
            "the archive's format record is cut short",
        ));
    };
    let version = u32::from_le_bytes(*version);
    if version != FORMAT_VERSION {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "the archive has format version {version}; this build knows version \
                 {FORMAT_VERSION}"
            ),
        )
        .with_remedy("open it with the release that wrote it, or a newer one"));
    }
    let [bits] = rest else {
        return Err(Error::corruption(
            "the archive's format record has a wrong length",
        ));
    };
    let known = HashKind::ALL
        .into_iter()
        .filter(|kind| bits & bit(*kind) != 0);
    let indexes: HashKinds = known.collect();
    if encode(indexes).last() != Some(bits) || !indexes.contains(HashKind::Sha1Git) {
        return Err(Error::corruption(format!(
            "the archive's format record names indexes {bits:#010b}, which cannot be"
        )));
    }
    Ok(indexes)
}

fn bit(kind: HashKind) -> u8 {
    match kind {
        HashKind::Sha1Git => 1,
        HashKind::Sha1 => 2,
        HashKind::Sha256 => 4,
        HashKind::Blake2s256 => 8,
    }
}

fn check(indexes: HashKinds, wanted: Option<HashKinds>, path: &Path) -> Result<HashKinds> {
    if wanted.is_none_or(|wanted| wanted.with(HashKind::Sha1Git) == indexes) {
        return Ok(indexes);
    }
    let names: Vec<&str> = indexes.iter().map(HashKind::name).collect();
    Err(Error::invalid_input(format!(
        "the archive was created with indexes {}, and indexes are chosen at creation",
        names.join(", ")
    ))
    .at_path(path)
    .with_remedy("leave the option out, or export into a new archive with other indexes"))
}

fn foreign(path: &Path) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the directory holds an engine store that is no PPC archive",
    )
    .at_path(path)
    .with_remedy("give the directory of an archive, or a new one")
}

fn is_empty(db: &Db) -> Result<bool> {
    for name in db.keyspace_names() {
        let Some(keyspace) = db.existing_keyspace(&name)? else {
            continue;
        };
        let mut entries = keyspace.iter(ppc_engine::KeyRange::all(), IterOptions::keys_only())?;
        if entries.next().transpose()?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_record_of_another_version_is_refused_by_name() {
        let error = decode(&[9, 0, 0, 0, 1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("format version 9"), "{error}");
    }

    #[test]
    fn other_indexes_than_the_archives_are_refused() {
        let have = HashKinds::NONE
            .with(HashKind::Sha1Git)
            .with(HashKind::Sha256);
        let path = Path::new("a");
        assert!(check(have, None, path).is_ok());
        assert!(check(have, Some(HashKinds::NONE.with(HashKind::Sha256)), path).is_ok());
        assert!(check(have, Some(HashKinds::NONE), path).is_err());
    }

    proptest! {
        #[test]
        fn records_round_trip(bits in 0_u8..16) {
            let indexes: HashKinds = HashKind::ALL
                .into_iter()
                .filter(|kind| bits & bit(*kind) != 0)
                .collect::<HashKinds>()
                .with(HashKind::Sha1Git);
            prop_assert_eq!(decode(&encode(indexes)).unwrap(), indexes);
        }

        #[test]
        fn decoding_never_panics(record in proptest::collection::vec(any::<u8>(), 0..12)) {
            if let Ok(indexes) = decode(&record) {
                prop_assert_eq!(&encode(indexes)[..], &record[..]);
            }
        }
    }
}
