//! Workers that create and close sessions for a given time and measure the latencies of their
//! requests.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kiln_driver::{Batch, Control, Error, Histogram, Request};

/// Latencies of the operations that began in the measured period.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Latencies of both creates and closes, in nanoseconds.
    pub(super) all: Histogram,
    /// Latencies of closes only, in nanoseconds.
    pub(super) closes: Histogram,
}

/// Flags that tell the workers whether to count operations and whether to stop.
pub(super) struct Clock {
    counting: AtomicBool,
    over: AtomicBool,
}

impl Clock {
    pub(super) fn new() -> Clock {
        Clock {
            counting: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// Begins the measured period, which follows the warm-up.
    pub(super) fn begin(&self) {
        self.counting.store(true, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.counting.store(false, Ordering::Relaxed);
        self.over.store(true, Ordering::Relaxed);
    }

    fn counts(&self) -> bool {
        self.counting.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

impl Tally {
    /// Counts an operation if it began in the measured period (`began` is true), even if it ended
    /// after the period. If operations still in flight at the end of a round were not counted, the
    /// slowest ones would be missing.
    fn note(&mut self, began: bool, time: Duration, close: bool) {
        if !began {
            return;
        }
        let ns = time.as_nanos() as u64;
        self.all.add(ns);
        if close {
            self.closes.add(ns);
        }
    }

    pub(super) fn merge(&mut self, other: &Tally) {
        self.all.merge(&other.all);
        self.closes.merge(&other.closes);
    }
}

/// Runs threads that repeatedly create a session and close it. `meanwhile` runs on the calling
/// thread and must call `clock.end()` to stop the threads.
pub(super) fn threads(
    control: &Control,
    request: &Request,
    workers: usize,
    clock: &Clock,
    meanwhile: impl FnOnce(),
) -> Result<Tally, Error> {
    thread::scope(|scope| {
        let handles: Vec<_> = (0..workers)
            .map(|_| scope.spawn(|| time_request(control, request, clock)))
            .collect();
        meanwhile();
        let mut all = Tally::default();
        let mut fault = None;
        for handle in handles {
            match handle.join().expect("a worker does not panic") {
                Ok(tally) => all.merge(&tally),
                Err(e) => fault = Some(e),
            }
        }
        fault.map_or(Ok(all), Err)
    })
}

fn time_request(control: &Control, request: &Request, clock: &Clock) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    while !clock.is_over() {
        let (start, began) = (Instant::now(), clock.counts());
        let session = control.create(request.clone())?;
        let (made, close_began) = (Instant::now(), clock.counts());
        control.close(session)?;
        tally.note(began, made - start, false);
        tally.note(close_began, made.elapsed(), true);
    }
    Ok(tally)
}

/// State shared by the completion callbacks.
struct Chains {
    request: Request,
    clock: Arc<Clock>,
    /// Latencies measured by all chains. The lock is never contended, because only the interrupt
    /// thread takes it while chains run.
    tally: Mutex<Tally>,
    fault: Mutex<Option<Error>>,
    running: AtomicUsize,
    main: thread::Thread,
}

impl Chains {
    fn now(&self) -> (Instant, bool) {
        (Instant::now(), self.clock.counts())
    }

    fn note(&self, (since, began): (Instant, bool), close: bool) {
        let mut tally = self.tally.lock().expect("nobody panics with it");
        tally.note(began, since.elapsed(), close);
    }

    fn end(&self, fault: Option<Error>) {
        if let Some(fault) = fault {
            *self.fault.lock().expect("nobody panics with it") = Some(fault);
        }
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.main.unpark();
        }
    }
}

/// Runs `depth` chains of requests. Each chain alternately creates and closes a session: when a
/// request completes, its callback runs on the interrupt thread and submits the next request.
pub(super) fn chains(
    control: &Control,
    request: &Request,
    depth: usize,
    clock: &Arc<Clock>,
    meanwhile: impl FnOnce(),
) -> Result<Tally, Error> {
    let chains = Arc::new(Chains {
        request: request.clone(),
        clock: clock.clone(),
        tally: Mutex::default(),
        fault: Mutex::default(),
        running: AtomicUsize::new(depth),
        main: thread::current(),
    });
    let mut batch = control.batch();
    for _ in 0..depth {
        link(&chains, &mut batch);
    }
    control.submit(batch)?;
    meanwhile();
    while chains.running.load(Ordering::Acquire) > 0 {
        thread::park();
    }
    if let Some(fault) = chains.fault.lock().expect("all are over").take() {
        return Err(fault);
    }
    let tally = chains.tally.lock().expect("all are over").clone();
    Ok(tally)
}

/// Creates a session, closes it as soon as it exists, and starts again, until the run ends.
fn link(chains: &Arc<Chains>, batch: &mut Batch) {
    if chains.clock.is_over() {
        chains.end(None);
        return;
    }
    let (chains, start) = (chains.clone(), chains.now());
    batch.create(chains.request.clone(), move |batch, session| {
        chains.note(start, false);
        let session = match session {
            Ok(session) => session,
            Err(e) => return chains.end(Some(e)),
        };
        let start = chains.now();
        batch.close(session, move |batch, closed| {
            chains.note(start, true);
            match closed {
                Ok(()) => link(&chains, batch),
                Err(e) => chains.end(Some(e)),
            }
        });
    });
}
