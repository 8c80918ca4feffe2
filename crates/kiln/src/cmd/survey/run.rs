//! The run of a survey: part after part, each printed as soon as its question is answered.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use kiln_lab::record::Facts;
use kiln_lab::survey::child::{self, Watch};
use kiln_lab::survey::{self, Answer, Bundle, Ended, LeftOut, Plan, Question, Row, Step};
use kiln_lab::{replace, Error};
use kiln_measure::{warning, Warning};
use serde_json::Value;

use super::page::Page;
use crate::output::print;
use crate::progress::Progress;
use crate::session::{Exit, Session};
use crate::table;

/// A part that takes so many times what it was given, and these seconds, hangs.
const PATIENCE: f64 = 3.0;
const PATIENCE_S: f64 = 10.0;

/// A survey under way.
pub struct Survey<'a> {
    plan: Plan,
    session: &'a Session,
    answers: Vec<Answer>,
    left_out: Vec<LeftOut>,
    notes: Vec<String>,
    /// How many rows of each question are.
    printed: Vec<(Question, usize)>,
}

impl<'a> Survey<'a> {
    pub fn new(plan: Plan, session: &'a Session) -> Survey<'a> {
        Survey {
            left_out: plan.left_out.clone(),
            plan,
            session,
            answers: Vec::new(),
            notes: Vec::new(),
            printed: Vec::new(),
        }
    }

    /// Says where.
    pub fn begin(&self, facts: &Facts) -> Result<(), Error> {
        self.say(&format!("{}\n\n", table::machine(facts)))
    }

    /// Runs all parts.
    pub fn ask(&mut self) -> Result<(), Error> {
        let progress = Progress::start();
        let (start, whole) = (Instant::now(), self.plan.seconds());
        for (i, step) in self.plan.steps.clone().iter().enumerate() {
            if self.session.stopped() {
                break;
            }
            let before: f64 = self.plan.steps[..i].iter().map(|s| s.seconds).sum();
            let began = Instant::now();
            let answer = self.part(step, &mut || {
                // By what was planned: a part does not know of the others.
                let part = began.elapsed().as_secs_f64().min(step.seconds);
                progress.report((before + part) / whole, step.part.question().name());
            })?;
            self.judge(&answer);
            self.answers.push(answer);
            let question = step.part.question();
            let goes_on = self.plan.steps[i + 1..]
                .iter()
                .any(|s| s.part.question() == question);
            let first = question == Question::Speed && i == 0;
            if first || !goes_on || self.session.stopped() {
                progress.above(|| self.tell(question))?;
            }
        }
        let took = start.elapsed().as_secs_f64();
        if took > 1.25 * whole && !self.session.stopped() {
            self.notes.push(format!(
                "the survey took {took:.0} s and not {whole:.0}: this machine is slower or busier than it was planned for"
            ));
        }
        Ok(())
    }

    /// One process.
    fn part(&self, step: &Step, tick: &mut dyn FnMut()) -> Result<Answer, Error> {
        let mut args = step.args.clone();
        let seed = self.session.seed.to_string();
        args.extend(["--json", "--seed", &seed].map(String::from));
        if let Some(list) = &self.session.global.cpu {
            args.extend(["--cpu".to_string(), list.clone()]);
        }
        let patience = PATIENCE * step.seconds + PATIENCE_S;
        let left = child::run(
            "/proc/self/exe",
            &args,
            &mut Watch {
                stop: &self.session.stop,
                patience: Duration::from_secs_f64(patience),
                tick,
            },
        )?;
        Ok(Answer::of(step.part, left))
    }

    /// What an end means for the survey.
    fn judge(&mut self, answer: &Answer) {
        let name = answer.part.name();
        let question = answer.part.question();
        match &answer.ended {
            Ended::Lacks(why) => {
                // Such lines end with what would help.
                let (what, add) = why.rsplit_once(": ").unwrap_or((why, question.command()));
                self.left_out.push(LeftOut {
                    question,
                    what: format!("{name}: {what}"),
                    add: add.to_string(),
                });
            }
            Ended::Died(why) => self.notes.push(format!(
                "{name}: {why}: no figures of it; run it alone: {}",
                question.command()
            )),
            Ended::Failed => {
                self.notes.push(format!(
                    "{name}: A CHECK FAILED: {} says which",
                    question.command()
                ));
            }
            Ended::Done | Ended::Interrupted => {}
        }
        for (peer, add) in answer.peers_left_out() {
            let what = format!("peer {peer}: not here");
            if !self.left_out.iter().any(|l| l.what == what) {
                self.left_out.push(LeftOut {
                    question,
                    what,
                    add: add.to_string(),
                });
            }
        }
    }

    /// Prints what is new of a question's block.
    fn tell(&mut self, question: Question) -> Result<(), Error> {
        let rows = survey::rows(question, &self.answers);
        let of = self.printed.iter().filter(|p| p.0 == question);
        let before = of.map(|p| p.1).max().unwrap_or(0);
        if rows.len() <= before {
            return Ok(());
        }
        self.printed.push((question, rows.len()));
        self.say(&(table::survey::block(question, &rows[before..], self.session.tty) + "\n"))
    }

    /// To people alone.
    fn say(&self, text: &str) -> Result<(), Error> {
        match self.session.global.json {
            true => Ok(()),
            false => print(text),
        }
    }

    /// All rows; a question without an answer has one of nulls, and a note, which people know from what was left out.
    fn rows(&self) -> (Vec<Row>, Vec<String>) {
        let (mut all, mut notes) = (Vec::new(), Vec::new());
        for question in Question::ALL {
            let rows = survey::rows(question, &self.answers);
            if rows.is_empty() {
                let told = self.left_out.iter().filter(|l| l.question == question);
                let why: Vec<String> = told.map(|l| format!("{}: {}", l.what, l.add)).collect();
                let why = match why.as_slice() {
                    _ if self.session.stopped() => "interrupted".to_string(),
                    [] if !self.plan.asks(question) => "not asked".to_string(),
                    [] => "no figure came of it".to_string(),
                    why => why.join("; "),
                };
                notes.push(format!("{}: left out: {why}", question.name()));
                all.push(Row::none(question));
            }
            all.extend(rows);
        }
        (all, notes)
    }

    /// What disturbed the survey; and what a part alone saw, with its name.
    fn warnings(&self, facts: &Facts) -> Vec<String> {
        let own = self.session.warnings("survey", facts);
        let mut kinds: Vec<&str> = own.iter().map(|w| w.kind.name()).collect();
        let mut lines: Vec<String> = own.iter().map(Warning::to_string).collect();
        for answer in &self.answers {
            for line in answer.warnings() {
                let rest = &line[warning::PREFIX.len()..];
                let kind = rest.split(':').next().unwrap_or_default();
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                    lines.push(format!("{line} (in {})", answer.part.name()));
                }
            }
        }
        lines
    }

    /// Records, page and the last lines.
    pub fn end(&self, facts: &Facts, page: Option<&Page>) -> Result<Exit, Error> {
        let warnings = self.warnings(facts);
        let (rows, without) = self.rows();
        let left = self
            .left_out
            .iter()
            .map(|l| format!("left out: {}: {}", l.what, l.add));
        let mut notes = [self.notes.clone(), without].concat();
        notes.extend(left);
        notes.extend(warnings.iter().cloned());
        let records: Vec<Value> = self
            .answers
            .iter()
            .filter_map(|a| a.record.clone())
            .collect();
        let mut last = String::new();
        if let Some(page) = page {
            let bundle = Bundle::new(
                self.session.record("survey", facts, &rows, &notes),
                &records,
            );
            last = page.write(&bundle.to_value()).unwrap_or_else(|e| {
                // The survey is done; that nobody may write there is told.
                let note = format!("no report: {e}");
                notes.push(note.clone());
                note
            });
            last = table::paragraph(&last) + "\n";
        }
        let text = Bundle::new(
            self.session.record("survey", facts, &rows, &notes),
            &records,
        )
        .to_json();
        if let Some(dir) = &self.session.global.out {
            replace::write(&dir.join("survey.json"), text.as_bytes())?;
            self.records(dir)?;
        }
        if self.session.global.json {
            print(&text)?;
        } else {
            let told: String = self
                .notes
                .iter()
                .chain(&warnings)
                .map(|n| table::paragraph(n) + "\n")
                .collect();
            let seed = table::notes(&[], self.session.seed);
            let left = table::survey::left_out(&self.left_out);
            let gap = if left.is_empty() { "" } else { "\n" };
            print(&format!("{left}{gap}{told}{seed}{last}"))?;
        }
        let failed = self.answers.iter().any(|a| a.ended == Ended::Failed);
        Ok(match failed {
            true => Exit::Failed,
            false if self.session.stopped() => Exit::Interrupted,
            false => Exit::Done,
        })
    }

    /// A file for each part, as its command wrote it.
    fn records(&self, dir: &Path) -> Result<(), Error> {
        for answer in &self.answers {
            let path = dir.join(format!("{}.json", answer.part.name()));
            match &answer.text {
                Some(text) => replace::write(&path, text.as_bytes())?,
                // One of an earlier survey would pass for this one's.
                None => drop(fs::remove_file(&path)),
            }
        }
        Ok(())
    }
}
