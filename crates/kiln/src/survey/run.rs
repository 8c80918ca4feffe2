//! Runs a survey: makes several passes over its parts and combines the results.

use std::fs;
use std::time::{Duration, Instant};

use kiln_measure::{warning, Warning};
use kiln_question::child::{self, Watch};
use kiln_question::survey::{Answer, Ended, Row, Topic, PROCESSES};
use kiln_question::{print, replace, table, Error, Exit, Progress, Question, Session};
use kiln_questions::headlines;
use kiln_questions::report::page::Page;
use kiln_record::{Facts, Record};
use serde_json::Value;

use super::plan::{topics, LeftOut, Plan, Step};
use super::view;

/// A part is considered hung after `PATIENCE` times its planned time plus `PATIENCE_S` seconds.
const PATIENCE: f64 = 3.0;
const PATIENCE_S: f64 = 10.0;
/// Replaces `PATIENCE_S` for parts that may first have to build a tree. The value includes a margin
/// for a loaded machine.
const BUILDING_S: f64 = 900.0;

/// Explains the numbers on the screen; see [`kiln_question::survey::Estimate`].
const INTERVALS: &str =
    "Kiln measures its own code, not the running kernel. A number with a range in parentheses is \
     the median of five measurements; a sixth would be in the range with 95 % probability.";

/// A survey in progress, with the results so far.
pub struct Survey<'a> {
    plan: Plan,
    session: &'a Session,
    answers: Vec<Answer>,
    left_out: Vec<LeftOut>,
    notes: Vec<String>,
}

impl<'a> Survey<'a> {
    pub fn new(plan: Plan, session: &'a Session) -> Survey<'a> {
        Survey {
            left_out: plan.left_out.clone(),
            plan,
            session,
            answers: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Prints a description of the machine, and explains intervals if the survey will have any.
    pub fn begin(&self, facts: &Facts) -> Result<(), Error> {
        let intervals = match self.plan.steps.iter().any(|s| s.processes == PROCESSES) {
            true => format!("\n{}", table::paragraph(INTERVALS)),
            false => String::new(),
        };
        self.say(&format!("{}{intervals}\n\n", table::machine(facts)))
    }

    /// Runs all passes and prints each topic's results.
    pub fn ask(&mut self) -> Result<(), Error> {
        let progress = Progress::start();
        let (start, whole) = (Instant::now(), self.plan.seconds());
        let mut planned = 0.0;
        let plan = self.plan.clone();
        for (pass, step) in plan.runs() {
            if self.session.stopped() {
                break;
            }
            let what = format!(
                "pass {}: {}{}",
                pass + 1,
                step.item.topic.name,
                self.first_result()
            );
            let began = Instant::now();
            let answer = self.run_process(pass, step, &mut || {
                // Estimate the progress from the elapsed time and the plan, because the processes
                // do not report it.
                let part = began.elapsed().as_secs_f64().min(step.seconds);
                progress.report((planned + part) / whole, &what);
            })?;
            planned += step.seconds;
            self.judge(step.item.topic, &answer);
            self.save_record(pass, &answer)?;
            self.answers.push(answer);
        }
        drop(progress);
        for topic in topics() {
            self.print_block(topic)?;
        }
        let took = start.elapsed().as_secs_f64();
        if took > 1.25 * whole && !self.session.stopped() {
            self.notes.push(format!(
                "the survey took {took:.0} s instead of {whole:.0}: this machine is slower or busier than the plan assumes"
            ));
        }
        if self.plan.steps.iter().all(|s| s.processes < PROCESSES) && !self.answers.is_empty() {
            self.notes.push(format!(
                "each measurement ran in one process, so intervals and verdicts are missing; without --quick, each runs in \
                 {PROCESSES} processes, which gives both"
            ));
        }
        Ok(())
    }

    /// Runs one process of a part. Each pass uses a different seed, so that the intervals include
    /// the variation between seeds.
    fn run_process(
        &self,
        pass: usize,
        step: &Step,
        tick: &mut dyn FnMut(),
    ) -> Result<Answer, Error> {
        let mut args = step.args.clone();
        let seed = self.session.seed.wrapping_add(pass as u64).to_string();
        args.extend(["--json", "--seed", &seed].map(String::from));
        if let Some(list) = &self.session.global.cpu {
            args.extend(["--cpu".to_string(), list.clone()]);
        }
        let aside = match step.item.part.builds {
            true => BUILDING_S,
            false => PATIENCE_S,
        };
        let patience = PATIENCE * step.seconds + aside;
        let left = child::run(
            "/proc/self/exe",
            &args,
            &mut Watch {
                stop: &self.session.stop,
                patience: Duration::from_secs_f64(patience),
                tick,
            },
        )?;
        Ok(Answer::new(step.item.part, left))
    }

    /// Adds a note if the process crashed or one of its checks failed. If the machine lacks
    /// something that the part needs, records that it was left out.
    fn judge(&mut self, topic: &'static Topic, answer: &Answer) {
        let name = answer.part.name;
        match &answer.ended {
            Ended::Lacks(why) => {
                // The remedy is the part of the error text after the last colon.
                let (what, add) = why.rsplit_once(": ").unwrap_or((why, topic.command));
                // Compare only the prefix, because a text that names a temporary file differs from
                // process to process.
                let prefix = format!("{name}: ");
                if !self.left_out.iter().any(|l| l.what.starts_with(&prefix)) {
                    self.leave_out(topic, format!("{prefix}{what}"), add);
                }
            }
            Ended::Died(why) => self.note(format!(
                "{name}: {why}: this process gave no results; to run it alone: {}",
                topic.command
            )),
            Ended::Failed => self.note(format!(
                "{name}: A CHECK FAILED: run {} for details",
                topic.command
            )),
            Ended::Done | Ended::Interrupted => {}
        }
        for (peer, add) in answer.peers_left_out() {
            self.leave_out(topic, format!("library {peer}, not installed"), add);
        }
    }

    /// Records an omission, but only once if several processes report it.
    fn leave_out(&mut self, topic: &'static Topic, what: String, add: &str) {
        if !self.left_out.iter().any(|l| l.what == what) {
            self.left_out.push(LeftOut {
                topic,
                what,
                add: add.to_string(),
            });
        }
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Prints the results of a topic, if it has any.
    fn print_block(&self, topic: &Topic) -> Result<(), Error> {
        let rows = headlines(topic, &self.answers);
        if rows.is_empty() {
            return Ok(());
        }
        self.say(&(view::block(topic, &rows, self.session.bold) + "\n"))
    }

    /// Prints human-readable text, unless `--json` or `--quiet` was given.
    fn say(&self, text: &str) -> Result<(), Error> {
        match self.session.global.json || self.session.global.quiet {
            true => Ok(()),
            false => print(text),
        }
    }

    /// Returns all rows and notes for the record. A question without an answer has a row of nulls,
    /// and a note that states the reason.
    fn rows(&self) -> (Vec<Row>, Vec<String>) {
        let (mut all, mut notes) = (Vec::new(), Vec::new());
        for topic in topics() {
            let rows = headlines(topic, &self.answers);
            if rows.is_empty() {
                let told = self.left_out.iter().filter(|l| l.topic == topic);
                let why: Vec<String> = told.map(|l| format!("{}: {}", l.what, l.add)).collect();
                let why = match why.as_slice() {
                    _ if self.session.stopped() => "interrupted".to_string(),
                    [] if !self.plan.asks(topic) => "not asked".to_string(),
                    [] => "the measurement gave no result".to_string(),
                    why => why.join("; "),
                };
                notes.push(format!("{}: left out: {why}", topic.name));
                all.push(Row::none(topic));
            }
            all.extend(rows);
        }
        (all, notes)
    }

    /// Returns the warnings that apply to the whole survey, followed by the warnings of its parts.
    /// A part's warning states what the part was measuring, and is omitted if the list already
    /// contains a warning of the same kind.
    fn warnings<Q: Question>(&self, facts: &Facts) -> Vec<String> {
        let own = self.session.warnings::<Q>(facts);
        let mut kinds: Vec<&str> = own.iter().map(|w| w.kind.name()).collect();
        let mut lines: Vec<String> = own.iter().map(Warning::to_string).collect();
        for answer in &self.answers {
            for line in answer.warnings() {
                let rest = &line[warning::PREFIX.len()..];
                let kind = rest.split(':').next().unwrap_or_default();
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                    let what = answer.part.what;
                    lines.push(line.replacen(kind, &format!("{kind} while measuring {what}"), 1));
                }
            }
        }
        lines
    }

    /// Writes the record and the page, and prints the closing lines. Returns the exit status.
    pub fn end<Q: Question>(&self, facts: &Facts, page: Option<&Page>) -> Result<Exit, Error> {
        let warnings = self.warnings::<Q>(facts);
        let (rows, without) = self.rows();
        let left = self
            .left_out
            .iter()
            .map(|l| format!("left out: {}. To include it: {}", l.what, l.add));
        let mut notes = [self.notes.clone(), without].concat();
        notes.extend(left);
        notes.extend(warnings.iter().cloned());
        // The page shows only the first process of each part, whereas the rows of the survey
        // combine all processes.
        let records: Vec<Value> = self
            .first_answers()
            .filter_map(|a| a.record.clone())
            .collect();
        let mut last = String::new();
        if let Some(page) = page {
            let bundle = Record {
                records: Some(&records),
                ..self.session.record::<Q, _>(facts, &rows, &notes)
            };
            last = page.write(&bundle.to_value()).unwrap_or_else(|e| {
                // Report this error only as a note, because the survey itself is complete.
                let note = format!("no report: {e}");
                notes.push(note.clone());
                note
            });
            last += "; ";
        }
        let bundle = Record {
            records: Some(&records),
            ..self.session.record::<Q, _>(facts, &rows, &notes)
        };
        let text = bundle.to_json();
        if let Some(dir) = &self.session.global.out {
            replace::write(&dir.join("survey.json"), text.as_bytes())?;
        }
        if self.session.global.json {
            print(&text)?;
        } else if !self.session.global.quiet {
            let told: String = self
                .notes
                .iter()
                .chain(&warnings)
                .map(|n| table::paragraph(n) + "\n")
                .collect();
            let left = view::left_out(&self.left_out);
            let gap = match left.is_empty() || told.is_empty() {
                true => "",
                false => "\n",
            };
            let last = table::paragraph(&format!("{last}seed {}", self.session.seed));
            print(&format!("{left}{gap}{told}{last}\n"))?;
        }
        let mut contributions = kiln_questions::survey().into_iter();
        let blind = !self.session.stopped() && contributions.any(|c| (c.failed)(&self.answers));
        let failed = blind || self.answers.iter().any(|a| a.ended == Ended::Failed);
        Ok(match failed {
            true => Exit::Failed,
            false if self.session.stopped() => Exit::Interrupted,
            false => Exit::Done,
        })
    }

    /// Returns the answer of each part's first process.
    fn first_answers(&self) -> impl Iterator<Item = &Answer> {
        let all = self.answers.iter().enumerate();
        all.filter(|(i, a)| self.answers[..*i].iter().all(|b| b.part != a.part))
            .map(|(_, a)| a)
    }

    /// Returns the text that shows an early throughput result on the progress line. The full
    /// results are printed only after the last pass.
    fn first_result(&self) -> String {
        let first = self.plan.steps.first();
        let rows = first.map(|step| headlines(step.item.topic, &self.answers));
        match rows.unwrap_or_default().first() {
            Some(Row {
                value: Some(mb),
                unit: Some("mb_per_s"),
                ..
            }) => format!("; {:.1} GB/s", mb / 1e3),
            _ => String::new(),
        }
    }

    /// Writes the record of a process that has exited. The first process of a part writes
    /// DIR/NAME.json, the others write DIR/reruns/NAME-2.json and so on. `kiln report DIR` does not
    /// read DIR/reruns.
    fn save_record(&self, pass: usize, answer: &Answer) -> Result<(), Error> {
        let Some(dir) = &self.session.global.out else {
            return Ok(());
        };
        let name = answer.part.name;
        let path = match pass {
            0 => dir.join(format!("{name}.json")),
            _ => {
                let reruns = dir.join("reruns");
                fs::create_dir_all(&reruns).map_err(|e| {
                    Error::input(format!("cannot create '{}': {e}", reruns.display()))
                })?;
                reruns.join(format!("{name}-{}.json", pass + 1))
            }
        };
        match &answer.text {
            Some(text) => replace::write(&path, text.as_bytes()),
            None => {
                // Remove the record of an earlier survey, which could be mistaken for a record of
                // this survey.
                drop(fs::remove_file(&path));
                Ok(())
            }
        }
    }
}
