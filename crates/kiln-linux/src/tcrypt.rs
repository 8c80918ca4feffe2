//! Runs tcrypt, Linux's own benchmark, in user mode Linux. It measures Linux's own code and Kiln's
//! drivers.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use kiln_kernel::cipher::{Impl, Kind};
use kiln_tree::tcrypt::{Reader, Row};

use crate::boot::Boot;
use crate::console::Line;
use crate::init::{initramfs, Order};
use crate::module::{Module, PREFIX};
use crate::uml::Built;
use crate::Error;

/// The benchmark module. It runs its measurements while it is being initialised and then returns an
/// error, so that it does not stay loaded.
const BENCHMARK: &str = "crypto/tcrypt.ko";

/// Templates that are built as modules in this configuration (`linux/um.config`). Each template
/// comes after the templates that it needs.
pub const TEMPLATES: [&str; 7] = ["cbc", "ctr", "cts", "ecb", "xts", "ccm", "gcm"];

/// How tcrypt measures an algorithm: the mode number, and the templates that Linux's own
/// implementation uses.
struct Mode {
    alg: &'static str,
    mode: u32,
    templates: &'static [&'static str],
    /// The subset of `templates` that Kiln's driver also needs.
    around: &'static [&'static str],
}

const fn mode(alg: &'static str, mode: u32, templates: &'static [&'static str]) -> Mode {
    Mode {
        alg,
        mode,
        templates,
        around: &[],
    }
}

/// Algorithms that have a tcrypt mode number. Hashes are not listed, because a single mode can
/// measure any hash by name.
const MODES: [Mode; 10] = [
    mode("ecb(aes)", 200, &["ecb"]),
    mode("cbc(aes)", 200, &["cbc"]),
    mode("ctr(aes)", 200, &["ctr"]),
    mode("xts(aes)", 200, &["ecb", "xts"]),
    mode("cts(cbc(aes))", 200, &["cbc", "cts"]),
    mode("gcm(aes)", 211, &["ctr", "gcm"]),
    mode("rfc4106(gcm(aes))", 211, &["ctr", "gcm"]),
    Mode {
        alg: "rfc4309(ccm(aes))",
        mode: 212,
        templates: &["ctr", "ccm"],
        around: &["ctr", "ccm"],
    },
    mode("rfc7539esp(chacha20,poly1305)", 213, &[]),
    mode("chacha20", 214, &[]),
];

/// Algorithms that mode 200 measures. Algorithms that were not requested are hidden from tcrypt,
/// which then skips them.
const AES: [&str; 7] = [
    "ecb(aes)",
    "cbc(aes)",
    "lrw(aes)",
    "xts(aes)",
    "cts(cbc(aes))",
    "ctr(aes)",
    "cfb(aes)",
];

/// The tcrypt mode that measures any hash by name.
const HASHES: u32 = 300;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The tcrypt mode, which selects what to measure.
    pub mode: u32,
    /// Duration of each measurement in seconds.
    pub seconds: u32,
    /// The requested algorithm; rows of other algorithms are left out. `None` keeps all rows.
    pub alg: Option<String>,
    /// Length of a hash's key in bytes.
    key: u32,
    templates: Vec<&'static str>,
}

impl Request {
    /// Creates a request to measure an algorithm. If `own` is set, Linux's own code is measured
    /// instead of Kiln's driver.
    ///
    /// # Errors
    /// Fails if tcrypt cannot measure this algorithm.
    pub fn algorithm(name: &str, seconds: u32, own: bool) -> Result<Request, Error> {
        let request = |mode, key, templates: &[&'static str]| Request {
            mode,
            seconds,
            alg: Some(name.to_owned()),
            key,
            templates: templates.to_vec(),
        };
        if let Some(mode) = MODES.iter().find(|m| m.alg == name) {
            let templates = if own { mode.templates } else { mode.around };
            return Ok(request(mode.mode, 0, templates));
        }
        match Impl::find_all(name).first() {
            Some(imp) if imp.kind() == Kind::Hash => {
                let key = imp.key_sizes().into_iter().min_by_key(|n| n.abs_diff(32));
                // Linux's Poly1305 takes its key from the start of the message, so do not set a
                // key.
                let key = key.filter(|_| name != "poly1305").unwrap_or(0) as u32;
                Ok(request(HASHES, key, &[]))
            }
            _ => {
                let mut known: Vec<&str> = MODES.iter().map(|m| m.alg).collect();
                known.extend(hashes());
                Err(Error::NoMode {
                    name: name.to_owned(),
                    known: known.join(", "),
                })
            }
        }
    }

    /// Creates a request that measures all algorithms of one of tcrypt's modes.
    pub fn mode(mode: u32, seconds: u32) -> Request {
        Request {
            mode,
            seconds,
            alg: None,
            key: 0,
            templates: TEMPLATES.to_vec(),
        }
    }

    /// Returns the algorithms to hide: all algorithms that the mode measures, except the requested
    /// algorithm and the algorithms that it needs.
    fn hidden(&self) -> Vec<&'static str> {
        let Some(alg) = self.alg.as_deref().filter(|_| self.mode == 200) else {
            return Vec::new();
        };
        let needed = |name: &str| self.templates.iter().any(|t| name == format!("{t}(aes)"));
        AES.into_iter()
            .filter(|name| *name != alg && !needed(name))
            .collect()
    }

    /// Returns the command that loads the benchmark. The templates must already be loaded.
    fn benchmark(&self) -> Order {
        let mut parameters = format!("mode={} sec={}", self.mode, self.seconds);
        if let (HASHES, Some(alg)) = (self.mode, &self.alg) {
            parameters += &format!(" alg={alg} klen={}", self.key);
        }
        Order::module("/tcrypt.ko", &parameters).may_fail()
    }
}

/// Returns the file name in the initramfs and the content of each template that is built as a
/// module.
pub fn loaded(built: &Built, names: &[&str]) -> Vec<(String, Vec<u8>)> {
    let module = |name: &&str| {
        let file = format!("{name}.ko");
        Some((
            file.clone(),
            built.module_if_any(&format!("crypto/{file}"))?,
        ))
    };
    names.iter().filter_map(module).collect()
}

/// Returns the command that loads a module by its file name.
pub fn insert(file: &str) -> Order {
    Order::module(&format!("/{file}"), "")
}

fn hashes() -> Vec<&'static str> {
    let mut names = Impl::algorithms();
    names.retain(|name| {
        Impl::find_all(name)
            .first()
            .is_some_and(|i| i.kind() == Kind::Hash)
    });
    names
}

/// Options for a measurement.
pub struct Plan<'a> {
    pub built: &'a Built,
    pub request: &'a Request,
    /// The build of Kiln's module, including the module that hides algorithms.
    pub module: &'a Module,
    /// Linux's name for the Kiln driver to measure; `None` measures Linux's own code.
    pub driver: Option<&'a str>,
    /// After this time, the run ends successfully and returns the rows measured so far.
    pub enough: Option<Duration>,
    /// The boot is killed after this time.
    pub limit: Duration,
    /// Set when the user presses Ctrl-C.
    pub stop: &'a AtomicBool,
}

/// Runs tcrypt and returns its rows. Passes each line that tcrypt prints to `line`, in the format
/// of `dmesg`.
///
/// # Errors
/// Fails if the kernel cannot be booted or cannot load a module.
pub fn run(plan: &Plan, line: &mut dyn FnMut(&str)) -> Result<Vec<Row>, Error> {
    let read = |path: &Path| fs::read(path).map_err(|e| Error::cache(path, e));
    let mut orders = Vec::new();
    if let Some(driver) = plan.driver {
        let name = driver.strip_prefix(PREFIX).unwrap_or(driver);
        orders.push(Order::module(
            "/kiln.ko",
            &format!("only={name} tiers=all prefer=1"),
        ));
    }
    let templates = loaded(plan.built, &plan.request.templates);
    orders.extend(templates.iter().map(|(file, _)| insert(file)));
    let hidden = plan.request.hidden();
    if !hidden.is_empty() {
        let names = format!("names={}", hidden.join(","));
        orders.push(Order::module("/hide.ko", &names));
    }
    orders.push(plan.request.benchmark());
    let mut archive = initramfs(&plan.built.compiler, &orders)?;
    archive.file("kiln.ko", &read(&plan.module.path)?);
    archive.file("hide.ko", &read(&plan.module.hide)?);
    for (file, module) in &templates {
        archive.file(file, module);
    }
    archive.file("tcrypt.ko", &plan.built.module(BENCHMARK)?);
    let (mut rows, mut reader) = (Vec::new(), Reader::default());
    let begun = Instant::now();
    let ended = Boot {
        linux: &plan.built.linux,
        initramfs: archive.finish(),
        memory: "256M",
        // Disable Linux's self-tests, because `kiln linux selftest` runs them.
        arguments: &["cryptomgr.notests=1"],
        limit: plan.enough.unwrap_or(plan.limit),
        stop: plan.stop,
    }
    .run(&mut |said| {
        if let Line::Log { seconds, text, .. } = said {
            for text in lines(text) {
                rows.extend(reader.line(text).filter(|row| plan.wants(row)));
                line(&format!("[{seconds:12.6}] {text}"));
            }
        }
    });
    let cut = plan.enough.is_some_and(|enough| begun.elapsed() >= enough);
    match ended {
        Ok(outcome) if outcome.exit == Some(0) => Ok(rows),
        Ok(outcome) => Err(Error::Console {
            what: format!(
                "a module cannot be loaded into Linux {}",
                plan.built.version
            ),
            tail: outcome.tail,
        }),
        Err(Error::Boot { .. }) if cut && !rows.is_empty() => Ok(rows),
        // Ctrl-C was pressed: return the rows measured so far.
        Err(Error::Interrupted) if !rows.is_empty() => Ok(rows),
        Err(e) => Err(e),
    }
}

impl Plan<'_> {
    fn wants(&self, row: &Row) -> bool {
        let alg = self.request.alg.as_ref();
        alg.is_none_or(|alg| *alg == row.alg)
    }
}

/// Splits a kernel log record into lines. Newlines within a record are escaped.
fn lines(record: &str) -> impl Iterator<Item = &str> {
    record
        .split("\\x0a")
        .filter(|l| !l.is_empty() && *l != "tcrypt: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_have_modes_and_the_templates_they_are_made_of() {
        let own = Request::algorithm("xts(aes)", 1, true).unwrap();
        assert_eq!((own.mode, own.templates), (200, vec!["ecb", "xts"]));
        let kiln = Request::algorithm("xts(aes)", 1, false).unwrap();
        assert!(kiln.templates.is_empty());
        let hash = Request::algorithm("hmac(sha256)", 2, true).unwrap();
        assert_eq!(
            hash.benchmark().to_string(),
            "-module\t/tcrypt.ko\tmode=300 sec=2 alg=hmac(sha256) klen=32"
        );
        let line = Request::algorithm("rot(13)", 1, true)
            .unwrap_err()
            .to_string();
        assert!(
            line.contains("xts(aes)") && line.contains("sha256"),
            "{line}"
        );
    }

    #[test]
    fn what_is_hidden_is_not_what_is_needed() {
        let hidden = |alg, own| Request::algorithm(alg, 1, own).unwrap().hidden();
        assert!(!hidden("xts(aes)", true).contains(&"ecb(aes)"));
        assert!(hidden("xts(aes)", false).contains(&"ecb(aes)"));
        assert!(
            hidden("cts(cbc(aes))", true)
                == ["ecb(aes)", "lrw(aes)", "xts(aes)", "ctr(aes)", "cfb(aes)"]
        );
        assert!(hidden("gcm(aes)", true).is_empty());
        assert!(Request::mode(200, 1).hidden().is_empty());
    }

    #[test]
    fn templates_come_after_those_they_need() {
        let at = |name: &str| TEMPLATES.iter().position(|t| *t == name).unwrap();
        for mode in &MODES {
            let order: Vec<usize> = mode.templates.iter().map(|t| at(t)).collect();
            assert!(order.is_sorted(), "{}", mode.alg);
        }
    }

    #[test]
    fn a_record_of_several_lines_is_several() {
        let text = "tcrypt: \\x0atesting speed of sha1 (sha1-generic)";
        assert_eq!(
            lines(text).collect::<Vec<_>>(),
            ["testing speed of sha1 (sha1-generic)"]
        );
    }
}
