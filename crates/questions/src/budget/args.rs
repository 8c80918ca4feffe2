//! The arguments of `kiln budget`, and the function that runs the command.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use clap::Args;
use kiln_kernel::budget as kernel;
use kiln_kernel::cipher::{Kind, Op};
use kiln_question::algorithm::Names;
use kiln_question::{replace, unknown, Error, Exit, Question, RowType, Session, TreeBuildArgs};
use kiln_report::picture::{draw_rows, Band, Bands, Picture};

use super::row::{Lengths, Row};
use super::{header, run, tree, view};
use super::{parse_ways, Plan};

/// How many bytes fit into an FPU section under a latency limit
///
/// For each strategy of dividing messages into FPU sections, Kiln measures how long the sections
/// last and how much throughput is lost. First, Kiln times every implementation, to set the byte
/// limits of the strategy 'calibrated'. A kernel could do the same at boot. Then, on an emulated
/// CPU, a task passes messages of 1 MiB to the crypto API, while interrupts raise softirqs and wake
/// another task.
///
/// With --tree, Kiln instead measures the library functions that a kernel tree exports, such as
/// sha256() and crc32c(). For each message length, it measures how long the FPU sections in these
/// functions last.
#[derive(Args)]
#[command(after_long_help = "\
Strategies for dividing a message into FPU sections (--mode):
  unbounded    one section for the whole message
  page         4 KiB per section
  fixed        byte limits posted to the kernel list in 2022, never merged;
               only for implementations for which a limit was posted
  class        16, 256 or 512 KiB per section, depending on the algorithm
  calibrated   as many bytes as can be processed in 4/5 of --target-us;
               Kiln times this at its start
  clocked      a section reads the cycle counter and ends within the target
  on-demand    a section ends when a softirq is pending or a reschedule is due

Exit status:
  1 if an output is wrong; with --tree, also if an FPU section lasts longer
  than --max-section-us

Environment:
  KILN_TIERS=generic,aesni   use only these ISA tiers; 'kiln list' shows all

Examples:
  kiln budget --quick
  kiln budget sha256 'gcm(aes)' --target-us 5,30,100 --mode calibrated,clocked
  kiln budget --header kiln_budget.h --target-us 30
  kiln budget sm3 --data cold --irq-rate 2000 --seconds 2
  kiln budget --quick --json --out DIR    pictures in DIR/budget.svg
  kiln budget --tree ~/linux                   all functions of the library
  kiln budget --tree ~/linux sha256 crc32c --len 4096,1048576
  kiln budget --tree ~/linux chacha20 --max-section-us 100

See also:
  docs/BUDGETS.md")]
pub struct BudgetArgs {
    /// Algorithms, by their names in the kernel; with --tree also names of functions [default: all]
    #[arg(value_name = "ALG", value_parser = Names, hide_possible_values = true)]
    algs: Vec<String>,
    /// Longest permitted duration of an FPU section, in microseconds [default: 30]
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,…",
        allow_hyphen_values = true,
        conflicts_with = "tree"
    )]
    target_us: Vec<f64>,
    /// Strategies for dividing messages into FPU sections; --help lists them [default: all; with
    /// --header, only 'calibrated']
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,…",
        conflicts_with = "tree"
    )]
    mode: Vec<String>,
    /// Operations: encrypt, decrypt [default: encrypt]
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "OP,…",
        conflicts_with = "tree"
    )]
    op: Vec<String>,
    /// Where the message is before each operation: warm (in whichever cache the previous operation
    /// left it) or cold (flushed from all caches) [default: warm]
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,…",
        conflicts_with = "tree"
    )]
    data: Vec<String>,
    /// Average number of interrupts per second on the emulated CPU [default: 250]
    #[arg(
        long,
        value_name = "HZ",
        allow_hyphen_values = true,
        conflicts_with = "tree"
    )]
    irq_rate: Option<f64>,
    /// Measuring time in seconds for each combination of implementation, mode, operation, data and
    /// target [default: 0.25; with --quick: 0.06]
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        conflicts_with = "tree"
    )]
    seconds: Option<f64>,
    /// Write a C header for this machine, with the number of bytes that an FPU section of each
    /// implementation can process within the first value of --target-us
    #[arg(long, value_name = "FILE", conflicts_with = "tree")]
    header: Option<PathBuf>,
    /// Build this Linux source tree, and measure its library functions in user space
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// With --tree: message lengths in bytes [default: 4096,65536,1048576,10485760]
    #[arg(long, value_name = "LIST", requires = "tree")]
    len: Option<String>,
    /// With --tree: exit with status 1 if an FPU section lasts longer than N microseconds
    #[arg(long, value_name = "N", requires = "tree", allow_hyphen_values = true)]
    max_section_us: Option<f64>,
    #[command(flatten)]
    build: TreeBuildArgs,
}

impl BudgetArgs {
    fn plan(&self, session: &Session) -> Result<Plan, Error> {
        let usual = Plan::new(&self.algs, session.seed, session.global.quick)?;
        let mut ops = Vec::new();
        for name in &self.op {
            ops.push(match name.as_str() {
                "encrypt" => Op::Encrypt,
                "decrypt" => Op::Decrypt,
                _ => return Err(unknown("operation", name, &["encrypt", "decrypt"])),
            });
        }
        let hashes = usual.impls.iter().all(|imp| imp.kind() == Kind::Hash);
        if !ops.is_empty() && !self.algs.is_empty() && hashes {
            return Err(Error::input(format!(
                "--op: {} has no operations to choose from: leave it out",
                self.algs.join(", ")
            )));
        }
        let ways = match (&self.header, self.mode.as_slice()) {
            (Some(_), []) => vec![kernel::Way::Calibrated],
            (_, names) => parse_ways(names)?,
        };
        if self.header.is_some() && !ways.contains(&kernel::Way::Calibrated) {
            return Err(Error::input(
                "--header writes the calibrated limits, which --mode leaves out: add calibrated to --mode, or \
                 leave --mode out",
            ));
        }
        let data = self.data.iter().map(|name| name.parse());
        let data: Vec<_> = data.collect::<Result<_, _>>()?;
        Ok(Plan {
            ops: if ops.is_empty() { usual.ops } else { ops },
            ways,
            targets_us: match self.target_us.as_slice() {
                [] => usual.targets_us,
                targets => targets.to_vec(),
            },
            data: if data.is_empty() { usual.data } else { data },
            irq_rate: self.irq_rate.unwrap_or(usual.irq_rate),
            seconds: self.seconds.unwrap_or(usual.seconds),
            ..usual
        })
    }
}

/// Checks that the file is writable, so that the command fails before the measurements if the path
/// is wrong.
fn may_write(path: &Path) -> Result<(), Error> {
    let there = path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    if !there && opened.is_ok() {
        let _ = std::fs::remove_file(path);
    }
    opened.map(drop).map_err(|e| {
        Error::input(format!(
            "--header: cannot write '{}': {e}: name a file in a directory you may write to",
            path.display()
        ))
    })
}

impl Question for BudgetArgs {
    const NAME: &'static str = "budget";
    const TIMED: bool = true;
    const OF_TIERS: bool = true;

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<Row>(40), RowType::at::<tree::Row>(41)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        if let Some(dir) = &self.tree {
            let (len, limit) = (self.len.as_deref(), self.max_section_us);
            let wanted = tree::Wanted::new(&self.algs, len, limit, session.global.quick)?;
            return tree::ask::<Self>(&wanted, dir, &self.build, session);
        }
        if self.build.given() {
            return Err(Error::input(
                "--cc and --config are for kernel trees: name one with --tree DIR",
            ));
        }
        let plan = self.plan(session)?;
        if let Some(path) = &self.header {
            may_write(path)?;
        }
        session.settle().answer::<Self, _>(
            |facts, progress| {
                let calibrated = kernel::calibrate();
                let (tsc_hz, core_hz) = (facts.machine.tsc_hz, facts.machine.core_hz);
                plan.check(tsc_hz)?;
                let mut written = Vec::new();
                if let Some(path) = &self.header {
                    let facts = header::Facts {
                        model: &facts.machine.model,
                        tsc_hz,
                        core_hz,
                        target_us: plan.targets_us[0],
                    };
                    replace::write(path, header::text(&plan.impls, &facts).as_bytes())?;
                    written.push(format!(
                        "constants for {} µs: {}",
                        plan.targets_us[0],
                        path.display()
                    ));
                }
                let (mut outcome, lengths) = run::run(
                    &plan,
                    calibrated,
                    (tsc_hz, core_hz),
                    &session.stop,
                    progress,
                )?;
                outcome.notes.extend(written);
                let note = format!(
                    "{} implementations, seed {}; {}",
                    plan.impls.len(),
                    session.seed,
                    facts.machine.model
                );
                let pictures = pictures(&outcome.rows, &lengths, plan.targets_us[0]);
                let path = session.draw("budget.svg", &pictures, &note)?;
                outcome
                    .notes
                    .extend(path.map(|path| format!("picture: {}", path.display())));
                Ok(outcome)
            },
            view::format_tables,
        )
    }
}

/// Returns a chart that shows all sections by strategy, followed by one chart per combination of
/// implementation, operation, kind of data and target.
fn pictures(rows: &[Row], lengths: &[Lengths], target_us: f64) -> Vec<Picture> {
    let band = |lengths: &Lengths| Band {
        name: lengths.mode.to_string(),
        counts: lengths.by_time(),
        ..Band::default()
    };
    let all = Bands {
        title: "FPU sections by length: where their time goes".to_string(),
        unit: "length of a section; upwards: their share of the time",
        tail: "",
        beside: "",
        target: Some((target_us, format!("target {target_us} µs"))),
        bands: lengths.iter().map(band).collect(),
    };
    let each = draw_rows("budget", rows);
    all.draw().into_iter().chain(each).collect()
}
