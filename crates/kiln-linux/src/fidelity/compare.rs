//! Asks the real kernel and the emulated CPU the same questions, and compares their answers row by
//! row.

use std::thread;

use crate::qemu::Accel;
use crate::Error;

use super::answer;
use super::asker::{Answers, Plan, Step, Told};
use super::costs::{self, COSTS};
use super::emulated::Emulated;
use super::question::{self, Asked, Question, TIMES};
use super::row::Row;

pub struct Outcome {
    /// Rows for the answers, followed by rows for the costs.
    pub rows: Vec<Row>,
    /// Notes that help the reader interpret the rows.
    pub notes: Vec<String>,
}

/// Asks the real kernel and the emulated CPU all questions, and measures the costs on both.
///
/// # Errors
/// Fails if the real kernel or the emulated CPU cannot be booted or does not accept questions.
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
    let told = answers.told.pop().unwrap_or_else(|| Err("nothing".into()));
    let emulated = emulated_answers(policy, &questions)?;

    let empty = Row {
        kind: "answer".into(),
        kernel: plan.kernel.release.clone(),
        cpu: answers.cpu.clone(),
        accel: answers.accel.name().into(),
        policy: policy.into(),
        ..Row::default()
    };
    let mut notes = notes(&answers);
    let mut rows = Vec::new();
    for ((question, told), emulated) in questions.iter().zip(&answers.told).zip(emulated.answers) {
        let real = real_answer(question, told, &emulated.right, &mut notes);
        let agree = match (&real, &emulated.answer) {
            (Ok(real), Some(emulated)) => Some(real == emulated),
            // The emulation answered, but the real kernel did not. Count this as a difference, so
            // that a failed boot or question does not pass as agreement.
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
    let real = |name: &str| {
        let lines = told.as_ref().ok().filter(|_| measured)?;
        costs::real(lines, name)
    };
    let own = |name: &str| emulated.costs.iter().find(|c| c.0 == name)?.1;
    for (name, words) in COSTS {
        let cost = real(name);
        let direct = costs::name_direct(name);
        let over = |all: Option<f64>, of: &dyn Fn(&str) -> Option<f64>| {
            let direct = of(direct.as_ref()?)?;
            Some(all? / direct).filter(|ratio| ratio.is_finite())
        };
        let median = cost.map(|(_, median)| median);
        rows.push(Row {
            kind: "cost".into(),
            question: (*words).into(),
            asked: Some((*name).into()),
            cycles_min: cost.map(|(least, _)| least),
            cycles: median,
            kiln_cycles: own(name),
            ratio: over(median, &|name| real(name).map(|(_, median)| median)),
            kiln_ratio: over(own(name), &own),
            ..empty.clone()
        });
    }
    if !measured {
        notes.push("costs of the real kernel: none by software emulation; on a machine whose KVM boots it they are measured".into());
    } else if let Err(why) = told {
        notes.push(format!("costs: {why}"));
    }
    notes.push("the trace's words: T task, H hardirq, S softirq, O hardirq over softirq; ? FPU usable, s SIMD usable, [ ] section, ( ) softirqs off, ! interrupt, ^ raise, ~ make way; then the preempt count".into());
    Ok(Outcome { rows, notes })
}

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

struct EmulatedAnswer {
    answer: Option<String>,
    right: String,
}

struct EmulatedAnswers {
    answers: Vec<EmulatedAnswer>,
    costs: Vec<(&'static str, Option<f64>)>,
}

/// Asks the emulated CPU in a new thread, because the thread that asks becomes the emulated CPU.
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
            costs: COSTS
                .iter()
                .map(|(name, _)| (*name, costs::emulated(name)))
                .collect(),
        })
    };
    let done = thread::scope(|s| s.spawn(asked).join());
    match done {
        Ok(answers) => answers.map_err(Error::EmulatedCpu),
        Err(_) => Err(Error::EmulatedCpuPanicked),
    }
}
