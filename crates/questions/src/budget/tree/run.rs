//! Measures every function at every length. This code runs in the child process.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_kernel::cipher::Op;
use kiln_kernel::cpu::Config;
use kiln_kernel::messages::Messages;
use kiln_kernel::Tier;
use kiln_measure::{Round, Series, SplitMix64};
use kiln_question::{unknown, Error, Outcome, Report};
use kiln_tree::child::Order;
use kiln_tree::engine::{Calls, Refused};
use kiln_tree::library::{Function, Keyed, Kind, Library};
use kiln_tree::{delays, Host};

use super::bound::{find_bound, find_step, settle};
use super::row::Row;
use super::view::size;
use super::wanted::Wanted;

/// Number of calls per length, without and with --quick.
const REPETITIONS: (u64, u64) = (15, 5);
/// Time in milliseconds for measuring softirq delays at one length, without and with --quick.
const MILLIS: (u64, u64) = (200, 50);
/// Interrupts per second. Each interrupt's delay is recorded separately, even if several occur
/// during one section.
const RATE: f64 = 2_000.0;
/// Maximum number of sections per call whose lengths are recorded: two for each 16-byte block of
/// the longest message.
const KEPT: usize = 1 << 21;
/// Length in bytes of a message that is used to find out whether a function opens sections. A
/// function is assumed never to open one if it opens none for this message, for a message a
/// sixteenth as long, and for the shortest requested message.
const TRIED: usize = 64 << 10;
/// Number of bytes in the buffer after a message, for a tag or a digest.
const BEHIND: usize = 256;
const PAGE: usize = 4096;

/// Measures all requested functions. Returns rows sorted by function and length, along with notes.
///
/// # Errors
/// The tree cannot be hosted, has no library, or lacks a requested function.
pub(super) fn run(
    wanted: &Wanted,
    order: &Order,
    tsc_hz: f64,
    stop: &AtomicBool,
    progress: Report<'_>,
) -> Result<Outcome<Row>, Error> {
    let mut host = Host::boot(order, &Config::default())?;
    host.cpu.keep_sections(KEPT);
    let calls = Calls::find(&host).map_err(|e| Error::input(e.to_string()))?;
    let library = Library::find(&calls, &host).ok_or_else(|| {
        Error::input("the tree's library cannot be called: its headers are of another version")
    })?;
    let functions = select(library.functions(), &wanted.names)?;
    let mut outcome = Outcome::default();
    let (mut without, mut over) = (Vec::new(), Vec::new());
    for (i, function) in functions.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            outcome.interrupted = true;
            break;
        }
        progress(i as f64 / functions.len() as f64, &function.name);
        if order.skipped.contains(&function.name) {
            continue;
        }
        let mut bench = match Bench::new(&library, function, order.seed) {
            Ok(bench) => bench,
            Err(e) => {
                outcome
                    .notes
                    .push(format!("{}: its key is refused: {e}", function.name));
                continue;
            }
        };
        match measure(&mut host, &mut bench, wanted, tsc_hz, order) {
            Ok(rows) if rows.is_empty() => without.push(function.name.as_str()),
            Ok(rows) => {
                over.extend(describe_over(&rows, wanted.max_section_us));
                outcome.rows.extend(rows);
            }
            Err(Unmeasured::Refused(e)) => {
                outcome.failed = true;
                outcome
                    .notes
                    .push(format!("{}: a call fails: {e}", function.name));
            }
            Err(Unmeasured::Tree(e)) => return Err(e.into()),
        }
    }
    let nothing = outcome.rows.is_empty() && !outcome.interrupted && !outcome.failed;
    if let (Some(limit), true, false) = (wanted.max_section_us, nothing, without.is_empty()) {
        return Err(Error::lacks(format!(
            "--max-section-us {limit}: nothing to check, because these functions open no FPU section in this tree: {}. \
             Drivers of the crypto API may open sections: kiln test --tree DIR --oracle bounds",
            without.join(", ")
        )));
    }
    outcome.notes.extend(notes(&outcome.rows, &mut without));
    if let (Some(limit), false) = (wanted.max_section_us, over.is_empty()) {
        outcome.failed = true;
        outcome.notes.push(format!(
            "sections longer than {limit} µs: {}",
            over.join(", ")
        ));
    }
    Ok(outcome)
}

/// Selects functions by name: each entry of `names` is the name of a function or of an algorithm.
fn select<'a>(all: &'a [Function], names: &[String]) -> Result<Vec<&'a Function>, Error> {
    let exported = || all.iter().filter(|f| !f.judges);
    let is = |f: &Function, name: &str| f.name == name || f.alg == name;
    for name in names {
        if !exported().any(|f| is(f, name)) {
            let mut known: Vec<&str> = exported().flat_map(|f| [&*f.name, &*f.alg]).collect();
            known.sort_unstable();
            known.dedup();
            // If some names begin with the same two letters as the requested name, list only those.
            let start: String = name.chars().take(2).collect();
            let alike: Vec<&str> = known
                .iter()
                .copied()
                .filter(|k| k.starts_with(&start))
                .collect();
            if !alike.is_empty() {
                known = alike;
            }
            return Err(unknown(
                "function or algorithm of the tree's library",
                name,
                &known,
            ));
        }
    }
    let wanted = |f: &&Function| names.is_empty() || names.iter().any(|name| is(f, name));
    Ok(exported().filter(wanted).collect())
}

/// Describes how a function exceeds the limit: the message length up to which it stays within the
/// limit, and the length at which a section takes longest. Returns `None` if no section exceeds the
/// limit.
fn describe_over(rows: &[Row], limit: Option<f64>) -> Option<String> {
    let limit = limit?;
    let first = rows.iter().position(|r| r.section_us > limit)?;
    let within = match first.checked_sub(1) {
        Some(last) => format!("within it up to {}", size(rows[last].bytes)),
        None => "above it at every length".to_string(),
    };
    let worst = rows
        .iter()
        .max_by(|a, b| a.section_us.total_cmp(&b.section_us))?;
    Some(format!(
        "{} ({within}, at worst {:.1} µs at {})",
        worst.function,
        worst.section_us,
        size(worst.bytes)
    ))
}

fn notes(rows: &[Row], without: &mut Vec<&str>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(row) = rows.first() {
        notes.push(format!(
            "each section is the shortest of {} calls; tiers up to {}",
            rows.iter().map(|r| r.repetitions).max().unwrap_or(0),
            row.tier
        ));
    }
    let disturbed = rows.iter().filter(|r| r.stolen == r.repetitions).count();
    if disturbed > 0 {
        notes.push(format!(
            "in {disturbed} of {} rows the host took the CPU away during each call, so their sections are too long: \
             repeat this on a quiet machine",
            rows.len()
        ));
    }
    if !rows.is_empty() {
        notes.push(
            "drivers of the crypto API are not measured here: kiln test --tree DIR --oracle bounds lists those \
             that process a message of any length in one section"
                .to_string(),
        );
    }
    without.dedup();
    if !without.is_empty() {
        notes.push(format!(
            "functions that open no FPU section: {}",
            without.join(", ")
        ));
    }
    notes
}

enum Unmeasured {
    Refused(Refused),
    Tree(kiln_tree::Error),
}

/// Returns one function's rows. The list is empty if the function opens no section.
fn measure(
    host: &mut Host,
    bench: &mut Bench,
    wanted: &Wanted,
    tsc_hz: f64,
    order: &Order,
) -> Result<Vec<Row>, Unmeasured> {
    let lengths = bench.lengths(&wanted.lengths);
    // Warm up the caches, and determine whether the function opens sections at all.
    let mut opens = false;
    for len in [bench.taken(TRIED), bench.taken(TRIED / 16)]
        .into_iter()
        .chain(lengths.first().copied())
    {
        opens |= bench.call(host, len).map_err(Unmeasured::Refused)?.sections > 0;
    }
    if !opens {
        return Ok(Vec::new());
    }
    let (repetitions, millis) = match wanted.quick {
        true => (REPETITIONS.1, MILLIS.1),
        false => (REPETITIONS.0, MILLIS.0),
    };
    let mut rows = Vec::new();
    for &len in &lengths {
        let mut called = Vec::new();
        bench.start(host, len).map_err(Unmeasured::Refused)?;
        for _ in 0..repetitions {
            called.push(bench.call(host, len).map_err(Unmeasured::Refused)?);
        }
        let longest = host.cpu.least_sections().iter().max().copied();
        let mut row = bench.row(len, longest.unwrap_or(0), &called, tsc_hz, order);
        if len == lengths[0] || Some(&len) == lengths.last() {
            let delays = bench.delays(host, len, millis, order.seed)?;
            add_delays(&mut row, delays, tsc_hz);
        }
        rows.push(row);
    }
    let step = find_step(&mut |len| bench.count(host, len));
    let step = step.map(|step| settle(step, &mut |len| bench.longest(host, len)));
    let bound = find_bound(&rows, step, bench.function.most);
    rows.iter_mut().for_each(|row| row.bound = bound);
    Ok(rows)
}

fn add_delays(row: &mut Row, mut ticks: Vec<u64>, tsc_hz: f64) {
    ticks.sort_unstable();
    let us = |ticks: u64| ticks as f64 / tsc_hz * 1e6;
    row.delays = ticks.len() as u64;
    row.delay_us_p50 = ticks.get(ticks.len() / 2).copied().map(us);
    row.delay_us_max = ticks.last().copied().map(us);
}

/// The measurements taken during one call of a function.
struct Called {
    took: Duration,
    sections: u64,
    /// Length of the longest section in TSC ticks.
    longest: u64,
    stolen: bool,
}

/// A function, together with its key and its messages.
struct Bench<'a> {
    function: &'a Function,
    keyed: Keyed,
    /// If the measured function decrypts messages and checks their tag, this is the function that
    /// encrypts them.
    encrypts: Option<Keyed>,
    iv: Vec<u8>,
    src: Pages,
    dst: Pages,
    /// The message length for which `src` contains a valid tag.
    sealed: Option<usize>,
}

impl<'a> Bench<'a> {
    fn new(
        library: &std::rc::Rc<Library>,
        function: &'a Function,
        seed: u64,
    ) -> Result<Bench<'a>, Refused> {
        let mut random = SplitMix64(seed);
        let mut key = vec![0; function.keys.last().copied().unwrap_or(function.own_key)];
        random.fill(&mut key);
        let mut iv = vec![0; function.iv];
        random.fill(&mut iv);
        if function.alg.starts_with("ccm(") {
            // A CCM IV begins with the size of the length field in bytes, minus one.
            iv[0] = 3;
        }
        let decrypts = function.kind == Kind::Aead && function.op == "decrypt";
        let pair = |f: &&Function| {
            f.alg == function.alg
                && f.op == "encrypt"
                && f.kind == Kind::Aead
                && f.tag == function.tag
        };
        let pair = library.functions().iter().find(pair).filter(|_| decrypts);
        Ok(Bench {
            function,
            keyed: Keyed::open(library, function, &key)?,
            encrypts: pair.map(|f| Keyed::open(library, f, &key)).transpose()?,
            iv,
            src: Pages::new(0),
            dst: Pages::new(0),
            sealed: None,
        })
    }

    /// Returns the longest length up to `len` that the function accepts.
    fn taken(&self, len: usize) -> usize {
        let f = self.function;
        let len = len.clamp(f.least, f.most);
        (len - len % f.multiple).max(f.least)
    }

    /// Adjusts the lengths to ones that the function accepts, and removes duplicates.
    fn lengths(&self, wanted: &[usize]) -> Vec<usize> {
        let mut lengths: Vec<usize> = wanted.iter().map(|&len| self.taken(len)).collect();
        lengths.dedup();
        lengths
    }

    /// Allocates buffers and creates a message of `len` bytes that the function accepts.
    fn prepare(&mut self, len: usize) -> Result<(), Refused> {
        let f = self.function;
        let room = f.prefix + len + BEHIND;
        if self.src.len() < room {
            (self.src, self.dst) = (Pages::new(room), Pages::new(room));
            SplitMix64(len as u64).fill(&mut self.src);
            self.dst.fill(1);
            self.sealed = None;
        }
        if let (Some(encrypts), true) = (&self.encrypts, self.sealed != Some(len)) {
            let (src, dst) = (&self.src[..], &mut self.dst[..]);
            encrypts.run(
                &mut messages(f, Op::Encrypt, src, dst, &self.iv, len),
                1,
                false,
            )?;
            // Copy only the ciphertext and the tag. The prefix in `src` must not change.
            let made = f.prefix..f.prefix + len + f.tag;
            self.src[made.clone()].copy_from_slice(&self.dst[made]);
            self.sealed = Some(len);
        }
        Ok(())
    }

    /// Prepares calls with messages of `len` bytes, and discards the sections recorded so far,
    /// including those of the call that encrypted the message.
    fn start(&mut self, host: &mut Host, len: usize) -> Result<(), Refused> {
        self.prepare(len)?;
        host.cpu.forget_sections();
        Ok(())
    }

    fn run(&mut self, len: usize) -> Result<(), Refused> {
        let op = match self.function.op.as_str() {
            "decrypt" => Op::Decrypt,
            _ => Op::Encrypt,
        };
        let (src, dst) = (&self.src[..], &mut self.dst[..]);
        let mut messages = messages(self.function, op, src, dst, &self.iv, len);
        self.keyed.run(&mut messages, 1, false)
    }

    /// Makes one call while the emulated CPU receives no interrupts.
    fn call(&mut self, host: &mut Host, len: usize) -> Result<Called, Refused> {
        self.prepare(len)?;
        host.cpu.reset_stats();
        let start = Instant::now();
        self.run(len)?;
        let took = start.elapsed();
        let stats = host.cpu.stats();
        Ok(Called {
            took,
            sections: stats.sections,
            longest: host.cpu.section_time().max(),
            stolen: stats.sections_stolen > 0,
        })
    }

    /// Returns the number of sections in a call, or `None` if the function does not accept messages
    /// of `len` bytes.
    fn count(&mut self, host: &mut Host, len: usize) -> Option<u64> {
        let called = (self.taken(len) == len).then(|| self.call(host, len))?;
        called.ok().map(|called| called.sections)
    }

    /// Returns the length of the longest section in TSC ticks. For each section, the shortest
    /// length over several calls is used.
    fn longest(&mut self, host: &mut Host, len: usize) -> Option<u64> {
        self.start(host, len).ok()?;
        for _ in 0..REPETITIONS.1 {
            self.count(host, len)?;
        }
        host.cpu.least_sections().iter().max().copied()
    }

    /// Calls the function repeatedly while softirqs are raised, and returns the delays of the
    /// softirqs in TSC ticks.
    fn delays(
        &mut self,
        host: &mut Host,
        len: usize,
        millis: u64,
        seed: u64,
    ) -> Result<Vec<u64>, Unmeasured> {
        self.prepare(len).map_err(Unmeasured::Refused)?;
        let (start, last) = (Instant::now(), Duration::from_millis(millis));
        let mut ran = Ok(());
        let mut work = || {
            while ran.is_ok() && start.elapsed() < last {
                ran = self.run(len);
            }
        };
        let delays = delays::measure(host, RATE, seed, &mut work).map_err(Unmeasured::Tree)?;
        ran.map_err(Unmeasured::Refused)?;
        Ok(delays)
    }

    fn row(&self, len: usize, longest: u64, called: &[Called], tsc_hz: f64, order: &Order) -> Row {
        let us = |ticks: u64| ticks as f64 / tsc_hz * 1e6;
        let round = |c: &Called| Round {
            best: Some(us(c.longest)),
            samples: vec![us(c.longest)],
            complete: true,
        };
        let series = Series {
            rounds: called.iter().map(round).collect(),
            ..Series::default()
        };
        // Half the width of the interval is the spread among the calls, because this spread
        // indicates how much the result of a rerun may differ.
        let reach = series.estimate().map_or(0.0, |e| e.high - e.best);
        let section_us = us(longest);
        let fastest = called
            .iter()
            .map(|c| c.took.as_secs_f64() * 1e6)
            .fold(f64::INFINITY, f64::min);
        // Interrupts do not change how many sections a call opens, so every call has the same count.
        let sections = called.iter().map(|c| c.sections).min().unwrap_or(0);
        Row {
            function: self.function.name.clone(),
            alg: self.function.alg.clone(),
            op: self.function.op.clone(),
            provider: format!("linux-{}", order.label.version),
            config: order.label.config.clone(),
            bytes: len as u64,
            tier: highest_tier().to_string(),
            section_us,
            section_low: (section_us - reach).max(0.0),
            section_high: section_us + reach,
            repetitions: called.len() as u64,
            stolen: called.iter().filter(|c| c.stolen).count() as u64,
            sections_per_call: sections,
            bytes_per_section: len as f64 / sections.max(1) as f64,
            mb_per_s: len as f64 / fastest,
            ..Row::default()
        }
    }
}

fn highest_tier() -> &'static str {
    let mut usable = Tier::ALL.into_iter().filter(|t| t.usable());
    usable.next_back().map_or("generic", Tier::name)
}

/// A page-aligned buffer. Some functions require data to be aligned like disk sectors.
struct Pages {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Pages {
    fn new(len: usize) -> Pages {
        let bytes = vec![0; len + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE);
        Pages { bytes, start, len }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}

/// Returns the arguments of a call that processes one message of `len` bytes.
fn messages<'m>(
    f: &Function,
    op: Op,
    src: &'m [u8],
    dst: &'m mut [u8],
    iv: &'m [u8],
    len: usize,
) -> Messages<'m> {
    Messages {
        op,
        src_stride: src.len(),
        dst_stride: dst.len(),
        iv_stride: iv.len(),
        src,
        dst,
        ivs: iv,
        len,
        prefix: f.prefix,
        tag_size: f.tag,
        count: 1,
        ..Messages::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_names_a_function_once_with_the_length_that_holds_and_the_worst() {
        let row = |bytes, section_us| Row {
            function: "sha1".into(),
            bytes,
            section_us,
            ..Row::default()
        };
        let rows = [row(4096, 2.0), row(65536, 30.0), row(1 << 20, 480.0)];
        let over = |limit| describe_over(&rows, limit);
        assert_eq!(
            over(Some(29.5)).as_deref(),
            Some("sha1 (within it up to 4 KiB, at worst 480.0 µs at 1 MiB)")
        );
        assert_eq!(
            over(Some(1.0)).as_deref(),
            Some("sha1 (above it at every length, at worst 480.0 µs at 1 MiB)")
        );
        assert_eq!((over(Some(480.0)), over(None)), (None, None));
        // The longest section need not occur at the largest length, and larger lengths may be
        // within the limit again.
        let bumpy = [row(4096, 2.0), row(65536, 30.0), row(1 << 20, 9.0)];
        assert_eq!(
            describe_over(&bumpy, Some(20.0)).as_deref(),
            Some("sha1 (within it up to 4 KiB, at worst 30.0 µs at 64 KiB)")
        );
    }

    #[test]
    fn delays_are_sorted_before_the_middle_is_taken() {
        let mut row = Row::default();
        add_delays(&mut row, vec![9_000, 1_000, 2_000], 1e9);
        assert_eq!((row.delay_us_p50, row.delay_us_max), (Some(2.0), Some(9.0)));
        add_delays(&mut row, Vec::new(), 1e9);
        assert_eq!((row.delay_us_p50, row.delays), (None, 0));
    }
}
