//! An open table's value area: from a place to a value, through the cache or straight.
//!
//! A frame with a base needs that one's raw bytes first. They come from the cache where there is
//! one, and stay in it; from what a walk holds (see [`HeldBases`]); or they are decoded right before
//! the frame into the same buffer, where zstd goes on from one to the other fastest. A base has no
//! base itself, so a read decodes two frames at most.
//!
//! [`HeldBases`]: super::bases::HeldBases

use bytes::Bytes;

use super::context::ReadContext;
use super::key_block::FramePlace;
use super::reader::{Place, TableReader};
use super::unit::{Follower, ORDINAL_MASK, Unit, UnitCodec, UnitKind};
use crate::cache::CachedUnit;
use crate::codec::{
    Dictionary, decode, decode_behind, decode_prefix, decode_with_base, with_scratch,
};
use crate::error::{Error, Result};
use crate::options::Layout;
use crate::stats::{Counter, FrameTrace};
use crate::vfs::Advice;

impl TableReader {
    /// The value at `place`. With the cache it shares the cached frame's memory; without, it is
    /// exactly as long as the value.
    pub(crate) fn read(&self, place: &Place, context: &ReadContext<'_>) -> Result<Bytes> {
        match place {
            Place::Inline(value) => Ok(value.clone()),
            Place::Frame(place) => self
                .read_framed(*place, context)
                .map_err(|error| error.at_path(self.file.path())),
        }
    }

    fn read_framed(&self, place: FramePlace, context: &ReadContext<'_>) -> Result<Bytes> {
        if let Some(frame) = self.cached_frame(place.frame, context)? {
            return self.value_in(&frame, place);
        }
        self.with_frame(place.frame, context, |unit| {
            let raw_len = unit.header.raw_len;
            if unit.header.codec != UnitCodec::Raw && place.offset == 0 && place.len == raw_len {
                let mut value = Vec::new();
                self.decode_whole(place.frame, &unit, context, &mut value)?;
                return Ok((value.into(), raw_len));
            }
            self.with_raw_value(&unit, place, context, Bytes::copy_from_slice)
        })
    }

    /// Puts the value at `place` into `out`, whose content it replaces.
    pub(crate) fn read_into(
        &self,
        place: &Place,
        out: &mut Vec<u8>,
        context: &ReadContext<'_>,
    ) -> Result<()> {
        out.clear();
        match place {
            Place::Inline(value) => {
                out.extend_from_slice(value);
                Ok(())
            }
            Place::Frame(place) => self
                .read_framed_into(*place, out, context)
                .map_err(|error| error.at_path(self.file.path())),
        }
    }

    fn read_framed_into(
        &self,
        place: FramePlace,
        out: &mut Vec<u8>,
        context: &ReadContext<'_>,
    ) -> Result<()> {
        if let Some(frame) = self.cached_frame(place.frame, context)? {
            out.extend_from_slice(value_bytes(&frame, place)?);
            return Ok(());
        }
        self.with_frame(place.frame, context, |unit| {
            if unit.header.codec != UnitCodec::Raw && place.offset == 0 {
                // What is wanted lies at the front: decode into place and cut the rest off.
                self.decode_front(&unit, place, context, out)?;
                let decoded = out.len() as u32;
                out.truncate(place.len as usize);
                return Ok(((), decoded));
            }
            self.with_raw_value(&unit, place, context, |value| out.extend_from_slice(value))
        })
    }

    /// A frame's raw bytes, through the cache. For whoever wants several values of it.
    pub(crate) fn frame(&self, ordinal: u32, context: &ReadContext<'_>) -> Result<Bytes> {
        let frame = match self.cached_frame(ordinal, context) {
            Ok(Some(frame)) => Ok(frame),
            Ok(None) => self.decode_frame(ordinal, context),
            Err(error) => Err(error),
        };
        frame.map_err(|error| error.at_path(self.file.path()))
    }

    /// The value at `place` of a frame's raw bytes; shares their memory.
    pub(crate) fn value_in(&self, frame: &Bytes, place: FramePlace) -> Result<Bytes> {
        let value = value_bytes(frame, place).map_err(|error| error.at_path(self.file.path()))?;
        Ok(frame.slice_ref(value))
    }

    /// Tells the kernel that a frame will be read.
    pub(crate) fn prefetch(&self, ordinal: u32) {
        if let Ok(range) = self.directory().and_then(|frames| frames.extent(ordinal)) {
            self.file.advise(Advice::WillNeed, range);
        }
    }

    /// The frame from the cache, decoded into it where reads fill it.
    fn cached_frame(&self, ordinal: u32, context: &ReadContext<'_>) -> Result<Option<Bytes>> {
        self.cached(ordinal, context, || self.decode_frame(ordinal, context))
    }

    fn cached(
        &self,
        ordinal: u32,
        context: &ReadContext<'_>,
        decode: impl FnOnce() -> Result<Bytes>,
    ) -> Result<Option<Bytes>> {
        let Some(cache) = context.cache else {
            return Ok(None);
        };
        let unit = CachedUnit::Frame(ordinal);
        if !context.fill_cache {
            let frame = cache.get(self.id(), unit);
            self.count_lookup(ordinal, frame.as_ref(), context);
            return Ok(frame);
        }
        let (frame, hit) = cache.get_or_decode(self.id(), unit, decode)?;
        self.count_lookup(ordinal, hit.then_some(&frame), context);
        Ok(Some(frame))
    }

    fn count_lookup(&self, ordinal: u32, hit: Option<&Bytes>, context: &ReadContext<'_>) {
        let Some(frame) = hit else {
            return context.stats.add(Counter::CacheMisses, 1);
        };
        context.stats.add(Counter::CacheHits, 1);
        if context.trace.is_some() {
            let extent = self.directory().and_then(|frames| frames.extent(ordinal));
            context.trace_frame(FrameTrace {
                ordinal,
                stored_bytes: extent.map_or(0, |range| range.end - range.start),
                decoded_bytes: frame.len() as u64,
                cache_hit: true,
                base: None,
            });
        }
    }

    fn decode_frame(&self, ordinal: u32, context: &ReadContext<'_>) -> Result<Bytes> {
        let mut may_be_base = self.is_clustered();
        let frame = self.with_frame(ordinal, context, |unit| {
            let mut frame = Vec::new();
            self.decode_whole(ordinal, &unit, context, &mut frame)?;
            may_be_base &= unit.header.codec != UnitCodec::ZstdBase;
            Ok((Bytes::from(frame), unit.header.raw_len))
        })?;
        if may_be_base && let Some(held) = context.held {
            held.insert(self.id(), ordinal, frame.clone());
        }
        Ok(frame)
    }

    fn is_clustered(&self) -> bool {
        matches!(self.properties().layout, Layout::Clustered(_))
    }

    /// Lends a frame's verified unit, and counts it: `use_unit` says how many bytes it decoded.
    pub(super) fn with_frame<T>(
        &self,
        ordinal: u32,
        context: &ReadContext<'_>,
        use_unit: impl FnOnce(Unit<'_>) -> Result<(T, u32)>,
    ) -> Result<T> {
        let range = self.directory()?.extent(ordinal)?;
        let stored_bytes = range.end - range.start;
        context.stats.add(Counter::FramesRead, 1);
        context
            .stats
            .add(Counter::FrameStoredBytesRead, stored_bytes);
        let mut base = None;
        let read = |buffer: &mut Vec<u8>| {
            let unit = self.file.unit(UnitKind::Frame, &range, buffer)?;
            if unit.header.ordinal != ordinal & ORDINAL_MASK {
                return Err(Error::corruption(format!(
                    "frame {} lies where frame {ordinal} should",
                    unit.header.ordinal
                )));
            }
            base = unit.follower(ordinal)?.map(|follower| follower.base);
            use_unit(unit)
        };
        let (result, decoded) = if self.file.is_mapped() {
            read(&mut Vec::new())
        } else {
            with_scratch(read)
        }
        .map_err(|error| error.at_offset(range.start))?;
        context
            .stats
            .add(Counter::FrameBytesDecoded, u64::from(decoded));
        context.trace_frame(FrameTrace {
            ordinal,
            stored_bytes,
            decoded_bytes: u64::from(decoded),
            cache_hit: false,
            base,
        });
        Ok(result)
    }

    /// Decodes frame `ordinal` into `out`, whose content it replaces, and its base before it.
    pub(super) fn decode_whole(
        &self,
        ordinal: u32,
        unit: &Unit<'_>,
        context: &ReadContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(follower) = unit.follower(ordinal)? else {
            return decode_unit(unit, self.dictionary.as_ref(), out);
        };
        let because_of_base = |error| lost_base(ordinal, follower.base, error);
        let kept = self.kept_base(follower.base, context);
        if let Some(base) = kept.map_err(because_of_base)? {
            return decode_with_base(follower.compressed, follower.raw_len, &base, out);
        }
        with_scratch(|buffer| {
            self.decode_base(follower.base, context, buffer)
                .map_err(because_of_base)?;
            decode_beside(&follower, buffer, out)
        })
    }

    /// A base's raw bytes where they are kept for others, or will be.
    fn kept_base(&self, ordinal: u32, context: &ReadContext<'_>) -> Result<Option<Bytes>> {
        if let Some(base) = context.held.and_then(|held| held.get(self.id(), ordinal)) {
            return Ok(Some(base));
        }
        let decode = || {
            let mut base = Vec::new();
            self.decode_base(ordinal, context, &mut base)?;
            Ok(Bytes::from(base))
        };
        let base = match self.cached(ordinal, context, decode)? {
            Some(base) => base,
            None if context.held.is_some() => decode()?,
            None => return Ok(None),
        };
        if let Some(held) = context.held {
            held.insert(self.id(), ordinal, base.clone());
        }
        Ok(Some(base))
    }

    fn decode_base(
        &self,
        ordinal: u32,
        context: &ReadContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.with_frame(ordinal, context, |unit| {
            decode_base_unit(ordinal, &unit, self.dictionary.as_ref(), out)?;
            Ok(((), unit.header.raw_len))
        })
    }

    /// Decodes at least as much of a compressed frame as `place` needs.
    fn decode_front(
        &self,
        unit: &Unit<'_>,
        place: FramePlace,
        context: &ReadContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if place.end() > unit.header.raw_len {
            return Err(outside_frame());
        }
        if unit.header.codec == UnitCodec::ZstdBase {
            return self.decode_whole(place.frame, unit, context, out);
        }
        decode_prefix(
            unit.stored,
            unit.header.raw_len as usize,
            place.end() as usize,
            dictionary_for(unit.header.codec, self.dictionary.as_ref())?,
            out,
        )
    }

    /// Lends the value's bytes, straight from the stored ones where the frame is raw; also says
    /// how many bytes were decoded for it.
    fn with_raw_value<T>(
        &self,
        unit: &Unit<'_>,
        place: FramePlace,
        context: &ReadContext<'_>,
        use_value: impl FnOnce(&[u8]) -> T,
    ) -> Result<(T, u32)> {
        if unit.header.codec == UnitCodec::Raw {
            return Ok((use_value(value_bytes(unit.stored, place)?), 0));
        }
        with_scratch(|scratch| {
            self.decode_front(unit, place, context, scratch)?;
            let decoded = u32::try_from(scratch.len()).unwrap_or(u32::MAX);
            Ok((use_value(value_bytes(scratch, place)?), decoded))
        })
    }
}

/// Decodes a frame that is a base into `out`, whose content it replaces.
pub(super) fn decode_base_unit(
    ordinal: u32,
    unit: &Unit<'_>,
    dictionary: Option<&Dictionary>,
    out: &mut Vec<u8>,
) -> Result<()> {
    if unit.header.codec == UnitCodec::ZstdBase {
        return Err(Error::corruption(format!(
            "frame {ordinal} is a base and has a base itself"
        )));
    }
    decode_unit(unit, dictionary, out)
}

/// Decodes a follower into `out`, whose content it replaces; `buffer` holds its base.
pub(super) fn decode_beside(
    follower: &Follower<'_>,
    buffer: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let base_len = buffer.len();
    decode_behind(follower.compressed, follower.raw_len, buffer)?;
    out.clear();
    out.reserve_exact(follower.raw_len);
    out.extend_from_slice(buffer.get(base_len..).unwrap_or_default());
    Ok(())
}

/// What a frame cannot be read for.
fn lost_base(ordinal: u32, base: u32, error: Error) -> Error {
    let message = format!("frame {ordinal} needs its base, frame {base}, which cannot be read");
    let lost = Error::new(error.kind(), message);
    let lost = match error.offset() {
        Some(offset) => lost.at_offset(offset),
        None => lost,
    };
    lost.with_source(error)
}

/// Decodes a frame without a base into `out`, whose content it replaces.
pub(super) fn decode_unit(
    unit: &Unit<'_>,
    dictionary: Option<&Dictionary>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let codec = unit.header.codec;
    if codec == UnitCodec::Raw {
        out.clear();
        out.extend_from_slice(unit.stored);
        return Ok(());
    }
    if codec == UnitCodec::ZstdBase {
        return Err(Error::corruption("frame needs a base"));
    }
    let raw_len = unit.header.raw_len as usize;
    decode(
        unit.stored,
        raw_len,
        dictionary_for(codec, dictionary)?,
        out,
    )
}

fn dictionary_for(
    codec: UnitCodec,
    dictionary: Option<&Dictionary>,
) -> Result<Option<&Dictionary>> {
    match (codec, dictionary) {
        (UnitCodec::ZstdDictionary, None) => Err(Error::corruption(
            "frame needs the table's dictionary, which is missing or damaged",
        )),
        (UnitCodec::ZstdDictionary, Some(dictionary)) => Ok(Some(dictionary)),
        _ => Ok(None),
    }
}

/// The value at `place` of a frame's raw bytes.
pub(super) fn value_bytes(frame: &[u8], place: FramePlace) -> Result<&[u8]> {
    frame
        .get(place.offset as usize..place.end() as usize)
        .ok_or_else(outside_frame)
}

fn outside_frame() -> Error {
    Error::corruption("value lies outside its frame")
}
