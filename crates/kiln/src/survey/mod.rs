//! `kiln survey`, the default command: answers all questions for this machine in the available
//! time.
//!
//! Each part of the survey runs a command of this program in a separate process with a time limit.
//! A part therefore produces the same results and record as its command does alone. A part that
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

/// Answer six questions about this machine in about a minute (the default command)
///
/// Takes about 70 s, or 20 s with --quick, or the time given with --minutes. The survey runs other
/// commands of Kiln; the output names the command next to each question. A number with a range is
/// the median of the results of five processes, run at different times. With a probability of 95 %,
/// the result of a sixth process would be in the range. With --quick, each command runs in one
/// process, so ranges and verdicts are missing. The output also lists each measurement that was
/// left out, and the command that adds it.
///
/// At the end, the survey writes a page that you can mail: kiln-report.html, or DIR/report.html
/// with --out DIR. With --out DIR, the survey also writes a JSON file for each process that it ran.
/// The file of a command's first process is in DIR, for example DIR/speed.json; the files of its
/// other processes are in DIR/reruns. DIR/survey.json contains the answers, and copies of the files
/// of all first processes.
#[derive(Args, Default)]
#[command(after_long_help = "\
Questions (--question):
  speed, softirq-simd, nested-fpu, fpu-budget, compilers, ctrlq

Exit status:
  1 if an output was wrong or a register was lost
  1 if the test for lost registers could have missed a loss (\"no power\"), for
    example because too few registers were lost in the test's control, a run
    that saves no registers on purpose

Examples:
  kiln
  kiln survey --minutes 5 --out results
  kiln survey --minutes 3 --tree ~/linux        with a kernel tree's own code
  kiln survey --question speed,ctrlq --quick
  kiln survey --report /tmp/here.html
  KILN_TIERS=generic,aesni kiln                 only these two ISA tiers

See also:
  docs/FINDINGS.md, docs/METHODOLOGY.md")]
pub struct SurveyArgs {
    /// Minutes that the survey may take [default: 1.2]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    minutes: Option<f64>,
    /// Answer only these questions; --help lists their names [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    question: Vec<String>,
    /// Also measure the crypto code of this Linux source tree or git revision; needs --minutes 3 or
    /// more
    #[arg(long, value_name = "DIR|REV")]
    tree: Option<PathBuf>,
    /// File for the report page [default: kiln-report.html, or DIR/report.html with --out DIR]
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
