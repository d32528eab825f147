//! A table's open file: units out of the mapping, or by positioned reads.
//!
//! Reading by position, a unit whose checksum is wrong is read once more before it is called
//! corrupt: a bit that flipped on the way is not on the disk. A mapping has nothing to read again.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::unit::{UNIT_HEADER_BYTES, Unit, UnitCodec, UnitKind, open_unit};
use crate::error::{Error, ErrorKind, Result};
use crate::options::ReadMode;
use crate::types::FileId;
use crate::vfs::{Advice, ReadableFile, Vfs};

/// The file.
#[derive(Debug)]
pub(crate) struct TableFile {
    path: PathBuf,
    file: Arc<dyn ReadableFile>,
    mode: ReadMode,
    id: FileId,
}

/// A section's stored bytes: a place in the mapping, or a copy.
#[derive(Debug)]
pub(crate) enum Section {
    Mapped(Range<usize>),
    Owned(Vec<u8>),
}

impl TableFile {
    /// Opens the file; its id is not known yet.
    pub(crate) fn open(vfs: &dyn Vfs, path: &Path, mode: ReadMode) -> Result<Self> {
        let file = vfs
            .open(path, mode)
            .map_err(|error| Error::io("open", path, error))?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
            mode,
            id: FileId::default(),
        })
    }

    /// Sets the id that every checksum is salted with.
    pub(crate) fn identify(&mut self, id: FileId) {
        self.id = id;
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn len(&self) -> u64 {
        self.file.len()
    }

    /// Tells the kernel what will be read.
    pub(crate) fn advise(&self, advice: Advice, range: Range<u64>) {
        self.file.advise(advice, range);
    }

    /// Whether units are read in place.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mode == ReadMode::Mmap && self.file.mapping().is_some()
    }

    /// The bytes in the mapping; none if there is no mapping or they lie outside.
    pub(crate) fn mapped(&self, range: &Range<u64>) -> Option<&[u8]> {
        if self.mode != ReadMode::Mmap {
            return None;
        }
        let start = usize::try_from(range.start).ok()?;
        let end = usize::try_from(range.end).ok()?;
        self.file.mapping()?.get(start..end)
    }

    /// Reads bytes into `buffer`, whose content they replace.
    pub(crate) fn read(&self, range: &Range<u64>, buffer: &mut Vec<u8>) -> Result<()> {
        let len = range
            .end
            .checked_sub(range.start)
            .filter(|_| range.end <= self.len())
            .and_then(|len| usize::try_from(len).ok())
            .ok_or_else(|| Error::corruption("unit lies outside the file"))?;
        buffer.clear();
        buffer.resize(len, 0);
        self.file
            .read_exact_at(buffer, range.start)
            .map_err(|error| Error::io("read", &self.path, error).at_offset(range.start))
    }

    /// The verified unit that fills `range`, in the mapping or read into `buffer`.
    pub(crate) fn unit<'a>(
        &'a self,
        kind: UnitKind,
        range: &Range<u64>,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Unit<'a>> {
        if self.is_mapped() {
            let bytes = self
                .mapped(range)
                .ok_or_else(|| Error::corruption("unit lies outside the file"))
                .map_err(|error| error.at_offset(range.start))?;
            return open_unit(bytes, kind, self.id, range.start);
        }
        self.read(range, buffer)
            .map_err(|error| error.at_offset(range.start))?;
        let header = match open_unit(buffer, kind, self.id, range.start) {
            Ok(unit) => unit.header,
            Err(error) if error.kind() == ErrorKind::Corruption => {
                self.read(range, buffer)?;
                open_unit(buffer, kind, self.id, range.start)?.header
            }
            Err(error) => return Err(error),
        };
        Ok(Unit {
            header,
            stored: buffer.get(UNIT_HEADER_BYTES..).unwrap_or_default(),
        })
    }

    /// Verifies a section and keeps it at hand.
    pub(crate) fn section(&self, kind: UnitKind, range: &Range<u64>) -> Result<Section> {
        let mut buffer = Vec::new();
        let unit = self.unit(kind, range, &mut buffer)?;
        if unit.header.codec != UnitCodec::Raw {
            return Err(
                Error::corruption(format!("{} is compressed", kind.name())).at_offset(range.start)
            );
        }
        if self.is_mapped() {
            let start = usize::try_from(range.start).unwrap_or(usize::MAX);
            let end = usize::try_from(range.end).unwrap_or(usize::MAX);
            return Ok(Section::Mapped(
                start.saturating_add(UNIT_HEADER_BYTES)..end,
            ));
        }
        Ok(Section::Owned(buffer))
    }

    /// A section's stored bytes.
    pub(crate) fn bytes<'a>(&'a self, section: &'a Section) -> &'a [u8] {
        match section {
            Section::Mapped(range) => self
                .file
                .mapping()
                .and_then(|mapping| mapping.get(range.clone()))
                .unwrap_or_default(),
            Section::Owned(unit) => unit.get(UNIT_HEADER_BYTES..).unwrap_or_default(),
        }
    }
}

impl Section {
    /// Bytes of memory it takes beyond the mapping.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Mapped(_) => 0,
            Self::Owned(bytes) => bytes.capacity(),
        }
    }
}
