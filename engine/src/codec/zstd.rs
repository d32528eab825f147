//! Compression with the thread's own zstd context.

use std::cell::RefCell;

use bytes::Bytes;
use zstd::zstd_safe::{
    self, CCtx, CParameter, DictAttachPref, ErrorCode, FrameFormat, ResetDirective,
};

use super::dictionary::Dictionary;
use crate::error::{Error, Result};

/// An output buffer that grew beyond this is given back after use: one huge value must not stay
/// charged to every thread that ever wrote one.
const OUTPUT_BYTES_KEPT: usize = 4 << 20;

thread_local! {
    static ENCODER: RefCell<Option<Encoder>> = const { RefCell::new(None) };
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
    /// The base used last, and behind it a frame: zstd takes both for one stretch then, is faster
    /// and finds a little more.
    joined: Vec<u8>,
    joined_base: Bytes,
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
            // By default the tables of a digested dictionary are copied for each frame of some
            // KiB, which takes longer than to look into two.
            CParameter::ForceAttachDict(DictAttachPref::ForceAttach),
        ] {
            context
                .set_parameter(parameter)
                .map_err(|code| failure("set up compression", code))?;
        }
        Ok(Self {
            context,
            settings,
            output: Vec::new(),
            joined: Vec::new(),
            joined_base: Bytes::new(),
        })
    }

    /// Puts `raw` behind `base`; followers of one base come one after another.
    fn join(&mut self, base: &Bytes, raw: &[u8]) {
        let is_there = std::ptr::eq::<[u8]>(&*self.joined_base, &**base);
        if !is_there || self.joined.len() < base.len() {
            self.joined.clear();
            self.joined.extend_from_slice(base);
            self.joined_base = base.clone();
        }
        self.joined.truncate(base.len());
        self.joined.extend_from_slice(raw);
    }

    /// Gives back what one huge frame needed.
    fn release(&mut self) {
        if self.output.capacity() > OUTPUT_BYTES_KEPT {
            self.output = Vec::new();
        }
        if self.joined.capacity() > OUTPUT_BYTES_KEPT {
            self.joined = Vec::new();
            self.joined_base = Bytes::new();
        }
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
    Base(&'a Bytes, Option<FarMatches>),
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
        if let Help::Base(base, _) = help {
            encoder.join(base, raw);
        }
        let output = &mut encoder.output;
        output.clear();
        // Never less than what zstd may ask for: with a tight buffer it gives up on frames that would
        // fit, and what is stored would depend on how large the thread's buffer was already.
        output.reserve(zstd_safe::compress_bound(raw.len()));
        let outcome = match help {
            Help::None => encoder.context.compress2(output, raw),
            Help::Base(base, _) => {
                let (base, raw) = encoder.joined.split_at(base.len());
                Prefixed::new(&mut encoder.context, base)?
                    .0
                    .compress2(output, raw)
            }
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
            Ok(len) if len <= stored_max => Some([head, output.as_slice()].concat()),
            Ok(_) => None,
            Err(code) => return Err(failure("compress a frame", code)),
        };
        encoder.release();
        Ok(stored)
    })
}

pub(super) fn failure(action: &str, code: ErrorCode) -> Error {
    Error::new(
        crate::error::ErrorKind::Failed,
        format!("zstd cannot {action}: {}", zstd_safe::get_error_name(code)),
    )
}

pub(super) fn out_of_memory() -> Error {
    Error::limit("no memory for a compression context")
}
