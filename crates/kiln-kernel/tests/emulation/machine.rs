//! Code that the tests of this program share. It runs each test in a separate process, boots CPUs,
//! and creates messages and policies.

use std::collections::BTreeSet;
use std::env;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use kiln_kernel::cipher::{Impl, Op};
use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::fpu::Policy;
use kiln_kernel::irq::{Arrivals, Timer};
use kiln_kernel::load::{best_impl, Counts, Load, Messages, Plan, TaskWork};
use kiln_measure::SplitMix64;

const CHILD: &str = "KILN_TEST_ALONE";
const CORE: &str = "KILN_TEST_CORE";
const SEED: &str = "KILN_SEED";

/// Time limit for the process of a test. A test that exceeds the limit counts as hung. The limit is
/// long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs `body` in a separate process, with the seed as its argument. The process executes this test
/// binary, but runs only the calling test.
pub(crate) fn run_alone(body: impl FnOnce(u64)) {
    if let Some((status, ran, repeat)) = run_in_child(body) {
        assert!(status.success() && ran, "{status}; {repeat} repeats it");
    }
}

/// Runs `body` in a separate process, which must be killed by a signal. Controls use this to crash
/// on purpose.
pub(crate) fn assert_dies(body: impl FnOnce(u64)) {
    if let Some((status, _, repeat)) = run_in_child(body) {
        assert!(
            status.signal().is_some(),
            "it lived: {status}; {repeat} repeats it"
        );
    }
}

/// Returns the full name of the test that contains the closure `F`. If the name were wrong, the
/// child would not run any test, and the parent would detect this.
fn name_of_test<F>() -> &'static str {
    let path = std::any::type_name::<F>();
    let (_, name) = path.split_once("::").expect("a crate and a path");
    name.split("::{{closure}}").next().expect("it has a part")
}

/// In the child, runs `body` and returns `None`. In the parent, returns how the child ended,
/// whether its test ran to the end, and the environment variable assignment that repeats the run.
fn run_in_child<F: FnOnce(u64)>(body: F) -> Option<(ExitStatus, bool, String)> {
    let name = name_of_test::<F>();
    if env::var(CHILD).is_ok_and(|child| child == name) {
        // End the line that the test harness has started.
        println!();
        body(env::var(SEED).map_or(1, |s| s.parse().expect("KILN_SEED is a number")));
        return None;
    }
    let seed = env::var(SEED).unwrap_or_else(|_| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        (now.map_or(1, |t| t.subsec_nanos()) | 1).to_string()
    });
    let core = Core::take();
    let started = Instant::now();
    let mut child = Command::new(env::current_exe().expect("this program has a path"))
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .env(CORE, core.0.to_string())
        .env(SEED, &seed)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program can be started again");
    let readers = [
        read_all(child.stdout.take().expect("piped")),
        read_all(child.stderr.take().expect("piped")),
    ];
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            break Some(status);
        }
        if started.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        thread::sleep(Duration::from_millis(2));
    };
    let [out, err] = readers.map(|r| r.join().expect("reading does not panic"));
    let ran = out.contains("1 passed") || out.contains("1 failed");
    for line in out.lines().filter(|l| !is_harness(l)) {
        println!("  {line}");
    }
    print!("{err}");
    let repeat = format!("{SEED}={seed}");
    println!("  {repeat}, {:.1} s", started.elapsed().as_secs_f64());
    let Some(status) = status else {
        panic!("{name}: not over after {LIMIT:?}; {repeat} repeats it");
    };
    Some((status, ran, repeat))
}

fn is_harness(line: &str) -> bool {
    line.is_empty() || line.starts_with("running ") || line.starts_with("test ")
}

fn read_all(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = Vec::new();
        let _ = from.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// The core on which a test's process runs, chosen so that tests that run at the same time use
/// different cores.
struct Core(usize);

static TAKEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

impl Core {
    fn take() -> Core {
        let cores = cores();
        let mut taken = TAKEN.lock().expect("no test panics while it takes a core");
        let free = cores.iter().copied().find(|core| !taken.contains(core));
        let core = free.unwrap_or(cores[0]);
        taken.insert(core);
        Core(core)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        TAKEN.lock().expect("no test panics here").remove(&self.0);
    }
}

/// Returns the cores that this process may use, beginning with the core that the parent chose for
/// this process. The list is determined once, before any thread is pinned.
pub(crate) fn cores() -> Vec<usize> {
    static CORES: OnceLock<Vec<usize>> = OnceLock::new();
    let cores = CORES.get_or_init(|| {
        let mut cores = affinity();
        let chosen = env::var(CORE).ok().and_then(|c| c.parse().ok());
        if let Some(at) = cores.iter().position(|&c| Some(c) == chosen) {
            cores.swap(0, at);
        }
        cores
    });
    cores.clone()
}

fn affinity() -> Vec<usize> {
    // SAFETY: the call only fills a local structure, and CPU_ISSET reads it within its bounds.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        (0..libc::CPU_SETSIZE as usize)
            .filter(|&c| libc::CPU_ISSET(c, &set))
            .collect()
    }
}

/// Returns two different cores. If this process may use only one core, prints what is skipped and
/// returns `None`.
pub(crate) fn two_cores(without: &str) -> Option<(usize, usize)> {
    match cores()[..] {
        [a, b, ..] => Some((a, b)),
        _ => {
            println!("SKIPPED: one core only, so {without}");
            None
        }
    }
}

/// Pins the calling thread to a core.
pub(crate) fn pin(core: usize) {
    // SAFETY: the call sets this thread's own affinity from a valid structure.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// Pins the calling thread to the first core and makes the thread a CPU.
pub(crate) fn boot() -> Cpu {
    pin(cores()[0]);
    Cpu::boot(&Config::default()).expect("a CPU boots")
}

pub(crate) fn policy(name: &str) -> Policy {
    name.parse().expect("a policy of this name")
}

/// Returns all policies except the broken control.
pub(crate) fn correct_policies() -> Vec<Policy> {
    Policy::all()
        .into_iter()
        .filter(|p| !p.is_broken())
        .collect()
}

/// Returns the reference implementation, which is scalar and computes the expected results.
pub(crate) fn judge() -> Impl {
    Impl::find("xts-aes-fixed-time").expect("it needs no feature")
}

/// Returns a function that fills slices with pseudo-random bytes.
pub(crate) fn random(seed: u64) -> impl FnMut(&mut [u8]) {
    let mut random = SplitMix64(seed);
    move |bytes| random.fill(bytes)
}

pub(crate) fn messages(seed: u64, op: Op, len: usize, count: usize) -> Arc<Messages> {
    let mut random = random(seed ^ 0x6b69_6c6e);
    let mut key = [0; 64];
    random(&mut key);
    Messages::new(judge(), &key, op, len, count, &mut random).expect("a right length")
}

/// Returns a plan in which softirqs encrypt messages of 512 bytes with the preferred
/// implementation.
pub(crate) fn plan(task: TaskWork, seed: u64) -> Plan {
    Plan {
        task,
        softirq: (best_impl().into(), messages(!seed, Op::Encrypt, 512, 8)),
        fallback: judge(),
        second: None,
        hardirq_fpu: false,
    }
}

/// Attaches a load. This CPU must support the load's implementations.
pub(crate) fn attach(cpu: &mut Cpu, plan: Plan) -> Load<'_> {
    Load::attach(cpu, plan).expect("tiers are there")
}

/// Attaches a load to `cpu` and runs `body` while a timer interrupts the CPU. Returns the load's
/// counts.
pub(crate) fn interrupted(
    cpu: &mut Cpu,
    plan: Plan,
    arrivals: Arrivals,
    body: impl FnOnce(&mut Load<'_>),
) -> Counts {
    let mut load = attach(cpu, plan);
    let timer = Timer::start(load.cpu(), arrivals).expect("a timer");
    body(&mut load);
    drop(timer);
    load.counts()
}

/// Returns a configuration in which slices last `slice_us` microseconds and task switches take no
/// time. Ticks are frequent enough that some task switches occur inside a section.
pub(crate) fn config(preempt_full: bool, slice_us: u64) -> Config {
    Config {
        preempt_full,
        tick_us: 50,
        slice_us,
        switch_ns: 0,
        ..Config::default()
    }
}

/// Repeats until `done` returns true. Panics after one minute with a message that says that `what`
/// did not happen.
pub(crate) fn repeat_until(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "not after a minute: {what}"
        );
    }
}

#[track_caller]
pub(crate) fn assert_clean(what: &str, counts: &Counts) {
    let Counts {
        task_corrupted,
        softirq_corrupted,
        second_corrupted,
        user_corrupted,
        ..
    } = *counts;
    assert_eq!(
        (
            task_corrupted,
            softirq_corrupted,
            second_corrupted,
            user_corrupted
        ),
        (0, 0, 0, 0),
        "corrupted in the task, softirqs, second task, user state: {what}: {counts:?}"
    );
}
