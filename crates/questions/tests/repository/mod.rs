//! Copies the repository, so that tests can add something to it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_kbuild::walk;

/// Copies the files that git lists, including new ones, and writes the files `added`. `edit`
/// returns the text of a file that must differ in the copy. Unchanged files of an earlier copy are
/// not touched, so that cargo does not rebuild them.
pub(crate) fn copy_repository(
    to: &Path,
    edit: impl Fn(&Path, &str) -> Option<String>,
    added: impl IntoIterator<Item = (PathBuf, Vec<u8>)>,
) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let listed = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(listed.status.success(), "not a checkout");
    let mut files = BTreeMap::new();
    for name in String::from_utf8(listed.stdout)
        .unwrap()
        .split_terminator('\0')
    {
        let Ok(bytes) = fs::read(root.join(name)) else {
            // The file was removed, but git lists it until the next commit.
            continue;
        };
        let text = std::str::from_utf8(&bytes).ok();
        let edited = text.and_then(|text| edit(Path::new(name), text));
        let bytes = edited.map_or(bytes, String::into_bytes);
        files.insert(PathBuf::from(name), bytes);
    }
    files.extend(added);
    for (name, bytes) in &files {
        put(bytes, &to.join(name));
    }
    let mut remove_others = |path: &Path| {
        if !files.contains_key(path.strip_prefix(to).unwrap()) {
            fs::remove_file(path).unwrap();
        }
    };
    walk(to, &mut remove_others).unwrap();
    // Remove the directories of deleted crates, because cargo treats every directory there as a
    // crate.
    for member in fs::read_dir(to.join("crates")).unwrap() {
        let path = member.unwrap().path();
        if !path.join("Cargo.toml").is_file() {
            fs::remove_dir_all(path).unwrap();
        }
    }
}

/// Writes `bytes` to a file, unless the file already has exactly this content, so that its
/// modification time does not change.
fn put(bytes: &[u8], to: &Path) {
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return;
    }
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::write(to, bytes).unwrap();
}
