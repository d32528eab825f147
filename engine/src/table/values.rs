//! An open table's value area: from a place to a value, through the cache or straight.

use bytes::Bytes;

use super::context::ReadContext;
use super::key_block::FramePlace;
use super::reader::{Place, TableReader};
use super::unit::{ORDINAL_MASK, Unit, UnitCodec, UnitKind};
use crate::cache::CachedUnit;
use crate::codec::{Dictionary, decode, decode_prefix, with_scratch};
use crate::error::{Error, Result};
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
                self.decode_whole(&unit, &mut value)?;
                return Ok((value.into(), raw_len));
            }
            self.with_raw_value(&unit, place, Bytes::copy_from_slice)
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
                self.decode_front(&unit, place, out)?;
                let decoded = out.len() as u32;
                out.truncate(place.len as usize);
                return Ok(((), decoded));
            }
            self.with_raw_value(&unit, place, |value| out.extend_from_slice(value))
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
        let Some(cache) = context.cache else {
            return Ok(None);
        };
        let unit = CachedUnit::Frame(ordinal);
        if !context.fill_cache {
            let frame = cache.get(self.id(), unit);
            self.count_lookup(ordinal, frame.as_ref(), context);
            return Ok(frame);
        }
        let decode = || self.decode_frame(ordinal, context);
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
            });
        }
    }

    fn decode_frame(&self, ordinal: u32, context: &ReadContext<'_>) -> Result<Bytes> {
        self.with_frame(ordinal, context, |unit| {
            let mut frame = Vec::new();
            self.decode_whole(&unit, &mut frame)?;
            Ok((frame.into(), unit.header.raw_len))
        })
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
        let read = |buffer: &mut Vec<u8>| {
            let unit = self.file.unit(UnitKind::Frame, &range, buffer)?;
            if unit.header.ordinal != ordinal & ORDINAL_MASK {
                return Err(Error::corruption(format!(
                    "frame {} lies where frame {ordinal} should",
                    unit.header.ordinal
                )));
            }
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
        });
        Ok(result)
    }

    /// Decodes a frame into `out`, whose content it replaces.
    pub(super) fn decode_whole(&self, unit: &Unit<'_>, out: &mut Vec<u8>) -> Result<()> {
        decode_unit(unit, self.dictionary.as_ref(), out)
    }

    /// Decodes at least as much of a compressed frame as `place` needs.
    fn decode_front(&self, unit: &Unit<'_>, place: FramePlace, out: &mut Vec<u8>) -> Result<()> {
        if place.end() > unit.header.raw_len {
            return Err(outside_frame());
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
        use_value: impl FnOnce(&[u8]) -> T,
    ) -> Result<(T, u32)> {
        if unit.header.codec == UnitCodec::Raw {
            return Ok((use_value(value_bytes(unit.stored, place)?), 0));
        }
        with_scratch(|scratch| {
            self.decode_front(unit, place, scratch)?;
            let decoded = u32::try_from(scratch.len()).unwrap_or(u32::MAX);
            Ok((use_value(value_bytes(scratch, place)?), decoded))
        })
    }
}

/// Decodes a frame into `out`, whose content it replaces.
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
