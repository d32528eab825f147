//! The stores under test, behind one interface.
//!
//! A [`Peer`] builds a store in a directory and opens it; a [`Store`] answers through [`Reader`]s.
//! Each thread has a reader of its own, which owns its buffers: nothing in a measured loop is
//! shared but what the store itself shares. Values are lent to the caller in the cheapest way the
//! store offers, so that no peer pays for a copy that only the bench wants.
//!
//! To add a peer, write its file and name it in [`all`].

mod codec;
mod disk;
mod files;
#[cfg(feature = "fjall")]
mod fjall;
mod memcpy;
mod ppc;
mod raw_zstd;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(test)]
mod tests;
#[cfg(feature = "zip")]
mod zip;

use std::collections::BTreeMap;
use std::path::Path;

use ppc_store::{Error, ErrorKind, Result};

pub use codec::Codec;
pub(crate) use disk::{copy_directory, directory_bytes, drop_from_page_cache};

use crate::corpus::Corpus;
use crate::results::Load;

/// Everything that a built store depends on, apart from its values.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreSpec {
    /// [`Peer::name`].
    pub peer: &'static str,
    /// How values come in.
    pub load: Load,
    /// Compression and its level.
    pub codec: Codec,
    /// `blocks`, or a profile of the clustered layout; `files` for a unit a value.
    pub layout: &'static str,
    /// Target of uncompressed bytes in a block; 0 where there are no blocks.
    pub block_bytes: u32,
    /// Bytes of trained dictionary for each table; 0 for none.
    pub dictionary_bytes: u32,
    /// Bytes of decoded blocks that the open store may cache.
    pub cache_bytes: u64,
}

impl std::fmt::Display for StoreSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.peer, self.codec)?;
        if self.block_bytes > 0 {
            write!(f, "/{}K", self.block_bytes >> 10)?;
        }
        if self.dictionary_bytes > 0 {
            write!(f, " dict {}K", self.dictionary_bytes >> 10)?;
        }
        if self.layout != "blocks" && self.layout != "files" {
            write!(f, " {}", self.layout)?;
        }
        match self.load {
            Load::Puts => write!(f, " puts"),
            Load::ShuffledPuts => write!(f, " shuffled puts"),
            Load::Sorted => write!(f, " sorted"),
            Load::Shuffled => write!(f, " shuffled"),
        }
    }
}

/// What a store may use of the machine.
#[derive(Debug, Clone, Copy)]
pub struct Resources {
    /// Threads that build, compress and compact; at least 1.
    pub threads: usize,
    /// Bytes of memory for values on their way to disk: write buffers, memtables.
    pub write_buffer_bytes: u64,
}

impl Resources {
    /// The paper gives RocksDB write buffers of 2 GiB on a machine with 768 GiB. This is the same
    /// share of `memory_bytes`, from 64 MiB to 2 GiB.
    #[must_use]
    pub fn scaled(threads: usize, memory_bytes: u64) -> Self {
        Self {
            threads: threads.max(1),
            write_buffer_bytes: (memory_bytes / 384).clamp(64 << 20, 2 << 30),
        }
    }
}

/// What goes into a store, and in what order.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// Keys and values.
    pub corpus: &'a Corpus,
    /// Ordinals in the order of their arrival; none for key order.
    pub order: Option<&'a [u32]>,
}

impl<'a> Input<'a> {
    /// Keys and values in the order of their arrival.
    pub(crate) fn entries(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        (0..self.corpus.len()).map(move |position| {
            let ordinal = match self.order {
                Some(order) => order.get(position).map_or(position, |&it| it as usize),
                None => position,
            };
            (self.corpus.key(ordinal), self.corpus.value(ordinal))
        })
    }
}

/// What a build says of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Built {
    /// Bytes written to files, where the store counts them.
    pub written_bytes: Option<u64>,
}

/// A kind of store.
pub trait Peer: Sync {
    /// Its name in results and on the command line.
    fn name(&self) -> &'static str;

    /// What it honestly lacks beside a store that answers any key from disk; empty for nothing.
    fn lacks(&self) -> &'static str;

    /// Whether it can be built so.
    fn supports(&self, spec: &StoreSpec) -> bool;

    /// The options that a cell does not name.
    fn options(&self, spec: &StoreSpec, resources: &Resources) -> BTreeMap<String, String>;

    /// Builds a store in an empty directory, waits until nothing is left to do in the background,
    /// and closes it.
    fn build(
        &self,
        spec: &StoreSpec,
        input: Input<'_>,
        resources: &Resources,
        dir: &Path,
    ) -> Result<Built>;

    /// Opens a store that was built there. `corpus` is what was built from: the limits, which have
    /// no index of their own, know by it where a value lies.
    fn open<'a>(
        &self,
        spec: &StoreSpec,
        corpus: &'a Corpus,
        resources: &Resources,
        dir: &Path,
    ) -> Result<Box<dyn Store + 'a>>;

    /// Bytes of all files of a closed store.
    fn stored_bytes(&self, corpus: &Corpus, dir: &Path) -> Result<u64> {
        let _ = corpus;
        directory_bytes(dir)
    }

    /// Whether it takes part where the keys of one call, or of all calls, matter: whether there is
    /// an index, an order and an update. The limits have none.
    fn is_limit(&self) -> bool {
        false
    }

    /// Whether it can be read in key order from one end to the other.
    fn can_scan(&self) -> bool {
        true
    }

    /// Whether values of a built store can be replaced and deleted.
    fn can_update(&self) -> bool {
        true
    }
}

/// A key to look up.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Which key of the corpus it is; `u32::MAX` for one that it does not hold. Only limits look
    /// at it.
    pub ordinal: u32,
}

/// A change to a built store.
#[derive(Debug, Clone, Copy)]
pub enum Update<'a> {
    /// Gives the key this value.
    Put(&'a [u8], &'a [u8]),
    /// Removes the key.
    Delete(&'a [u8]),
}

/// An open store, shared by threads.
pub trait Store: Sync {
    /// A reader for one thread.
    fn reader(&self) -> Box<dyn Reader + '_>;

    /// Bytes decompressed since the store was opened, where it counts them.
    fn decoded_bytes(&self) -> Option<u64> {
        None
    }

    /// Makes one change, logged as the store logs by default: handed to the operating system.
    fn update(&self, update: Update<'_>) -> Result<()> {
        let _ = update;
        Err(unsupported("updates"))
    }
}

/// One thread's way to a store.
pub trait Reader {
    /// Lends the value to `found`, once, if there is one.
    fn get(&mut self, wanted: Wanted<'_>, found: &mut dyn FnMut(&[u8])) -> Result<()>;

    /// Lends each value that there is to `found`, with its place among `wanted`, in any order.
    fn multi_get(
        &mut self,
        wanted: &[Wanted<'_>],
        found: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<()> {
        for (place, &one) in wanted.iter().enumerate() {
            self.get(one, &mut |value| found(place, value))?;
        }
        Ok(())
    }

    /// Lends every key and value in key order.
    fn scan(&mut self, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let _ = found;
        Err(unsupported("scans"))
    }
}

fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("this peer has no {what}"))
}

/// Wraps the error of a peer's library, met while doing `action`.
#[cfg(any(feature = "rocksdb", feature = "fjall", feature = "zip"))]
fn foreign(
    peer: &str,
    action: &str,
    source: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    let message = format!("{peer} cannot {action}: {source}");
    Error::new(ErrorKind::Failed, message).with_source(source)
}

/// Every peer that this program was built with, ours first.
#[must_use]
pub fn all() -> Vec<&'static dyn Peer> {
    vec![
        &ppc::Ppc,
        #[cfg(feature = "rocksdb")]
        &rocksdb::RocksDb,
        #[cfg(feature = "fjall")]
        &fjall::Fjall,
        &files::Files,
        #[cfg(feature = "zip")]
        &zip::Zip,
        &raw_zstd::RawZstd,
        &memcpy::Memcpy,
    ]
}

/// The peer of that name.
pub fn named(name: &str) -> Result<&'static dyn Peer> {
    let peers = all();
    if let Some(peer) = peers.iter().find(|peer| peer.name() == name) {
        return Ok(*peer);
    }
    let names: Vec<_> = peers.iter().map(|peer| peer.name()).collect();
    let error = Error::invalid_input(format!(
        "no peer is called {name:?}; this program knows {}",
        names.join(", ")
    ));
    if ["rocksdb", "fjall", "zip"].contains(&name) {
        return Err(error.with_remedy(format!("build it with `--features {name}`")));
    }
    Err(error)
}
