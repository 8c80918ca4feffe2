//! The command line of `kiln`: the survey, the questions that are part of it, and auxiliary
//! commands.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use kiln_question::{Error, Exit, Global, Question, Session, Shard};

use crate::completions::{self, CompletionsArgs};
use crate::defaults::Defaults;
use crate::fields::add_fields;
use crate::man::{self, ManArgs};
use crate::survey::SurveyArgs;
use crate::version;

/// Run kernel crypto code and its FPU sections in user space, to measure and test them.
#[derive(Parser)]
#[command(
    name = "kiln",
    version = version::DESCRIPTION,
    max_term_width = 100,
    after_long_help = "\
Without a command, kiln runs 'kiln survey'.

Exit status:
  0    done
  1    a check found a wrong output, lost registers, a regression or the like
  2    the input or the arguments are wrong
  3    something is missing on this machine; the message says how to get it
  125  with --bisect: this commit cannot be judged, so git bisect skips it
  130  interrupted by Ctrl-C; the results so far are printed

Environment:
  KILN_TIERS=generic,aesni   use only these ISA tiers; 'kiln list' shows all
  KILN_CC=CC                 the C compiler that builds kernel trees
  KILN_DEFAULTS=FILE         like --defaults FILE; if empty, no file is read
  XDG_CACHE_HOME=DIR         trees are built in DIR/kiln [default: ~/.cache]

Examples:
  kiln                                answers to the six questions
  kiln list                           ciphers, libraries, peak speeds here
  kiln speed 'xts(aes)' --len 16..64  cycles per byte at every length
  KILN_TIERS=generic,aesni kiln       only the ISA tiers generic and aesni"
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Option<Command>,
}

impl Cli {
    /// Parses the arguments of this process, with default values from the configuration file.
    pub fn read(defaults: &Defaults) -> Result<(Cli, ArgMatches), clap::Error> {
        let matches = Cli::with(defaults)
            .try_get_matches()
            .or_else(|e| match e.kind() {
                ErrorKind::DisplayHelp => add_fields(Cli::with(defaults)).try_get_matches(),
                _ => Err(e),
            })?;
        check_placement(&mut Cli::command(), &matches)?;
        Ok((Cli::from_arg_matches(&matches)?, matches))
    }

    /// Returns the definition of all commands, with default values from the configuration file.
    pub fn with(defaults: &Defaults) -> clap::Command {
        defaults.apply(Cli::command())
    }

    /// Returns the definition of all commands with their complete help, which includes the fields
    /// of rows. Ordinary runs omit the fields, because reading them from the schema takes longer
    /// than running some of the commands.
    pub fn described() -> clap::Command {
        add_fields(Cli::with(&Defaults::default()))
    }
}

/// Rejects flags of a command that are given before its subcommand, as in `kiln fpu --policy legacy
/// usable`, because the subcommand would ignore the flags.
fn check_placement(command: &mut clap::Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some((name, inner)) = matches.subcommand() else {
        return Ok(());
    };
    let given = |a: &&Arg| {
        !a.is_global_set()
            && matches.value_source(a.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    let flag = command.get_arguments().find(given);
    let text = flag.and_then(Arg::get_long).map(|flag| {
        format!("--{flag} is before '{name}', which does not read it: put it after '{name}'\n")
    });
    if let Some(text) = text {
        return Err(command.error(ErrorKind::ArgumentConflict, text));
    }
    match command.find_subcommand_mut(name) {
        Some(sub) => check_placement(sub, inner),
        None => Ok(()),
    }
}

/// The commands. The doc comments of their argument structures become the help text.
#[derive(Subcommand)]
pub enum Command {
    Survey(SurveyArgs),
    #[command(flatten)]
    Question(kiln_questions::Command),
    Completions(CompletionsArgs),
    #[command(hide = true)]
    Man(ManArgs),
}

impl Command {
    /// Returns the shard that `--shard` selects.
    pub fn shard(&self) -> Option<Shard> {
        match self {
            Command::Question(question) => question.shard(),
            _ => None,
        }
    }

    /// Returns whether the command writes records, so that the configuration file may set the
    /// directory for them.
    pub fn writes_records(&self) -> bool {
        match self {
            Command::Survey(_) => true,
            Command::Question(question) => question.writes_records(),
            Command::Completions(_) | Command::Man(_) => false,
        }
    }

    /// Returns whether `--out` may name a file instead of a directory.
    pub fn writes_a_file(&self) -> bool {
        matches!(self, Command::Question(question) if question.writes_a_file())
    }
}

/// Runs the command, or the survey if no command is given.
pub fn run(command: Option<Command>, session: &Session) -> Result<Exit, Error> {
    match command {
        None => SurveyArgs::default().run(session),
        Some(Command::Survey(args)) => args.run(session),
        Some(Command::Question(question)) => question.run(session),
        Some(Command::Completions(args)) => {
            completions::run(&args, Cli::with(&Defaults::default()))
        }
        Some(Command::Man(args)) => man::run(&args, Cli::described()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
        Cli::with(&Defaults::default()).debug_assert();
    }

    #[test]
    fn flags_before_a_subcommand_are_those_of_every_command() {
        let check = |line: &str| {
            let matches = Cli::command().try_get_matches_from(line.split(' '))?;
            check_placement(&mut Cli::command(), &matches)
        };
        for good in [
            "kiln fpu usable --policy legacy",
            "kiln --json fpu --quick prove --seed 1 breakpoint",
            "kiln linux --json build",
        ] {
            assert!(check(good).is_ok(), "{good}");
        }
        for (wrong, flag) in [
            ("kiln fpu --policy legacy usable", "--policy"),
            ("kiln fpu --irq-rate 5 prove breakpoint", "--irq-rate"),
            ("kiln fpu prove --hardirq-fpu --at 1 breakpoint", "--at"),
        ] {
            let e = check(wrong).unwrap_err().to_string();
            assert!(e.contains(flag), "{wrong}: {e}");
        }
    }
}
