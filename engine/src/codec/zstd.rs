//! The thread-local zstd contexts and the scratch buffer.

use std::cell::RefCell;

use zstd::zstd_safe::{
    self, CCtx, CParameter, DCtx, DParameter, ErrorCode, FrameFormat, InBuffer, OutBuffer,
    ResetDirective,
};

use super::dictionary::Dictionary;
use crate::error::{Error, Result};

/// A scratch buffer that grew beyond this is given back after use: one huge value must not stay
/// charged to every thread that ever read one.
const SCRATCH_BYTES_KEPT: usize = 4 << 20;

/// Longest block inside a zstd frame: what streaming decodes at a time.
const ZSTD_BLOCK_BYTES_MAX: usize = 128 << 10;

thread_local! {
    static ENCODER: RefCell<Option<Encoder>> = const { RefCell::new(None) };
    static DECODER: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
    /// As many buffers as were ever lent at once: one for stored, one for raw bytes.
    static SCRATCH: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// What a context is set to, beyond what it never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Settings {
    level: i32,
    /// 0 for the level's own.
    window_log: u32,
    far_matches: Option<FarMatches>,
}

struct Encoder {
    context: CCtx<'static>,
    settings: Settings,
    /// Where frames are compressed to before they are copied out at their exact length.
    output: Vec<u8>,
}

impl Encoder {
    fn new(level: i32) -> Result<Self> {
        let mut context = CCtx::try_create().ok_or_else(out_of_memory)?;
        let settings = Settings {
            level,
            window_log: 0,
            far_matches: None,
        };
        for parameter in [
            CParameter::Format(FrameFormat::Magicless),
            CParameter::ContentSizeFlag(false),
            CParameter::ChecksumFlag(false),
            CParameter::DictIdFlag(false),
            CParameter::CompressionLevel(level),
        ] {
            context
                .set_parameter(parameter)
                .map_err(|code| failure("set up compression", code))?;
        }
        Ok(Self {
            context,
            settings,
            output: Vec::new(),
        })
    }

    fn set(&mut self, settings: Settings) -> Result<()> {
        if self.settings == settings {
            return Ok(());
        }
        let far = settings.far_matches.unwrap_or_default();
        for parameter in [
            CParameter::CompressionLevel(settings.level),
            CParameter::WindowLog(settings.window_log),
            CParameter::EnableLongDistanceMatching(settings.far_matches.is_some()),
            CParameter::LdmMinMatch(far.bytes_min),
            CParameter::LdmHashRateLog(far.step_log),
        ] {
            self.context
                .set_parameter(parameter)
                .map_err(|code| failure("set up compression", code))?;
        }
        self.settings = settings;
        Ok(())
    }
}

/// How matches beyond the reach of the level's own tables are found. The default is zstd's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FarMatches {
    /// 0 for zstd's own.
    bytes_min: u32,
    /// Logarithm of the distance at which they are looked for; 0 for zstd's own.
    step_log: u32,
}

impl FarMatches {
    /// Matches of this length and longer. Below zstd's own length, it looks twice for each.
    pub(super) fn of_at_least(bytes: u32) -> Self {
        const ZSTD_BYTES_MIN: u32 = 64;
        Self {
            bytes_min: bytes,
            step_log: match bytes {
                ZSTD_BYTES_MIN.. => 0,
                _ => bytes.ilog2().max(2) - 1,
            },
        }
    }
}

/// What a frame is compressed with the help of.
#[derive(Clone, Copy)]
pub(super) enum Help<'a> {
    None,
    Dictionary(&'a Dictionary),
    /// The raw bytes of another frame, and whether to look for far matches in them.
    Base(&'a [u8], Option<FarMatches>),
}

impl Help<'_> {
    fn settings(&self, level: i32, raw_len: usize) -> Settings {
        let (window_log, far_matches) = match self {
            Self::Base(base, far_matches) => (window_log(base.len(), raw_len), *far_matches),
            Self::None | Self::Dictionary(_) => (0, None),
        };
        Settings {
            level,
            window_log,
            far_matches,
        }
    }
}

/// The window that reaches from the end of a frame of `raw_len` bytes to the begin of its base, as
/// far as zstd goes: of a longer base its end helps.
fn window_log(base_len: usize, raw_len: usize) -> u32 {
    const LOG_MIN: u32 = 10;
    const LOG_MAX: u32 = if cfg!(target_pointer_width = "64") {
        31
    } else {
        30
    };
    let bytes = base_len.saturating_add(raw_len).max(1);
    (usize::BITS - (bytes - 1).leading_zeros()).clamp(LOG_MIN, LOG_MAX)
}

/// Lends a base to a context for one call, and takes it back however that call ends.
struct Prefixed<'c>(&'c mut CCtx<'static>);

impl<'c> Prefixed<'c> {
    fn new(context: &'c mut CCtx<'static>, base: &[u8]) -> Result<Self> {
        let lent = Self(context);
        // SAFETY: the context keeps a pointer to the base until the next compression has begun, or
        // another prefix is set, which the drop of the value returned here does, on unwinding too.
        // That value cannot outlive `base`'s borrow: it is local to `encode`, which holds the
        // borrow throughout.
        let base = unsafe { std::mem::transmute::<&[u8], &'static [u8]>(base) };
        lent.0
            .ref_prefix(base)
            .map_err(|code| failure("use a base", code))?;
        Ok(lent)
    }
}

impl Drop for Prefixed<'_> {
    fn drop(&mut self) {
        // Without an open frame, which a reset makes sure of, this cannot fail.
        let _ = self.0.reset(ResetDirective::SessionOnly);
        let _ = self.0.ref_prefix(&[]);
    }
}

/// Lends a dictionary to a context for one call, and takes it back however that call ends.
struct Borrowed<'c>(&'c mut CCtx<'static>);

impl<'c> Borrowed<'c> {
    fn new(context: &'c mut CCtx<'static>, dictionary: &Dictionary, level: i32) -> Result<Self> {
        let digest = dictionary.compression(level)?;
        // SAFETY: the context keeps a pointer to the digest until `disable_dictionary`, which the
        // drop of the value returned here calls, on unwinding too. That value cannot outlive
        // `dictionary`'s borrow: it is local to `encode`, which holds the borrow throughout.
        let digest = unsafe {
            std::mem::transmute::<&zstd_safe::CDict<'static>, &'static zstd_safe::CDict<'static>>(
                digest,
            )
        };
        context
            .ref_cdict(digest)
            .map_err(|code| failure("use a dictionary", code))?;
        Ok(Self(context))
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        // Without an open frame, which compress2 never leaves behind a reset, this cannot fail.
        let _ = self.0.reset(ResetDirective::SessionOnly);
        let _ = self.0.disable_dictionary();
    }
}

/// Compresses `raw` and puts `head` before the result; none if the result without it would exceed
/// `stored_max` bytes.
pub(super) fn encode(
    raw: &[u8],
    level: i32,
    help: Help<'_>,
    head: &[u8],
    stored_max: usize,
) -> Result<Option<Vec<u8>>> {
    ENCODER.with_borrow_mut(|slot| {
        let encoder = match slot {
            Some(encoder) => encoder,
            None => slot.insert(Encoder::new(level)?),
        };
        encoder.set(help.settings(level, raw.len()))?;
        let output = &mut encoder.output;
        output.clear();
        output.reserve(stored_max);
        let outcome = match help {
            Help::None => encoder.context.compress2(output, raw),
            Help::Base(base, _) => Prefixed::new(&mut encoder.context, base)?
                .0
                .compress2(output, raw),
            Help::Dictionary(dictionary) => Borrowed::new(&mut encoder.context, dictionary, level)?
                .0
                .compress2(output, raw),
        };
        if outcome.is_err() {
            // A failed call stays mid-frame, and lets nothing be set until it is ended.
            encoder
                .context
                .reset(ResetDirective::SessionOnly)
                .map_err(|code| failure("reset compression", code))?;
        }
        let stored = match outcome {
            // The buffer may be larger than was asked for; the bound must not depend on that.
            Ok(len) if len <= stored_max => Some([head, output.as_slice()].concat()),
            Ok(_) => None,
            Err(code) if is_too_small(code) => None,
            Err(code) => return Err(failure("compress a frame", code)),
        };
        if output.capacity() > SCRATCH_BYTES_KEPT {
            *output = Vec::new();
        }
        Ok(stored)
    })
}

fn with_decoder<T>(run: impl FnOnce(&mut DCtx<'static>) -> Result<T>) -> Result<T> {
    DECODER.with_borrow_mut(|slot| {
        let decoder = match slot {
            Some(decoder) => decoder,
            None => {
                let mut decoder = DCtx::try_create().ok_or_else(out_of_memory)?;
                decoder
                    .set_parameter(DParameter::Format(FrameFormat::Magicless))
                    .and_then(|_| decoder.set_parameter(DParameter::StableOutBuffer(true)))
                    .map_err(|code| failure("set up decompression", code))?;
                slot.insert(decoder)
            }
        };
        run(decoder)
    })
}

/// Decodes a whole frame of `raw_len` raw bytes into `out`, whose content it replaces. The caller
/// has bounded `raw_len` (see `UnitHeader::check_lengths`).
pub(crate) fn decode(
    stored: &[u8],
    raw_len: usize,
    dictionary: Option<&Dictionary>,
    out: &mut Vec<u8>,
) -> Result<()> {
    out.clear();
    out.reserve_exact(raw_len);
    let decoded = with_decoder(|decoder| {
        let outcome = match dictionary {
            None => decoder.decompress(out, stored),
            Some(dictionary) => {
                decoder.decompress_using_ddict(out, stored, dictionary.decompression()?)
            }
        };
        outcome.map_err(|code| corrupt(code, raw_len))
    })?;
    if decoded == raw_len {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "frame decodes to {decoded} bytes where {raw_len} were stored"
    )))
}

/// What a zstd dictionary begins with.
const DICTIONARY_MAGIC: [u8; 4] = 0xec30_a437_u32.to_le_bytes();

/// Decodes a whole frame that was compressed with `base` as its prefix into `out`, which it fills.
/// Where that is the memory right behind the base, zstd takes both for one stretch and is faster.
fn decode_follower(stored: &[u8], base: &[u8], out: &mut [u8]) -> Result<()> {
    let raw_len = out.len();
    let decoded = with_decoder(|decoder| {
        if !base.starts_with(&DICTIONARY_MAGIC) {
            let outcome = decoder.decompress_using_dict(out, stored, base);
            return outcome.map_err(|code| corrupt(code, raw_len));
        }
        // The call above would take a base that looks like a dictionary for one. This takes it for
        // a prefix, but digests it each time.
        // SAFETY: the context holds the prefix for the next call only, or until another is set;
        // both come to pass below, while `base` is borrowed.
        let base = unsafe { std::mem::transmute::<&[u8], &'static [u8]>(base) };
        let outcome = decoder
            .ref_prefix(base)
            .and_then(|_| decoder.decompress(out, stored));
        decoder
            .reset(ResetDirective::SessionOnly)
            .and_then(|_| decoder.ref_prefix(&[]))
            .map_err(|code| failure("reset decompression", code))?;
        outcome.map_err(|code| corrupt(code, raw_len))
    })?;
    if decoded == raw_len {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "frame decodes to {decoded} bytes where {raw_len} were stored"
    )))
}

/// Decodes a follower into `out`, whose content it replaces; its base lies elsewhere.
pub(crate) fn decode_with_base(
    stored: &[u8],
    raw_len: usize,
    base: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    out.clear();
    out.reserve_exact(raw_len);
    out.resize(raw_len, 0);
    decode_follower(stored, base, out)
}

/// Decodes a follower right behind its base, which is what `buffer` holds.
pub(crate) fn decode_behind(stored: &[u8], raw_len: usize, buffer: &mut Vec<u8>) -> Result<()> {
    let base_len = buffer.len();
    buffer.resize(base_len.saturating_add(raw_len), 0);
    let (base, out) = buffer.split_at_mut(base_len);
    decode_follower(stored, base, out)
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
        decoder
            .reset(ResetDirective::SessionOnly)
            .map_err(|code| failure("reset decompression", code))?;
        let outcome = stream_prefix(decoder, stored, needed, out);
        decoder
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
    decoder: &mut DCtx<'static>,
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
        hint = decoder.decompress_stream(&mut output, &mut input)?;
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

fn is_too_small(code: ErrorCode) -> bool {
    use zstd_safe::zstd_sys::ZSTD_ErrorCode;
    zstd_safe::is_error_kind(code, ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall)
}

fn failure(action: &str, code: ErrorCode) -> Error {
    Error::new(
        crate::error::ErrorKind::Failed,
        format!("zstd cannot {action}: {}", zstd_safe::get_error_name(code)),
    )
}

fn corrupt(code: ErrorCode, raw_len: usize) -> Error {
    Error::corruption(format!(
        "frame of {raw_len} raw bytes does not decode: {}",
        zstd_safe::get_error_name(code)
    ))
}

fn out_of_memory() -> Error {
    Error::limit("no memory for a compression context")
}
