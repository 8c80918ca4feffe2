//! What is asked for, and whether it can be had.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use kiln_kernel::cpu::Config;
use kiln_kernel::fpu::Policy;
use kiln_kernel::xts::{Impl, Op};

use super::inject::{Inject, Steps};
use super::workload::Workload;
use crate::algorithm::unknown;
use crate::Error;

/// Interrupts a second up to which throughput is a figure; above it the host's signals are most of what is measured.
pub const BUSIEST_TABLE: f64 = 4000.0;

/// A policy as asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Contender {
    /// Kiln's own.
    Own(Policy),
    /// `tree:DIR`: a kernel tree's.
    Tree(PathBuf),
}

/// The tree in this process, for rows.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeName {
    /// As asked for: `tree:DIR`.
    pub name: String,
    /// Such as `6.12.117`.
    pub version: String,
    /// Its policy.
    pub policy: Policy,
    /// The driver of its tasks and softirqs; none: the best.
    pub driver: Option<String>,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Policies, each once; the first is the one others are compared with.
    pub policies: Vec<Policy>,
    /// The tree that one of them is of.
    pub tree: Option<TreeName>,
    /// Loads of the table.
    pub loads: Vec<Workload>,
    /// Source of interrupts.
    pub inject: Inject,
    /// Interrupts a second.
    pub irq_rate: f64,
    /// Implementation of task and softirqs; none: the best, in proof runs all that use SIMD.
    pub imp: Option<Impl>,
    /// Proof runs: the pattern-keeping task instead of an implementation.
    pub pattern: bool,
    /// Proof runs: lengths; none: 16, 31, 512 and 4096.
    pub lens: Vec<usize>,
    /// Proof runs: operations; none: both.
    pub ops: Vec<Op>,
    /// Replays: hardirq handlers open sections, too.
    pub hardirq_fpu: bool,
    /// Full preemption instead of voluntary.
    pub preempt_full: bool,
    /// Microseconds a task runs while another waits.
    pub slice_us: u64,
    /// Every random choice follows from it.
    pub seed: u64,
    /// Fewer of everything.
    pub quick: bool,
    /// How long it may take.
    pub budget: Duration,
}

impl Plan {
    /// The whole table.
    pub fn new(seed: u64, quick: bool) -> Plan {
        Plan {
            policies: Policy::all(),
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
            slice_us: Config::default().slice_us,
            seed,
            quick,
            budget: Duration::from_secs(if quick { 12 } else { 48 }),
        }
    }

    /// Whether all that is asked for can be had.
    pub fn checked(mut self) -> Result<Plan, Error> {
        let (rate, ceiling) = (self.irq_rate, self.inject.ceiling());
        if !(1.0..=ceiling).contains(&rate) {
            return Err(Error::input(format!(
                "--irq-rate {rate}: this source does 1 to {ceiling} a second; throughput is a figure up to {BUSIEST_TABLE}"
            )));
        }
        if !(1..=1_000_000).contains(&self.slice_us) {
            return Err(Error::input(format!(
                "--slice-us {}: a slice lasts 1 to 1000000 µs",
                self.slice_us
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
            "--inject step:K replays one injection: it needs {missing}"
        )))
    }

    fn tree_has_driver(&self) -> bool {
        self.tree.as_ref().is_some_and(|t| t.driver.is_some())
    }

    /// What a policy is called.
    pub fn name(&self, policy: Policy) -> Cow<'static, str> {
        match &self.tree {
            Some(tree) if tree.policy == policy => tree.name.clone().into(),
            _ => policy.name().into(),
        }
    }

    /// The tree, if it is its policy.
    pub fn tree_of(&self, policy: Policy) -> Option<&TreeName> {
        self.tree.as_ref().filter(|t| t.policy == policy)
    }

    /// The CPU as asked for.
    pub fn config(&self) -> Config {
        Config {
            preempt_full: self.preempt_full,
            slice_us: self.slice_us,
            ..Config::default()
        }
    }
}

/// Policies from their names, each once; none: all of Kiln's own.
pub fn contenders(names: &[String]) -> Result<Vec<Contender>, Error> {
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
                unknown("policy", name, &known)
            })?),
        };
        if !list.contains(&contender) {
            list.push(contender);
        }
    }
    Ok(list)
}

/// The same where only Kiln's own will do.
pub fn policies(names: &[String]) -> Result<Vec<Policy>, Error> {
    let own = |c| match c {
        Contender::Own(policy) => Ok(policy),
        Contender::Tree(dir) => Err(Error::input(format!(
            "--policy tree:{}: this takes Kiln's own policies only",
            dir.display()
        ))),
    };
    contenders(names)?.into_iter().map(own).collect()
}

/// Whether this build has the fallback.
pub fn fallback(name: &str) -> Result<(), Error> {
    match name {
        "scalar" => Ok(()),
        "cryptd" => Err(Error::input(
            "--fallback cryptd: cryptd is not part of this build: use --fallback scalar",
        )),
        _ => Err(unknown("fallback", name, &["scalar", "cryptd"])),
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
        assert!(fault(|p| p.slice_us = 0).contains("--slice-us"));
        assert!(fault(|p| p.lens = vec![15]).contains("--len 15"));
        assert!(fault(|p| p.inject = Inject::Step(Steps::At(1))).contains("one policy"));
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
        assert!(fallback("cryptd").is_err() && fallback("scalar").is_ok());
    }
}
