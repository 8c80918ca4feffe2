//! Tests the services on emulated CPUs, in a child that loads the image of a real tree. The
//! environment variable KILN_TEST_TREE names the tree. If it is not set, the tests are skipped with
//! a message.

use std::cell::UnsafeCell;
use std::env;
use std::ffi::{c_void, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kiln_kbuild::Compiler;
use kiln_kernel::cipher::{Context, Impl, Op};
use kiln_kernel::cpu::{self, Config, Cpu};
use kiln_kernel::crypto::{Model, Skcipher};
use kiln_kernel::fpu::Policy;
use kiln_kernel::irq::{Arrivals, Timer};
use kiln_kernel::script;
use kiln_kernel::Tier;
use kiln_tree::child::{self, Ended, Order, Watch};
use kiln_tree::event::Event;
use kiln_tree::stream::Stream;
use kiln_tree::{Clock, Host, Image, Loaded, Plan, Source};

static NEVER: AtomicBool = AtomicBool::new(false);

/// Returns the image of the tree that KILN_TEST_TREE names. The image is built once per process.
fn image() -> Option<PathBuf> {
    static BUILT: Mutex<Option<PathBuf>> = Mutex::new(None);
    let tree = env::var_os("KILN_TEST_TREE").filter(|v| !v.is_empty());
    let Some(tree) = tree else {
        let line =
            "\nSKIPPED: no kernel tree: set KILN_TEST_TREE to an unpacked, unconfigured one\n";
        let _ = std::io::stderr().write_all(line.as_bytes());
        return None;
    };
    let mut built = BUILT.lock().unwrap();
    if built.is_none() {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tree-cache");
        env::set_var("XDG_CACHE_HOME", cache);
        let plan = Plan {
            config: kiln_tree::Config::default(),
            source: Source::open(Path::new(&tree)).unwrap(),
            compiler: Compiler::from_env().unwrap(),
            seed: 1,
            stop: &NEVER,
            progress: &|_, _| (),
        };
        *built = Some(kiln_tree::build(&plan).unwrap().image);
    }
    built.clone()
}

/// In the parent, runs the test with this name in a child that loads the tree, and returns how the
/// child ended. In the child, runs `body` and returns `None`.
fn in_child(name: &str, tests: bool, lonely: bool, body: impl FnOnce(Loaded)) -> Option<Ended> {
    if let Some(order) = Order::from_env().unwrap() {
        body(Host::load(&order).unwrap());
        return None;
    }
    // Run one child at a time. On a host with two cores, a child's two CPUs cannot race if another
    // child occupies one of the cores.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut order = Order::new(&image()?, 1);
    (order.tests, order.lonely) = (tests, lonely);
    let args = [name, "--exact", "--nocapture", "--test-threads=1"].map(OsString::from);
    let mut watch = Watch {
        stop: &NEVER,
        silence: Some(Duration::from_secs(120)),
        event: &mut |_| (),
    };
    Some(child::run(&order, &args, &mut watch).unwrap())
}

/// Like [`in_child`], but asserts that the child exits normally.
fn alone(name: &str, tests: bool, body: impl FnOnce(Loaded)) -> Option<Ended> {
    let ended = in_child(name, tests, false, body)?;
    let said = String::from_utf8_lossy(&ended.output).into_owned();
    let fault = &ended.fault;
    assert!(ended.status.success(), "{fault:?} {said}");
    assert!(said.contains("1 passed"), "{said}");
    Some(ended)
}

fn timer(cpu: &mut Cpu, hz: f64) -> Timer {
    Timer::start(cpu, Arrivals::Poisson(hz, 7)).unwrap()
}

/// Asserts that all self-tests have passed and that the tree neither crashed nor warned. On a CPU
/// that has every tier, also asserts that every initcall succeeded.
fn assert_tests_pass(events: &[Event]) {
    let mut passed = 0;
    let every_tier = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("gfni");
    for event in events {
        match event {
            Event::Test { driver, result, .. } => {
                assert_eq!(*result, 0, "{driver}");
                passed += 1;
            }
            Event::Warn { file, line, .. } => panic!("the tree warned at {file}:{line}"),
            // Ignore the initcall of a module that requires a tier that the CPU lacks.
            Event::Initcall { result, .. } if *result == -libc::ENODEV && !every_tier => {}
            Event::Initcall { address, result } => panic!("initcall {address:#x}: {result}"),
            _ => {}
        }
    }
    assert!(passed >= 150, "{passed} tests");
}

fn self_tests(name: &str, config: &Config) {
    let ended = alone(name, true, |loaded| {
        let mut cpu = Cpu::boot(config).unwrap();
        let interrupts = timer(&mut cpu, 4000.0);
        let host = loaded.start(cpu);
        drop(interrupts);
        let stats = host.cpu.stats();
        assert!(host.initcalls > 50);
        assert!(stats.irqs > 1000, "{stats:?}");
        assert!(stats.switches > 200, "{stats:?}");
        assert!(stats.preemptions > 20 || !config.preempt_full, "{stats:?}");
        assert_eq!(stats.warnings, 0, "{stats:?}");
    });
    if let Some(ended) = ended {
        assert_tests_pass(&ended.events);
    }
}

#[test]
fn self_tests_pass_while_interrupts_come() {
    self_tests("self_tests_pass_while_interrupts_come", &Config::default());
}

/// Self-tests must also pass under full preemption, where a task may be preempted at any point in a
/// service.
#[test]
fn self_tests_pass_under_full_preemption() {
    let config = Config {
        preempt_full: true,
        tick_us: 250,
        slice_us: 250,
        ..Config::default()
    };
    self_tests("self_tests_pass_under_full_preemption", &config);
}

/// Runs a closure in kernel mode on this thread's CPU. The closure may call functions in the image.
fn in_kernel<F: FnMut()>(mut f: F) {
    unsafe extern "C" fn run<F: FnMut()>(f: *mut c_void) -> u64 {
        // SAFETY: the pointer is the one that `in_kernel` passed, which points to its closure.
        unsafe { (*f.cast::<F>())() };
        0
    }
    // SAFETY: `run::<F>` takes a pointer to a closure of type `F`, which outlives the call.
    unsafe { cpu::gate(run::<F>, ptr::from_mut(&mut f).cast()) };
}

/// Looks up a service in the image, and returns a pointer to it.
fn service<F: Copy>(image: &Image, name: &str) -> F {
    // SAFETY: each caller passes as `F` the pointer type that matches the service named `name`.
    unsafe { image.function(&format!("svc_{name}")) }.unwrap()
}

type Lock = unsafe extern "C" fn(*mut u32) -> u64;
type Unlock = unsafe extern "C" fn(*mut u32, u64);

struct Shared {
    lock: UnsafeCell<u32>,
    count: UnsafeCell<u64>,
}

// SAFETY: except in the control run, `count` is accessed concurrently only under the tree's lock.
// The test checks whether this lock works.
unsafe impl Sync for Shared {}

/// Makes two CPUs increment the same word while interrupts arrive on both. Returns how many
/// increments were lost.
fn lost_additions(shared: &Shared, lock: Option<(Lock, Unlock)>) -> u64 {
    const TIMES: u64 = 200_000;
    // SAFETY: threads of earlier calls have been joined, so no other thread accesses the word.
    unsafe { *shared.count.get() = 0 };
    std::thread::scope(|scope| {
        for number in 0..2 {
            scope.spawn(move || {
                let config = Config {
                    number,
                    ..Config::default()
                };
                let mut cpu = Cpu::boot(&config).unwrap();
                let _interrupts = timer(&mut cpu, 5000.0);
                for _ in 0..TIMES / 100 {
                    in_kernel(|| {
                        for _ in 0..100 {
                            let at = shared.lock.get();
                            // SAFETY: the types of `lock` and `unlock` match the services. The
                            // control run passes no lock; its data race is intentional.
                            unsafe {
                                let flags = lock.map(|(lock, _)| lock(at));
                                let old = ptr::read_volatile(shared.count.get());
                                ptr::write_volatile(shared.count.get(), old + 1);
                                if let (Some((_, unlock)), Some(flags)) = (lock, flags) {
                                    unlock(at, flags);
                                }
                            }
                        }
                    });
                }
                assert_eq!(cpu.stats().warnings, 0);
            });
        }
    });
    // SAFETY: the scope has joined all threads that access the word.
    2 * TIMES - unsafe { *shared.count.get() }
}

#[test]
fn a_spin_lock_holds_between_two_cpus() {
    alone("a_spin_lock_holds_between_two_cpus", false, |loaded| {
        let (lock, unlock): (Lock, Unlock) = (
            service(&loaded.image, "_raw_spin_lock_irqsave"),
            service(&loaded.image, "_raw_spin_unlock_irqrestore"),
        );
        let shared = Shared {
            lock: UnsafeCell::new(0),
            count: UnsafeCell::new(0),
        };
        for _ in 0..3 {
            assert_eq!(lost_additions(&shared, Some((lock, unlock))), 0);
        }
        // Control: increments are lost if the lock is not taken.
        let start = Instant::now();
        while lost_additions(&shared, None) == 0 {
            assert!(start.elapsed() < Duration::from_secs(60), "no race");
        }
    });
}

#[test]
fn waits_end_by_time_and_by_completion() {
    type Wait = unsafe extern "C" fn(*mut u64, u64) -> u64;
    type Complete = unsafe extern "C" fn(*mut u64);
    alone("waits_end_by_time_and_by_completion", false, |loaded| {
        let wait: Wait = service(&loaded.image, "wait_for_completion_timeout");
        let complete: Complete = service(&loaded.image, "complete");
        let hz: *const u32 = loaded.image.symbol("kiln_glue_hz").unwrap() as *const u32;
        // SAFETY: the address is that of a constant in the glue.
        let hz = u64::from(unsafe { *hz });
        let _cpu = Cpu::boot(&Config::default()).unwrap();
        let mut completion = [0u64; 8];
        let at = completion.as_mut_ptr();
        let mut left = 7;
        let start = Instant::now();
        // SAFETY: the type of `wait` matches the service, and `completion` has room for the tree's
        // structure.
        in_kernel(|| left = unsafe { wait(at, hz / 10) });
        let took = start.elapsed();
        assert_eq!(left, 0);
        assert!(took >= Duration::from_millis(99), "{took:?}");
        assert!(took < Duration::from_secs(5), "{took:?}");

        // No timer ticks are delivered in this test, so jiffies must advance only while the clock
        // thread runs.
        let jiffies = loaded.image.symbol("svc_jiffies").unwrap() as *const u64;
        // SAFETY: the address is that of a variable in the image, and the read is volatile.
        let read = || unsafe { ptr::read_volatile(jiffies) };
        let before = read();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(read(), before);
        let clock = Clock::start(&loaded.image).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        drop(clock);
        assert!(read() > before && read() < before + 10 * hz);

        // This time, another CPU calls complete() before the time limit.
        let at = AtomicU64::new(at as u64);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let config = Config {
                    number: 1,
                    ..Config::default()
                };
                let _cpu = Cpu::boot(&config).unwrap();
                std::thread::sleep(Duration::from_millis(50));
                let at = at.load(Ordering::Relaxed) as *mut u64;
                // SAFETY: the type of `complete` matches the service, and the completion outlives
                // the thread.
                in_kernel(|| unsafe { complete(at) });
            });
            let at = at.load(Ordering::Relaxed) as *mut u64;
            // SAFETY: the type of `wait` matches the service, and `completion` has room for the
            // tree's structure.
            in_kernel(|| left = unsafe { wait(at, 20 * hz) });
        });
        assert!(left > 10 * hz && left < 20 * hz, "{left} of {}", 20 * hz);
        // The wait must have reset the completion.
        assert_eq!(completion[0] as u32, 0);
    });
}

/// Makes the same calls as the tree's wait_event() would, while another CPU wakes the queue.
#[test]
fn a_wait_queue_wakes_who_waits() {
    type Init = unsafe extern "C" fn(*mut u64, *const u8, *mut u8);
    type Entry = unsafe extern "C" fn(*mut u64, i32);
    type Prepare = unsafe extern "C" fn(*mut u64, *mut u64, i32) -> i64;
    type Finish = unsafe extern "C" fn(*mut u64, *mut u64);
    type Wake = unsafe extern "C" fn(*mut u64, u32, i32, *mut u8) -> i32;
    type Schedule = unsafe extern "C" fn();
    const ROUNDS: u64 = 2000;
    alone("a_wait_queue_wakes_who_waits", false, |loaded| {
        let image = &loaded.image;
        let init: Init = service(image, "__init_waitqueue_head");
        let entry: Entry = service(image, "init_wait_entry");
        let prepare: Prepare = service(image, "prepare_to_wait_event");
        let finish: Finish = service(image, "finish_wait");
        let wake: Wake = service(image, "__wake_up");
        let schedule: Schedule = service(image, "schedule");
        let mut queue = [0u64; 8];
        let at = AtomicU64::new(queue.as_mut_ptr() as u64);
        let queue = || at.load(Ordering::Relaxed) as *mut u64;
        let (asked, answered) = (&AtomicU64::new(0), &AtomicU64::new(0));
        let _cpu = Cpu::boot(&Config::default()).unwrap();
        // SAFETY: the types of the functions match the services, and `queue` has room for the
        // tree's structure.
        in_kernel(|| unsafe { init(queue(), ptr::null(), ptr::null_mut()) });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let config = Config {
                    number: 1,
                    ..Config::default()
                };
                let _cpu = Cpu::boot(&config).unwrap();
                for round in 1..=ROUNDS {
                    while asked.load(Ordering::Acquire) < round {
                        std::hint::spin_loop();
                    }
                    answered.store(round, Ordering::Release);
                    in_kernel(|| {
                        // SAFETY: the type of `wake` matches the service, and the queue is
                        // initialised.
                        unsafe { wake(queue(), 3, 1, ptr::null_mut()) };
                    });
                }
            });
            let mut slept = 0;
            for round in 1..=ROUNDS {
                // SAFETY: the types of the functions match the services. The waiter has room for
                // the tree's structure, and finish() removes the waiter from the queue before the
                // waiter is dropped.
                in_kernel(|| unsafe {
                    let mut waiter = [0u64; 8];
                    entry(waiter.as_mut_ptr(), 0);
                    asked.store(round, Ordering::Release);
                    loop {
                        prepare(queue(), waiter.as_mut_ptr(), 1);
                        if answered.load(Ordering::Acquire) == round {
                            break;
                        }
                        slept += 1;
                        schedule();
                    }
                    finish(queue(), waiter.as_mut_ptr());
                });
            }
            assert!(slept > 0);
        });
        // The list must be empty.
        // SAFETY: the list's first word is inside `queue`, and no other thread runs.
        let first = unsafe { *queue().add(1) };
        assert_eq!(first, queue() as u64 + 8);
    });
}

/// A WARN in the tree is reported and counted, and execution then continues.
#[test]
fn warnings_are_counted_and_told() {
    type Saturate = unsafe extern "C" fn(*mut u32, u32);
    let ended = alone("warnings_are_counted_and_told", false, |loaded| {
        let at = loaded.image.symbol("refcount_warn_saturate").unwrap();
        // SAFETY: `at` is the address of the tree's refcount_warn_saturate(), whose type is
        // `Saturate`.
        let saturate = unsafe { std::mem::transmute::<u64, Saturate>(at) };
        let cpu = Cpu::boot(&Config::default()).unwrap();
        let mut count = [5u32; 4];
        assert_eq!(cpu.stats().warnings, 0);
        // SAFETY: the function takes a refcount, and the array has room for one.
        in_kernel(|| unsafe { saturate(count.as_mut_ptr(), 2) });
        assert_eq!(cpu.stats().warnings, 1);
        // The new value shows that execution continued after the warning.
        assert_eq!(count[0] as i32, i32::MIN / 2);
    });
    if let Some(ended) = ended {
        let told = |e: &Event| matches!(e, Event::Warn { file, .. } if file.contains("refcount"));
        assert_eq!(ended.events.iter().filter(|e| told(e)).count(), 1);
        assert!(ended.fault.is_none());
    }
}

/// The compiler emits XSAVE in the FPU core. At boot, the tree must replace this instruction with
/// the best save instruction that the CPU supports.
#[test]
fn alternatives_are_applied() {
    const XSAVE: [u8; 4] = [0x48, 0x0f, 0xae, 0x27];
    const XSAVEC: [u8; 4] = [0x48, 0x0f, 0xc7, 0x27];
    let ended = alone("alternatives_are_applied", false, |loaded| {
        let start = loaded.image.symbol("save_fpregs_to_fpstate").unwrap();
        // SAFETY: the address is in the image's text, which continues for more than 256 bytes.
        let text = unsafe { std::slice::from_raw_parts(start as *const u8, 256) };
        let has = |code: [u8; 4]| text.windows(4).any(|w| w == code);
        let xsavec = std::is_x86_feature_detected!("xsavec");
        assert_eq!((has(XSAVEC), has(XSAVE)), (xsavec, !xsavec));
    });
    if let Some(ended) = ended {
        let applied = ended.events.iter().find_map(|e| match e {
            Event::Alternatives { applied, .. } => Some(*applied),
            _ => None,
        });
        assert!(applied.unwrap() > 20, "{applied:?}");
    }
}

/// A deadlock must be reported instead of making the test hang.
#[test]
fn a_deadlock_is_told() {
    type Wait = unsafe extern "C" fn(*mut u64);
    let ended = in_child("a_deadlock_is_told", false, true, |loaded| {
        let wait: Wait = service(&loaded.image, "wait_for_completion");
        let _cpu = Cpu::boot(&Config::default()).unwrap();
        let mut completion = [0u64; 8];
        // SAFETY: the type of `wait` matches the service, and `completion` has room for the tree's
        // structure.
        in_kernel(|| unsafe { wait(completion.as_mut_ptr()) });
    });
    if let Some(ended) = ended {
        let fault = ended.fault.unwrap();
        assert!(fault.what.contains("deadlock"), "{fault:?}");
    }
}

#[test]
fn a_spin_lock_that_is_taken_twice_is_told() {
    type Take = unsafe extern "C" fn(*mut u32);
    let name = "a_spin_lock_that_is_taken_twice_is_told";
    let ended = in_child(name, false, false, |loaded| {
        let lock: Take = service(&loaded.image, "_raw_spin_lock");
        let _cpu = Cpu::boot(&Config::default()).unwrap();
        let mut word = 0;
        // SAFETY: the type of `lock` matches the service, and `word` is a lock that is free.
        in_kernel(|| unsafe {
            lock(&mut word);
            lock(&mut word);
        });
    });
    if let Some(ended) = ended {
        let fault = ended.fault.unwrap();
        assert!(fault.what.contains("taken twice"), "{fault:?}");
    }
}

/// A softirq allocates and frees blocks while the interrupted task does the same. The allocator
/// must not return a block that is in use.
#[test]
fn memory_is_for_any_context() {
    type Alloc = unsafe extern "C" fn(usize, u32) -> *mut u64;
    type Free = unsafe extern "C" fn(*mut u64);
    type Handler = unsafe extern "C" fn(*mut c_void);
    type Open = unsafe extern "C" fn(i32, Handler);
    type Raise = unsafe extern "C" fn(u32);
    static ALLOC: AtomicU64 = AtomicU64::new(0);
    static FREE: AtomicU64 = AtomicU64::new(0);
    static SERVED: AtomicU64 = AtomicU64::new(0);
    static WRONG: AtomicU64 = AtomicU64::new(0);

    /// Allocates blocks, writes `mark` to them, and checks that the marks are not overwritten.
    fn use_blocks(mark: u64) {
        // SAFETY: the variables hold the addresses of services with these types.
        let (alloc, free): (Alloc, Free) = unsafe {
            (
                std::mem::transmute::<u64, Alloc>(ALLOC.load(Ordering::Relaxed)),
                std::mem::transmute::<u64, Free>(FREE.load(Ordering::Relaxed)),
            )
        };
        let mut blocks = [ptr::null_mut::<u64>(); 6];
        for (i, block) in blocks.iter_mut().enumerate() {
            // SAFETY: the service returns a block of at least 64 bytes, so both words are inside
            // it.
            unsafe {
                *block = alloc(64, 0);
                ptr::write_volatile(*block, mark + i as u64);
                ptr::write_volatile(block.add(7), mark + i as u64);
            }
        }
        for (i, block) in blocks.iter().enumerate() {
            // SAFETY: the block has at least 64 bytes and is freed exactly once.
            unsafe {
                let want = mark + i as u64;
                if ptr::read_volatile(*block) != want || ptr::read_volatile(block.add(7)) != want {
                    WRONG.fetch_add(1, Ordering::Relaxed);
                }
                free(*block);
            }
        }
    }

    unsafe extern "C" fn softirq(_: *mut c_void) {
        SERVED.fetch_add(1, Ordering::Relaxed);
        use_blocks(1 << 40);
    }

    alone("memory_is_for_any_context", false, |loaded| {
        let image = &loaded.image;
        let alloc: u64 = image.symbol("svc___kmalloc_noprof").unwrap();
        let free: u64 = image.symbol("svc_kfree").unwrap();
        ALLOC.store(alloc, Ordering::Relaxed);
        FREE.store(free, Ordering::Relaxed);
        let open: Open = service(image, "open_softirq");
        let raise: Raise = service(image, "raise_softirq");
        let mut cpu = Cpu::boot(&Config::default()).unwrap();
        // SAFETY: the type of `open` matches the service, and the handler is never removed.
        in_kernel(|| unsafe { open(6, softirq) });
        let _interrupts = timer(&mut cpu, 8000.0);
        let start = Instant::now();
        let mut mark = 0;
        while SERVED.load(Ordering::Relaxed) < 20_000 && start.elapsed() < Duration::from_secs(60) {
            in_kernel(|| {
                for _ in 0..200 {
                    mark += 8;
                    use_blocks(mark);
                }
                // SAFETY: the type of `raise` matches the service. The softirq runs after the next
                // interrupt, or in ksoftirqd.
                unsafe { raise(6) };
            });
        }
        assert!(SERVED.load(Ordering::Relaxed) >= 1000);
        assert_eq!(WRONG.load(Ordering::Relaxed), 0);
        assert_eq!(cpu.stats().warnings, 0);
    });
}

/// Runs the same scripts on the tree's simd helper and cryptd, and on Kiln's. Compares the return
/// value of each call and, for each callback, the arguments, the order, the CPU and the preempt
/// count.
#[test]
fn the_trees_cryptd_follows_the_rules_that_kilns_does() {
    alone(
        "the_trees_cryptd_follows_the_rules_that_kilns_does",
        false,
        |loaded| {
            if !Tier::Aesni.usable() {
                return println!("SKIPPED: nothing is asynchronous without SIMD");
            }
            let mut host = loaded.start(Cpu::boot(&Config::default()).unwrap());
            let ops = Stream::requests(&host).unwrap();
            let key: Vec<u8> = (0..64).collect();
            let iv = [9; 16];
            let src: Vec<u8> = (0..48).collect();
            let mut want = vec![0; src.len()];
            let legacy: Policy = "legacy".parse().unwrap();
            legacy.set(&mut host.cpu);
            let judge = Impl::find("xts-aes-fixed-time").unwrap();
            let expanded = Context::new(judge, &key).unwrap();
            judge.crypt(Op::Encrypt, &expanded, &iv, &src, &mut want);
            let message = (&src[..], &want[..], &iv);
            for (name, transforms, steps) in script::scenarios() {
                let freed = steps.iter().any(|s| matches!(s, script::Step::Free(_)));
                legacy.set(&mut host.cpu);
                Model::Helper.set();
                let own: Vec<Skcipher> = (0..transforms)
                    .map(|_| {
                        let mut tfm = Skcipher::open("xts-aes-aesni", 0, 0).unwrap();
                        tfm.set_key(&key).unwrap();
                        tfm
                    })
                    .collect();
                let of_kiln = script::run(
                    &mut host.cpu,
                    &own.iter().collect::<Vec<_>>(),
                    &steps,
                    message,
                );
                if freed {
                    own.into_iter().for_each(script::give_up);
                }

                host.policy.set(&mut host.cpu);
                let streams: Vec<Stream> = (0..transforms)
                    .map(|_| Stream::open(&mut host, "xts-aes-aesni", &key, 0, false).unwrap())
                    .collect();
                let mut handles: Vec<_> = streams.iter().map(|s| s.handle()).collect();
                // SAFETY: the functions belong to the image, and so do the transforms that are
                // passed to them.
                let of_tree = unsafe {
                    script::run_foreign(&mut host.cpu, &ops, &mut handles, &steps, message)
                };
                assert_eq!(of_tree.stuck, None, "{name}");
                assert!(of_tree.events.iter().all(|e| !e.wrong), "{name}");
                assert_eq!(of_tree.events.len(), of_kiln.events.len(), "{name}");
                for (tree, kiln) in of_tree.events.iter().zip(&of_kiln.events) {
                    assert_eq!(tree, kiln, "{name}");
                }
                println!("{name}: {} events, the same", of_tree.events.len());
            }
        },
    );
}
