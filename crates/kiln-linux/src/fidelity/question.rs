//! The questions that the real kernel and the emulated CPU must answer. Records identify each
//! question by its permanent number.

use kiln_kernel::scene::Scene;
use kiln_kernel::script::{self, Step};

/// How many times each question is asked. The most frequent answer counts, because a timer tick
/// disturbs only a few of the answers.
pub(super) const TIMES: u32 = 15;

#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// Programs that observe the context in a task, in interrupts and in softirqs (`kiln/scene.h`).
    Scene(Scene),
    /// A script of requests to the crypto API, and the number of transforms that it uses.
    Requests(usize, Vec<Step>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Permanent number, counted from 1. Numbers of removed questions are not reused.
    pub number: u32,
    pub text: &'static str,
    /// The program that both sides run.
    pub asked: Asked,
}

impl Question {
    /// Returns whether this question applies to a kernel with this policy. Scripts do not apply
    /// under `bh-off`: they test requests that must wait for the FPU, and under `bh-off` no request
    /// has to wait.
    pub fn concerns(&self, policy: &str) -> bool {
        policy == "legacy" || matches!(self.asked, Asked::Scene(_))
    }

    /// Returns the text written to `/proc/kiln`, without the leading kind and repetition count.
    /// Records store this text.
    pub fn program(&self) -> String {
        match &self.asked {
            Asked::Scene(scene) => scene
                .programs()
                .map(|p| if p.is_empty() { "-" } else { p })
                .join(" "),
            Asked::Requests(transforms, steps) => {
                let steps: Vec<String> = steps.iter().map(step).collect();
                format!("{transforms} {}", steps.join(" "))
            }
        }
    }
}

fn step(step: &Step) -> String {
    match *step {
        Step::Submit(tfm, context, flags, count) => {
            format!("S{tfm}:{}:{flags}:{count}", context as u32)
        }
        Step::Run(count) => format!("R{count}"),
        Step::SectionBegin => "[".into(),
        Step::SectionEnd => "]".into(),
        Step::BhOff => "(".into(),
        Step::BhOn => ")".into(),
        Step::Free(tfm) => format!("F{tfm}"),
    }
}

/// Number and wording of a question, followed by its programs for the task, the hardirq, the
/// softirq, and a hardirq that interrupts the softirq.
type Line = (u32, &'static str, [&'static str; 4]);

const SCENES: &[Line] = &[
    (
        1,
        "usable in a task, and in its section",
        ["?s[?s]?s", "", "", ""],
    ),
    (
        2,
        "with softirqs off, and in a section there",
        ["(?s[?s]?s)", "", "", ""],
    ),
    (
        3,
        "in a softirq over a task, and in its section",
        ["!.", "^", "?s[?s]?s", ""],
    ),
    (4, "in a softirq over a section", ["[!.].", "^", "?s", ""]),
    (
        5,
        "in a hardirq over a task, and in its section",
        ["!", "?s[?s]?s", "", ""],
    ),
    (6, "in a hardirq over a section", ["[!]", "?s", "", ""]),
    (7, "in a hardirq with softirqs off", ["(!)", "?s", "", ""]),
    (
        8,
        "in a hardirq over a section with softirqs off",
        ["([!])", "?s", "", ""],
    ),
    (9, "in a hardirq over a softirq", ["!", "^", "!?s", "?s"]),
    (
        10,
        "in a hardirq over a softirq's section",
        ["!", "^", "[!?s]?s", "?s"],
    ),
    (
        11,
        "in a hardirq over a softirq over a section",
        ["[!]", "^", "!?s", "?s"],
    ),
    (12, "one section after the other", ["[][?][]?", "", "", ""]),
    (
        20,
        "an interrupt raises a softirq: when does it run",
        ["!.", "^.", "?", ""],
    ),
    (21, "the same, softirqs off", ["(!.).", "^.", "?", ""]),
    (22, "the same, in a section", ["[!.].", "^.", "?", ""]),
    (
        23,
        "the same, a section with softirqs off around it",
        ["([!.].).", "^.", "?", ""],
    ),
    (
        24,
        "the same, softirqs off and on again in a section",
        ["[(!.).].", "^.", "?", ""],
    ),
    (
        25,
        "raised by an interrupt in its own section",
        ["!.", "[^.].", "?", ""],
    ),
    (
        26,
        "raised by a task, which makes way",
        ["^.~.", "", "?", ""],
    ),
    (
        27,
        "raised by a task with softirqs off",
        ["(^.).", "", "?", ""],
    ),
    (
        28,
        "raised by a task in a section",
        ["[^.].~.", "", "?", ""],
    ),
    (
        29,
        "the same, and an interrupt comes",
        ["[^.!.].", "", "?", ""],
    ),
    (
        30,
        "a section with softirqs off, raised in it",
        ["([^.].).", "", "?", ""],
    ),
    (
        31,
        "raised over a softirq: after it, not in it",
        ["!.", "^", "?!.", "^"],
    ),
    (
        32,
        "a softirq turns softirqs off and on",
        ["!.", "^", "^(.).", ""],
    ),
    (
        33,
        "a softirq's section, raised in it",
        ["!.", "^", "[^.].", ""],
    ),
    (
        34,
        "a softirq over a section, raised over it",
        ["[!.].", "^", "?!.", "^"],
    ),
];

/// Number, wording and script name of each question that runs a script.
const SCRIPTS: &[(u32, &str, &str)] = &[
    (50, "SIMD usable: answered at once", "at once"),
    (
        51,
        "cryptd's queue is full, with and without a backlog",
        "overflow",
    ),
    (52, "who may overtake what waits on a transform", "order"),
    (53, "two transforms, one queue", "two transforms, one queue"),
    (
        54,
        "a transform freed while requests wait",
        "free while queued",
    ),
];

/// Returns all questions, sorted by number.
pub fn all() -> Vec<Question> {
    let scenes = SCENES
        .iter()
        .map(|&(number, text, [task, hardirq, softirq, over_softirq])| {
            let scene = Scene {
                task,
                hardirq,
                softirq,
                over_softirq,
            };
            Question {
                number,
                text,
                asked: Asked::Scene(scene),
            }
        });
    let known = script::scenarios();
    let scripts = SCRIPTS.iter().map(move |&(number, text, name)| {
        let mut named = known.iter().filter(|(n, ..)| *n == name);
        let (_, transforms, steps) = named.next().expect("a scenario's name");
        Question {
            number,
            text,
            asked: Asked::Requests(*transforms, steps.clone()),
        }
    });
    scenes.chain(scripts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_and_programs_are_plain_words() {
        let all = all();
        assert!(all.windows(2).all(|w| w[0].number < w[1].number));
        for q in &all {
            let program = q.program();
            assert!(!program.contains(['\t', '\n']), "{program}");
            if let Asked::Scene(scene) = &q.asked {
                let known = |c| "?s[]()!^~.".contains(c);
                assert!(scene.programs().concat().chars().all(known), "{program}");
                assert_eq!(program.split(' ').count(), 4);
            }
        }
        // Every script in `script::scenarios()` must have a question.
        let scripts = all.iter().filter(|q| !q.concerns("bh-off")).count();
        assert_eq!(scripts, script::scenarios().len());
    }
}
