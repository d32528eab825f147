//! A limit: every value compressed alone by zstd and kept in memory, found by its ordinal. What
//! decoding itself costs, and what compression without neighbours comes to.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use ppc_store::{Error, ErrorKind, Result};
use zstd::bulk::{Compressor, Decompressor};

use super::{Built, Codec, Input, Peer, Reader, Resources, Store, StoreSpec, Wanted};
use crate::corpus::Corpus;
use crate::results::Load;

const FRAMES: &str = "frames";
/// Lengths of the frames, 4 bytes each: the limit's stand-in for an index, not counted as stored.
const LENGTHS: &str = "lengths";

/// Values that one thread takes at a time.
const CHUNK: usize = 256;

/// Values compressed alone.
pub(super) struct RawZstd;

fn failed(action: &str, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Failed, format!("zstd cannot {action}")).with_source(error)
}

/// Compresses a chunk of values; all frames, and the length of each.
fn compress(corpus: &Corpus, ordinals: Range<usize>, level: i32) -> Result<(Vec<u8>, Vec<u32>)> {
    let mut compressor = Compressor::new(level).map_err(|error| failed("begin", error))?;
    compressor
        .include_magicbytes(false)
        .map_err(|error| failed("begin", error))?;
    let (mut frames, mut lengths) = (Vec::new(), Vec::new());
    for ordinal in ordinals {
        let frame = compressor.compress(corpus.value(ordinal));
        let frame = frame.map_err(|error| failed("compress", error))?;
        lengths.push(u32::try_from(frame.len()).map_err(|_| Error::limit("frame over 4 GiB"))?);
        frames.extend_from_slice(&frame);
    }
    Ok((frames, lengths))
}

/// Compresses everything on `threads` threads, in order.
fn compress_all(corpus: &Corpus, level: i32, threads: usize) -> Result<(Vec<u8>, Vec<u32>)> {
    let (mut frames, mut lengths) = (Vec::new(), Vec::with_capacity(corpus.len()));
    let starts: Vec<usize> = (0..corpus.len()).step_by(CHUNK).collect();
    for round in starts.chunks(threads) {
        let chunks: Vec<Result<_>> = std::thread::scope(|scope| {
            let work = |start: usize| start..(start + CHUNK).min(corpus.len());
            let threads: Vec<_> = round
                .iter()
                .map(|&start| scope.spawn(move || compress(corpus, work(start), level)))
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<_>>| {
                let died = |_| Err(Error::new(ErrorKind::Failed, "a compressing thread died"));
                thread.join().unwrap_or_else(died)
            };
            threads.into_iter().map(join).collect()
        });
        for chunk in chunks {
            let (more_frames, more_lengths) = chunk?;
            frames.extend_from_slice(&more_frames);
            lengths.extend(more_lengths);
        }
    }
    Ok((frames, lengths))
}

impl Peer for RawZstd {
    fn name(&self) -> &'static str {
        "raw-zstd"
    }

    fn lacks(&self) -> &'static str {
        "a limit, not a store: in memory, no index, no checksums, no updates"
    }

    fn supports(&self, spec: &StoreSpec) -> bool {
        matches!(spec.codec, Codec::Zstd(_))
            && spec.load == Load::Sorted
            && spec.dictionary_bytes == 0
    }

    fn options(&self, _spec: &StoreSpec, resources: &Resources) -> BTreeMap<String, String> {
        let threads = resources.threads.to_string();
        BTreeMap::from([("compression_threads".into(), threads)])
    }

    fn build(
        &self,
        spec: &StoreSpec,
        input: Input<'_>,
        resources: &Resources,
        dir: &Path,
    ) -> Result<Built> {
        let Codec::Zstd(level) = spec.codec else {
            return Err(Error::invalid_input("raw-zstd compresses by zstd only"));
        };
        let (frames, lengths) = compress_all(input.corpus, level, resources.threads)?;
        let lengths: Vec<u8> = lengths.iter().flat_map(|len| len.to_le_bytes()).collect();
        for (name, bytes) in [(FRAMES, &frames), (LENGTHS, &lengths)] {
            let path = dir.join(name);
            fs::write(&path, bytes).map_err(|error| Error::io("write", &path, error))?;
        }
        Ok(Built {
            written_bytes: Some(frames.len() as u64),
        })
    }

    fn open<'a>(
        &self,
        _spec: &StoreSpec,
        corpus: &'a Corpus,
        _resources: &Resources,
        dir: &Path,
    ) -> Result<Box<dyn Store + 'a>> {
        let read = |name: &str| {
            let path = dir.join(name);
            fs::read(&path).map_err(|error| Error::io("read", &path, error))
        };
        let (frames, lengths) = (read(FRAMES)?, read(LENGTHS)?);
        let mut starts = vec![0];
        let mut end = 0;
        for length in lengths.as_chunks::<4>().0 {
            end += u32::from_le_bytes(*length) as usize;
            starts.push(end);
        }
        if starts.len() != corpus.len() + 1 || end != frames.len() {
            return Err(Error::corruption("frames are not those of this corpus").at_path(dir));
        }
        Ok(Box::new(Open {
            corpus,
            frames,
            starts,
        }))
    }

    fn stored_bytes(&self, _corpus: &Corpus, dir: &Path) -> Result<u64> {
        let path = dir.join(FRAMES);
        let metadata = fs::metadata(&path).map_err(|error| Error::io("inspect", &path, error))?;
        Ok(metadata.len())
    }

    fn is_limit(&self) -> bool {
        true
    }

    fn can_update(&self) -> bool {
        false
    }
}

struct Open<'a> {
    /// For the lengths of values, and the keys of a scan.
    corpus: &'a Corpus,
    frames: Vec<u8>,
    /// Where each frame starts, and the end of the last.
    starts: Vec<usize>,
}

impl Store for Open<'_> {
    fn reader(&self) -> Box<dyn Reader + '_> {
        Box::new(FrameReader {
            store: self,
            decompressor: None,
            value: Vec::new(),
        })
    }
}

struct FrameReader<'a> {
    store: &'a Open<'a>,
    decompressor: Option<Decompressor<'static>>,
    value: Vec<u8>,
}

impl FrameReader<'_> {
    fn decode(&mut self, ordinal: usize) -> Result<()> {
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => {
                let mut made = Decompressor::new().map_err(|error| failed("begin", error))?;
                made.include_magicbytes(false)
                    .map_err(|error| failed("begin", error))?;
                none.insert(made)
            }
        };
        let bounds = self.store.starts.get(ordinal..ordinal.saturating_add(2));
        let Some(&[start, end]) = bounds else {
            return Err(Error::invalid_input(
                "raw-zstd finds values only by ordinal",
            ));
        };
        let frame = self.store.frames.get(start..end).unwrap_or_default();
        self.value.clear();
        self.value.reserve(self.store.corpus.value(ordinal).len());
        decompressor
            .decompress_to_buffer(frame, &mut self.value)
            .map_err(|error| failed("decompress", error))?;
        Ok(())
    }
}

impl Reader for FrameReader<'_> {
    fn get(&mut self, wanted: Wanted<'_>, found: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.decode(wanted.ordinal as usize)?;
        found(&self.value);
        Ok(())
    }

    fn scan(&mut self, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        for ordinal in 0..self.store.corpus.len() {
            self.decode(ordinal)?;
            found(self.store.corpus.key(ordinal), &self.value);
        }
        Ok(())
    }
}
