//! Copies the repository, so that tests can add something to it.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Copies the files that git lists, including new ones. `edit` returns the text of a file that must
/// differ in the copy. Files of an earlier copy that have not changed are not touched, so that
/// cargo does not rebuild them.
pub(crate) fn copy_repository(to: &Path, edit: impl Fn(&Path, &str) -> Option<String>) {
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
    for name in String::from_utf8(listed.stdout)
        .unwrap()
        .split_terminator('\0')
    {
        let Ok(bytes) = fs::read(root.join(name)) else {
            // The file has been removed, but git lists it until the next commit.
            continue;
        };
        let text = std::str::from_utf8(&bytes).ok();
        let edited = text.and_then(|text| edit(Path::new(name), text));
        let bytes = edited.map_or(bytes, String::into_bytes);
        put(&bytes, &to.join(name));
    }
}

/// Writes `bytes` to a file, unless the file already has exactly this content, so that its
/// modification time does not change.
pub(crate) fn put(bytes: &[u8], to: &Path) {
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return;
    }
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::write(to, bytes).unwrap();
}
