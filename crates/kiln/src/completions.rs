//! `kiln completions`: prints a shell completion script.

use clap::{Args, Command, ValueEnum};
use clap_complete::{generate, Shell as Form};
use kiln_question::{print_bytes, Error, Exit};

/// Print a shell completion script
///
/// Only needed if kiln was built from source; the Debian package includes the completions.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  kiln completions bash > ~/.local/share/bash-completion/completions/kiln
  kiln completions fish > ~/.config/fish/completions/kiln.fish
  kiln completions zsh > /usr/local/share/zsh/site-functions/_kiln")]
pub struct CompletionsArgs {
    /// Shell for which to print the script
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the completion script for `program`.
pub fn run(args: &CompletionsArgs, mut program: Command) -> Result<Exit, Error> {
    let form = match args.shell {
        Shell::Bash => Form::Bash,
        Shell::Zsh => Form::Zsh,
        Shell::Fish => Form::Fish,
    };
    let mut script = Vec::new();
    generate(form, &mut program, "kiln", &mut script);
    print_bytes(&script).map(|()| Exit::Done)
}
