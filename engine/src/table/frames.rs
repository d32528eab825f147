//! Raw frames in, stored frames out to the file, in order: the ring between a layout and a table's
//! value area.
//!
//! Frames are compressed by the shared pool, several at a time; results are written in the order
//! of their ordinals, so the file's bytes do not depend on the number of threads. The ring is
//! bounded by bytes: beyond them the caller takes the oldest result first, compressing it himself
//! if no thread has begun.
//!
//! With a dictionary wanted for blocks, frames are held back, as many as memory allows of a table; then
//! it is trained on samples from all over them, and they are compressed with it. Samples from where a
//! table begins would not do: its keys come in order, and what they begin with need not be like what
//! follows. The clustered layout trains its own. It is written before the first frame, where a file
//! cut short still has it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::census::FrameNote;
use super::layout::{FrameSink, RawFrame};
use super::output::Output;
use super::unit::{BASE_ORDINAL_BYTES, UnitCodec, UnitKind};
use crate::codec::{CompressionPool, Dictionary, EncodedFrame, FrameCodec, Job, train};
use crate::error::{Error, Result};
use crate::options::{Compression, Layout, TableOptions};

/// Raw bytes that may be on their way for each thread: as much as a frame takes, within these bounds.
/// A longer frame goes alone.
const IN_FLIGHT_BYTES_PER_THREAD: std::ops::RangeInclusive<usize> = 1 << 20..=8 << 20;

/// Bytes of samples for each byte of dictionary.
const SAMPLE_FACTOR: usize = 100;

/// Raw bytes of frames held back for a dictionary, unless the samples alone take more.
const HELD_BYTES: usize = 64 << 20;

/// Longest sample: the trainer looks for what many samples share, which one huge value is not.
const SAMPLE_BYTES_MAX: usize = 128 << 10;

/// The ring and what it has written.
pub(crate) struct FrameWriter {
    output: Output,
    pool: Arc<CompressionPool>,
    codec: Arc<FrameCodec>,
    sampling: Option<Sampling>,
    ring: Ring,
    pushed: u32,
    starts: Vec<u64>,
    raw_frames: u64,
    follower_frames: u64,
    notes: Vec<FrameNote>,
    dictionary_section: Option<std::ops::Range<u64>>,
}

#[derive(Default)]
struct Sampling {
    held: Vec<RawFrame>,
    bytes: usize,
    /// At which there is no more waiting.
    bytes_max: usize,
    dictionary_bytes: usize,
}

/// A frame that another table stored.
pub(crate) struct StoredFrame<'a> {
    pub(crate) codec: UnitCodec,
    pub(crate) raw_len: u32,
    /// The ordinal of its base in this table.
    pub(crate) base: Option<u32>,
    pub(crate) compressed: &'a [u8],
}

/// Frames on their way, oldest first, with their raw lengths.
#[derive(Default)]
struct Ring {
    jobs: VecDeque<(Arc<Job>, usize)>,
    bytes: usize,
}

impl Ring {
    fn push(&mut self, job: Arc<Job>, len: usize) {
        self.jobs.push_back((job, len));
        self.bytes += len;
    }

    fn pop(&mut self) -> Option<Arc<Job>> {
        let (job, len) = self.jobs.pop_front()?;
        self.bytes -= len;
        Some(job)
    }

    fn oldest_is_done(&self) -> bool {
        self.jobs.front().is_some_and(|(job, _)| job.is_done())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // A writer that was given up must not keep the pool busy.
        for (job, _) in &self.jobs {
            job.abandon();
        }
    }
}

/// What the value area came to.
pub(crate) struct ValueArea {
    pub(crate) output: Output,
    /// Where each frame starts.
    pub(crate) starts: Vec<u64>,
    pub(crate) raw_frames: u64,
    pub(crate) follower_frames: u64,
    /// What each frame is.
    pub(super) notes: Vec<FrameNote>,
    pub(crate) dictionary_section: Option<std::ops::Range<u64>>,
    pub(crate) dictionary_bytes: u64,
}

impl FrameWriter {
    pub(crate) fn new(output: Output, options: &TableOptions, pool: &Arc<CompressionPool>) -> Self {
        let wants_dictionary = options.dictionary_bytes > 0
            && options.compression != Compression::None
            && matches!(options.layout, Layout::Blocks { .. });
        Self {
            output,
            pool: Arc::clone(pool),
            codec: Arc::new(FrameCodec::new(options)),
            sampling: wants_dictionary.then(|| Sampling {
                dictionary_bytes: options.dictionary_bytes as usize,
                bytes_max: HELD_BYTES,
                ..Sampling::default()
            }),
            ring: Ring::default(),
            pushed: 0,
            starts: Vec::new(),
            raw_frames: 0,
            follower_frames: 0,
            notes: Vec::new(),
            dictionary_section: None,
        }
    }

    /// The file, for its id, path and offset.
    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    /// Holds back about this many bytes of frames for a dictionary, instead of [`HELD_BYTES`].
    pub(crate) fn hold_for_dictionary(&mut self, bytes: usize) {
        if let Some(sampling) = &mut self.sampling {
            sampling.bytes_max = bytes;
        }
    }

    /// Bytes held.
    pub(crate) fn memory_bytes(&self) -> usize {
        let sampled = self.sampling.as_ref().map_or(0, |sampling| sampling.bytes);
        self.ring.bytes
            + sampled
            + self.starts.capacity() * 8
            + self.notes.capacity() * size_of::<FrameNote>()
    }

    /// Takes the next frame as another table stored it, and returns its ordinal. Its base, if it has
    /// one, was taken before; if it needs a dictionary, it is the one this table has.
    pub(crate) fn push_stored(&mut self, frame: StoredFrame<'_>) -> Result<u32> {
        let ordinal = self.next_ordinal()?;
        let frame = EncodedFrame {
            codec: frame.codec,
            stored: with_base_named(frame.base, frame.compressed).into(),
            raw_len: frame.raw_len,
        };
        if self.ring.jobs.is_empty() {
            self.write(&frame)?;
        } else {
            let len = frame.stored.len();
            self.ring.push(Job::done(frame), len);
        }
        Ok(ordinal)
    }

    fn next_ordinal(&mut self) -> Result<u32> {
        let ordinal = self.pushed;
        self.pushed = ordinal
            .checked_add(1)
            .ok_or_else(|| Error::limit("table exceeds 2^32 frames"))?;
        Ok(ordinal)
    }

    fn submit(&mut self, frame: RawFrame) -> Result<()> {
        // Its followers share a base, but nobody else may hold it any more.
        let base_len = frame.base.as_ref().map_or(0, |base| base.bytes.len());
        let len = frame.bytes.len() + base_len;
        let (least, most) = IN_FLIGHT_BYTES_PER_THREAD.into_inner();
        let budget = self.pool.threads() * len.clamp(least, most);
        while !self.ring.jobs.is_empty() && self.ring.bytes + len > budget {
            self.write_oldest()?;
        }
        let codec = Arc::clone(&self.codec);
        let job = self.pool.submit(move || match &frame.base {
            Some(base) => codec.encode_follower(frame.bytes, base),
            None => codec.encode(frame.bytes),
        });
        self.ring.push(job, len);
        while self.ring.oldest_is_done() {
            self.write_oldest()?;
        }
        Ok(())
    }

    fn write_oldest(&mut self) -> Result<()> {
        let Some(job) = self.ring.pop() else {
            return Ok(());
        };
        // While another thread is at the oldest frame, work on the next one no thread has begun.
        if !job.run() && !job.is_done() {
            let _ = self.ring.jobs.iter().any(|(job, _)| job.run());
        }
        let frame = job
            .take()
            .map_err(|error| error.at_path(self.output.path()))?;
        self.write(&frame)
    }

    fn write(&mut self, frame: &EncodedFrame) -> Result<()> {
        let ordinal = self.starts.len() as u32;
        let start = self.output.unit(
            UnitKind::Frame,
            frame.codec,
            ordinal,
            frame.raw_len,
            &frame.stored,
        )?;
        self.starts.push(start);
        self.raw_frames += u64::from(frame.codec == UnitCodec::Raw);
        self.follower_frames += u64::from(frame.codec == UnitCodec::ZstdBase);
        let base = frame.stored.first_chunk::<BASE_ORDINAL_BYTES>();
        let base = base.filter(|_| frame.codec == UnitCodec::ZstdBase);
        self.notes.push(FrameNote {
            raw_len: frame.raw_len,
            codec: frame.codec,
            base: base.map(|base| u32::from_le_bytes(*base)),
        });
        Ok(())
    }

    /// Trains and writes the dictionary, then compresses what was held back for it.
    fn end_sampling(&mut self) -> Result<()> {
        let Some(sampling) = self.sampling.take() else {
            return Ok(());
        };
        if let Some(dictionary) = sampling.train() {
            self.set_dictionary(dictionary)?;
        }
        for frame in sampling.held {
            self.submit(frame)?;
        }
        Ok(())
    }

    /// Writes everything that is still on its way.
    pub(crate) fn finish(mut self) -> Result<ValueArea> {
        self.end_sampling()?;
        while !self.ring.jobs.is_empty() {
            self.write_oldest()?;
        }
        let dictionary = self.codec.dictionary.as_ref();
        Ok(ValueArea {
            output: self.output,
            starts: self.starts,
            raw_frames: self.raw_frames,
            follower_frames: self.follower_frames,
            notes: self.notes,
            dictionary_section: self.dictionary_section,
            dictionary_bytes: dictionary.map_or(0, |dictionary| dictionary.bytes().len() as u64),
        })
    }
}

/// Stored bytes of a frame that names `base`, if it has one.
fn with_base_named(base: Option<u32>, compressed: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(BASE_ORDINAL_BYTES + compressed.len());
    if let Some(base) = base {
        stored.extend_from_slice(&base.to_le_bytes());
    }
    stored.extend_from_slice(compressed);
    stored
}

impl FrameSink for FrameWriter {
    fn push(&mut self, frame: RawFrame) -> Result<u32> {
        let ordinal = self.next_ordinal()?;
        match &mut self.sampling {
            Some(sampling) => {
                sampling.bytes += frame.bytes.len();
                sampling.held.push(frame);
                if sampling.bytes >= sampling.bytes_max.max(sampling.sample_bytes_max()) {
                    self.end_sampling()?;
                }
            }
            None => self.submit(frame)?,
        }
        Ok(ordinal)
    }

    fn set_dictionary(&mut self, dictionary: Dictionary) -> Result<()> {
        self.dictionary_section = Some(
            self.output
                .section(UnitKind::Dictionary, dictionary.bytes())?,
        );
        self.codec = Arc::new(FrameCodec {
            dictionary: Some(Arc::new(dictionary)),
            ..FrameCodec::clone(&self.codec)
        });
        Ok(())
    }
}

impl Sampling {
    fn sample_bytes_max(&self) -> usize {
        SAMPLE_FACTOR * self.dictionary_bytes
    }

    fn train(&self) -> Option<Dictionary> {
        // The trainer learns from the first three quarters of what it gets, and tests on the rest:
        // both should come from everywhere.
        let (mut learned, mut tested) = (Vec::new(), Vec::new());
        for (at, sample) in self.spread().into_iter().enumerate() {
            match at % 4 {
                3 => tested.push(sample),
                _ => learned.push(sample),
            }
        }
        learned.append(&mut tested);
        let lengths: Vec<usize> = learned.iter().map(|sample| sample.len()).collect();
        train(&learned.concat(), &lengths, self.dictionary_bytes)
    }

    /// Beginnings of values, spread evenly over the bytes held.
    fn spread(&self) -> Vec<&[u8]> {
        let wanted = self.sample_bytes_max() as u128;
        let (mut met, mut taken) = (0, 0);
        let mut samples = Vec::new();
        for frame in &self.held {
            let mut rest: &[u8] = &frame.bytes;
            for &len in &frame.value_lens {
                let Some((value, after)) = rest.split_at_checked(len as usize) else {
                    break;
                };
                rest = after;
                met += value.len() as u128;
                // As much of what was met as of the whole.
                if taken * self.bytes as u128 >= met * wanted {
                    continue;
                }
                let sample = value.get(..SAMPLE_BYTES_MAX).unwrap_or(value);
                taken += sample.len() as u128;
                samples.push(sample);
            }
        }
        samples
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn samples_come_from_everywhere_and_are_as_many_as_wanted() {
        // They all came from the first hundredfold of the dictionary's bytes.
        let sampling = |frames: u32, dictionary_bytes| {
            let held = (0..frames).map(|at| RawFrame {
                bytes: Bytes::from(vec![at as u8; 3000]),
                value_lens: vec![1000, 2000],
                base: None,
            });
            Sampling {
                held: held.collect(),
                bytes: frames as usize * 3000,
                bytes_max: usize::MAX,
                dictionary_bytes,
            }
        };
        let many = sampling(200, 600);
        let samples = many.spread();
        let bytes: usize = samples.iter().map(|sample| sample.len()).sum();
        assert!((60_000..62_000).contains(&bytes), "{bytes}");
        let tenths: std::collections::BTreeSet<u8> =
            samples.iter().map(|sample| sample[0] / 20).collect();
        assert_eq!(tenths.len(), 10);
        // Where there are too few, all are samples.
        assert_eq!(sampling(10, 600).spread().len(), 20);
        assert!(sampling(0, 600).spread().is_empty());
    }
}
