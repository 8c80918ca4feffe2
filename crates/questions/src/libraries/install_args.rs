//! The arguments of `kiln libraries install`, and the function that runs the command.

use clap::Args;
use kiln_question::{print_error, unknown, Error, Exit, Outcome, Progress, Question, Session};

use super::catalogue::{Library, ALL};
use super::install::install;
use super::job::Fault;
use super::row::list_libraries;
use super::view;
use kiln_timing::peer::installed::directory;

/// Build or unpack current libraries into Kiln's cache
///
/// cargo downloads crates from the crate registry, and apt-get downloads packages from Debian's
/// mirror; both programs verify what they download. Each library is built or unpacked in a
/// temporary directory, and loaded once as a check. A library that passes this check is then moved
/// to the directory in which 'kiln speed' searches.
#[derive(Args)]
#[command(after_long_help = "\
Without NAME, all four libraries are installed, one after the other. This
takes some minutes and downloads up to 60 MB. A version that is already in
the cache is built again and replaced.

  NAME       source                  needs these programs
  openssl    crate openssl-src       cargo, perl, make, cc
  ipsec-mb   Debian sid's packages   apt-get, dpkg-deb
  libgcrypt  Debian sid's sources    apt-get, tar, bzip2, make, cc
  aws-lc     crate aws-lc-sys        cargo, cmake, make, cc

To remove a library, delete its directory in ~/.cache/kiln/libraries.

Exit status:
  3 if a library cannot be installed; the others are installed nevertheless

Examples:
  kiln libraries install
  kiln libraries install openssl ipsec-mb

See also:
  docs/INSTALL.md")]
pub(super) struct InstallArgs {
    /// The libraries to install: openssl, ipsec-mb, libgcrypt, aws-lc [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

impl Question for InstallArgs {
    const NAME: &'static str = "libraries";

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let wanted = select(&self.names)?;
        let all = directory()
            .ok_or_else(|| Error::lacks("no place for a cache: set XDG_CACHE_HOME or HOME"))?;
        let progress = Progress::start();
        let (mut notes, mut faults, mut interrupted) = (Vec::new(), Vec::new(), false);
        for (i, library) in wanted.iter().enumerate() {
            let report = |done: f64, what: &str| {
                let done = (i as f64 + done) / wanted.len() as f64;
                progress.report(done, &format!("{}: {what}", library.name));
            };
            match install(library, &all, &session.stop, &report) {
                Ok(note) => notes.push(note),
                Err(Fault::Stopped) => {
                    interrupted = true;
                    break;
                }
                Err(Fault::Error(e)) => faults.push(e),
            }
        }
        drop(progress);
        if faults.len() == wanted.len() && faults.len() == 1 {
            return Err(faults.remove(0));
        }
        let outcome = Outcome {
            rows: list_libraries(),
            notes,
            interrupted,
            ..Outcome::default()
        };
        session.show::<Self, _>(&kiln_question::read_facts(), &outcome, view::format_table)?;
        for fault in &faults {
            print_error(fault);
        }
        Ok(match (faults.first(), interrupted) {
            (Some(fault), false) => Exit::Refused(fault.exit_code()),
            _ => Exit::from_run(false, interrupted),
        })
    }
}

/// Returns the libraries called `names`, without duplicates, or all libraries if `names` is empty.
fn select(names: &[String]) -> Result<Vec<&'static Library>, Error> {
    let known: Vec<&str> = ALL.iter().map(|l| l.name).collect();
    if let Some(name) = names.iter().find(|n| !known.contains(&n.as_str())) {
        return Err(unknown("library", name, &known));
    }
    let wanted = |l: &&'static Library| names.is_empty() || names.iter().any(|n| n == l.name);
    Ok(ALL.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_select_and_an_unknown_one_is_refused() {
        let names = |all: &[&str]| -> Result<Vec<&str>, Error> {
            let all: Vec<String> = all.iter().map(|n| n.to_string()).collect();
            Ok(select(&all)?.iter().map(|l| l.name).collect())
        };
        assert_eq!(names(&[]).unwrap().len(), ALL.len());
        assert_eq!(
            names(&["ipsec-mb", "openssl", "openssl"]).unwrap(),
            ["openssl", "ipsec-mb"]
        );
        let fault = names(&["opensll"]).unwrap_err();
        assert!(fault.to_string().contains("did you mean 'openssl'"));
        assert_eq!(fault.exit_code(), 2);
    }
}
