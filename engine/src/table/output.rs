//! The file of a table being written: an append buffer that knows the offset, and units.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::footer::{FOOTER_BYTES, encode_header};
use super::unit::{UnitCodec, UnitHeader, UnitKind};
use crate::error::{Error, Result};
use crate::types::FileId;
use crate::vfs::{Vfs, WritableFile};

/// Bytes gathered before they are handed to the file.
const BUFFER_BYTES: usize = 256 << 10;

/// Where sections start: at multiples of this, so that a filter in a mapping is aligned.
const SECTION_ALIGNMENT: u64 = 8;

/// The file. Removed again when dropped before [`Output::finish`].
#[derive(Debug)]
pub(crate) struct Output {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    file: Option<Box<dyn WritableFile>>,
    buffer: Vec<u8>,
    offset: u64,
    id: FileId,
}

impl Output {
    /// Creates the file and writes its header.
    pub(crate) fn create(vfs: &Arc<dyn Vfs>, path: PathBuf) -> Result<Self> {
        let file = vfs
            .create(&path)
            .map_err(|error| Error::io("create", &path, error))?;
        let id = FileId::random();
        let mut output = Self {
            vfs: Arc::clone(vfs),
            path,
            file: Some(file),
            buffer: Vec::with_capacity(BUFFER_BYTES),
            offset: 0,
            id,
        };
        output.append(&encode_header(id))?;
        Ok(output)
    }

    /// The random id in the file's header.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// Where the next byte goes.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.hand_over()?;
        }
        self.offset += bytes.len() as u64;
        if bytes.len() >= BUFFER_BYTES {
            return self.write(|file| file.append(bytes));
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn hand_over(&mut self) -> Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        let outcome = self.write(|file| file.append(&buffer));
        self.buffer = buffer;
        self.buffer.clear();
        outcome
    }

    fn write(
        &mut self,
        call: impl FnOnce(&mut dyn WritableFile) -> std::io::Result<()>,
    ) -> Result<()> {
        let file = self
            .file
            .as_deref_mut()
            .ok_or_else(|| Error::invalid_input("table file is closed"))?;
        call(file).map_err(|error| Error::io("write", &self.path, error))
    }

    /// Appends a unit and returns where it starts.
    pub(crate) fn unit(
        &mut self,
        kind: UnitKind,
        codec: UnitCodec,
        ordinal: u32,
        raw_len: u32,
        stored: &[u8],
    ) -> Result<u64> {
        let offset = self.offset;
        let header = UnitHeader::encode(kind, codec, ordinal, raw_len, stored, self.id, offset)?;
        self.append(&header)?;
        self.append(stored)?;
        Ok(offset)
    }

    /// Appends an aligned section and returns the range it fills.
    pub(crate) fn section(
        &mut self,
        kind: UnitKind,
        stored: &[u8],
    ) -> Result<std::ops::Range<u64>> {
        let raw_len = u32::try_from(stored.len())
            .map_err(|_| Error::limit(format!("{} exceeds 4 GiB", kind.name())))?;
        let padding = self.offset.next_multiple_of(SECTION_ALIGNMENT) - self.offset;
        self.append(&vec![0; padding as usize])?;
        let start = self.unit(kind, UnitCodec::Raw, 0, raw_len, stored)?;
        Ok(start..self.offset)
    }

    /// Appends the footer, syncs the file and keeps it. Returns its length.
    pub(crate) fn finish(mut self, footer: &[u8; FOOTER_BYTES]) -> Result<u64> {
        self.append(footer)?;
        self.hand_over()?;
        self.write(|file| file.sync())
            .map_err(|error| error.at_path(&self.path))?;
        self.file = None;
        Ok(self.offset)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Best effort: what is left behind is an orphan that the next opening removes.
            let _ = self.vfs.remove(&self.path);
        }
    }
}
