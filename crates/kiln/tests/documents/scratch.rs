//! The directory in which the commands from the documents run. It contains the files that the
//! examples use.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

use tempfile::TempDir;

use super::{machine, run};

/// A C file with a checksum function, which examples compile as if it were the user's own code.
const MY_C: &str = "\
#include <stddef.h>
#include <stdint.h>

uint32_t crc(const uint8_t *data, size_t len)
{
\tuint32_t c = ~0u;
\tsize_t i;
\tint k;

\tfor (i = 0; i < len; i++) {
\t\tc ^= data[i];
\t\tfor (k = 0; k < 8; k++)
\t\t\tc = c >> 1 ^ (c & 1 ? 0x82f63b78 : 0);
\t}
\treturn ~c;
}
";

/// File names that examples use for a compiler that the reader has built.
const COMPILERS: [&str; 3] = ["cc", "gcc/xgcc", "build/gcc/xgcc"];

/// Directory names that examples use for a kernel tree.
const TREES: [&str; 3] = ["linux", "linux-a", "linux-b"];

/// File names that examples use for a record.
const RECORDS: [&str; 3] = ["before.json", "after.json", "good.json"];

/// The name that examples use for a recorded machine.
const MACHINE: &str = "debian-6.12";

/// Directories that the examples expect in the current directory.
const DIRECTORIES: [&str; 4] = [
    "run/kiln",
    ".local/share/bash-completion/completions",
    ".config/fish/completions",
    "usr/local/share/zsh/site-functions",
];

/// The working directory of the commands on one page, which is also their home directory. It is
/// removed on drop.
pub struct Scratch {
    dir: TempDir,
}

impl Scratch {
    pub fn new() -> Scratch {
        // Use a short name, because the directory contains sockets, and the length of a socket's
        // path is limited.
        let dir = tempfile::Builder::new()
            .prefix("kiln-docs-")
            .tempdir_in("/tmp")
            .unwrap();
        let at = |name: &str| dir.path().join(name);
        let numbers: String = (1..=1000).map(|n| format!("{n}\n")).collect();
        fs::write(at("plain"), numbers).unwrap();
        fs::write(at("key"), (0..64).map(|i| i * 37 + 11).collect::<Vec<u8>>()).unwrap();
        fs::write(at("my.c"), MY_C).unwrap();
        fs::write(at("traffic.pcap"), capture()).unwrap();
        for name in DIRECTORIES {
            fs::create_dir_all(at(name)).unwrap();
        }
        let machines = concat!(env!("CARGO_MANIFEST_DIR"), "/../questions/tests/machines");
        symlink(format!("{machines}/{MACHINE}"), at(MACHINE)).unwrap();
        if let Some(cc) = machine::program("cc") {
            for name in COMPILERS {
                fs::create_dir_all(at(name).parent().unwrap()).unwrap();
                symlink(&cc, at(name)).unwrap();
            }
        }
        Scratch { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Creates the trees and records that the command uses. Replaces existing records, because they
    /// may have been left by a command that was interrupted.
    pub fn furnish(&self, command: &str) {
        let (current, previous) = (machine::CURRENT, machine::PREVIOUS);
        let others = command.replace(current, "").replace(previous, "");
        for (names, command) in [
            (&TREES[..], &*others),
            (&[current], current),
            (&[previous], previous),
        ] {
            let Some(tree) = machine::tree(command) else {
                continue;
            };
            for name in names {
                // Replace the link atomically by renaming a new one, because several commands run
                // in this directory at the same time.
                let new = self
                    .path()
                    .join(format!("{name}-{:?}", thread::current().id()));
                let _ = fs::remove_file(&new);
                symlink(&tree, &new).unwrap();
                fs::rename(&new, self.path().join(name)).unwrap();
            }
        }
        let compilers = command.contains("kiln compilers");
        for name in RECORDS {
            if command.contains(name) {
                let record = if compilers { compiled() } else { measured() };
                fs::write(self.path().join(name), record).unwrap();
            }
        }
        // Create the records that are passed to `report` and `compare`. The arguments of `report`
        // may also be directories of records.
        let words = command.split_whitespace();
        let records = command.starts_with("kiln compare");
        let named = words
            .skip_while(|w| !["report", "compare"].contains(w))
            .skip(1)
            .take_while(|w| !w.starts_with(['-', '>']))
            .filter(|w| !records || (w.ends_with(".json") && w.contains('/')));
        for name in named {
            let record = match name.ends_with(".json") {
                true => self.path().join(name),
                false => self.path().join(name).join("speed.json"),
            };
            fs::create_dir_all(record.parent().unwrap()).unwrap();
            fs::write(record, measured()).unwrap();
        }
    }

    /// Returns a command that runs in this directory, with an environment suitable for tests.
    pub fn command(&self, program: &str) -> Command {
        let bin = Path::new(env!("CARGO_BIN_EXE_kiln")).parent().unwrap();
        let path = env::var("PATH").unwrap_or_default();
        let scripts = machine::SCRIPTS;
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env("PATH", format!("{}:{scripts}:{path}", bin.display()))
            .env("HOME", self.path())
            // Use a cache in this directory, so that the partial files that an interrupted build
            // leaves are removed together with the directory.
            .env(
                "XDG_CACHE_HOME",
                match run::full() {
                    true => cache(),
                    false => self.path().join(".cache"),
                },
            )
            .env_remove("KILN_TIERS")
            .env_remove("KILN_OPENSSL");
        command
    }
}

/// Returns the cache that all tests share for tree builds and compilations.
fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("tree-cache")
}

/// Returns a record of `kiln speed`. The measurement is made once per process.
fn measured() -> &'static [u8] {
    static RECORD: OnceLock<Vec<u8>> = OnceLock::new();
    RECORD.get_or_init(|| {
        record(&[
            "speed",
            "xts(aes)",
            "--len",
            "16,512,4096",
            "--peers",
            "none",
            "--quick",
            "--json",
        ])
    })
}

/// Returns a record of `kiln compilers`. The measurement is made once per process.
fn compiled() -> &'static [u8] {
    static RECORD: OnceLock<Vec<u8>> = OnceLock::new();
    RECORD.get_or_init(|| {
        record(&[
            "compilers",
            "--subject",
            "aes-generic",
            "--cc",
            "cc",
            "--opt",
            "O2",
            "--variant",
            "default",
            "--quick",
            "--json",
        ])
    })
}

fn record(args: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_kiln"))
        .args(args)
        .env("XDG_CACHE_HOME", cache())
        .env_remove("KILN_TIERS")
        .output()
        .unwrap();
    assert!(output.status.success(), "kiln {args:?}: {output:?}");
    output.stdout
}

/// Returns a capture of 20,000 raw IP packets at intervals of about 20 us, with packet sizes that
/// are typical of an internet exchange.
fn capture() -> Vec<u8> {
    let mut file = Vec::new();
    // Write the header of the classic pcap format: magic number, version 2.4, time zone, accuracy,
    // a snapshot length of 96 bytes, and LINKTYPE_RAW.
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 96, 101] {
        file.extend(word.to_le_bytes());
    }
    let sizes = [40_u32, 1500, 576, 40, 1500, 40, 40, 576];
    for n in 0..20_000_u32 {
        let size = sizes[n as usize % sizes.len()];
        let us = n * 20 + n * 7 % 13;
        for word in [us / 1_000_000, us % 1_000_000, size.min(96), size] {
            file.extend(word.to_le_bytes());
        }
        let mut packet = vec![0; size.min(96) as usize];
        // Fill in the IPv4 header: version 4 with a header of five words, the length, protocol UDP.
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&(size as u16).to_be_bytes());
        packet[9] = 17;
        file.extend(packet);
    }
    file
}
