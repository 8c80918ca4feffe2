//! Lists the repository's files.

use std::fs;
use std::path::Path;

/// Directories whose files are not part of the repository.
const NOT_OURS: [&str; 3] = [".git", "target", "node_modules"];

/// Returns the path of every file, relative to the root.
pub fn tracked(root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    walk(root, "", &mut files);
    files.sort();
    files
}

fn walk(dir: &Path, prefix: &str, files: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            let build = prefix.is_empty() && name.starts_with("target");
            if !NOT_OURS.contains(&name.as_str()) && !build {
                walk(&entry.path(), &format!("{path}/"), files);
            }
        } else {
            files.push(path);
        }
    }
}
