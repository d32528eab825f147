//! Every byte that goes in comes out again, by every way in and out.

use std::collections::BTreeSet;
use std::fs;

use crate::support::{
    Scene, args, awkward_files, borrowed, contents_below, noise, run_with_input, succeed,
    succeed_json,
};

#[test]
fn awkward_files_come_out_as_they_went_in() {
    let scene = Scene::new();
    let files = awkward_files();
    let folder = scene.folder("in", borrowed(&files));
    let distinct: BTreeSet<&[u8]> = files.iter().map(|(_, content)| &content[..]).collect();

    let report = succeed_json(args([&"import", &scene.store(), &folder]));
    assert_eq!(report["files_read"], files.len());
    assert_eq!(report["files_stored"], distinct.len());
    assert_eq!(report["duplicates"], files.len() - distinct.len());

    let keys = succeed(args([&"ls", &scene.store()]));
    assert_eq!(
        keys.iter().filter(|byte| **byte == b'\n').count(),
        distinct.len()
    );

    // All by key, in one batch, framed.
    let output = run_with_input(args([&"get", &scene.store(), &"--batch"]), &keys);
    assert!(output.status.success());
    let got = unframe(&output.stdout);
    let got: BTreeSet<&[u8]> = got.iter().map(|content| &content[..]).collect();
    assert_eq!(got, distinct);

    // All by SWHID, one after the other.
    let swhids = succeed(args([&"ls", &scene.store(), &"--swhid"]));
    let output = run_with_input(args([&"cat", &scene.store(), &"--batch"]), &swhids);
    assert!(output.status.success());
    let bytes: usize = distinct.iter().map(|content| content.len()).sum();
    assert_eq!(output.stdout.len(), bytes);
}

#[test]
fn a_file_of_100_mib_comes_out_as_it_went_in() {
    let scene = Scene::new();
    let large = noise(7, 100 << 20);
    let folder = scene.folder("in", [(&b"large.bin"[..], &large[..]), (b"small.c", b"x")]);
    succeed(args([
        &"import",
        &scene.store(),
        &folder,
        &"--memory",
        &"400MiB",
    ]));
    let key = String::from_utf8(succeed(args([&"ls", &scene.store(), &"--ext", &"bin"]))).unwrap();
    let file = scene.path("out");
    succeed(args([
        &"get",
        &scene.store(),
        &key.trim_end(),
        &"-o",
        &file,
    ]));
    assert!(fs::read(file).unwrap() == large);
}

#[test]
fn contents_put_one_by_one_are_found_by_every_id() {
    let scene = Scene::new();
    let folder = scene.folder("in", [(&b"hello.c"[..], &b"hello"[..])]);
    let file = folder.join("hello.c");
    succeed(args([&"put", &scene.store(), &file]));
    let git = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0";
    for id in [
        git.to_owned(),
        format!("sha1_git:{git}"),
        format!("swh:1:cnt:{git}"),
        format!("swh:1:cnt:{git};path=/src/hello.c;lines=1-2"),
        format!("c.hello.swh:1:cnt:{git}"),
        // Under a name it was not stored with.
        format!("py.other.swh:1:cnt:{git}"),
    ] {
        assert_eq!(
            succeed(args([&"cat", &scene.store(), &id])),
            b"hello",
            "{id}"
        );
        assert_eq!(
            String::from_utf8(succeed(args([&"has", &scene.store(), &id]))).unwrap(),
            format!("{id} found\n")
        );
    }
}

#[test]
fn further_indexes_find_contents_by_their_hashes() {
    let scene = Scene::new();
    let folder = scene.folder("in", [(&b"hello.c"[..], &b"hello"[..])]);
    let index = "sha1,sha256,blake2s256";
    succeed(args([
        &"import",
        &scene.store(),
        &folder,
        &"--index",
        &index,
    ]));
    for id in [
        "sha1:aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d",
        "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
        "blake2s256:19213bacc58dee6dbde3ceb9a47cbb330b3d86f8cca8997eb00be456f140ca25",
    ] {
        assert_eq!(
            succeed(args([&"cat", &scene.store(), &id])),
            b"hello",
            "{id}"
        );
    }
    // A delete takes every index entry with it.
    succeed(args([
        &"rm",
        &scene.store(),
        &"sha1:aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d",
    ]));
    let stats = succeed_json(args([&"stats", &scene.store()]));
    assert_eq!(stats["files"], 0);
}

/// The contents in a stream of framed answers.
fn unframe(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut contents = Vec::new();
    while !stream.is_empty() {
        let end = stream.iter().position(|byte| *byte == b'\n').unwrap();
        let header = std::str::from_utf8(&stream[..end]).unwrap();
        let (head, bytes) = header.rsplit_once(' ').unwrap();
        assert!(head.ends_with(" found"), "{header}");
        let bytes: usize = bytes.parse().unwrap();
        let content = &stream[end + 1..][..bytes];
        contents.push(content.to_vec());
        stream = &stream[end + 1 + bytes..];
        assert_eq!(stream.first(), Some(&b'\n'));
        stream = &stream[1..];
    }
    contents
}

#[test]
fn every_form_of_export_can_be_imported_again() {
    let scene = Scene::new();
    let files = awkward_files();
    let folder = scene.folder("in", borrowed(&files));
    succeed(args([&"import", &scene.store(), &folder]));
    let keys = succeed(args([&"ls", &scene.store()]));
    for name in ["all.parquet", "all.tar", "all.tar.zst", "all"] {
        let export = scene.path(name);
        let report = succeed_json(args([&"export", &scene.store(), &export]));
        assert_eq!(
            report["files"],
            keys.iter().filter(|byte| **byte == b'\n').count()
        );
        let again = scene.path(&format!("again-{name}"));
        let report = succeed_json(args([&"import", &again, &export]));
        assert_eq!(report["mismatches"], 0, "{report}");
        assert_eq!(succeed(args([&"ls", &again])), keys, "{name}");
        assert_eq!(succeed_json(args([&"verify", &again]))["damages"], 0);
    }
    // A folder's names are made safe; its contents are the same.
    let export = scene.path("all");
    let distinct: BTreeSet<Vec<u8>> = files.into_iter().map(|(_, content)| content).collect();
    let exported = contents_below(&export);
    assert!(distinct.is_subset(&exported));
    assert_eq!(exported.len(), distinct.len() + 1, "and a map file");
}

#[test]
fn exports_take_what_is_selected() {
    let scene = Scene::new();
    let folder = scene.folder(
        "in",
        [
            (&b"setup.py"[..], &b"import os\n"[..]),
            (b"lib/setup.py", b"import sys\n"),
            (b"main.c", b"int main() {}\n"),
        ],
    );
    succeed(args([&"import", &scene.store(), &folder]));
    let count = |dest: &str, more: &[&str]| {
        let dest = scene.path(dest);
        let mut all = args([&"export", &scene.store(), &dest]).to_vec();
        all.extend(more.iter().map(Into::into));
        succeed_json(all)["files"].as_u64().unwrap()
    };
    assert_eq!(count("1.tar", &["--ext", "py"]), 2);
    assert_eq!(count("2.tar", &["--name", "main.c"]), 1);
    assert_eq!(count("3.tar", &["--prefix", "py.se"]), 2);
    assert_eq!(
        count("4.parquet", &["--ext", "none", "--compression", "snappy"]),
        0
    );

    let swhids = succeed(args([&"ls", &scene.store(), &"--swhid", &"--ext", &"py"]));
    let list = [
        &swhids[..],
        b"\n",
        &swhids[..],
        b"0000000000000000000000000000000000000000\n",
    ]
    .concat();
    let dest = scene.path("5.tar");
    let command = args([&"export", &scene.store(), &dest, &"--ids", &"-", &"--json"]);
    let output = run_with_input(command, &list);
    assert_eq!(output.status.code(), Some(3));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["files"], &report["missing"]),
        (&2.into(), &1.into())
    );

    let line = crate::support::fail(1, args([&"export", &scene.store(), &dest]));
    assert!(line.contains("5.tar"), "{line}");
    succeed(args([&"export", &scene.store(), &dest, &"--overwrite"]));
}

/// A tar archive as Boffa et al. make them: members named by the sha1 of their content, below its
/// first two digits; and the CSV file beside it, which knows their names.
#[test]
fn an_archive_named_by_hash_gets_its_names_from_the_list_beside_it() {
    use std::io::Write;

    let scene = Scene::new();
    let files = awkward_files();
    let mut tar = tar::Builder::new(Vec::new());
    let mut csv = b"swhid,file_id,length,local_path,filename,filepath\n".to_vec();
    let mut expected = BTreeSet::new();
    let mut done = BTreeSet::new();
    for (path, content) in &files {
        let name = ppc_store::key::file_name(path);
        let hash = ppc_store::Sha1Git::of(content);
        let swhid = ppc_store::Swhid::content(hash);
        let id = ppc_store::HashKind::Sha1.of(content).to_string();
        let id = id.rsplit(':').next().unwrap();
        let local_path = format!("{}/{id}", &id[..2]);
        if done.insert(hash) {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, &local_path, &content[..])
                .unwrap();
            expected.insert(name.to_vec());
        }
        let quoted = |text: &[u8]| {
            let mut quoted = b"\"".to_vec();
            for byte in text {
                quoted.extend(std::iter::repeat_n(*byte, 1 + usize::from(*byte == b'"')));
            }
            quoted.push(b'"');
            quoted
        };
        let row = format!("{swhid},{id},{},{local_path},", content.len());
        csv.extend(row.bytes());
        csv.extend([quoted(name), vec![b','], quoted(path), vec![b'\n']].concat());
    }
    csv.extend(b"not-a-swhid,0,0,0,x.c,x.c\n");
    let archive = scene.path("python_1GiB.tar.zst");
    let tar = tar.into_inner().unwrap();
    fs::write(&archive, zstd::encode_all(&tar[..], 3).unwrap()).unwrap();
    let list = scene.path("python_1GiB.csv.gz");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&csv).unwrap();
    fs::write(&list, gzip.finish().unwrap()).unwrap();

    // A list that is none leaves nothing behind.
    let wrong = scene.path("wrong.csv");
    fs::write(&wrong, "file,hash\n").unwrap();
    let line = crate::support::fail(
        1,
        args([&"import", &scene.store(), &archive, &"--names", &wrong]),
    );
    assert!(line.contains("wrong.csv"), "{line}");
    assert!(!scene.store().exists());

    let problems = scene.path("problems.jsonl");
    let report = succeed_json(args([
        &"import",
        &scene.store(),
        &archive,
        &"--names",
        &list,
        &"--problems",
        &problems,
    ]));
    assert_eq!(report["files_stored"], expected.len());
    assert_eq!(report["files_named"], expected.len());
    assert_eq!(report["name_rows"], files.len());
    assert_eq!(report["bad_name_rows"], 1);
    let problems = fs::read_to_string(problems).unwrap();
    assert!(problems.contains("bad-name-row"), "{problems}");
    assert!(
        problems.contains(&format!("row {} ", files.len())),
        "{problems}"
    );

    let folder = scene.path("out");
    succeed(args([&"export", &scene.store(), &folder]));
    let archive = ppc_store::archive::Archive::open_read_only(
        scene.store(),
        ppc_store::archive::ArchiveOptions::default(),
    )
    .unwrap();
    let keys = archive.keys(&ppc_store::archive::Selection::All).unwrap();
    let names: BTreeSet<Vec<u8>> = keys.map(|key| key.unwrap().name().to_vec()).collect();
    assert_eq!(names, expected);
    let distinct: BTreeSet<Vec<u8>> = files.into_iter().map(|(_, content)| content).collect();
    assert_eq!(
        contents_below(&folder).intersection(&distinct).count(),
        distinct.len()
    );
    let left = fs::read_dir(scene.path("")).unwrap();
    assert!(
        left.flatten()
            .all(|it| !it.file_name().to_string_lossy().starts_with(".ppc-names"))
    );
}

/// What a killed export had written stayed beside the output for ever.
#[test]
fn an_export_removes_what_a_killed_one_left_and_nothing_else() {
    let scene = Scene::new();
    let folder = scene.folder("in", [(&b"a.c"[..], &b"x"[..])]);
    succeed(args([&"import", &scene.store(), &folder]));
    fs::write(scene.path(".out.tar.AbC123.partial"), "left").unwrap();
    scene.folder(
        ".out.AbC123.partial",
        [(&b"ppc-map.tsv"[..], &b"swhid"[..]), (b"c/x.c", b"x")],
    );
    let busy = scene.path(".out.tar.BuSy00.partial");
    fs::write(&busy, "being written").unwrap();
    let lock = fs::File::open(&busy).unwrap();
    lock.lock().unwrap();
    let others = [
        ".out.tar.partial",
        ".else.tar.AbC123.partial",
        ".out.tar.AbC1234.partial",
    ];
    for other in others {
        fs::write(scene.path(other), "of somebody else").unwrap();
    }
    succeed(args([&"export", &scene.store(), &scene.path("out.tar")]));
    succeed(args([&"export", &scene.store(), &scene.path("out")]));
    assert!(!scene.path(".out.tar.AbC123.partial").exists());
    assert!(!scene.path(".out.AbC123.partial").exists());
    assert!(busy.exists());
    for other in others {
        assert!(scene.path(other).exists(), "{other}");
    }
}

#[test]
fn an_export_goes_through_a_pipe_and_back() {
    let scene = Scene::new();
    let files = awkward_files();
    let folder = scene.folder("in", borrowed(&files));
    succeed(args([&"import", &scene.store(), &folder]));
    let keys = succeed(args([&"ls", &scene.store()]));
    for format in ["tar", "tar.zst"] {
        let command = args([&"export", &scene.store(), &"-", &"--format", &format]);
        let output = crate::support::run(command);
        assert!(output.status.success());
        // The result would stand in the middle of the archive.
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(" files, "), "{told}");
        let again = scene.path(format);
        let imported = run_with_input(args([&"import", &again, &"-"]), &output.stdout);
        assert!(imported.status.success());
        assert_eq!(succeed(args([&"ls", &again])), keys, "{format}");
    }
    assert!(!scene.path("-").exists());
    let command = args([
        &"export",
        &scene.store(),
        &"-",
        &"--format",
        &"parquet",
        &"-q",
    ]);
    let output = crate::support::run(command);
    assert!(output.status.success() && output.stderr.is_empty());
    assert!(output.stdout.starts_with(b"PAR1") && output.stdout.ends_with(b"PAR1"));
}

#[test]
fn an_export_whose_reader_goes_away_is_no_error() {
    use std::io::Read;
    let scene = Scene::new();
    let folder = scene.folder("in", [(&b"large.bin"[..], &noise(5, 8 << 20)[..])]);
    succeed(args([&"import", &scene.store(), &folder]));
    let mut child = crate::support::ppc()
        .args(args([&"export", &scene.store(), &"-"]))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    assert!(output.stderr.is_empty());
}

/// A tar archive completes itself when it is dropped; on standard output a part of one would pass for
/// the whole.
#[test]
fn an_export_to_a_pipe_that_is_stopped_has_no_end_mark() {
    use std::io::Read;
    let scene = Scene::new();
    let files: Vec<(Vec<u8>, Vec<u8>)> = (0..300)
        .map(|number| (format!("{number}.bin").into_bytes(), noise(number, 40_001)))
        .collect();
    let folder = scene.folder("in", borrowed(&files));
    succeed(args([&"import", &scene.store(), &folder]));
    let mut child = crate::support::ppc()
        .args(args([&"export", &scene.store(), &"-"]))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut bytes = vec![0];
    stdout.read_exact(&mut bytes).unwrap();
    // It waits for room in the pipe meanwhile.
    let pid = child.id().to_string();
    let killed = std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status();
    assert!(killed.unwrap().success());
    std::thread::sleep(std::time::Duration::from_millis(300));
    stdout.read_to_end(&mut bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(bytes.len() < 300 * 40_001);
    assert!(!bytes.ends_with(&[0; 1024]), "{} bytes", bytes.len());
}
