//! Both sides asked, row by row.

use std::thread;

use crate::qemu::Accel;
use crate::Error;

use super::answer;
use super::asker::{Answers, Plan, Step, Told};
use super::emulated::{self, Emulated};
use super::question::{self, Asked, Question};
use super::row::Row;

/// Of each scene: the tick comes into few of them.
const TIMES: u32 = 15;

/// What came out.
pub struct Outcome {
    /// Answers, then costs.
    pub rows: Vec<Row>,
    /// What a reader of the rows must know.
    pub notes: Vec<String>,
}

/// Puts all questions to the real kernel and to the emulated CPU.
///
/// # Errors
/// One of them cannot be asked.
pub fn run(plan: &Plan) -> Result<Outcome, Error> {
    let policy = plan.kernel.policy();
    let questions: Vec<Question> = question::all()
        .into_iter()
        .filter(|q| q.concerns(policy))
        .collect();
    let mut steps: Vec<Step> = questions
        .iter()
        .map(|q| {
            Step::Ask(match q.asked {
                Asked::Scene(_) => format!("scene {TIMES} {}", q.program()),
                Asked::Requests(..) => format!("requests {}", q.program()),
            })
        })
        .collect();
    steps.push(Step::Ask("costs".into()));
    let mut answers = plan.ask(&steps, None)?;
    let costs = answers.told.pop().unwrap_or_else(|| Err("nothing".into()));
    let emulated = emulated_answers(policy, &questions)?;

    let empty = Row {
        kind: "answer".into(),
        kernel: plan.kernel.release.clone(),
        cpu: answers.cpu.clone(),
        accel: answers.accel.name().into(),
        policy: policy.into(),
        number: None,
        question: String::new(),
        asked: None,
        real: None,
        emulated: None,
        agree: None,
        cycles_min: None,
        cycles: None,
        kiln_cycles: None,
    };
    let mut notes = notes(&answers);
    let mut rows = Vec::new();
    for ((question, told), emulated) in questions.iter().zip(&answers.told).zip(emulated.answers) {
        let real = real_answer(question, told, &emulated.right, &mut notes);
        let agree = match (&real, &emulated.answer) {
            (Ok(real), Some(emulated)) => Some(real == emulated),
            // Without an answer nothing is proved.
            (Err(_), Some(_)) => Some(false),
            (_, None) => None,
        };
        rows.push(Row {
            number: Some(question.number),
            question: question.text.into(),
            asked: Some(question.program()),
            real: Some(real.unwrap_or_else(|why| format!("none: {why}"))),
            emulated: emulated.answer,
            agree,
            ..empty.clone()
        });
    }
    let measured = answers.accel == Accel::Kvm;
    for (name, words) in COSTS {
        let real = costs.as_ref().ok().and_then(|lines| cost(lines, name));
        let real = real.filter(|_| measured);
        rows.push(Row {
            kind: "cost".into(),
            question: (*words).into(),
            asked: Some((*name).into()),
            cycles_min: real.map(|(least, _)| least),
            cycles: real.map(|(_, median)| median),
            kiln_cycles: (*name == "pair").then_some(emulated.pair_cycles),
            ..empty.clone()
        });
    }
    if !measured {
        notes.push("costs of the real kernel: not by software emulation; on a machine whose KVM boots it they are measured".into());
    } else if let Err(why) = costs {
        notes.push(format!("costs: {why}"));
    }
    notes.push("the trace's words: T task, H hardirq, S softirq, O hardirq over softirq; ? FPU usable, s SIMD usable, [ ] section, ( ) softirqs off, ! interrupt, ^ raise, ~ make way; then the preempt count".into());
    Ok(Outcome { rows, notes })
}

/// Names in `costs.c`, and what they are.
const COSTS: &[(&str, &str)] = &[
    ("pair", "begin and end, nothing to save"),
    ("begin", "begin, nothing to save"),
    (
        "first-begin",
        "begin, the first in a kernel entry: saves the user's registers",
    ),
    (
        "user-restore",
        "the user's registers loaded again on the way back",
    ),
    ("helper-16", "xts(aes), 16 bytes, by the simd helper"),
    ("direct-16", "xts(aes), 16 bytes, without it"),
    ("helper-512", "xts(aes), 512 bytes, by the simd helper"),
    ("direct-512", "xts(aes), 512 bytes, without it"),
    ("helper-4096", "xts(aes), 4096 bytes, by the simd helper"),
    ("direct-4096", "xts(aes), 4096 bytes, without it"),
];

fn notes(answers: &Answers) -> Vec<String> {
    let mut notes = Vec::new();
    if !answers.why.is_empty() {
        notes.push(format!("by software emulation: {}", answers.why));
    }
    for warning in &answers.warnings {
        notes.push(format!("the kernel said: {warning}"));
    }
    notes
}

fn real_answer(
    question: &Question,
    told: &Told,
    right: &str,
    notes: &mut Vec<String>,
) -> Result<String, String> {
    let lines = told.as_ref().map_err(Clone::clone)?;
    if matches!(question.asked, Asked::Scene(_)) {
        return answer::scene(lines);
    }
    let script = answer::script(lines)?;
    if script.right != right {
        return Err(format!(
            "{} encrypts wrongly: {}",
            script.driver, script.right
        ));
    }
    let served = format!("requests were served by {}", script.driver);
    if !notes.contains(&served) {
        notes.push(served);
    }
    Ok(script.answer)
}

/// Of lines `NAME LEAST MEDIAN`.
fn cost(lines: &[String], name: &str) -> Option<(f64, f64)> {
    lines.iter().find_map(|line| {
        let mut words = line.split(' ');
        (words.next()? == name).then_some(())?;
        let least: u64 = words.next()?.parse().ok()?;
        let median: u64 = words.next()?.parse().ok()?;
        words
            .next()
            .is_none()
            .then_some((least as f64, median as f64))
    })
}

struct EmulatedAnswer {
    answer: Option<String>,
    right: String,
}

struct EmulatedAnswers {
    answers: Vec<EmulatedAnswer>,
    pair_cycles: f64,
}

/// On a thread of its own, which becomes the CPU.
fn emulated_answers(policy: &str, questions: &[Question]) -> Result<EmulatedAnswers, Error> {
    let asked = || -> Result<EmulatedAnswers, String> {
        let mut cpu = Emulated::boot(policy)?;
        let right = cpu.right();
        let answers = questions.iter().map(|q| EmulatedAnswer {
            answer: cpu.answer(q),
            right: right.clone(),
        });
        let answers = answers.collect();
        Ok(EmulatedAnswers {
            answers,
            pair_cycles: emulated::pair_cycles(),
        })
    };
    let done = thread::scope(|s| s.spawn(asked).join());
    match done {
        Ok(answers) => answers.map_err(|e| Error::Lacks(format!("the emulated CPU: {e}"))),
        Err(_) => Err(Error::Failed("the emulated CPU panicked".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_whole_lines() {
        let lines: Vec<String> = ["clock 26 52", "pair 104 130", "begin 5", "helper-16 1 2 3"]
            .iter()
            .map(|s| s.to_string())
            .collect();
        assert_eq!(cost(&lines, "pair"), Some((104.0, 130.0)));
        assert_eq!(cost(&lines, "begin"), None);
        assert_eq!(cost(&lines, "helper-16"), None);
        assert_eq!(cost(&lines, "direct-16"), None);
    }
}
