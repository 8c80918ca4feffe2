//! An edited kernel tree. Edited files are regular files, and all others are links to the original
//! tree.
//!
//! All tests share one directory per tree, because the first build takes a minute, whereas an edit
//! only recompiles the files that depend on it. A test has exclusive use of the directory as long
//! as it holds its [`Edited`]. A file that an earlier test edited is restored with a new
//! modification time, so that the object files that depend on it are rebuilt.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Edited {
    tree: PathBuf,
    dir: PathBuf,
    /// A lock on the shared directory.
    _lock: Option<File>,
}

impl Edited {
    /// Returns the copy of this tree that all tests share, without the edits of earlier tests.
    /// Waits while another test is using the copy.
    pub fn new(tree: &Path) -> Edited {
        let name = tree.file_name().expect("not the root");
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("edited");
        fs::create_dir_all(&place).expect("a place for it");
        let mut lock = name.to_owned();
        lock.push(".lock");
        let lock = File::create(place.join(lock)).expect("a lock file");
        // SAFETY: the descriptor is open.
        let locked = unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) };
        assert_eq!(locked, 0, "the directory can be locked");
        Edited {
            _lock: Some(lock),
            ..Edited::at(tree, &place.join(name))
        }
    }

    /// Creates a separate copy of the tree in `dir`, or reuses an earlier copy after undoing its
    /// edits.
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
            _lock: None,
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

    /// Edits a file of the tree. If the file already has the edited content, it keeps its
    /// modification time, so that its objects stay valid.
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

    /// Replaces the first occurrence of `from` in a file with `to`.
    pub fn replace(&self, file: &str, from: &str, to: &str) {
        self.edit(file, |text| {
            assert!(text.contains(from), "{file} has no {from:?}");
            text.replacen(from, to, 1)
        });
    }

    /// Restores the original content of a file.
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
