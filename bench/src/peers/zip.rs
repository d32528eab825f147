//! One zip archive whose members are compressed alone by zstd (method 93) or deflate: random
//! access as every platform knows it, without similarity between files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use ::zip::write::SimpleFileOptions;
use ::zip::{CompressionMethod, ZipArchive, ZipWriter};
use ppc_store::{Error, Result};

use super::files::hexadecimal;
use super::{Built, Codec, Input, Peer, Reader, Resources, Store, StoreSpec, Wanted, foreign};
use crate::corpus::Corpus;
use crate::results::Load;

const FILE_NAME: &str = "contents.zip";

/// Bytes of hash at the end of a PPC key.
const HASH_BYTES: usize = 20;

/// A zip archive.
pub(super) struct Zip;

fn options(codec: Codec) -> Option<SimpleFileOptions> {
    let (method, level) = match codec {
        Codec::None => (CompressionMethod::Stored, None),
        Codec::Zstd(level) => (CompressionMethod::Zstd, Some(i64::from(level))),
        Codec::Zlib(level) => (CompressionMethod::Deflated, Some(i64::from(level))),
        Codec::Snappy | Codec::Lz4 => return None,
    };
    let options = SimpleFileOptions::default().compression_method(method);
    Some(options.compression_level(level))
}

/// A member is named by the hash in the key.
fn member(key: &[u8]) -> String {
    let hash = key.get(key.len().saturating_sub(HASH_BYTES)..);
    hexadecimal(hash.unwrap_or_default())
}

impl Peer for Zip {
    fn name(&self) -> &'static str {
        "zip"
    }

    fn lacks(&self) -> &'static str {
        "no key but the hash, no key order, no updates; one thread writes; the whole directory is \
         read into memory to open it"
    }

    fn supports(&self, spec: &StoreSpec) -> bool {
        options(spec.codec).is_some() && spec.dictionary_bytes == 0 && spec.load == Load::Sorted
    }

    fn options(&self, _spec: &StoreSpec, _resources: &Resources) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn build(
        &self,
        spec: &StoreSpec,
        input: Input<'_>,
        _resources: &Resources,
        dir: &Path,
    ) -> Result<Built> {
        let options = options(spec.codec)
            .ok_or_else(|| Error::invalid_input(format!("zip cannot be built as {spec}")))?;
        let path = dir.join(FILE_NAME);
        let file = File::create(&path).map_err(|error| Error::io("create", &path, error))?;
        let mut archive = ZipWriter::new(BufWriter::new(file));
        for (key, value) in input.entries() {
            archive
                .start_file(member(key), options)
                .map_err(|error| foreign("zip", "add a file", error))?;
            archive
                .write_all(value)
                .map_err(|error| Error::io("write", &path, error))?;
        }
        let mut file = archive
            .finish()
            .map_err(|error| foreign("zip", "finish the archive", error))?;
        file.flush()
            .map_err(|error| Error::io("write", &path, error))?;
        Ok(Built::default())
    }

    fn open<'a>(
        &self,
        _spec: &StoreSpec,
        _corpus: &'a Corpus,
        _resources: &Resources,
        dir: &Path,
    ) -> Result<Box<dyn Store + 'a>> {
        let path = dir.join(FILE_NAME);
        Ok(Box::new(Open { path }))
    }

    fn can_scan(&self) -> bool {
        false
    }

    fn can_update(&self) -> bool {
        false
    }
}

struct Open {
    path: PathBuf,
}

impl Store for Open {
    fn reader(&self) -> Box<dyn Reader + '_> {
        Box::new(ArchiveReader {
            path: &self.path,
            archive: None,
            content: Vec::new(),
        })
    }
}

/// Each reader opens the archive for itself, at its first get: the directory holds the position in
/// the file, and cannot be shared.
struct ArchiveReader<'a> {
    path: &'a Path,
    archive: Option<ZipArchive<BufReader<File>>>,
    content: Vec<u8>,
}

impl Reader for ArchiveReader<'_> {
    fn get(&mut self, wanted: Wanted<'_>, found: &mut dyn FnMut(&[u8])) -> Result<()> {
        let archive = match &mut self.archive {
            Some(archive) => archive,
            none => {
                let file = File::open(self.path);
                let file = file.map_err(|error| Error::io("open", self.path, error))?;
                let archive = ZipArchive::new(BufReader::new(file));
                none.insert(archive.map_err(|error| foreign("zip", "open the archive", error))?)
            }
        };
        let Some(index) = archive.index_for_name(&member(wanted.key)) else {
            return Ok(());
        };
        let mut file = archive
            .by_index(index)
            .map_err(|error| foreign("zip", "open a member", error))?;
        self.content.clear();
        file.read_to_end(&mut self.content)
            .map_err(|error| Error::io("read", self.path, error))?;
        found(&self.content);
        Ok(())
    }
}
