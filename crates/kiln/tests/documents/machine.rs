//! Checks whether this machine has everything that a command needs.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process;
use std::sync::OnceLock;

use kiln_kernel::cipher::Impl;
use kiln_linux::uml;

use super::command::{unquoted, Command};

/// Directory of the scripts that the Debian package installs on PATH.
pub const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/slurm");

/// Returns the path of the program with this name, or `None` if it is not installed.
pub fn program(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .chain([PathBuf::from(SCRIPTS)])
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
}

/// Name of the directory that examples use for the tree of a current kernel.
pub const CURRENT: &str = "linux-7.3";

/// Name of the directory that examples use for the long-term kernel before the one in `linux`.
pub const PREVIOUS: &str = "linux-6.1";

/// Picks one of the tests' kernel trees for `command`. For `kiln linux`, the tree must be able to
/// run as user mode Linux on this CPU. Returns `None` if no tree is suitable.
pub fn tree(command: &str) -> Option<PathBuf> {
    let wanted: &[&str] = if command.contains(CURRENT) {
        &["KILN_TEST_TREE_NEXT"]
    } else if command.contains(PREVIOUS) {
        &["KILN_TEST_TREE_PREVIOUS"]
    } else {
        &["KILN_TEST_TREE", "KILN_TEST_TREE_NEXT"]
    };
    let trees = wanted.iter().map(env::var_os);
    let trees = trees.flatten().filter(|v| !v.is_empty());
    let runs =
        |tree: &PathBuf| !command.contains("kiln linux") || uml::check_register_room(tree).is_ok();
    trees
        .map(|tree| fs::canonicalize(tree).expect("the tests' trees are there"))
        .find(runs)
}

/// Returns the libraries in the output of `kiln list`, and whether each of them is installed.
fn peers() -> &'static BTreeMap<String, bool> {
    static PEERS: OnceLock<BTreeMap<String, bool>> = OnceLock::new();
    PEERS.get_or_init(|| {
        let list = process::Command::new(env!("CARGO_BIN_EXE_kiln"))
            .args(["list", "--json", "--quick"])
            // Use the test's cache, which the commands in the documents also use, because the
            // user's cache may contain libraries.
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .output()
            .unwrap();
        let doc: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
        let rows = doc["rows"].as_array().unwrap().iter();
        let peer = |r: &serde_json::Value| {
            let name = r["name"].as_str()?.to_string();
            (r["kind"] == "peer").then_some((name, r["available"] == true))
        };
        rows.filter_map(peer).collect()
    })
}

/// Returns what is missing if this machine does not meet a need, or `None` if it does. A need is
/// the name of a program, a path, or one of the keywords matched below.
fn lack(command: &str, need: &str) -> Option<String> {
    let there = match need {
        "tree" => {
            let which = "kernel tree (KILN_TEST_TREE, KILN_TEST_TREE_NEXT, KILN_TEST_TREE_PREVIOUS), of 6.13 or newer for user mode Linux on a CPU with AMX";
            return tree(command).is_none().then(|| which.to_string());
        }
        "checkout" => {
            let is_checkout = tree(command).is_some_and(|tree| tree.join(".git").exists());
            return (!is_checkout).then(|| "kernel tree that is a git checkout".to_string());
        }
        "qemu" => {
            return env::var_os("KILN_TEST_QEMU")
                .is_none_or(|v| v.is_empty())
                .then(|| "QEMU and kernel for it (KILN_TEST_QEMU=1)".to_string())
        }
        "registries" => {
            return env::var_os("KILN_TEST_REGISTRIES")
                .is_none_or(|v| v.is_empty())
                .then(|| {
                    "package registries and minutes for them (KILN_TEST_REGISTRIES=1)".to_string()
                })
        }
        "linux-source" => fs::read_dir("/usr/src").is_ok_and(|dir| {
            dir.flatten()
                .any(|e| e.file_name().to_string_lossy().starts_with("linux-source-"))
        }),
        core if core.starts_with("core ") => {
            fs::read_dir("/sys/devices/system/cpu").is_ok_and(|dir| {
                dir.flatten()
                    .any(|e| e.file_name() == *core.replace("core ", "cpu"))
            })
        }
        implementation if implementation.starts_with("implementation ") => {
            let name = &implementation["implementation ".len()..];
            let found = Impl::all().into_iter().find(|imp| imp.driver() == name);
            found.is_none_or(|imp| imp.tier().present())
        }
        peer if peer.starts_with("peer ") => {
            peers().get(&peer["peer ".len()..]).copied() != Some(false)
        }
        path if path.starts_with('/') => fs::metadata(path).is_ok(),
        name => program(name).is_some(),
    };
    (!there).then(|| need.to_string())
}

/// Returns what the command needs but this machine lacks, or `None` if the machine has everything.
/// The needs are those listed in `marked` and those implied by the command's text.
pub fn lacks(command: &Command, marked: &[String]) -> Option<String> {
    let mut said = said(&command.text);
    if command.program() != "kiln" {
        said.push(command.program().to_string());
    }
    marked
        .iter()
        .chain(&said)
        .find_map(|need| lack(&command.text, need))
}

/// Returns the running kernel's release.
fn running() -> String {
    let version = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    version.trim().to_string()
}

/// Returns the needs implied by a command's text.
fn said(text: &str) -> Vec<String> {
    let mut needs = Vec::new();
    let mut need = |what: &str| needs.push(what.to_string());
    if text.contains("~/linux") || text.contains("$HOME/linux") {
        need("tree");
    }
    // A command that names a revision needs the repository that contains it.
    let words = text.split([' ', '@', '\'']);
    if text.contains("--since")
        || text.contains("--tree . ")
        || words.clone().any(|w| w.starts_with("HEAD") || w == "v7.2")
    {
        need("checkout");
    }
    if text.contains("kiln libraries install") {
        need("registries");
    }
    if text.contains("kiln linux") {
        let qemu = ["fidelity", "nested", "linux record", "--qemu", "--debian"];
        if qemu.iter().any(|word| text.contains(word)) {
            need("qemu");
        } else if !text.contains("--tree") && !text.contains("--headers") {
            need("linux-source");
        }
    }
    let text = unquoted(text).replace("$(uname -r)", &running());
    let words: Vec<&str> = text.split_whitespace().collect();
    for (at, word) in words.iter().enumerate() {
        for part in word.split(',') {
            if ["/boot/", "/lib/"].iter().any(|dir| part.starts_with(dir)) {
                need(part);
            }
        }
        if *word == "--cpu" {
            need(&format!("core {}", words.get(at + 1).unwrap_or(&"")));
        }
        let next = words.get(at + 1).unwrap_or(&"");
        if *word == "--impl" {
            let all = next.split(',');
            all.for_each(|imp| need(&format!("implementation {imp}")));
        }
        // The values may also be implementations or files. `lack` treats those as available.
        if ["--baseline", "--peers"].contains(word) {
            let all = next.split(',');
            all.for_each(|peer| need(&format!("peer {peer}")));
        }
        // The values may be compilers or builds. The name of a build starts with its compiler and
        // a slash.
        if ["--cc", "--explain", "--reproduce", "--against"].contains(word) {
            let names = next.split(',').filter_map(|cc| cc.split('/').next());
            names.filter(|cc| is_compiler(cc)).for_each(&mut need);
        }
        if ["|", "&&", "||"].contains(word) || word.ends_with(';') {
            need(next);
        }
    }
    needs.retain(|n| !["[", "echo", "exit", "kiln"].contains(&n.as_str()));
    needs
}

/// Returns whether this is a compiler name that includes a version, such as `gcc-12`.
fn is_compiler(name: &str) -> bool {
    let version = name
        .strip_prefix("gcc-")
        .or_else(|| name.strip_prefix("clang-"));
    version.is_some_and(|v| !v.is_empty() && v.chars().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_read_from_the_command() {
        assert_eq!(said("kiln list --json | jq '.rows[] | length'"), ["jq"]);
        assert_eq!(
            said("kiln tree ~/linux --config /boot/config-6.12"),
            ["tree", "/boot/config-6.12"]
        );
        assert_eq!(
            said("kiln fpu overhead --config kiln,/boot/config-6.12"),
            ["/boot/config-6.12"]
        );
        assert_eq!(
            said(
                "kiln compilers --cc gcc-12,clang-19,./xgcc --explain gcc-11/O2/aes-generic/ubsan"
            ),
            ["gcc-12", "clang-19", "gcc-11"]
        );
        assert!(said("kiln compilers --cc clnag-19").is_empty());
        assert_eq!(said("kiln speed --baseline ipsec-mb"), ["peer ipsec-mb"]);
        assert_eq!(
            said("kiln speed --impl aes-generic,good.json"),
            ["implementation aes-generic", "implementation good.json"]
        );
        assert!(lack("kiln", "implementation xts-aes-generic").is_none());
        assert!(lack("kiln", "implementation good.json").is_none());
        let absent = Impl::all().into_iter().find(|imp| !imp.tier().present());
        if let Some(imp) = absent {
            assert!(lack("kiln", &format!("implementation {}", imp.driver())).is_some());
        }
        assert!(lack("kiln", "peer good.json").is_none() && !peers().is_empty());
        assert_eq!(said("kiln libraries install openssl"), ["registries"]);
        assert!(said("kiln libraries").is_empty());
        assert_eq!(said("kiln linux fidelity"), ["qemu"]);
        assert_eq!(said("kiln linux record a-machine"), ["qemu"]);
        assert_eq!(
            said("kiln linux boot -- cat /proc/crypto"),
            ["linux-source"]
        );
        assert!(said("kiln speed 'xts(aes)'").is_empty());
        for revision in [
            "kiln tree HEAD~1",
            "kiln test --tree ~/linux@HEAD",
            "kiln compare v7.2 .",
        ] {
            assert!(said(revision).contains(&"checkout".to_string()));
        }
        assert!(lack("kiln", "sh").is_none());
        assert_eq!(
            lack("kiln", "no-such-program").as_deref(),
            Some("no-such-program")
        );
    }
}
