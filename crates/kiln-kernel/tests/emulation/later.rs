//! Tests loads whose operations may complete asynchronously, as crypto API requests can. The load
//! must wait for the results, check and count them, and also count operations that complete out of
//! order.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use kiln_kernel::cipher::{Impl, Op};
use kiln_kernel::hosted::border::{
    kiln_calls_run, kiln_fpu_usable, kiln_local_bh_disable, kiln_local_bh_enable, kiln_queue_work,
    Calls, Work,
};
use kiln_kernel::irq::Arrivals;
use kiln_kernel::load::{best_impl, Counts, Messages, Operation, Plan, TaskWork, Worker};

use crate::machine::{
    assert_clean, boot, config, interrupted, messages, plan, policy, repeat_until, run_alone,
};

const EINPROGRESS: i32 = 115;
const EBUSY: i32 = 16;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// The fault that a test plants in the helper.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// The most recently queued request is served first.
    LastInFirstOut,
    /// A request that can run immediately overtakes queued requests.
    Overtakes,
    /// Some results are wrong.
    Wrong,
    /// Some requests fail with an error.
    Fails,
}

type Done = unsafe extern "C" fn(*mut c_void, i32);

/// A request. The helper has one request for each slot.
#[repr(C)]
struct Request {
    calls: Calls,
    done: Option<Done>,
    data: *mut c_void,
}

const RING: u32 = 256;

/// A helper that runs a request immediately if an FPU section may be opened and no requests are
/// queued, and otherwise defers the request to the kworker.
///
/// In kernel mode, the vector registers may hold values of the interrupted code. `crypt` therefore
/// writes the fields of a request one by one with volatile stores, which the compiler does not
/// combine into vector instructions.
#[repr(C)]
struct Helper {
    work: Work,
    requests: Vec<Request>,
    /// Ring buffer that holds the slots of waiting requests.
    ring: [AtomicU32; RING as usize],
    head: AtomicU32,
    tail: AtomicU32,
    /// Maximum queue length. Further requests are rejected or, with `backlog`, queued with the
    /// result -EBUSY.
    limit: u32,
    backlog: bool,
    always_later: bool,
    fault: Fault,
    calls: AtomicU32,
}

impl Helper {
    fn new(imp: Impl, messages: &Messages, slots: u32) -> Box<Helper> {
        Box::new(Helper {
            work: Work {
                fn_: Some(work),
                ..Work::default()
            },
            requests: (0..slots)
                .map(|_| Request {
                    calls: messages.calls(imp),
                    done: None,
                    data: ptr::null_mut(),
                })
                .collect(),
            ring: [const { AtomicU32::new(0) }; RING as usize],
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            limit: 200,
            backlog: false,
            always_later: false,
            fault: Fault::None,
            calls: AtomicU32::new(0),
        })
    }

    fn operation(self: &mut Box<Helper>) -> Operation {
        let slots = self.requests.len() as u32;
        // SAFETY: the helper outlives the loads of its test.
        unsafe { Operation::new(crypt, (&raw mut **self).cast(), slots) }
    }

    unsafe fn run(&self, request: *mut Request) -> i32 {
        let unlucky = self.calls.fetch_add(1, Relaxed) % 16 == 15;
        // SAFETY: this runs in kernel mode, and the request's buffers hold one message.
        unsafe {
            kiln_calls_run((&raw mut (*request).calls).cast());
            if self.fault == Fault::Wrong && unlucky {
                *(*request).calls.m.dst ^= 1;
            }
        }
        match self.fault == Fault::Fails && unlucky {
            true => -EIO,
            false => 0,
        }
    }
}

#[allow(clippy::too_many_arguments)] // struct kiln_op requires these arguments
unsafe extern "C" fn crypt(
    ctx: *mut c_void,
    slot: u32,
    dst: *mut u8,
    src: *const u8,
    len: usize,
    iv: *const u8,
    decrypt: bool,
    done: Option<Done>,
    data: *mut c_void,
) -> i32 {
    // SAFETY: the load calls this function in kernel mode with a slot that is not in use.
    unsafe {
        let helper = &*ctx.cast::<Helper>();
        let r = helper.requests.as_ptr().add(slot as usize).cast_mut();
        (&raw mut (*r).calls.m.dst).write_volatile(dst);
        (&raw mut (*r).calls.m.src).write_volatile(src);
        (&raw mut (*r).calls.m.len).write_volatile(len as u64);
        (&raw mut (*r).calls.m.iv).write_volatile(iv);
        (&raw mut (*r).calls.m.decrypt).write_volatile(decrypt);
        (&raw mut (*r).done).write_volatile(done);
        (&raw mut (*r).data).write_volatile(data);
        let (head, tail) = (helper.head.load(Relaxed), helper.tail.load(Relaxed));
        let queued = tail.wrapping_sub(head);
        let waits = queued > 0 && helper.fault != Fault::Overtakes;
        if kiln_fpu_usable() && !waits && !helper.always_later {
            return helper.run(r);
        }
        if queued >= helper.limit && !helper.backlog {
            return -ENOSPC;
        }
        kiln_local_bh_disable(0x200);
        helper.ring[(tail % RING) as usize].store(slot, Relaxed);
        helper.tail.store(tail.wrapping_add(1), Relaxed);
        kiln_local_bh_enable(0x200);
        kiln_queue_work(ptr::null_mut(), ctx.cast());
        match queued >= helper.limit {
            true => -EBUSY,
            false => -EINPROGRESS,
        }
    }
}

/// Serves one request and then queues itself again for the next request, so that other work items
/// also get to run.
unsafe extern "C" fn work(work: *mut Work) {
    // SAFETY: the work is the helper's first field, and the kworker runs one item at a time.
    unsafe {
        let helper = &*work.cast::<Helper>();
        kiln_local_bh_disable(0x200);
        let head = helper.head.load(Relaxed) % RING;
        if helper.fault == Fault::LastInFirstOut {
            let last = helper.tail.load(Relaxed).wrapping_sub(1) % RING;
            let (a, b) = (&helper.ring[head as usize], &helper.ring[last as usize]);
            b.store(a.swap(b.load(Relaxed), Relaxed), Relaxed);
        }
        let slot = helper.ring[head as usize].load(Relaxed);
        kiln_local_bh_enable(0x200);
        let r = helper.requests.as_ptr().add(slot as usize).cast_mut();
        let (done, data) = ((*r).done.expect("it was put"), (*r).data);
        if helper.backlog {
            done(data, -EINPROGRESS);
        }
        let answer = helper.run(r);
        kiln_local_bh_disable(0x200);
        helper.head.fetch_add(1, Relaxed);
        let more = helper.head.load(Relaxed) != helper.tail.load(Relaxed);
        done(data, answer);
        kiln_local_bh_enable(0x200);
        if more {
            kiln_queue_work(ptr::null_mut(), work);
        }
    }
}

/// Runs a load with softirqs that encrypt through a helper, until `enough` returns true.
fn softirqs(
    seed: u64,
    slots: u32,
    name: &str,
    full: bool,
    make: impl Fn(&mut Helper),
    enough: impl Fn(&Counts) -> bool,
) -> Counts {
    let mut cpu = boot();
    policy(name).set(&mut cpu);
    cpu.configure(&config(full, 200));
    let packets = messages(!seed, Op::Encrypt, 512, 8);
    let mut helper = Helper::new(best_impl(), &packets, slots);
    make(&mut helper);
    let task = TaskWork::Crypt(best_impl(), messages(seed, Op::Encrypt, 16384, 8));
    let plan = Plan {
        softirq: (Worker::Op(helper.operation()), packets),
        ..plan(task, seed)
    };
    let poisson = Arrivals::Poisson(20_000.0, seed);
    let counts = interrupted(&mut cpu, plan, poisson, |load| {
        repeat_until("the expected counts", || {
            load.run(20);
            enough(&load.counts())
        });
    });
    println!(
        "{name}, full preemption {full}, {:?}: {counts:?}",
        helper.fault
    );
    counts
}

fn faulty(fault: Fault) -> impl Fn(&mut Helper) {
    move |h| h.fault = fault
}

#[test]
fn softirqs_answers_come_later_right_and_in_order() {
    run_alone(|seed| {
        for full in [false, true] {
            let enough = |c: &Counts| c.async_punts >= 1_000 && c.softirq_ops >= 2_000;
            let counts = softirqs(seed, 64, "legacy", full, |_| (), enough);
            assert_clean("a helper under legacy", &counts);
            assert_eq!((counts.reordered, counts.errors), (0, 0));
            // Under a policy that allows the FPU in softirqs, requests must not be deferred.
            let counts = softirqs(seed, 64, "nested", full, |_| (), |c| c.softirq_ops >= 2_000);
            assert_clean("a helper under nested", &counts);
            assert_eq!((counts.async_punts, counts.dropped), (0, 0));
        }
    });
}

#[test]
fn a_full_queue_drops() {
    run_alone(|seed| {
        let full = |h: &mut Helper| h.limit = 2;
        let counts = softirqs(seed, 64, "legacy", false, full, |c| c.dropped >= 100);
        assert_clean("a full queue", &counts);
        // With a single slot, one request in flight makes the load drop the next.
        let counts = softirqs(seed, 1, "legacy", false, |_| (), |c| c.dropped >= 100);
        assert_clean("one slot", &counts);
        let enough = |c: &Counts| c.async_punts >= 1_000;
        let counts = softirqs(seed, 250, "legacy", false, |_| (), enough);
        assert_clean("enough slots for all", &counts);
        assert_eq!(counts.dropped, 0);
    });
}

#[test]
fn another_order_is_seen() {
    run_alone(|seed| {
        for fault in [Fault::LastInFirstOut, Fault::Overtakes] {
            let enough = |c: &Counts| c.async_punts >= 1_000 && c.reordered >= 50;
            let counts = softirqs(seed, 64, "legacy", false, faulty(fault), enough);
            assert_clean("a different order is not a wrong result", &counts);
        }
    });
}

#[test]
fn wrong_answers_and_errors_are_seen() {
    run_alone(|seed| {
        let enough = |c: &Counts| c.softirq_ops >= 1_000;
        let wrong = softirqs(seed, 64, "legacy", false, faulty(Fault::Wrong), enough);
        assert!(wrong.softirq_corrupted >= 40 && wrong.errors == 0);
        let fails = softirqs(seed, 64, "legacy", false, faulty(Fault::Fails), enough);
        assert!(fails.errors >= 40 && fails.softirq_corrupted == fails.errors);
    });
}

/// The task must sleep until its requests complete, whether one or several of them are in flight.
#[test]
fn a_task_waits_for_its_answers() {
    run_alone(|seed| {
        let mut cpu = boot();
        policy("legacy").set(&mut cpu);
        for full in [false, true] {
            cpu.configure(&config(full, 200));
            for (depth, always_later, backlog) in [
                (1, false, false),
                (1, true, false),
                (8, true, false),
                (8, true, true),
            ] {
                let work = messages(seed, Op::Decrypt, 512, 8);
                let mut helper = Helper::new(best_impl(), &work, 8);
                helper.always_later = always_later;
                helper.backlog = backlog;
                helper.limit = if backlog { 2 } else { helper.limit };
                let plan = plan(TaskWork::Ask(helper.operation(), work, depth), seed);
                let poisson = Arrivals::Poisson(20_000.0, seed);
                let counts = interrupted(&mut cpu, plan, poisson, |load| {
                    for _ in 0..400 {
                        load.run(40);
                    }
                });
                println!("full {full}, {depth} in flight, later {always_later}: {counts:?}");
                assert_clean("a task that waits", &counts);
                // The task must not return while a request is in flight.
                assert_eq!(counts.task_ops, 16_000);
                assert_eq!((counts.dropped, counts.reordered), (0, 0));
                assert_eq!(counts.async_punts, if always_later { 16_000 } else { 0 });
            }
        }
    });
}
