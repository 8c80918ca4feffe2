//! Reads and checks the repository's documents.
pub mod command;
pub mod file;
pub mod help;
pub mod link;
pub mod machine;
pub mod markdown;
pub mod run;
pub mod scratch;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A document, with its path in the repository.
#[derive(Clone, Debug)]
pub struct Page {
    pub name: String,
    pub text: String,
}

/// A fault in a document, and its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub at: Place,
    pub what: String,
}

/// A location in the documents: a page and a line number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub page: String,
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.page, self.line)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// Returns the repository's root directory.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::canonicalize(manifest.join("../..")).expect("the crate is in the repository")
}

/// Reads every Markdown file in the root and in `docs/`.
pub fn pages() -> Vec<Page> {
    let root = root();
    let mut names: Vec<String> = file::tracked(&root)
        .into_iter()
        .filter(|f| f.ends_with(".md") && (!f.contains('/') || f.starts_with("docs/")))
        .collect();
    names.sort();
    assert!(names.iter().any(|n| n == "README.md"), "{names:?}");
    names
        .into_iter()
        .map(|name| Page {
            text: fs::read_to_string(root.join(&name)).unwrap(),
            name,
        })
        .collect()
}
