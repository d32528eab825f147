//! Gathering a corpus from a pinned list, and pinning a list.

#[cfg(test)]
#[cfg(feature = "zip")]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ppc_store::source::{Source, SourceOptions, TarSource};
use ppc_store::{Error, ErrorKind, Result};

use super::ahead::Ahead;
use super::downloads::Downloads;
use super::features::Features;
use super::list::{PackageList, PinnedArchive};
use super::selected::{Opening, Selected, Selection};
use super::size::ByteSize;
use super::watch::Watch;
use super::write::write;

/// Where archives come from, and how many at once.
#[derive(Debug, Clone)]
pub(super) struct DownloadOptions {
    /// Where they are kept.
    pub(super) dir: PathBuf,
    /// Downloads at once.
    pub(super) jobs: usize,
}

/// How much of a list is gathered.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Amount {
    /// Bytes of distinct files at which it ends; the whole list if `None`.
    pub(super) raw_bytes_max: Option<u64>,
    /// Go on without archives that cannot be had. The corpus is then another one.
    pub(super) skip_missing: bool,
}

/// Gathers the packages of `list` in order, and writes them to `out`.
pub(super) fn gather(
    list: &PackageList,
    amount: Amount,
    downloads: &DownloadOptions,
    out: &Path,
    overwrite: bool,
) -> Result<Features> {
    let watch = Arc::new(Watch::new());
    let missing = Arc::new(AtomicU64::new(0));
    let archives = list.archives();
    let cache = Downloads::open(&downloads.dir, &list.suites)?;
    let get = move |archive: &PinnedArchive| cache.get(archive);
    let mut queue = Queue {
        count: archives.len(),
        ahead: Ahead::start(archives, downloads.jobs, Box::new(get)),
        next: 0,
        bytes: 0,
        skip_missing: amount.skip_missing,
        missing: Arc::clone(&missing),
        watch: Arc::clone(&watch),
    };
    let opening: Opening = Box::new(move |i| queue.open(i));
    let selection = Selection {
        language: Some(list.language),
        raw_bytes_max: amount.raw_bytes_max,
    };
    let source = Box::new(Selected::new(list.language.name(), opening, selection));
    let from = format!("the pinned list of {} packages", list.language.name());
    let mut features = write(source, out, overwrite, &from, &*watch)?;
    watch.finish();
    let missing = missing.load(Ordering::Relaxed);
    if missing > 0 {
        features.gathered_from = format!("{from}, without {missing} that could not be had");
        features.write(out)?;
    }
    let raw_bytes = features.corpus.raw_bytes;
    if amount.raw_bytes_max.is_some_and(|bytes| raw_bytes < bytes) {
        watch.say(&format!(
            "the list has no more than {}",
            ByteSize(raw_bytes)
        ));
    }
    Ok(features)
}

/// The archives of a list, opened one after the other.
struct Queue {
    ahead: Ahead,
    count: usize,
    /// The next archive of the list, which is not the next source where some are missing.
    next: usize,
    bytes: u64,
    skip_missing: bool,
    missing: Arc<AtomicU64>,
    watch: Arc<Watch>,
}

impl Queue {
    /// Opens the `i`-th source; the first begins the list anew.
    fn open(&mut self, i: usize) -> Option<Result<Box<dyn Source>>> {
        if i == 0 {
            (self.next, self.bytes) = (0, 0);
            self.missing.store(0, Ordering::Relaxed);
        }
        loop {
            let (archive, download) = self.ahead.take(self.next)?;
            self.next += 1;
            match download {
                Ok(download) => {
                    self.bytes += download.bytes;
                    let (next, count, bytes) = (self.next, self.count, ByteSize(self.bytes));
                    let note = format!("({archive}, {next} of {count} archives, {bytes})");
                    self.watch.note(note);
                    return Some(open(&download.path));
                }
                // Another archive than the pinned one is not missing: something is wrong.
                Err(error) if self.skip_missing && error.kind() != ErrorKind::Corruption => {
                    self.missing.fetch_add(1, Ordering::Relaxed);
                    self.watch.say(&format!("left out: {error}"));
                }
                Err(error) => {
                    let remedy = "run again, or leave out what cannot be had with --skip-missing";
                    return Some(Err(error.with_remedy(remedy)));
                }
            }
        }
    }
}

/// Opens a downloaded archive as what it is.
fn open(path: &Path) -> Result<Box<dyn Source>> {
    let options = SourceOptions::default();
    let is_zip = path
        .extension()
        .is_some_and(|ending| ending == "whl" || ending == "zip");
    if is_zip {
        open_zip(path, options.file_bytes_max)
    } else {
        Ok(Box::new(TarSource::open(path, &options)?))
    }
}

#[cfg(feature = "zip")]
fn open_zip(path: &Path, file_bytes_max: u64) -> Result<Box<dyn Source>> {
    Ok(Box::new(super::wheel::ZipSource::open(
        path,
        file_bytes_max,
    )))
}

#[cfg(not(feature = "zip"))]
fn open_zip(path: &Path, _: u64) -> Result<Box<dyn Source>> {
    Err(
        Error::new(ErrorKind::Unsupported, "this build cannot read wheels")
            .at_path(path)
            .with_remedy("build with the feature \"zip\""),
    )
}

/// Fills in the checksums that the list at `path` lacks, and writes it back. Comments at its head
/// stay. With `drop_missing`, versions that cannot be had are taken out of it.
pub(super) fn pin(path: &Path, downloads: &DownloadOptions, drop_missing: bool) -> Result<()> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::io("read", path, error))?;
    let mut list = PackageList::parse(&text).map_err(|error| error.at_path(path))?;
    let wanted: Vec<PinnedArchive> = list
        .archives()
        .into_iter()
        .filter(|archive| archive.pin.sha256.is_none())
        .collect();
    let count = wanted.len();
    let cache = Downloads::open(&downloads.dir, &list.suites)?;
    let get = move |archive: &PinnedArchive| cache.get_unchecked(archive);
    let ahead = Ahead::start(wanted, downloads.jobs, Box::new(get));
    let mut missing = Vec::new();
    let mut bytes = 0;
    let mut i = 0;
    while let Some((archive, download)) = ahead.take(i) {
        i += 1;
        match download {
            Ok(download) => {
                bytes += download.bytes;
                eprintln!("{i} of {count}, {}: {archive}", ByteSize(bytes));
                for pin in pins_of(&mut list, archive) {
                    pin.bytes = Some(download.bytes);
                    pin.sha256 = Some(download.sha256.clone());
                }
            }
            Err(error) => {
                eprintln!("{error}");
                missing.push(archive.clone());
            }
        }
    }
    if drop_missing {
        for package in &mut list.packages {
            package.archives.retain(|pin| pin.sha256.is_some());
        }
        list.packages.retain(|package| !package.archives.is_empty());
    }
    let head: String = text
        .split_inclusive('\n')
        .take_while(|line| line.starts_with('#') || line.trim().is_empty())
        .collect();
    std::fs::write(path, format!("{head}{list}"))
        .map_err(|error| Error::io("write", path, error))?;
    if missing.is_empty() || drop_missing {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::NotFound,
        format!("{} of {count} archives could not be had", missing.len()),
    )
    .at_path(path)
    .with_remedy("run again, or take them out of the list, as --drop-missing does"))
}

/// The entries of the list that the archive stands for.
fn pins_of<'a>(
    list: &'a mut PackageList,
    archive: &'a PinnedArchive,
) -> impl Iterator<Item = &'a mut super::list::Pin> {
    let packages = list.packages.iter_mut();
    packages
        .filter(|package| package.client == archive.client && package.name == archive.name)
        .flat_map(|package| &mut package.archives)
        .filter(|pin| pin.version == archive.pin.version)
}
