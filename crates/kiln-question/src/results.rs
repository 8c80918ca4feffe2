//! Outputs results as records, and as human-readable text.

use kiln_measure::{warning, Warning};
use kiln_record::{Facts, Record, SCHEMA};
use schemars::JsonSchema;
use serde::Serialize;

use crate::table::{self, paragraph};
use crate::{
    print, read_facts, replace, tiers, Error, Exit, Outcome, Progress, Question, Report, Session,
};

impl Session {
    /// Returns warnings about disturbances that have occurred during this run. The list is empty
    /// for untimed questions. It is also empty in a child process, because the parent watches the
    /// machine.
    pub fn warnings<Q: Question>(&self, facts: &Facts) -> Vec<Warning> {
        if self.child.is_some() || !Q::TIMED {
            return Vec::new();
        }
        let (before, after) = self.watch.readings(facts.machine.core_hz);
        let mut warnings = warning::judge(&before, &after);
        if Q::OF_TIERS {
            warnings.extend(tiers::warning());
        }
        warnings
    }

    /// Builds this run's record. The row structure determines the record's type.
    pub fn record<'a, Q: Question, R: Serialize + JsonSchema>(
        &'a self,
        facts: &'a Facts,
        rows: &'a [R],
        notes: &'a [String],
    ) -> Record<'a, R> {
        Record {
            kiln: self.program.version,
            commit: self.program.commit,
            features: self.program.features.clone(),
            date: &self.date,
            schema: SCHEMA,
            command: Q::NAME,
            row_type: R::schema_name().into_owned(),
            args: &self.args,
            defaults: Some(&*self.defaults).filter(|list| !list.is_empty()),
            seed: self.seed,
            shard: self.share.part(!self.stopped()),
            machine: facts,
            rows,
            notes,
            records: None,
        }
    }

    /// Runs a question from start to end: reads the facts, measures with a progress bar, and
    /// outputs the results. `view` builds the human-readable tables.
    pub fn answer<Q: Question, R: Serialize + JsonSchema>(
        &self,
        measure: impl FnOnce(&Facts, Report<'_>) -> Result<Outcome<R>, Error>,
        view: impl FnOnce(&[R]) -> String,
    ) -> Result<Exit, Error> {
        let facts = read_facts();
        let progress = Progress::start();
        let outcome = measure(&facts, &mut |done, what| progress.report(done, what))?;
        drop(progress);
        self.show::<Q, R>(&facts, &outcome, view)
    }

    /// Outputs an outcome. The human-readable text consists of a description of the machine, the
    /// tables that `view` builds, the notes and the seed.
    pub fn show<Q: Question, R: Serialize + JsonSchema>(
        &self,
        facts: &Facts,
        outcome: &Outcome<R>,
        view: impl FnOnce(&[R]) -> String,
    ) -> Result<Exit, Error> {
        self.emit::<Q, R>(facts, &outcome.rows, &outcome.notes, || {
            format!(
                "{}\n\n{}\n{}",
                table::machine(facts),
                view(&outcome.rows),
                table::notes(&outcome.notes, self.seed)
            )
        })?;
        Ok(outcome.exit())
    }

    /// Writes an outcome's record to the requested destinations, without human-readable text.
    pub fn save<Q: Question, R: Serialize + JsonSchema>(
        &self,
        outcome: &Outcome<R>,
    ) -> Result<(), Error> {
        match self.global.json || self.global.out.is_some() {
            true => self.emit::<Q, R>(&read_facts(), &outcome.rows, &outcome.notes, String::new),
            false => Ok(()),
        }
    }

    /// Writes the record to the `--out` directory, then prints to stdout either JSON or the text
    /// that `human` returns. Warnings about disturbances are added to the record's notes and to the
    /// end of the text.
    pub fn emit<Q: Question, R: Serialize + JsonSchema>(
        &self,
        facts: &Facts,
        rows: &[R],
        notes: &[String],
        human: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        self.send::<Q, R>(facts, rows, notes, |warnings| human() + warnings)
    }

    /// Like [`Session::emit`], but for text that other programs parse. Warnings are printed to
    /// stderr, so that `text` is printed unchanged.
    pub fn emit_bare<Q: Question, R: Serialize + JsonSchema>(
        &self,
        facts: &Facts,
        rows: &[R],
        notes: &[String],
        text: &str,
    ) -> Result<(), Error> {
        self.send::<Q, R>(facts, rows, notes, |warnings| {
            eprint!("{warnings}");
            text.to_string()
        })
    }

    fn send<Q: Question, R: Serialize + JsonSchema>(
        &self,
        facts: &Facts,
        rows: &[R],
        notes: &[String],
        human: impl FnOnce(&str) -> String,
    ) -> Result<(), Error> {
        let warnings = self.warnings::<Q>(facts);
        let warnings: Vec<String> = warnings.iter().map(Warning::to_string).collect();
        let notes = &[notes, &warnings].concat();
        let record = self.record::<Q, R>(facts, rows, notes);
        if let Some(dir) = &self.global.out {
            let path = dir.join(self.share.file_name(&format!("{}.json", Q::NAME)));
            replace::write(&path, record.to_json().as_bytes())?;
        }
        if self.global.json {
            print(&record.to_json())
        } else if self.global.quiet {
            Ok(())
        } else {
            let defaults = self.defaults.iter().map(ToString::to_string);
            let lines = warnings.iter().cloned().chain(defaults);
            let lines = lines.map(|line| paragraph(&line) + "\n");
            print(&human(&lines.collect::<String>()))
        }
    }
}
