//! `ppc-bench corpus`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ppc_store::source::{SourceFormat, SourceOptions, SourceSpec, open_source};
use ppc_store::{Error, Result};

use super::Corpus;
use super::features::Features;
use super::gather::{Amount, DownloadOptions, gather, pin};
use super::language::Language;
use super::list::PackageList;
use super::selected::{Opening, Selected, Selection};
use super::size::ByteSize;
use super::synthetic::{CorpusOptions, SyntheticSource};
use super::watch::Watch;
use super::write::{write, write_corpus};

/// Make a corpus: a Parquet file of source code, and a table of its features beside it.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Gather source code from packages, through the package clients of this machine.
    ///
    /// Packages, versions and checksums are pinned in a list. No code of a package is run.
    Gather {
        /// The language.
        #[arg(long, value_enum)]
        language: Language,
        /// A list of your own in place of the one that comes with this program.
        #[arg(long, value_name = "FILE")]
        list: Option<PathBuf>,
        #[command(flatten)]
        amount: AmountArguments,
        /// Go on without archives that cannot be had. The corpus is then not that of the list.
        #[arg(long)]
        skip_missing: bool,
        #[command(flatten)]
        downloads: DownloadArguments,
        #[command(flatten)]
        output: Output,
    },
    /// Fill in the checksums that a list lacks.
    Pin {
        /// The list; it is written anew.
        list: PathBuf,
        /// Take versions that cannot be had out of the list.
        #[arg(long)]
        drop_missing: bool,
        #[command(flatten)]
        downloads: DownloadArguments,
    },
    /// Take the files below a directory.
    FromDir {
        #[command(flatten)]
        input: Input,
    },
    /// Take all versions of all files of a git repository.
    FromGit {
        #[command(flatten)]
        input: Input,
    },
    /// Take the rows of a Parquet file: sorted, each content once.
    FromParquet {
        #[command(flatten)]
        input: Input,
    },
    /// Make a corpus up, where there is no network.
    Synthetic {
        /// Bytes of the corpus, about. Sets how many families of files there are.
        #[arg(long, default_value = "64MiB")]
        size: ByteSize,
        /// Versions of each file.
        #[arg(long, default_value_t = CorpusOptions::default().versions)]
        versions: usize,
        /// Lines of a file, about 35 bytes each.
        #[arg(long, default_value_t = CorpusOptions::default().lines)]
        lines: usize,
        /// Lines in a thousand that change from one version to the next.
        #[arg(long, default_value_t = CorpusOptions::default().changes_per_mille)]
        changes_per_mille: u32,
        /// Lines in a thousand that come from a stock common to all files.
        #[arg(long, default_value_t = CorpusOptions::default().shared_per_mille)]
        shared_per_mille: u32,
        /// Another seed, another corpus.
        #[arg(long, default_value_t = CorpusOptions::default().seed)]
        seed: u64,
        #[command(flatten)]
        output: Output,
    },
    /// Take a sample of a corpus: runs of neighbouring keys, evenly spread, so that it compresses
    /// about like the whole.
    Sample {
        /// The corpus.
        corpus: PathBuf,
        /// Bytes of the sample, about.
        #[arg(long)]
        size: ByteSize,
        #[command(flatten)]
        output: Output,
    },
    /// Print the tables of features of corpora.
    Features {
        /// The Parquet files.
        #[arg(required = true)]
        corpora: Vec<PathBuf>,
    },
}

/// How much of a list is gathered.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct AmountArguments {
    /// Gather until there are this many bytes of distinct files.
    #[arg(long)]
    size: Option<ByteSize>,
    /// Gather the whole list.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Args)]
struct DownloadArguments {
    /// Where downloads are kept [default: ppc-bench in the user's cache directory].
    #[arg(long, value_name = "DIR")]
    downloads: Option<PathBuf>,
    /// Downloads at once.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16))]
    jobs: u8,
}

#[derive(Debug, Args)]
struct Output {
    /// The Parquet file to write; the corpus is named like it.
    out: PathBuf,
    /// Replace it if it exists.
    #[arg(long)]
    overwrite: bool,
}

#[derive(Debug, Args)]
struct Input {
    /// What to read.
    input: PathBuf,
    /// Files of this language only.
    #[arg(long, value_enum)]
    language: Option<Language>,
    /// Take the first files only: stop at this many bytes of distinct files.
    #[arg(long)]
    size: Option<ByteSize>,
    #[command(flatten)]
    output: Output,
}

/// Runs the subcommand.
pub fn run(arguments: Arguments) -> Result<()> {
    match arguments.command {
        Command::Gather {
            language,
            list,
            amount,
            skip_missing,
            downloads,
            output,
        } => {
            let list = match list {
                Some(path) => PackageList::read(&path)?,
                None => PackageList::parse(language.pinned_list())?,
            };
            if list.language != language {
                return Err(Error::invalid_input(format!(
                    "the list is of {}, not of {}",
                    list.language.name(),
                    language.name()
                )));
            }
            let amount = Amount {
                raw_bytes_max: amount.size.map(|size| size.0),
                skip_missing,
            };
            let Output { out, overwrite } = output;
            let features = gather(&list, amount, &downloads.options()?, &out, overwrite)?;
            println!("{features}");
            Ok(())
        }
        Command::Pin {
            list,
            drop_missing,
            downloads,
        } => pin(&list, &downloads.options()?, drop_missing),
        Command::FromDir { input } => take(input, SourceFormat::Directory),
        Command::FromGit { input } => take(input, SourceFormat::Git),
        Command::FromParquet { input } => take(input, SourceFormat::Parquet),
        Command::Synthetic {
            size,
            versions,
            lines,
            changes_per_mille,
            shared_per_mille,
            seed,
            output,
        } => {
            let options = CorpusOptions {
                families: 0,
                versions,
                lines,
                changes_per_mille,
                shared_per_mille,
                seed,
            }
            .with_raw_bytes(size.0);
            let from = options.to_string();
            let watch = Watch::new();
            let source = Box::new(SyntheticSource::new(options));
            let features = write(source, &output.out, output.overwrite, &from, &watch)?;
            watch.finish();
            println!("{features}");
            Ok(())
        }
        Command::Sample {
            corpus,
            size,
            output,
        } => {
            let from = format!("a sample of {}", corpus.display());
            let sample = Corpus::load_prefix(&corpus, size.0)?;
            let Output { out, overwrite } = output;
            println!("{}", write_corpus(&sample, &out, overwrite, &from)?);
            Ok(())
        }
        Command::Features { corpora } => {
            for path in corpora {
                println!("{}\n", Features::read(&path)?);
            }
            Ok(())
        }
    }
}

/// Makes a corpus of what the user has.
fn take(input: Input, format: SourceFormat) -> Result<()> {
    let spec = SourceSpec {
        format: Some(format),
        path: input.input,
    };
    let from = format!("{} {}", format.name(), spec.path.display());
    let options = SourceOptions::default();
    let opening: Opening = Box::new(move |i| (i == 0).then(|| open_source(&spec, &options)));
    let selection = Selection {
        language: input.language,
        raw_bytes_max: input.size.map(|size| size.0),
    };
    let watch = Watch::new();
    let source = Box::new(Selected::new(&from, opening, selection));
    let Output { out, overwrite } = input.output;
    let features = write(source, &out, overwrite, &from, &watch)?;
    watch.finish();
    println!("{features}");
    Ok(())
}

impl DownloadArguments {
    fn options(self) -> Result<DownloadOptions> {
        let dir = self.downloads.map_or_else(default_downloads, Ok)?;
        Ok(DownloadOptions {
            dir,
            jobs: usize::from(self.jobs),
        })
    }
}

/// `ppc-bench` in the user's cache directory.
fn default_downloads() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = match (set("XDG_CACHE_HOME"), set("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, Some(home)) => Path::new(&home).join(".cache"),
        (None, None) => {
            return Err(
                Error::invalid_input("there is no cache directory: HOME is not set")
                    .with_remedy("give one with --downloads"),
            );
        }
    };
    Ok(cache.join("ppc-bench"))
}
