//! Copies the repository, so that tests can make changes in the copy.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use kiln_kbuild::walk;

/// Copies the files that git lists, including new ones, and writes the files in `added`. If a file
/// must differ in the copy, `edit` returns its new text. Files that have not changed since an
/// earlier copy are not touched, so that cargo does not rebuild them.
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
    let (mut files, mut times) = (BTreeMap::new(), BTreeMap::new());
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
        if edited.is_none() {
            let time = fs::metadata(root.join(name)).and_then(|m| m.modified());
            times.insert(PathBuf::from(name), time.unwrap());
        }
        let bytes = edited.map_or(bytes, String::into_bytes);
        files.insert(PathBuf::from(name), bytes);
    }
    files.extend(added);
    for (name, bytes) in &files {
        put(bytes, &to.join(name), times.get(name).copied());
    }
    let mut remove_others = |path: &Path| {
        if !files.contains_key(path.strip_prefix(to).unwrap()) {
            fs::remove_file(path).unwrap();
        }
    };
    walk(to, &mut remove_others).unwrap();
    // Remove the directories of deleted crates, because cargo treats every directory in `crates/`
    // as a crate.
    for member in fs::read_dir(to.join("crates")).unwrap() {
        let path = member.unwrap().path();
        if !path.join("Cargo.toml").is_file() {
            fs::remove_dir_all(path).unwrap();
        }
    }
}

/// Writes `bytes` to a file. If the file already has exactly this content, it is not written, so
/// its modification time does not change. A new file gets the modification time `time`, if given.
fn put(bytes: &[u8], to: &Path, time: Option<SystemTime>) {
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return;
    }
    let is_new = !to.exists();
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::write(to, bytes).unwrap();
    if let Some(time) = time.filter(|_| is_new) {
        File::options()
            .write(true)
            .open(to)
            .and_then(|file| file.set_modified(time))
            .unwrap();
    }
}
