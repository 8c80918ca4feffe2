//! Tests the use of git revisions as kernel trees. The tests that build a tree need
//! KILN_TEST_TREE_NEXT.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::tree::{place, tree_of};
use crate::common::{fault, kiln, kiln_with};
use serde_json::Value;

/// The directories that a tree's hosted build reads.
const BUILT: [&str; 10] = [
    "arch/x86", "crypto", "include", "init", "kernel", "lib", "mm", "scripts", "security", "tools",
];

/// A bare repository with two commits of a kernel: the original, and a commit that changes a
/// constant in MD5. The commit hashes are the same in every run, so that later runs can reuse the
/// builds of earlier runs.
struct Repository {
    dir: PathBuf,
    tree: PathBuf,
}

impl Repository {
    fn new(tree: &Path) -> Repository {
        let dir = place("revisions");
        let _ = fs::remove_dir_all(dir.join("linux"));
        let repository = Repository {
            dir: dir.join("linux"),
            tree: tree.to_owned(),
        };
        fs::create_dir(&repository.dir).unwrap();
        repository.git(&["init", "-q", "--bare", "-b", "main"], "");
        let patterns = ["Kconfig*", "Makefile*", "Kbuild*"].map(|p| format!(":(glob)**/{p}"));
        let mut add = vec!["add", "-f", "--"];
        add.extend(patterns.iter().map(String::as_str));
        add.extend(BUILT);
        repository.git(&add, "");
        repository.commit("Linux", None);
        let path = "lib/crypto/md5.c";
        let right = fs::read_to_string(tree.join(path)).unwrap();
        let wrong = right.replacen("0xd76aa478", "0xd76aa479", 1);
        assert_ne!(right, wrong);
        let blob = repository.git(&["hash-object", "-w", "--stdin"], &wrong);
        let entry = format!("100644,{blob},{path}");
        repository.git(&["update-index", "--cacheinfo", &entry], "");
        repository.commit("md5: Use a better constant", Some("HEAD"));
        repository
    }

    fn git(&self, args: &[&str], input: &str) -> String {
        let mut git = Command::new("git");
        for name in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"] {
            git.env(name, "/dev/null");
        }
        for name in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{name}_NAME"), "T");
            git.env(format!("GIT_{name}_EMAIL"), "t@example.org");
            git.env(format!("GIT_{name}_DATE"), "1000000000 +0000");
        }
        git.arg("--git-dir").arg(&self.dir);
        // For `git add`, which only reads the files, use the kernel tree as the work tree.
        if args[0] == "add" {
            git.arg("--work-tree").arg(&self.tree);
        }
        let mut child = git
            .args(args)
            .current_dir(&self.tree)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "git {args:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self, subject: &str, parent: Option<&str>) {
        let tree = self.git(&["write-tree"], "");
        let mut args = vec!["commit-tree", &tree, "-m", subject];
        args.extend(parent.into_iter().flat_map(|p| ["-p", p]));
        let commit = self.git(&args, "");
        self.git(&["update-ref", "refs/heads/main", &commit], "");
    }

    /// Returns the name of a revision in the format that Kiln accepts, `REPOSITORY@REVISION`.
    fn at(&self, revision: &str) -> String {
        format!("{}@{revision}", self.dir.display())
    }

    /// Runs Kiln in the repository. Returns the exit status, stdout and stderr.
    fn kiln(&self, args: &[&str]) -> (i32, String, String) {
        let done = Command::new(env!("CARGO_BIN_EXE_kiln"))
            .args(args)
            .current_dir(&self.dir)
            .env("XDG_CACHE_HOME", place("tree-cache"))
            .env_remove("KILN_TIERS")
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            done.status.code().unwrap(),
            text(done.stdout),
            text(done.stderr),
        )
    }

    /// Lists every file in the repository with its modification time.
    fn files(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        let mut open = vec![self.dir.clone()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap().flatten() {
                let (path, meta) = (entry.path(), entry.metadata().unwrap());
                if meta.is_dir() {
                    open.push(path);
                } else {
                    all.insert(format!("{} {:?}", path.display(), meta.modified().unwrap()));
                }
            }
        }
        all
    }
}

#[test]
fn two_commits_are_tested_and_compared_and_the_repository_stays_as_it_is() {
    let Some(tree) = tree_of("KILN_TEST_TREE_NEXT", "tree of a current kernel") else {
        return;
    };
    let repository = Repository::new(&tree);
    let before = repository.files();

    // The commit with the wrong constant must fail, but only in MD5. The other commit is the
    // control and must pass.
    let (status, out, err) =
        repository.kiln(&["test", "--tree", &repository.at("main~1"), "--suite", "md5"]);
    assert_eq!(status, 0, "{out}{err}");
    assert!(out.contains("(\"Linux\")"), "{out}");
    let since = [
        "test", "--tree", "main", "--since", "HEAD~1", "--oracle", "none", "--json",
    ];
    let (status, out, err) = repository.kiln(&since);
    assert_eq!(status, 1, "{out}{err}");
    let record: Value = serde_json::from_str(&out).unwrap();
    let rows = record["rows"].as_array().unwrap();
    assert!(rows
        .iter()
        .any(|row| row["suite"] == "kunit" && row["failed"] == 1));
    for row in rows {
        let name = format!("{} {}", row["alg"], row["impl"]);
        assert!(name.contains("md5"), "{row}");
    }
    let note = record["notes"][0].as_str().unwrap();
    assert!(note.contains("(\"Linux\"): 1 file changed"), "{note}");
    assert!(note.contains("lib/crypto/md5.c"), "{note}");

    // If nothing has changed since the revision, nothing must be tested.
    let (status, out, err) = repository.kiln(&["test", "--tree", "main", "--since", "main"]);
    assert_eq!(status, 0, "{out}{err}");
    assert!(
        out.contains("1..0\n") && out.contains("0 files changed"),
        "{out}"
    );

    let mut compare = vec![
        "compare", "main~1", "main", "--alg", "md5", "--len", "64", "--quick",
    ];
    // Compare at level api, because level library would find the wrong constant and exit with
    // status 1.
    compare.extend(["--level", "api", "--format", "commit-message"]);
    let (status, out, err) = repository.kiln(&compare);
    assert_eq!(status, 0, "{out}{err}");
    for line in out.lines() {
        assert!(line.chars().count() <= 72, "{line}");
        assert!(line.is_empty() || line.starts_with("    "), "{line}");
    }
    let commit = repository.git(&["rev-parse", "main"], "");
    let after = format!("commit {} (\"md5: Use", &commit[..12]);
    assert!(out.contains(&after), "{out}");
    for told in [
        "    Before: main~1, Linux",
        "    CPU: ",
        "    Compiler: ",
        "    Measured by: Kiln ",
        "    Command: kiln compare 'main~1' main --alg md5 --len 64 --quick",
        "    Measured with --quick",
        "    Unit: cycles per call, less is better\n",
    ] {
        assert!(out.contains(told), "{told}: {out}");
    }
    let titles = |l: &&str| l.starts_with("      length  before") && l.ends_with("  change");
    assert_eq!(out.lines().filter(titles).count(), 1, "{out}");
    assert_eq!(repository.files(), before);
}

#[test]
fn what_is_no_revision_is_told_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let name = |revision: &str| format!("{}@{revision}", dir.path().display());
    let not_git = kiln(&["tree", &name("HEAD")]);
    fault(&not_git, 2, "is not in a git repository");
    let Ok(done) = Command::new("git")
        .arg("init")
        .arg("-q")
        .arg(dir.path())
        .status()
    else {
        eprintln!("SKIPPED: needs git");
        return;
    };
    assert!(done.success());
    fault(&kiln(&["tree", &name("HEAD")]), 2, "git knows");
    let sides = [name("v1"), name("v2")];
    let compared = kiln(&["compare", &sides[0], &sides[1]]);
    assert_eq!(compared.status, 2, "{compared:?}");

    // If a commit does not contain a kernel, the error must name the repository.
    let commit = Command::new("git")
        .arg("-C")
        .arg(dir.path())
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q"])
        .args(["--allow-empty", "-m", "a"])
        .status();
    assert!(commit.unwrap().success());
    let foreign = format!("the git repository '{}'", dir.path().display());
    fault(&kiln(&["tree", &name("HEAD")]), 2, &foreign);
    let sides = [name("HEAD"), name("HEAD")];
    fault(&kiln(&["compare", &sides[0], &sides[1]]), 2, &foreign);

    // If a tree is not in a git repository, the command must fail, because it cannot determine what
    // has changed.
    let tree = tempfile::tempdir().unwrap();
    for path in ["Kbuild", "arch/x86/crypto/Makefile"] {
        let path = tree.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    fs::write(
        tree.path().join("Makefile"),
        "VERSION = 7\nPATCHLEVEL = 3\n",
    )
    .unwrap();
    let tree = tree.path().to_str().unwrap();
    let since = kiln(&["test", "--tree", tree, "--since", "HEAD"]);
    fault(&since, 2, "is not in a git repository");
    let without = kiln(&["test", "--since", "HEAD"]);
    assert_eq!(without.status, 2, "{without:?}");

    // If git is not installed, the error line must say how to install it.
    let none = tempfile::tempdir().unwrap();
    let path = none.path().to_str().unwrap();
    let run = kiln_with(&["tree", &name("HEAD")], &[("PATH", path)]);
    fault(&run, 2, "apt-get install git");
}

#[test]
fn a_format_is_one_that_is_known() {
    let run = kiln(&["compare", "a", "b", "--format", "mail"]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("commit-message"), "{}", run.stderr);
    let run = kiln(&["compare", "a", "b", "--format", "commit-message", "--json"]);
    assert_eq!(run.status, 2);
}
