//! Several hashes of one content in one pass.

use sha1::Digest;

use super::{Blake2s256, ContentHash, HashKind, Sha1, Sha1Git, Sha256};

/// Bytes given to each hasher in turn: small enough to stay in the first-level cache between them.
const PASS_BYTES: usize = 16 * 1024;

/// A set of hash kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HashKinds(u8);

impl HashKinds {
    /// No kind.
    pub const NONE: Self = Self(0);
    /// Every kind.
    pub const ALL: Self = Self(0b1111);

    /// The set with `kind` added.
    #[must_use]
    pub const fn with(self, kind: HashKind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// Whether `kind` is in the set.
    #[must_use]
    pub const fn contains(self, kind: HashKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// Whether the set holds nothing.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The kinds in the set, in the order of [`HashKind::ALL`].
    pub fn iter(self) -> impl Iterator<Item = HashKind> {
        HashKind::ALL
            .into_iter()
            .filter(move |kind| self.contains(*kind))
    }
}

impl FromIterator<HashKind> for HashKinds {
    fn from_iter<I: IntoIterator<Item = HashKind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::NONE, Self::with)
    }
}

/// The hashes of one content that were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hashes {
    /// The git blob id.
    pub sha1_git: Option<Sha1Git>,
    /// SHA-1 of the content alone.
    pub sha1: Option<Sha1>,
    /// SHA-256.
    pub sha256: Option<Sha256>,
    /// BLAKE2s, 32 bytes.
    pub blake2s256: Option<Blake2s256>,
}

impl Hashes {
    /// Computes `kinds` over `content`, reading it once.
    #[must_use]
    pub fn of(kinds: HashKinds, content: &[u8]) -> Self {
        let mut sha1_git = kinds
            .contains(HashKind::Sha1Git)
            .then(|| blob_hasher(content.len()));
        let mut sha1 = kinds.contains(HashKind::Sha1).then(sha1::Sha1::new);
        let mut sha256 = kinds.contains(HashKind::Sha256).then(sha2::Sha256::new);
        let mut blake2s256 = kinds
            .contains(HashKind::Blake2s256)
            .then(blake2::Blake2s256::new);
        for part in content.chunks(PASS_BYTES) {
            if let Some(hasher) = &mut sha1_git {
                hasher.update(part);
            }
            if let Some(hasher) = &mut sha1 {
                hasher.update(part);
            }
            if let Some(hasher) = &mut sha256 {
                hasher.update(part);
            }
            if let Some(hasher) = &mut blake2s256 {
                hasher.update(part);
            }
        }
        Self {
            sha1_git: sha1_git.map(|hasher| Sha1Git(hasher.finalize().into())),
            sha1: sha1.map(|hasher| Sha1(hasher.finalize().into())),
            sha256: sha256.map(|hasher| Sha256(hasher.finalize().into())),
            blake2s256: blake2s256.map(|hasher| Blake2s256(hasher.finalize().into())),
        }
    }

    /// The hash of this kind, if it was asked for.
    #[must_use]
    pub fn get(&self, kind: HashKind) -> Option<ContentHash> {
        match kind {
            HashKind::Sha1Git => self.sha1_git.map(ContentHash::Sha1Git),
            HashKind::Sha1 => self.sha1.map(ContentHash::Sha1),
            HashKind::Sha256 => self.sha256.map(ContentHash::Sha256),
            HashKind::Blake2s256 => self.blake2s256.map(ContentHash::Blake2s256),
        }
    }
}

/// A hasher that has taken in git's header of a blob of this length.
pub(super) fn blob_hasher(content_bytes: usize) -> sha1::Sha1 {
    sha1::Sha1::new_with_prefix(format!("blob {content_bytes}\0"))
}
