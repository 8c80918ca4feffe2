//! The arguments of `kiln here`, and the function that runs the command.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use kiln_question::{print, read_facts, table, Error, Exit, Question, RowType, Session};

use super::files::Root;
use super::machine::Machine;
use super::recording::{read_files, write_recording};
use super::row::{Row, Verdict};
use super::script::write_script;
use super::{live, run, view};

/// Does this machine's kernel have one of five known problems with crypto?
///
/// Reads files in /proc, /sys and /boot. Changes nothing and needs no root. Reports for each problem
/// listed below whether this kernel has it, which files show that, what the verdict assumes, and
/// what to do. If the files do not show the answer, the verdict is 'cannot tell'.
#[derive(Args)]
#[command(after_long_help = "\
The problems:
  1 softirq    requests from softirqs are deferred to cryptd
  2 ipsec      cryptd delays or drops packets
  3 section    an FPU section covers a whole message, however long
  4 compiler   the compiler or its flags make C code slow
  5 ctrlq      the virtio-crypto driver polls its control queue

Files that are read:
  /proc   crypto, kallsyms, modules, cpuinfo, softirqs, version, uptime, and
          the CPU times of ksoftirqd and kworkers
  /sys    mitigations, clock source, virtio devices
  /boot   config-$(uname -r), if /proc/config.gz cannot be read

Before you run kiln here, start the programs that encrypt, because
/proc/crypto lists only drivers that are loaded.

Exit status:
  1 with --check, if a verdict is 'has it'

Examples:
  kiln here
  kiln here --json | jq '.rows[] | {question, verdict, finding}'
  kiln here --bpftrace > sections.bt    a script that measures FPU sections
  kiln here --record machine            save the files for --root
  kiln here --root machine              judge saved files, on any machine

'kiln linux record DIR' boots a stock kernel under QEMU and saves its files
for --root. For kernels 6.1 to 6.14 with problem 1 or 2, Kiln has a module
whose drivers do not defer to cryptd: docs/MODULE.md.

See also:
  docs/HERE.md, docs/FINDINGS.md, docs/MODULE.md")]
pub struct HereArgs {
    /// Judge the kernel of another machine from copies of that machine's files in DIR, such as
    /// DIR/proc/crypto and DIR/boot/config-6.12.0. To make the copies, run 'kiln here --record DIR'
    /// on that machine
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Instead of judging the kernel, copy the files that kiln here reads to DIR, which must be
    /// empty or not exist yet
    #[arg(long, value_name = "DIR", conflicts_with_all = ["bpftrace", "live", "check"])]
    record: Option<PathBuf>,
    /// Instead of judging the kernel, print a bpftrace script that measures how long the FPU
    /// sections of each caller last
    #[arg(long, conflicts_with_all = ["live", "check"])]
    bpftrace: bool,
    /// Also measure FPU sections for this many seconds, by running the script that --bpftrace
    /// prints; needs root and bpftrace
    #[arg(long, value_name = "SECONDS", conflicts_with = "root", value_parser = clap::value_parser!(u64).range(1..=86400))]
    live: Option<u64>,
    /// Exit with status 1 if the kernel has any of the five known problems (verdict 'has it')
    #[arg(long)]
    check: bool,
}

impl Question for HereArgs {
    const NAME: &'static str = "here";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<Row>(115)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let dir = self.root.as_deref().unwrap_or(Path::new("/"));
        let why = match fs::metadata(dir.join("proc")) {
            Ok(found) if found.is_dir() => None,
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Some(e.to_string()),
            _ => Some("it has no directory proc".to_string()),
        };
        if let Some(why) = why {
            return Err(Error::input(format!(
                "--root '{}': {why}: name a directory that 'kiln here --record' wrote",
                dir.display()
            )));
        }
        let root = Root::new(dir);
        if session.global.json && (self.record.is_some() || self.bpftrace) {
            return Err(Error::input(
                "--json: --record and --bpftrace have no rows: leave --json out",
            ));
        }
        if let Some(to) = &self.record {
            let files = read_files(&root);
            let bytes = write_recording(to, &files)?;
            let (n, to) = (files.len(), to.display());
            print(&format!(
                "{n} files, {bytes} bytes in {to}: kiln here --root {to}\n"
            ))?;
            return Ok(Exit::Done);
        }
        let machine = Machine::read(&root);
        if self.bpftrace {
            print(&write_script(&machine, None).map_err(Error::lacks)?)?;
            return Ok(Exit::Done);
        }
        let rows = run::judge(&machine);
        let traced = self
            .live
            .map(|seconds| live::trace(&machine, seconds, &session.stop));
        let traced = traced.transpose()?;
        let mut described = run::describe(&machine);
        if let Some(dir) = &self.root {
            described.push(format!("recorded, read from {}", dir.display()));
        }
        let mut notes = Vec::new();
        if self.root.is_none() && !live::is_root() {
            notes.push(
                "not root: root would add how long this kernel's FPU sections last (--live, with bpftrace), and files \
                 that this user may not read"
                    .to_owned(),
            );
        }
        let mut recorded = described.clone();
        recorded.extend(traced.iter().flat_map(|t| t.lines().map(str::to_owned)));
        recorded.extend(notes.iter().cloned());
        session.emit::<HereArgs, _>(&read_facts(), &rows, &recorded, || {
            let live = traced.as_deref().map_or(String::new(), |t| {
                format!(
                    "FPU sections of this kernel, in µs, by caller:\n{}\n\n",
                    t.trim()
                )
            });
            view::format_rows(&described, &rows) + &live + &table::notes(&notes, session.seed)
        })?;
        let has = rows.iter().any(|r| r.verdict == Verdict::Has);
        Ok(Exit::from_run(self.check && has, session.stopped()))
    }
}
