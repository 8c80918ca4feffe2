//! Arguments of `kiln speed`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kiln_question::algorithm::{Drivers, Names};
use kiln_question::hosted::Hosted;
use kiln_question::lens::Lens;
use kiln_question::{
    parse_seconds, read_facts, table, Error, Exit, Outcome, Question, RowType, Session, Shard,
    ShardArgs, TreeBuildArgs,
};
use kiln_tree::child::Order;
use kiln_tree::tcrypt::Request;

use super::best::slower;
use super::cores::{Cores, Threads};
use super::plan::Plan;
use super::row::Row;
use super::run::{run, run_with};
use super::via::{self, ViaArgs};
use super::{kunit, tcrypt, view, view_all};
use kiln_timing::peer::Wanted;
use kiln_timing::{Layout, Level, Op, Tree};

/// Cycles per byte by implementation, key size and length
///
/// Compares Kiln's implementations with each other, with libraries and with kernel trees.
/// Implementations that are compared are measured alternately, in many short turns. An interval (±)
/// is the range in which a rerun's result is expected.
#[derive(Args)]
#[command(after_long_help = "\
Without ALG, all algorithms are measured in all operations. This takes two or
three minutes, or 20 s with --quick. Without ALG, the table shows only the
fastest result of Kiln and of each library; --rows and --json show all
results. With ALG, the table has one column per implementation.

If libraries are measured, Kiln is also measured through its own crypto API
(marked api). For single messages, the fastest library is compared with calls
through Kiln's API, not with direct calls of Kiln's functions. With --tree,
the tree's functions are compared with direct calls of Kiln's functions.
A verdict is 'faster' or 'slower' only if both the cycles and the time show
it. If cycles and time contradict each other, the verdict is 'disagree'. In
all other cases, the verdict is 'same'.

Before and after timing, every output is compared with that of the generic
implementation. An implementation with a wrong output gets no result. AEAD
messages have 16 bytes of associated data. For ciphers that take only whole
blocks, the default lengths are rounded up to whole blocks.

Exit status:
  1 if an output of Kiln or of the tree is wrong
  1 if an output of a library is wrong, and --peers or --baseline names this
    library ('--peers auto' does not name libraries)

Environment:
  KILN_TIERS=generic,aesni   use only these ISA tiers; 'kiln list' shows all
  KILN_OPENSSL=FILE          the libcrypto to use; likewise KILN_LIBGCRYPT,
                             KILN_NETTLE, KILN_IPSEC_MB and KILN_AWS_LC

Examples:
  kiln speed --quick
  kiln speed 'xts(aes)' --op encrypt,decrypt --key-bits 128,256 --len 512
  kiln speed --len 16..4112 --impl xts-aes-aesni    every length
  kiln speed --baseline openssl --json > speed.json
  kiln speed 'gcm(aes)' --tree ~/linux    Kiln's and the tree's AES-GCM
  kiln speed sha256 --tree HEAD~1    Kiln's SHA-256 and that of commit HEAD~1
  kiln speed 'xts(aes)' --level api --layout tcrypt    requests as in tcrypt
  kiln speed 'xts(aes)' --via virtio --len 4096 --depth 64
  kiln speed 'xts(aes)' --len 16 --latency    dependent calls
  kiln speed 'gcm(aes)' --multi all    on all cores at once
  kiln speed 'gcm(aes)' --cold --len 64,1420    also with cold caches
  kiln speed --shard 2/8 --out DIR    part 2 of 8 of the work (docs/FLEET.md)

See also:
  docs/METHODOLOGY.md, docs/TREES.md")]
pub struct SpeedArgs {
    /// Algorithms to measure, by their names in the kernel [default: all]
    #[arg(value_name = "ALG", value_parser = Names, hide_possible_values = true)]
    algs: Vec<String>,
    /// Operations: encrypt, decrypt, digest (hashes), derive (key agreement) [default: all; with
    /// ALG or --impl, all except decrypt]
    #[arg(long, value_delimiter = ',', value_name = "OP,…")]
    op: Vec<String>,
    /// Message lengths in bytes: a list (16,64), a range (16..4112) or a range with a step
    /// (16..4112/16) [default: 16,64,256,512,1024,1420,4096,16384]
    #[arg(long, value_name = "LIST")]
    len: Option<String>,
    /// AES key sizes in bits: 128, 192, 256; XTS uses two keys of this size [default: 256]
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    key_bits: Vec<u32>,
    /// Implementations, by driver name, such as xts-aes-aesni [default: all that this CPU can run]
    #[arg(
        long = "impl",
        value_delimiter = ',',
        value_name = "NAME,…",
        value_parser = Drivers,
        hide_possible_values = true
    )]
    impls: Vec<String>,
    /// Libraries to compare with: auto (all installed), none, or names (openssl, libgcrypt, nettle,
    /// ipsec-mb, aws-lc)
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "auto",
        value_name = "NAME,…"
    )]
    peers: Vec<String>,
    /// Also build and measure the crypto code of this Linux source tree, or of a git revision, such
    /// as HEAD~1 (in the current directory) or DIR@HEAD~1 (in DIR). The code runs in a child
    /// process
    #[arg(long, value_name = "DIR|REV")]
    tree: Option<PathBuf>,
    /// With --tree: instead of Kiln's benchmark, run this mode of the tree's own tcrypt, and print
    /// tcrypt's output
    #[arg(long, value_name = "MODE", requires = "tree", conflicts_with_all = ["algs", "impls", "len", "baseline"])]
    tcrypt: Option<u32>,
    /// With --tcrypt: seconds for each test; 0 measures the cycles of a few operations
    #[arg(long, value_name = "N", default_value_t = 0, requires = "tcrypt")]
    sec: u32,
    /// With --level library: also run the benchmarks of the tree's KUnit suites, and compare the
    /// figures for each function
    #[arg(long, requires = "tree", conflicts_with_all = ["tcrypt", "layout"])]
    kunit: bool,
    #[command(flatten)]
    build: TreeBuildArgs,
    /// Compare all results with those of a driver, a library, 'linux' (the tree), or 'kiln' (Kiln's
    /// implementation with the highest priority)
    #[arg(long, value_name = "IMPL|PROVIDER")]
    baseline: Option<String>,
    /// Interface to use: primitive, api or library (lib/crypto) [default: primitive for Kiln, all
    /// for a tree]
    ///
    /// The level 'primitive' calls the cipher's function directly. The level 'api' sends requests
    /// to a driver through the crypto API. Of Kiln's drivers, 'api' measures only the one with the
    /// highest priority, unless --impl names others. The level 'library' needs --tree: it calls a
    /// function that the kernel tree's library code exports, such as sha256() in lib/crypto.
    #[arg(long, value_name = "LEVEL")]
    level: Option<Level>,
    /// With --level api: memory layout of the requests, plain or tcrypt
    ///
    /// plain: many requests, each with contiguous buffers. tcrypt: a single request that is sent
    /// repeatedly; its buffers are divided into pages, as in Linux's tcrypt.
    #[arg(long, default_value = "plain", value_name = "LAYOUT")]
    layout: Layout,
    /// Measure latency: each call uses the first block of the previous result as its IV, so calls
    /// cannot overlap
    #[arg(long)]
    latency: bool,
    /// Also measure single calls of Kiln's functions with cold caches: code and data in neither L1
    /// nor L2
    #[arg(long, conflicts_with_all = ["tree", "tcrypt", "kunit", "level", "latency", "multi"])]
    cold: bool,
    /// Run each implementation in N threads at once, one per logical CPU; 'all' uses all permitted
    /// CPUs, including SMT siblings
    ///
    /// With --multi, the command measures the throughput of each thread and of all threads
    /// together, and the clock speed of the cores.
    #[arg(long, value_name = "N|all", conflicts_with_all = ["tree", "tcrypt", "kunit"])]
    multi: Option<Threads>,
    /// Maximum total measuring time in seconds; with less time, intervals are wider [default: grows
    /// with the number of results]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seconds: Option<f64>,
    /// Measure for this many milliseconds; 'kiln compare' uses this for its turns
    #[arg(long, hide = true, value_name = "MS")]
    turn_ms: Option<u64>,
    /// Print one line per result instead of the tables
    #[arg(long)]
    rows: bool,
    #[command(flatten)]
    via: ViaArgs,
    #[command(flatten)]
    shard: ShardArgs,
}

impl SpeedArgs {
    /// Formats the tables for the terminal. A tree's results are listed by name, because a tree has
    /// many implementations of each algorithm.
    fn tables(&self, rows: &[Row], tty: bool) -> String {
        let named = !self.algs.is_empty() || !self.impls.is_empty() || self.tree.is_some();
        if self.kunit {
            view::tables(rows, tty) + &kunit::lines(rows)
        } else if self.rows {
            view::rows(rows)
        } else if named || self.baseline.is_some() {
            view::tables(rows, tty)
        } else {
            let slower = slower(rows);
            let mut text = view_all::compact(rows, tty);
            if rows.iter().any(|r| r.together) {
                text.push_str("* several messages at a time\n");
            }
            if !slower.is_empty() {
                text.push_str("\nKiln's fastest is slower than the fastest other in\n");
                for line in slower {
                    text.push_str(&format!("{}\n", table::paragraph(&format!("  {line}"))));
                }
            }
            text
        }
    }

    fn plan(&self, session: &Session) -> Result<Plan, Error> {
        if self.layout == Layout::Tcrypt && self.tree.is_some() {
            return Err(Error::input(
                "--layout tcrypt does not apply to trees: run a tree's own tcrypt with --tree DIR --tcrypt MODE, or leave --tree out",
            ));
        }
        if self.level == Some(Level::Library) && self.tree.is_none() {
            return Err(Error::input(
                "--level library measures functions of a kernel tree: name one with --tree DIR",
            ));
        }
        if self.kunit && self.level != Some(Level::Library) {
            return Err(Error::input(
                "--kunit: the benchmarks of KUnit suites call functions of the library: add --level library",
            ));
        }
        let cores = self.multi.map(Cores::choose).transpose()?;
        let ops = self.op.iter().map(|name| Op::parse(name));
        let plan = Plan {
            ops: ops.collect::<Result<_, _>>()?,
            algs: self.algs.clone(),
            impls: self.impls.clone(),
            lens: self
                .len
                .as_deref()
                .map_or(Ok(Lens::default()), str::parse)?,
            key_bits: self.key_bits.clone(),
            latency: self.latency,
            peers: Wanted::parse(&self.peers)?,
            baseline: self.baseline.clone(),
            level: self.level,
            layout: match self.kunit {
                true => Layout::Kunit,
                false => self.layout,
            },
            turn: self.turn_ms.map(Duration::from_millis),
            quick: session.global.quick,
            within: parse_seconds(self.seconds, 0.1)?,
            share: session.share.clone(),
            cold: self.cold,
            cores: cores.filter(|cores| cores.count() > 1),
            ..Plan::new(session.seed)
        };
        match self.tree {
            // A tree's implementations are not known before the tree runs, so they are checked
            // later.
            Some(_) => Ok(plan),
            None => plan.checked(),
        }
    }
}

impl Question for SpeedArgs {
    const NAME: &'static str = "speed";
    const TIMED: bool = true;
    const OF_TIERS: bool = true;

    fn shard(&self) -> Option<Shard> {
        self.shard.shard
    }

    fn row_types() -> Vec<RowType> {
        vec![
            RowType::at::<Row>(20),
            RowType::at::<via::Row>(21),
            RowType::at::<kiln_tree::tcrypt::Row>(22),
        ]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        if self.shard.shard.is_some() && (self.tcrypt.is_some() || self.via.given()) {
            return Err(Error::input(
                "--shard divides tables of lengths: leave it out with --tcrypt and --via",
            ));
        }
        if let (Some(mode), Some(dir)) = (self.tcrypt, &self.tree) {
            let seconds = self.sec;
            return tcrypt::ask::<Self>(Request { mode, seconds }, dir, &self.build, session);
        }
        if self.tree.is_none() && self.build.given() {
            return Err(Error::input(
                "--cc and --config are for kernel trees: name one with --tree DIR",
            ));
        }
        if self.via.given() && (self.multi.is_some() || self.cold) {
            return Err(Error::input(
                "--multi and --cold measure ciphers in this process: leave them out with --via",
            ));
        }
        if self.via.given() {
            return via::ask::<Self>(
                &self.via,
                &self.algs,
                &self.key_bits,
                self.len.as_deref(),
                session,
            );
        }
        let plan = self.plan(session)?;
        if let Some(dir) = &self.tree {
            return match &session.child {
                Some(order) => in_child(plan, order, session),
                None => ask_tree(self, dir, session),
            };
        }
        match &plan.cores {
            Some(cores) => cores.occupy_first()?,
            None => _ = session.settle(),
        }
        session.answer::<Self, _>(
            |_, progress| run(plan, &session.stop, progress),
            |rows| self.tables(rows, session.bold),
        )
    }
}

/// Runs in the parent process: builds the tree in each configuration, has a child process measure
/// it, and prints the results.
fn ask_tree(args: &SpeedArgs, dir: &Path, session: &Session) -> Result<Exit, Error> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut title = String::new();
    let mut sum: Outcome<Row> = Outcome::default();
    let mut exit = Exit::Done;
    for configured in args.build.resolve_all(dir)? {
        let Some(hosted) = Hosted::build(configured, session)? else {
            return Ok(Exit::Interrupted);
        };
        let mut measured = match hosted.measure::<Row>("", &arguments, session)? {
            Ok(measured) => measured,
            Err(exit) => return Ok(exit),
        };
        let differ = kunit::algs_that_differ(&measured.rows);
        if !(differ.is_empty() || session.global.quick || session.stopped()) {
            let mut arguments = arguments.clone();
            if args.algs.is_empty() {
                arguments.extend(differ.into_iter().map(OsString::from));
            }
            match hosted.measure::<Row>("", &arguments, session)? {
                Ok(again) => kunit::confirm(&mut measured.rows, &again.rows),
                Err(exit) => return Ok(exit),
            }
            kunit::renew_note(&mut measured.notes, &measured.rows);
        }
        // Every child measures Kiln and the libraries, so keep only their first set of rows.
        let first = sum.rows.is_empty();
        let more = measured.rows.into_iter();
        sum.rows
            .extend(more.filter(|r| first || r.config.is_some()));
        sum.add_notes(measured.notes);
        title = hosted.title;
        if measured.exit != Exit::Done {
            exit = measured.exit;
        }
        if exit == Exit::Interrupted {
            break;
        }
    }
    if sum.rows.is_empty() && exit == Exit::Done && !args.impls.is_empty() {
        return Err(Error::input(format!(
            "--impl {}: has no row at this level: leave --impl or --level out to see the names that have one",
            args.impls.join(",")
        )));
    }
    let facts = read_facts();
    session.emit::<SpeedArgs, _>(&facts, &sum.rows, &sum.notes, || {
        let tables = args.tables(&sum.rows, session.bold);
        let notes = table::notes(&sum.notes, session.seed);
        let title = table::paragraph(&title);
        format!("{}\n{title}\n\n{tables}\n{notes}", table::machine(&facts))
    })?;
    Ok(exit)
}

/// Runs in the child: measures all candidates in the process that hosts the tree.
fn in_child(plan: Plan, order: &Order, session: &Session) -> Result<Exit, Error> {
    session.settle().answer::<SpeedArgs, _>(
        |_, progress| {
            let tree = Tree::boot(order, &plan.algs)?;
            run_with(plan, &[&tree], &session.stop, progress)
        },
        |_| String::new(),
    )
}
