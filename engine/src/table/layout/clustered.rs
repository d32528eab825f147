//! `Layout::Clustered`: values that are alike lie side by side, compressed one against another.
//!
//! Values gather in a window. Once it is full, or there are no more, it is planned as a whole (see
//! [`crate::cluster`]): frames come out in the plan's order, a base right before its followers.
//! What has no base and serves as none is packed into frames that it shares, up to a size. The
//! table's dictionary is trained on the first window, once it is known what has no base there.
//!
//! The window holds a copy of what is a slice of something larger, which would stay in memory with
//! it. It is full once its values, with what each costs besides, take `window_bytes`;
//! its sketches come on top.

use bytes::Bytes;

use super::samples::train_on_window;
use super::{BaseFrame, FrameSink, RawFrame};
use crate::cluster::{self, ClusterPlan, Clusterer};
use crate::error::{Error, ErrorKind, Result};
use crate::options::ClusterOptions;
use crate::table::key_block::FramePlace;

/// What a value costs in a window beyond its bytes: its handle, its place, its share of the plan.
const VALUE_BYTES: usize = 64;

/// Fills windows, and writes them.
#[derive(Debug)]
pub(crate) struct ClusteredWriter {
    options: ClusterOptions,
    /// Of the dictionary that is yet to be trained; 0 for none.
    dictionary_bytes: usize,
    window_bytes_max: usize,
    clusterer: Clusterer,
    window: Vec<Bytes>,
    window_bytes: usize,
    /// Of all values so far; those of the window come last, and name no frame yet.
    places: Vec<FramePlace>,
}

impl ClusteredWriter {
    pub(crate) fn new(options: ClusterOptions, dictionary_bytes: u32) -> Self {
        Self {
            options,
            dictionary_bytes: dictionary_bytes as usize,
            window_bytes_max: options.window_bytes as usize,
            clusterer: clusterer(&options),
            window: Vec::new(),
            window_bytes: 0,
            places: Vec::new(),
        }
    }

    /// Makes windows smaller than the options say, where memory is short.
    pub(crate) fn limit_window(&mut self, bytes: usize) {
        self.window_bytes_max = self.window_bytes_max.min(bytes);
    }

    /// The table has its dictionary, or shall have none.
    pub(crate) fn train_no_dictionary(&mut self) {
        self.dictionary_bytes = 0;
    }

    pub(crate) fn add(&mut self, value: Bytes, sink: &mut dyn FrameSink) -> Result<()> {
        let len = u32::try_from(value.len()).map_err(|_| Error::limit("value exceeds 4 GiB"))?;
        let bytes = value.len() + VALUE_BYTES;
        if !self.window.is_empty() && self.window_bytes + bytes > self.window_bytes_max {
            self.write_window(sink)?;
        }
        self.places.push(FramePlace {
            frame: 0,
            offset: 0,
            len,
        });
        if self.options.depth_max > 0 {
            self.clusterer.add(&value);
        }
        self.window.push(own(value));
        self.window_bytes += bytes;
        Ok(())
    }

    fn write_window(&mut self, sink: &mut dyn FrameSink) -> Result<()> {
        let values = std::mem::take(&mut self.window);
        self.window_bytes = 0;
        let clusterer = std::mem::replace(&mut self.clusterer, clusterer(&self.options));
        let plan = if self.options.depth_max > 0 {
            clusterer.plan()
        } else {
            ClusterPlan {
                order: (0..values.len() as u32).collect(),
                base: vec![None; values.len()],
            }
        };
        let dictionary_bytes = std::mem::take(&mut self.dictionary_bytes);
        if dictionary_bytes > 0
            && let Some(dictionary) = train_on_window(&values, &plan, dictionary_bytes)
        {
            sink.set_dictionary(dictionary)?;
        }
        let first = self.places.len() - values.len();
        let places = self.places.get_mut(first..).unwrap_or_default();
        WindowWriter {
            shared_bytes_max: self.options.shared_frame_bytes as usize,
            is_base: bases(&plan),
            base_frames: vec![None; values.len()],
            placed: 0,
            places,
            values: &values,
            shared: Vec::new(),
            members: Vec::new(),
        }
        .write(&plan, sink)
    }

    pub(crate) fn finish(mut self, sink: &mut dyn FrameSink) -> Result<Vec<FramePlace>> {
        if !self.window.is_empty() {
            self.write_window(sink)?;
        }
        Ok(self.places)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.window_bytes
            + self.clusterer.memory_bytes()
            + self.places.capacity() * size_of::<FramePlace>()
    }
}

/// The value in memory of its own: as it is, where nobody else holds it and it is all there is.
fn own(value: Bytes) -> Bytes {
    const SPARE_SHARE_MAX: usize = 8;
    match value.try_into_mut() {
        Ok(whole) if whole.capacity() - whole.len() <= whole.len() / SPARE_SHARE_MAX => {
            whole.freeze()
        }
        Ok(part) => Bytes::copy_from_slice(&part),
        Err(shared) => Bytes::copy_from_slice(&shared),
    }
}

fn clusterer(options: &ClusterOptions) -> Clusterer {
    Clusterer::new(planned_with(options))
}

/// What of the options the choice of bases goes by.
pub(crate) fn planned_with(options: &ClusterOptions) -> cluster::ClusterOptions {
    cluster::ClusterOptions {
        sketch_entries_max: options.sketch_entries_max,
        saved_bytes_per_1000_decoded: options.saved_bytes_per_1000_decoded,
        depth_max: options.depth_max,
    }
}

/// Which values serve as a base.
fn bases(plan: &ClusterPlan) -> Vec<bool> {
    let mut is_base = vec![false; plan.base.len()];
    for base in plan.base.iter().flatten() {
        if let Some(is_base) = is_base.get_mut(*base as usize) {
            *is_base = true;
        }
    }
    is_base
}

/// Hands out the frames of one window.
struct WindowWriter<'a> {
    values: &'a [Bytes],
    places: &'a mut [FramePlace],
    shared_bytes_max: usize,
    is_base: Vec<bool>,
    /// Of each base that was handed out, its ordinal and what is decoded where it is needed.
    base_frames: Vec<Option<(u32, u64)>>,
    placed: usize,
    /// The frame being filled with values that stand neither alone nor in a cluster.
    shared: Vec<u8>,
    members: Vec<usize>,
}

impl WindowWriter<'_> {
    fn write(mut self, plan: &ClusterPlan, sink: &mut dyn FrameSink) -> Result<()> {
        for &index in &plan.order {
            let index = index as usize;
            let base = plan.base.get(index).copied().flatten();
            self.write_value(index, base, sink)?;
        }
        self.close_shared(sink)?;
        if self.placed == self.values.len() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Failed,
            format!(
                "the plan of a window places {} of {} values",
                self.placed,
                self.values.len()
            ),
        ))
    }

    fn write_value(
        &mut self,
        index: usize,
        base: Option<u32>,
        sink: &mut dyn FrameSink,
    ) -> Result<()> {
        let Some(value) = self.values.get(index) else {
            return Err(Error::new(
                ErrorKind::Failed,
                "the plan of a window names a value that is not in it",
            ));
        };
        let is_base = self.is_base.get(index).copied().unwrap_or_default();
        let base = base.and_then(|base| {
            let base = base as usize;
            let (ordinal, decoded_bytes) = self.base_frames.get(base).copied().flatten()?;
            Some(BaseFrame {
                ordinal,
                bytes: self.values.get(base)?.clone(),
                decoded_bytes,
            })
        });
        if base.is_none() && !is_base && value.len() < self.shared_bytes_max {
            return self.share(index, value, sink);
        }
        let before = base.as_ref().map_or(0, |base| base.decoded_bytes);
        let ordinal = sink.push(RawFrame {
            bytes: value.clone(),
            value_lens: vec![value.len() as u32],
            base,
        })?;
        if is_base && let Some(frame) = self.base_frames.get_mut(index) {
            *frame = Some((ordinal, before + value.len() as u64));
        }
        self.place(index, ordinal, None);
        Ok(())
    }

    fn place(&mut self, index: usize, frame: u32, offset: Option<u32>) {
        if let Some(place) = self.places.get_mut(index) {
            place.frame = frame;
            place.offset = offset.unwrap_or(place.offset);
            self.placed += 1;
        }
    }

    fn share(&mut self, index: usize, value: &[u8], sink: &mut dyn FrameSink) -> Result<()> {
        if let Some(place) = self.places.get_mut(index) {
            place.offset = self.shared.len() as u32;
        }
        self.shared.extend_from_slice(value);
        self.members.push(index);
        if self.shared.len() >= self.shared_bytes_max {
            self.close_shared(sink)?;
        }
        Ok(())
    }

    fn close_shared(&mut self, sink: &mut dyn FrameSink) -> Result<()> {
        let members = std::mem::take(&mut self.members);
        if members.is_empty() {
            return Ok(());
        }
        let lens = members.iter().filter_map(|&member| self.values.get(member));
        let ordinal = sink.push(RawFrame {
            value_lens: lens.map(|value| value.len() as u32).collect(),
            bytes: Bytes::from(std::mem::take(&mut self.shared)),
            base: None,
        })?;
        for member in members {
            self.place(member, ordinal, None);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Dictionary;

    #[derive(Default)]
    struct Frames(Vec<(Bytes, Option<u32>)>);

    impl FrameSink for Frames {
        fn push(&mut self, frame: RawFrame) -> Result<u32> {
            let lens: u32 = frame.value_lens.iter().sum();
            assert_eq!(lens as usize, frame.bytes.len());
            let base = frame.base.map(|base| {
                assert_eq!(self.0[base.ordinal as usize].0, base.bytes);
                base.ordinal
            });
            self.0.push((frame.bytes, base));
            Ok(self.0.len() as u32 - 1)
        }

        fn set_dictionary(&mut self, _: Dictionary) -> Result<()> {
            assert!(self.0.is_empty(), "frames went by before their dictionary");
            Ok(())
        }
    }

    fn file(subject: &str, version: u32) -> Bytes {
        let lines = (0..120).map(|line| {
            let mark = if line == 60 { version } else { 0 };
            format!(
                "fn {subject}_{line}(a: u{line}) -> {subject}{mark} {{ {} }}\n",
                line * line
            )
        });
        lines.collect::<String>().into()
    }

    fn write(values: &[Bytes], options: ClusterOptions) -> (Frames, Vec<FramePlace>) {
        let mut frames = Frames::default();
        let mut writer = ClusteredWriter::new(options, 256);
        for value in values {
            writer.add(value.clone(), &mut frames).unwrap();
        }
        let places = writer.finish(&mut frames).unwrap();
        for (value, place) in values.iter().zip(&places) {
            let (frame, _) = &frames.0[place.frame as usize];
            assert_eq!(&frame[place.offset as usize..place.end() as usize], value);
        }
        (frames, places)
    }

    #[test]
    fn what_is_alike_lies_side_by_side_and_small_values_share() {
        let mut values = Vec::new();
        for version in 0..3 {
            for subject in ["parser", "matrix"] {
                values.push(file(subject, version));
            }
            values.push(Bytes::from(format!("short {version}")));
        }
        let (frames, places) = write(&values, ClusterOptions::default());
        let followers = frames.0.iter().filter(|(_, base)| base.is_some()).count();
        assert_eq!((frames.0.len(), followers), (7, 4));
        for (ordinal, (_, base)) in frames.0.iter().enumerate() {
            assert!(base.is_none_or(|base| ordinal as u32 - base <= 2));
            assert!(base.is_none_or(|base| frames.0[base as usize].1.is_none()));
        }
        let shared = [2, 5, 8].map(|short| places[short].frame);
        assert_eq!(shared, [shared[0]; 3]);
    }

    #[test]
    fn at_depth_0_values_stay_in_key_order_and_no_one_has_a_base() {
        let values: Vec<Bytes> = (0..4).map(|version| file("parser", version)).collect();
        let options = ClusterOptions {
            depth_max: 0,
            ..ClusterOptions::default()
        };
        let (frames, places) = write(&values, options);
        assert!(frames.0.iter().all(|(_, base)| base.is_none()));
        assert!(places.is_sorted_by_key(|place| (place.frame, place.offset)));
    }

    #[test]
    fn a_value_keeps_nothing_else_in_memory() {
        let whole = Bytes::from(vec![7; 1000]);
        let at = whole.as_ptr();
        assert_eq!(own(whole).as_ptr(), at, "copied for nothing");
        let large = Bytes::from(vec![7; 1000]);
        let slice = large.slice(..100);
        assert_ne!(own(slice.clone()).as_ptr(), at);
        drop(large);
        let at = slice.as_ptr();
        let owned = own(slice);
        assert_eq!(owned.len(), 100);
        assert_ne!(owned.as_ptr(), at, "900 bytes stay for 100");
        assert!(own(Bytes::new()).is_empty());
    }

    #[test]
    fn no_base_is_sought_beyond_the_window() {
        let values: Vec<Bytes> = (0..4).map(|version| file("parser", version)).collect();
        let options = ClusterOptions {
            window_bytes: 1 << 10,
            ..ClusterOptions::default()
        };
        let (frames, _) = write(&values, options);
        assert_eq!(frames.0.len(), 4);
        assert!(frames.0.iter().all(|(_, base)| base.is_none()));
    }
}
