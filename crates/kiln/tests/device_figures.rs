//! Measures the device: how soon a new guest is served, how much idle guests cost, and how attacks
//! by some guests affect others. These tests print results and assert nothing. Run them alone, on a
//! quiet machine.
//!
//! ```text
//! cargo test --release -p kiln --test all device_figures:: -- --ignored --nocapture --test-threads 1
//! ```
//!
//! Use `kiln ctrlq --mode wait --workers 8` to measure the control queue, and `kiln speed
//! 'xts(aes)' --via virtio` to measure the data path.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::device::{until, Device};
use crate::guest::{memfd, Guest};
use crate::raw::{message, Raw, SIZE};

/// Returns the median, the 99th percentile and the maximum.
fn percentiles(mut times: Vec<Duration>) -> [Duration; 3] {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 1000];
    [at(500), at(990), at(1000)]
}

fn show(what: &str, times: Vec<Duration>) -> Duration {
    let n = times.len();
    let [middle, p99, longest] = percentiles(times);
    println!("{what:34} p50 {middle:>10.1?}  p99 {p99:>10.1?}  longest {longest:>10.1?}  ({n})");
    p99
}

#[test]
#[ignore = "measures"]
fn new_guests() {
    let device = Device::start(&["--max-guests", "64"]);
    for (what, pause) in [
        ("a guest, 200 ms after the last", Duration::from_millis(200)),
        ("a guest, at once after the last", Duration::ZERO),
    ] {
        let times = (0..30).map(|_| {
            sleep(pause);
            let start = Instant::now();
            let mut guest = Guest::connect(&device.path("kiln.sock"), 2);
            let session = guest.create();
            assert_eq!(guest.encrypt(session).1, 0);
            start.elapsed()
        });
        show(what, times.collect());
    }
}

/// Returns the private memory of a process and its proportional share of shared memory, in KiB.
fn memory(pid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let of = |name: &str| -> Option<u64> {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some((of("Private_Dirty:")? + of("Private_Clean:")?, of("Pss:")?))
}

#[test]
#[ignore = "measures"]
fn idle_guests() {
    const GUESTS: usize = 64;
    let device = Device::start(&["--max-guests", "64"]);
    let guests: Vec<_> = (0..GUESTS)
        .map(|_| {
            let mut guest = Guest::connect(&device.path("kiln.sock"), 2);
            let session = guest.create();
            assert_eq!(guest.encrypt(session).1, 0);
            guest
        })
        .collect();
    sleep(Duration::from_secs(1));
    let all: Vec<u32> = device
        .children()
        .into_iter()
        .chain([device.child.id()])
        .collect();
    let total = || {
        all.iter()
            .filter_map(|pid| kiln_device::cpu_time(*pid))
            .sum::<Duration>()
    };
    let (before, start) = (total(), Instant::now());
    sleep(Duration::from_secs(10));
    let share = (total() - before).as_secs_f64() / start.elapsed().as_secs_f64();
    println!("{GUESTS} idle guests: {:.3} % of a core", 100.0 * share);
    let mut own: Vec<_> = all.iter().filter_map(|pid| memory(*pid)).collect();
    own.sort_unstable();
    if let (Some(least), Some(most)) = (own.first(), own.last()) {
        println!(
            "memory of a process, KiB private (with its share of the rest): {least:?} to {most:?}"
        );
    }
    drop(guests);
}

/// An attack by a hostile front end, repeated until stopped.
type Attack = fn(&Device, &Path, &AtomicBool);

fn repeat(stop: &AtomicBool, mut act: impl FnMut()) {
    while !stop.load(Ordering::Relaxed) {
        act();
    }
}

fn hold(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(5));
    }
}

/// Connects a front end and negotiates features. Returns `None` if the device rejects the
/// connection.
fn hello(path: &Path, protocol: u64) -> Option<Raw> {
    let mut raw = Raw::connect(path);
    raw.try_hello(protocol).then_some(raw)
}

/// The attacks, each with its name. The first two entries are controls that do not touch the
/// device. They show how much of an effect is merely due to another program using the cores.
const ATTACKS: [(&str, Attack); 16] = [
    ("control: a thread that computes", |_, _, stop| {
        repeat(stop, std::hint::spin_loop);
    }),
    ("control: short-lived programs", |_, _, stop| {
        repeat(stop, || {
            Command::new("true").status().unwrap();
        });
    }),
    ("01 calls that block", |_, path, stop| {
        repeat(stop, || {
            let mut guest = Guest::connect(path, 2);
            guest.create();
            guest.block_calls();
            guest.ask_in_vain();
            let end = Instant::now() + Duration::from_secs(1);
            while guest.used(false) < 2 && Instant::now() < end {
                sleep(Duration::from_millis(1));
            }
        });
    }),
    ("02 huge pages that are not there", |_, path, stop| {
        repeat(stop, || {
            if let Some(mut raw) = hello(path, 0) {
                let _ = raw.table(2 << 20, &memfd(2 << 20, libc::MFD_HUGETLB)) && raw.ring(0);
                raw.until_closed();
            }
        });
    }),
    ("03 descriptors and regions", |_, path, stop| {
        let file = memfd(4096, 0);
        repeat(stop, || {
            if let Some(mut raw) = hello(path, 0) {
                let all = (0..509).take_while(|n| raw.add(n * 4096, 4096, &file));
                all.for_each(drop);
                let header = &message(5, 1, &[0; 40])[..12];
                raw.send_bytes(header, &[file.as_raw_fd(); 32]);
            }
        });
    }),
    ("04 address space", |_, path, stop| {
        let file = memfd(1 << 39, 0);
        repeat(stop, || {
            if let Some(mut raw) = hello(path, 0) {
                raw.add(0, 1 << 39, &file);
                raw.add(1 << 39, 1 << 39, &file);
                raw.add(1 << 40, 1 << 39, &file);
            }
        });
    }),
    ("06 memory that is cut off", |_, path, stop| {
        repeat(stop, || {
            if let Some(mut raw) = hello(path, 0) {
                let file = memfd(SIZE, 0);
                if raw.table(SIZE, &file) && raw.ring(0) {
                    file.set_len(0).unwrap();
                    raw.kick();
                    raw.until_closed();
                }
            }
        });
    }),
    ("08 connect and close", |_, path, stop| {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| repeat(stop, || drop(UnixStream::connect(path))));
            }
        });
    }),
    ("09 silent connections", |_, path, stop| {
        let _held: Vec<_> = (0..200).map(|_| UnixStream::connect(path)).collect();
        hold(stop);
    }),
    ("11 clients of the metrics", |device, _, stop| {
        let path = device.path("metrics.sock");
        let mut held = std::collections::VecDeque::new();
        repeat(stop, || {
            held.push_back(UnixStream::connect(&path));
            if held.len() > 300 {
                held.pop_front();
            }
        });
    }),
    ("12 rings without a kick", |_, path, stop| {
        let files: Vec<_> = (0..8).map(|_| memfd(SIZE, 0)).collect();
        let _held: Vec<_> = files
            .iter()
            .map(|file| {
                let mut raw = hello(path, 0)?;
                (raw.table(SIZE, file) && raw.ring_with(0, None)).then_some(raw)
            })
            .collect();
        hold(stop);
    }),
    ("12b a kick that is always readable", |_, path, stop| {
        let zero = File::options()
            .read(true)
            .write(true)
            .open("/dev/zero")
            .unwrap();
        let files: Vec<_> = (0..8).map(|_| memfd(SIZE, 0)).collect();
        let _held: Vec<_> = files
            .iter()
            .map(|file| {
                let mut raw = hello(path, 0)?;
                (raw.table(SIZE, file) && raw.ring_with(0, Some(&zero))).then_some(raw)
            })
            .collect();
        hold(stop);
    }),
    ("19 sessions by message", |_, path, stop| {
        if let Some(mut raw) = hello(path, 1 << 7) {
            repeat(stop, || {
                raw.create_and_close();
            });
        }
    }),
    ("21 a flood for the log", |_, path, stop| {
        if let Some(mut raw) = hello(path, 0) {
            repeat(stop, || raw.config(4000));
        }
    }),
    ("23 messages that mean nothing", |_, path, stop| {
        let mut n = 0u32;
        repeat(stop, || {
            if let Some(mut raw) = hello(path, 0) {
                for _ in 0..20 {
                    n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let payload = n.to_le_bytes().repeat(usize::from((n >> 8) as u8 % 20));
                    raw.send_bytes(&message(n >> 24 & 0x3f, 0, &payload), &[]);
                }
            }
        });
    }),
    ("24 requests without end", |_, path, stop| {
        let mut guest = Guest::connect(path, 2);
        let session = guest.create();
        repeat(stop, || {
            guest.encrypt(session);
        });
    }),
];

/// Sets SCHED_IDLE for the calling thread and everything that it starts, so that they get almost no
/// CPU time while other threads are runnable.
fn run_when_idle() {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure outlives the call.
    let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &none) };
    assert_eq!(done, 0);
}

/// The attackers use a separate socket, so they can occupy only that socket's connections.
///
/// Seconds with and without an attack alternate, because a busy host changes the latency more than
/// most attacks do. For each pair of neighbouring seconds, the test computes the ratio of the two
/// p99 latencies. Each attack is reported as the median of these ratios, along with the minimum and
/// maximum. The attackers first compete with the victim for the cores, and then run under
/// SCHED_IDLE, where they get almost no CPU time while the victim runs. The effect that remains
/// should be mainly due to the CPU time that the device spends on the attackers.
#[test]
#[ignore = "measures"]
fn a_victim_of_each_attack() {
    const TIME: Duration = Duration::from_secs(1);
    const ROUNDS: usize = 5;
    for (args, is_idle) in [
        (&[][..], false),
        (&[][..], true),
        (&["--max-cpu", "25"][..], false),
    ] {
        let all = [&["--socket", "attack.sock", "--max-guests", "16"][..], args].concat();
        let device = Device::start(&all);
        let share = if is_idle { "SCHED_IDLE" } else { "SCHED_OTHER" };
        println!("device with {}, attackers under {share}", all.join(" "));
        let mut victim = Guest::connect(&device.path("kiln.sock"), 2);
        let session = victim.create();
        let mut measure = || {
            let (mut times, start) = (Vec::new(), Instant::now());
            while start.elapsed() < TIME {
                let begun = Instant::now();
                assert_eq!(victim.encrypt_at_once(session), 0);
                times.push(begun.elapsed());
                sleep(Duration::from_micros(100));
            }
            percentiles(times)
        };
        measure();
        let held = || {
            let fds = fs::read_dir(format!("/proc/{}/fd", device.child.id()));
            (fds.map_or(0, Iterator::count), device.children().len())
        };
        let before = held();
        for (name, attack) in ATTACKS {
            let (mut ratios, mut longest) = (Vec::new(), [Duration::ZERO; 2]);
            let mut p99 = [Vec::new(), Vec::new()];
            let (mut back, mut left) = (Duration::ZERO, before);
            for round in 0..ROUNDS {
                let quiet = measure();
                let (stop, path) = (AtomicBool::new(false), device.path("attack.sock"));
                let attacked = thread::scope(|scope| {
                    scope.spawn(|| {
                        if is_idle {
                            run_when_idle();
                        }
                        attack(&device, &path, &stop);
                    });
                    // By default, a socket admits a burst of 64 front ends and then 5 per second
                    // (see --max-new-guests). Let the attack use up the burst before measuring,
                    // because only the sustained effect is of interest.
                    sleep(Duration::from_millis(if round == 0 { 2500 } else { 500 }));
                    let attacked = measure();
                    stop.store(true, Ordering::Relaxed);
                    attacked
                });
                let gone = Instant::now();
                until(
                    "descriptors and processes are as few as before the attack",
                    || {
                        left = held();
                        left.0 <= before.0 && left.1 <= before.1
                            || gone.elapsed() > Duration::from_secs(9)
                    },
                );
                back = back.max(gone.elapsed());
                ratios.push(attacked[1].as_secs_f64() / quiet[1].as_secs_f64());
                for (i, found) in [quiet, attacked].iter().enumerate() {
                    p99[i].push(found[1]);
                    longest[i] = longest[i].max(found[2]);
                }
            }
            ratios.sort_unstable_by(f64::total_cmp);
            let [quiet, attacked] = p99.map(|times| percentiles(times)[0]);
            println!(
                "{name:34} {:5.2} ({:.2} to {:.2}) times the quiet p99 of {quiet:.1?}: {attacked:.1?}; \
                 longest {:.1?}, quiet {:.1?}; descriptors and processes {before:?}, {left:?} after \
                 {back:.1?}",
                ratios[ROUNDS / 2], ratios[0], ratios[ROUNDS - 1], longest[1], longest[0]
            );
        }
        let start = Instant::now();
        device.signal(libc::SIGTERM);
        let (status, _) = device.end();
        println!("ended with {status:?} in {:.2?}", start.elapsed());
    }
}
