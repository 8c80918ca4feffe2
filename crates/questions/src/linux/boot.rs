//! Boots user mode Linux for `kiln linux boot`.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use kiln_linux::boot::Boot;
use kiln_linux::console::{End, Line};
use kiln_linux::init::{initramfs, Order};
use kiln_linux::program;
use kiln_question::{Error, Exit, Progress, Question, Session};

use super::kernel_args::{build_module, KernelArgs};
use super::seconds::seconds;

/// Boot user mode Linux, and run a program in it
///
/// The kernel's console output goes to stdout. If a PROGRAM is given, it runs in the booted system,
/// and this command exits with the program's exit status.
#[derive(Args)]
#[command(after_long_help = "\
PROGRAM is an executable file of this machine. Kiln copies it into the booted
system, with the libraries that it is linked to. The booted system contains
no other files of this machine. It has its own /proc, /sys, /dev and /tmp. A
boot that has not ended after --limit seconds is killed. Without PROGRAM, the
time from the start of the boot until init runs is printed on stderr.

Examples:
  kiln linux boot --tree ~/linux
  kiln linux boot -- cat /proc/crypto
  kiln linux boot --module -- cat /proc/crypto

See also:
  docs/LINUX.md")]
pub(super) struct BootArgs {
    #[command(flatten)]
    kernel: KernelArgs,
    /// Kill the kernel after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    limit: f64,
    /// Memory of the booted system
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = memory)]
    memory: String,
    /// Load Kiln's module into the booted kernel, before PROGRAM runs
    #[arg(long)]
    module: bool,
    /// Add this word to the kernel's command line (repeatable)
    #[arg(long, value_name = "WORD", num_args = 1)]
    append: Vec<String>,
    /// Program of this machine to run in the booted system, and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// Checks a memory size such as 256M. The text is passed to the kernel's command line unchanged.
fn memory(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let well = text.len() <= digits.len() + 1 && digits.parse::<u32>().is_ok_and(|n| n > 0);
    match well {
        true => Ok(text.to_owned()),
        false => Err("a number and K, M or G, such as 256M".into()),
    }
}

impl Question for BootArgs {
    const NAME: &'static str = "linux-boot";

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        if session.global.json {
            return Err(Error::input(
                "--json: a boot writes no rows: leave --json out",
            ));
        }
        let progress = Progress::start();
        let built = self.kernel.build(session, &progress)?;
        let module = match self.module {
            true => Some(build_module(&built, session, &progress)?),
            false => None,
        };
        drop(progress);
        let mut orders = Vec::new();
        if module.is_some() {
            orders.push(Order::module("/kiln.ko", "all=1 tiers=all"));
        }
        let mut number = 0;
        if let Some((name, rest)) = self.program.split_first() {
            let path = program::path(name)?;
            let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
            orders.push(Order::run(&path, &rest));
            number = orders.len() as u32;
        }
        let mut archive = initramfs(&built.compiler, &orders)?;
        if let Some(module) = &module {
            let bytes = std::fs::read(&module.path)
                .map_err(|e| kiln_linux::Error::cache(&module.path, e))?;
            archive.file("kiln.ko", &bytes);
        }
        if let Some(name) = self.program.first() {
            program::add(&mut archive, name)?;
        }
        let arguments: Vec<&str> = self.append.iter().map(String::as_str).collect();
        let quiet = !self.program.is_empty();
        let (mut ended, mut out) = (None, io::stdout());
        let outcome = Boot {
            linux: &built.linux,
            initramfs: archive.finish(),
            memory: &self.memory,
            arguments: &arguments,
            limit: Duration::from_secs_f64(self.limit),
            stop: &session.stop,
        }
        .run(&mut |line| {
            // Ignore write errors: the exit status must be returned even if stdout is closed.
            let _ = match line {
                Line::Out(text) => writeln!(out, "{text}"),
                Line::Err(text) => writeln!(io::stderr(), "{text}"),
                Line::Noise(text) if !quiet => writeln!(out, "{text}"),
                Line::Log { seconds, text, .. } if !quiet => {
                    writeln!(out, "[{seconds:12.6}] {text}")
                }
                _ => Ok(()),
            };
            if let Line::End { order, how } = line {
                if *order == number {
                    ended = Some(*how);
                }
            }
        })?;
        if let (false, Some(to_init)) = (quiet, outcome.to_init) {
            eprintln!(
                "kiln: init ran {:.3} s after the start, all was over after {:.3} s",
                to_init.as_secs_f64(),
                outcome.took.as_secs_f64()
            );
        }
        Ok(match (ended, outcome.exit) {
            (Some(End::Exit(status)), _) => exit(status),
            // Shells use the same exit status for a program killed by a signal.
            (Some(End::Signal(signal)), _) => exit(128 + signal),
            (None, Some(0)) if number == 0 => Exit::Done,
            _ => {
                return Err(Error::Failed(format!(
                    "what was to be done in user mode Linux failed; the end of its console is above\n  {}",
                    outcome.tail.join("\n  ")
                )))
            }
        })
    }
}

fn exit(status: i32) -> Exit {
    match u8::try_from(status) {
        Ok(0) => Exit::Done,
        Ok(status) => Exit::Refused(status),
        Err(_) => Exit::Failed,
    }
}
