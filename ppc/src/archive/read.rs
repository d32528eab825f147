//! Reading: by key, by SWHID, by any indexed hash, one or many, and scans in key order.

use bytes::Bytes;
use ppc_engine::{Iter, IterOptions};

use super::index::Index;
use super::{Archive, Id, Selection};
use crate::hash::{ContentHash, HashKind, Sha1Git};
use crate::key::PpcKey;
use crate::{Error, Result};

/// A content and the key it is stored under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Where it is stored. The name in it may be another than the one asked for.
    pub key: PpcKey,
    /// The content.
    pub content: Bytes,
}

impl Archive {
    /// The content that `id` names.
    ///
    /// Fails if `id` is a hash of a kind that the archive has no index of.
    pub fn get(&self, id: &Id) -> Result<Option<Stored>> {
        if let Id::Key(key) = id
            && let Some(content) = self.inner.contents.get(key.encode())?
        {
            let key = key.clone();
            return Ok(Some(Stored { key, content }));
        }
        let Some(key) = self.find(id)? else {
            return Ok(None);
        };
        if let Some(content) = self.inner.contents.get(key.encode())? {
            return Ok(Some(Stored { key, content }));
        }
        self.get_in_snapshot(id)
    }

    /// The key under which the content that `id` names is stored.
    pub fn find(&self, id: &Id) -> Result<Option<PpcKey>> {
        let hash = match id {
            Id::Key(key) => ContentHash::Sha1Git(key.hash()),
            Id::Hash(hash) => *hash,
        };
        let index = self.index(hash.kind())?;
        match index.keyspace().get(hash.as_bytes())? {
            Some(value) => index.key(hash.as_bytes(), &value).map(Some),
            None => Ok(None),
        }
    }

    /// Whether the content that `id` names is stored. Reads no content.
    pub fn has(&self, id: &Id) -> Result<bool> {
        let hash = match id {
            Id::Key(key) => ContentHash::Sha1Git(key.hash()),
            Id::Hash(hash) => *hash,
        };
        self.index(hash.kind())?
            .keyspace()
            .contains(hash.as_bytes())
    }

    /// Whether the content with this git blob id is stored.
    pub fn has_sha1_git(&self, hash: Sha1Git) -> Result<bool> {
        self.index(HashKind::Sha1Git)?
            .keyspace()
            .contains(hash.as_bytes())
    }

    /// The contents that `ids` name, in that order, each with its own outcome. Contents that share
    /// a block are read and decoded once.
    #[must_use]
    pub fn get_many(&self, ids: &[Id]) -> Vec<Result<Option<Stored>>> {
        let keys = self.guess_keys(ids);
        let encoded: Vec<Vec<u8>> = keys
            .iter()
            .filter_map(|key| Some(key.as_ref().ok()?.as_ref()?.encode()))
            .collect();
        let mut contents = self.inner.contents.multi_get(&encoded).into_iter();
        let pair = |(id, key): (&Id, Result<Option<PpcKey>>)| {
            let Some(key) = key? else { return Ok(None) };
            match contents.next() {
                Some(Ok(Some(content))) => Ok(Some(Stored { key, content })),
                Some(Err(error)) => Err(error),
                // Stored under another name, or moved in between: the careful path tells.
                Some(Ok(None)) | None => self.get(id),
            }
        };
        ids.iter().zip(keys).map(pair).collect()
    }

    /// For each id the key that names it or to which its hash leads.
    fn guess_keys(&self, ids: &[Id]) -> Vec<Result<Option<PpcKey>>> {
        let mut keys: Vec<Result<Option<PpcKey>>> = ids
            .iter()
            .map(|id| match id {
                Id::Key(key) => Ok(Some(key.clone())),
                Id::Hash(_) => Ok(None),
            })
            .collect();
        for kind in HashKind::ALL {
            let asked: Vec<(usize, &ContentHash)> = ids
                .iter()
                .enumerate()
                .filter_map(|(at, id)| match id {
                    Id::Hash(hash) if hash.kind() == kind => Some((at, hash)),
                    _ => None,
                })
                .collect();
            if asked.is_empty() {
                continue;
            }
            let hashes: Vec<&[u8]> = asked.iter().map(|(_, hash)| hash.as_bytes()).collect();
            let found = match self.index(kind) {
                Ok(index) => index.find_many(&hashes),
                Err(error) => asked.iter().map(|_| Err(error.duplicate())).collect(),
            };
            for ((at, _), key) in asked.into_iter().zip(found) {
                if let Some(slot) = keys.get_mut(at) {
                    *slot = key;
                }
            }
        }
        keys
    }

    /// Looks an id up at one point in time, after index and contents seemed to disagree: a delete
    /// may have come between the two reads. If they still disagree the archive is damaged.
    fn get_in_snapshot(&self, id: &Id) -> Result<Option<Stored>> {
        let hash = match id {
            Id::Key(key) => ContentHash::Sha1Git(key.hash()),
            Id::Hash(hash) => *hash,
        };
        let snapshot = self.inner.db.snapshot()?;
        let index = self.index(hash.kind())?;
        let Some(value) = snapshot.get(index.keyspace(), hash.as_bytes())? else {
            return Ok(None);
        };
        let key = index.key(hash.as_bytes(), &value)?;
        match snapshot.get(&self.inner.contents, key.encode())? {
            Some(content) => Ok(Some(Stored { key, content })),
            None => Err(Error::corruption(format!(
                "the index knows {hash} as {key}, but that content is not there"
            ))
            .in_keyspace(index.kind().name())
            .at_path(&self.inner.path)
            .with_remedy("run `ppc verify` to see the extent of the damage")),
        }
    }

    /// The index of this kind, or an error that says which ones there are.
    pub(super) fn index(&self, kind: HashKind) -> Result<&Index> {
        let mut indexes = self.inner.indexes.iter();
        indexes.find(|index| index.kind() == kind).ok_or_else(|| {
            let names: Vec<&str> = self.indexes().iter().map(HashKind::name).collect();
            Error::invalid_input(format!("the archive has no index by {kind}"))
                .at_path(&self.inner.path)
                .with_remedy(format!("ask by {}", names.join(" or ")))
        })
    }

    /// The keys of the selected contents, in key order. Reads no content.
    pub fn keys(&self, selection: &Selection) -> Result<Keys> {
        let range = selection.key_range()?;
        let iter = self.inner.contents.iter(range, IterOptions::keys_only())?;
        Ok(Keys { iter })
    }

    /// The selected contents, in key order. Each block is decoded once, and none is cached.
    pub fn contents(&self, selection: &Selection) -> Result<Contents> {
        let range = selection.key_range()?;
        let iter = self.inner.contents.iter(range, IterOptions::default())?;
        Ok(Contents { iter })
    }
}

impl Index {
    /// The keys to which `hashes` lead, in that order.
    fn find_many(&self, hashes: &[&[u8]]) -> Vec<Result<Option<PpcKey>>> {
        let values = self.keyspace().multi_get(hashes);
        let decode = |(hash, value): (&&[u8], Result<Option<Bytes>>)| match value? {
            Some(value) => self.key(hash, &value).map(Some),
            None => Ok(None),
        };
        hashes.iter().zip(values).map(decode).collect()
    }
}

/// Keys in order, from either end. Owns what it needs; sees the archive as it was when it began.
pub struct Keys {
    iter: Iter,
}

impl Iterator for Keys {
    type Item = Result<PpcKey>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.iter.next()?;
        Some(entry.and_then(|(key, _)| PpcKey::decode(&key)))
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.iter.next_back()?;
        Some(entry.and_then(|(key, _)| PpcKey::decode(&key)))
    }
}

/// Contents in key order, from either end. Owns what it needs; sees the archive as it was when it
/// began.
pub struct Contents {
    iter: Iter,
}

impl Iterator for Contents {
    type Item = Result<Stored>;

    fn next(&mut self) -> Option<Self::Item> {
        self.iter.next().map(stored)
    }
}

impl DoubleEndedIterator for Contents {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.iter.next_back().map(stored)
    }
}

fn stored(entry: Result<(Bytes, Bytes)>) -> Result<Stored> {
    let (key, content) = entry?;
    let key = PpcKey::decode(&key)?;
    Ok(Stored { key, content })
}
