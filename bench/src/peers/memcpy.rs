//! A limit: values lie uncompressed in memory and are copied out. What a get costs that does
//! nothing but hand over bytes, and what the harness itself costs.

use std::collections::BTreeMap;
use std::path::Path;

use ppc_store::{Error, Result};

use super::{Built, Codec, Input, Peer, Reader, Resources, Store, StoreSpec, Wanted};
use crate::corpus::Corpus;
use crate::results::Load;

/// Copies in memory.
pub(super) struct Memcpy;

impl Peer for Memcpy {
    fn name(&self) -> &'static str {
        "memcpy"
    }

    fn lacks(&self) -> &'static str {
        "a limit, not a store: in memory, no files, no compression, no index, no updates"
    }

    fn supports(&self, spec: &StoreSpec) -> bool {
        spec.codec == Codec::None && spec.load == Load::Sorted && spec.dictionary_bytes == 0
    }

    fn options(&self, _spec: &StoreSpec, _resources: &Resources) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn build(
        &self,
        _spec: &StoreSpec,
        input: Input<'_>,
        _resources: &Resources,
        _dir: &Path,
    ) -> Result<Built> {
        let mut copy: Vec<u8> = Vec::new();
        for (_, value) in input.entries() {
            copy.clear();
            copy.extend_from_slice(value);
            std::hint::black_box(&copy);
        }
        Ok(Built::default())
    }

    fn open<'a>(
        &self,
        _spec: &StoreSpec,
        corpus: &'a Corpus,
        _resources: &Resources,
        _dir: &Path,
    ) -> Result<Box<dyn Store + 'a>> {
        Ok(Box::new(Open { corpus }))
    }

    fn stored_bytes(&self, corpus: &Corpus, _dir: &Path) -> Result<u64> {
        Ok(corpus.raw_bytes())
    }

    fn is_limit(&self) -> bool {
        true
    }

    fn can_update(&self) -> bool {
        false
    }
}

struct Open<'a> {
    corpus: &'a Corpus,
}

impl Store for Open<'_> {
    fn reader(&self) -> Box<dyn Reader + '_> {
        Box::new(Copier {
            corpus: self.corpus,
            copy: Vec::new(),
        })
    }
}

struct Copier<'a> {
    corpus: &'a Corpus,
    copy: Vec<u8>,
}

impl Reader for Copier<'_> {
    fn get(&mut self, wanted: Wanted<'_>, found: &mut dyn FnMut(&[u8])) -> Result<()> {
        let ordinal = wanted.ordinal as usize;
        if ordinal >= self.corpus.len() {
            return Err(Error::invalid_input("memcpy finds values only by ordinal"));
        }
        self.copy.clear();
        self.copy.extend_from_slice(self.corpus.value(ordinal));
        found(&self.copy);
        Ok(())
    }

    fn scan(&mut self, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        for (key, value) in self.corpus.iter() {
            self.copy.clear();
            self.copy.extend_from_slice(value);
            found(key, &self.copy);
        }
        Ok(())
    }
}
