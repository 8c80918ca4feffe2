//! `kiln fpu prove breakpoint`: the command's arguments and its entry point.

use std::time::Duration;

use clap::Args;
use kiln_question::{parse_seconds, Error, Exit, Question, Session};

use super::ask::Ask;
use super::cpu_args::CpuArgs;
use super::inject::Inject;
use super::load_args::LoadArgs;
use super::plan::{implementation, Plan};
use super::policy_args::PolicyArgs;
use super::row::Row;
use super::{run, view};

/// Interrupt FPU sections at random instructions, for N seconds or N times
///
/// Breakpoints interrupt sections until --seconds have passed or --interrupts have hit a section;
/// totals are printed at the end. The output of every call and the user-mode registers are checked.
/// A control policy that saves nothing is added; it must lose state.
#[derive(Args)]
#[command(after_long_help = "\
Exit status:
  1 if state was lost under any policy other than \"none\" (the control, which
  saves nothing); also if a loss could not have been seen (\"no power\"),
  because that control lost too little or a policy was interrupted too rarely

Environment:
  KILN_TIERS=generic,aesni   use only these ISA tiers; 'kiln list' shows all

Examples:
  kiln fpu prove breakpoint --seconds 20
  kiln fpu prove breakpoint --policy nested --load xts-4096 --interrupts 1G

See also:
  docs/EMULATION.md, docs/TREES.md")]
pub(super) struct BreakpointArgs {
    #[command(flatten)]
    policies: PolicyArgs,
    #[command(flatten)]
    load: LoadArgs,
    /// Cipher implementation that the task and the softirqs use [default: the best]
    #[arg(long = "impl", value_name = "NAME")]
    imp: Option<String>,
    /// Stop after N seconds, divided among all loads [default: 48, with --quick 12; with
    /// --interrupts no limit]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seconds: Option<f64>,
    /// Stop after N interrupts have hit FPU sections, in total under all policies except the
    /// control 'none'. N can be written as 500000, 10M, 1G or 1e9
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = parse_count)]
    interrupts: Option<u64>,
    #[command(flatten)]
    cpu: CpuArgs,
}

/// Parses a count such as 500000, 10M, 1G or 1e9.
fn parse_count(text: &str) -> Result<u64, String> {
    let (number, scale) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some((at, 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    match number.parse::<f64>().map(|n| n * scale) {
        // A double can represent every whole number up to this limit.
        Ok(n) if (1.0..=9e15).contains(&n) && n.fract() == 0.0 => Ok(n as u64),
        _ => Err(
            "expected a whole number from 1 to 9e15, such as 500000, 10M, 1G or 1e9".to_string(),
        ),
    }
}

impl BreakpointArgs {
    fn plan(&self, session: &Session) -> Result<Plan, Error> {
        let usual = self.cpu.plan(session)?;
        let policies = self.policies.own()?;
        Ok(Plan {
            imp: implementation(self.imp.as_deref(), &policies)?,
            fallbacks: self.load.fallbacks(usual.fallbacks, &policies)?,
            policies,
            loads: self.load.loads(usual.loads)?,
            inject: Inject::Breakpoint,
            budget: match (parse_seconds(self.seconds, 0.1)?, self.interrupts) {
                (Some(asked), _) => asked,
                (None, Some(_)) => Duration::MAX,
                (None, None) => usual.budget,
            },
            interrupts: self.interrupts,
            ..usual
        })
    }
}

impl Question for BreakpointArgs {
    const NAME: &'static str = "fpu-prove";
    const TIMED: bool = true;
    const OF_TIERS: bool = true;

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let ask = Ask::<Row> {
            measure: run::run,
            view: view::campaign,
            measures: true,
            policy: |row| &row.policy,
        };
        let plan = self.plan(session)?;
        ask.run::<Self>(plan, &self.policies, self.imp.as_deref(), session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_suffixes() {
        for (text, want) in [
            ("1", 1),
            ("500000", 500_000),
            ("1.5k", 1500),
            ("10M", 10_000_000),
            ("1G", 1_000_000_000),
            ("1e9", 1_000_000_000),
        ] {
            assert_eq!(parse_count(text), Ok(want), "{text}");
        }
        for text in ["", "0", "-1", "1.5", "nan", "inf", "1T", "k", "1e16", "é"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }
}
