//! Decompression with the thread's own zstd context, and the thread's scratch buffers.
//!
//! Where a frame's base lies right before the memory that the frame is decoded to, zstd takes both
//! for one stretch and is faster than with a base elsewhere; so readers decode one behind the
//! other. Nothing is zeroed that zstd writes.

use std::cell::RefCell;

use zstd::zstd_safe::{
    self, DCtx, DParameter, ErrorCode, FrameFormat, InBuffer, OutBuffer, ResetDirective,
};

use super::dictionary::Dictionary;
use super::room::{Room, fill_behind};
use super::zstd::{failure, out_of_memory};
use crate::error::{Error, Result};

/// A scratch buffer that grew beyond this is given back after use: one huge value must not stay
/// charged to every thread that ever read one.
const SCRATCH_BYTES_KEPT: usize = 4 << 20;

/// Longest block inside a zstd frame: what streaming decodes at a time.
const ZSTD_BLOCK_BYTES_MAX: usize = 128 << 10;

/// Dictionaries that a thread used last and may still be in its core's cache: 110 KiB each.
const WARM_DICTIONARIES: usize = 8;

/// What a zstd dictionary begins with.
const DICTIONARY_MAGIC: [u8; 4] = 0xec30_a437_u32.to_le_bytes();

/// A zstd frame, without magic, of no bytes: one segment of length 0, and a last raw block.
const EMPTY_FRAME: [u8; 5] = [0x20, 0, 1, 0, 0];

thread_local! {
    static DECODER: RefCell<Option<Decoder>> = const { RefCell::new(None) };
    /// As many buffers as were ever lent at once: for stored and for raw bytes.
    static SCRATCH: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

struct Decoder {
    context: DCtx<'static>,
    /// The dictionary of the call before, if that had one.
    dictionary: Option<u64>,
    /// Those used last, in no order; `warm_next` is replaced next.
    warm: [u64; WARM_DICTIONARIES],
    warm_next: usize,
}

impl Decoder {
    fn new() -> Result<Self> {
        let mut context = DCtx::try_create().ok_or_else(out_of_memory)?;
        context
            .set_parameter(DParameter::Format(FrameFormat::Magicless))
            .and_then(|_| context.set_parameter(DParameter::StableOutBuffer(true)))
            .map_err(|code| failure("set up decompression", code))?;
        Ok(Self {
            context,
            dictionary: None,
            warm: [0; WARM_DICTIONARIES],
            warm_next: 0,
        })
    }

    /// zstd takes a dictionary other than the call before had for one that is not in the processor's
    /// cache, and decodes with a slower routine that fetches ahead. Half of all gets from a clustered
    /// table alternate between the dictionary and a base; so a frame of no bytes comes between.
    fn use_dictionary(&mut self, dictionary: &Dictionary) -> Result<()> {
        let id = dictionary.id();
        if self.dictionary == Some(id) {
            return Ok(());
        }
        if self.warm.contains(&id) {
            let digest = dictionary.decompression()?;
            let mut nothing: [u8; 0] = [];
            self.context
                .decompress_using_ddict(&mut nothing[..], &EMPTY_FRAME, digest)
                .map_err(|code| failure("begin with a dictionary", code))?;
        } else if let Some(slot) = self.warm.get_mut(self.warm_next) {
            *slot = id;
            self.warm_next = (self.warm_next + 1) % WARM_DICTIONARIES;
        }
        self.dictionary = Some(id);
        Ok(())
    }
}

fn with_decoder<T>(run: impl FnOnce(&mut Decoder) -> Result<T>) -> Result<T> {
    DECODER.with_borrow_mut(|slot| match slot {
        Some(decoder) => run(decoder),
        None => run(slot.insert(Decoder::new()?)),
    })
}

/// What a frame is decoded with the help of: what it was compressed with the help of.
#[derive(Clone, Copy)]
pub(crate) enum Prefix<'a> {
    /// Nothing.
    None,
    /// The table's dictionary.
    Dictionary(&'a Dictionary),
    /// The raw bytes of its base, which the output holds from this position to its end.
    Behind(usize),
    /// The raw bytes of its base.
    Elsewhere(&'a [u8]),
}

/// Decodes a whole frame of `raw_len` raw bytes behind what `out` holds. The caller has bounded
/// `raw_len` (see `UnitHeader::check_lengths`). After an error `out` holds what it did before.
pub(crate) fn decode_onto(
    stored: &[u8],
    raw_len: usize,
    prefix: Prefix<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let held_len = out.len();
    fill_behind(out, raw_len, |held, room| {
        with_decoder(|decoder| match prefix {
            Prefix::None => {
                decoder.dictionary = None;
                outcome(decoder.context.decompress(room, stored), raw_len)
            }
            Prefix::Dictionary(dictionary) => {
                decoder.use_dictionary(dictionary)?;
                let digest = dictionary.decompression()?;
                let decoded = decoder.context.decompress_using_ddict(room, stored, digest);
                outcome(decoded, raw_len)
            }
            Prefix::Behind(start) => {
                let base = held.get(start..).unwrap_or_default();
                decode_follower(decoder, stored, base, raw_len, room)
            }
            Prefix::Elsewhere(base) => decode_follower(decoder, stored, base, raw_len, room),
        })
    })?;
    let decoded = out.len() - held_len;
    if decoded == raw_len {
        return Ok(());
    }
    out.truncate(held_len);
    Err(Error::corruption(format!(
        "frame decodes to {decoded} bytes where {raw_len} were stored"
    )))
}

fn outcome(decoded: Result<usize, ErrorCode>, raw_len: usize) -> Result<()> {
    decoded.map(drop).map_err(|code| corrupt(code, raw_len))
}

fn decode_follower(
    decoder: &mut Decoder,
    stored: &[u8],
    base: &[u8],
    raw_len: usize,
    room: &mut Room<'_>,
) -> Result<()> {
    decoder.dictionary = None;
    let context = &mut decoder.context;
    if !base.starts_with(&DICTIONARY_MAGIC) {
        return outcome(context.decompress_using_dict(room, stored, base), raw_len);
    }
    // The call above would take a base that looks like a dictionary for one. This takes it for a
    // prefix, but digests it each time.
    // SAFETY: the context holds the prefix for the next call only, or until another is set; both
    // come to pass below, while `base` is borrowed.
    let base = unsafe { std::mem::transmute::<&[u8], &'static [u8]>(base) };
    let decoded = context
        .ref_prefix(base)
        .and_then(|_| context.decompress(room, stored));
    context
        .reset(ResetDirective::SessionOnly)
        .and_then(|_| context.ref_prefix(&[]))
        .map_err(|code| failure("reset decompression", code))?;
    outcome(decoded, raw_len)
}

/// Decodes a whole frame without a base into `out`, whose content it replaces.
pub(super) fn decode(
    stored: &[u8],
    raw_len: usize,
    dictionary: Option<&Dictionary>,
    out: &mut Vec<u8>,
) -> Result<()> {
    out.clear();
    out.reserve_exact(raw_len);
    let prefix = dictionary.map_or(Prefix::None, Prefix::Dictionary);
    decode_onto(stored, raw_len, prefix, out)
}

/// Decodes at least the first `needed` of a frame's `raw_len` raw bytes into `out`, whose content
/// it replaces. Stops between zstd blocks as soon as it may, which for a large frame saves half
/// of the work on average.
pub(crate) fn decode_prefix(
    stored: &[u8],
    raw_len: usize,
    needed: usize,
    dictionary: Option<&Dictionary>,
    out: &mut Vec<u8>,
) -> Result<()> {
    // A digested dictionary can be lent to a streaming context only for longer than a call; and
    // what ends within the last block gains nothing.
    if dictionary.is_some() || needed.saturating_add(ZSTD_BLOCK_BYTES_MAX) > raw_len {
        return decode(stored, raw_len, dictionary, out);
    }
    out.clear();
    out.reserve_exact(raw_len);
    with_decoder(|decoder| {
        decoder.dictionary = None;
        let context = &mut decoder.context;
        context
            .reset(ResetDirective::SessionOnly)
            .map_err(|code| failure("reset decompression", code))?;
        let outcome = stream_prefix(context, stored, needed, out);
        context
            .reset(ResetDirective::SessionOnly)
            .map_err(|code| failure("reset decompression", code))?;
        outcome.map_err(|code| corrupt(code, raw_len))
    })?;
    if out.len() >= needed {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "frame ends after {} bytes where {raw_len} were stored",
        out.len()
    )))
}

/// Feeds the frame piece by piece, at zstd's own hints, so that each call decodes one block.
fn stream_prefix(
    context: &mut DCtx<'static>,
    stored: &[u8],
    needed: usize,
    out: &mut Vec<u8>,
) -> Result<(), ErrorCode> {
    let mut output = OutBuffer::around(out);
    let mut fed = 0;
    // A frame header takes at most 14 bytes; zstd then hints at each block's header and body.
    let mut hint = 2;
    while output.pos() < needed && fed < stored.len() {
        let end = fed.saturating_add(hint.max(1)).min(stored.len());
        let mut input = InBuffer::around(stored.get(fed..end).unwrap_or_default());
        hint = context.decompress_stream(&mut output, &mut input)?;
        fed += input.pos();
        if hint == 0 {
            break;
        }
    }
    Ok(())
}

/// Lends one of this thread's scratch buffers, empty. Calls may nest.
pub(crate) fn with_scratch<T>(run: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut buffer = SCRATCH.with_borrow_mut(Vec::pop).unwrap_or_default();
    buffer.clear();
    let result = run(&mut buffer);
    if buffer.capacity() <= SCRATCH_BYTES_KEPT {
        SCRATCH.with_borrow_mut(|buffers| buffers.push(buffer));
    }
    result
}

fn corrupt(code: ErrorCode, raw_len: usize) -> Error {
    Error::corruption(format!(
        "frame of {raw_len} raw bytes does not decode: {}",
        zstd_safe::get_error_name(code)
    ))
}
