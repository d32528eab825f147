//! Wrong input gets one line that names what, where and what to do, an exit code, and leaves the
//! store as it was.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Scene, args, fail, run, run_with_input, snapshot, succeed};

fn store_with_a_file() -> Scene {
    let scene = Scene::new();
    let folder = scene.folder("in", [(&b"hello.c"[..], &b"hello"[..])]);
    succeed(args([&"import", &scene.store(), &folder]));
    scene
}

#[test]
fn a_directory_that_is_no_store_is_named() {
    let scene = Scene::new();
    let folder = scene.folder("in", [(&b"hello.c"[..], &b"hello"[..])]);
    let before = snapshot(&folder);
    for command in ["ls", "stats", "compact"] {
        let line = fail(1, args([&command, &folder]));
        assert!(line.contains(folder.to_str().unwrap()), "{line}");
        assert!(line.contains("ppc import"), "{line}");
    }
    assert_eq!(snapshot(&folder), before);
    let nowhere = scene.path("nowhere");
    let line = fail(1, args([&"ls", &nowhere]));
    assert!(line.contains("nowhere"), "{line}");
    assert!(!nowhere.exists());
}

#[test]
fn a_source_that_is_not_there_leaves_no_store_behind() {
    let scene = Scene::new();
    let line = fail(1, args([&"import", &scene.store(), &scene.path("absent")]));
    assert!(line.contains("absent"), "{line}");
    assert!(!scene.store().exists());
}

#[test]
fn a_store_of_another_version_is_refused_by_version() {
    let scene = store_with_a_file();
    let engine = ppc_engine::Db::open(scene.store(), Default::default()).unwrap();
    let meta = engine.existing_keyspace("meta").unwrap().unwrap();
    meta.put("archive", [9, 0, 0, 0, 1], ppc_engine::Durability::Sync)
        .unwrap();
    drop((meta, engine));
    let line = fail(1, args([&"ls", &scene.store()]));
    assert!(
        line.contains("version 9") && line.contains("version 1"),
        "{line}"
    );
    let release = format!("this is ppc {}", env!("CARGO_PKG_VERSION"));
    assert!(line.contains(&release), "{line}");
    let line = fail(1, args([&"import", &scene.store(), &scene.path("in")]));
    assert!(line.contains("version 9"), "{line}");
}

#[test]
fn an_engine_store_that_is_no_archive_is_left_alone() {
    let scene = Scene::new();
    let engine = ppc_engine::Db::open(scene.store(), Default::default()).unwrap();
    let other = engine.keyspace("other", Default::default()).unwrap();
    other
        .put("key", "value", ppc_engine::Durability::Sync)
        .unwrap();
    drop((other, engine));
    let folder = scene.folder("in", [(&b"hello.c"[..], &b"hello"[..])]);
    let line = fail(1, args([&"import", &scene.store(), &folder]));
    assert!(line.contains("no PPC archive"), "{line}");
}

#[test]
fn malformed_ids_are_refused_before_the_store_is_opened() {
    let store = "/nowhere";
    for id in [
        "swh:1:cnt:123",
        "swh:2:cnt:b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0",
        "swh:1:dir:b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0",
        "sha256:abc",
        "md5:b6fc4c620b67d95f953a5c1c1230aaab",
        "hello.c",
        "",
    ] {
        for command in ["get", "cat", "has", "rm"] {
            let line = fail(2, args([&command, &store, &id]));
            assert!(!line.contains("nowhere"), "{line}");
        }
    }
}

#[test]
fn a_second_writer_is_told_of_the_first() {
    let scene = store_with_a_file();
    let holder = ppc_engine::Db::open(scene.store(), Default::default()).unwrap();
    let line = fail(1, args([&"put", &scene.store(), &"/etc/hostname"]));
    assert!(line.contains("open for writing elsewhere"), "{line}");
    // Opening it read-only is nothing that this command could do.
    assert!(
        line.contains("try again") && !line.contains("read-only here"),
        "{line}"
    );
    // Readers do not mind.
    succeed(args([&"ls", &scene.store()]));
    drop(holder);
}

#[test]
fn a_read_only_directory_can_be_read_but_not_written() {
    let scene = store_with_a_file();
    let mode = |mode| fs::set_permissions(scene.store(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    let can_write_anyway = fs::write(scene.store().join("probe"), "").is_ok();
    let listed = run(args([&"ls", &scene.store()]));
    let put = run(args([&"put", &scene.store(), &"/etc/hostname"]));
    mode(0o755);
    assert!(listed.status.success());
    // Root may write where nobody may.
    if !can_write_anyway {
        assert_eq!(put.status.code(), Some(1));
        assert_eq!(String::from_utf8(put.stderr).unwrap().lines().count(), 1);
    }
}

#[test]
fn other_indexes_than_the_stores_are_refused() {
    let scene = store_with_a_file();
    let folder = scene.path("in");
    let line = fail(
        1,
        args([&"import", &scene.store(), &folder, &"--index", &"sha256"]),
    );
    assert!(line.contains("chosen at creation"), "{line}");
    let line = fail(
        2,
        args([&"import", &scene.store(), &folder, &"--index", &"md5"]),
    );
    assert!(line.contains("md5"), "{line}");
}

#[test]
fn nonsense_options_are_usage_errors() {
    let scene = store_with_a_file();
    let folder = scene.path("in");
    for (option, value) in [
        ("--memory", "1MiB"),
        ("--block-size", "1"),
        ("--block-size", "1GiB"),
        ("--zstd-level", "99"),
        ("--zstd-level", "-99"),
        ("--threads", "0"),
        ("--commit-every", "0"),
        ("--layout=clustered", "--block-size=4KiB"),
        ("--profile=balanced", "--block-size=4KiB"),
        ("--profile=fast", "--layout=blocks"),
        ("--dictionary", "2MiB"),
        ("--dictionary", "1TiB"),
    ] {
        let line = fail(
            2,
            args([&"import", &scene.store(), &folder, &option, &value]),
        );
        assert!(
            line.contains("must") || line.contains("least") || line.contains("up to"),
            "{line}"
        );
    }
    for (option, value, range) in [
        ("--zstd-level", "99", "between -7 and 22"),
        ("--block-size", "64MiB", "between 1KiB and 16MiB"),
        ("--dictionary", "2MiB", "between 0 and 1MiB"),
    ] {
        let command = args([&"import", &scene.store(), &folder, &option, &value]);
        let line = fail(2, command);
        assert!(line.contains(option) && line.contains(range), "{line}");
    }
    fail(2, args([&"tune", &scene.store(), &"--rounds", &"0"]));
    let line = fail(2, args([&"tune", &scene.store(), &"--levels", &"3,99"]));
    assert!(line.contains("--levels") && line.contains("22"), "{line}");
    let line = fail(2, args([&"ls", &scene.store(), &"--prefix", &"py"]));
    assert!(line.contains("dot"), "{line}");
    let line = fail(2, args([&"ls", &scene.store(), &"--prefix", &"py.100%"]));
    assert!(line.contains("%25"), "{line}");
    fail(2, args([&"ls", &scene.store(), &"--ext", &"tar.gz"]));
    for (option, value) in [
        ("--row-group-rows", "0"),
        ("--row-group-size", "0"),
        ("--zstd-level", "99"),
    ] {
        let dest = scene.path("out.parquet");
        let line = fail(2, args([&"export", &scene.store(), &dest, &option, &value]));
        assert!(line.contains("must"), "{line}");
    }
}

#[test]
fn a_parquet_file_cut_short_leaves_no_store_and_one_line() {
    let scene = Scene::new();
    let parquet = scene.path("rows.parquet");
    write_parquet(
        &parquet,
        &["content", "path"],
        &[&[b"one", b"a.py"], &[b"two", b"b.py"]],
    );
    let whole = fs::read(&parquet).unwrap();
    for cut in [whole.len() - 1, whole.len() / 2, 5, 0] {
        fs::write(&parquet, &whole[..cut]).unwrap();
        let line = fail(1, args([&"import", &scene.store(), &parquet]));
        assert!(line.contains("rows.parquet"), "{line}");
        assert!(!scene.store().exists(), "cut at {cut}");
    }
    fs::write(&parquet, whole).unwrap();
    succeed(args([&"import", &scene.store(), &parquet]));
    let line = String::from_utf8(succeed(args([&"ls", &scene.store(), &"--limit", &"1"]))).unwrap();
    assert!(line.starts_with("py.a."), "{line}");
}

/// A Parquet file whose damage makes the decoder panic brought the panic's message and backtrace to
/// standard error, before the one line that is due.
#[test]
fn a_damaged_parquet_file_gets_one_line_even_if_its_decoder_panics() {
    use ppc_store::source::{SourceOptions, SourceSpec, open_source, panics_become_errors};
    use std::sync::atomic::{AtomicUsize, Ordering};

    static CAUGHT: AtomicUsize = AtomicUsize::new(0);
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panics_become_errors() {
            CAUGHT.fetch_add(1, Ordering::SeqCst);
        } else {
            print(panic);
        }
    }));

    let scene = Scene::new();
    let parquet = scene.path("rows.parquet");
    let rows: [&[&[u8]]; 3] = [&[b"one", b"a.py"], &[b"two", b"b.py"], &[b"one", b"c.py"]];
    write_parquet(&parquet, &["content", "path"], &rows);
    let whole = fs::read(&parquet).unwrap();
    let mut damages = Vec::new();
    for at in 4..whole.len() - 8 {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x80;
        fs::write(&parquet, &bytes).unwrap();
        let before = CAUGHT.load(Ordering::SeqCst);
        let source = open_source(
            &SourceSpec::parse(parquet.as_os_str()),
            &SourceOptions::default(),
        );
        let is_refused = source
            .and_then(|mut source| source.read(&mut |_| Ok(())))
            .is_err();
        let is_panic = CAUGHT.load(Ordering::SeqCst) > before;
        damages.extend(is_refused.then_some((is_panic, bytes)));
    }
    // Those that panic first, and a few of the others.
    damages.sort_by_key(|(is_panic, _)| !is_panic);
    assert!(damages.len() > 20);
    for (_, bytes) in damages.iter().take(20) {
        fs::write(&parquet, bytes).unwrap();
        let line = fail(1, args([&"import", &scene.store(), &parquet]));
        assert!(line.contains("rows.parquet"), "{line}");
    }
}

#[test]
fn unknown_columns_are_named_with_those_there_are() {
    let scene = Scene::new();
    let parquet = scene.path("rows.parquet");
    write_parquet(&parquet, &["body", "file"], &[&[b"one", b"a.py"]]);
    let line = fail(1, args([&"import", &scene.store(), &parquet]));
    assert!(
        line.contains("body") && line.contains("rows.parquet"),
        "{line}"
    );
    let columns = "content=bdy,path=file";
    let line = fail(
        1,
        args([&"import", &scene.store(), &parquet, &"--columns", &columns]),
    );
    assert!(line.contains("bdy"), "{line}");
    let line = fail(
        2,
        args([&"import", &scene.store(), &parquet, &"--columns", &"body"]),
    );
    assert!(line.contains("body"), "{line}");
    assert!(!scene.store().exists());
    let columns = "content=body,path=file";
    succeed(args([
        &"import",
        &scene.store(),
        &parquet,
        &"--columns",
        &columns,
    ]));
}

/// A Parquet file of byte columns.
fn write_parquet(path: &std::path::Path, columns: &[&str], rows: &[&[&[u8]]]) {
    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::writer::SerializedFileWriter;
    let fields: String = columns
        .iter()
        .map(|name| format!("required binary {name};"))
        .collect();
    let schema = parquet::schema::parser::parse_message_type(&format!("message rows {{{fields}}}"));
    let file = fs::File::create(path).unwrap();
    let schema = std::sync::Arc::new(schema.unwrap());
    let mut writer = SerializedFileWriter::new(file, schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for column in 0..columns.len() {
        let values: Vec<ByteArray> = rows.iter().map(|row| row[column].to_vec().into()).collect();
        let mut writer = group.next_column().unwrap().unwrap();
        writer
            .typed::<ByteArrayType>()
            .write_batch(&values, None, None)
            .unwrap();
        writer.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

/// The message had the temporary name beside the one that was asked for.
#[test]
fn an_export_that_cannot_begin_names_the_folder_that_lacks() {
    let scene = store_with_a_file();
    for dest in ["absent/out.tar", "absent/out.parquet", "absent/out"] {
        let line = fail(1, args([&"export", &scene.store(), &scene.path(dest)]));
        assert!(
            line.contains("absent") && line.contains("make it first") && !line.contains("partial"),
            "{line}"
        );
    }
    let folder = args([&"export", &scene.store(), &"-", &"--format", &"dir"]);
    let line = fail(1, folder);
    assert!(line.contains("standard output"), "{line}");
    let file = scene.path("in").join("hello.c");
    let line = fail(1, args([&"export", &scene.store(), &file, &"--overwrite"]));
    assert!(line.contains("there is a file"), "{line}");
}

#[test]
fn a_file_is_no_store() {
    let scene = store_with_a_file();
    for file in [
        scene.store().join("CURRENT"),
        scene.path("in").join("hello.c"),
    ] {
        for command in ["ls", "dump", "stats"] {
            let line = fail(1, args([&command, &file]));
            assert!(line.contains("a file, where the directory"), "{line}");
        }
    }
    let line = fail(1, args([&"dump", &scene.path("absent")]));
    assert!(line.contains("ppc import"), "{line}");
}

#[test]
fn nothing_is_written_into_the_stores_directory() {
    let scene = store_with_a_file();
    for command in ["export", "checkpoint"] {
        let inside = scene.store().join("inside");
        let line = fail(1, args([&command, &scene.store(), &inside]));
        assert!(line.contains("within the store"), "{line}");
        assert!(!inside.exists());
    }
}

/// A pipe was waited for, and a folder was said to be unreadable.
#[test]
fn only_regular_files_are_put() {
    let scene = store_with_a_file();
    let pipe = scene.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let line = fail(1, args([&"put", &scene.store(), &pipe]));
    assert!(
        line.contains("pipe") && line.contains("standard input"),
        "{line}"
    );
    let line = fail(1, args([&"put", &scene.store(), &scene.path("in")]));
    assert!(line.contains("ppc import"), "{line}");
}

#[test]
fn a_file_where_a_folder_is_wanted_is_named() {
    let scene = store_with_a_file();
    let file = scene.path("in").join("hello.c");
    let id = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0";
    for command in [
        args([&"get", &scene.store(), &id, &"--into", &file]).to_vec(),
        args([&"man", &"--into", &file]).to_vec(),
    ] {
        let line = fail(1, command);
        assert!(
            line.contains("hello.c") && line.contains("folder"),
            "{line}"
        );
    }
}

/// An import ended with 0 although some of what it was given was not taken, and `ppc import ... && rm`
/// would have lost it.
#[test]
fn an_import_that_could_not_take_everything_says_so_by_its_exit_code() {
    let scene = Scene::new();
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(6);
    header.set_cksum();
    tar.append_data(&mut header, "hello.c", &b"int x;"[..])
        .unwrap();
    let whole = tar.into_inner().unwrap();
    // Cut between two members, where nothing but the end mark is missing.
    let cut = scene.path("cut.tar");
    fs::write(&cut, &whole[..1024]).unwrap();
    let output = run(args([&"import", &scene.store(), &cut]));
    assert_eq!(output.status.code(), Some(5));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("1 item could not be taken"), "{errors}");
    let found = succeed(args([&"ls", &scene.store()]));
    assert!(found.starts_with(b"c.hello."));

    let huge = scene.path("huge.bin");
    let file = fs::File::create(&huge).unwrap();
    file.set_len(ppc_engine::VALUE_BYTES_MAX as u64 + 1)
        .unwrap();
    let output = run(args([&"import", &scene.store(), &huge]));
    assert_eq!(output.status.code(), Some(5));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("1 item could not be taken"), "{errors}");
    // That is what was asked for.
    succeed(args([
        &"import",
        &scene.store(),
        &huge,
        &"--max-file-size",
        &"1MiB",
    ]));
}

/// `false | ppc import code.ppc -` ended with 0.
#[test]
fn nothing_on_standard_input_is_no_archive() {
    let scene = Scene::new();
    let output = run_with_input(args([&"import", &scene.store(), &"-"]), b"");
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("empty"), "{errors}");
}

/// The process was aborted when it could not have that many threads.
#[test]
fn more_threads_than_a_machine_has_memory_for_are_refused() {
    let scene = store_with_a_file();
    for command in ["import", "verify"] {
        let mut words = args([&command, &scene.store()]).to_vec();
        words.extend((command == "import").then(|| scene.path("in").into_os_string()));
        words.extend(args([&"--threads", &"100000"]));
        let line = fail(2, words);
        assert!(line.contains("--threads is 100000"), "{line}");
    }
}

/// They were made as folders of that name.
#[test]
fn an_export_to_an_archive_that_is_not_written_is_refused() {
    let scene = store_with_a_file();
    for name in ["all.tar.gz", "all.tgz", "all.ZIP"] {
        let line = fail(2, args([&"export", &scene.store(), &scene.path(name)]));
        assert!(line.contains(name) && line.contains(".tar.zst"), "{line}");
        assert!(!scene.path(name).exists());
    }
    let folder = scene.path("all.zip");
    succeed(args([
        &"export",
        &scene.store(),
        &folder,
        &"--format",
        &"dir",
    ]));
    assert!(folder.is_dir());
}

/// Whoever forgot the store was told that a folder of sources was "the store itself".
#[test]
fn a_source_in_the_place_of_the_store_is_not_called_a_store() {
    let scene = Scene::new();
    let folder = scene.folder("in", [(&b"hello.c"[..], &b"hello"[..])]);
    let line = fail(1, args([&"import", &folder, &folder.join("hello.c")]));
    assert!(
        line.contains("the first path, which is that of the store"),
        "{line}"
    );
}
