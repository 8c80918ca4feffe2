//! `kiln survey`, and `kiln` alone: all questions for this machine, in the time there is.

pub(super) mod page;
mod run;

use std::path::PathBuf;

use clap::Args;
use kiln_lab::compilers::Toolchain;
use kiln_lab::survey::{Plan, Question, Wanted};
use kiln_lab::{read_facts, Error};

use self::page::Page;
use self::run::Survey;
use crate::session::{Exit, Session};

/// All questions in about a minute; what kiln does without a command
///
/// Takes about 70 s, with --quick 20 s, with --minutes as long as you say. Each question is answered by its own command.
/// What becomes a headline is measured in five processes spread over the survey, and its interval is where the next process
/// is expected with a probability of 95 %. With --quick there is one process each, so there are no intervals and no verdicts.
/// What was left out is listed with the command that adds it. The last step writes a page that you can mail:
/// kiln-report.html, or DIR/report.html with --out DIR. DIR also receives the records: one per command (speed.json, fpu.json,
/// ...), those of the repeated processes in DIR/reruns, and survey.json, which contains the first of each.
#[derive(Args, Default)]
#[command(after_long_help = "\
Questions:
  speed, softirq-simd, nested-fpu, fpu-budget, compilers, ctrlq

Row fields (--json):
  question, headline, value, unit, baseline (the published figure), ratio
  (value over baseline), low, high, values (one per process), command, source.
  The field records has the commands' records, of one process each.

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
    /// Minutes it may take [default: 1.2]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    minutes: Option<f64>,
    /// Questions to ask [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    question: Vec<String>,
    /// A Linux source tree, built and hosted; needs --minutes 3
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// Where the page goes [default: kiln-report.html, or DIR/report.html]
    #[arg(long, value_name = "FILE", conflicts_with = "no_report")]
    report: Option<PathBuf>,
    /// No page
    #[arg(long)]
    no_report: bool,
}

impl SurveyArgs {
    fn wanted(&self, session: &Session) -> Result<Wanted, Error> {
        let questions = self.question.iter().map(|q| q.parse());
        let tree = match &self.tree {
            Some(dir) if !dir.join("Kconfig").is_file() => {
                return Err(Error::input(format!(
                    "--tree {}: no kernel source tree: name the directory its Makefile and Kconfig are in",
                    dir.display()
                )))
            }
            tree => tree.as_ref().map(|d| d.display().to_string()),
        };
        Ok(Wanted {
            seconds: Wanted::time(self.minutes, session.global.quick)?,
            questions: questions.collect::<Result<Vec<Question>, _>>()?,
            compilers: Toolchain::names(),
            tree,
        })
    }
}

/// Runs it.
pub fn run(args: &SurveyArgs, session: &Session) -> Result<Exit, Error> {
    let wanted = args.wanted(session)?;
    let page = match args.no_report {
        true => None,
        false => Some(Page::place(args.report.as_deref(), session)?),
    };
    let plan = Plan::new(&wanted);
    // The clocks are found before anything is loud.
    let facts = read_facts();
    let mut survey = Survey::new(plan, session);
    survey.begin(&facts)?;
    survey.ask()?;
    survey.end(&facts, page.as_ref())
}
