//! Plain files in a directory, spread over 256 folders by the first byte of their hash: what
//! anyone has without a store.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use ppc_store::{Error, Result};

use super::{Built, Codec, Input, Peer, Reader, Resources, Store, StoreSpec, Update, Wanted};
use crate::corpus::Corpus;
use crate::results::Load;

/// Bytes of hash at the end of a PPC key.
const HASH_BYTES: usize = 20;

/// A file takes whole blocks of the file system.
const FILE_SYSTEM_BLOCK_BYTES: u64 = 4096;

/// Plain files.
pub(super) struct Files;

/// Writes the path of a key's file into `path`, which holds the directory.
fn push_file(path: &mut PathBuf, key: &[u8]) {
    let hash = key.get(key.len().saturating_sub(HASH_BYTES)..);
    let name = hexadecimal(hash.unwrap_or_default());
    let (folder, file) = name.split_at_checked(2).unwrap_or(("", &name));
    path.push(folder);
    path.push(file);
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or_default();
    let digits = bytes
        .iter()
        .flat_map(|&byte| [digit(byte >> 4), digit(byte & 15)]);
    digits.collect()
}

impl Peer for Files {
    fn name(&self) -> &'static str {
        "files"
    }

    fn lacks(&self) -> &'static str {
        "no compression, no key but the hash, no key order"
    }

    fn supports(&self, spec: &StoreSpec) -> bool {
        spec.codec == Codec::None
            && spec.dictionary_bytes == 0
            && matches!(spec.load, Load::Puts | Load::ShuffledPuts)
    }

    fn options(&self, _spec: &StoreSpec, _resources: &Resources) -> BTreeMap<String, String> {
        let bytes = FILE_SYSTEM_BLOCK_BYTES.to_string();
        BTreeMap::from([("file_system_block_bytes".into(), bytes)])
    }

    fn build(
        &self,
        _spec: &StoreSpec,
        input: Input<'_>,
        _resources: &Resources,
        dir: &Path,
    ) -> Result<Built> {
        for folder in 0..=u8::MAX {
            let folder = dir.join(hexadecimal(&[folder]));
            fs::create_dir(&folder).map_err(|error| Error::io("create", &folder, error))?;
        }
        let mut written = 0;
        for (key, value) in input.entries() {
            let mut path = dir.to_path_buf();
            push_file(&mut path, key);
            fs::write(&path, value).map_err(|error| Error::io("write", &path, error))?;
            written += value.len() as u64;
        }
        Ok(Built {
            written_bytes: Some(written),
        })
    }

    fn open<'a>(
        &self,
        _spec: &StoreSpec,
        _corpus: &'a Corpus,
        _resources: &Resources,
        dir: &Path,
    ) -> Result<Box<dyn Store + 'a>> {
        let dir = dir.to_path_buf();
        Ok(Box::new(Open { dir }))
    }

    /// Files by their lengths, each rounded up to the file system's blocks.
    fn stored_bytes(&self, corpus: &Corpus, _dir: &Path) -> Result<u64> {
        let allocated = |(_, value): (&[u8], &[u8])| {
            (value.len() as u64).next_multiple_of(FILE_SYSTEM_BLOCK_BYTES)
        };
        Ok(corpus.iter().map(allocated).sum())
    }

    fn can_scan(&self) -> bool {
        false
    }
}

struct Open {
    dir: PathBuf,
}

impl Store for Open {
    fn reader(&self) -> Box<dyn Reader + '_> {
        Box::new(FileReader {
            dir: &self.dir,
            content: Vec::new(),
        })
    }

    fn update(&self, update: Update<'_>) -> Result<()> {
        let mut path = self.dir.clone();
        match update {
            Update::Put(key, value) => {
                push_file(&mut path, key);
                fs::write(&path, value).map_err(|error| Error::io("write", &path, error))
            }
            Update::Delete(key) => {
                push_file(&mut path, key);
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        Err(Error::io("remove", &path, error))
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

struct FileReader<'a> {
    dir: &'a Path,
    content: Vec<u8>,
}

impl Reader for FileReader<'_> {
    fn get(&mut self, wanted: Wanted<'_>, found: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut path = self.dir.to_path_buf();
        push_file(&mut path, wanted.key);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io("open", &path, error)),
        };
        self.content.clear();
        file.read_to_end(&mut self.content)
            .map_err(|error| Error::io("read", &path, error))?;
        found(&self.content);
        Ok(())
    }
}
