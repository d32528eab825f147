//! zstd dictionaries: trained on a table's own values, digested once per use and level.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use zstd::zstd_safe::{CDict, DDict};

use crate::error::{Error, Result};

/// What zstd's trainer reads at once.
const LEARNED_BYTES_MIN: usize = 8;

/// A dictionary and its digests, made when first needed.
pub(crate) struct Dictionary {
    bytes: Vec<u8>,
    id: u64,
    compression: OnceLock<(i32, CDict<'static>)>,
    decompression: OnceLock<DDict<'static>>,
    /// Held while a digest is made, so that threads that need it together make it once.
    digesting: Mutex<()>,
}

impl Dictionary {
    /// Takes a trained dictionary's bytes.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        Self {
            bytes,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            compression: OnceLock::new(),
            decompression: OnceLock::new(),
            digesting: Mutex::new(()),
        }
    }

    /// The bytes, as a table stores them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Tells dictionaries of this process apart; never 0.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The digest for compression at `level`; a dictionary serves one level in its life.
    pub(super) fn compression(&self, level: i32) -> Result<&CDict<'static>> {
        if self.compression.get().is_none() {
            let _digesting = self.digesting.lock();
            if self.compression.get().is_none() {
                let digest = CDict::try_create(&self.bytes, level)
                    .ok_or_else(|| Error::limit("no memory for a compression dictionary"))?;
                self.compression.get_or_init(|| (level, digest));
            }
        }
        let (of, digest) = self
            .compression
            .get()
            .ok_or_else(|| Error::limit("no compression dictionary"))?;
        if *of == level {
            return Ok(digest);
        }
        Err(Error::invalid_input(format!(
            "dictionary digested for level {of} used at level {level}"
        )))
    }

    /// The digest for decompression.
    pub(super) fn decompression(&self) -> Result<&DDict<'static>> {
        if let Some(digest) = self.decompression.get() {
            return Ok(digest);
        }
        let _digesting = self.digesting.lock();
        if let Some(digest) = self.decompression.get() {
            return Ok(digest);
        }
        let digest = DDict::try_create(&self.bytes)
            .ok_or_else(|| Error::corruption("dictionary does not load"))?;
        Ok(self.decompression.get_or_init(|| digest))
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dictionary({} bytes)", self.bytes.len())
    }
}

/// Like [`train`], without a search for the best parameters: seven times as fast, and as good on
/// samples of source code.
pub(crate) fn train_once(
    samples: &[u8],
    lengths: &[usize],
    bytes_max: usize,
) -> Option<Dictionary> {
    use zstd::zstd_safe::zstd_sys::{
        ZDICT_fastCover_params_t, ZDICT_isError, ZDICT_params_t, ZDICT_trainFromBuffer_fastCover,
    };
    /// Bytes that are taken from one place, and those that are compared.
    const SEGMENT_BYTES: u32 = 1000;
    const COMPARED_BYTES: u32 = 8;
    let bytes_max_u32 = u32::try_from(bytes_max).unwrap_or(u32::MAX);
    let parameters = ZDICT_fastCover_params_t {
        k: SEGMENT_BYTES.min(bytes_max_u32 / 4).max(COMPARED_BYTES),
        d: COMPARED_BYTES,
        f: 20,
        steps: 1,
        nbThreads: 1,
        splitPoint: 1.0,
        accel: 4,
        shrinkDict: 0,
        shrinkDictMaxRegression: 0,
        zParams: ZDICT_params_t {
            compressionLevel: 3,
            notificationLevel: 0,
            dictID: 0,
        },
    };
    let count = u32::try_from(lengths.len()).ok()?;
    let total = lengths
        .iter()
        .try_fold(0_usize, |sum, len| sum.checked_add(*len));
    if total != Some(samples.len()) || samples.len() < LEARNED_BYTES_MIN {
        return None;
    }
    let mut bytes = vec![0; bytes_max];
    // SAFETY: the buffers live through the call and have the lengths that are given for them; the
    // samples' lengths add up to the samples'.
    let len = unsafe {
        ZDICT_trainFromBuffer_fastCover(
            bytes.as_mut_ptr().cast(),
            bytes.len(),
            samples.as_ptr().cast(),
            lengths.as_ptr(),
            count,
            parameters,
        )
    };
    // SAFETY: any number may be asked about.
    if unsafe { ZDICT_isError(len) } != 0 || len == 0 {
        return None;
    }
    bytes.truncate(len);
    Some(Dictionary::new(bytes))
}

/// Trains a dictionary of at most `bytes_max` bytes on `samples`, which lie one after another with
/// these lengths; none if they are too few or too uniform to train on.
pub(crate) fn train(samples: &[u8], lengths: &[usize], bytes_max: usize) -> Option<Dictionary> {
    // zstd learns from the first three quarters of the samples and tests on the others. It checks
    // that all of them together have enough bytes, but reads past the end of its input if the
    // first part has fewer than these.
    let learned = lengths.get(..lengths.len() * 3 / 4)?;
    if learned.iter().sum::<usize>() < LEARNED_BYTES_MIN {
        return None;
    }
    let bytes = zstd::dict::from_continuous(samples, lengths, bytes_max).ok()?;
    (!bytes.is_empty()).then(|| Dictionary::new(bytes))
}
