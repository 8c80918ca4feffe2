//! Tests the rules of the simd helper and cryptd. Each rule also has a control, in which the rule
//! is broken.

use kiln_kernel::cipher::{Context, Kind, Op, BLOCK};
use kiln_kernel::cpu::Cpu;
use kiln_kernel::crypto::{self, authenc_key, broken, Asked, Errno, Model, Skcipher, Transform};
use kiln_kernel::irq::Arrivals;
use kiln_kernel::load::{best_impl, Plan, TaskWork, Worker};
use kiln_kernel::script::{self, Event, Outcome};
use kiln_kernel::Tier;

use crate::aead::{seal, AUTHENC};
use crate::machine::{
    assert_clean, assert_dies, boot, config, interrupted, messages, plan, policy, repeat_until,
    run_alone,
};

/// Queue capacity in requests.
const LIMIT: u32 = 1000;

const OK: Errno = Errno(0);
const QUEUED: Errno = Errno::IN_PROGRESS;

struct Machine {
    cpu: Cpu,
    src: Vec<u8>,
    want: Vec<u8>,
}

/// An XTS key, whose two halves must differ.
const RAW_KEY: [u8; 64] = {
    let mut raw = [0x5e; 64];
    raw[0] = 1;
    raw
};
const IV: [u8; BLOCK] = [9; BLOCK];

impl Machine {
    fn boot() -> Machine {
        let mut cpu = boot();
        policy("legacy").set(&mut cpu);
        Model::Helper.set();
        let src: Vec<u8> = (0..48).collect();
        let mut want = vec![0; src.len()];
        let ctx = Context::new(best_impl(), &RAW_KEY).expect("64 bytes");
        best_impl().crypt(Op::Encrypt, &ctx, &IV, &src, &mut want);
        Machine { cpu, src, want }
    }

    /// Opens the default transform for `xts(aes)`, as a user of the crypto API would.
    fn tfm(&self) -> Skcipher {
        open_keyed("xts(aes)")
    }

    /// Runs a scenario, and checks that its calls return the values in `returned`, in this order.
    /// Returns the completed requests with their results, in order of completion.
    fn run(
        &mut self,
        tfms: &[&Skcipher],
        scenario: &str,
        returned: &[Errno],
    ) -> Result<Vec<(u32, Errno)>, String> {
        let message = (&self.src[..], &self.want[..], &IV);
        let steps = script::scenario(scenario);
        let outcome = script::run(&mut self.cpu, tfms, &steps, message);
        let (answers, returns): (Vec<&Event>, Vec<&Event>) =
            outcome.events.iter().partition(|e| e.answer);
        let got: Vec<Errno> = returns.iter().map(|e| e.err).collect();
        equal("returned", &got[..], returned)?;
        check_script(&outcome)?;
        Ok(answers.iter().map(|e| (e.request, e.err)).collect())
    }
}

fn open_keyed(name: &str) -> Skcipher {
    let mut tfm = Skcipher::open(name, 0, 0).expect("it is there");
    tfm.set_key(&RAW_KEY).expect("64 bytes");
    tfm
}

/// Checks the rules that apply to every script.
fn check_script(outcome: &Outcome) -> Result<(), String> {
    if let Some(step) = outcome.stuck {
        return Err(format!("step {step} never ended"));
    }
    for e in &outcome.events {
        if e.wrong {
            return Err(format!("wrong bytes: {e:?}"));
        }
        // The kworker must complete requests with softirqs disabled.
        if e.answer && (!e.kthread || e.preempt_count != 0x200) {
            return Err(format!("told in the wrong place: {e:?}"));
        }
    }
    Ok(())
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, got: T, want: T) -> Result<(), String> {
    match got == want {
        true => Ok(()),
        false => Err(format!("{what}: {got:?} where the rule says {want:?}")),
    }
}

/// Rule: the queue holds at most 1000 requests. Further requests wait only if they allow
/// backlogging.
fn overflow(m: &mut Machine) -> Result<(), String> {
    let tfm = m.tfm();
    let mut want = vec![QUEUED; LIMIT as usize];
    want.extend([Errno::NO_SPACE, Errno::BUSY, Errno::BUSY, Errno::NO_SPACE]);
    let answers = m.run(&[&tfm], "overflow", &want)?;
    // When a request leaves the queue, a request from the backlog enters it, and that request's
    // callback receives -EINPROGRESS.
    let (first, second) = (LIMIT + 1, LIMIT + 2);
    let mut want = vec![(first, QUEUED), (0, OK), (second, QUEUED), (1, OK)];
    want.extend((2..LIMIT).map(|i| (i, OK)));
    want.extend([(first, OK), (second, OK)]);
    equal("answered", answers, want)
}

/// Returns the expected completions if the first `n` requests complete successfully, in order.
fn first_of_all(n: u32) -> Vec<(u32, Errno)> {
    (0..n).map(|i| (i, OK)).collect()
}

/// Rule: an atomic caller does not overtake requests that wait on the same transform. A caller that
/// can sleep may overtake them, and other transforms are independent.
fn order(m: &mut Machine) -> Result<(), String> {
    let (tfm, other) = (m.tfm(), m.tfm());
    let want = [[QUEUED; 5].as_slice(), &[OK; 4]].concat();
    let answers = m.run(&[&tfm, &other], "order", &want)?;
    equal("answered", answers, first_of_all(5))
}

/// Rule: a freed transform stays allocated until its queued requests have completed.
fn free_while_queued(m: &mut Machine) -> Result<(), String> {
    free_with_requests(m, Machine::tfm)
}

/// Rule: a freed cryptd transform stays allocated until its queued requests have completed.
fn free_cryptd_while_queued(m: &mut Machine) -> Result<(), String> {
    free_with_requests(m, |_| open_keyed("cryptd(xts-aes-fixed-time)"))
}

/// Rule: a freed authenc transform stays allocated until its queued requests have completed,
/// because it computes a tag after each cipher request.
fn free_authenc_while_queued(m: &mut Machine) -> Result<(), String> {
    let (auth, enc) = ([1; 32], [2; 32]);
    let text = vec![0x33; 64];
    let (sealed, _) = seal("cbc(aes)", &enc, &IV, &[], &text, 0);
    let (_, tag) = seal("hmac(sha256)", &auth, &[], &[], &sealed, 0);
    m.src = [text, vec![0; 32]].concat();
    m.want = [&sealed[..], &tag[..32]].concat();
    for name in [AUTHENC, "authenc(hmac(sha256),cryptd(cbc-aes-fixed-time))"] {
        free_with_requests(m, |_| {
            let mut tfm = Transform::open(Kind::Aead, name).expect("it is there");
            tfm.set_key(&authenc_key(&auth, &enc))
                .expect("32 bytes each");
            tfm.skcipher()
        })?;
    }
    Ok(())
}

fn free_with_requests(m: &mut Machine, open: impl Fn(&Machine) -> Skcipher) -> Result<(), String> {
    let before = crypto::memory_in_use();
    let tfm = open(m);
    let answers = m.run(&[&tfm], "free while queued", &[QUEUED; 20]);
    script::give_up(tfm);
    equal("answered", answers?, first_of_all(20))?;
    equal("memory in use", crypto::memory_in_use(), before)
}

/// Rule: where SIMD is usable, a request is processed synchronously.
fn at_once(m: &mut Machine) -> Result<(), String> {
    let tfm = m.tfm();
    let answers = m.run(&[&tfm], "at once", &[OK; 6])?;
    equal("answered", answers, vec![])
}

/// Interrupts the FPU sections of a load. The resulting softirqs make requests that also need an
/// FPU section. Requests that find the FPU in use must complete later, with correct results.
#[test]
fn what_finds_the_fpu_taken_is_answered_later_and_right() {
    run_alone(|seed| {
        if is_synchronous() {
            return;
        }
        let mut m = Machine::boot();
        for full in [false, true] {
            m.cpu.configure(&config(full, 100));
            m.cpu.reset_stats();
            let task = messages(seed, Op::Encrypt, 16384, 8);
            let soft = messages(!seed, Op::Decrypt, 512, 8);
            let mut asked = [(&task, 4), (&soft, 64)].map(|(messages, slots)| {
                let mut tfm = Skcipher::open("xts(aes)", 0, 0).expect("it is there");
                tfm.set_key(messages.raw_key()).expect("64 bytes");
                Asked::new(tfm, slots).expect("memory")
            });
            let work = TaskWork::Ask(asked[0].operation(), task.clone(), 1);
            let plan = Plan {
                softirq: (Worker::Op(asked[1].operation()), soft.clone()),
                hardirq_fpu: true,
                ..plan(work, seed)
            };
            let poisson = Arrivals::Poisson(20_000.0, seed);
            let counts = interrupted(&mut m.cpu, plan, poisson, |load| {
                repeat_until("requests that found the FPU taken", || {
                    load.run(20);
                    load.counts().async_punts >= 2_000
                });
            });
            assert_clean(&format!("full preemption {full}"), &counts);
            // Do not check for dropped requests: on a busy host, more requests may wait than there
            // are slots.
            assert_eq!((counts.reordered, counts.errors), (0, 0), "{counts:?}");
            println!("full preemption {full}: {counts:?}");
        }
    });
}

/// Returns whether all requests complete synchronously on this CPU.
fn is_synchronous() -> bool {
    let generic = best_impl().tier() == Tier::Generic;
    if generic {
        println!("SKIPPED: nothing is asynchronous without SIMD");
    }
    generic
}

type Rule = fn(&mut Machine) -> Result<(), String>;

fn hold(rule: Rule) {
    if is_synchronous() {
        return;
    }
    let mut m = Machine::boot();
    for _ in 0..3 {
        rule(&mut m).unwrap();
    }
}

/// Runs a control: the check for `rule` must fail if cryptd breaks `rules`.
fn fail(rules: u32, rule: Rule) {
    if is_synchronous() {
        return;
    }
    let mut m = Machine::boot();
    broken::set(rules);
    println!("seen: {}", rule(&mut m).expect_err("a broken rule is seen"));
    // Do not drop the machine, because requests that never complete may still be waiting.
    std::mem::forget(m);
}

#[test]
fn a_thousand_wait_and_no_more() {
    run_alone(|_| hold(overflow));
}

#[test]
fn a_queue_without_end_is_seen() {
    run_alone(|_| fail(broken::NO_LIMIT, overflow));
}

#[test]
fn a_missing_backlog_is_seen() {
    run_alone(|_| fail(broken::NO_BACKLOG, overflow));
}

#[test]
fn those_who_cannot_sleep_do_not_overtake() {
    run_alone(|_| hold(order));
}

#[test]
fn overtaking_is_seen() {
    run_alone(|_| fail(broken::UNCOUNTED, order));
}

#[test]
fn a_queue_out_of_order_is_seen() {
    run_alone(|_| fail(broken::LATE_FIRST, order));
}

#[test]
fn a_freed_transform_lives_until_all_is_answered() {
    run_alone(|_| hold(free_while_queued));
}

#[test]
fn a_freed_cryptd_transform_lives_until_all_is_answered() {
    run_alone(|_| hold(free_cryptd_while_queued));
}

#[test]
fn a_freed_authenc_transform_lives_until_all_is_answered() {
    run_alone(|_| hold(free_authenc_while_queued));
}

/// Runs a control in which queued requests use a transform after it has been freed.
fn free_at_once(rule: Rule) {
    let mut m = Machine::boot();
    broken::set(broken::UNCOUNTED);
    println!("lived: {:?}", rule(&mut m));
}

#[test]
fn an_authenc_transform_freed_at_once_is_seen() {
    if !is_synchronous() {
        assert_dies(|_| free_at_once(free_authenc_while_queued));
    }
}

#[test]
fn a_transform_freed_at_once_is_seen() {
    if !is_synchronous() {
        assert_dies(|_| free_at_once(free_while_queued));
    }
}

#[test]
fn a_usable_fpu_needs_no_kworker() {
    run_alone(|_| hold(at_once));
}
