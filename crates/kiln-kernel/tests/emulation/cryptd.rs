//! The rules of the simd helper and cryptd, each with a control in which it is broken.

use kiln_kernel::cipher::{Context, Kind, Op, BLOCK};
use kiln_kernel::cpu::Cpu;
use kiln_kernel::crypto::{
    self, authenc_key, broken, Asked, Errno, Model, Skcipher, Transform, MAY_BACKLOG,
};
use kiln_kernel::fpu::Context::Softirq;
use kiln_kernel::irq::{Arrivals, Timer};
use kiln_kernel::load::{best_impl, Load, Plan, TaskWork, Worker};
use kiln_kernel::script::{self, Event, Outcome, Step};
use kiln_kernel::Tier;

use crate::aead::{call, AUTHENC};
use crate::corruption::config;
use crate::machine::{alone, assert_clean, boot, dies, judge, messages, policy, until};

/// Requests a queue takes.
const LIMIT: u32 = 1000;

const OK: Errno = Errno(0);
const QUEUED: Errno = Errno::IN_PROGRESS;

struct Machine {
    cpu: Cpu,
    src: Vec<u8>,
    want: Vec<u8>,
}

/// The halves of an XTS key must differ.
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

    /// The transform that a user gets.
    fn tfm(&self) -> Skcipher {
        open_keyed("xts(aes)")
    }

    fn run(&mut self, tfms: &[&Skcipher], steps: &[Step]) -> Outcome {
        let message = (&self.src[..], &self.want[..], &IV);
        script::run(&mut self.cpu, tfms, steps, message)
    }
}

fn open_keyed(name: &str) -> Skcipher {
    let mut tfm = Skcipher::open(name, 0, 0).expect("it is there");
    tfm.set_key(&RAW_KEY).expect("64 bytes");
    tfm
}

fn returned(events: &[Event]) -> Vec<Errno> {
    let returns = events.iter().filter(|e| !e.answer);
    returns.map(|e| e.err).collect()
}

/// The requests that were answered and their results, in that order.
fn answers(events: &[Event]) -> Vec<(u32, Errno)> {
    let answers = events.iter().filter(|e| e.answer);
    answers.map(|e| (e.request, e.err)).collect()
}

/// What every script must show, whatever it is about.
fn sound(outcome: &Outcome) -> Result<(), String> {
    if let Some(step) = outcome.stuck {
        return Err(format!("step {step} never ended"));
    }
    for e in &outcome.events {
        if e.wrong {
            return Err(format!("wrong bytes: {e:?}"));
        }
        // Answers come from the kworker, with softirqs off.
        if e.answer && (!e.kthread || e.preempt_count != 0x200) {
            return Err(format!("told in the wrong place: {e:?}"));
        }
    }
    Ok(())
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, got: T, want: T) -> Result<(), String> {
    if got == want {
        Ok(())
    } else {
        Err(format!("{what}: {got:?} where the rule says {want:?}"))
    }
}

/// 1000 wait at most, more only if they say that they may.
fn overflow(m: &mut Machine) -> Result<(), String> {
    let tfm = m.tfm();
    let out = m.run(
        &[&tfm],
        &[
            Step::SectionBegin,
            Step::Submit(0, Softirq, 0, LIMIT),
            Step::Submit(0, Softirq, 0, 1),
            Step::Submit(0, Softirq, MAY_BACKLOG, 2),
            Step::Submit(0, Softirq, 0, 1),
            Step::SectionEnd,
            Step::Run(LIMIT + 2),
        ],
    );
    let mut want = vec![QUEUED; LIMIT as usize];
    want.extend([Errno::NO_SPACE, Errno::BUSY, Errno::BUSY, Errno::NO_SPACE]);
    equal("returned", returned(&out.events), want)?;
    sound(&out)?;
    // Each that leaves lets one of the backlog in, which is told so first.
    let (first, second) = (LIMIT + 1, LIMIT + 2);
    let mut want = vec![(first, QUEUED), (0, OK), (second, QUEUED), (1, OK)];
    want.extend((2..LIMIT).map(|i| (i, OK)));
    want.extend([(first, OK), (second, OK)]);
    equal("answered", answers(&out.events), want)
}

/// Who cannot sleep does not overtake what waits on the same transform; who can may, and
/// others are free.
fn order(m: &mut Machine) -> Result<(), String> {
    let (tfm, other) = (m.tfm(), m.tfm());
    let out = m.run(&[&tfm, &other], &script::scenario("order"));
    equal(
        "returned",
        returned(&out.events),
        vec![QUEUED, QUEUED, QUEUED, QUEUED, QUEUED, OK, OK, OK, OK],
    )?;
    sound(&out)?;
    equal(
        "answered",
        answers(&out.events),
        (0..5).map(|i| (i, OK)).collect(),
    )
}

/// A transform that its owner frees lives until what waits on it is answered.
fn free_while_queued(m: &mut Machine) -> Result<(), String> {
    free_with_requests(m, Machine::tfm)
}

/// The same for a transform of cryptd itself.
fn free_cryptd_while_queued(m: &mut Machine) -> Result<(), String> {
    free_with_requests(m, |_| open_keyed("cryptd(xts-aes-fixed-time)"))
}

/// The same for authenc, whose tags are made when the cipher's answers come.
fn free_authenc_while_queued(m: &mut Machine) -> Result<(), String> {
    let (auth, enc) = ([1; 32], [2; 32]);
    let text = vec![0x33; 64];
    let (sealed, _) = call("cbc(aes)", &enc, Op::Encrypt, &IV, &[], &text, 0);
    let (_, tag) = call("hmac(sha256)", &auth, Op::Encrypt, &[], &[], &sealed, 0);
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
    let out = m.run(&[&tfm], &script::scenario("free while queued"));
    script::give_up(tfm);
    equal("returned", returned(&out.events), vec![QUEUED; 20])?;
    sound(&out)?;
    equal(
        "answered",
        answers(&out.events),
        (0..20).map(|i| (i, OK)).collect(),
    )?;
    equal("memory in use", crypto::memory_in_use(), before)
}

/// Where SIMD can be used a request is served at once.
fn at_once(m: &mut Machine) -> Result<(), String> {
    let tfm = m.tfm();
    let out = m.run(&[&tfm], &script::scenario("at once"));
    equal("returned", returned(&out.events), vec![OK; 6])?;
    sound(&out)?;
    equal("answered", answers(&out.events), vec![])
}

/// Under a load: sections that interrupts come into, softirqs that ask the crypto API for it.
#[test]
fn what_finds_the_fpu_taken_is_answered_later_and_right() {
    alone(
        "cryptd::what_finds_the_fpu_taken_is_answered_later_and_right",
        |seed| {
            if is_synchronous() {
                return;
            }
            let mut m = Machine::boot();
            for full in [false, true] {
                m.cpu.configure(&config(full));
                m.cpu.reset_stats();
                let task = messages(seed, Op::Encrypt, 16384, 8);
                let soft = messages(!seed, Op::Decrypt, 512, 8);
                let mut asked = [(&task, 4), (&soft, 64)].map(|(of, slots)| {
                    let mut tfm = Skcipher::open("xts(aes)", 0, 0).expect("it is there");
                    tfm.set_key(of.raw_key()).expect("64 bytes");
                    Asked::new(tfm, slots).expect("memory")
                });
                let plan = Plan {
                    task: TaskWork::Ask(asked[0].operation(), task.clone(), 1),
                    softirq: (Worker::Op(asked[1].operation()), soft.clone()),
                    fallback: judge(),
                    second: None,
                    hardirq_fpu: true,
                };
                let mut load = Load::attach(&mut m.cpu, plan).expect("tiers are there");
                let timer = Timer::start(load.cpu(), Arrivals::Poisson(20_000.0, seed));
                until("requests that found the FPU taken", || {
                    load.run(20);
                    load.counts().async_punts >= 2_000
                });
                drop(timer);
                let counts = load.counts();
                assert_clean(&format!("full preemption {full}"), &counts);
                // A busy host may let more of them wait than there are slots.
                assert_eq!((counts.reordered, counts.errors), (0, 0), "{counts:?}");
                println!("full preemption {full}: {counts:?}");
            }
        },
    );
}

/// Whether all requests are answered at once here.
fn is_synchronous() -> bool {
    let generic = best_impl().tier() == Tier::Generic;
    if generic {
        println!("SKIPPED: nothing is asynchronous without SIMD");
    }
    generic
}

type Rule = fn(&mut Machine) -> Result<(), String>;

fn holds(name: &str, rule: Rule) {
    alone(name, |_| {
        if is_synchronous() {
            return;
        }
        let mut m = Machine::boot();
        for _ in 0..3 {
            rule(&mut m).unwrap();
        }
    });
}

/// The control: with these rules of cryptd broken the test of `rule` fails.
fn fails(name: &str, rules: u32, rule: Rule) {
    alone(name, |_| {
        if is_synchronous() {
            return;
        }
        let mut m = Machine::boot();
        broken::set(rules);
        println!("seen: {}", rule(&mut m).expect_err("a broken rule is seen"));
        // Requests may wait that nobody will come back for.
        std::mem::forget(m);
    });
}

#[test]
fn a_thousand_wait_and_no_more() {
    holds("cryptd::a_thousand_wait_and_no_more", overflow);
}

#[test]
fn a_queue_without_end_is_seen() {
    fails(
        "cryptd::a_queue_without_end_is_seen",
        broken::NO_LIMIT,
        overflow,
    );
}

#[test]
fn a_missing_backlog_is_seen() {
    fails(
        "cryptd::a_missing_backlog_is_seen",
        broken::NO_BACKLOG,
        overflow,
    );
}

#[test]
fn those_who_cannot_sleep_do_not_overtake() {
    holds("cryptd::those_who_cannot_sleep_do_not_overtake", order);
}

#[test]
fn overtaking_is_seen() {
    fails("cryptd::overtaking_is_seen", broken::UNCOUNTED, order);
}

#[test]
fn a_queue_out_of_order_is_seen() {
    fails(
        "cryptd::a_queue_out_of_order_is_seen",
        broken::LATE_FIRST,
        order,
    );
}

#[test]
fn a_freed_transform_lives_until_all_is_answered() {
    holds(
        "cryptd::a_freed_transform_lives_until_all_is_answered",
        free_while_queued,
    );
}

#[test]
fn a_freed_cryptd_transform_lives_until_all_is_answered() {
    holds(
        "cryptd::a_freed_cryptd_transform_lives_until_all_is_answered",
        free_cryptd_while_queued,
    );
}

#[test]
fn a_freed_authenc_transform_lives_until_all_is_answered() {
    holds(
        "cryptd::a_freed_authenc_transform_lives_until_all_is_answered",
        free_authenc_while_queued,
    );
}

/// The control of a transform that is freed at once: its memory is used afterwards.
fn frees_at_once(name: &str, rule: Rule) {
    if is_synchronous() {
        return;
    }
    dies(name, |_| {
        let mut m = Machine::boot();
        broken::set(broken::UNCOUNTED);
        println!("lived: {:?}", rule(&mut m));
    });
}

#[test]
fn an_authenc_transform_freed_at_once_is_seen() {
    frees_at_once(
        "cryptd::an_authenc_transform_freed_at_once_is_seen",
        free_authenc_while_queued,
    );
}

#[test]
fn a_transform_freed_at_once_is_seen() {
    frees_at_once(
        "cryptd::a_transform_freed_at_once_is_seen",
        free_while_queued,
    );
}

#[test]
fn a_usable_fpu_needs_no_kworker() {
    holds("cryptd::a_usable_fpu_needs_no_kworker", at_once);
}
