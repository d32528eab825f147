//! The languages of the paper's corpora, and the files that belong to them.

use ppc_store::key::split_name;
use serde::{Deserialize, Serialize};

/// A language, as the paper divides its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum Language {
    /// Python.
    Python,
    /// C and C++.
    C,
    /// JavaScript, without TypeScript.
    JavaScript,
    /// Java.
    Java,
}

impl Language {
    /// Every language.
    pub const ALL: [Self; 4] = [Self::Python, Self::C, Self::JavaScript, Self::Java];

    /// Its lowercase name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::C => "c",
            Self::JavaScript => "javascript",
            Self::Java => "java",
        }
    }

    /// The extensions of its files, in lowercase.
    #[must_use]
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Python => &["py"],
            Self::C => &[
                "c", "h", "cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "h++", "inl", "ipp", "tcc",
            ],
            Self::JavaScript => &["js", "mjs", "cjs", "jsx"],
            Self::Java => &["java"],
        }
    }

    /// Whether a file of this name belongs to it. Case does not matter.
    #[must_use]
    pub fn has_file(self, name: &[u8]) -> bool {
        let (extension, _) = split_name(name);
        let mut extensions = self.extensions().iter();
        extensions.any(|known| known.as_bytes().eq_ignore_ascii_case(extension))
    }

    /// The text of the list that comes with this program.
    #[must_use]
    pub(super) fn pinned_list(self) -> &'static str {
        match self {
            Self::Python => include_str!("../../corpora/python.toml"),
            Self::C => include_str!("../../corpora/c.toml"),
            Self::JavaScript => include_str!("../../corpora/javascript.toml"),
            Self::Java => include_str!("../../corpora/java.toml"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_a_language_by_its_last_extension() {
        for (language, name) in [
            (Language::Python, "setup.py"),
            (Language::C, "stdio.h"),
            (Language::C, "WINDOWS.H"),
            (Language::C, "a.b.c++"),
            (Language::JavaScript, "jquery.min.js"),
            (Language::Java, "package-info.java"),
        ] {
            for other in Language::ALL {
                assert_eq!(other.has_file(name.as_bytes()), other == language, "{name}");
            }
        }
        for name in [
            "c", "py", "Makefile", "a.json", "a.js.map", "a.d.ts", "a.c.", "",
        ] {
            let mut languages = Language::ALL.into_iter();
            assert!(
                !languages.any(|language| language.has_file(name.as_bytes())),
                "{name}"
            );
        }
    }
}
