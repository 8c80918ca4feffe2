//! Measures a device with several threads, each with its own data queue.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kiln_driver::{Data, DataQueue, Driver, Histogram, Job, Options, Request, Session, Wishes};
use kiln_measure::{CoreList, SplitMix64};
use kiln_question::lens::Lens;
use kiln_question::{Error, Outcome, Report};
use kiln_virtio::wire::data::Cipher;
use kiln_virtio::wire::{algo, session, Action, Create, Operation};

use super::plan::{Plan, Subject};
use super::row::Row;
use crate::device::{explain, Device};
use crate::speed;
use kiln_timing::peer::Wanted;
use kiln_timing::Op;

/// Duration of the warm-up before each row, as a fraction of the row's measuring time.
const WARM: f64 = 0.1;
/// Maximum time to wait for a response. A device that takes longer is considered broken.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a thread polls for responses before it sleeps.
const LINGER: Duration = Duration::from_micros(20);

/// Measures every combination of the settings in the plan, and returns one row for each.
///
/// # Errors
/// Fails if a cipher is unknown or the device is missing.
pub(super) fn run(
    plan: &Plan,
    stop: &Arc<AtomicBool>,
    progress: Report<'_>,
) -> Result<Outcome<Row>, Error> {
    let subjects = plan.subjects()?;
    let mut outcome = Outcome::default();
    let cores = CoreList::allowed().map_or(1, |list| list.cores().len());
    let most_queues = plan.queues.iter().copied().max().unwrap_or(1);
    let total = subjects.len() * plan.lens.len() * plan.queues.len() * plan.depths.len();
    let device = match &plan.socket {
        Some(_) => None,
        None => match Device::start("inline", most_queues, None, None, stop) {
            Err(_) if stop.load(Ordering::Relaxed) => {
                outcome.interrupted = true;
                return Ok(outcome);
            }
            device => Some(device?),
        },
    };
    let own = device.as_ref().map(Device::socket);
    let socket = plan
        .socket
        .as_ref()
        .or(own.as_ref())
        .expect("one of the two");
    for &subject in &subjects {
        for &len in &plan.lens {
            progress(outcome.rows.len() as f64 / total as f64, "in this process");
            let direct = direct(plan, subject, len, stop)?;
            for &queues in &plan.queues {
                for &depth in &plan.depths {
                    if stop.load(Ordering::Relaxed) {
                        outcome.interrupted = true;
                        return Ok(outcome);
                    }
                    let name = format!("{} {len} B, {queues} x {depth}", subject.alg);
                    progress(outcome.rows.len() as f64 / total as f64, &name);
                    let options = Options {
                        data_queues: queues,
                        heap: 2 * queues * depth * (len + 64) + (1 << 20),
                        data_linger: LINGER,
                        reconnect: Duration::ZERO,
                        wishes: Wishes {
                            stop: stop.clone(),
                            ..Wishes::default()
                        },
                        ..Options::default()
                    };
                    let shape = Shape {
                        subject,
                        len,
                        depth,
                        seconds: plan.seconds,
                    };
                    let answered = Driver::connect(socket, options)
                        .and_then(|driver| measure_all(&driver, &shape, queues, plan.seed));
                    let (times, right) = match answered {
                        Ok(answered) => answered,
                        // Ctrl-C aborts every wait for the device. At a terminal, Ctrl-C also stops
                        // the device's process.
                        Err(_) if stop.load(Ordering::Relaxed) => {
                            outcome.interrupted = true;
                            return Ok(outcome);
                        }
                        Err(e) => return Err(explain(socket, plan.socket.is_some(), &e)),
                    };
                    if !right {
                        outcome.failed = true;
                        outcome
                            .notes
                            .push(format!("{name}: decrypted, it is another text"));
                    }
                    outcome.rows.push(shape.row(queues, cores, &times, direct));
                }
            }
        }
    }
    outcome.notes.push(format!(
        "{cores} cores for driver and device, which are two processes; a queue has a thread on either side; sources and \
         destinations lie in memory that both share; every message has its own buffers; direct: one thread in this \
         process"
    ));
    Ok(outcome)
}

/// Measures the throughput of direct calls to Kiln's best implementation.
fn direct(
    plan: &Plan,
    subject: Subject,
    len: usize,
    stop: &AtomicBool,
) -> Result<Option<f64>, Error> {
    let own = speed::Plan {
        algs: vec![subject.alg.to_string()],
        ops: vec![Op::Encrypt],
        lens: len.to_string().parse::<Lens>()?,
        key_bits: vec![subject.key_bits],
        peers: Wanted::parse(&["none".to_string()])?,
        quick: true,
        turn: None,
        ..speed::Plan::new(plan.seed)
    };
    let outcome = speed::run(own.checked()?, stop, &mut |_, _| {})?;
    let figures = outcome
        .rows
        .iter()
        .filter(|r| r.len == len)
        .map(|r| r.mb_per_s);
    Ok(figures.filter(|f| f.is_finite()).max_by(f64::total_cmp))
}

/// The measurement conditions for one row.
#[derive(Clone, Copy)]
struct Shape {
    subject: Subject,
    len: usize,
    depth: usize,
    seconds: f64,
}

/// The measurements of one queue after the warm-up.
#[derive(Default)]
struct Times {
    ops: u64,
    seconds: f64,
    latency: Histogram,
}

impl Shape {
    fn request(self, seed: u64, op: u32) -> Request {
        let mut key = vec![0; self.subject.key_len];
        SplitMix64(seed).fill(&mut key);
        let create = Create::Cipher(session::Cipher {
            algo: self.subject.algo,
            key_len: key.len() as u32,
            op,
        });
        Request::new(create, &key)
    }

    fn job<'a>(&self, session: &'a Session, action: Action, iv: &'a [u8]) -> Job<'a> {
        Job {
            action,
            op: Operation::Cipher(Cipher {
                iv_len: iv.len() as u32,
                src_len: self.len as u32,
                dst_len: self.len as u32,
            }),
            session,
            iv,
            aad: &[],
        }
    }

    fn row(&self, queues: usize, cores: usize, times: &[Times], direct: Option<f64>) -> Row {
        let mut latency = Histogram::default();
        for queue in times {
            latency.merge(&queue.latency);
        }
        let ops_per_s: f64 = times.iter().map(|t| t.ops as f64 / t.seconds).sum();
        let mb_per_s = ops_per_s * self.len as f64 / 1e6;
        let us = |q| latency.quantile(q).map(|ns| ns as f64 / 1e3);
        Row {
            alg: self.subject.alg,
            imp: "virtio-crypto",
            provider: "device",
            level: "virtio",
            op: "encrypt",
            key_bits: self.subject.key_bits,
            len: self.len,
            queues,
            depth: self.depth,
            cores,
            ops: times.iter().map(|t| t.ops).sum(),
            ops_per_s,
            mb_per_s,
            lat_us_p50: us(0.5),
            lat_us_p99: us(0.99),
            lat_us_p999: us(0.999),
            lat_us_max: us(1.0),
            direct_mb_per_s: direct,
            ratio_to_direct: direct.map(|d| mb_per_s / d),
        }
    }
}

type Done = Result<(Times, bool), kiln_driver::Error>;

fn measure_all(
    driver: &Driver,
    shape: &Shape,
    queues: usize,
    seed: u64,
) -> Result<(Vec<Times>, bool), kiln_driver::Error> {
    let control = driver.control();
    let sealing = control.create(shape.request(seed, algo::OP_ENCRYPT))?;
    let opening = control.create(shape.request(seed, algo::OP_DECRYPT))?;
    let mut own = Vec::new();
    for index in 0..queues {
        own.push(driver.data_queue(index)?);
    }
    let results: Vec<Done> = thread::scope(|scope| {
        let (sealing, opening) = (&sealing, &opening);
        let handles: Vec<_> = own
            .into_iter()
            .enumerate()
            .map(|(i, queue)| {
                scope.spawn(move || one(driver, queue, shape, [sealing, opening], seed + i as u64))
            })
            .collect();
        let join = |h: thread::ScopedJoinHandle<'_, Done>| h.join().expect("no queue panics");
        handles.into_iter().map(join).collect()
    });
    let mut times = Vec::new();
    let mut right = true;
    for result in results {
        let (queue, well) = result?;
        times.push(queue);
        right &= well;
    }
    Ok((times, right))
}

/// Keeps one queue full of encryption requests, then decrypts the last messages to check the
/// results.
fn one(
    driver: &Driver,
    mut queue: DataQueue,
    shape: &Shape,
    [sealing, opening]: [&Session; 2],
    seed: u64,
) -> Done {
    let mut random = SplitMix64(seed);
    let mut text = vec![0; shape.len];
    let mut iv = vec![0; shape.subject.iv_len()];
    random.fill(&mut iv);
    let mut free = Vec::new();
    let mut texts = Vec::new();
    for tag in 0..shape.depth as u64 {
        random.fill(&mut text);
        let mut source = driver.buffer(shape.len)?;
        source.write(0, &text);
        texts.push(text.clone());
        let destination = Some(driver.buffer(shape.len)?);
        free.push((
            tag,
            Data {
                source,
                destination,
            },
        ));
    }
    let job = shape.job(sealing, Action::Encrypt, &iv);
    let batch = (shape.depth / 4).max(1) as u16;
    let mut since = vec![Instant::now(); shape.depth];
    let mut times = Times::default();
    let mut done = Vec::new();
    let start = Instant::now();
    let begin = start + Duration::from_secs_f64(shape.seconds * WARM);
    let end = begin + Duration::from_secs_f64(shape.seconds);
    let mut now = start;
    loop {
        if now < end {
            for (tag, data) in free.drain(..) {
                since[tag as usize] = now;
                queue.submit(&job, data, tag).map_err(|r| r.error)?;
            }
        } else if queue.in_flight() == 0 {
            break;
        }
        if !queue.wait(batch, TIMEOUT)? {
            return Err(kiln_driver::Error::Timeout);
        }
        queue.reap(&mut done);
        now = Instant::now();
        for one in done.drain(..) {
            one.result?;
            if now >= begin && now < end {
                times.ops += 1;
                let took = now - since[one.tag as usize];
                times.latency.add(took.as_nanos() as u64);
            }
            free.push((one.tag, one.data));
        }
    }
    times.seconds = shape.seconds;
    // Decryption must restore the original message.
    let back = shape.job(opening, Action::Decrypt, &iv);
    let mut right = true;
    for (tag, data) in free {
        let Data {
            source,
            destination,
        } = data;
        let swapped = Data {
            source: destination.expect("given above"),
            destination: Some(source),
        };
        let mut sealed = vec![0; shape.len];
        swapped.source.read(0, &mut sealed);
        right &= sealed != texts[tag as usize];
        queue.submit(&back, swapped, tag).map_err(|r| r.error)?;
    }
    while queue.in_flight() > 0 {
        if !queue.wait(1, TIMEOUT)? {
            return Err(kiln_driver::Error::Timeout);
        }
        queue.reap(&mut done);
        for one in done.drain(..) {
            one.result?;
            let opened = one.data.destination.expect("given above");
            opened.read(0, &mut text);
            right &= text == texts[one.tag as usize];
        }
    }
    Ok((times, right))
}
