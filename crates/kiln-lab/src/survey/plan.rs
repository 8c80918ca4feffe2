//! Which part gets how much time, and what is left out.

use super::part::{ciphers, Matrix, Part, ALL_CIPHERS};
use super::question::Question;
use crate::Error;

/// For what is asked beside the parts: reading the machine, writing the page.
const ASIDE_S: f64 = 0.8;
/// As `--minutes` has it: the least that has a figure, and a day.
const LEAST_MINUTES: f64 = 0.08;
const MOST_MINUTES: f64 = 1440.0;
/// Of `--quick`.
pub const QUICK_S: f64 = 20.0;
/// Without either.
pub const USUAL_S: f64 = 70.0;

/// A place in the plan: from how much time in all a part is in it, what one process of it takes at least, and which share of
/// what is left when all have their least.
struct Room {
    part: Part,
    from_s: f64,
    least_s: f64,
    share: f64,
}

/// In order of importance: what there is no time for is left out from the end.
const ROOMS: [Room; 11] = [
    room(Part::Speed, 0.0, 1.3, 0.0),
    room(Part::Ways, 0.0, 1.1, 0.06),
    // The verdict on lost state: it interrupts sections a thousand times as often as a timer does.
    room(Part::Breakpoints, 0.0, 1.5, 0.0),
    room(Part::Ctrlq, 0.0, 2.2, 0.18),
    room(Part::Budget, 0.0, 1.8, 0.18),
    room(Part::Esp, 0.0, 2.2, 0.20),
    room(Part::Compilers, 0.0, 3.0, 0.20),
    room(Part::Policies, 40.0, 1.6, 0.0),
    room(Part::MoreSpeed, 40.0, 1.6, 0.18),
    // Mostly the build of the tree by the first process.
    room(Part::TreeSpeed, 150.0, 16.0, 0.0),
    room(Part::TreeWays, 150.0, 3.0, 0.0),
];

/// The order of each pass: by question, as people read them.
const ORDER: [Part; 11] = [
    Part::Speed,
    Part::MoreSpeed,
    Part::TreeSpeed,
    Part::Ways,
    Part::TreeWays,
    Part::Policies,
    Part::Breakpoints,
    Part::Esp,
    Part::Budget,
    Part::Compilers,
    Part::Ctrlq,
];

const fn room(part: Part, from_s: f64, least_s: f64, share: f64) -> Room {
    Room {
        part,
        from_s,
        least_s,
        share,
    }
}

/// What is asked for, and what there is.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// For all of it.
    pub seconds: f64,
    /// Those asked; none: all.
    pub questions: Vec<Question>,
    /// Names of compilers that are here.
    pub compilers: Vec<String>,
    /// A kernel tree.
    pub tree: Option<String>,
}

impl Wanted {
    /// The time from the flags.
    ///
    /// # Errors
    /// A number that is no time.
    pub fn time(minutes: Option<f64>, quick: bool) -> Result<f64, Error> {
        match minutes {
            None if quick => Ok(QUICK_S),
            None => Ok(USUAL_S),
            Some(_) if quick => Err(Error::input(
                "--minutes and --quick both set the duration: use only one",
            )),
            Some(m) if !(LEAST_MINUTES..=MOST_MINUTES).contains(&m) => Err(Error::input(format!(
                "--minutes {m}: a survey takes from {LEAST_MINUTES} to {MOST_MINUTES}"
            ))),
            Some(m) => Ok(60.0 * m),
        }
    }

    fn asks(&self, part: Part) -> bool {
        self.questions.is_empty() || self.questions.contains(&part.question())
    }

    /// Why a part cannot be, whatever the time.
    fn lacks(&self, part: Part) -> bool {
        match part {
            Part::Compilers => self.compilers.is_empty(),
            Part::TreeSpeed | Part::TreeWays => self.tree.is_none(),
            _ => false,
        }
    }
}

/// A part with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Which.
    pub part: Part,
    /// Of each process, from start to end, about.
    pub seconds: f64,
    /// How many processes.
    pub processes: usize,
    /// Of this program.
    pub args: Vec<String>,
}

/// What the survey does not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The question it would have been for.
    pub question: Question,
    /// What, and why.
    pub what: String,
    /// What would add it.
    pub add: String,
}

/// What is done, and what is not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In the order they are done.
    pub steps: Vec<Step>,
    /// With reasons.
    pub left_out: Vec<LeftOut>,
}

impl Plan {
    /// For what is there.
    pub fn new(wanted: &Wanted) -> Plan {
        let mut plan = Plan::default();
        let mut left = wanted.seconds - ASIDE_S;
        let mut taken: Vec<&Room> = Vec::new();
        let repeats = least(wanted, true) <= left;
        let processes = |room: &Room| room.part.processes(repeats);
        for room in &ROOMS {
            let least_s = room.least_s * processes(room) as f64;
            let may = wanted.asks(room.part) && !wanted.lacks(room.part);
            if may && wanted.seconds >= room.from_s && least_s <= left {
                left -= least_s;
                taken.push(room);
            } else if may {
                plan.left_out.extend(no_time(room, wanted));
            }
        }
        plan.left_out.extend(not_here(wanted));
        let shares: f64 = taken.iter().map(|r| r.share).sum();
        for part in ORDER {
            let Some(room) = taken.iter().find(|r| r.part == part) else {
                continue;
            };
            let more = match shares > 0.0 {
                true => left * room.share / shares,
                false => 0.0,
            };
            let processes = processes(room);
            let seconds = room.least_s + more / processes as f64;
            let tree = wanted.tree.as_deref();
            plan.steps.push(Step {
                part,
                seconds,
                processes,
                args: part.args(seconds, processes, &wanted.compilers, tree),
            });
        }
        for step in &plan.steps {
            plan.left_out.extend(less(step, wanted));
        }
        plan
    }

    /// Seconds of all parts.
    pub fn seconds(&self) -> f64 {
        let all = self.steps.iter();
        all.map(|s| s.seconds * s.processes as f64).sum()
    }

    /// Every process in the order they run, with its pass: each pass runs every part that has processes left, so that the
    /// processes of one part are spread over the survey.
    pub fn runs(&self) -> Vec<(usize, &Step)> {
        let passes = self.steps.iter().map(|s| s.processes).max().unwrap_or(0);
        (0..passes)
            .flat_map(|pass| {
                let has_it = move |s: &&Step| pass < s.processes;
                self.steps.iter().filter(has_it).map(move |s| (pass, s))
            })
            .collect()
    }

    /// Whether a question is asked at all.
    pub fn asks(&self, question: Question) -> bool {
        self.steps.iter().any(|s| s.part.question() == question)
    }
}

/// What the parts that every survey has take at least, of those that are asked for.
fn least(wanted: &Wanted, repeats: bool) -> f64 {
    let usual = ROOMS.iter().filter(|r| r.from_s == 0.0);
    let asked = usual.filter(|r| wanted.asks(r.part) && !wanted.lacks(r.part));
    asked
        .map(|r| r.least_s * r.part.processes(repeats) as f64)
        .sum()
}

/// More time, in whole minutes.
fn minutes(seconds: f64) -> String {
    format!("kiln survey --minutes {}", (seconds / 60.0).ceil())
}

fn no_time(room: &Room, wanted: &Wanted) -> Option<LeftOut> {
    // With the one before.
    if room.part == Part::TreeWays {
        return None;
    }
    let enough = room
        .from_s
        .max(ASIDE_S + least(wanted, false))
        .max(wanted.seconds + 1.0);
    Some(LeftOut {
        question: room.part.question(),
        what: format!("{}, for lack of time", room.part.what()),
        add: minutes(enough),
    })
}

fn not_here(wanted: &Wanted) -> Vec<LeftOut> {
    let asked = |question| wanted.questions.is_empty() || wanted.questions.contains(&question);
    let mut left = Vec::new();
    if asked(Question::Compilers) && wanted.compilers.len() < 2 {
        let (what, add) = match wanted.compilers.len() {
            0 => ("compilers: none is here", "apt-get install gcc clang"),
            _ => ("compilers: no second one is here", "apt-get install clang"),
        };
        left.push(LeftOut {
            question: Question::Compilers,
            what: what.to_string(),
            add: add.to_string(),
        });
    }
    if asked(Question::Speed) && wanted.tree.is_none() {
        left.push(LeftOut {
            question: Question::Speed,
            what: "a kernel tree: none was named".to_string(),
            add: "kiln survey --minutes 3 --tree DIR".to_string(),
        });
    }
    left
}

/// What a part does not do because of its time.
fn less(step: &Step, wanted: &Wanted) -> Option<LeftOut> {
    let all = wanted.compilers.len();
    let what = match step.part {
        Part::Compilers => {
            let n = Matrix::within(step.seconds, step.processes, all).compilers;
            (n < all).then(|| format!("{} of {all} compilers, for lack of time", all - n))?
        }
        Part::MoreSpeed => {
            let n = ciphers(step.seconds);
            match ALL_CIPHERS - n {
                0 => return None,
                1 => "one more cipher, for lack of time".to_string(),
                more => format!("{more} more ciphers, for lack of time"),
            }
        }
        _ => return None,
    };
    Some(LeftOut {
        question: step.part.question(),
        what,
        add: minutes(2.5 * wanted.seconds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(seconds: f64, compilers: usize) -> Wanted {
        let names = [
            "gcc-12", "clang-19", "gcc-13", "clang-14", "gcc-11", "zig cc",
        ];
        Wanted {
            seconds,
            compilers: names[..compilers].iter().map(|n| n.to_string()).collect(),
            ..Wanted::default()
        }
    }

    fn parts(plan: &Plan) -> Vec<Part> {
        plan.steps.iter().map(|s| s.part).collect()
    }

    fn adds(plan: &Plan) -> String {
        let all = plan.left_out.iter();
        all.map(|l| format!("{} ({})\n", l.what, l.add)).collect()
    }

    #[test]
    fn the_usual_survey_asks_all_questions_and_begins_with_a_figure() {
        let plan = Plan::new(&wanted(USUAL_S, 2));
        assert!(Question::ALL.iter().all(|q| plan.asks(*q)));
        assert_eq!(plan.steps[0].part, Part::Speed);
        assert!(plan.steps[0].seconds < 2.5);
        // What becomes a headline with an interval runs five times, with passes over all parts.
        let repeated = |s: &&Step| s.processes == 5;
        assert!(plan.steps.iter().filter(repeated).count() >= 6);
        let runs: Vec<Part> = plan.runs().iter().map(|r| r.1.part).collect();
        assert_eq!(runs[..2], [Part::Speed, Part::MoreSpeed]);
        assert_eq!(runs.iter().filter(|p| **p == Part::Speed).count(), 5);
        assert_eq!(runs.last(), Some(&Part::Ctrlq));
        assert!(!adds(&plan).contains("compilers"), "{}", adds(&plan));
        assert!(adds(&plan).contains("--tree DIR"));
        let quick = Plan::new(&wanted(QUICK_S, 1));
        assert!(Question::ALL.iter().all(|q| quick.asks(*q)));
        assert!(adds(&quick).contains("no second one is here (apt-get install clang)"));
        assert!(
            adds(&quick).contains("12 more ciphers, for lack of time (kiln survey --minutes 1)")
                && quick.steps.iter().all(|s| s.processes == 1)
        );
    }

    #[test]
    fn whatever_the_time_it_is_kept_and_nothing_is_left_out_in_silence() {
        for tenths in 48..6000 {
            let seconds = f64::from(tenths) / 10.0;
            for (compilers, tree) in [(0, None), (1, Some("/t")), (6, Some("/t"))] {
                let wanted = Wanted {
                    tree: tree.map(str::to_string),
                    ..wanted(seconds, compilers)
                };
                let plan = Plan::new(&wanted);
                assert!(plan.seconds() + ASIDE_S <= seconds + 1e-6, "{seconds}");
                assert!(plan
                    .steps
                    .iter()
                    .all(|s| s.seconds > 0.0 && !s.args.is_empty()));
                for question in Question::ALL {
                    let told = plan.left_out.iter().any(|l| l.question == question);
                    assert!(plan.asks(question) || told, "{question:?} at {seconds}");
                }
                let has_tree = parts(&plan).contains(&Part::TreeSpeed);
                assert!(has_tree || adds(&plan).contains("tree"));
            }
        }
    }

    #[test]
    fn more_time_is_more_work() {
        let long = Plan::new(&wanted(420.0, 6));
        let usual = Plan::new(&wanted(USUAL_S, 6));
        for step in &usual.steps[1..] {
            let same = long.steps.iter().find(|s| s.part == step.part).unwrap();
            // Counts of wrong results have a time of their own.
            let fixed = matches!(step.part, Part::Policies | Part::Breakpoints);
            assert!(fixed || same.seconds > step.seconds, "{:?}", step.part);
        }
        assert!(
            adds(&usual).contains("compilers, for lack of time"),
            "{}",
            adds(&usual)
        );
        assert!(!adds(&long).contains("time"), "{}", adds(&long));
    }

    #[test]
    fn a_tree_is_in_it_when_there_is_time_to_build_it() {
        let with = |seconds| {
            Plan::new(&Wanted {
                tree: Some("/t".to_string()),
                ..wanted(seconds, 1)
            })
        };
        let long = with(180.0);
        assert!(parts(&long).contains(&Part::TreeSpeed) && parts(&long).contains(&Part::TreeWays));
        let step = &long.steps[parts(&long)
            .iter()
            .position(|p| *p == Part::TreeWays)
            .unwrap()];
        assert!(step.args.contains(&"tree:/t".to_string()));
        let usual = with(USUAL_S);
        assert!(!parts(&usual).contains(&Part::TreeSpeed));
        assert!(
            adds(&usual).contains("the kernel tree, for lack of time (kiln survey --minutes 3)")
        );
    }

    #[test]
    fn questions_that_nobody_asked_are_not_answered() {
        let plan = Plan::new(&Wanted {
            questions: vec![Question::Ctrlq],
            ..wanted(USUAL_S, 2)
        });
        assert_eq!(parts(&plan), [Part::Ctrlq]);
        assert_eq!(plan.left_out, []);
        // Its alone is the time.
        assert!(plan.seconds() > 50.0);
    }

    #[test]
    fn processes_are_repeated_whenever_all_that_is_asked_for_fits_five_times() {
        let of = |seconds, question: Option<Question>| {
            let plan = Plan::new(&Wanted {
                questions: question.into_iter().collect(),
                ..wanted(seconds, 2)
            });
            plan.steps[0].processes
        };
        assert_eq!(of(USUAL_S, None), 5);
        assert_eq!(of(QUICK_S, None), 1);
        assert_eq!(of(QUICK_S, Some(Question::Speed)), 5);
        assert_eq!(of(6.0, Some(Question::Speed)), 1);
    }

    #[test]
    fn times() {
        assert_eq!(Wanted::time(None, false), Ok(USUAL_S));
        assert_eq!(Wanted::time(None, true), Ok(20.0));
        assert_eq!(Wanted::time(Some(2.5), false), Ok(150.0));
        for (minutes, quick) in [
            (Some(0.0), false),
            (Some(f64::NAN), false),
            (Some(1.0), true),
        ] {
            assert_eq!(Wanted::time(minutes, quick).unwrap_err().exit_code(), 2);
        }
    }
}
