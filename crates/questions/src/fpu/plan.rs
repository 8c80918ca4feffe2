//! Defines and validates a measurement plan: policies, loads, interrupts and the emulated CPU.

use std::borrow::Cow;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use kiln_kernel::cipher::{Impl, Op};
use kiln_kernel::cpu::{Config, Scheduler};
use kiln_kernel::fpu::Policy;
use kiln_question::algorithm::usable_impl;
use kiln_question::{list, unknown, Algorithm, Error, Share};

use super::inject::{Inject, Steps};
use super::workload::Workload;

/// Highest interrupt rate, in interrupts per second, at which throughput is meaningful. Above this
/// rate, the delivery of signals on the host takes most of the time.
pub(crate) const BUSIEST_TABLE: f64 = 4000.0;

/// A policy that the user requested.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Contender {
    /// One of Kiln's own policies.
    Own(Policy),
    /// The policy of the kernel tree in this directory, given as `tree:DIR`.
    Tree(PathBuf),
}

/// What softirqs do if the FPU is in use. The fallback also determines how the softirqs and the
/// task call the cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fallback {
    /// Softirqs and the task call the cipher directly. If SIMD is not usable, softirqs call the
    /// cipher's scalar code.
    Scalar,
    /// Softirqs and the task call the cipher through the crypto API with the simd helper; a kworker
    /// processes requests that find the FPU in use.
    Cryptd,
}

impl Fallback {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Fallback::Scalar => "scalar",
            Fallback::Cryptd => "cryptd",
        }
    }
}

impl FromStr for Fallback {
    type Err = Error;

    fn from_str(name: &str) -> Result<Fallback, Error> {
        match name {
            "scalar" => Ok(Fallback::Scalar),
            "cryptd" => Ok(Fallback::Cryptd),
            _ => Err(unknown("fallback", name, &["scalar", "cryptd"])),
        }
    }
}

/// A policy and a fallback. Each such combination has a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    pub policy: Policy,
    /// What softirqs do if the FPU is in use.
    pub fallback: Fallback,
}

/// The tree hosted in this process, as it is named in rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TreeName {
    /// The policy's name, as the user gave it: `tree:DIR`.
    pub name: String,
    /// The tree's version, such as `6.12.117`.
    pub version: String,
    pub policy: Policy,
    /// The driver that the tree's tasks and softirqs use; `None` for the tree's best driver.
    pub driver: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The policies, without duplicates. The first one is the reference for all others.
    pub policies: Vec<Policy>,
    /// Fallbacks, without duplicates. They apply only to legacy, the policy under which softirqs
    /// can find the FPU in use.
    pub fallbacks: Vec<Fallback>,
    /// The tree hosted in this process. Its policy is one of `policies`.
    pub tree: Option<TreeName>,
    pub loads: Vec<Workload>,
    /// Source of the interrupts.
    pub inject: Inject,
    /// Interrupts per second.
    pub irq_rate: f64,
    /// Implementation that the task and the softirqs use. `None` selects the best one or, in proof
    /// runs, all implementations that use SIMD.
    pub imp: Option<Impl>,
    /// For proof runs: whether the task keeps a pattern in its registers instead of calling an
    /// implementation.
    pub pattern: bool,
    /// For proof runs: message lengths in bytes; if empty, 16, 31, 512 and 4096.
    pub lens: Vec<usize>,
    /// For proof runs: operations; if empty, both encryption and decryption.
    pub ops: Vec<Op>,
    /// For replays: whether hardirq handlers also open sections.
    pub hardirq_fpu: bool,
    /// Whether preemption is full. If false, it is voluntary.
    pub preempt_full: bool,
    /// The scheduler to emulate.
    pub scheduler: Scheduler,
    /// The number of CPUs for which the scheduler's times are scaled.
    pub scheduler_cpus: u32,
    /// Microseconds that a task may run while another task waits; `None` for the scheduler's
    /// default.
    pub slice_us: Option<u64>,
    /// Microseconds between ticks; `None` for 4000 (250 Hz).
    pub tick_us: Option<u64>,
    /// Seed for every random choice.
    pub seed: u64,
    /// Whether to shorten all measurements.
    pub quick: bool,
    /// Maximum duration; `Duration::MAX` for a campaign that only `interrupts` limits.
    pub budget: Duration,
    /// For campaigns: stop after this many interrupts have hit FPU sections, summed over all
    /// policies. Interrupts under the control policy `none` count only if no other policy is
    /// measured. If `None`, the campaign ends when `budget` is used up.
    pub interrupts: Option<u64>,
    /// Whether `checked` added the control, which saves nothing. It does so if a verdict needs the
    /// control and the user did not request it.
    pub added_control: bool,
    /// For proof runs: the share of the probes that this process runs.
    pub share: Share,
}

impl Plan {
    /// Creates the default plan, with all policies and loads of the policy table.
    pub(crate) fn new(seed: u64, quick: bool) -> Plan {
        Plan {
            policies: Policy::all(),
            fallbacks: vec![Fallback::Scalar],
            tree: None,
            loads: Workload::XTS.to_vec(),
            inject: Inject::Timer,
            irq_rate: 2000.0,
            imp: None,
            pattern: false,
            lens: Vec::new(),
            ops: Vec::new(),
            hardirq_fpu: false,
            preempt_full: false,
            scheduler: Config::default().scheduler,
            scheduler_cpus: 1,
            slice_us: None,
            tick_us: None,
            seed,
            quick,
            budget: Duration::from_secs(if quick { 12 } else { 48 }),
            interrupts: None,
            added_control: false,
            share: Share::default(),
        }
    }

    /// Checks the requested values, fills in default lengths and operations, and adds the control
    /// if a verdict needs it.
    pub(crate) fn checked(mut self) -> Result<Plan, Error> {
        let (rate, ceiling) = (self.irq_rate, self.inject.ceiling());
        if !(1.0..=ceiling).contains(&rate) {
            return Err(Error::input(format!(
                "--irq-rate {rate}: use 1 to {ceiling} per second (throughput is reported up to {BUSIEST_TABLE})"
            )));
        }
        for (flag, us) in [("--slice-us", self.slice_us), ("--tick-us", self.tick_us)] {
            if let Some(us) = us.filter(|us| !(1..=1_000_000).contains(us)) {
                return Err(Error::input(format!(
                    "{flag} {us}: must be 1 to 1000000 µs"
                )));
            }
        }
        if !(1..=8192).contains(&self.scheduler_cpus) {
            return Err(Error::input(format!(
                "--scheduler-cpus {}: use 1 to 8192",
                self.scheduler_cpus
            )));
        }
        for &len in &self.lens {
            if !(16..=65536).contains(&len) {
                return Err(Error::input(format!(
                    "--len {len}: single steps take messages of 16 to 65536 bytes"
                )));
            }
        }
        if let Inject::Step(Steps::At(_) | Steps::Pair(..)) = self.inject {
            self.check_replay()?;
        }
        if self.lens.is_empty() {
            self.lens = vec![16, 31, 512, 4096];
        }
        if self.ops.is_empty() {
            self.ops = vec![Op::Encrypt, Op::Decrypt];
        }
        // The purpose of these runs is a verdict on lost state, which needs the control.
        let verdict = matches!(self.inject, Inject::Breakpoint | Inject::Step(Steps::All));
        if verdict && !self.policies.iter().any(|p| p.is_broken()) {
            let all = Policy::all();
            self.policies.extend(all.iter().filter(|p| p.is_broken()));
            self.added_control = true;
        }
        Ok(self)
    }

    fn check_replay(&self) -> Result<(), Error> {
        let message = !self.pattern;
        let missing = if self.policies.len() != 1 {
            "--policy with one policy"
        } else if message && self.imp.is_none() && !self.tree_has_driver() {
            "--impl"
        } else if message && self.lens.len() != 1 {
            "--len with one length"
        } else if message && self.ops.len() != 1 {
            "--op with one operation"
        } else {
            return Ok(());
        };
        Err(Error::input(format!(
            "--at repeats one injection: it needs {missing}"
        )))
    }

    fn tree_has_driver(&self) -> bool {
        self.tree.as_ref().is_some_and(|t| t.driver.is_some())
    }

    pub(crate) fn name(&self, policy: Policy) -> Cow<'static, str> {
        match &self.tree {
            Some(tree) if tree.policy == policy => tree.name.clone().into(),
            _ => policy.name().into(),
        }
    }

    /// Returns the combinations that have a row in the table. Only Kiln's own `legacy` policy is
    /// combined with several fallbacks: under none of Kiln's other policies can a softirq find the
    /// FPU in use, and a kernel tree uses its own fallback.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for &policy in &self.policies {
            let fallbacks = match policy.name() {
                "legacy" if self.tree_of(policy).is_none() => &self.fallbacks[..],
                _ => &[Fallback::Scalar],
            };
            entries.extend(fallbacks.iter().map(|&fallback| Entry { policy, fallback }));
        }
        entries
    }

    /// Returns the tree that provides `policy`; `None` if the policy is one of Kiln's own.
    pub(crate) fn tree_of(&self, policy: Policy) -> Option<&TreeName> {
        self.tree.as_ref().filter(|t| t.policy == policy)
    }

    /// Returns the configuration of the emulated CPU.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config {
            preempt_full: self.preempt_full,
            ..Config::for_scheduler(self.scheduler, self.scheduler_cpus)
        };
        if let Some(us) = self.slice_us {
            config.slice_us = us;
            // In CFS, two tasks share one scheduling period.
            config.latency_us = 2 * us;
        }
        if let Some(us) = self.tick_us {
            config.tick_us = us;
        }
        config
    }

    /// Returns a note that describes the scheduler and its times, and marks the values that the
    /// user set.
    pub(crate) fn scheduler_note(&self) -> String {
        let c = self.config();
        let by_hand = |set: bool| if set { " (by hand)" } else { "" };
        let slice = match c.scheduler {
            Scheduler::Cfs61 => format!(
                "latency {} µs, wake-up granularity {} µs",
                c.latency_us, c.wakeup_us
            ),
            _ => format!("base slice {} µs", c.slice_us),
        };
        format!(
            "scheduler {} with the time slices of a machine with {} CPU{}, {slice}{}, tick {} µs{}",
            c.scheduler,
            self.scheduler_cpus,
            if self.scheduler_cpus == 1 { "" } else { "s" },
            by_hand(self.slice_us.is_some()),
            c.tick_us,
            by_hand(self.tick_us.is_some())
        )
    }
}

/// Finds a scheduler by name.
pub(crate) fn scheduler(name: &str) -> Result<Scheduler, Error> {
    // The version alone identifies the scheduler, because there is only one for each version.
    let version = |s: &Scheduler| s.name().rsplit('-').next() == Some(name);
    let found = Scheduler::ALL
        .into_iter()
        .find(|s| s.name() == name || version(s));
    found.ok_or_else(|| unknown("scheduler", name, &Scheduler::ALL.map(Scheduler::name)))
}

/// Finds policies by name and removes duplicates. Without names, returns all of Kiln's own
/// policies.
pub(crate) fn contenders(names: &[String]) -> Result<Vec<Contender>, Error> {
    if names.is_empty() {
        return Ok(Policy::all().into_iter().map(Contender::Own).collect());
    }
    let mut list = Vec::new();
    for name in names {
        let contender = match name.strip_prefix("tree:") {
            Some("") => {
                return Err(Error::input(
                    "--policy tree: name a Linux source tree: tree:DIR",
                ))
            }
            Some(dir) => Contender::Tree(dir.into()),
            None => Contender::Own(name.parse().map_err(|_| {
                let all = Policy::all();
                let mut known: Vec<_> = all.iter().map(|p| p.name()).collect();
                known.push("tree:DIR");
                unknown_policy(name, &known)
            })?),
        };
        if !list.contains(&contender) {
            list.push(contender);
        }
    }
    Ok(list)
}

fn unknown_policy(name: &str, known: &[&str]) -> Error {
    match name {
        "cryptd" => Error::input(format!(
            "unknown policy 'cryptd': the policy that uses cryptd is 'legacy': {}",
            list(known)
        )),
        _ => unknown("policy", name, known),
    }
}

/// Finds policies by name, for commands that accept only Kiln's own policies.
pub(crate) fn policies(names: &[String]) -> Result<Vec<Policy>, Error> {
    let all = Policy::all();
    let known: Vec<_> = all.iter().map(|p| p.name()).collect();
    let is_wrong = |name: &&String| !name.starts_with("tree:") && !known.contains(&name.as_str());
    if let Some(name) = names.iter().find(is_wrong) {
        return Err(unknown_policy(name, &known));
    }
    let own = |c| match c {
        Contender::Own(policy) => Ok(policy),
        Contender::Tree(dir) => Err(Error::input(format!(
            "--policy tree:{}: this command takes Kiln's own policies only: kiln fpu takes trees",
            dir.display()
        ))),
    };
    contenders(names)?.into_iter().map(own).collect()
}

/// Finds fallbacks by name and removes duplicates.
pub(crate) fn fallbacks(names: &[String]) -> Result<Vec<Fallback>, Error> {
    let mut list = Vec::new();
    for name in names {
        let fallback = name.parse()?;
        if !list.contains(&fallback) {
            list.push(fallback);
        }
    }
    Ok(list)
}

/// Finds Kiln's AES-XTS implementation called `name`. Returns `None` if `name` is `None`, or if
/// `own` is empty. In the latter case, only kernel trees are measured, and they use their own
/// drivers.
pub(super) fn implementation(name: Option<&str>, own: &[Policy]) -> Result<Option<Impl>, Error> {
    match name {
        Some(name) if !own.is_empty() => usable_impl(Algorithm::XTS_AES, name).map(Some),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(change: impl FnOnce(&mut Plan)) -> String {
        let mut plan = Plan::new(1, true);
        change(&mut plan);
        let e = plan.checked().unwrap_err();
        assert_eq!(e.exit_code(), 2);
        e.to_string()
    }

    #[test]
    fn what_cannot_be_had() {
        assert!(fault(|p| p.irq_rate = 0.0).contains("--irq-rate 0"));
        assert!(fault(|p| p.irq_rate = 1e6).contains("33000"));
        assert!(fault(|p| p.irq_rate = f64::NAN).contains("--irq-rate"));
        assert!(fault(|p| p.slice_us = Some(0)).contains("--slice-us"));
        assert!(fault(|p| p.lens = vec![15]).contains("--len 15"));
        assert!(fault(|p| p.inject = Inject::Step(Steps::At(1))).contains("one policy"));
    }

    #[test]
    fn what_gives_a_verdict_has_the_control() {
        for inject in [Inject::Breakpoint, Inject::Step(Steps::All)] {
            let checked = |policies: Vec<Policy>| {
                let plan = Plan {
                    inject: inject.clone(),
                    policies,
                    ..Plan::new(1, true)
                };
                plan.checked().unwrap()
            };
            let some = checked(vec!["nested".parse().unwrap()]);
            assert!(some.added_control && some.policies[1].is_broken());
            let all = checked(Policy::all());
            assert!(!all.added_control && all.policies == Policy::all());
        }
        let timer = Plan {
            policies: vec!["nested".parse().unwrap()],
            ..Plan::new(1, true)
        };
        assert_eq!(timer.checked().unwrap().policies.len(), 1);
    }

    #[test]
    fn a_scheduler_is_named_in_full_or_by_its_kernel() {
        for kind in Scheduler::ALL {
            assert_eq!(scheduler(kind.name()).unwrap(), kind);
        }
        for (version, name) in [
            ("6.1", "cfs-6.1"),
            ("6.12", "eevdf-6.12"),
            ("7.3", "eevdf-7.3"),
        ] {
            assert_eq!(scheduler(version).unwrap().name(), name);
        }
        for unknown in ["cfs", "6.6", ""] {
            assert!(scheduler(unknown).is_err(), "{unknown}");
        }
    }

    #[test]
    fn names() {
        let list = |s: &str| policies(&s.split(',').map(String::from).collect::<Vec<_>>());
        assert_eq!(list("nested,bh-off,nested").unwrap().len(), 2);
        assert!(list("tree:/x")
            .unwrap_err()
            .to_string()
            .contains("own policies"));
        let trees = contenders(&["tree:/x".into(), "legacy".into(), "tree:/x".into()]).unwrap();
        assert_eq!(trees[0], Contender::Tree("/x".into()));
        assert_eq!(trees.len(), 2);
        assert!(contenders(&["tree:".into()]).is_err());
        assert!(list("bh_off").unwrap_err().to_string().contains("'bh-off'"));
        let cryptd = list("cryptd").unwrap_err().to_string();
        assert!(cryptd.contains("cryptd is 'legacy'"), "{cryptd}");
        let both = ["cryptd", "scalar", "cryptd"].map(String::from);
        assert_eq!(fallbacks(&both).unwrap().len(), 2);
        assert!(fallbacks(&["slow".to_string()]).is_err());
        let mut plan = Plan::new(1, true);
        plan.fallbacks = fallbacks(&both).unwrap();
        assert_eq!(plan.entries().len(), plan.policies.len() + 1);
    }
}
