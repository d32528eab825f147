//! What a walk leaves out whatever a directory holds: the store that an import writes, and what else
//! the import itself makes.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ppc_engine::{Error, Result};

use crate::import::names;

/// A file or directory that is no part of any source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excluded {
    /// Its path. It need not exist yet.
    pub path: PathBuf,
    /// What it is, for messages: "the store that is written".
    pub what: String,
}

/// Exclusions by the paths that a walk of real paths meets.
#[derive(Debug, Clone)]
pub(super) struct Exclusions(HashMap<PathBuf, String>);

impl Exclusions {
    pub(super) fn new(excluded: &[Excluded]) -> Self {
        let real = excluded
            .iter()
            .map(|it| (real_path(&it.path), it.what.clone()));
        Self(real.collect())
    }

    /// Fails if `root` is, or lies in, what is excluded.
    pub(super) fn check_root(&self, root: &Path) -> Result<()> {
        let real = real_path(root);
        let within = real.ancestors().find_map(|path| self.0.get(path));
        within.map_or(Ok(()), |what| {
            Err(
                Error::invalid_input(format!("this source is {what}, or lies in it"))
                    .at_path(root)
                    .with_remedy("name another source, or another store"),
            )
        })
    }

    /// Those below `root` that exist, and what they are.
    pub(super) fn below<'a>(&'a self, root: &'a Path) -> impl Iterator<Item = (&'a Path, &'a str)> {
        self.0.iter().filter_map(move |(path, what)| {
            let place = path.strip_prefix(root).ok()?;
            path.symlink_metadata().ok()?;
            Some((place, what.as_str()))
        })
    }

    /// Whether the walk passes over this entry and all below it.
    pub(super) fn hold(&self, path: &Path, name: &OsStr) -> bool {
        self.0.contains_key(path) || names::is_scratch(name)
    }
}

/// The path without links; of what is not there yet, as it will be.
fn real_path(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    match (parent.canonicalize(), path.file_name()) {
        (Ok(parent), Some(name)) => parent.join(name),
        _ => path.to_path_buf(),
    }
}
