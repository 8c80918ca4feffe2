//! Creates a small git repository for tests. It contains a few files that resemble those of a
//! kernel tree.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

pub(crate) struct Tiny {
    pub dir: TempDir,
}

impl Tiny {
    /// Creates a repository with one commit, whose files resemble a kernel tree.
    pub(crate) fn new() -> Tiny {
        let tiny = Tiny {
            dir: tempfile::tempdir().unwrap(),
        };
        tiny.git(&["init", "-q", "-b", "main"]);
        tiny.write("Makefile", "VERSION = 7\nPATCHLEVEL = 3\n");
        tiny.write("Kbuild", "");
        tiny.write("arch/x86/crypto/aes.S", "aes\n");
        tiny.write("lib/a.c", "a\n");
        tiny.write("drivers/net/big.c", "not built\n");
        tiny.write("drivers/net/Kconfig", "config NET\n");
        tiny.commit("first");
        tiny
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let mut git = Command::new("git");
        // Ignore the user's own git configuration, which might require signed commits.
        for name in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"] {
            git.env(name, "/dev/null");
        }
        for name in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{name}_NAME"), "T");
            git.env(format!("GIT_{name}_EMAIL"), "t@example.org");
        }
        let done = git.arg("-C").arg(self.path()).args(args).output().unwrap();
        assert!(done.status.success(), "git {args:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// Commits all changes, and returns the hash of the commit.
    pub(crate) fn commit(&self, subject: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", subject]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Lists every file, including those in git's own directory, with its content and modification
    /// time.
    pub(crate) fn everything(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut open = vec![self.path().to_owned()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap().flatten() {
                let (path, meta) = (entry.path(), entry.metadata().unwrap());
                match meta.is_dir() {
                    true => open.push(path),
                    false => all.push(format!(
                        "{} {:?} {:?}",
                        path.display(),
                        meta.modified().unwrap(),
                        fs::read(&path)
                    )),
                }
            }
        }
        all.sort();
        all
    }
}
