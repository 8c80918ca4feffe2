//! Runs Linux's own benchmark for `kiln linux tcrypt`.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use kiln_kernel::cipher::Impl;
use kiln_linux::module::PREFIX;
use kiln_linux::tcrypt::{self, Request};
use kiln_question::{read_facts, table, Error, Exit, Progress, Question, Session};

use super::kernel_args::{build_module, KernelArgs};
use super::seconds::seconds;
use super::view;

/// Time limit with --quick. The rows completed within this time are kept.
const QUICK: Duration = Duration::from_secs(18);

/// Run Linux's own benchmark, tcrypt, with Linux's own ciphers or with Kiln's
///
/// Boots user mode Linux, whose tcrypt measures either the kernel's own implementation of each
/// algorithm or Kiln's.
#[derive(Args)]
#[command(after_long_help = "\
tcrypt takes a second for each row, or as many as --sec says; an algorithm
with three key sizes has 42 rows. User mode Linux has no cycle counter: there
is no --sec 0.

Examples:
  kiln linux tcrypt 'cbc(aes)' --tree ~/linux
  kiln linux tcrypt 'xts(aes)' --impl best,xts-aes-aesni
  kiln linux tcrypt --mode 200 --raw > log

See also:
  docs/LINUX.md")]
pub(super) struct TcryptArgs {
    #[command(flatten)]
    kernel: KernelArgs,
    /// Algorithms to measure, by their names in the kernel, such as 'cbc(aes)'
    #[arg(value_name = "ALG", required_unless_present = "mode")]
    algs: Vec<String>,
    /// Run the test with this number in tcrypt, such as 200, with Linux's own implementations
    #[arg(long, value_name = "N", conflicts_with = "algs", value_parser = clap::value_parser!(u32).range(200..))]
    mode: Option<u32>,
    /// Seconds for which tcrypt measures each row of its results
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3600))]
    sec: u32,
    /// Implementations to measure: 'linux' for the kernel's own, 'best' for Kiln's best on this
    /// machine, or names of Kiln's drivers
    #[arg(
        long = "impl",
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "linux"
    )]
    impls: Vec<String>,
    /// Print tcrypt's own lines, as dmesg shows them
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Kill each booted kernel after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1800.0, value_parser = seconds)]
    limit: f64,
}

/// What one boot measures. If `driver` is `None`, tcrypt measures Linux's own implementations.
struct Turn {
    request: Request,
    driver: Option<String>,
}

impl Question for TcryptArgs {
    const NAME: &'static str = "linux-tcrypt";
    const TIMED: bool = true;

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let turns = turns(self)?;
        let progress = Progress::start();
        let built = self.kernel.build(session, &progress)?;
        let module = build_module(&built, session, &progress)?;
        let (mut rows, mut notes) = (Vec::new(), Vec::new());
        let quick = session.global.quick;
        let share = QUICK / turns.len().max(1) as u32;
        let mut out = io::stdout();
        for (n, turn) in turns.iter().enumerate() {
            let what = turn.request.alg.as_deref().unwrap_or("tcrypt");
            progress.report(0.95 * n as f64 / turns.len() as f64, what);
            let plan = tcrypt::Plan {
                built: &built,
                request: &turn.request,
                module: &module,
                driver: turn.driver.as_deref(),
                enough: quick.then_some(share),
                limit: Duration::from_secs_f64(self.limit),
                stop: &session.stop,
            };
            let found = tcrypt::run(&plan, &mut |line| {
                if self.raw {
                    // Ignore write errors: the exit status must be returned even if stdout is
                    // closed.
                    let _ = writeln!(out, "{line}");
                }
            })?;
            if found.is_empty() && !session.stopped() {
                return Err(Error::input(format!(
                    "the tcrypt of Linux {} measures nothing for {}: it does not have it",
                    built.version, turn
                )));
            }
            if let Some(driver) = &turn.driver {
                if let Some(row) = found
                    .iter()
                    .find(|row| !row.driver.contains(driver.as_str()))
                {
                    return Err(Error::Failed(format!(
                        "{} was to be measured, and {} was",
                        driver, row.driver
                    )));
                }
            }
            rows.extend(found);
            if session.stopped() {
                break;
            }
        }
        drop(progress);
        if quick {
            notes.push("--quick: cut short, not every row is there".into());
        }
        notes.push(format!("Linux {} by {}", built.version, built.compiler));
        if !self.raw || session.global.out.is_some() {
            session.emit::<TcryptArgs, _>(&read_facts(), &rows, &notes, || match self.raw {
                true => String::new(),
                false => view::tcrypt(&rows) + &table::notes(&notes, session.seed),
            })?;
        }
        Ok(Exit::from_run(false, session.stopped()))
    }
}

impl std::fmt::Display for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.request.alg {
            Some(alg) => write!(f, "{alg}"),
            None => write!(f, "--mode {}", self.request.mode),
        }
    }
}

fn turns(args: &TcryptArgs) -> Result<Vec<Turn>, Error> {
    if let Some(mode) = args.mode {
        if args.impls != ["linux"] {
            return Err(Error::input("--impl: name algorithms instead of a --mode"));
        }
        let request = Request::mode(mode, args.sec);
        return Ok(vec![Turn {
            request,
            driver: None,
        }]);
    }
    let mut turns = Vec::new();
    for alg in &args.algs {
        let before = turns.len();
        for name in &args.impls {
            let own = name == "linux";
            let driver = match own {
                true => None,
                false => match driver(alg, name)? {
                    Some(driver) => Some(format!("{PREFIX}{driver}")),
                    None => continue,
                },
            };
            let request = Request::algorithm(alg, args.sec, own)?;
            turns.push(Turn { request, driver });
        }
        if turns.len() == before {
            return Err(Error::input(format!(
                "--impl: none of {} is an implementation of {alg}: 'kiln list' names them",
                args.impls.join(", ")
            )));
        }
    }
    Ok(turns)
}

/// Returns Kiln's implementation called `name`, or the best one if `name` is `best`. Returns `None`
/// if the algorithm has no implementation with this name.
fn driver(alg: &str, name: &str) -> Result<Option<&'static str>, Error> {
    // In Linux, these two algorithms are templates around another algorithm, so look up Kiln's
    // implementation of that inner algorithm.
    let core = match alg {
        "rfc4309(ccm(aes))" => "ccm(aes)",
        "rfc7539esp(chacha20,poly1305)" => "rfc7539(chacha20,poly1305)",
        other => other,
    };
    if name == "best" {
        return Ok(Impl::best(core).map(|i| i.driver()));
    }
    let bare = name.strip_prefix(PREFIX).unwrap_or(name);
    let Some(imp) = Impl::find_all(core)
        .into_iter()
        .find(|i| i.driver() == bare)
    else {
        return Ok(None);
    };
    match imp.tier().lacks() {
        Some(feature) => Err(Error::lacks(format!(
            "{bare} cannot run here: this CPU lacks {feature}"
        ))),
        None => Ok(Some(imp.driver())),
    }
}
