//! One index: from a hash of a content to its PPC key.
//!
//! Index tables keep their short values beside the keys, uncompressed: hashes do not compress, and
//! a lookup then reads one key block and decodes nothing.

use ppc_engine::{Compression, Db, Keyspace, KeyspaceOptions, TableOptions};

use crate::Result;
use crate::hash::{HashKind, HashKinds, Hashes, Sha1Git};
use crate::key::PpcKey;

/// An open index.
pub(super) struct Index {
    kind: HashKind,
    keyspace: Keyspace,
}

/// The kinds of `indexes` with `sha1_git`, the one that is always there, first.
pub(super) fn indexes_of(indexes: HashKinds) -> impl Iterator<Item = HashKind> {
    indexes.with(HashKind::Sha1Git).iter()
}

fn options() -> KeyspaceOptions {
    let mut table = TableOptions::default();
    table.compression = Compression::None;
    table.inline_value_bytes_max = 4096;
    KeyspaceOptions::uniform(table)
}

impl Index {
    pub(super) fn open_or_create(db: &Db, kind: HashKind) -> Result<Self> {
        let keyspace = match db.existing_keyspace(kind.name())? {
            Some(existing) => existing,
            None => db.keyspace(kind.name(), options())?,
        };
        Ok(Self { kind, keyspace })
    }

    pub(super) fn open(db: &Db, kind: HashKind) -> Result<Option<Self>> {
        let keyspace = db.existing_keyspace(kind.name())?;
        Ok(keyspace.map(|keyspace| Self { kind, keyspace }))
    }

    pub(super) fn kind(&self) -> HashKind {
        self.kind
    }

    pub(super) fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// The entry for a content stored under `key`, whose binary form is `encoded_key`; none if the
    /// hashes lack this kind.
    pub(super) fn entry<'a>(
        &self,
        hashes: &'a Hashes,
        encoded_key: &'a [u8],
    ) -> Option<(Vec<u8>, &'a [u8])> {
        let hash = hashes.get(self.kind)?;
        Some((hash.as_bytes().to_vec(), self.value(encoded_key)))
    }

    /// What the index stores for a key: all of it, but without the hash where that is the index's
    /// own key.
    fn value<'a>(&self, encoded_key: &'a [u8]) -> &'a [u8] {
        match self.kind {
            HashKind::Sha1Git => {
                let names = encoded_key.len().saturating_sub(Sha1Git::BYTES);
                encoded_key.get(..names).unwrap_or_default()
            }
            _ => encoded_key,
        }
    }

    /// The binary PPC key that an entry of this index names.
    pub(super) fn encoded_key(&self, hash: &[u8], value: &[u8]) -> Vec<u8> {
        match self.kind {
            HashKind::Sha1Git => [value, hash].concat(),
            _ => value.to_vec(),
        }
    }

    /// The PPC key that an entry of this index names.
    pub(super) fn key(&self, hash: &[u8], value: &[u8]) -> Result<PpcKey> {
        PpcKey::decode(&self.encoded_key(hash, value))
            .map_err(|error| error.in_keyspace(self.kind.name()))
    }
}
