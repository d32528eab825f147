//! How the sources of a command are read, and how what is in them will be found.

use clap::Args;
use ppc_engine::VALUE_BYTES_MAX;
use ppc_store::source::{Excluded, SourceOptions};
use ppc_store::{Error, HashKind, HashKinds};

use super::failure::Failure;
use super::size::ByteSize;

/// How sources are read. The command has them as its argument `sources`.
#[derive(Debug, Args)]
pub(crate) struct ReadingArgs {
    /// Leave out what .gitignore files in folders name
    #[arg(long, requires = "sources")]
    gitignore: bool,
    /// Which Parquet columns hold what, as content=COLUMN,path=COLUMN,name=COLUMN,hash=COLUMN:KIND;
    /// well-known datasets need none
    #[arg(long, value_name = "MAPPING", requires = "sources")]
    columns: Option<String>,
    /// Read every SOURCE as this format
    #[arg(long, value_name = "dir|tar|parquet|git", requires = "sources")]
    format: Option<String>,
    /// Leave out files and folders whose name begins with a dot
    #[arg(long, requires = "sources")]
    skip_hidden: bool,
    /// Git: also take objects that no branch or tag reaches
    #[arg(long, requires = "sources")]
    all_objects: bool,
    /// Leave out files larger than this, and report them
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    max_file_size: ByteSize,
}

impl ReadingArgs {
    /// The options, with what the command itself writes left out of all sources.
    pub(crate) fn options(&self, exclude: Vec<Excluded>) -> Result<SourceOptions, Failure> {
        let usage = |error: Error| Failure::Usage(error.to_string());
        let columns = self.columns.as_ref().map(|text| text.parse());
        let format = self.format.as_ref().map(|text| text.parse());
        Ok(SourceOptions {
            format: format.transpose().map_err(usage)?,
            file_bytes_max: self.max_file_size.0.min(VALUE_BYTES_MAX as u64),
            honour_gitignore: self.gitignore,
            include_hidden: !self.skip_hidden,
            columns: columns.transpose().map_err(usage)?,
            git_all_objects: self.all_objects,
            exclude,
        })
    }

    /// Whether nothing that could be stored is left out for its length.
    pub(crate) fn takes_all_lengths(&self) -> bool {
        self.max_file_size.0 >= VALUE_BYTES_MAX as u64
    }
}

/// Further ways to find contents.
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    /// Find contents by these hashes too: sha1, sha256, blake2s256. Chosen when the store is made
    #[arg(
        long,
        value_name = "KIND,...",
        value_delimiter = ',',
        requires = "sources"
    )]
    index: Option<Vec<String>>,
}

impl IndexArgs {
    pub(crate) fn indexes(&self) -> Result<Option<HashKinds>, Failure> {
        let Some(names) = &self.index else {
            return Ok(None);
        };
        let kinds = names.iter().map(|name| name.parse::<HashKind>());
        let kinds: Result<HashKinds, _> = kinds.collect();
        kinds
            .map(Some)
            .map_err(|error| Failure::Usage(error.to_string()))
    }
}
