//! An open table's value area: from a place to a value, through the cache or straight.
//!
//! A frame with a base needs that one's raw bytes first (see [`Chain`]). They come from the cache
//! where there is one, and stay in it; from what a walk holds (see [`HeldBases`]); or they are
//! decoded right before the frame into the same buffer. A frame's bytes are copied at most once
//! after they were decoded, and not at all where it has no base.
//!
//! Reading by position, a get of a frame of a clustered table reads the frames that lie right before
//! it as well: its base is likely among them, and then one read is enough.
//!
//! [`HeldBases`]: super::bases::HeldBases

use std::ops::Range;

use bytes::Bytes;

use super::chain::{Chain, Span, check_ordinal};
use super::context::ReadContext;
use super::key_block::FramePlace;
use super::reader::{Place, TableReader};
use super::unit::{Follower, Unit, UnitCodec, UnitKind, open_unit};
use crate::cache::CachedUnit;
use crate::codec::{Dictionary, Prefix, decode_onto, decode_prefix, with_scratch};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Layout;
use crate::stats::{Counter, FrameTrace};
use crate::vfs::Advice;

/// Bytes before a frame of a clustered table that are read with it: what a base and some of its
/// followers take. Copying them costs less than a second call.
const BASE_REACH_BYTES: u64 = 24 << 10;

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
        self.with_frame(place.frame, context, |frame| {
            let raw_len = frame.unit.header.raw_len;
            if !frame.is_raw() && place.offset == 0 && place.len == raw_len {
                let mut value = Vec::new();
                frame.decode(&mut value)?;
                let value = Bytes::from(value);
                frame.hold(&value);
                return Ok((value, raw_len));
            }
            frame.with_value(place, Bytes::copy_from_slice)
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
        self.with_frame(place.frame, context, |frame| {
            if !frame.is_raw() && place.offset == 0 {
                // What is wanted lies at the front: decode into place and cut the rest off.
                frame.decode_front(place, out)?;
                let decoded = out.len() as u32;
                out.truncate(place.len as usize);
                return Ok(((), decoded));
            }
            frame.with_value(place, |value| out.extend_from_slice(value))
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

    /// Tells the kernel that a frame will be read, and perhaps its base.
    pub(crate) fn prefetch(&self, ordinal: u32) {
        let extent = self.directory().and_then(|frames| frames.extent(ordinal));
        if let Ok(range) = extent.and_then(|range| self.with_base_reach(ordinal, range)) {
            self.file.advise(Advice::WillNeed, range);
        }
    }

    /// The frame's bytes of the file and those of the whole frames before it that may hold its base.
    fn with_base_reach(&self, ordinal: u32, range: Range<u64>) -> Result<Range<u64>> {
        if !self.is_clustered() {
            return Ok(range);
        }
        let directory = self.directory()?;
        let first = range.start.saturating_sub(BASE_REACH_BYTES);
        let mut start = range.start;
        for before in (0..ordinal).rev() {
            let extent = directory.extent(before)?;
            if extent.start < first {
                break;
            }
            start = extent.start;
        }
        Ok(start..range.end)
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

    pub(super) fn count_lookup(
        &self,
        ordinal: u32,
        hit: Option<&Bytes>,
        context: &ReadContext<'_>,
    ) {
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
        if let Some(frame) = context.held.and_then(|held| held.get(self.id(), ordinal)) {
            return Ok(frame);
        }
        self.with_frame(ordinal, context, |frame| {
            let mut raw = Vec::new();
            frame.decode(&mut raw)?;
            let raw = Bytes::from(raw);
            frame.hold(&raw);
            Ok((raw, frame.unit.header.raw_len))
        })
    }

    /// Whether a frame stored like this can be the base of others.
    fn may_be_base(&self, codec: UnitCodec) -> bool {
        match self.properties().layout {
            Layout::Clustered(cluster) => codec != UnitCodec::ZstdBase || cluster.depth_max > 1,
            _ => false,
        }
    }

    fn is_clustered(&self) -> bool {
        matches!(self.properties().layout, Layout::Clustered(_))
    }

    /// Lends a verified frame, and counts it: `use_frame` says how many bytes it decoded.
    fn with_frame<T>(
        &self,
        ordinal: u32,
        context: &ReadContext<'_>,
        use_frame: impl FnOnce(&Frame<'_>) -> Result<(T, u32)>,
    ) -> Result<T> {
        let range = self.directory()?.extent(ordinal)?;
        self.count_read(&range, context);
        let mut base = None;
        let lend = |unit: Unit<'_>, span: &Span<'_>| {
            check_ordinal(&unit, ordinal, &range)?;
            base = unit.follower(ordinal)?.map(|follower| follower.base);
            use_frame(&Frame {
                table: self,
                ordinal,
                unit,
                span,
                context,
            })
        };
        let lent = match self.file.mapped(&(0..self.file.len())) {
            Some(mapping) => {
                let span = Span {
                    range: 0..self.file.len(),
                    bytes: mapping,
                };
                self.unit_in(&range, &span)
                    .and_then(|unit| lend(unit, &span))
            }
            // A walk holds the base already, or reads it once for many.
            None => with_scratch(|buffer| {
                self.with_span(ordinal, &range, context.held.is_none(), buffer, lend)
            }),
        };
        let (result, decoded) = lent.map_err(|error| error.at_offset(range.start))?;
        self.count_decoded(ordinal, &range, u64::from(decoded), base, context);
        Ok(result)
    }

    fn unit_in<'a>(&self, range: &Range<u64>, span: &Span<'a>) -> Result<Unit<'a>> {
        let bytes = span.get(range);
        let bytes = bytes.ok_or_else(|| Error::corruption("frame lies outside the file"))?;
        open_unit(bytes, UnitKind::Frame, self.id(), range.start)
    }

    /// Reads a frame, and its likely base if `reaches_back`, into `buffer`, and lends them.
    fn with_span<T>(
        &self,
        ordinal: u32,
        range: &Range<u64>,
        reaches_back: bool,
        buffer: &mut Vec<u8>,
        lend: impl FnOnce(Unit<'_>, &Span<'_>) -> Result<T>,
    ) -> Result<T> {
        let reach = match reaches_back {
            true => self.with_base_reach(ordinal, range.clone())?,
            false => range.clone(),
        };
        self.file.read(&reach, buffer)?;
        let span = Span {
            range: reach.clone(),
            bytes: buffer,
        };
        match self.unit_in(range, &span) {
            Ok(unit) => lend(unit, &span),
            // Once more, as `TableFile::unit` does.
            Err(error) if error.kind() == ErrorKind::Corruption => {
                self.file.read(&reach, buffer)?;
                let span = Span {
                    range: reach,
                    bytes: buffer,
                };
                lend(self.unit_in(range, &span)?, &span)
            }
            Err(error) => Err(error),
        }
    }

    /// Decodes frame `ordinal`, whose unit is given, into `out`, whose content it replaces, and its
    /// bases before it.
    pub(super) fn decode_whole(
        &self,
        ordinal: u32,
        unit: &Unit<'_>,
        context: &ReadContext<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let frame = Frame {
            table: self,
            ordinal,
            unit: *unit,
            span: &Span {
                range: 0..self.file.len(),
                bytes: self.file.mapped(&(0..self.file.len())).unwrap_or_default(),
            },
            context,
        };
        frame.decode(out)
    }
}

/// A verified frame that is about to be decoded.
struct Frame<'a> {
    table: &'a TableReader,
    ordinal: u32,
    unit: Unit<'a>,
    /// Bytes around it.
    span: &'a Span<'a>,
    context: &'a ReadContext<'a>,
}

impl Frame<'_> {
    /// Whether the frame's stored bytes are its raw ones.
    fn is_raw(&self) -> bool {
        self.unit.header.codec == UnitCodec::Raw
    }

    /// Decodes it into `out`, whose content it replaces.
    fn decode(&self, out: &mut Vec<u8>) -> Result<()> {
        if self.unit.header.codec != UnitCodec::ZstdBase {
            out.clear();
            out.reserve_exact(self.unit.header.raw_len as usize);
            return decode_unit_onto(&self.unit, self.table.dictionary.as_ref(), out);
        }
        let chain = Chain::resolve(
            self.table,
            self.ordinal,
            &self.unit,
            self.span,
            self.context,
        )?;
        with_scratch(|buffer| chain.decode(&self.unit, self.context, buffer, out))
    }

    /// Holds its raw bytes, if the read does such things and others may need them.
    fn hold(&self, raw: &Bytes) {
        if let Some(held) = self.context.held
            && self.table.may_be_base(self.unit.header.codec)
        {
            held.insert(self.table.id(), self.ordinal, raw.clone());
        }
    }

    /// Decodes at least as much of it, if it is compressed, as `place` needs.
    fn decode_front(&self, place: FramePlace, out: &mut Vec<u8>) -> Result<()> {
        let header = &self.unit.header;
        if place.end() > header.raw_len {
            return Err(outside_frame());
        }
        if header.codec == UnitCodec::ZstdBase {
            return self.decode(out);
        }
        decode_prefix(
            self.unit.stored,
            header.raw_len as usize,
            place.end() as usize,
            dictionary_for(header.codec, self.table.dictionary.as_ref())?,
            out,
        )
    }

    /// Lends the value's bytes, straight from the stored ones where the frame is raw; also says
    /// how many bytes were decoded for it.
    fn with_value<T>(
        &self,
        place: FramePlace,
        use_value: impl FnOnce(&[u8]) -> T,
    ) -> Result<(T, u32)> {
        if self.is_raw() {
            return Ok((use_value(value_bytes(self.unit.stored, place)?), 0));
        }
        with_scratch(|scratch| {
            self.decode_front(place, scratch)?;
            let decoded = u32::try_from(scratch.len()).unwrap_or(u32::MAX);
            Ok((use_value(value_bytes(scratch, place)?), decoded))
        })
    }
}

/// Decodes a follower into `out`, whose content it replaces; `buffer` holds its base.
pub(super) fn decode_beside(
    follower: &Follower<'_>,
    buffer: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let base_len = buffer.len();
    let behind = Prefix::Behind(0);
    decode_onto(follower.compressed, follower.raw_len, behind, buffer)?;
    out.clear();
    out.extend_from_slice(buffer.get(base_len..).unwrap_or_default());
    Ok(())
}

/// Decodes a frame without a base into `out`, whose content it replaces.
pub(super) fn decode_unit(
    unit: &Unit<'_>,
    dictionary: Option<&Dictionary>,
    out: &mut Vec<u8>,
) -> Result<()> {
    out.clear();
    out.reserve_exact(unit.header.raw_len as usize);
    decode_unit_onto(unit, dictionary, out)
}

/// Decodes a frame without a base behind what `out` holds.
pub(super) fn decode_unit_onto(
    unit: &Unit<'_>,
    dictionary: Option<&Dictionary>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let codec = unit.header.codec;
    if codec == UnitCodec::Raw {
        out.extend_from_slice(unit.stored);
        return Ok(());
    }
    if codec == UnitCodec::ZstdBase {
        return Err(Error::corruption("frame needs a base"));
    }
    let dictionary = dictionary_for(codec, dictionary)?;
    let prefix = dictionary.map_or(Prefix::None, Prefix::Dictionary);
    decode_onto(unit.stored, unit.header.raw_len as usize, prefix, out)
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
