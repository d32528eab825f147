use std::io::Write;

use parking_lot::Mutex;

use super::*;
use crate::progress::Unobserved;

/// Remembers problems.
#[derive(Default)]
struct Listener(Mutex<Vec<String>>);

impl Observer for Listener {
    fn problem(&self, problem: &Problem) {
        let Problem {
            origin, message, ..
        } = problem;
        self.0.lock().push(format!("{origin}: {message}"));
    }
}

fn swhid(content: &[u8]) -> String {
    format!("swh:1:cnt:{}", Sha1Git::of(content))
}

fn options(directory: &Path) -> NamesOptions {
    NamesOptions {
        directory: directory.to_path_buf(),
        memory_bytes: 1 << 20,
        cache_bytes: 1 << 20,
        threads: 1,
    }
}

fn read_with(files: &[&[u8]], observer: &dyn Observer) -> Result<(tempfile::TempDir, Names)> {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..files.len())
        .map(|at| dir.path().join(format!("{at}.csv")))
        .collect();
    for (path, bytes) in paths.iter().zip(files) {
        std::fs::write(path, bytes).unwrap();
    }
    let names = Names::read(&paths, &options(dir.path()), observer)?;
    Ok((dir, names))
}

fn name(names: &Names, content: &[u8]) -> Option<String> {
    let name = names.get(Sha1Git::of(content)).unwrap();
    name.map(|name| String::from_utf8_lossy(&name).into_owned())
}

#[test]
fn the_first_name_counts_where_nothing_is_counted() {
    let csv = format!(
        "swhid,file_id,length,local_path,filename,filepath\n\
         {a},0,1,0,first.c,x/first.c\n\
         {b},0,1,0,,deep/path.c\n\
         {a},0,1,0,second.c,\n\
         {c},0,1,0,\"quoted, \"\"name\"\"\nof two lines.c\",\n",
        a = swhid(b"a"),
        b = swhid(b"b"),
        c = swhid(b"c"),
    );
    let (_dir, names) = read_with(&[csv.as_bytes()], &Unobserved).unwrap();
    assert_eq!((names.rows(), names.bad_rows()), (4, 0));
    assert_eq!(name(&names, b"a").as_deref(), Some("first.c"));
    assert_eq!(name(&names, b"b").as_deref(), Some("path.c"));
    let quoted = "quoted, \"name\"\nof two lines.c";
    assert_eq!(name(&names, b"c").as_deref(), Some(quoted));
    assert_eq!(name(&names, b"unlisted"), None);
}

#[test]
fn the_most_frequent_name_counts_over_all_files() {
    let a = swhid(b"a");
    let first = format!("\u{feff}SWHID,length,Filename,Occurrences\r\n{a},1,rare.c,2\r\n");
    let second = format!("occurrences,filename,swhid\n9,often.c,{a}\n9,later.c,{a}\n");
    let (_dir, names) = read_with(&[first.as_bytes(), second.as_bytes()], &Unobserved).unwrap();
    assert_eq!(name(&names, b"a").as_deref(), Some("often.c"));
}

#[test]
fn names_are_bytes_and_files_may_be_compressed() {
    let mut csv = b"swhid,filepath\n".to_vec();
    csv.extend([swhid(b"a").as_bytes(), b",dir/\xff\xfe.c\n"].concat());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&csv).unwrap();
    let gzip = gzip.finish().unwrap();
    for bytes in [&csv, &gzip, &zstd::encode_all(&csv[..], 1).unwrap()] {
        let (_dir, names) = read_with(&[bytes], &Unobserved).unwrap();
        let name = names.get(Sha1Git::of(b"a")).unwrap().unwrap();
        assert_eq!(&name[..], b"\xff\xfe.c");
    }
    let error = read_with(&[&gzip[..gzip.len() - 9]], &Unobserved).unwrap_err();
    assert!(error.to_string().contains("cut short"), "{error}");
}

#[test]
fn bad_rows_are_told_with_file_and_row_and_left_out() {
    let csv = format!(
        "swhid,filename,count\n\
         {a},good.c,1\n\
         swh:1:dir:0000000000000000000000000000000000000000,dir,1\n\
         nonsense,x.c,1\n\
         {a}\n\
         {a},,1\n\
         {a},x.c,many\n\
         {a},{long},1\n\
         {b},also good.c,1,and,more\n",
        a = swhid(b"a"),
        b = swhid(b"b"),
        long = "n".repeat(70_000),
    );
    let listener = Listener::default();
    let (_dir, names) = read_with(&[csv.as_bytes()], &listener).unwrap();
    assert_eq!((names.rows(), names.bad_rows()), (2, 6));
    assert_eq!(name(&names, b"b").as_deref(), Some("also good.c"));
    let problems = listener.0.into_inner();
    assert_eq!(problems.len(), 6);
    assert!(
        problems[1].contains("0.csv row 2 (line 4): no SWHID of a content"),
        "{}",
        problems[1]
    );
    assert!(problems[4].contains("occurrences"), "{}", problems[4]);
    assert!(problems[5].len() < 1_000, "{}", problems[5].len());
}

#[test]
fn files_that_are_no_lists_are_refused_by_name() {
    let refused = |bytes: &[u8]| {
        let error = read_with(&[bytes], &Unobserved).unwrap_err().to_string();
        assert!(error.contains("0.csv"), "{error}");
        error
    };
    assert!(refused(b"").contains("needs the columns swhid"));
    assert!(refused(b"swhid;filename\n").contains("swhid;filename"));
    assert!(refused(b"swhid,length\n").contains("filename or filepath"));
    let unclosed = [b"swhid,filename\nx,\"", &vec![b'y'; 3 << 20][..]].concat();
    assert!(refused(&unclosed).contains("never closed"));
    let missing = Names::read(
        &["nowhere.csv".into()],
        &options(Path::new(".")),
        &Unobserved,
    );
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn more_rows_than_fit_into_memory_are_sorted_on_the_disk_which_is_cleared() {
    let content = |number: u32| (number % 30_000).to_le_bytes();
    let mut csv = "swhid,filename,occurrences\n".to_owned();
    for number in 0..60_000_u32 {
        let occurrences = number / 30_000 + number % 2;
        csv += &format!("{},n{number}.c,{occurrences}\n", swhid(&content(number)));
    }
    let (dir, names) = read_with(&[csv.as_bytes()], &Unobserved).unwrap();
    for number in (0..30_000).step_by(97) {
        let expected = format!("n{}.c", number + 30_000);
        assert_eq!(name(&names, &content(number)), Some(expected));
    }
    let left = || {
        let entries = std::fs::read_dir(dir.path()).unwrap();
        let is_left = |name: &std::ffi::OsString| name != "0.csv";
        entries
            .map(|it| it.unwrap().file_name())
            .filter(is_left)
            .count()
    };
    assert_eq!(left(), 1);

    // A second reader sweeps what nobody has open, and nothing else.
    let abandoned = dir.path().join(".ppc-names-abandoned");
    let db = Db::open(&abandoned, DbOptions::default()).unwrap();
    drop(db);
    std::fs::create_dir(dir.path().join(".ppc-names-foreign")).unwrap();
    let paths = [dir.path().join("0.csv")];
    let second = Names::read(&paths, &options(dir.path()), &Unobserved).unwrap();
    assert!(!abandoned.exists());
    assert_eq!(name(&names, &content(3)), name(&second, &content(3)));
    assert_eq!(left(), 3);
    drop((names, second));
    assert_eq!(left(), 1);
}

#[test]
fn an_observer_that_does_not_go_on_ends_the_reading() {
    struct Impatient;
    impl Observer for Impatient {
        fn wish(&self) -> Wish {
            Wish::Finish
        }
    }
    let error = read_with(&[b"swhid,filename\n"], &Impatient).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}
