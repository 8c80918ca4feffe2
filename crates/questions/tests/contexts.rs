//! Checks that the context suites detect registers that an FPU policy does not save.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use kiln_kernel::cipher::Impl;
use kiln_kernel::fpu::Policy;
use kiln_questions::test::contexts;
use kiln_questions::test::run::{Job, Part};
use kiln_questions::test::{Family, Suite};

/// Tests hold this lock while they set a policy or breakpoints, because both apply to the whole
/// process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const SEED: u64 = 5;

fn families() -> Vec<Family> {
    [
        "ctr(aes)",
        "gcm(aes)",
        "cbc(aes)",
        "ccm(aes)",
        "rfc7539(chacha20,poly1305)",
        "sha256",
        "sm3",
        "crc32c",
    ]
    .into_iter()
    .map(|alg| {
        Family::of(
            Impl::find_all(alg)
                .into_iter()
                .filter(|i| i.tier().usable())
                .collect(),
        )
    })
    .collect()
}

fn policy(name: &str) -> Policy {
    name.parse().unwrap()
}

fn failed(parts: &[Part]) -> u64 {
    parts.iter().map(|p| p.tally.failed).sum()
}

/// Returns the number of interrupts that occurred in FPU sections, and the number of wrong results.
fn interrupted(policy: Policy) -> (u64, u64) {
    let (mut into, mut wrong) = (0, 0);
    for family in families() {
        let job = Job::new(family, Suite::Interrupted(policy), SEED, Some(0..200), "");
        let (parts, seen) = contexts::one(job, SEED, 2).unwrap();
        into += seen.into_sections;
        wrong += failed(&parts) + seen.corrupted;
        for failure in parts.iter().flat_map(|p| &p.tally.failures) {
            println!("{failure:#?}");
        }
    }
    println!("{policy}: {into} interrupts into sections, {wrong} wrong");
    (into, wrong)
}

#[test]
fn interrupts_before_instructions_of_sections_change_nothing() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for policy in Policy::all().into_iter().filter(|p| !p.is_broken()) {
        let (into, wrong) = interrupted(policy);
        assert!(into > 200, "{policy}: {into} interrupts into sections");
        assert_eq!(wrong, 0, "{policy}");
    }
}

/// Control: under a policy that saves no registers, an interrupted function may misbehave in any
/// way, so the cases run in a child process. Every child must fail: either it reports wrong results
/// with replay commands, or a signal kills it because the heap was corrupted before results were
/// compared. The test starts children until wrong results have been reported both for a call that
/// processes one message and for a call that processes several.
#[test]
fn without_a_policy_that_saves_they_are_found_to() {
    let (mut one, mut several) = (false, false);
    for _ in 0..24 {
        let out = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .env(CHILD, "none")
            .output()
            .unwrap();
        assert_ne!(out.status.code(), Some(0), "nothing was found");
        let text = String::from_utf8_lossy(&out.stdout).into_owned()
            + &String::from_utf8_lossy(&out.stderr);
        println!("{text}{:?}", out.status);
        if out.status.code() == Some(1) {
            for case in reported(&text) {
                let parallel = case.contains(" messages of up to ");
                one |= !parallel;
                several |= parallel;
            }
        }
        if one && several {
            return;
        }
    }
    panic!("reported: a case of one message: {one}, of several: {several}");
}

/// Returns the descriptions of the cases whose replay commands are in `text`.
fn reported(text: &str) -> Vec<String> {
    let commands = text.split("kiln test '").skip(1);
    let cases = commands.filter_map(|command| {
        let (alg, rest) = command.split_once('\'')?;
        let (_, case) = rest.split_once(" --suite interrupted:none --seed 5 --case ")?;
        let digits = case.find(|c: char| !c.is_ascii_digit());
        let case = case[..digits.unwrap_or(case.len())].parse().ok()?;
        let suite = Suite::Interrupted(policy("none"));
        let family = families().into_iter().find(|f| f.alg == alg)?;
        Some(Job::new(family, suite, SEED, None, "").describe(case))
    });
    cases.collect()
}

const CHILD: &str = "KILN_TEST_POLICY";

/// Runs in the child process that the test above starts.
#[test]
#[ignore = "a helper of the test above, which starts it"]
fn child() {
    if let Ok(name) = std::env::var(CHILD) {
        let (_, wrong) = interrupted(policy(&name));
        std::process::exit((wrong > 0).into());
    }
}

#[test]
fn two_cpus_with_timers_do_not_disturb_each_other() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for policy in Policy::all().into_iter().filter(|p| !p.is_broken()) {
        for family in families() {
            let job = Job::new(family, Suite::Contexts(policy), SEED, Some(0..400), "");
            let (parts, seen) = contexts::one(job, SEED, 2).unwrap();
            assert_eq!(
                failed(&parts) + seen.corrupted,
                0,
                "{policy}: {seen:?} {parts:#?}"
            );
            assert!(seen.served > 0);
        }
    }
}

/// Only the policy `preemptible` forbids sections in hardirqs, so scalar code is expected in
/// hardirqs only under this policy.
#[test]
fn the_scalar_code_of_hardirqs_is_expected_where_the_table_says_so() {
    for p in Policy::all() {
        let refused = contexts::refused_in(p);
        assert_eq!(!refused.is_empty(), p == policy("preemptible"), "{p}");
    }
}
