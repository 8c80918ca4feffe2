//! Determines the commit from which the program is built. The commit is part of `kiln --version`
//! and of records.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files and directories outside `crates` that are built into the program. Changes to other files,
/// such as documents and tests, do not add `-dirty` to the commit.
const SOURCES: [&str; 6] = [
    "Cargo.lock",
    "Cargo.toml",
    "docs/schema.json",
    "kernel",
    "linux",
    "tree",
];

fn main() {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = manifest.join("../..").canonicalize().unwrap_or(manifest);
    let sources = sources(&root);
    let commit = commit(&root, &sources).unwrap_or_else(|| "unknown".to_string());
    println!("cargo:rustc-env=KILN_COMMIT={commit}");
    let mut features: Vec<String> = env::vars()
        .filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase()))
        .filter(|name| name != "default")
        .collect();
    features.sort();
    if features.is_empty() {
        features.push("none".to_string());
    }
    println!("cargo:rustc-env=KILN_FEATURES={}", features.join(", "));
    // Watching these files does not cause additional builds, because a change to any of them
    // rebuilds the program anyway.
    for path in sources.iter().chain(&heads(&root)).filter(|p| p.exists()) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
}

/// Lists the files and directories from which the program is built.
fn sources(root: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = SOURCES.iter().map(|name| root.join(name)).collect();
    let crates = fs::read_dir(root.join("crates")).into_iter().flatten();
    for entry in crates.flatten() {
        all.extend(["src", "build.rs", "Cargo.toml"].map(|name| entry.path().join(name)));
    }
    all.retain(|path| path.exists());
    all.sort();
    all
}

/// Returns the output of `git describe --always`, plus `-dirty` if a source has changed. Returns
/// `None` outside git, or if the sources were unpacked inside another project's repository.
fn commit(root: &Path, sources: &[PathBuf]) -> Option<String> {
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root {
        return None;
    }
    let commit = git(root, &["describe", "--always"]).filter(|c| !c.is_empty())?;
    let mut args = vec!["status", "--porcelain", "--"];
    args.extend(sources.iter().filter_map(|path| path.to_str()));
    match git(root, &args)?.is_empty() {
        true => Some(commit),
        false => Some(format!("{commit}-dirty")),
    }
}

/// Lists git's own files, such as `HEAD`, that change when a commit is checked out or created.
fn heads(root: &Path) -> Vec<PathBuf> {
    let path = |name: &str| git(root, &["rev-parse", "--git-path", name]).map(|p| root.join(p));
    let mut all: Vec<PathBuf> = path("HEAD").into_iter().collect();
    if let Some(name) = git(root, &["symbolic-ref", "-q", "HEAD"]) {
        match path(&name) {
            Some(file) if file.exists() => all.push(file),
            // The branch has no file of its own, but is recorded in packed-refs. The next commit
            // creates a file in refs/heads, so list both.
            _ => all.extend(["packed-refs", "refs/heads"].iter().filter_map(|n| path(n))),
        }
    }
    all
}

/// Runs git and returns its output without the final newline. Returns `None` if git fails or is not
/// installed.
fn git(root: &Path, args: &[&str]) -> Option<String> {
    let out = Command::new("git")
        .arg("--no-optional-locks")
        .args(args)
        .current_dir(root)
        // A hook or a rebase may have set these variables, which would make git use another
        // repository.
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .output()
        .ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    out.status.success().then(|| text.trim_end().to_string())
}
