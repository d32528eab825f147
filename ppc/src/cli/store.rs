//! Opening the store that a command names.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use ppc_engine::{ClusterOptions, Compression, Layout, TableOptions, describe_store};
use ppc_store::archive::{
    Archive, ArchiveOptions, BLOCK_BYTES_DEFAULT, CONTENTS, Selection, ZSTD_LEVEL_DEFAULT,
};
use ppc_store::source::Excluded;
use ppc_store::{Error, ErrorKind, key};

use super::failure::Failure;
use super::size::ByteSize;

/// The store, first argument of every command that needs one.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Directory of the store
    #[arg(value_name = "STORE")]
    pub(crate) store: PathBuf,
}

impl StoreArgs {
    /// The store as something that is no source, whatever folder holds it.
    pub(crate) fn excluded(&self) -> Excluded {
        Excluded {
            path: self.store.clone(),
            what: match holds_other_files(&self.store) {
                false => "the store itself".to_owned(),
                // Most likely the store was left out of the command line.
                true => "the first path, which is that of the store".to_owned(),
            },
        }
    }

    /// For reading, beside any other process.
    pub(crate) fn open_read_only(&self) -> Result<Archive, Failure> {
        self.check_directory()?;
        let mut options = ArchiveOptions::default();
        options.db.create_if_missing = false;
        let archive = Archive::open_read_only(&self.store, options);
        archive.map_err(|error| explain_open(error, &self.store))
    }

    /// Refuses a path that is a file, such as one of a store's own.
    pub(crate) fn check_directory(&self) -> Result<(), Failure> {
        if !self.store.is_file() {
            return Ok(());
        }
        let error = Error::invalid_input("a file, where the directory of a store is wanted");
        Err(error
            .at_path(&self.store)
            .with_remedy("name the directory; of one table, `ppc dump STORE --table FILE` tells")
            .into())
    }

    /// For writing; the store must exist.
    pub(crate) fn open_existing(&self) -> Result<Archive, Failure> {
        let mut options = ArchiveOptions::default();
        options.db.create_if_missing = false;
        self.open(options)
    }

    /// For writing, with these options.
    pub(crate) fn open(&self, options: ArchiveOptions) -> Result<Archive, Failure> {
        let archive = Archive::open(&self.store, options);
        archive.map_err(|error| explain_open(error, &self.store))
    }
}

/// Says what to do about a store that cannot be opened, in words of this command.
pub(crate) fn explain_open(error: Error, store: &Path) -> Failure {
    let is_of_store = error.path().is_none_or(|path| path == store);
    let remedy = match error.kind() {
        ErrorKind::ReadOnly => "this command writes; make the file system writable".to_owned(),
        ErrorKind::NotFound if is_of_store => {
            "check the path; `ppc import` makes a new store".to_owned()
        }
        ErrorKind::Locked => "another process writes to it or tidies it: try again when that has \
                              ended; commands that only read, such as `ppc ls` and `ppc export`, \
                              need not wait for a writer"
            .to_owned(),
        ErrorKind::Unsupported if error.message().contains("version") => format!(
            "this is ppc {}; use the release that wrote the store, or a newer one",
            env!("CARGO_PKG_VERSION")
        ),
        _ => return error.into(),
    };
    let mut explained = Error::new(error.kind(), error.message())
        .at_path(error.path().unwrap_or(store))
        .with_remedy(remedy);
    if let Some(offset) = error.offset() {
        explained = explained.at_offset(offset);
    }
    if let Some(cause) = std::error::Error::source(&error) {
        explained = explained.with_source(cause.to_string());
    }
    explained.into()
}

/// Refuses to write `dest` into the store's directory, which belongs to the store alone.
pub(crate) fn refuse_within(store: &Path, dest: &Path) -> Result<(), Failure> {
    let directory = match dest.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let (Ok(store), Ok(directory)) = (store.canonicalize(), directory.canonicalize()) else {
        return Ok(());
    };
    if directory.starts_with(&store) {
        let error = Error::invalid_input("the place to write to lies within the store")
            .at_path(dest)
            .with_remedy("choose a place beside it");
        return Err(error.into());
    }
    Ok(())
}

/// Which contents a command is about; all where nothing is given.
#[derive(Debug, Args)]
pub(crate) struct SelectionArgs {
    /// Only files with this extension, such as py; '' for files without one
    #[arg(long, value_name = "EXT", group = "selection")]
    ext: Option<OsString>,
    /// Only files with this name, such as setup.py
    #[arg(long, value_name = "NAME", group = "selection")]
    name: Option<OsString>,
    /// Only keys that begin so, such as py.set: an extension, a dot, and the start of the name,
    /// with %XX as `ppc ls` prints it
    #[arg(long, value_name = "PREFIX", group = "selection")]
    prefix: Option<OsString>,
}

impl SelectionArgs {
    pub(crate) fn selection(&self) -> Result<Selection, Failure> {
        let selection = self.parse()?;
        selection
            .key_range()
            .map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(selection)
    }

    fn parse(&self) -> Result<Selection, Failure> {
        if let Some(ext) = &self.ext {
            let ext = ext.as_encoded_bytes();
            return Ok(Selection::Ext(ext.strip_prefix(b".").unwrap_or(ext).into()));
        }
        if let Some(name) = &self.name {
            return Ok(Selection::Name(name.as_encoded_bytes().into()));
        }
        if let Some(prefix) = &self.prefix {
            let bytes = prefix.as_encoded_bytes();
            let Some(dot) = bytes.iter().position(|byte| *byte == b'.') else {
                return Err(Failure::Usage(format!(
                    "prefix {prefix:?} has no dot; write an extension, a dot, and the start of \
                     the name, as keys begin in `ppc ls`, or use --ext"
                )));
            };
            let (ext, rest) = bytes.split_at(dot);
            let unescaped = |text| {
                key::unescape(text).ok_or_else(|| {
                    Failure::Usage(format!(
                        "prefix {prefix:?} has a % without two hex digits; write %25 for a %, as \
                         keys do in `ppc ls`"
                    ))
                })
            };
            return Ok(Selection::StemStart {
                ext: unescaped(ext)?,
                stem_start: unescaped(rest.get(1..).unwrap_or_default())?,
            });
        }
        Ok(Selection::All)
    }
}

/// zstd levels that `--zstd-level` takes: below, files hardly shrink and nothing gets faster.
const ZSTD_LEVELS: RangeInclusive<i32> = -7..=22;

/// Whether the path is a directory with files, and no store.
fn holds_other_files(path: &Path) -> bool {
    let is_empty = |mut entries: std::fs::ReadDir| entries.next().is_none();
    !path.join("CURRENT").exists() && !path.read_dir().map_or(true, is_empty)
}

/// Refuses zstd levels out of range, naming the option.
pub(crate) fn check_level(option: &str, level: i32) -> Result<(), Failure> {
    if ZSTD_LEVELS.contains(&level) {
        return Ok(());
    }
    let (min, max) = (ZSTD_LEVELS.start(), ZSTD_LEVELS.end());
    Err(Failure::Usage(format!(
        "{option} is {level}; it must lie between {min} and {max}"
    )))
}

/// Most threads that can be asked for: more than any machine makes use of, and few enough that the
/// system has the memory for their stacks.
const THREADS_MAX: usize = 1024;

/// Refuses numbers of threads out of range.
pub(crate) fn check_threads(threads: Option<usize>) -> Result<(), Failure> {
    match threads {
        Some(count) if !(1..=THREADS_MAX).contains(&count) => Err(Failure::Usage(format!(
            "--threads is {count}; it must lie between 1 and {THREADS_MAX}"
        ))),
        _ => Ok(()),
    }
}

/// A size that an option takes, between these bounds.
pub(crate) fn check_size(
    option: &str,
    size: ByteSize,
    (min, max): (&str, &str),
) -> Result<u32, Failure> {
    let bound = |text: &str| text.parse::<ByteSize>().map(|size| size.0);
    let is_within =
        bound(min).is_ok_and(|min| min <= size.0) && bound(max).is_ok_and(|max| size.0 <= max);
    u32::try_from(size.0)
        .ok()
        .filter(|_| is_within)
        .ok_or_else(|| {
            Failure::Usage(format!(
                "{option} is {size}; it must lie between {min} and {max}"
            ))
        })
}

/// How files are put together in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutName {
    /// Neighbours fill blocks
    Blocks,
    /// Files that are alike lie side by side, each compressed against at most one other
    Clustered,
}

/// A full set of options for contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileName {
    /// Fastest to get; a little smaller than blocks of 4 KiB
    Fast,
    /// Smaller than the largest blocks, about as fast to get as the smallest
    Balanced,
    /// As small as gets of single files allow; slow to import
    Dense,
    /// Blocks, as in the paper: 64KiB at level 6, or what --block-size and --zstd-level say
    Paper,
}

impl ProfileName {
    fn options(self) -> TableOptions {
        match self {
            Self::Fast => TableOptions::fast(),
            Self::Balanced => TableOptions::balanced(),
            Self::Dense => TableOptions::dense(),
            Self::Paper => TableOptions::paper(ZSTD_LEVEL_DEFAULT, BLOCK_BYTES_DEFAULT),
        }
    }
}

/// How contents are stored. What is not given stays as the store has it.
#[derive(Debug, Args)]
pub(crate) struct StoringArgs {
    /// Everything below at once, from a set that was measured; what else is given overrides it. A
    /// new store has paper
    #[arg(long, value_enum, value_name = "PROFILE")]
    profile: Option<ProfileName>,
    /// zstd level of contents, -7 to 22: higher is smaller and slower to import; a new
    /// store has 6
    #[arg(long, value_name = "LEVEL", allow_negative_numbers = true)]
    zstd_level: Option<i32>,
    /// How files are put together: clustered is smaller and takes more memory to import; a new
    /// store has blocks
    #[arg(long, value_enum, value_name = "LAYOUT")]
    layout: Option<LayoutName>,
    /// Bytes compressed together, 1KiB to 16MiB: larger is smaller and slower to get; a new
    /// store has 64KiB
    #[arg(long, value_name = "SIZE")]
    block_size: Option<ByteSize>,
    /// Train a dictionary of up to 1MiB for each table, 0 for none: small blocks shrink, and
    /// everything gets slower; a new store has none
    #[arg(long, value_name = "SIZE")]
    dictionary: Option<ByteSize>,
}

impl StoringArgs {
    /// How to store contents in `store`, if anything about it was said.
    pub(crate) fn contents(&self, store: &Path) -> Result<Option<TableOptions>, Failure> {
        let said = [
            self.profile.is_some(),
            self.zstd_level.is_some(),
            self.layout.is_some(),
            self.block_size.is_some(),
            self.dictionary.is_some(),
        ];
        if !said.contains(&true) {
            return Ok(None);
        }
        if self.layout == Some(LayoutName::Clustered) && self.block_size.is_some() {
            return Err(Failure::Usage(
                "--block-size is for blocks, and must not stand beside --layout clustered"
                    .to_owned(),
            ));
        }
        if self.profile.is_some() && self.layout.is_some() {
            return Err(Failure::Usage(
                "--layout must not stand beside --profile, which says it already".to_owned(),
            ));
        }
        let profile = self.profile.map(ProfileName::options);
        if let Some(options) = &profile
            && !matches!(options.layout, Layout::Blocks { .. })
            && self.block_size.is_some()
        {
            return Err(Failure::Usage(
                "--block-size is for blocks, and must not stand beside another profile than paper"
                    .to_owned(),
            ));
        }
        let mut options = profile
            .or_else(|| stored_options(store))
            .unwrap_or_else(|| TableOptions::blocks(ZSTD_LEVEL_DEFAULT, BLOCK_BYTES_DEFAULT));
        if let Some(level) = self.zstd_level {
            check_level("--zstd-level", level)?;
            options.compression = Compression::Zstd { level };
        }
        match (self.layout, options.layout) {
            (Some(LayoutName::Blocks), Layout::Blocks { .. })
            | (Some(LayoutName::Clustered), Layout::Clustered(_))
            | (None, _) => {}
            (Some(LayoutName::Blocks), _) => {
                options.layout = Layout::Blocks {
                    bytes: BLOCK_BYTES_DEFAULT,
                };
            }
            (Some(LayoutName::Clustered), _) => {
                options.layout = Layout::Clustered(ClusterOptions::default());
            }
        }
        if let Some(size) = self.block_size {
            let bytes = check_size("--block-size", size, ("1KiB", "16MiB"))?;
            options.layout = Layout::Blocks { bytes };
        }
        if let Some(size) = self.dictionary {
            options.dictionary_bytes = check_size("--dictionary", size, ("0", "1MiB"))?;
        }
        options
            .validate()
            .map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Some(options))
    }
}

/// How the store keeps contents in its last level, if it is one: opening it will say what is wrong
/// otherwise.
fn stored_options(store: &Path) -> Option<TableOptions> {
    let described = describe_store(store).ok()?;
    let mut keyspaces = described.keyspaces.into_iter();
    let contents = keyspaces.find(|keyspace| keyspace.name == CONTENTS)?;
    contents.options.levels.last().cloned()
}
