use std::io::Write;
use std::path::PathBuf;

use super::super::testing::{Collected, collect};
use super::*;

/// A tar archive of these members, all regular files.
fn archive(members: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut builder = ::tar::Builder::new(Vec::new());
    for (path, content) in members {
        append(&mut builder, path, content);
    }
    builder.into_inner().unwrap()
}

fn append(builder: &mut ::tar::Builder<Vec<u8>>, path: &[u8], content: &[u8]) {
    use std::os::unix::ffi::OsStrExt;
    let mut header = ::tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    builder.append_data(&mut header, path, content).unwrap();
}

fn awkward_members() -> Vec<(Vec<u8>, Vec<u8>)> {
    let names = crate::testing::awkward_names();
    let names = names
        .into_iter()
        .filter(|name| !name.is_empty() && name != b"." && name != b"..");
    let contents = crate::testing::awkward_contents();
    let small: Vec<_> = contents
        .iter()
        .filter(|content| content.len() < 2_000)
        .cloned()
        .collect();
    names
        .zip(contents.into_iter().chain(small.into_iter().cycle()))
        .map(|(name, content)| ([b"dir/", name.as_slice()].concat(), content))
        .collect()
}

fn write(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive");
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn read(bytes: &[u8]) -> Result<Collected> {
    let (_dir, path) = write(bytes);
    let mut source = TarSource::open(&path, &SourceOptions::default())?;
    let mut items = Collected::default();
    source.read(&mut |item| {
        items.push(item);
        Ok(())
    })?;
    Ok(items)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd_long(bytes: &[u8], window_log: u32) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.long_distance_matching(true).unwrap();
    encoder.window_log(window_log).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn awkward_names_and_contents_come_through_every_compression() {
    let members = awkward_members();
    let plain = archive(&members);
    for bytes in [
        plain.clone(),
        gzip(&plain),
        zstd_long(&plain, 30),
        xz(&plain),
        bzip2(&plain),
        // As pbzip2 writes: several streams, one after the other.
        [bzip2(&plain[..1_000]), bzip2(&plain[1_000..])].concat(),
    ] {
        let (_dir, path) = write(&bytes);
        assert!(looks_like_tar(File::open(&path).unwrap()));
        let mut source = TarSource::open(&path, &SourceOptions::default()).unwrap();
        let collected = collect(&mut source);
        assert!(collected.problems.is_empty(), "{:?}", collected.problems);
        assert_eq!(collected.files.len(), members.len());
        for (file, (path, content)) in collected.files.iter().zip(&members) {
            assert_eq!(file.path.as_deref(), Some(path.as_slice()));
            assert_eq!(file.name, path[4..]);
            assert!(file.content == *content, "{path:?}");
        }
        let progress = source.progress();
        assert_eq!(progress.read_bytes(), bytes.len() as u64);
        assert_eq!(progress.total_bytes(), Some(bytes.len() as u64));
    }
}

#[test]
fn what_is_no_regular_file_is_reported() {
    let mut builder = ::tar::Builder::new(Vec::new());
    for (kind, path) in [
        (::tar::EntryType::Directory, "d/"),
        (::tar::EntryType::Symlink, "link"),
        (::tar::EntryType::Link, "hard"),
        (::tar::EntryType::Fifo, "fifo"),
    ] {
        let mut header = ::tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        builder.append_link(&mut header, path, "target").unwrap();
    }
    let sparse = [("GNU.sparse.major", &b"1"[..])];
    builder.append_pax_extensions(sparse).unwrap();
    append(&mut builder, b"sparse", b"map");
    builder
        .append_pax_extensions([("path", &b"d/real\xff.c"[..])])
        .unwrap();
    append(&mut builder, b"short", b"x");
    let collected = read(&builder.into_inner().unwrap()).unwrap();
    assert_eq!(collected.problem_kinds(), [ProblemKind::NotAFile; 4]);
    assert_eq!(collected.files.len(), 1);
    assert_eq!(collected.files[0].name, &b"real\xff.c"[..]);
}

#[test]
fn a_member_above_the_limit_is_reported_and_the_next_one_still_comes() {
    let (_dir, path) = write(&archive(&[
        (b"large.c".to_vec(), vec![b'x'; 2_000]),
        (b"small.c".to_vec(), b"y".to_vec()),
    ]));
    let options = SourceOptions {
        file_bytes_max: 1_999,
        ..SourceOptions::default()
    };
    let collected = collect(&mut TarSource::open(&path, &options).unwrap());
    assert_eq!(collected.problem_kinds(), [ProblemKind::TooLarge]);
    assert_eq!(collected.paths(), ["small.c"]);
}

#[test]
fn an_archive_cut_anywhere_is_an_error_or_a_problem_and_never_a_short_content() {
    let members = [
        (b"a.c".to_vec(), vec![b'a'; 700]),
        (b"b.c".to_vec(), vec![b'b'; 300]),
    ];
    let plain = archive(&members);
    let compressed = [
        gzip(&plain),
        zstd_long(&plain, 17),
        xz(&plain),
        bzip2(&plain),
    ];
    let end_of_members = plain.iter().rposition(|byte| *byte != 0).unwrap();
    let plain_cuts = (0..end_of_members).step_by(5).map(|end| &plain[..end]);
    let compressed_cuts = compressed
        .iter()
        .flat_map(|bytes| (0..bytes.len()).map(|end| &bytes[..end]));
    for cut in plain_cuts.chain(compressed_cuts) {
        match read(cut) {
            Err(error) => {
                let message = error.to_string();
                assert!(
                    message.contains("cut short") || message.contains("is empty"),
                    "{} bytes: {message}",
                    cut.len()
                );
            }
            Ok(collected) => {
                assert_eq!(collected.problems.len(), 1, "{} bytes", cut.len());
                for (file, (_, content)) in collected.files.iter().zip(&members) {
                    assert_eq!(file.content, content);
                }
            }
        }
    }
}

#[test]
fn damage_never_panics_or_returns_a_wrong_content_from_a_checked_stream() {
    let members = [(b"a.c".to_vec(), b"some content of a file".repeat(20))];
    let plain = archive(&members);
    for bytes in [gzip(&plain), xz(&plain), bzip2(&plain), plain] {
        let is_checked = [0x1f, 0xfd, b'B'].contains(&bytes[0]);
        for at in 0..bytes.len().min(1_200) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            if let Ok(collected) = read(&damaged) {
                let is_whole = collected.files.len() == 1;
                let is_right = is_whole && collected.files[0].content == members[0].1;
                let is_noticed = !is_checked || is_right || !collected.problems.is_empty();
                assert!(is_noticed, "byte {at}");
            }
        }
    }
}

#[test]
fn garbage_is_refused_clearly_and_a_name_that_begins_like_bzip2_is_no_bzip2() {
    let refused = |bytes: &[u8]| read(bytes).map(|_| ()).unwrap_err().to_string();
    assert!(refused(b"BZh91AY&SY").contains("cannot be read from its beginning"));
    assert!(refused(&[b'x'; 2_000]).contains("does not begin with a tar header"));
    assert!(refused(&[b'x'; 100]).contains("cannot be read from its beginning"));
    assert!(!looks_like_tar(&b"fn main() {}"[..]));
    assert!(!looks_like_tar(&[0_u8; 1024][..]));
    assert!(!looks_like_tar(&b"BZh9"[..]));
    let collected = read(&archive(&[(b"BZh9.c".to_vec(), b"x".to_vec())])).unwrap();
    assert_eq!(collected.paths(), ["BZh9.c"]);
}

#[test]
fn the_crates_in_cargos_cache_are_archives() {
    let Some(home) = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")))
    else {
        return;
    };
    let Ok(registries) = std::fs::read_dir(home.join("registry/cache")) else {
        return;
    };
    let crates = registries
        .flatten()
        .filter_map(|registry| std::fs::read_dir(registry.path()).ok())
        .flat_map(|crates| crates.flatten().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ext| ext == "crate"))
        .take(10);
    for path in crates {
        let mut source = TarSource::open(&path, &SourceOptions::default()).unwrap();
        let collected = collect(&mut source);
        let is_manifest = |file: &SourceFile| file.name == "Cargo.toml";
        assert!(
            collected.files.iter().any(is_manifest),
            "{}",
            path.display()
        );
        assert!(collected.problems.is_empty(), "{}", path.display());
    }
}
