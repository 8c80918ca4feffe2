//! `kiln virtio-check`: checks a virtio-crypto device, and prints the results as KTAP.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use kiln_question::{print, table, Error, Exit, Outcome, Question, RowType, Session};
use kiln_report::ktap::{self, Ktap};
use kiln_virtio_check::{
    list, names, offer, run as check, Fault, Group, RecordRow, Row, Target, Totals, Verdict,
};

use crate::device::socket_path;

/// Test a virtio-crypto device for correctness and safety; KTAP on stdout
///
/// Tests Kiln's device, or any other virtio-crypto device on a vhost-user socket. The command is
/// for developers and operators of such devices. First, it compares the results of every service
/// that the device offers with published test vectors. It sends the requests in all three formats:
/// without the feature bit REVISION_1, with REVISION_1, and stateless. Then it checks how the
/// device handles malicious requests and rings from a driver, and malicious messages from a front
/// end.
#[derive(Args)]
#[command(after_long_help = "\
Each check opens a new connection, so the device must accept connections one
after the other. Checks of features that the device does not offer are
skipped. The device must have a control queue on its vhost-user socket. A
device that creates sessions only by vhost-user messages cannot be tested.
If the device accepts two connections at the same time, some checks send
malicious input on one connection, and use the other one to see whether other
drivers are still served.

All checks together take 10 to 30 s. With kiln serve, which by default limits
new connections to 5 per second after the first 64, they take about a minute.
To avoid this, start kiln serve with --max-new-guests 100. The malicious
input causes warnings in the device's log.

Each result line ends with the checked rule in brackets: a section of version
1.3 of the virtio specification, or a vhost-user message. Section 5.9.7 of
version 1.3 has the number 5.9.9 in version 1.4.

Exit status:
  1 if a check failed

Examples:
  kiln serve --socket kiln.sock --max-new-guests 100 &
  kiln virtio-check --socket kiln.sock
  kiln virtio-check --list

See also:
  docs/VIRTIO.md")]
pub struct VirtioCheckArgs {
    /// Path of the device's vhost-user socket
    #[arg(long, value_name = "PATH", value_parser = socket_path(), required_unless_present = "list")]
    socket: Option<PathBuf>,
    /// List all checks, each with its section of the virtio specification or its vhost-user
    /// message, and exit
    #[arg(long)]
    list: bool,
}

impl Question for VirtioCheckArgs {
    const NAME: &'static str = "virtio-check";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<RecordRow>(90)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let Some(path) = self.socket.as_ref().filter(|_| !self.list) else {
            return print(&list_checks()).map(|()| Exit::Done);
        };
        let target = Target {
            path: path.clone(),
            stop: session.stop.clone(),
        };
        let what = |e: &Fault| format!("--socket {}: {e}", path.display());
        let offer = match offer(&target) {
            Ok(offer) => offer,
            Err(Fault::Stopped) => return Ok(Exit::Interrupted),
            Err(e @ (Fault::Connect(_) | Fault::Late(_))) => return Err(Error::lacks(what(&e))),
            Err(e @ Fault::Refused) => {
                let what = what(&e);
                return Err(Error::lacks(format!(
                    "{what}: disconnect its other front ends, or name a device's vhost-user socket"
                )));
            }
            Err(e @ Fault::Device(_)) => {
                let what = what(&e);
                return Err(Error::lacks(format!(
                    "{what}: name a device's vhost-user socket"
                )));
            }
        };
        let json = session.global.json;
        let out: Box<dyn Write> = match json || session.global.quiet {
            true => Box::new(io::sink()),
            false => Box::new(io::stdout()),
        };
        let mut ktap = Ktap::new(out, names(&offer).len(), &offer.describe());
        let rows = check(&target, &offer, &mut |row| {
            let verdict = match &row.verdict {
                Verdict::Pass => ktap::Verdict::Ok,
                Verdict::Skip(why) => ktap::Verdict::Skip(why.clone()),
                Verdict::Fail(_) => {
                    ktap.comment(&row.explain().unwrap_or_default());
                    ktap::Verdict::NotOk
                }
            };
            ktap.result(&format!("{} [{}]", row.case, row.rule), verdict);
        });
        sum_up(&rows).iter().for_each(|line| ktap.comment(line));
        kiln_question::check(ktap.finish())?;
        let failed = rows.iter().any(|row| row.status() == "fail");
        let notes: Vec<String> = rows.iter().filter_map(note).collect();
        if json || !io::stdout().is_terminal() {
            notes
                .iter()
                .for_each(|note| eprintln!("kiln virtio-check: {note}"));
        }
        session.save::<Self, _>(&Outcome {
            rows: rows.into_iter().map(RecordRow::from).collect(),
            notes,
            ..Outcome::default()
        })?;
        // Report the interruption even if a check failed, because not all checks ran and the
        // interruption may have caused the last failure.
        Ok(match session.stopped() {
            true => Exit::Interrupted,
            false => Exit::from_run(failed, false),
        })
    }
}

fn note(row: &Row) -> Option<String> {
    let what = row.explain().filter(|_| row.status() == "fail")?;
    Some(format!("{}: {what}", row.case))
}

/// Counts the verdicts for each group of checks and for all checks together.
fn sum_up(rows: &[Row]) -> Vec<String> {
    let of_group = |group: Group| {
        let totals = Totals::count(rows.iter().filter(|row| row.group == group));
        let (passed, failed, skipped) = (totals.passed, totals.failed, totals.skipped);
        let name = group.name();
        format!("{name}: {passed} passed, {failed} failed, {skipped} skipped")
    };
    let mut lines: Vec<String> = Group::ALL.into_iter().map(of_group).collect();
    let all = Totals::count(rows);
    lines.push(format!(
        "Totals: pass:{} fail:{} skip:{} error:0",
        all.passed, all.failed, all.skipped
    ));
    lines
}

/// Formats all checks as a table of names, groups and requirements.
fn list_checks() -> String {
    let mut table = table::plain();
    for (group, name, rule) in list() {
        table.add_row([name, group.name().to_string(), rule.describe()]);
    }
    table::align(&mut table, []);
    table::text(&table)
}
