//! Runs one measurement for all FPU policies, both Kiln's own and those of kernel trees, and prints
//! the rows.

use std::sync::atomic::AtomicBool;

use kiln_question::{read_facts, table, Error, Exit, Outcome, Progress, Question, Report, Session};
use kiln_record::Facts;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::Serialize;

use super::bench::Bench;
use super::plan::Plan;
use super::policy_args::PolicyArgs;
use super::replay::REPLAY;
use super::tree;

/// A function that measures all policies of a plan on the CPU of the calling thread.
type Measure<R> = fn(&Plan, &mut Bench, &AtomicBool, Report<'_>) -> Result<Outcome<R>, Error>;

/// A measurement of FPU policies, and how to show the rows that it returns.
pub(super) struct Ask<R> {
    pub measure: Measure<R>,
    /// Function that formats the table for the terminal.
    pub view: fn(&[R]) -> String,
    /// Whether the terminal output includes the machine and the seed. Set it to false if the
    /// answers depend on neither.
    pub measures: bool,
    /// Function that returns a row's policy.
    pub policy: fn(&R) -> &str,
}

impl<R: Serialize + DeserializeOwned + JsonSchema> Ask<R> {
    /// Measures Kiln's own policies in this process. Each tree is measured in a child process
    /// together with Kiln's own policies, so that the conditions are the same. `driver` is the name
    /// of the driver that a tree's tasks and softirqs use.
    pub(super) fn run<Q: Question>(
        &self,
        plan: Plan,
        policies: &PolicyArgs,
        driver: Option<&str>,
        session: &Session,
    ) -> Result<Exit, Error> {
        if let Some(order) = &session.child {
            session.settle();
            let facts = read_facts();
            let (plan, mut bench) = tree::boot(plan, driver, order)?;
            return self.run_on::<Q>(&plan, &mut bench, &facts, session);
        }
        let trees = policies.trees()?;
        if !trees.is_empty() {
            tree::check(&plan, &trees, driver)?;
            let (outcome, exit) = tree::run(&trees, &policies.build, self.policy, session)?;
            if let Some(outcome) = outcome {
                self.emit::<Q>(outcome, &read_facts(), session)?;
            }
            return Ok(exit);
        }
        let plan = plan.checked()?;
        session.settle();
        let facts = read_facts();
        self.run_on::<Q>(&plan, &mut Bench::boot_own(&plan)?, &facts, session)
    }

    /// Measures on this CPU with a progress bar, and prints the rows.
    fn run_on<Q: Question>(
        &self,
        plan: &Plan,
        bench: &mut Bench,
        facts: &Facts,
        session: &Session,
    ) -> Result<Exit, Error> {
        let progress = Progress::start();
        let outcome = (self.measure)(plan, bench, &session.stop, &mut |done, what| {
            progress.report(done, what)
        })?;
        drop(progress);
        let exit = outcome.exit();
        self.emit::<Q>(outcome, facts, session)?;
        Ok(exit)
    }

    /// Prints rows and notes. In records, the commands that reproduce losses are the last notes; on
    /// the terminal, each of these commands is printed on a separate line.
    fn emit<Q: Question>(
        &self,
        outcome: Outcome<R>,
        facts: &Facts,
        session: &Session,
    ) -> Result<(), Error> {
        let is_replay = |note: &String| note.starts_with(REPLAY);
        let (replays, notes): (Vec<String>, Vec<String>) =
            outcome.notes.into_iter().partition(is_replay);
        let all = [&notes[..], &replays].concat();
        session.emit::<Q, R>(facts, &outcome.rows, &all, || {
            let text = (self.view)(&outcome.rows);
            if !self.measures {
                let notes = notes.iter().map(|n| table::paragraph(n) + "\n");
                return text + &notes.collect::<String>();
            }
            // Replay lines are not wrapped, because users copy each of them in one piece.
            let lines: String = replays.iter().map(|l| format!("{l}\n")).collect();
            format!(
                "{}\n\n{text}\n{lines}{}",
                table::machine(facts),
                table::notes(&notes, session.seed)
            )
        })
    }
}
