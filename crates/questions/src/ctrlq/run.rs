//! Runs every waiting method with every device, in rounds.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kiln_driver::{Counts, Driver, Histogram, Mode, Options, Wishes};
use kiln_measure::watch::busy_on;
use kiln_measure::{median_of_rounds, pin, ratio_of_rounds, CoreList};
use kiln_question::{Error, Outcome, Report};

use super::load::{chains, threads, Clock, Tally};
use super::paper;
use super::plan::{Kind, Plan, Way};
use super::row::{us, Octaves, Row};
use crate::device::{cpu_time, explain, Device};

/// Duration of the warm-up before each measured round, as a fraction of the round's duration.
const WARM: f64 = 0.1;
/// Minimum duration of the warm-up in seconds.
const LEAST_WARM: f64 = 0.005;
/// How often the stop flag is checked.
const LOOK: Duration = Duration::from_millis(20);
/// A device that does not answer within this time is considered dead. A working device always
/// answers sooner.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The combination of parameters measured for one row.
#[derive(Clone, Copy)]
struct Cell {
    ctrl: Option<&'static str>,
    kind: Kind,
    way: Way,
    workers: usize,
}

/// Measurements of one cell in one round.
struct Sample {
    tally: Tally,
    holds: Histogram,
    elapsed: Duration,
    /// CPU time of the driver's process and of the device's process.
    cpu: [Option<Duration>; 2],
    /// Busy time of the cores that driver and device may use, in seconds.
    busy_s: Option<f64>,
    kicks: u64,
    interrupts: u64,
    yields: u64,
}

impl Sample {
    fn cpu_s_per_op(&self) -> Option<f64> {
        let both = self.cpu[0]? + self.cpu[1]?;
        Some(both.as_secs_f64() / self.tally.all.total() as f64)
    }
}

/// The rounds of a cell that have been measured so far.
#[derive(Default)]
struct Sum {
    samples: Vec<Sample>,
    /// Whether the device lacks this kind of session.
    absent: bool,
}

/// The cores that driver and device use.
struct Cores {
    all: Vec<usize>,
    /// Number of cores that only the device uses; `None` if driver and device share all cores.
    device: Option<usize>,
}

impl Cores {
    /// Restricts this thread, and the driver's threads that it starts, to the cores that the device
    /// does not use.
    fn settle(device: Option<&CoreList>) -> Result<Cores, Error> {
        let fault = |e| Error::lacks(format!("--device-cpu: {e}"));
        let allowed = CoreList::allowed().map_err(fault)?;
        let Some(device) = device else {
            return Ok(Cores {
                all: allowed.cores().to_vec(),
                device: None,
            });
        };
        // `parse_device_cpu` has checked that at least one core remains for the driver.
        let driver = allowed.without(device);
        pin(&driver).map_err(fault)?;
        Ok(Cores {
            all: [driver.cores(), device.cores()].concat(),
            device: Some(device.cores().len()),
        })
    }

    /// Returns whether there are too few cores to run `driver` driver threads and `device` device
    /// threads at the same time.
    fn are_too_few(&self, driver: usize, device: usize) -> bool {
        match self.device {
            Some(own) => device > own || driver > self.all.len() - own,
            None => driver + device > self.all.len(),
        }
    }
}

/// Runs every cell once per round, so that a drift in the machine's speed affects all cells
/// equally. Cells that are compared with each other are measured back to back.
///
/// # Errors
/// Fails if the device does not exist, refuses sessions, or offers none of the requested kinds.
pub(super) fn run(
    plan: &Plan,
    stop: &Arc<AtomicBool>,
    progress: Report<'_>,
) -> Result<Outcome<Row>, Error> {
    let cores = Cores::settle(plan.device_cpu.as_ref())?;
    let mut outcome = Outcome::default();
    let cells = cells(plan);
    let mut sums: Vec<Sum> = cells.iter().map(|_| Sum::default()).collect();
    let mut devices = HashMap::new();
    let order = side_by_side(&cells);
    let total = (plan.rounds * order.len()).max(1) as f64;
    'rounds: for round in 0..plan.rounds {
        for (place, &i) in order.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                outcome.interrupted = true;
                break 'rounds;
            }
            if sums[i].absent {
                continue;
            }
            let cell = &cells[i];
            let name = format!("{} {}, {}", cell.way.name(), cell.workers, cell.kind.name());
            let done = (round * order.len() + place) as f64 / total;
            progress(
                done,
                &format!("round {} of {}, {name}", round + 1, plan.rounds),
            );
            match cell.measure(plan, &cores, &mut devices, stop) {
                // After an interruption, discard the current round, because it was cut short.
                Ok(Some(_)) | Err(_) if stop.load(Ordering::Relaxed) => {
                    // An error at this point is not the device's fault: Ctrl-C aborts every wait
                    // for the device and, on a terminal, also stops the device.
                    outcome.interrupted = true;
                    break 'rounds;
                }
                Ok(Some(sample)) => sums[i].samples.push(sample),
                Ok(None) => sums[i].absent = true,
                Err(e) => return Err(e),
            }
        }
    }
    for (cell, sum) in cells.iter().zip(&sums) {
        if sum.absent {
            outcome.notes.push(format!(
                "{} sessions: the device does not offer them; RSA needs libcrypto: apt-get install libssl3",
                cell.kind.name()
            ));
        } else if !sum.samples.is_empty() {
            outcome.rows.push(cell.row(plan, &cores, &sum.samples));
        }
    }
    outcome.notes.dedup();
    if outcome.rows.is_empty() && !outcome.interrupted {
        return Err(Error::lacks(outcome.notes.join("; ")));
    }
    compare(&mut outcome.rows);
    outcome.notes.extend(notes(plan, &cores, &outcome.rows));
    Ok(outcome)
}

fn cells(plan: &Plan) -> Vec<Cell> {
    let ctrls: Vec<_> = match plan.socket {
        Some(_) => vec![None],
        None => plan.ctrls.iter().copied().map(Some).collect(),
    };
    let mut cells = Vec::new();
    for &ctrl in &ctrls {
        for &kind in &plan.kinds {
            for &way in &plan.ways {
                let workers = match way {
                    Way::Async => &[1][..],
                    _ => &plan.workers,
                };
                cells.extend(workers.iter().map(|&workers| Cell {
                    ctrl,
                    kind,
                    way,
                    workers,
                }));
            }
        }
    }
    cells
}

/// Returns the order in which a round measures the cells. Methods with the same device, kind of
/// session and number of workers follow each other (poll, wait, poll, wait, …), because the ratio
/// of their rates is the main result.
fn side_by_side(cells: &[Cell]) -> Vec<usize> {
    let question = |c: &Cell| (c.ctrl, c.kind.name(), c.workers);
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by_key(|&i| {
        cells
            .iter()
            .position(|c| question(c) == question(&cells[i]))
    });
    order
}

impl Cell {
    /// Measures one round of the cell. Returns `None` if the device does not offer this kind of
    /// session.
    fn measure(
        &self,
        plan: &Plan,
        cores: &Cores,
        devices: &mut HashMap<&'static str, Device>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Option<Sample>, Error> {
        // The same device serves all rounds, but each round uses a new connection, new rings and
        // new memory.
        let device = match (&plan.socket, self.ctrl) {
            (None, Some(ctrl)) => {
                if !devices.contains_key(ctrl) {
                    devices.insert(
                        ctrl,
                        Device::start(ctrl, 1, plan.poll_us, plan.device_cpu.as_ref(), stop)?,
                    );
                }
                devices.get(ctrl)
            }
            _ => None,
        };
        let own = device.map(Device::socket);
        let socket = plan
            .socket
            .as_ref()
            .or(own.as_ref())
            .expect("one of the two");
        let options = Options {
            mode: match self.way {
                Way::Poll => Mode::Poll,
                Way::Wait | Way::Async => Mode::Wait,
            },
            timeout: Some(TIMEOUT),
            reconnect: Duration::ZERO,
            observe: true,
            wishes: Wishes {
                stop: stop.clone(),
                ..Wishes::default()
            },
            ..Options::default()
        };
        let options = Options {
            spins: plan.spins.unwrap_or(options.spins),
            ..options
        };
        let driver = Driver::connect(socket, options)
            .map_err(|e| explain(socket, plan.socket.is_some(), &e))?;
        let request = self.kind.request(plan.seed);
        if !driver.config().has(request.service()) {
            return Ok(None);
        }
        let pids = [Some(std::process::id()), device.map(Device::pid)];
        self.sample(plan, cores, &driver, pids, socket, stop)
            .map(Some)
    }

    fn sample(
        &self,
        plan: &Plan,
        cores: &Cores,
        driver: &Driver,
        pids: [Option<u32>; 2],
        socket: &Path,
        stop: &AtomicBool,
    ) -> Result<Sample, Error> {
        let request = self.kind.request(plan.seed);
        let seconds = plan.seconds / plan.rounds as f64;
        let read = || pids.map(|pid| pid.and_then(cpu_time));
        let busy = || busy_on(&cores.all);
        let clock = Arc::new(Clock::new());
        let mut times = (Duration::ZERO, [None; 2], [None; 2]);
        let mut busy_s = (None, None);
        let mut counts = (Counts::default(), Counts::default());
        let control = driver.control();
        let meanwhile = || {
            pause((seconds * WARM).max(LEAST_WARM), stop);
            control.take_holds();
            let before = control.counts();
            times.1 = read();
            busy_s.0 = busy();
            let start = Instant::now();
            clock.begin();
            pause(seconds, stop);
            clock.end();
            times.0 = start.elapsed();
            busy_s.1 = busy();
            times.2 = read();
            counts = (before, control.counts());
        };
        let tally = match self.way {
            Way::Async => chains(control, &request, plan.depth, &clock, meanwhile),
            _ => threads(control, &request, self.workers, &clock, meanwhile),
        };
        let tally = tally.map_err(|e| {
            Error::Failed(format!(
                "{}: {e}: the device did not serve {} sessions",
                socket.display(),
                self.kind.name()
            ))
        })?;
        let took = |i: usize| Some(times.2[i]?.saturating_sub(times.1[i]?));
        Ok(Sample {
            tally,
            holds: control.take_holds().unwrap_or_default(),
            elapsed: times.0,
            cpu: [took(0), took(1)],
            busy_s: busy_s.1.zip(busy_s.0).map(|(after, before)| after - before),
            kicks: counts.1.kicks - counts.0.kicks,
            interrupts: counts.1.interrupts - counts.0.interrupts,
            yields: counts.1.yields - counts.0.yields,
        })
    }

    /// Returns how many of the driver's threads can be busy at once.
    fn driver_threads(&self) -> usize {
        match self.way {
            Way::Poll => self.workers,
            Way::Wait => self.workers + 1,
            // After the first batch, the interrupt thread submits all requests, so the worker no
            // longer needs a core.
            Way::Async => 1,
        }
    }

    /// Returns how many of the device's threads can be busy at once. A device that was already
    /// running is assumed to have one thread.
    fn device_threads(&self) -> usize {
        match self.ctrl {
            Some("thread") => 2,
            _ => 1,
        }
    }

    fn row(&self, plan: &Plan, cores: &Cores, samples: &[Sample]) -> Row {
        let mut tally = Tally::default();
        let mut holds = Histogram::default();
        for sample in samples {
            tally.merge(&sample.tally);
            holds.merge(&sample.holds);
        }
        let seconds: f64 = samples.iter().map(|s| s.elapsed.as_secs_f64()).sum();
        let sum = |of: fn(&Sample) -> u64| samples.iter().map(of).sum();
        let took = |i: usize| -> Option<f64> {
            let all: Option<Vec<f64>> = samples
                .iter()
                .map(|s| s.cpu[i].map(|t| t.as_secs_f64()))
                .collect();
            Some(all?.iter().sum())
        };
        let busy: Option<f64> = samples.iter().map(|s| s.busy_s).sum();
        let pct = |s: f64| 100.0 * s / seconds;
        let both = took(0).and_then(|a| Some(a + took(1)?));
        let ops = tally.all.total();
        let all = |q| us(&tally.all, q);
        let rates: Vec<f64> = samples
            .iter()
            .map(|s| s.tally.closes.total() as f64 / s.elapsed.as_secs_f64())
            .collect();
        let rate = median_of_rounds(&rates);
        Row {
            mode: self.way.name(),
            workers: self.workers,
            session: self.kind.name(),
            ctrl: self.ctrl,
            depth: match self.way {
                Way::Poll => 1,
                Way::Wait => self.workers,
                Way::Async => plan.depth,
            },
            cores: cores.all.len(),
            device_cpu: plan.device_cpu.as_ref().map(ToString::to_string),
            cores_needed: self.driver_threads() + self.device_threads(),
            is_starved: cores.are_too_few(self.driver_threads(), self.device_threads()),
            seconds,
            ops,
            ops_per_s: ops as f64 / seconds,
            pairs_per_s: rate.map(|r| r.ratio),
            pairs_per_s_low: rate.map(|r| r.low),
            pairs_per_s_high: rate.map(|r| r.high),
            rounds_pairs_per_s: rates,
            cpu_pct: both.map(pct),
            driver_cpu_pct: took(0).map(pct),
            device_cpu_pct: took(1).map(pct),
            other_cpu_pct: busy.zip(both).map(|(b, own)| pct((b - own).max(0.0))),
            cpu_us_per_op: both.filter(|_| ops > 0).map(|s| s * 1e6 / ops as f64),
            lat_us_p50: all(0.5),
            lat_us_p99: all(0.99),
            lat_us_p999: all(0.999),
            lat_us_p9999: all(0.9999),
            lat_us_max: all(1.0),
            hold_us_p50: us(&holds, 0.5),
            hold_us_p99: us(&holds, 0.99),
            hold_us_p999: us(&holds, 0.999),
            hold_us_max: us(&holds, 1.0),
            kicks: sum(|s| s.kicks),
            interrupts: sum(|s| s.interrupts),
            yields: sum(|s| s.yields),
            ops_ratio_to_wait: None,
            ops_ratio_to_wait_low: None,
            ops_ratio_to_wait_high: None,
            cpu_ratio_to_wait: None,
            closes: Octaves::new("hist_us", &tally.closes),
            holds: Octaves::new("hold_hist_us", &holds),
            closes_bcc: tally.closes.microseconds(paper::CLOSES.len()),
            holds_bcc: holds.microseconds(paper::CLOSES.len()),
            rounds_cpu: samples
                .iter()
                .map(Sample::cpu_s_per_op)
                .collect::<Option<_>>()
                .unwrap_or_default(),
            rounds_p999: samples
                .iter()
                .map(|s| us(&s.tally.all, 0.999).unwrap_or(f64::NAN))
                .collect(),
        }
    }
}

/// Sleeps for `seconds` seconds, or until Ctrl-C is pressed.
fn pause(seconds: f64, stop: &AtomicBool) {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(LOOK));
    }
}

/// Compares every row with the corresponding `wait` row, round by round. In each round, the two
/// were measured back to back.
fn compare(rows: &mut [Row]) {
    let waits: Vec<Row> = rows.iter().filter(|r| r.mode == "wait").cloned().collect();
    for row in rows.iter_mut() {
        let same =
            |w: &&Row| (w.workers, w.session, w.ctrl) == (row.workers, row.session, row.ctrl);
        let Some(wait) = waits.iter().find(same) else {
            continue;
        };
        let ratio = ratio_of_rounds(&row.rounds_pairs_per_s, &wait.rounds_pairs_per_s);
        row.ops_ratio_to_wait = ratio.map(|r| r.ratio);
        row.ops_ratio_to_wait_low = ratio.map(|r| r.low);
        row.ops_ratio_to_wait_high = ratio.map(|r| r.high);
        row.cpu_ratio_to_wait = row
            .cpu_us_per_op
            .zip(wait.cpu_us_per_op)
            .map(|(a, b)| a / b);
    }
}

fn notes(plan: &Plan, cores: &Cores, rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    let starved = rows.iter().filter(|r| r.is_starved);
    if let Some(needed) = starved.map(|r| r.cores_needed).max() {
        let here = match cores.device {
            Some(own) => format!(
                "{} for the driver and {own} for the device",
                cores.all.len() - own
            ),
            None => format!("{} here", cores.all.len()),
        };
        notes.push(format!(
            "* marks rows whose threads (workers, interrupt thread, threads of the device) need more cores than the {here}; the most that a \
             row needs is {needed} (field cores_needed). If threads share cores, the host's scheduler decides which thread runs and so affects the \
             result. Do not compare rows marked * with rows that had enough cores"
        ));
    }
    if rows.iter().any(Row::is_disturbed) {
        notes.push(
            "! other programs used the cores while this row was measured (field other_cpu_pct): measure the row again when the \
             cores are idle"
                .to_string(),
        );
    }
    let share = match &plan.device_cpu {
        Some(device) => {
            let left = cores.all.len() - device.cores().len();
            let plural = if left == 1 { "" } else { "s" };
            format!("device on core {device}, driver on {left} other core{plural}")
        }
        None => format!("driver and device share {} cores", cores.all.len()),
    };
    notes.push(format!(
        "{share}, in two processes. Each row is measured in {} rounds of {:.3} s; a round measures every row once. \
         poll: the worker that holds the queue's only lock polls the used ring; other workers try the lock {} times, and then \
         yield the core. wait: a worker sleeps until the interrupt for its request wakes it. async: up to {} requests are in \
         flight, and each has a callback",
        plan.rounds,
        plan.seconds / plan.rounds as f64,
        plan.spins.unwrap_or(Options::default().spins),
        plan.depth
    ));
    let published = |r: &Row| r.session == "akcipher" && r.ctrl != Some("inline");
    if !rows.iter().any(|r| r.is_starved) && rows.iter().any(published) {
        notes.push(format!(
            "published (Linux 977231e8d4, Pi, 2022, Platinum 8260, pairs of akcipher sessions): poll {:.0} per second with 1 \
             worker, {:.0} with 8 at {:.0} % CPU; wait {:.0} at {:.0} %",
            paper::POLL_PAIRS_PER_S[0].1,
            paper::POLL_PAIRS_PER_S[1].1,
            paper::POLL_CPU_PCT,
            paper::WAIT_PAIRS_PER_S,
            paper::WAIT_CPU_PCT
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cores that driver and device share.
    fn shared(cores: usize) -> Cores {
        Cores {
            all: (0..cores).collect(),
            device: None,
        }
    }

    fn cell(ctrl: &'static str, way: Way, workers: usize) -> Cell {
        Cell {
            ctrl: Some(ctrl),
            kind: Kind::Akcipher,
            way,
            workers,
        }
    }

    /// Creates a row that has one sample for each entry in `rates`. Each sample took one second.
    fn row(way: Way, workers: usize, rates: &[u64]) -> Row {
        let sample = |&pairs: &u64| {
            let mut tally = Tally::default();
            for _ in 0..pairs {
                tally.all.add(1000);
                tally.all.add(1000);
                tally.closes.add(1000);
            }
            Sample {
                tally,
                holds: Histogram::default(),
                elapsed: Duration::from_secs(1),
                cpu: [Some(Duration::from_millis(500)), None],
                busy_s: Some(0.5),
                kicks: 2,
                interrupts: 1,
                yields: 0,
            }
        };
        let samples: Vec<Sample> = rates.iter().map(sample).collect();
        cell("thread", way, workers).row(&Plan::new(1, true), &shared(2), &samples)
    }

    #[test]
    fn a_round_measures_the_methods_one_after_the_other() {
        let plan = Plan {
            workers: vec![1, 8],
            ..Plan::new(1, true)
        };
        let cells = cells(&plan);
        let order = side_by_side(&cells);
        let first: Vec<_> = order[..5]
            .iter()
            .map(|&i| (cells[i].way.name(), cells[i].workers))
            .collect();
        assert_eq!(
            first,
            [
                ("poll", 1),
                ("wait", 1),
                ("async", 1),
                ("poll", 8),
                ("wait", 8)
            ]
        );
        let mut all = order.clone();
        all.sort();
        assert_eq!(all, (0..cells.len()).collect::<Vec<_>>());
    }

    #[test]
    fn a_row_has_the_median_pair_rate_of_its_rounds_and_its_interval() {
        let row = row(Way::Poll, 8, &[30, 10, 20, 60, 40, 50]);
        assert_eq!(
            (row.pairs_per_s, row.pairs_per_s_low, row.pairs_per_s_high),
            (Some(35.0), Some(10.0), Some(60.0))
        );
        assert_eq!(row.rounds_pairs_per_s, [30.0, 10.0, 20.0, 60.0, 40.0, 50.0]);
        // Operations are summed over all rounds.
        assert_eq!((row.ops, row.ops_per_s, row.seconds), (420, 70.0, 6.0));
        assert_eq!((row.kicks, row.interrupts), (12, 6));
        assert_eq!((row.driver_cpu_pct, row.cpu_pct), (Some(50.0), None));
    }

    #[test]
    fn a_row_is_disturbed_by_time_that_neither_driver_nor_device_used() {
        let of = |busy_s: f64| {
            let sample = Sample {
                tally: Tally::default(),
                holds: Histogram::default(),
                elapsed: Duration::from_secs(1),
                cpu: [
                    Some(Duration::from_millis(900)),
                    Some(Duration::from_millis(800)),
                ],
                busy_s: Some(busy_s),
                kicks: 0,
                interrupts: 0,
                yields: 0,
            };
            cell("thread", Way::Poll, 8).row(&Plan::new(1, true), &shared(2), &[sample])
        };
        let rows = [of(2.0), of(1.75), of(1.6)];
        assert_eq!(rows.each_ref().map(Row::is_disturbed), [true, false, false]);
        assert_eq!(rows[2].other_cpu_pct, Some(0.0));
        let said = |rows: &[Row]| notes(&Plan::new(1, true), &shared(2), rows).join("\n");
        assert!(said(&rows).contains("! other programs"));
        assert!(!said(&rows[1..]).contains("! other programs"));
    }

    #[test]
    fn the_ratio_is_of_the_same_round_and_fewer_than_six_have_none() {
        // The machine becomes slower from round to round, but polling is half as fast as waiting in
        // every round.
        let rates = [100, 80, 60, 40, 20, 10];
        let half = rates.map(|r| r / 2);
        let mut rows = [row(Way::Poll, 8, &half), row(Way::Wait, 8, &rates)];
        compare(&mut rows);
        assert_eq!(
            (
                rows[0].ops_ratio_to_wait,
                rows[0].ops_ratio_to_wait_low,
                rows[0].ops_ratio_to_wait_high
            ),
            (Some(0.5), Some(0.5), Some(0.5))
        );
        // Control: the intervals of the rates themselves overlap widely.
        assert!(rows[0].pairs_per_s_high > rows[1].pairs_per_s_low);
        let mut few = [
            row(Way::Poll, 8, &half[..5]),
            row(Way::Wait, 8, &rates[..5]),
        ];
        compare(&mut few);
        assert_eq!((few[0].ops_ratio_to_wait, few[0].pairs_per_s), (None, None));
        let mut other = [row(Way::Poll, 8, &half), row(Way::Wait, 1, &rates)];
        compare(&mut other);
        assert_eq!(other[0].ops_ratio_to_wait, None);
    }

    #[test]
    fn separate_cores_are_enough_only_if_they_are_for_both() {
        let separate = Cores {
            all: (0..4).collect(),
            device: Some(1),
        };
        for (driver, device, few) in [(3, 1, false), (4, 1, true), (2, 2, true)] {
            assert_eq!(separate.are_too_few(driver, device), few);
        }
        assert!(!shared(4).are_too_few(2, 2) && shared(3).are_too_few(2, 2));
    }

    #[test]
    fn cores_are_counted_by_threads_that_work() {
        for (ctrl, way, workers, cores) in [
            ("thread", Way::Wait, 8, 11),
            ("thread", Way::Poll, 8, 10),
            ("inline", Way::Wait, 8, 10),
            ("inline", Way::Poll, 1, 2),
            ("inline", Way::Async, 1, 2),
        ] {
            let cell = cell(ctrl, way, workers);
            assert_eq!(cell.driver_threads() + cell.device_threads(), cores);
        }
    }

    #[test]
    fn published_results_are_named_only_with_enough_cores_and_the_same_sessions() {
        let plan = Plan::new(1, true);
        let rows = [row(Way::Poll, 8, &[1; 6]), row(Way::Wait, 8, &[1; 6])];
        let said = |cores, rows: &[Row]| {
            let rows = rows.iter().cloned().map(|r| Row {
                is_starved: r.cores_needed > cores,
                ..r
            });
            notes(&plan, &shared(cores), &rows.collect::<Vec<_>>()).join("\n")
        };
        assert!(said(11, &rows).contains("published") && !said(11, &rows).contains('*'));
        assert!(!said(10, &rows).contains("published") && said(10, &rows).contains("scheduler"));
        let cipher = rows.map(|r| Row {
            session: "cipher",
            ..r
        });
        assert!(!said(11, &cipher).contains("published"));
    }
}
