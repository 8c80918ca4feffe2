//! Plans a survey: how much time each part gets, and which parts are left out.

use kiln_question::survey::{Means, Part, Slot, Topic, PROCESSES};
use kiln_question::{unknown, Error};

/// Seconds reserved for work outside the parts: collecting facts about the machine and writing the
/// page.
const ASIDE_S: f64 = 0.8;
/// Limits of `--minutes`: the minimum is just enough for a result, and the maximum is one day.
const LEAST_MINUTES: f64 = 0.08;
const MOST_MINUTES: f64 = 1440.0;
/// Duration of a survey with `--quick`, in seconds.
pub const QUICK_S: f64 = 20.0;
/// Default duration of a survey, in seconds.
pub const USUAL_S: f64 = 70.0;

/// Returns the topics of the survey, in the order of the output.
pub fn topics() -> Vec<&'static Topic> {
    let mut all: Vec<&'static Topic> = Vec::new();
    for contribution in kiln_questions::survey() {
        if !all.contains(&contribution.topic) {
            all.push(contribution.topic);
        }
    }
    all
}

/// Returns the topic with this name, or an error that lists the valid names.
pub fn find_topic(name: &str) -> Result<&'static Topic, Error> {
    let all = topics();
    let names: Vec<&str> = all.iter().map(|t| t.name).collect();
    let found = all.iter().copied().find(|t| t.name == name);
    found.ok_or_else(|| unknown("question", name, &names))
}

/// A part of the survey, and the topic that it contributes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item {
    pub topic: &'static Topic,
    pub part: &'static Part,
}

/// Returns all parts, in the order a pass runs them.
fn items() -> Vec<Item> {
    let all = kiln_questions::survey().into_iter();
    let items = all.flat_map(|c| {
        let item = move |&part| Item {
            topic: c.topic,
            part,
        };
        c.parts.iter().map(item)
    });
    items.collect()
}

/// Returns the number of processes that run the part. `repeats` is set if the survey has enough
/// time to repeat parts.
fn processes(part: &Part, repeats: bool) -> usize {
    match part.repeats && repeats {
        true => PROCESSES,
        false => 1,
    }
}

/// The input for a plan: the requested time and topics, and the available tools.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Duration of the whole survey in seconds.
    pub seconds: f64,
    /// The requested topics. If empty, all topics are requested.
    pub topics: Vec<&'static Topic>,
    /// The tools that this machine and the command line provide.
    pub means: Means,
}

impl Wanted {
    /// Returns the survey's duration in seconds, as selected by the flags.
    ///
    /// # Errors
    /// Fails if both flags are given or the number of minutes is outside the limits.
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

    fn asks(&self, topic: &Topic) -> bool {
        self.topics.is_empty() || self.topics.contains(&topic)
    }

    /// Returns whether the part was requested and everything it needs is available.
    fn may(&self, item: &Item) -> bool {
        self.asks(item.topic) && (item.part.can_run)(&self.means)
    }
}

/// A part that the survey runs, and its share of the time.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub item: Item,
    /// Planned duration per process in seconds.
    pub seconds: f64,
    /// Number of processes that run the part.
    pub processes: usize,
    /// Command-line arguments that make this program run the part.
    pub args: Vec<String>,
}

/// Something that the survey leaves out, the reason, and how to include it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The omitted part's topic.
    pub topic: &'static Topic,
    /// What is left out, and why.
    pub what: String,
    /// The command that would include the omitted part.
    pub add: String,
}

/// The parts that the survey runs, and those that it omits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The steps, in the order they run.
    pub steps: Vec<Step>,
    /// What is left out, with reasons.
    pub left_out: Vec<LeftOut>,
}

impl Plan {
    /// Plans a survey of the requested parts that can run on this machine.
    pub fn new(wanted: &Wanted) -> Plan {
        let mut plan = Plan::default();
        let mut left = wanted.seconds - ASIDE_S;
        let mut taken: Vec<Item> = Vec::new();
        let repeats = least(wanted, true) <= left;
        // If time is short, the parts at the end of this list are left out.
        let mut by_importance = items();
        by_importance.sort_by_key(|item| item.part.importance);
        for item in &by_importance {
            let part = item.part;
            let least_s = part.least_s * processes(part, repeats) as f64;
            if !wanted.may(item) {
                continue;
            }
            if wanted.seconds >= part.from_s && least_s <= left {
                left -= least_s;
                taken.push(*item);
            } else {
                plan.left_out.extend(no_time(item, wanted));
            }
        }
        plan.left_out.extend(not_here(&by_importance, wanted));
        let shares: f64 = taken.iter().map(|item| item.part.share).sum();
        for item in items().into_iter().filter(|item| taken.contains(item)) {
            let part = item.part;
            let more = match shares > 0.0 {
                true => left * part.share / shares,
                false => 0.0,
            };
            let processes = processes(part, repeats);
            let slot = Slot {
                seconds: part.least_s + more / processes as f64,
                processes,
                means: &wanted.means,
            };
            plan.steps.push(Step {
                item,
                seconds: slot.seconds,
                processes,
                args: (part.args)(&slot),
            });
            let less = (part.left_out)(&slot).map(|what| LeftOut {
                topic: item.topic,
                what,
                add: minutes(2.5 * wanted.seconds),
            });
            plan.left_out.extend(less);
        }
        plan
    }

    /// Returns the planned total time of all processes in seconds.
    pub fn seconds(&self) -> f64 {
        let all = self.steps.iter();
        all.map(|s| s.seconds * s.processes as f64).sum()
    }

    /// Returns all processes with their pass numbers, in the order in which they run. Each pass
    /// runs every part that still has processes to run, so that the processes of a part are spread
    /// over the survey.
    pub fn runs(&self) -> Vec<(usize, &Step)> {
        let passes = self.steps.iter().map(|s| s.processes).max().unwrap_or(0);
        (0..passes)
            .flat_map(|pass| {
                let has_it = move |s: &&Step| pass < s.processes;
                self.steps.iter().filter(has_it).map(move |s| (pass, s))
            })
            .collect()
    }

    /// Returns whether the plan has a part for this topic.
    pub fn asks(&self, topic: &Topic) -> bool {
        self.steps.iter().any(|s| s.item.topic == topic)
    }
}

/// Returns the minimum total time in seconds that the requested parts need. Parts that run only in
/// longer surveys are not counted.
fn least(wanted: &Wanted, repeats: bool) -> f64 {
    let asked = items().into_iter().filter(|item| wanted.may(item));
    let usual = asked.map(|item| item.part).filter(|p| p.from_s == 0.0);
    usual
        .map(|p| p.least_s * processes(p, repeats) as f64)
        .sum()
}

/// Returns the command for a survey of this many seconds, rounded up to whole minutes.
fn minutes(seconds: f64) -> String {
    format!("kiln survey --minutes {}", (seconds / 60.0).ceil())
}

fn no_time(item: &Item, wanted: &Wanted) -> Option<LeftOut> {
    let enough = item
        .part
        .from_s
        .max(ASIDE_S + least(wanted, false))
        .max(wanted.seconds + 1.0);
    (!item.part.follows).then(|| LeftOut {
        topic: item.topic,
        what: format!("{}, to save time", item.part.what),
        add: minutes(enough),
    })
}

/// Lists what the requested parts could use but the machine lacks, such as programs and trees.
fn not_here(items: &[Item], wanted: &Wanted) -> Vec<LeftOut> {
    let asked = items.iter().filter(|item| wanted.asks(item.topic));
    let missing = asked.filter_map(|item| Some((item.topic, (item.part.missing)(&wanted.means)?)));
    let left_out = missing.map(|(topic, (what, add))| LeftOut {
        topic,
        what: what.to_string(),
        add: add.to_string(),
    });
    left_out.collect()
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
            means: Means {
                compilers: names[..compilers].iter().map(|n| n.to_string()).collect(),
                tree: None,
            },
            ..Wanted::default()
        }
    }

    /// Returns a request for a survey of `seconds` seconds on a machine with `compilers` compilers
    /// and a kernel tree.
    fn with_tree(seconds: f64, compilers: usize) -> Wanted {
        let mut wanted = wanted(seconds, compilers);
        wanted.means.tree = Some("/t".to_string());
        wanted
    }

    fn parts(plan: &Plan) -> Vec<&str> {
        plan.steps.iter().map(|s| s.item.part.name).collect()
    }

    fn adds(plan: &Plan) -> String {
        let all = plan.left_out.iter();
        all.map(|l| format!("{} ({})\n", l.what, l.add)).collect()
    }

    #[test]
    fn the_usual_survey_asks_all_questions_and_begins_with_a_figure() {
        let plan = Plan::new(&wanted(USUAL_S, 2));
        assert!(topics().iter().all(|t| plan.asks(t)));
        assert_eq!(parts(&plan)[0], "speed");
        assert!(plan.steps[0].seconds < 2.5);
        // Parts that provide a headline with an interval must run five times, once per pass.
        let repeated = |s: &&Step| s.processes == 5;
        assert!(plan.steps.iter().filter(repeated).count() >= 6);
        let runs: Vec<&str> = plan.runs().iter().map(|r| r.1.item.part.name).collect();
        assert_eq!(runs[..2], ["speed", "speed-more"]);
        assert_eq!(runs.iter().filter(|p| **p == "speed").count(), 5);
        assert_eq!(runs.last(), Some(&"ctrlq"));
        assert!(!adds(&plan).contains("compilers"), "{}", adds(&plan));
        assert!(adds(&plan).contains("--tree DIR"));
        let quick = Plan::new(&wanted(QUICK_S, 1));
        assert!(topics().iter().all(|t| quick.asks(t)));
        assert!(adds(&quick).contains("not installed (apt-get install clang)"));
        assert!(
            adds(&quick).contains("12 more ciphers, to save time (kiln survey --minutes 1)")
                && quick.steps.iter().all(|s| s.processes == 1)
        );
    }

    #[test]
    fn whatever_the_time_it_is_kept_and_nothing_is_left_out_in_silence() {
        for tenths in 48..6000 {
            let seconds = f64::from(tenths) / 10.0;
            for wanted in [
                wanted(seconds, 0),
                with_tree(seconds, 1),
                with_tree(seconds, 6),
            ] {
                let plan = Plan::new(&wanted);
                assert!(plan.seconds() + ASIDE_S <= seconds + 1e-6, "{seconds}");
                assert!(plan
                    .steps
                    .iter()
                    .all(|s| s.seconds > 0.0 && !s.args.is_empty()));
                for topic in topics() {
                    let told = plan.left_out.iter().any(|l| l.topic == topic);
                    assert!(plan.asks(topic) || told, "{topic:?} at {seconds}");
                }
                let has_tree = parts(&plan).contains(&"speed-tree");
                assert!(has_tree || adds(&plan).contains("tree"));
            }
        }
    }

    #[test]
    fn more_time_is_more_work() {
        let long = Plan::new(&wanted(420.0, 6));
        let usual = Plan::new(&wanted(USUAL_S, 6));
        for step in &usual.steps[1..] {
            let same = long.steps.iter().find(|s| s.item == step.item).unwrap();
            // Parts that count wrong results run once, for a fixed time.
            let fixed = !step.item.part.repeats;
            assert!(fixed || same.seconds > step.seconds, "{:?}", step.item);
        }
        assert!(
            adds(&usual).contains("compilers, to save time"),
            "{}",
            adds(&usual)
        );
        assert!(!adds(&long).contains("time"), "{}", adds(&long));
    }

    #[test]
    fn a_tree_is_in_it_when_there_is_time_to_build_it() {
        let with = |seconds| Plan::new(&with_tree(seconds, 1));
        let long = with(180.0);
        assert!(parts(&long).contains(&"speed-tree"));
        let step = &long.steps[parts(&long)
            .iter()
            .position(|p| *p == "fpu-overhead-tree")
            .unwrap()];
        assert!(step.args.contains(&"tree:/t".to_string()));
        let usual = with(USUAL_S);
        assert!(!parts(&usual).contains(&"speed-tree"));
        assert!(adds(&usual).contains("the kernel tree, to save time (kiln survey --minutes 3)"));
    }

    #[test]
    fn questions_that_nobody_asked_are_not_answered() {
        let plan = Plan::new(&Wanted {
            topics: vec![find_topic("ctrlq").unwrap()],
            ..wanted(USUAL_S, 2)
        });
        assert_eq!(parts(&plan), ["ctrlq"]);
        assert_eq!(plan.left_out, []);
        // If only one part is requested, it must get all the time.
        assert!(plan.seconds() > 50.0);
    }

    #[test]
    fn processes_are_repeated_whenever_all_that_is_asked_for_fits_five_times() {
        let of = |seconds, topic: Option<&str>| {
            let plan = Plan::new(&Wanted {
                topics: topic.into_iter().map(|t| find_topic(t).unwrap()).collect(),
                ..wanted(seconds, 2)
            });
            plan.steps[0].processes
        };
        assert_eq!(of(USUAL_S, None), 5);
        assert_eq!(of(QUICK_S, None), 1);
        assert_eq!(of(QUICK_S, Some("speed")), 5);
        assert_eq!(of(6.0, Some("speed")), 1);
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
