//! Writes seeds for every fuzz target into a directory: `seeds CORPUS`.
//!
//! A small store is built on disk, and its files, whole and in pieces, are what the decoders start
//! from. Nothing is downloaded and nothing is kept in the repository.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ppc_engine::{
    BulkOptions, ClusterOptions, Db, DbOptions, Durability, KeyRange, KeyspaceOptions, Layout,
    TableOptions,
};

/// Targets that take a piece of a table.
const TABLE_PIECES: [&str; 8] = [
    "table_footer",
    "table_unit",
    "key_block",
    "key_index",
    "frame_directory",
    "filter",
    "properties",
    "frame",
];

fn main() -> Result<(), Box<dyn Error>> {
    let corpus = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: seeds CORPUS")?);
    let dir = tempfile::tempdir()?;
    build_store(dir.path())?;
    for entry in fs::read_dir(dir.path())? {
        let path = entry?.path();
        let bytes = fs::read(&path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("table") => {
                write(&corpus, "table", &name, &bytes)?;
                for target in TABLE_PIECES {
                    write_pieces(&corpus, target, &name, &bytes)?;
                }
            }
            Some(target @ ("wal" | "manifest")) => write_pieces(&corpus, target, &name, &bytes)?,
            _ => {}
        }
    }
    let ops: Vec<u8> = (0..600u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (index, run) in ops.chunks(120).enumerate() {
        write(&corpus, "engine", &index.to_string(), run)?;
    }
    let swhid = "swh:1:cnt:94a9ed024d3859793618152ea559a168bbcbb5e2";
    let qualified = format!("{swhid};origin=https://example.org/a%3Bb;path=/src/x.c;lines=3-7");
    write(&corpus, "swhid", "core", swhid.as_bytes())?;
    write(&corpus, "swhid", "qualified", qualified.as_bytes())?;
    write(&corpus, "ppc_key", "text", format!("h.doxygen.{swhid}").as_bytes())?;
    for (index, name) in ["main.rs", "Makefile", ".gitignore", "a.b\0c.d\n", "x.swh:1", "x. c"].iter().enumerate() {
        let key = ppc_store::PpcKey::new(name.as_bytes(), ppc_store::Sha1Git::of(b"x"))?;
        write(&corpus, "ppc_key", &index.to_string(), &key.encode())?;
    }
    Ok(())
}

/// Tables of several shapes, a log and a manifest.
fn build_store(dir: &Path) -> ppc_engine::Result<()> {
    let db = Db::open(dir, DbOptions::default())?;
    let mut small = TableOptions::blocks(3, 1 << 10);
    small.key_block_bytes = 256;
    let files = db.keyspace("files", KeyspaceOptions::uniform(small))?;
    let index = db.keyspace("index", KeyspaceOptions::default())?;
    let mut cluster = ClusterOptions::default();
    cluster.window_bytes = 64 << 10;
    cluster.shared_frame_bytes = 256;
    let mut clustered = TableOptions::clustered(3);
    clustered.layout = Layout::Clustered(cluster);
    let clusters = db.keyspace("clusters", KeyspaceOptions::uniform(clustered))?;
    let mut loader = db.bulk_loader(BulkOptions::default())?;
    for n in 0..100u32 {
        let content = format!("fn f{n}() {{ {} }}\n", n * n).repeat(n as usize % 17);
        loader.put(&files, format!("rs\0\0f{n:03}"), Bytes::from(content))?;
        if n < 20 {
            let lines = (0..40u32).map(|line| format!("let a{line} = {};\n", line.pow(3)));
            let content = lines.collect::<String>() + &format!("fn g{n}() {{ h() }}\n");
            loader.put(&clusters, format!("rs\0\0g{n:03}"), Bytes::from(content))?;
        }
        loader.put(&index, n.to_be_bytes(), Bytes::from(format!("f{n:03}")))?;
    }
    loader.finish(&mut |_| {})?;
    files.delete("rs\0\0f003", Durability::Sync)?;
    files.delete_range(&KeyRange::new("rs\0\0f010".."rs\0\0f020"), Durability::Sync)?;
    db.flush()?;
    files.put("rs\0\0f005", "fn again() {}", Durability::Sync)
}

/// The whole, its end, and windows of two sizes.
fn write_pieces(corpus: &Path, target: &str, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    write(corpus, target, name, &bytes[bytes.len().saturating_sub(256)..])?;
    for size in [300, 1200] {
        for (index, piece) in bytes.chunks(size).take(8).enumerate() {
            write(corpus, target, &format!("{name}-{size}-{index}"), piece)?;
        }
    }
    Ok(())
}

fn write(corpus: &Path, target: &str, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let dir = corpus.join(target);
    fs::create_dir_all(&dir)?;
    fs::write(dir.join(name), bytes)
}
