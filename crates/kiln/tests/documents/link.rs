//! Checks that the links in documents resolve and that the files they mention exist.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use super::markdown::{self, Parts};
use super::{Fault, Page, Place};

/// A word in a document counts as a file name if it has one of these extensions.
const KINDS: [&str; 9] = [
    ".rs", ".c", ".h", ".S", ".sh", ".md", ".toml", ".config", ".service",
];

/// Files that documents mention but that are not in the repository: files in a Linux tree, files
/// that a command writes, and files that belong to the reader.
const ELSEWHERE: &[&str] = &[
    "aes_core.c",
    "arch/x86/boot/bzImage",
    "arch/x86/kernel/cpu/microcode/amd.c",
    "async_xor.c",
    "build.sh",
    "count.sh",
    "crypto/aes_generic.c",
    "crypto/asymmetric_keys/pkcs7_verify.c",
    "crypto/async_tx/async_pq.c",
    "crypto/pcrypt.c",
    "crypto/tcrypt.c",
    "crypto/testmgr.h",
    "drivers/base/firmware_loader/main.c",
    "drivers/firmware/efi/embedded-firmware.c",
    "drivers/md/dm-verity-target.c",
    "drivers/nvme/host/tcp.c",
    "fs/btrfs/fs.c",
    "fs/btrfs/raid56.c",
    "fs/btrfs/send.c",
    "fs/smb/server/auth.c",
    "fs/verity/hash_algs.c",
    "fs/xfs/xfs_log.c",
    "include/crypto/aead.h",
    "include/linux/in.h",
    "include/uapi/linux/ethtool.h",
    "interesting.sh",
    "kernel/bpf/arraymap.c",
    "kernel/kexec_file.c",
    "kernel/module/signing.c",
    "kernel/power/swap.c",
    "kiln.toml",
    "kiln_budget.h",
    "lib/crypto/aes.c",
    "lib/digsig.c",
    "mine.config",
    "mm/kmemleak.c",
    "mm_malloc.h",
    "my.c",
    "net/core/flow_dissector.c",
    "net/core/skbuff.c",
    "net/xfrm/xfrm_state.c",
    "run.sh",
    "security/apparmor/crypto.c",
    "security/ipe/audit.c",
    "sm3-avx-asm_64.S",
    "tcrypt.c",
    "testmgr.h",
    "wp512.c",
];

/// Returns the incorrect links and file names in these pages. `files` lists all files in the
/// repository.
pub fn faults(pages: &[Page], files: &[String]) -> Vec<Fault> {
    let parts: HashMap<&str, Parts> = pages
        .iter()
        .map(|p| (p.name.as_str(), markdown::parts(&p.text)))
        .collect();
    let mut faults = Vec::new();
    for page in pages {
        let here = &parts[page.name.as_str()];
        let mut fault = |line: usize, what: String| {
            let page = page.name.clone();
            faults.push(Fault {
                at: Place { page, line },
                what,
            });
        };
        for (line, target) in &here.links {
            if let Err(what) = link(&page.name, target, &parts, files) {
                fault(*line, what);
            }
        }
        for (line, span) in &here.spans {
            if is_file(span, files) == Some(false) {
                fault(*line, format!("no file {span}"));
            }
        }
    }
    faults
}

fn link(
    page: &str,
    target: &str,
    parts: &HashMap<&str, Parts>,
    files: &[String],
) -> Result<(), String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match path {
        "" => page.to_string(),
        path => beside(page, path),
    };
    let inside = format!("{path}/");
    let known = files.contains(&path) || parts.contains_key(path.as_str());
    if !known && !files.iter().any(|f| f.starts_with(&inside)) {
        return Err(format!("a link to {target}, which is not there"));
    }
    match parts.get(path.as_str()) {
        Some(there) if !anchor.is_empty() && !there.anchors.iter().any(|a| a == anchor) => {
            Err(format!("a link to {target}, which has no such heading"))
        }
        _ => Ok(()),
    }
}

/// Converts a path that is relative to a page into a path that is relative to the root.
fn beside(page: &str, path: &str) -> String {
    let mut to = PathBuf::from(page);
    to.pop();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                to.pop();
            }
            Component::Normal(name) => to.push(name),
            _ => {}
        }
    }
    to.to_string_lossy().into_owned()
}

/// Returns whether a file name refers to an existing file, or `None` if the word does not look like
/// a file name. The name may omit leading directories and contain `*` wildcards.
fn is_file(word: &str, files: &[String]) -> Option<bool> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/*+".contains(c);
    let path = word.trim_end_matches('/');
    if path.is_empty() || !word.chars().all(plain) || word.starts_with(['/', '-', '.']) {
        return None;
    }
    let top = path.split('/').next().unwrap_or("");
    let ours = word.contains('/') && files.iter().any(|f| f.split('/').next() == Some(top));
    let named = KINDS.iter().any(|kind| path.ends_with(kind)) && !path.starts_with('.');
    let capitals = |part: &str| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase());
    let stands_for = path.split(['/', '.']).any(capitals) && !files.iter().any(|f| f == path);
    if !(ours || named) || ELSEWHERE.contains(&path) || stands_for {
        return None;
    }
    let there = |file: &String| {
        // A directory exists if it contains at least one file.
        let ends = file
            .match_indices('/')
            .map(|(at, _)| at)
            .chain([file.len()]);
        ends.into_iter().any(|end| {
            let upto = &file[..end];
            let starts = [0]
                .into_iter()
                .chain(upto.match_indices('/').map(|(at, _)| at + 1));
            starts
                .into_iter()
                .any(|start| matches(path, &upto[start..]))
        })
    };
    Some(files.iter().any(there))
}

/// Returns whether a name matches a pattern. A `*` in the pattern matches any run of characters
/// other than slashes.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            let reach = rest.find('/').unwrap_or(rest.len());
            (0..=reach)
                .filter(|&n| rest.is_char_boundary(n))
                .any(|n| matches(after, &rest[n..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_files() {
        let files = ["kernel/fpu/bh_off.c", "docs/VIRTIO.md", "tree/config"].map(str::to_string);
        let is = |word: &str| is_file(word, &files);
        assert_eq!(is("kernel/fpu/bh_off.c"), Some(true));
        assert_eq!(is("fpu/bh_off.c"), Some(true));
        assert_eq!(is("bh_off.c"), Some(true));
        assert_eq!(is("kernel/fpu/"), Some(true));
        assert_eq!(is("kernel/fpu/*.c"), Some(true));
        assert_eq!(is("kernel/*.c"), Some(false));
        assert_eq!(is("h_off.c"), Some(false));
        assert_eq!(is("kernel/fpu/lazy.c"), Some(false));
        assert_eq!(is("tree/nothing"), Some(false));
        assert_eq!(is("kernel/ciphers/ALG/generic.c"), None);
        assert_eq!(is("poll/wait"), None);
        assert_eq!(is("xts(aes)"), None);
    }
}
