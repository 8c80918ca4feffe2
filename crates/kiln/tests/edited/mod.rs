//! A kernel tree with edits: links to the given one, and real files where it was edited.
//!
//! It is one directory for all test programs, which cargo runs one after the other: so each edit costs the build of what
//! it touches, not of a whole tree. What an earlier one edited is as in the tree again, and newer than what was built.

#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Edited {
    tree: PathBuf,
    dir: PathBuf,
}

impl Edited {
    /// The one that all test programs share, without edits.
    pub fn new(tree: &Path) -> Edited {
        Edited::at(
            tree,
            &Path::new(env!("CARGO_TARGET_TMPDIR")).join("edited/linux"),
        )
    }

    /// One of its own.
    pub fn at(tree: &Path, dir: &Path) -> Edited {
        let tree = fs::canonicalize(tree).expect("the tree is there");
        if fs::read_link(dir.join("Makefile")).ok() != Some(tree.join("Makefile")) {
            let _ = fs::remove_dir_all(dir);
            fs::create_dir_all(dir.parent().expect("not the root")).expect("a place for it");
            let copied = Command::new("cp").arg("-as").args([&tree, dir]).status();
            assert!(copied.expect("cp runs").success(), "{}", dir.display());
        }
        let edited = Edited {
            tree,
            dir: dir.to_owned(),
        };
        let files = Command::new("find")
            .arg(dir)
            .args(["-type", "f", "-printf", "%P\\n"])
            .output()
            .expect("find runs");
        let files = String::from_utf8(files.stdout).expect("names in UTF-8");
        files.lines().for_each(|file| edited.restore(file));
        edited
    }

    /// Writes the tree's file with an edit. One whose content stays keeps its time, and what was built of it.
    pub fn edit(&self, file: &str, edit: impl FnOnce(String) -> String) {
        let text = fs::read_to_string(self.tree.join(file)).expect("a file of the tree");
        let text = edit(text);
        let path = self.dir.join(file);
        if !path.is_symlink() && fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return;
        }
        let _ = fs::remove_file(&path);
        fs::write(&path, text).expect("the overlay can be written");
    }

    /// The first `from` in a file becomes `to`.
    pub fn replace(&self, file: &str, from: &str, to: &str) {
        self.edit(file, |text| {
            assert!(text.contains(from), "{file} has no {from:?}");
            text.replacen(from, to, 1)
        });
    }

    /// As in the tree.
    pub fn restore(&self, file: &str) {
        self.edit(file, |text| text);
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn path(&self) -> &str {
        self.dir.to_str().expect("a path in UTF-8")
    }
}
