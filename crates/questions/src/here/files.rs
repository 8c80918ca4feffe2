//! Lists and reads the files needed to judge a machine.
//!
//! The contents of the files are not trusted, because a recording may come from another person and
//! may have been cut short or forged.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Maximum number of bytes to read from one file. On a large kernel, `/proc/kallsyms` is about 20
/// MiB long.
const MOST: u64 = 64 << 20;
/// Maximum number of bytes to read as one line.
const LONGEST: u64 = 64 << 10;
/// Maximum number of entries to read from one directory.
const ENTRIES: usize = 200_000;

/// A file to read, or all files that match a pattern.
#[derive(Debug)]
pub(crate) struct Source {
    /// Path relative to the root directory. A component `*` matches any name, and `[0-9]*` matches
    /// any number.
    pub pattern: &'static str,
    /// Only lines that contain at least one of these words are kept. If the list is empty, all
    /// lines are kept.
    pub words: &'static [&'static str],
}

const fn whole(pattern: &'static str) -> Source {
    Source {
        pattern,
        words: &[],
    }
}

pub(super) const RELEASE: Source = whole("proc/sys/kernel/osrelease");
pub(super) const VERSION: Source = whole("proc/version");
pub(super) const CRYPTO: Source = whole("proc/crypto");
pub(super) const MODULES: Source = whole("proc/modules");
pub(super) const SOFTIRQS: Source = whole("proc/softirqs");
pub(super) const UPTIME: Source = whole("proc/uptime");
pub(super) const CPUINFO: Source = Source {
    pattern: "proc/cpuinfo",
    words: &["processor", "model name", "flags"],
};
/// Kernel symbols. Each word starts with a blank, so that longer names with the same ending do not
/// match.
pub(super) const SYMBOLS: Source = Source {
    pattern: "proc/kallsyms",
    words: &[
        " kernel_fpu_begin",
        " kernel_fpu_end",
        " kernel_fpu_allowed",
        " in_kernel_fpu",
        " virtcrypto_probe",
        " virtcrypto_ctrlq_callback",
    ],
};
/// The kernel threads that run softirqs (ksoftirqd) and deferred work (kworkers).
pub(super) const THREADS: Source = Source {
    pattern: "proc/[0-9]*/stat",
    words: &["(ksoftirqd/", "(kworker/"],
};
pub(super) const MITIGATIONS: Source = whole("sys/devices/system/cpu/vulnerabilities/*");
pub(super) const CLOCK: Source =
    whole("sys/devices/system/clocksource/clocksource0/current_clocksource");
pub(super) const VIRTIO: Source = whole("sys/bus/virtio/devices/*/uevent");
pub(super) const REALTIME: Source = whole("sys/kernel/realtime");
/// A file that belongs to the CPU bus, which every kernel has. If this file exists but the
/// directory of another bus does not, the kernel lacks that other bus.
pub(super) const BUS: Source = whole("sys/bus/cpu/drivers_autoprobe");

/// All files except the configuration, whose path depends on the distribution.
pub(crate) const SOURCES: [&Source; 14] = [
    &RELEASE,
    &VERSION,
    &CRYPTO,
    &MODULES,
    &SOFTIRQS,
    &UPTIME,
    &CPUINFO,
    &SYMBOLS,
    &THREADS,
    &MITIGATIONS,
    &CLOCK,
    &VIRTIO,
    &REALTIME,
    &BUS,
];

/// The reason why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Absent,
    /// This user is not allowed to read the file. In most cases, only root may read it.
    Denied,
    /// The contents of the file are not as expected. The text states the reason.
    Unusable(&'static str),
}

impl Missing {
    /// Returns the predicate of a sentence whose subject is the file.
    pub(super) fn words(&self) -> &'static str {
        match self {
            Missing::Absent => "is not there",
            Missing::Denied => "may not be read by this user",
            Missing::Unusable(why) => why,
        }
    }

    fn of(e: &io::Error) -> Missing {
        match e.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Missing::Absent,
            ErrorKind::PermissionDenied => Missing::Denied,
            _ => Missing::Unusable("cannot be read"),
        }
    }
}

/// The path of a file relative to the root directory, and the lines of that file.
pub(super) type Lines = (String, Vec<String>);

/// The directory that contains a machine's files, either `/` or a recording.
pub(super) struct Root(PathBuf);

impl Root {
    pub(super) fn new(dir: &Path) -> Root {
        Root(dir.to_owned())
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.0.join(path).exists()
    }

    /// Reads the lines of a source that is a single file.
    pub(super) fn lines(&self, source: &Source) -> Result<Vec<String>, Missing> {
        let file = self.open(source.pattern)?;
        select(file, source.words).map_err(|e| Missing::of(&e))
    }

    /// Returns the lines of all files that match a pattern, sorted by path. Files without lines and
    /// unreadable files are skipped.
    pub(super) fn all(&self, source: &Source) -> Vec<Lines> {
        let mut found = Vec::new();
        for path in self.expand(source.pattern) {
            let lines = self.open(&path).map(|file| select(file, source.words));
            if let Ok(Ok(lines)) = lines {
                if !lines.is_empty() {
                    found.push((path, lines));
                }
            }
        }
        found
    }

    /// Returns the lines of the kernel's configuration and the path of the file that contains them.
    /// Prefers `/proc/config.gz` to the file that a distribution installs for `release`.
    pub(super) fn configuration(&self, release: &str) -> Result<Lines, Missing> {
        let mut missing = Missing::Absent;
        let packed = "proc/config.gz";
        match self.open(packed).and_then(|_| unpack(&self.0.join(packed))) {
            Ok(lines) => return Ok((packed.into(), lines)),
            Err(Missing::Absent) => {}
            Err(why) => missing = why,
        }
        for path in configurations(release) {
            match self
                .open(&path)
                .map(|file| select(file, &["CONFIG_", "# end of "]))
            {
                Ok(Ok(lines)) => return Ok((path, lines)),
                Ok(Err(e)) => missing = Missing::of(&e),
                Err(Missing::Absent) => {}
                Err(why) => missing = why,
            }
        }
        Err(missing)
    }

    /// Opens a file. Only regular files are accepted, because a read from any other kind of file
    /// could block or never reach the end.
    fn open(&self, path: &str) -> Result<File, Missing> {
        let path = self.0.join(path);
        let kind = fs::metadata(&path).map_err(|e| Missing::of(&e))?;
        if !kind.is_file() {
            return Err(Missing::Unusable("is not a file"));
        }
        File::open(&path).map_err(|e| Missing::of(&e))
    }

    /// Returns the paths that match a pattern, sorted.
    pub(super) fn expand(&self, pattern: &str) -> Vec<String> {
        let mut paths = vec![String::new()];
        for component in pattern.split('/') {
            let fits: fn(&str) -> bool = match component {
                "*" => |_| true,
                "[0-9]*" => |name| name.bytes().all(|b| b.is_ascii_digit()),
                _ => {
                    for path in &mut paths {
                        path.push_str(if path.is_empty() { "" } else { "/" });
                        path.push_str(component);
                    }
                    continue;
                }
            };
            let below = |path: &String| -> Vec<String> {
                let entries = fs::read_dir(self.0.join(path)).into_iter().flatten();
                let names = entries.take(ENTRIES).flatten();
                let names = names.filter_map(|e| e.file_name().into_string().ok());
                let names = names.filter(|name| fits(name));
                names.map(|name| format!("{path}/{name}")).collect()
            };
            paths = paths.iter().flat_map(below).collect();
        }
        paths.sort();
        paths
    }
}

/// Returns the paths at which distributions install the configuration: first Debian and SUSE, then
/// Fedora, then Debian since kernel 7.3. They are tried if `/proc/config.gz` cannot be used.
fn configurations(release: &str) -> Vec<String> {
    // A release that contains a slash could lead to another directory.
    if release.is_empty() || release.contains('/') {
        return Vec::new();
    }
    vec![
        format!("boot/config-{release}"),
        format!("lib/modules/{release}/config"),
        format!("usr/lib/modules/{release}/config"),
    ]
}

/// Reads the lines that contain one of the words, or all lines if the list of words is empty. Bytes
/// that are not valid UTF-8 are replaced. A last line without a newline is skipped: the kernel ends
/// every line with a newline, and a truncated file must not be mistaken for a complete one.
fn select(file: impl Read, words: &[&str]) -> io::Result<Vec<String>> {
    let mut reader = BufReader::new(file.take(MOST));
    let mut kept = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut reader).take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok(kept);
        }
        if line.last() != Some(&b'\n') {
            continue;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        if words.is_empty() || words.iter().any(|w| text.contains(w)) {
            // Replace control characters, because parts of the line may be printed on a terminal.
            let plain = |c: char| {
                if c.is_control() && c != '\t' {
                    '\u{fffd}'
                } else {
                    c
                }
            };
            kept.push(text.chars().map(plain).collect());
        }
    }
}

fn unpack(path: &Path) -> Result<Vec<String>, Missing> {
    const NO_GZIP: Missing = Missing::Unusable("needs gzip(1): apt-get install gzip");
    let child = Command::new("gzip")
        .arg("-dc")
        .stdin(File::open(path).map_err(|e| Missing::of(&e))?)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|_| NO_GZIP)?;
    let lines = match child.stdout.take() {
        Some(out) => select(out, &["CONFIG_", "# end of "]),
        None => Ok(Vec::new()),
    };
    let well = child.wait().is_ok_and(|status| status.success());
    match lines {
        Ok(lines) if well => Ok(lines),
        _ => Err(Missing::Unusable("is not a whole gzip file")),
    }
}

/// Condenses the lines of a file for a recording: clears addresses, and removes `cpuinfo` lines
/// that repeat an earlier line and kworkers that have used no CPU time.
pub(crate) fn condense(path: &str, lines: Vec<String>) -> Vec<String> {
    match path {
        "proc/cpuinfo" => {
            let mut seen = HashSet::new();
            lines
                .into_iter()
                .filter(|l| seen.insert(l.clone()))
                .collect()
        }
        "proc/kallsyms" => lines
            .iter()
            .filter_map(|l| l.split_once(' '))
            .map(|(address, rest)| format!("{} {rest}", "0".repeat(address.len())))
            .collect(),
        path if path.ends_with("/stat") => {
            let idle =
                |l: &String| l.contains("(kworker/") && parse_stat(l).is_none_or(|(_, s)| s == 0.0);
            lines.into_iter().filter(|l| !idle(l)).collect()
        }
        _ => lines,
    }
}

/// Clock ticks per second, the unit of the times in `/proc/PID/stat`. This value is the same on all
/// x86 kernels.
const USER_HZ: f64 = 100.0;

/// Parses the name and the CPU time in seconds from a line of the form `PID (NAME) STATE ...`.
/// Fields 14 and 15 are user and system time. The name may contain parentheses.
pub(super) fn parse_stat(line: &str) -> Option<(&str, f64)> {
    let (_, rest) = line.split_once('(')?;
    let (name, fields) = rest.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let mut ticks = || times.next()?.parse::<u64>().ok();
    let (user, system) = (ticks()?, ticks()?);
    Some((name, (user as f64 + system as f64) / USER_HZ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_find_files_and_only_numbers_are_numbers() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["proc/12", "proc/7", "proc/self", "sys/x"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
            fs::write(dir.path().join(path).join("stat"), "1 (kworker/0:1) S\n").unwrap();
        }
        let root = Root::new(dir.path());
        let found: Vec<String> = root.all(&THREADS).into_iter().map(|f| f.0).collect();
        assert_eq!(found, ["proc/12/stat", "proc/7/stat"]);
        assert!(root.all(&VIRTIO).is_empty());
        fs::write(dir.path().join("proc/7/stat"), "1 (sshd) S\n").unwrap();
        assert_eq!(root.all(&THREADS).len(), 1);
    }

    #[test]
    fn what_is_not_a_file_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        assert_eq!(root.lines(&CRYPTO), Err(Missing::Absent));
        fs::create_dir_all(dir.path().join("proc/crypto")).unwrap();
        assert!(matches!(root.lines(&CRYPTO), Err(Missing::Unusable(_))));
        // /dev/zero never ends, so it must be rejected without being read.
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("proc/version")).unwrap();
        assert!(matches!(root.lines(&VERSION), Err(Missing::Unusable(_))));
        fs::write(
            dir.path().join("proc/modules"),
            b"\xff\xfe \0\x1b[2J\r\nb\ncut",
        )
        .unwrap();
        let lines = root.lines(&MODULES).unwrap();
        assert_eq!(lines.len(), 2, "the last was cut short");
        assert!(!lines[0].contains(['\0', '\u{1b}']), "{lines:?}");
    }

    #[test]
    fn a_configuration_is_looked_for_where_distributions_leave_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        assert_eq!(root.configuration("7.3"), Err(Missing::Absent));
        assert_eq!(root.configuration("../x"), Err(Missing::Absent));
        for path in ["usr/lib/modules/7.3/config", "boot/config-7.3"] {
            let full = dir.path().join(path);
            fs::create_dir_all(full.parent().unwrap()).unwrap();
            fs::write(full, "CONFIG_A=y\nnoise\n").unwrap();
            let (found, lines) = root.configuration("7.3").unwrap();
            assert_eq!((found.as_str(), lines.len()), (path, 1));
        }
        fs::create_dir_all(dir.path().join("proc")).unwrap();
        fs::write(dir.path().join("proc/config.gz"), "not packed").unwrap();
        assert_eq!(root.configuration("7.3").unwrap().0, "boot/config-7.3");
        fs::remove_file(dir.path().join("boot/config-7.3")).unwrap();
        fs::remove_file(dir.path().join("usr/lib/modules/7.3/config")).unwrap();
        assert!(matches!(
            root.configuration("7.3"),
            Err(Missing::Unusable(_))
        ));
    }

    #[test]
    fn recordings_have_no_addresses_and_no_line_twice() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let cpus = lines("processor\t: 0\nflags\t\t: a\nprocessor\t: 1\nflags\t\t: a");
        assert_eq!(condense("proc/cpuinfo", cpus).len(), 3);
        let symbol = lines("ffffffff81000000 T kernel_fpu_end");
        assert_eq!(
            condense("proc/kallsyms", symbol),
            ["0000000000000000 T kernel_fpu_end"]
        );
        assert_eq!(condense("proc/crypto", lines("a\na")).len(), 2);
        let stat = |name: &str, ticks: u32| {
            lines(&format!("9 ({name}) I 2 0 0 0 -1 6 0 0 0 0 0 {ticks} 0 0"))
        };
        for (name, ticks, kept) in [
            ("kworker/0:1", 0, 0),
            ("kworker/0:1", 3, 1),
            ("ksoftirqd/0", 0, 1),
        ] {
            assert_eq!(
                condense("proc/9/stat", stat(name, ticks)).len(),
                kept,
                "{name}"
            );
        }
    }
}
