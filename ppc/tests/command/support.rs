//! Running the command, and folders of awkward files to run it on.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The command under test, without arguments.
pub(crate) fn ppc() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ppc"));
    command.stdin(Stdio::null());
    command
}

/// Runs the command to its end.
pub(crate) fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    ppc().args(args).output().unwrap()
}

/// Runs the command, which must succeed, and returns its standard output.
pub(crate) fn succeed<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Vec<u8> {
    let args: Vec<OsString> = args.into_iter().map(|it| it.as_ref().to_owned()).collect();
    let output = run(&args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "ppc {args:?}: {}: {errors}",
        output.status
    );
    output.stdout
}

/// As [`succeed`], with `--json`, parsed; the last line where there are several.
pub(crate) fn succeed_json<S: AsRef<OsStr>>(
    args: impl IntoIterator<Item = S>,
) -> serde_json::Value {
    let args = args.into_iter().map(|it| it.as_ref().to_owned());
    let stdout = succeed(args.chain([OsString::from("--json")]));
    let text = String::from_utf8(stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap()
}

/// Runs the command, which must fail with this code and exactly one line on standard error;
/// returns that line.
pub(crate) fn fail<S: AsRef<OsStr>>(code: i32, args: impl IntoIterator<Item = S>) -> String {
    let args: Vec<OsString> = args.into_iter().map(|it| it.as_ref().to_owned()).collect();
    let output = run(&args);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "ppc {args:?}: {errors}");
    assert_eq!(errors.lines().count(), 1, "ppc {args:?}: {errors}");
    assert!(errors.starts_with("ppc: "), "ppc {args:?}: {errors}");
    errors.trim_end().to_owned()
}

/// Runs the command with this standard input.
pub(crate) fn run_with_input<S: AsRef<OsStr>>(
    args: impl IntoIterator<Item = S>,
    input: &[u8],
) -> Output {
    let mut child = ppc()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // The command may end before it has read everything.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// Runs the command and kills it with signal 9 after `delay`, unless it has ended by then.
pub(crate) fn run_and_kill<S: AsRef<OsStr>>(
    args: impl IntoIterator<Item = S>,
    delay: Duration,
) -> Output {
    let mut child = ppc()
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(delay);
    // It may have ended by itself.
    let _ = child.kill();
    child.wait_with_output().unwrap()
}

/// How often each test kills the command: `PPC_KILLS` times, or `few` where that is not set.
pub(crate) fn kill_rounds(few: u64) -> u64 {
    let rounds = std::env::var("PPC_KILLS").ok();
    rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(few)
}

/// Numbers that look random, the same for the same seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % end
    }
}

/// A command line.
pub(crate) fn args<const N: usize>(parts: [&dyn AsRef<OsStr>; N]) -> [OsString; N] {
    parts.map(|part| part.as_ref().to_owned())
}

/// A temporary directory with room for stores and sources.
pub(crate) struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// A temporary directory below `parent`.
    pub(crate) fn below(parent: &Path) -> Self {
        Self {
            dir: tempfile::tempdir_in(parent).unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path("store")
    }

    /// Writes files into a folder; paths may have directories.
    pub(crate) fn folder<'a>(
        &self,
        name: &str,
        files: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> PathBuf {
        let folder = self.path(name);
        fs::create_dir_all(&folder).unwrap();
        for (path, content) in files {
            let path = folder.join(OsStr::from_bytes(path));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
        }
        folder
    }
}

/// Pseudo-random bytes, the same for the same seed.
pub(crate) fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut noise = Vec::with_capacity(bytes + 8);
    while noise.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.extend_from_slice(&state.to_le_bytes());
    }
    noise.truncate(bytes);
    noise
}

/// A text that looks like source code, different for each number.
pub(crate) fn source_text(number: u64, lines: usize) -> Vec<u8> {
    let mut text = format!("# module {number}\n\nimport os\nimport sys\n\n").into_bytes();
    for line in 0..lines as u64 {
        let value = (number + 1).wrapping_mul(line + 7) % 10_007;
        text.extend(
            format!("def function_{value}(argument):\n    return argument + {line}\n").bytes(),
        );
    }
    text
}

/// The bytes of every file below a directory.
pub(crate) fn contents_below(dir: &Path) -> BTreeSet<Vec<u8>> {
    let mut contents = BTreeSet::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                pending.push(entry.path());
            } else {
                contents.insert(fs::read(entry.path()).unwrap());
            }
        }
    }
    contents
}

/// Everything a directory holds, name and bytes, to tell whether it changed.
pub(crate) fn snapshot(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        files.insert(path.clone(), fs::read(path).unwrap());
    }
    files
}

/// Files with every awkward name and content that a file system takes.
pub(crate) fn awkward_files() -> Vec<(Vec<u8>, Vec<u8>)> {
    let long_name = |tail: &str| [&vec![b'n'; 255 - tail.len()][..], tail.as_bytes()].concat();
    let mut files: Vec<(Vec<u8>, Vec<u8>)> = vec![
        (b"empty.c".to_vec(), Vec::new()),
        (b"one.c".to_vec(), b"x".to_vec()),
        (b"nul.c".to_vec(), vec![0]),
        (b"all.bin".to_vec(), (0..=255).collect()),
        (b"Makefile".to_vec(), b"all:\n".to_vec()),
        (b"makefile".to_vec(), b"none:\n".to_vec()),
        (b"MAKEFILE".to_vec(), b"ALL:\n".to_vec()),
        (b".gitignore".to_vec(), b"target\n".to_vec()),
        (b"...".to_vec(), b"three dots".to_vec()),
        (b"ends.".to_vec(), b"ends in a dot".to_vec()),
        (b"a.tar.gz".to_vec(), noise(1, 5000)),
        (b"new\nline.c".to_vec(), b"newline in the name".to_vec()),
        (
            b"tab\tand\x01control".to_vec(),
            b"control characters".to_vec(),
        ),
        (b"quo\"te's.c".to_vec(), b"quotes".to_vec()),
        (b"back\\slash.c".to_vec(), b"backslash".to_vec()),
        (b"sp ace .c ".to_vec(), b"blanks".to_vec()),
        (b"-rf".to_vec(), b"like an option".to_vec()),
        (b"100%41.c".to_vec(), b"like an escape".to_vec()),
        (b"swh:1:cnt:0.c".to_vec(), b"like an id".to_vec()),
        (b"x.swh:1".to_vec(), b"like an id in the extension".to_vec()),
        (b"y. c".to_vec(), b"a blank in the extension".to_vec()),
        (b"\xff\xfe\xc3.c".to_vec(), b"no UTF-8 in the name".to_vec()),
        (b"a.\xff".to_vec(), b"nor in the extension".to_vec()),
        ("\u{e9}t\u{e9}.c".as_bytes().to_vec(), b"accents".to_vec()),
        (
            "\u{202e}gpj.exe".as_bytes().to_vec(),
            b"right to left".to_vec(),
        ),
        (b"con.c".to_vec(), b"reserved elsewhere".to_vec()),
        (b"deep/er/and/deeper/x.py".to_vec(), b"deep".to_vec()),
        (long_name(".c"), b"255 bytes of name".to_vec()),
        (long_name(""), b"255 bytes without extension".to_vec()),
        (
            [b"x.", &vec![b'e'; 253][..]].concat(),
            b"253 bytes of extension".to_vec(),
        ),
        (b"latin1.txt".to_vec(), b"caf\xe9 cr\xe8me\n".to_vec()),
        (b"crlf.txt".to_vec(), b"a\r\nb\r\n".to_vec()),
        (b"bom.txt".to_vec(), b"\xef\xbb\xbfbom".to_vec()),
        (b"noise.bin".to_vec(), noise(2, 300_000)),
        (b"block.bin".to_vec(), vec![b'b'; 64 << 10]),
        (b"over.bin".to_vec(), vec![b'o'; (64 << 10) + 1]),
    ];
    for number in 0..300 {
        let dir = number % 7;
        files.push((
            format!("package{dir}/module{number}.py").into_bytes(),
            source_text(number, 5 + number as usize % 90),
        ));
    }
    // One content under many names.
    for number in 0..40 {
        files.push((
            format!("copies/{number}/LICENSE.{}", number % 3).into_bytes(),
            b"Permission is hereby granted, free of charge\n".to_vec(),
        ));
    }
    files
}

/// Paths and contents as [`Scene::folder`] takes them.
pub(crate) fn borrowed(files: &[(Vec<u8>, Vec<u8>)]) -> impl Iterator<Item = (&[u8], &[u8])> {
    files
        .iter()
        .map(|(path, content)| (&path[..], &content[..]))
}
