//! Times builds in rounds. In each round, every build is timed once, in an order drawn from the
//! seed. Runs of the reference build are interspersed.
//!
//! A new copy of the executable is made for each run. On the reference machine, one file with 60 KB
//! of code took 110 cycles per byte while it stayed in the same memory pages, but each of twenty
//! copies took 24. The compiler cannot influence which pages a file occupies, so the best result of
//! several copies is used.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use kiln_measure::clock::tsc_hz;
use kiln_measure::{Round, Series, SplitMix64};

use super::cell::Status;

/// Duration in milliseconds of the trial run of a build.
const TRIAL_MS: u64 = 2;
/// Number of the signal SIGALRM, which kills a harness that has run out of time.
const ALARM: i32 = 14;
/// The result of a round is a low quantile of its samples: one in `LOWER` samples is smaller.
const LOWER: usize = 10;
/// Number of builds between two runs of the reference.
const REFERENCE_EVERY: usize = 12;

/// The timing effort: the number of rounds, and the time for each build in a round.
#[derive(Clone, Debug)]
pub(super) struct Effort {
    pub rounds: usize,
    /// Time in milliseconds for each build in a round.
    pub round_ms: u64,
}

/// The messages that a build processes: their seed, length and number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages {
    /// Seed from which the messages are generated.
    pub seed: u64,
    /// Length of a message in bytes.
    pub len: usize,
    pub count: usize,
}

impl Messages {
    /// Chooses the number of messages, between 4 and 256, so that they fit into the first-level
    /// cache if possible.
    pub(super) fn new(seed: u64, len: usize) -> Messages {
        Messages {
            seed,
            len,
            count: (16384 / len.max(1)).clamp(4, 256),
        }
    }
}

/// The output of one run of a build.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Told {
    /// Digest of the results.
    pub answer: Option<u64>,
    /// Messages per sample.
    pub iterations: u64,
    /// Number of samples discarded because the clock changed.
    pub rejected: u64,
    /// Core cycles per message, one value per sample.
    pub samples: Vec<f64>,
    /// TSC ticks per message, for the same samples.
    pub ticks: Vec<f64>,
    /// The first line that the run wrote to stderr.
    pub complaint: Option<String>,
}

/// Runs a build once, and parses its output.
pub(super) fn once(
    executable: &Path,
    messages: Messages,
    ms: u64,
    iterations: u64,
) -> Result<Told, (Status, String)> {
    let Messages { seed, len, count } = messages;
    let numbers = [seed, len as u64, count as u64, ms, iterations];
    let output = Command::new(executable)
        .args(numbers.map(|n| n.to_string()))
        // Make sanitizers report in a single line, and ignore leaks, because the harness does not
        // free its memory.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .env("UBSAN_OPTIONS", "print_stacktrace=0")
        .output()
        .map_err(|e| (Status::Crashed, format!("cannot be run: {e}")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let complaint = said.lines().find(|l| !l.trim().is_empty());
    let complaint = complaint.map(|l| l.trim().chars().take(200).collect::<String>());
    match (output.status.signal(), output.status.code()) {
        (Some(ALARM), _) => return Err((Status::Hung, "does not end within 20 s".to_string())),
        (Some(signal), _) => {
            let why = complaint.unwrap_or_else(|| "no word of why".to_string());
            return Err((Status::Crashed, format!("killed by signal {signal}: {why}")));
        }
        (None, Some(0)) => {}
        (None, code) => {
            let why = complaint.unwrap_or_else(|| "no word of why".to_string());
            let code = code.unwrap_or(-1);
            return Err((Status::Crashed, format!("exit status {code}: {why}")));
        }
    }
    Ok(Told {
        complaint,
        ..read(&String::from_utf8_lossy(&output.stdout))
    })
}

fn read(text: &str) -> Told {
    let mut told = Told::default();
    for (word, value) in text.lines().filter_map(|l| l.split_once(' ')) {
        match word {
            "answer" => told.answer = u64::from_str_radix(value, 16).ok(),
            "iterations" => told.iterations = value.parse().unwrap_or(0),
            "rejected" => told.rejected = value.parse().unwrap_or(0),
            "sample" => {
                let mut units = value.split(' ').map(|x| x.parse::<f64>().ok());
                told.samples.extend(units.next().flatten());
                told.ticks.extend(units.next().flatten());
            }
            _ => {}
        }
    }
    told
}

/// An executable to be timed.
pub(super) struct Entry<'a> {
    pub name: String,
    pub executable: &'a Path,
    /// The messages that the executable processes.
    pub messages: Messages,
    /// Group index. Entries in the same group are timed one after another.
    pub group: usize,
}

/// Where builds run: a directory for copies of executables, and the stop flag.
pub(super) struct Place<'a> {
    /// A directory that only this process uses.
    pub scratch: &'a Path,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
}

impl Place<'_> {
    fn once(&self, entry: &Entry, ms: u64, iterations: u64) -> Result<Told, (Status, String)> {
        let copy = self.scratch.join("cell");
        // Remove the old copy first: overwriting it would reuse its memory pages.
        let _ = fs::remove_file(&copy);
        let executable = match fs::copy(entry.executable, &copy) {
            Ok(_) => &copy,
            Err(_) => entry.executable,
        };
        once(executable, entry.messages, ms, iterations)
    }
}

/// The outcome of timing one entry: its series and the digest of its results, or a fault.
#[derive(Clone, Debug)]
pub(super) struct Timed {
    /// Core cycles and nanoseconds per message.
    pub series: Series,
    /// Digest of the results.
    pub answer: Option<u64>,
    /// First line written to stderr, such as a report by a sanitizer.
    pub complaint: Option<String>,
    /// Why the entry has no result, or `None` if it has one.
    pub fault: Option<(Status, String)>,
}

/// Times all entries, interspersed with runs of the reference. Returns the results of the entries
/// and of the reference.
pub(super) fn time(
    entries: &[Entry],
    reference: Option<&Entry>,
    effort: &Effort,
    seed: u64,
    place: &Place,
    progress: &mut dyn FnMut(f64, &str),
) -> (Vec<Timed>, Option<Timed>) {
    let over = || place.stop.load(Ordering::Relaxed);
    let mut all: Vec<Timed> = entries.iter().map(|e| trial(e, place)).collect();
    let mut fixed = reference.map(|r| trial(r, place));
    let mut rng = SplitMix64(seed);
    let total = (effort.rounds * entries.len()).max(1) as f64;
    let mut done = 0;
    for _ in 0..effort.rounds {
        begin(&mut all);
        fixed
            .iter_mut()
            .for_each(|f| begin(std::slice::from_mut(f)));
        for (at, i) in order(entries, &mut rng).into_iter().enumerate() {
            if let (Some(r), Some(f), true) = (reference, &mut fixed, at % REFERENCE_EVERY == 0) {
                turn(r, f, effort.round_ms / 2 + 1, place);
            }
            turn(&entries[i], &mut all[i], effort.round_ms, place);
            done += 1;
            progress(done as f64 / total, &entries[i].name);
            if over() {
                return (all, fixed);
            }
        }
        for timed in all.iter_mut().chain(&mut fixed) {
            let Series {
                rounds, rounds_ns, ..
            } = &mut timed.series;
            let last = [rounds.last_mut(), rounds_ns.last_mut()];
            last.into_iter().flatten().for_each(|r| r.complete = true);
        }
    }
    (all, fixed)
}

fn begin(timed: &mut [Timed]) {
    for t in timed {
        t.series.rounds.push(Round::default());
        t.series.rounds_ns.push(Round::default());
    }
}

/// Returns the indices of the entries, with the groups in random order and the entries of each
/// group in random order.
fn order(entries: &[Entry], rng: &mut SplitMix64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    rng.shuffle(&mut order);
    let groups = entries.iter().map(|e| e.group).max().map_or(0, |g| g + 1);
    let mut rank: Vec<usize> = (0..groups).collect();
    rng.shuffle(&mut rank);
    order.sort_by_key(|i| rank[entries[*i].group]);
    order
}

/// Makes a short trial run, which shows whether the build works, which digest it computes, and how
/// many messages make up a sample.
fn trial(entry: &Entry, place: &Place) -> Timed {
    let mut timed = Timed {
        series: Series {
            name: entry.name.clone(),
            ..Series::default()
        },
        answer: None,
        complaint: None,
        fault: None,
    };
    if place.stop.load(Ordering::Relaxed) {
        timed.fault = Some((Status::Absent, "interrupted".to_string()));
        return timed;
    }
    match place.once(entry, TRIAL_MS, 0) {
        Ok(told) => {
            timed.answer = told.answer;
            timed.complaint = told.complaint;
            timed.series.iters = told.iterations;
        }
        Err(fault) => timed.fault = Some(fault),
    }
    timed
}

fn turn(entry: &Entry, timed: &mut Timed, ms: u64, place: &Place) {
    if timed.fault.is_some() {
        return;
    }
    match place.once(entry, ms, timed.series.iters) {
        Ok(told) => {
            if told.answer != timed.answer {
                let why = "its answers differ from run to run".to_string();
                timed.fault = Some((Status::Wrong, why));
                return;
            }
            timed.series.rejected += told.rejected;
            let ns = told.ticks.iter().map(|ticks| ticks * 1e9 / tsc_hz());
            add_turn(timed.series.rounds_ns.last_mut(), ns.collect());
            add_turn(timed.series.rounds.last_mut(), told.samples);
        }
        // Ctrl-C also stops the process of the build, so this failure is not an error in the build.
        Err(_) if place.stop.load(Ordering::Relaxed) => {}
        Err(fault) => timed.fault = Some(fault),
    }
}

/// Adds one turn's samples to a round. The reference has several turns per round.
fn add_turn(round: Option<&mut Round>, mut samples: Vec<f64>) {
    let Some(round) = round else { return };
    samples.sort_unstable_by(f64::total_cmp);
    // Do not use the minimum: among so many samples, the smallest is the one whose clock
    // measurement was disturbed most.
    let figure = samples.get(samples.len() / LOWER).copied();
    round.best = match (round.best, figure) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    round.samples.extend(samples);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cell_prints_is_read() {
        let told =
            read("answer 00ff\niterations 7\nrejected 2\nsample 1.5 0.75\nsample 2 1\nother 3\n");
        assert_eq!(told.answer, Some(255));
        assert_eq!((told.iterations, told.rejected), (7, 2));
        assert_eq!(told.samples, [1.5, 2.0]);
        assert_eq!(told.ticks, [0.75, 1.0]);
    }

    #[test]
    fn groups_stay_together() {
        let entry = |group| Entry {
            name: String::new(),
            executable: Path::new("x"),
            messages: Messages::new(1, 16),
            group,
        };
        let entries = [0, 1, 0, 2, 1, 0].map(entry);
        let mut rng = SplitMix64(3);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..50 {
            let order = order(&entries, &mut rng);
            let groups: Vec<usize> = order.iter().map(|i| entries[*i].group).collect();
            assert_eq!(groups.chunk_by(|a, b| a == b).count(), 3, "{groups:?}");
            seen.insert(order);
        }
        assert!(seen.len() > 10);
    }

    #[test]
    fn a_program_that_fails_says_how() {
        let messages = Messages::new(1, 16);
        let (status, why) = once(Path::new("/bin/false"), messages, 0, 0).unwrap_err();
        assert_eq!(
            (status, why.starts_with("exit status 1")),
            (Status::Crashed, true)
        );
        let (status, _) = once(Path::new("/no/such"), messages, 0, 0).unwrap_err();
        assert_eq!(status, Status::Crashed);
    }
}
