//! A question that is asked of FPU policies, Kiln's own and those of kernel trees, and how its answer is sent out.

use std::sync::atomic::AtomicBool;

use kiln_lab::fpu::{Bench, Outcome, Plan, Progress};
use kiln_lab::{read_facts, Error};
use kiln_record::Facts;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::Serialize;

use super::policies::PolicyArgs;
use super::tree;
use crate::progress::Progress as Bar;
use crate::session::{Exit, Session};
use crate::table;

/// Asks all policies of the plan on this CPU.
type Ask<R> = fn(&Plan, &mut Bench, &AtomicBool, Progress<'_>) -> Result<Outcome<R>, Error>;

/// What is asked, and how its rows are shown.
pub struct Question<R> {
    /// Name of the command in records.
    pub command: &'static str,
    pub ask: Ask<R>,
    /// The table for people.
    pub text: fn(&[R]) -> String,
    /// Whether the machine and the seed are printed for people: answers that depend on neither leave them out.
    pub measures: bool,
    /// The policy that a row is of.
    pub policy: fn(&R) -> &str,
}

impl<R: Serialize + DeserializeOwned + JsonSchema> Question<R> {
    /// Asks Kiln's own policies in this process. Each tree is asked by a child, together with Kiln's own, so that it is measured
    /// under the same conditions. `driver`: of a tree's tasks and softirqs.
    pub fn run(
        &self,
        plan: Plan,
        policies: &PolicyArgs,
        driver: Option<&str>,
        session: &Session,
    ) -> Result<Exit, Error> {
        if let Some(order) = &session.child {
            return tree::in_child(self, plan, driver, order, session);
        }
        let trees = policies.trees()?;
        if !trees.is_empty() {
            tree::check(&plan, &trees, driver)?;
            return tree::run(self, &trees, &policies.build, session);
        }
        let plan = plan.checked()?;
        session.settle();
        let facts = read_facts();
        let outcome = self.measure(&plan, &mut Bench::own(&plan)?, session)?;
        self.emit(&outcome, &facts, session)?;
        Ok(Exit::from_run(outcome.failed, outcome.interrupted))
    }

    /// Asks on a CPU, with a progress bar.
    pub fn measure(
        &self,
        plan: &Plan,
        bench: &mut Bench,
        session: &Session,
    ) -> Result<Outcome<R>, Error> {
        let bar = Bar::start();
        (self.ask)(plan, bench, &session.stop, &mut |done, what| {
            bar.report(done, what)
        })
    }

    /// Sends rows out, with the commands that repeat what was lost: as notes, and for people as lines of their own.
    pub fn emit(
        &self,
        outcome: &Outcome<R>,
        facts: &Facts,
        session: &Session,
    ) -> Result<(), Error> {
        let lines = outcome.replays.iter().map(|r| format!("replay: {r}"));
        let lines: Vec<String> = lines.collect();
        let notes = [&outcome.notes[..], &lines].concat();
        session.emit(self.command, facts, &outcome.rows, &notes, || {
            let text = (self.text)(&outcome.rows);
            if !self.measures {
                let notes = outcome.notes.iter().map(|n| table::paragraph(n) + "\n");
                return text + &notes.collect::<String>();
            }
            // A replay line is copied whole, so it is not broken.
            let lines: String = lines.iter().map(|l| format!("{l}\n")).collect();
            format!(
                "{}\n\n{text}\n{lines}{}",
                table::machine(facts),
                table::notes(&outcome.notes, session.seed)
            )
        })
    }
}
