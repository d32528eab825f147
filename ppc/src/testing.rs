//! Awkward names and contents that every test of a way in or out should survive.

/// File names without `/`, each different, that some system or format mishandles. Those that a
/// file system would not take (empty, `.`, `..`) are among them.
pub(crate) fn awkward_names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        "",
        ".",
        "..",
        "...",
        "a",
        "Makefile",
        "makefile",
        "MAKEFILE",
        ".gitignore",
        "foo.",
        "foo..",
        "a.tar.gz",
        "a b.c",
        " a.c",
        "a.c ",
        "new\nline.c",
        "tab\t.c",
        "quo\"te'.c",
        "back\\slash.c",
        "100%.c",
        "%2F.c",
        "semi;colon.c",
        "*?<>|:.c",
        "con",
        "CON.c",
        "nul.txt",
        "COM1",
        "lpt9.c",
        "-rf",
        "~",
        "$HOME.sh",
        "é.c",
        "e\u{301}.c",
        "\u{4e16}\u{754c}.rs",
        "\u{202e}gpj.exe",
        "\u{feff}bom.c",
        "\u{1f980}.rs",
        "\u{1}.c",
        "a.\u{1}",
        "\u{7f}.c",
    ]
    .into_iter()
    .map(|name| name.as_bytes().to_vec())
    .collect();
    names.push(b"\xff\xfe.c".to_vec());
    names.push(b"a.\xc3".to_vec());
    names.push([&[b'n'; 253][..], b".c"].concat());
    names.push([&b"s."[..], &[b'e'; 253]].concat());
    names.push([&[0xff_u8; 200][..], b".c"].concat());
    names
}

/// Contents of several kinds, each different.
pub(crate) fn awkward_contents() -> Vec<Vec<u8>> {
    let all_values: Vec<u8> = (0..=255).collect();
    let mut contents = vec![
        Vec::new(),
        b"\0".to_vec(),
        b"\n".to_vec(),
        b"no newline at the end".to_vec(),
        b"mac\rand\r\nwindows\r\n".to_vec(),
        b"\xef\xbb\xbfwith a byte order mark".to_vec(),
        b"latin-1 caf\xe9".to_vec(),
        all_values.repeat(3),
        vec![0; 1_000],
        all_values.repeat(600),
    ];
    // Beyond a Parquet data page, and not compressible.
    let mut state = 1_u32;
    contents.push(
        std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .take(1_500_000)
        .collect(),
    );
    contents
}
