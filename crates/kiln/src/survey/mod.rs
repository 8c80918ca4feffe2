//! `kiln survey`, the default command: answers all questions for this machine in the available
//! time.
//!
//! Each part of the survey runs a command of this program in a separate process with a time limit.
//! A part therefore has the same results and writes the same record as the command. A part that
//! provides a headline runs in five processes, which are spread over the survey: each pass runs one
//! process of every part that still has processes to run. As everywhere in Kiln, each process has
//! one emulated CPU. If a part crashes or hangs, the survey adds a note and continues. Each process
//! takes 0.2 s to start, including the calibration of its clock.
//!
//! | file | contents |
//! |---|---|
//! | `plan.rs` | how much time each part gets, and which parts are omitted |
//! | `run.rs` | runs passes over the parts and combines their results |
//! | `view.rs` | the human-readable output |

mod plan;
mod run;
mod view;

use std::path::PathBuf;

use clap::Args;
use kiln_question::survey::Means;
use kiln_question::{read_facts, Error, Exit, Question, Session};
use kiln_questions::compilers::Toolchain;
use kiln_questions::report::page::Page;

use plan::{find_topic, Plan, Wanted};
use run::Survey;

/// Short measurements of all kinds in about a minute (the default command)
///
/// Takes about 70 s, or 20 s with --quick, or the time given with --minutes. Each question is
/// answered by its own command. Headline numbers are measured in five processes spread over the
/// survey; the interval would contain the result of a sixth process with a probability of 95 %.
/// With --quick there is only one process per part, so intervals and verdicts are missing.
/// Everything that was left out is listed with the command that adds it. The last step writes a
/// page that you can mail: kiln-report.html, or DIR/report.html with --out DIR. DIR also receives
/// the records: one per command (speed.json, fpu.json, ...), those of the repeated processes in
/// DIR/reruns, and survey.json, which contains the first record of each command.
#[derive(Args, Default)]
#[command(after_long_help = "\
Questions:
  speed, softirq-simd, nested-fpu, fpu-budget, compilers, ctrlq

Exit status:
  1 if a check failed: a wrong answer, a lost register, or a control that lost
  too little to show that losses are seen (\"no power\")

Examples:
  kiln
  kiln survey --minutes 5 --out results
  kiln survey --minutes 3 --tree ~/linux        with a kernel tree's own code
  kiln survey --question speed,ctrlq --quick
  kiln survey --report /tmp/here.html
  KILN_TIERS=generic,aesni kiln                 as if the CPU had no VAES

See also:
  docs/FINDINGS.md, docs/METHODOLOGY.md")]
pub struct SurveyArgs {
    /// Minutes that the survey may take [default: 1.2]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    minutes: Option<f64>,
    /// Questions to ask [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    question: Vec<String>,
    /// A Linux source tree, or a git revision of one, to build and host; needs --minutes 3
    #[arg(long, value_name = "DIR|REV")]
    tree: Option<PathBuf>,
    /// File for the report page [default: kiln-report.html, or DIR/report.html]
    #[arg(long, value_name = "FILE", conflicts_with = "no_report")]
    report: Option<PathBuf>,
    /// Do not write the report page
    #[arg(long)]
    no_report: bool,
}

impl SurveyArgs {
    fn wanted(&self, session: &Session) -> Result<Wanted, Error> {
        let topics = self.question.iter().map(|name| find_topic(name));
        let tree = match &self.tree {
            Some(dir) if !dir.join("Kconfig").is_file() && !kiln_question::is_revision(dir) => {
                return Err(Error::input(format!(
                    "--tree {}: not a Linux source tree: name the directory with its Makefile and Kconfig, or a git revision",
                    dir.display()
                )))
            }
            tree => tree.as_ref().map(|d| d.display().to_string()),
        };
        Ok(Wanted {
            seconds: Wanted::time(self.minutes, session.global.quick)?,
            topics: topics.collect::<Result<_, _>>()?,
            means: Means {
                compilers: Toolchain::names(),
                tree,
            },
        })
    }
}

impl Question for SurveyArgs {
    const NAME: &'static str = "survey";
    const TIMED: bool = true;
    const OF_TIERS: bool = true;

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let wanted = self.wanted(session)?;
        let page = match self.no_report {
            true => None,
            false => Some(Page::place(self.report.as_deref(), session)?),
        };
        let plan = Plan::new(&wanted);
        // Calibrate the clocks before other work loads the machine.
        let facts = read_facts();
        let mut survey = Survey::new(plan, session);
        survey.begin(&facts)?;
        survey.ask()?;
        survey.end::<Self>(&facts, page.as_ref())
    }
}
