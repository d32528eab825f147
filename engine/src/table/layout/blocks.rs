//! `Layout::Blocks`: values in key order fill a frame until it reaches a size.
//!
//! A value as long as a whole block, or longer, stands alone, so that reading it decodes nothing
//! else and reading its neighbours does not decode it. The block being filled stays open across
//! it: cutting it there would leave a short block, and short blocks compress badly.

use bytes::Bytes;

use super::{FrameSink, RawFrame};
use crate::error::{Error, Result};
use crate::table::key_block::FramePlace;

/// Fills blocks.
#[derive(Debug)]
pub(crate) struct BlocksWriter {
    block_bytes: usize,
    open: Vec<u8>,
    /// Values in the open block, by their position in `places`.
    members: Vec<usize>,
    places: Vec<FramePlace>,
}

impl BlocksWriter {
    pub(crate) fn new(block_bytes: u32) -> Self {
        Self {
            block_bytes: block_bytes as usize,
            open: Vec::new(),
            members: Vec::new(),
            places: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, value: Bytes, sink: &mut dyn FrameSink) -> Result<()> {
        let len = u32::try_from(value.len()).map_err(|_| Error::limit("value exceeds 4 GiB"))?;
        let mut place = FramePlace {
            frame: 0,
            offset: 0,
            len,
        };
        if value.len() >= self.block_bytes {
            place.frame = sink.push(RawFrame {
                bytes: value,
                value_lens: vec![len],
                base: None,
            })?;
            self.places.push(place);
            return Ok(());
        }
        if self.open.capacity() == 0 {
            self.open.reserve(self.block_bytes + self.block_bytes / 4);
        }
        // A block closes once it reaches its size, so it is always shorter than two.
        place.offset = self.open.len() as u32;
        self.members.push(self.places.len());
        self.places.push(place);
        self.open.extend_from_slice(&value);
        if self.open.len() >= self.block_bytes {
            self.close(sink)?;
        }
        Ok(())
    }

    fn close(&mut self, sink: &mut dyn FrameSink) -> Result<()> {
        if self.members.is_empty() {
            return Ok(());
        }
        let places = &mut self.places;
        let value_lens = self
            .members
            .iter()
            .filter_map(|&member| places.get(member).map(|place| place.len))
            .collect();
        let ordinal = sink.push(RawFrame {
            bytes: Bytes::from(std::mem::take(&mut self.open)),
            value_lens,
            base: None,
        })?;
        for member in self.members.drain(..) {
            if let Some(place) = places.get_mut(member) {
                place.frame = ordinal;
            }
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, sink: &mut dyn FrameSink) -> Result<Vec<FramePlace>> {
        self.close(sink)?;
        Ok(self.places)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.open.capacity() + self.places.capacity() * size_of::<FramePlace>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Dictionary;

    #[derive(Default)]
    struct Frames(Vec<Bytes>);

    impl FrameSink for Frames {
        fn push(&mut self, frame: RawFrame) -> Result<u32> {
            let values: u32 = frame.value_lens.iter().sum();
            assert_eq!(values as usize, frame.bytes.len());
            self.0.push(frame.bytes);
            Ok(self.0.len() as u32 - 1)
        }

        fn set_dictionary(&mut self, _: Dictionary) -> Result<()> {
            panic!("blocks have their dictionary trained for them");
        }
    }

    #[test]
    fn long_values_stand_alone_and_short_ones_share() {
        let values = ["abc", "0123456789", "de", "fghij", "k"];
        let mut frames = Frames::default();
        let mut blocks = BlocksWriter::new(8);
        for value in values {
            blocks
                .add(Bytes::from_static(value.as_bytes()), &mut frames)
                .unwrap();
        }
        let places = blocks.finish(&mut frames).unwrap();
        assert_eq!(frames.0, ["0123456789", "abcdefghij", "k"]);
        for (value, place) in values.iter().zip(&places) {
            let frame = &frames.0[place.frame as usize];
            assert_eq!(
                &frame[place.offset as usize..place.end() as usize],
                value.as_bytes()
            );
        }
    }
}
