//! Every way of waiting with every device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kiln_driver::{Driver, Mode, Options};
use kiln_measure::CoreList;

use super::device::{cpu_time, Device};
use super::load::{chains, threads, Clock, Tally};
use super::paper;
use super::plan::{Kind, Plan, Way};
use super::row::{us, Octaves, Row};
use crate::Error;

/// Of a row's time, before it counts.
const WARM: f64 = 0.1;
/// Between two looks at Ctrl-C.
const LOOK: Duration = Duration::from_millis(20);
/// No device takes so long to answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// By device, kind of session, way and workers.
    pub rows: Vec<Row>,
    /// What a reader of the rows must know.
    pub notes: Vec<String>,
    /// Stopped before its end.
    pub interrupted: bool,
}

/// One row's place in the whole.
struct Cell {
    ctrl: Option<&'static str>,
    kind: Kind,
    way: Way,
    workers: usize,
}

/// Runs it.
///
/// # Errors
/// No device, or one that refuses sessions.
pub fn run(
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64, &str),
) -> Result<Outcome, Error> {
    let cores = CoreList::allowed().map_or(1, |list| list.cores().len());
    let mut outcome = Outcome::default();
    let cells = cells(plan);
    for (i, cell) in cells.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            outcome.interrupted = true;
            break;
        }
        let name = format!("{} {}, {}", cell.way.name(), cell.workers, cell.kind.name());
        progress(i as f64 / cells.len() as f64, &name);
        match cell.measure(plan, cores, stop) {
            Ok(Some(row)) => outcome.rows.push(row),
            // A terminal's Ctrl-C ends the device as well.
            Err(_) if stop.load(Ordering::Relaxed) => {
                outcome.interrupted = true;
                break;
            }
            Err(e) => return Err(e),
            Ok(None) => {
                outcome.notes.push(format!(
                    "{}: the device does not offer it; RSA needs libcrypto (apt-get install libssl3)",
                    cell.kind.name()
                ));
            }
        }
    }
    compare(&mut outcome.rows);
    outcome.notes.dedup();
    outcome.notes.extend(notes(plan, cores));
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

impl Cell {
    /// None if the device has no such sessions.
    fn measure(&self, plan: &Plan, cores: usize, stop: &AtomicBool) -> Result<Option<Row>, Error> {
        let device = match (&plan.socket, self.ctrl) {
            (None, Some(ctrl)) => Some(Device::start(ctrl, 1, plan.poll_us)?),
            _ => None,
        };
        let own = device.as_ref().map(Device::socket);
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
            ..Options::default()
        };
        let options = Options {
            spins: plan.spins.unwrap_or(options.spins),
            ..options
        };
        let fault = |e: kiln_driver::Error| {
            Error::lacks(format!(
                "{}: {e}: start kiln serve --socket there, or leave --socket out",
                socket.display()
            ))
        };
        let driver = Driver::connect(socket, options).map_err(fault)?;
        let request = self.kind.request(plan.seed);
        if !driver.config().has(request.service()) {
            return Ok(None);
        }
        let pids = [Some(std::process::id()), device.as_ref().map(Device::pid)];
        let read = || pids.map(|pid| pid.and_then(cpu_time));
        let clock = Arc::new(Clock::new());
        let mut times = (Duration::ZERO, [None; 2], [None; 2]);
        let mut counts = Default::default();
        let control = driver.control();
        let meanwhile = || {
            pause(plan.seconds * WARM, stop);
            control.take_holds();
            let before = control.counts();
            times.1 = read();
            let start = Instant::now();
            clock.begin();
            pause(plan.seconds, stop);
            clock.end();
            times.0 = start.elapsed();
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
        let holds = control.take_holds().unwrap_or_default();
        Ok(Some(self.row(plan, cores, &tally, &holds, times, counts)))
    }

    fn row(
        &self,
        plan: &Plan,
        cores: usize,
        tally: &Tally,
        holds: &kiln_driver::Histogram,
        (elapsed, before, after): (Duration, [Option<Duration>; 2], [Option<Duration>; 2]),
        counts: (kiln_driver::Counts, kiln_driver::Counts),
    ) -> Row {
        let seconds = elapsed.as_secs_f64();
        let took = |i: usize| Some((after[i]?.saturating_sub(before[i]?)).as_secs_f64());
        let pct = |s: f64| 100.0 * s / seconds;
        let both = took(0).and_then(|a| Some(a + took(1)?));
        let ops = tally.all.total();
        let all = |q| us(&tally.all, q);
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
            cores,
            seconds,
            ops,
            ops_per_s: ops as f64 / seconds,
            cpu_pct: both.map(pct),
            driver_cpu_pct: took(0).map(pct),
            device_cpu_pct: took(1).map(pct),
            cpu_us_per_op: both.filter(|_| ops > 0).map(|s| s * 1e6 / ops as f64),
            lat_us_p50: all(0.5),
            lat_us_p99: all(0.99),
            lat_us_p999: all(0.999),
            lat_us_p9999: all(0.9999),
            lat_us_max: all(1.0),
            hold_us_p50: us(holds, 0.5),
            hold_us_p99: us(holds, 0.99),
            hold_us_p999: us(holds, 0.999),
            hold_us_max: us(holds, 1.0),
            kicks: counts.1.kicks - counts.0.kicks,
            interrupts: counts.1.interrupts - counts.0.interrupts,
            yields: counts.1.yields - counts.0.yields,
            ops_ratio_to_wait: None,
            cpu_ratio_to_wait: None,
            closes: Octaves::of("hist_us", &tally.closes),
            holds: Octaves::of("hold_hist_us", holds),
            closes_bcc: tally.closes.microseconds(paper::CLOSES.len()),
            holds_bcc: holds.microseconds(paper::CLOSES.len()),
        }
    }
}

/// Sleeps, but not through Ctrl-C.
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

/// What the paper compares: how much more is done by waiting, and by how much less.
fn compare(rows: &mut [Row]) {
    let waits: Vec<Row> = rows.iter().filter(|r| r.mode == "wait").cloned().collect();
    for row in rows.iter_mut() {
        let same =
            |w: &&Row| (w.workers, w.session, w.ctrl) == (row.workers, row.session, row.ctrl);
        let Some(wait) = waits.iter().find(same) else {
            continue;
        };
        row.ops_ratio_to_wait = Some(row.ops_per_s / wait.ops_per_s);
        row.cpu_ratio_to_wait = row
            .cpu_us_per_op
            .zip(wait.cpu_us_per_op)
            .map(|(a, b)| a / b);
    }
}

fn notes(plan: &Plan, cores: usize) -> Vec<String> {
    vec![
        format!(
            "{cores} cores for driver and device, which are two processes; an operation is a create or a close; poll: one \
             lock, held while the used ring is watched; waiters on it spin {} times and yield; wait: a thread sleeps \
             until its request's interrupt wakes it; async: {} in flight, a function called for each",
            plan.spins.unwrap_or(Options::default().spins),
            plan.depth
        ),
        format!(
            "the paper (Platinum 8260, 8 vCPUs at least, cores of its host unknown): poll {:.0} a second with 1 worker, \
             {:.0} with 8 at {:.0} % CPU; wait {:.0} at {:.0} %",
            paper::POLL_OPS_PER_S[0].1,
            paper::POLL_OPS_PER_S[1].1,
            paper::POLL_CPU_PCT,
            paper::WAIT_OPS_PER_S,
            paper::WAIT_CPU_PCT
        ),
    ]
}
