//! The bases of a frame: which they are, their stored bytes, and decoding them, deepest first.
//!
//! A frame names its base, and that may have one as well. [`Chain::resolve`] goes from the frame
//! towards the root until a base is at hand, in the cache or in what a walk holds; nothing is
//! decoded on the way. [`Chain::decode_onto`] then decodes root first, one behind the other in one
//! buffer, where zstd goes on from base to frame fastest; and hands each base to cache and walk.
//!
//! Invariants: (1) a base comes before its followers by ordinal, and no frame has more than
//! [`BASES_MAX`], so every chain ends; (2) a base that other threads may wait for is reserved in
//! the order of falling ordinals, so no two threads wait for each other.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::context::ReadContext;
use super::reader::TableReader;
use super::unit::{ORDINAL_MASK, UNIT_HEADER_BYTES, Unit, UnitHeader, UnitKind, open_unit};
use super::values::decode_unit_onto;
use crate::cache::{CachedUnit, Reservation, Reserved};
use crate::codec::{Prefix, decode_onto};
use crate::error::{Error, ErrorKind, Result};
use crate::stats::{Counter, FrameTrace};

/// Most bases that are decoded before a frame.
pub(crate) const BASES_MAX: usize = 8;

/// A base that is so much longer than what needs it is not copied to lie before that.
const COPIED_BASE_FACTOR: usize = 8;

/// Bytes of a file, from the mapping or read at once.
pub(super) struct Span<'a> {
    pub(super) range: Range<u64>,
    pub(super) bytes: &'a [u8],
}

impl<'a> Span<'a> {
    /// The bytes of the file that `range` names, if they are among these.
    pub(super) fn get(&self, range: &Range<u64>) -> Option<&'a [u8]> {
        let start = range.start.checked_sub(self.range.start)?;
        let len = range.end.checked_sub(range.start)?;
        let start = usize::try_from(start).ok()?;
        let len = usize::try_from(len).ok()?;
        self.bytes.get(start..start.checked_add(len)?)
    }
}

/// A base that has to be decoded.
struct Link<'a> {
    ordinal: u32,
    range: Range<u64>,
    header: UnitHeader,
    /// The whole unit, verified.
    unit: Cow<'a, [u8]>,
    reservation: Option<Reservation<'a>>,
}

impl Link<'_> {
    fn unit(&self) -> Unit<'_> {
        Unit {
            header: self.header,
            stored: self.unit.get(UNIT_HEADER_BYTES..).unwrap_or_default(),
        }
    }
}

/// What has to be decoded before a frame.
pub(super) struct Chain<'a> {
    table: &'a TableReader,
    /// The frame itself.
    ordinal: u32,
    base: Option<u32>,
    /// Its base first.
    links: [Option<Link<'a>>; BASES_MAX],
    len: usize,
    /// The raw bytes of the last link's base, or of the frame's where there are no links.
    kept: Option<Bytes>,
}

impl<'a> Chain<'a> {
    /// The bases of frame `ordinal`, whose unit is given. `span` holds those that lie close.
    pub(super) fn resolve(
        table: &'a TableReader,
        ordinal: u32,
        unit: &Unit<'_>,
        span: &Span<'a>,
        context: &ReadContext<'a>,
    ) -> Result<Self> {
        let mut chain = Self {
            table,
            ordinal,
            base: None,
            links: [const { None }; BASES_MAX],
            len: 0,
            kept: None,
        };
        let mut next = unit.follower(ordinal)?.map(|follower| follower.base);
        chain.base = next;
        while let Some(base) = next {
            let found = chain.extend(base, span, context);
            next = found.map_err(|error| chain.lost(base, error))?;
        }
        Ok(chain)
    }

    /// Adds a base. Returns its own base, if that has to be added as well.
    fn extend(
        &mut self,
        ordinal: u32,
        span: &Span<'a>,
        context: &ReadContext<'a>,
    ) -> Result<Option<u32>> {
        let id = self.table.id();
        if let Some(base) = context.held.and_then(|held| held.get(id, ordinal)) {
            self.kept = Some(base);
            return Ok(None);
        }
        let mut reservation = None;
        if let Some(cache) = context.cache {
            let unit = CachedUnit::Frame(ordinal);
            let cached = match context.fill_cache {
                true => match cache.get_or_reserve(id, unit) {
                    Reserved::Cached(base) => Some(base),
                    Reserved::Missing(reserved) => {
                        reservation = reserved;
                        None
                    }
                },
                false => cache.get(id, unit),
            };
            self.table.count_lookup(ordinal, cached.as_ref(), context);
            if let Some(base) = cached {
                self.hold(ordinal, &base, context);
                self.kept = Some(base);
                return Ok(None);
            }
        }
        let slot = self
            .links
            .get_mut(self.len)
            .ok_or_else(|| Error::corruption(format!("frame has more than {BASES_MAX} bases")))?;
        let range = self.table.directory()?.extent(ordinal)?;
        self.table.count_read(&range, context);
        let (header, unit) = self.table.base_unit(ordinal, &range, span)?;
        let link = slot.insert(Link {
            ordinal,
            range,
            header,
            unit,
            reservation,
        });
        self.len += 1;
        let follower = link.unit().follower(ordinal);
        let follower = follower.map_err(|error| error.at_offset(link.range.start))?;
        Ok(follower.map(|follower| follower.base))
    }

    fn hold(&self, ordinal: u32, base: &Bytes, context: &ReadContext<'_>) {
        if let Some(held) = context.held {
            held.insert(self.table.id(), ordinal, base.clone());
        }
    }

    /// Whether the frame has no base.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0 && self.kept.is_none()
    }

    /// Decodes the frame itself, `unit`, into `out`, whose content it replaces; `buffer` is empty
    /// and lent for its bases.
    pub(super) fn decode(
        mut self,
        unit: &Unit<'_>,
        context: &ReadContext<'_>,
        buffer: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let raw_len = unit.header.raw_len as usize;
        out.clear();
        out.reserve_exact(raw_len);
        if self.is_empty() {
            return decode_unit_onto(unit, self.table.dictionary.as_ref(), out);
        }
        let compressed = unit.follower(self.ordinal)?.map(|it| it.compressed);
        let compressed = compressed.unwrap_or_default();
        if self.len == 0
            && let Some(base) = &self.kept
            && base.len() / COPIED_BASE_FACTOR > raw_len
        {
            return decode_onto(compressed, raw_len, Prefix::Elsewhere(base), out);
        }
        let base_start = self.decode_bases(context, buffer)?;
        let start = buffer.len();
        decode_onto(compressed, raw_len, Prefix::Behind(base_start), buffer)?;
        out.extend_from_slice(buffer.get(start..).unwrap_or_default());
        Ok(())
    }

    /// Decodes all bases into `buffer`. Returns where the last one, the frame's own, begins in it.
    fn decode_bases(&mut self, context: &ReadContext<'_>, buffer: &mut Vec<u8>) -> Result<usize> {
        if let Some(kept) = &self.kept {
            buffer.extend_from_slice(kept);
        }
        let mut base_start = 0;
        for at in (0..self.len).rev() {
            let Some(mut link) = self.links.get_mut(at).and_then(Option::take) else {
                break;
            };
            let start = buffer.len();
            let decoded = self.decode_link(&link, base_start, buffer);
            let decoded = decoded.map_err(|error| error.at_offset(link.range.start));
            let base = decoded.map_err(|error| self.lost(link.ordinal, error))?;
            self.table.count_decoded(
                link.ordinal,
                &link.range,
                (buffer.len() - start) as u64,
                base,
                context,
            );
            base_start = start;
            if context.held.is_some() || link.reservation.is_some() {
                let base = Bytes::copy_from_slice(buffer.get(start..).unwrap_or_default());
                self.hold(link.ordinal, &base, context);
                if let Some(reservation) = link.reservation.take() {
                    reservation.fill(base);
                }
            }
        }
        Ok(base_start)
    }

    /// Decodes a base behind what `buffer` holds, its own base from `base_start` on. Names that.
    fn decode_link(
        &self,
        link: &Link<'_>,
        base_start: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<u32>> {
        let unit = link.unit();
        let Some(follower) = unit.follower(link.ordinal)? else {
            decode_unit_onto(&unit, self.table.dictionary.as_ref(), buffer)?;
            return Ok(None);
        };
        let behind = Prefix::Behind(base_start);
        decode_onto(follower.compressed, follower.raw_len, behind, buffer)?;
        Ok(Some(follower.base))
    }

    /// What the frame cannot be read for: `base`, its base or one of that's.
    fn lost(&self, base: u32, error: Error) -> Error {
        let which = match self.base {
            Some(own) if own == base => "",
            _ => "'s base",
        };
        let place = self.table.directory().and_then(|it| it.extent(base));
        let place = place.map_or(String::new(), |range| {
            format!(" at bytes {} to {} of the file,", range.start, range.end)
        });
        let ordinal = self.ordinal;
        let message = format!(
            "frame {ordinal} needs its base{which}, frame {base},{place} which cannot be read"
        );
        let lost = Error::new(error.kind(), message);
        let lost = match error.offset() {
            Some(offset) => lost.at_offset(offset),
            None => lost,
        };
        lost.with_source(error)
    }
}

impl TableReader {
    /// The unit of a base, out of `span` or read by itself.
    fn base_unit<'a>(
        &'a self,
        ordinal: u32,
        range: &Range<u64>,
        span: &Span<'a>,
    ) -> Result<(UnitHeader, Cow<'a, [u8]>)> {
        if let Some(bytes) = span.get(range) {
            match open_unit(bytes, UnitKind::Frame, self.id(), range.start) {
                Ok(unit) => {
                    check_ordinal(&unit, ordinal, range)?;
                    return Ok((unit.header, Cow::Borrowed(bytes)));
                }
                Err(error) if self.file.is_mapped() || error.kind() != ErrorKind::Corruption => {
                    return Err(error);
                }
                // What was read is not what is on the disk, perhaps: see `source`.
                Err(_) => {}
            }
        }
        let mut buffer = Vec::new();
        let unit = self.file.unit(UnitKind::Frame, range, &mut buffer)?;
        check_ordinal(&unit, ordinal, range)?;
        let header = unit.header;
        Ok((header, Cow::Owned(buffer)))
    }

    pub(super) fn count_read(&self, range: &Range<u64>, context: &ReadContext<'_>) {
        context.stats.add(Counter::FramesRead, 1);
        context
            .stats
            .add(Counter::FrameStoredBytesRead, range.end - range.start);
        if context.for_get {
            context.stats.add(Counter::GetFramesRead, 1);
        }
    }

    pub(super) fn count_decoded(
        &self,
        ordinal: u32,
        range: &Range<u64>,
        decoded_bytes: u64,
        base: Option<u32>,
        context: &ReadContext<'_>,
    ) {
        context.stats.add(Counter::FrameBytesDecoded, decoded_bytes);
        if context.for_get {
            context
                .stats
                .add(Counter::GetFrameBytesDecoded, decoded_bytes);
        }
        context.trace_frame(FrameTrace {
            ordinal,
            stored_bytes: range.end - range.start,
            decoded_bytes,
            cache_hit: false,
            base,
        });
    }
}

/// Fails if a unit is another frame than the directory says.
pub(super) fn check_ordinal(unit: &Unit<'_>, ordinal: u32, range: &Range<u64>) -> Result<()> {
    if unit.header.ordinal == ordinal & ORDINAL_MASK {
        return Ok(());
    }
    let message = format!(
        "frame {} lies where frame {ordinal} should",
        unit.header.ordinal
    );
    Err(Error::corruption(message).at_offset(range.start))
}
