//! Defines `Session`: one run of the program with its flags, its seed, and the stop flag that
//! Ctrl-C sets.

use std::collections::hash_map::RandomState;
use std::env;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, stdout, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

use kiln_measure::{current_core, pin, CoreList, Watch};
use kiln_record::{utc_now, Setting};
use kiln_report::picture::{sheet, Picture};
use kiln_tree::child::Order;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level;

use crate::{replace, shard, tiers, Error, Global, Progress, Shard, Share};

/// Signals that arrive within this time of the first one are ignored, because timeout(1) sends each
/// signal twice: to the process and to its process group.
const ONE_SIGNAL_MS: u64 = 500;
/// Value that represents "no signal has arrived yet".
const NONE: u64 = u64::MAX;

/// The identity of the running program, which `--version` prints and records contain.
#[derive(Clone, Debug)]
pub struct Program {
    /// The release version, such as `0.1.0`.
    pub version: &'static str,
    /// The commit that the program was built from.
    pub commit: &'static str,
    /// The cargo features enabled in this build.
    pub features: Vec<&'static str>,
}

/// One run of the program.
pub struct Session {
    pub(crate) program: Program,
    /// The flags that every command accepts.
    pub global: Global,
    /// The seed for all random choices.
    pub seed: u64,
    /// The time at which the run started, in UTC.
    pub(crate) date: String,
    /// A flag that Ctrl-C sets.
    pub stop: Arc<AtomicBool>,
    /// Command-line arguments after the program's name, with secret keys removed.
    pub args: Vec<String>,
    /// Whether stdout is a terminal.
    pub tty: bool,
    /// Whether bold text may be printed: true if stdout is a terminal and NO_COLOR is unset or
    /// empty (<https://no-color.org>).
    pub bold: bool,
    /// The share of the work that this run does, as requested with `--shard`.
    pub share: Share,
    /// Flag values taken from the configuration file.
    pub defaults: Vec<Setting>,
    /// Set if this process is a child that hosts a kernel tree and prints JSON for its parent.
    pub child: Option<Order>,
    /// Observes other activity on the machine during the run.
    pub(crate) watch: Watch,
}

impl Session {
    /// Processes flags and environment variables, installs the handler for Ctrl-C, and creates the
    /// `--out` directory. `defaults` lists the flags that come from the configuration file. If
    /// `file` is set, `--out` may name a file, and no directory is created.
    pub fn start(
        program: Program,
        global: &Global,
        file: bool,
        shard: Option<Shard>,
        defaults: Vec<Setting>,
    ) -> Result<Session, Error> {
        let child = child_order()?;
        if global.quiet {
            Progress::silence();
        }
        let stop = Arc::new(AtomicBool::new(false));
        catch_signals(&stop).map_err(|e| Error::lacks(format!("cannot catch Ctrl-C: {e}")))?;
        match env::var(tiers::VARIABLE) {
            Ok(list) => tiers::mask(&list)?,
            Err(env::VarError::NotPresent) => {}
            Err(e) => return Err(Error::input(format!("{}: {e}", tiers::VARIABLE))),
        }
        if let Some(list) = &global.cpu {
            // Allow all listed cores, because some commands run several threads. Measurements run
            // on the first listed core.
            let place = place(&defaults, "cpu");
            let list: CoreList = list
                .parse()
                .map_err(|e| Error::input(format!("{place}: {e}")))?;
            pin(&list).map_err(|e| Error::input(format!("{place}: {e}: name some of those")))?;
        }
        let mut global = global.clone();
        if let Some(order) = &child {
            // A child only prints JSON. Its parent writes the record.
            (global.json, global.out, global.seed) = (true, None, Some(order.seed));
        }
        if let Some(dir) = global.out.as_ref().filter(|_| !file) {
            prepare(dir).map_err(|e| match place(&defaults, "out") {
                place if place.starts_with("--") => e,
                place => Error::input(format!("{place}: {e}")),
            })?;
        }
        Ok(Session {
            program,
            seed: global.seed.unwrap_or_else(|| match shard {
                Some(_) => shard::SEED,
                None => random_seed(),
            }),
            share: Share::new(shard),
            global,
            date: utc_now(),
            defaults,
            stop,
            child,
            args: without_secrets(env::args_os().skip(1).map(|a| a.to_string_lossy().into())),
            tty: stdout().is_terminal(),
            bold: stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
            watch: Watch::start(),
        })
    }

    /// Pins this thread to the first core in `--cpu` or, without that flag, to the core that it is
    /// running on. If pinning is not permitted, the results are noisier but still valid.
    pub fn settle(&self) -> &Session {
        let core = match &self.global.cpu {
            Some(list) => list.parse::<CoreList>().ok().map(|l| l.cores()[0]),
            None => current_core(),
        };
        if let Some(one) = core.and_then(|core| core.to_string().parse().ok()) {
            let _ = pin(&one);
        }
        self
    }

    /// Returns whether Ctrl-C was pressed.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Writes the pictures, with a note below them, to `file` in the `--out` directory, and returns
    /// the path of the written file. Without `--out` or without pictures, writes nothing and
    /// returns `None`.
    pub fn draw(
        &self,
        file: &str,
        pictures: &[Picture],
        note: &str,
    ) -> Result<Option<PathBuf>, Error> {
        let dir = self.global.out.as_ref().filter(|_| !pictures.is_empty());
        let Some(dir) = dir else {
            return Ok(None);
        };
        let path = dir.join(self.share.file_name(file));
        replace::write(&path, sheet(pictures, note).as_bytes())?;
        Ok(Some(path))
    }
}

/// Makes SIGINT and SIGTERM set `stop`. A second Ctrl-C ends the program immediately, without
/// printing results.
fn catch_signals(stop: &Arc<AtomicBool>) -> io::Result<()> {
    let start = Instant::now();
    // Milliseconds from `start` to the first signal, or `NONE`.
    let first = Arc::new(AtomicU64::new(NONE));
    for signal in [SIGINT, SIGTERM] {
        let (stop, first) = (stop.clone(), first.clone());
        let handle = move || {
            let now = start.elapsed().as_millis() as u64;
            match first.compare_exchange(NONE, now, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => stop.store(true, Ordering::Relaxed),
                Err(first) if now > first + ONE_SIGNAL_MS => low_level::exit(130),
                Err(_) => {}
            }
        };
        // SAFETY: the closure reads the clock, accesses atomic variables and may call
        // `low_level::exit`, all of which a signal handler may do.
        unsafe { low_level::register(signal, handle)? };
    }
    Ok(())
}

/// Changes to the directory that `-C` names. A child that hosts a kernel tree ignores `-C`: it
/// receives the same arguments as its parent, and the parent has already changed the directory.
///
/// # Errors
/// Fails if the directory does not exist.
pub fn enter_directory(global: &Global) -> Result<(), Error> {
    match &global.directory {
        Some(dir) if child_order()?.is_none() => env::set_current_dir(dir)
            .map_err(|e| Error::input(format!("-C {}: {e}: name a directory", dir.display()))),
        _ => Ok(()),
    }
}

fn child_order() -> Result<Option<Order>, Error> {
    Order::from_env().map_err(|e| Error::input(e.to_string()))
}

/// Returns where a flag's value comes from, for use in error messages: the flag itself or a line of
/// the configuration file.
fn place(defaults: &[Setting], key: &str) -> String {
    match defaults.iter().find(|setting| setting.key == key) {
        Some(setting) => format!("{}: {key}", setting.place()),
        None => format!("--{key}"),
    }
}

/// Creates the directory for records. Call this before the measurement, so that an unusable path is
/// reported at once.
pub fn prepare(dir: &Path) -> Result<(), Error> {
    let fault = |e: std::io::Error| {
        Error::input(format!(
            "cannot use '{}' for records: {e}: name a directory you may write to",
            dir.display()
        ))
    };
    if dir.exists() && !dir.is_dir() {
        return Err(fault(std::io::ErrorKind::NotADirectory.into()));
    }
    fs::create_dir_all(dir).map_err(fault)?;
    // Create a temporary file to check that the directory is writable; otherwise the results could
    // not be saved after the run.
    tempfile::NamedTempFile::new_in(dir).map(drop).map_err(|e| {
        // Use only the error's kind, because its text would name the temporary file.
        fault(e.kind().into())
    })
}

/// Returns a random seed that is short enough to retype.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish() & 0xffff_ffff
}

/// Replaces the value of `--key` with three dots, unless the value is a file name.
fn without_secrets(args: impl Iterator<Item = String>) -> Vec<String> {
    let strike = |value: &str| match value.starts_with('@') {
        true => value.to_string(),
        false => "...".to_string(),
    };
    let mut next_is_key = false;
    args.map(|arg| {
        if std::mem::take(&mut next_is_key) {
            return strike(&arg);
        }
        next_is_key = arg == "--key";
        match arg.strip_prefix("--key=") {
            Some(value) => format!("--key={}", strike(value)),
            None => arg,
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        fs::write(&file, "").unwrap();
        let e = prepare(&file.join("sub")).unwrap_err();
        assert!(e.to_string().contains("for records"), "{e}");
        assert_eq!(e.exit_code(), 2);
    }

    #[test]
    fn keys_do_not_get_into_records() {
        let args = [
            "crypt",
            "--key",
            "0011",
            "--key=2233",
            "--key",
            "@file",
            "--iv",
            "44",
        ];
        let struck = without_secrets(args.iter().map(|a| a.to_string()));
        assert_eq!(
            struck,
            [
                "crypt",
                "--key",
                "...",
                "--key=...",
                "--key",
                "@file",
                "--iv",
                "44"
            ]
        );
    }
}
