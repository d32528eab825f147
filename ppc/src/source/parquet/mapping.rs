//! Which columns of a Parquet file hold content, names and hashes.
//!
//! Columns are named by their dotted path (`file.content` for a field of a struct). Without a
//! mapping, well-known names decide: those of The Stack v1 and of the paper's files
//! (`max_stars_repo_path`, `hexsha`), of Boffa's tables (`filename`, `filepath`, `file_id`,
//! `swhid`), of our own export (`name`, `sha1_git`), and a few common ones.

use std::str::FromStr;

use parquet::basic::Type as PhysicalType;
use parquet::schema::types::SchemaDescriptor;
use ppc_engine::{Error, Result};

use crate::hash::HashKind;
use crate::text::quote;

const CONTENT_COLUMNS: &[&str] = &["content", "text", "code"];
/// Each row's path is the first that is not null among the columns of the first family present.
const PATH_FAMILIES: &[&[&str]] = &[
    &[
        "max_stars_repo_path",
        "max_issues_repo_path",
        "max_forks_repo_path",
    ],
    &["path"],
    &["filepath"],
    &["file_path"],
];
const NAME_COLUMNS: &[&str] = &["filename", "file_name", "name"];
/// Hashes, with their kind where the name leaves no doubt.
const HASH_COLUMNS: &[(&str, Option<HashKind>)] = &[
    ("swhid", Some(HashKind::Sha1Git)),
    ("sha1_git", Some(HashKind::Sha1Git)),
    ("sha1", Some(HashKind::Sha1)),
    ("sha256", Some(HashKind::Sha256)),
    ("blake2s256", Some(HashKind::Blake2s256)),
    ("hexsha", None),
    ("blob_id", None),
    ("content_id", None),
    ("file_id", None),
    ("sha", None),
];
/// How many column names an error lists.
const LISTED_COLUMNS_MAX: usize = 60;

/// Which columns hold what.
///
/// As text: `content=text,path=file,hash=sha:sha1_git`. `path` may be given several times (the
/// first that is not null counts), `hash` too, with or without a kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnMapping {
    /// The file's bytes.
    pub content: String,
    /// The file's path, in order of preference.
    pub paths: Vec<String>,
    /// The file's name. Without it, or where it is null, the end of the path is the name; without
    /// either, the name is empty.
    pub name: Option<String>,
    /// Hashes of the content, with their kinds. Where a kind is not known, it is found from the
    /// first rows.
    pub hashes: Vec<(String, Option<HashKind>)>,
}

impl FromStr for ColumnMapping {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let malformed = |reason: &str| {
            Error::invalid_input(format!(
                "malformed column mapping {}: {reason}",
                quote(text.as_bytes())
            ))
            .with_remedy("write for example content=text,path=file,hash=sha:sha1_git")
        };
        let mut mapping = Self::default();
        for part in text.split(',') {
            let Some((role, column)) = part.split_once('=').filter(|(_, c)| !c.is_empty()) else {
                return Err(malformed("a part is not written role=column"));
            };
            match role {
                "content" if mapping.content.is_empty() => column.clone_into(&mut mapping.content),
                "name" if mapping.name.is_none() => mapping.name = Some(column.to_owned()),
                "path" => mapping.paths.push(column.to_owned()),
                "hash" => mapping.hashes.push(match column.rsplit_once(':') {
                    Some((column, kind)) => (column.to_owned(), Some(kind.parse()?)),
                    None => (column.to_owned(), None),
                }),
                "content" | "name" => return Err(malformed("content or name is given twice")),
                _ => return Err(malformed("a role is none of content, path, name, hash")),
            }
        }
        if mapping.content.is_empty() {
            return Err(malformed("it names no content column"));
        }
        Ok(mapping)
    }
}

impl ColumnMapping {
    /// The mapping that a file's column names suggest.
    fn suggested(schema: &SchemaDescriptor) -> Result<Self> {
        let usable = |name: &str| {
            let column = find(schema, name)?;
            check_column(schema, column)
                .is_ok()
                .then(|| name.to_owned())
        };
        let first = |names: &[&str]| names.iter().find_map(|name| usable(name));
        let mut mapping = Self {
            content: first(CONTENT_COLUMNS).unwrap_or_default(),
            paths: Vec::new(),
            name: first(NAME_COLUMNS),
            hashes: Vec::new(),
        };
        for family in PATH_FAMILIES {
            mapping.paths = family.iter().filter_map(|name| usable(name)).collect();
            if !mapping.paths.is_empty() {
                break;
            }
        }
        for (name, kind) in HASH_COLUMNS {
            mapping
                .hashes
                .extend(usable(name).map(|name| (name, *kind)));
        }
        let missing = if mapping.content.is_empty() {
            if let Some(list) = list_of_files(schema) {
                return Err(Error::invalid_input(format!(
                    "column {} is a list of files without their contents, and no other column is \
                     known to hold content",
                    quote(list.as_bytes())
                ))
                .with_remedy(
                    "fetch the contents that its ids name, and import those; a file of one row for \
                     each file, with a content column, can be read",
                ));
            }
            "content"
        } else if mapping.paths.is_empty() && mapping.name.is_none() {
            "the file's path or name"
        } else {
            return Ok(mapping);
        };
        Err(Error::invalid_input(format!(
            "no column is known to hold {missing}; there are {}",
            list(schema)
        ))
        .with_remedy("name the columns, as in content=text,path=file,hash=sha:sha1_git"))
    }
}

/// A mapping with the columns' places in a schema.
#[derive(Debug, Clone)]
pub(super) struct ResolvedColumns {
    pub(super) content: usize,
    pub(super) paths: Vec<usize>,
    pub(super) name: Option<usize>,
    pub(super) hashes: Vec<(usize, Option<HashKind>)>,
}

impl ResolvedColumns {
    /// Finds the columns of `mapping`, or of the one that the schema suggests.
    pub(super) fn resolve(
        schema: &SchemaDescriptor,
        mapping: Option<&ColumnMapping>,
    ) -> Result<Self> {
        let suggested;
        let mapping = match mapping {
            Some(mapping) => mapping,
            None => {
                suggested = ColumnMapping::suggested(schema)?;
                &suggested
            }
        };
        let resolve = |name: &String| {
            let Some(column) = find(schema, name) else {
                return Err(Error::invalid_input(format!(
                    "no column {}; there are {}",
                    quote(name.as_bytes()),
                    list(schema)
                )));
            };
            check_column(schema, column)?;
            Ok(column)
        };
        let hashes = mapping.hashes.iter();
        Ok(Self {
            content: resolve(&mapping.content)?,
            paths: mapping.paths.iter().map(resolve).collect::<Result<_>>()?,
            name: mapping.name.as_ref().map(resolve).transpose()?,
            hashes: hashes
                .map(|(name, kind)| Ok((resolve(name)?, *kind)))
                .collect::<Result<_>>()?,
        })
    }

    /// Every column in use, each once.
    pub(super) fn all(&self) -> Vec<usize> {
        let mut columns = vec![self.content];
        columns.extend(&self.paths);
        columns.extend(self.name);
        columns.extend(self.hashes.iter().map(|(column, _)| column));
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

fn find(schema: &SchemaDescriptor, name: &str) -> Option<usize> {
    let mut columns = schema.columns().iter();
    columns.position(|column| column.path().string() == name)
}

/// Refuses columns that do not hold one byte string in a row.
fn check_column(schema: &SchemaDescriptor, column: usize) -> Result<()> {
    let descriptor = schema.column(column);
    let name = descriptor.path().string();
    let physical_type = descriptor.physical_type();
    if !matches!(
        physical_type,
        PhysicalType::BYTE_ARRAY | PhysicalType::FIXED_LEN_BYTE_ARRAY
    ) {
        return Err(Error::invalid_input(format!(
            "column {} holds {physical_type}, not text or bytes",
            quote(name.as_bytes())
        )));
    }
    if descriptor.max_rep_level() > 0 {
        return Err(Error::invalid_input(format!(
            "column {} is a list: a row would hold several files, and rows are read as one file each",
            quote(name.as_bytes())
        ))
        .with_remedy("unnest the list into rows of one file each first"));
    }
    Ok(())
}

/// A list of structures with hashes of contents and no contents, as in the files of The Stack v2
/// whose name says that they hold ids.
fn list_of_files(schema: &SchemaDescriptor) -> Option<String> {
    let columns = schema.columns().iter();
    let mut lists = columns.filter(|column| column.max_rep_level() > 0);
    let ids = lists.clone().find_map(|column| {
        let path = column.path().parts();
        let (field, rest) = path.split_last()?;
        let is_hash = HASH_COLUMNS.iter().any(|(name, _)| name == field);
        (is_hash && rest.len() > 1).then(|| path.first().cloned())?
    })?;
    let holds_content = lists.any(|column| {
        let path = column.path().parts();
        path.first() == Some(&ids)
            && path
                .last()
                .is_some_and(|field| CONTENT_COLUMNS.contains(&field.as_str()))
    });
    (!holds_content).then_some(ids)
}

/// The columns of a file, for a message.
fn list(schema: &SchemaDescriptor) -> String {
    let names = schema.columns().iter().map(|column| column.path().string());
    let mut shown: Vec<String> = names.take(LISTED_COLUMNS_MAX).collect();
    if shown.len() < schema.num_columns() {
        shown.push("...".to_owned());
    }
    let shown = shown.join(", ");
    shown.replace(char::is_control, "?")
}
