//! Writing one content at a time. For many, see [`super::ContentLoader`].

use ppc_engine::{Batch, Durability, VALUE_BYTES_MAX};

use super::{Archive, CONTENT_LOCKS, Id};
use crate::hash::{HashKind, HashKinds, Hashes, Sha1Git};
use crate::key::PpcKey;
use crate::{Error, Result};

/// Where a put content is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// Its key; with another name if it was stored already.
    pub key: PpcKey,
    /// Whether it was not stored before.
    pub is_new: bool,
}

/// What a delete removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    /// The key under which the content was stored.
    pub key: PpcKey,
}

impl Archive {
    /// Stores `content` under the file name `name`, with every index entry, in one batch. A
    /// content that is stored already, under whichever name, stays as it is.
    pub fn put(&self, name: &[u8], content: &[u8], durability: Durability) -> Result<Put> {
        check_length(name, content.len())?;
        let hashes = Hashes::of(self.indexes(), content);
        let hash = hashes.sha1_git.unwrap_or_else(|| Sha1Git::of(content));
        let key = PpcKey::new(name.to_vec(), hash)?;

        let _alone = self.content_lock(hash).lock();
        if let Some(key) = self.find(&hash.into())? {
            return Ok(Put { key, is_new: false });
        }
        let encoded = key.encode();
        let mut batch = Batch::new();
        batch.put(&self.inner.contents, &encoded, content);
        for index in &self.inner.indexes {
            if let Some((hash, value)) = index.entry(&hashes, &encoded) {
                batch.put(index.keyspace(), &hash, value);
            }
        }
        self.inner.db.write(batch, durability)?;
        Ok(Put { key, is_new: true })
    }

    /// Deletes the content that `id` names, with every index entry, in one batch; none if it is
    /// not stored. Its bytes are gone from the disk once compaction has rewritten their table.
    pub fn delete(&self, id: &Id, durability: Durability) -> Result<Option<Deleted>> {
        let Some(found) = self.find(id)? else {
            return Ok(None);
        };
        let _alone = self.content_lock(found.hash()).lock();
        let Some(key) = self.find(&found.hash().into())? else {
            return Ok(None);
        };
        let hashes = self.hashes_of(&key)?;
        let encoded = key.encode();
        let mut batch = Batch::new();
        batch.delete(&self.inner.contents, &encoded);
        for index in &self.inner.indexes {
            if let Some((hash, _)) = index.entry(&hashes, &encoded) {
                batch.delete(index.keyspace(), &hash);
            }
        }
        self.inner.db.write(batch, durability)?;
        Ok(Some(Deleted { key }))
    }

    /// Every indexed hash of a stored content. The key has the first; the others, if any, are
    /// computed.
    fn hashes_of(&self, key: &PpcKey) -> Result<Hashes> {
        let known = Hashes {
            sha1_git: Some(key.hash()),
            ..Hashes::default()
        };
        if self.indexes() == HashKinds::NONE.with(HashKind::Sha1Git) {
            return Ok(known);
        }
        let content = self.inner.contents.get(key.encode())?;
        let computed = content.map(|content| Hashes::of(self.indexes(), &content));
        Ok(Hashes {
            sha1_git: known.sha1_git,
            ..computed.unwrap_or_default()
        })
    }

    fn content_lock(&self, hash: Sha1Git) -> &parking_lot::Mutex<()> {
        let [first, ..] = *hash.as_bytes();
        &self.inner.content_locks[usize::from(first) % CONTENT_LOCKS]
    }
}

/// Refuses contents longer than the engine takes, by name.
pub(crate) fn check_length(name: &[u8], content_bytes: usize) -> Result<()> {
    if content_bytes <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(Error::limit(format!(
        "the content of {} has {content_bytes} bytes; the longest that can be stored has \
         {VALUE_BYTES_MAX}",
        crate::text::quote(name)
    )))
}
