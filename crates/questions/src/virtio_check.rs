//! `kiln virtio-check`: checks a virtio-crypto device, and prints the results as KTAP.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use kiln_question::{Error, Exit, Outcome, Question, RowType, Session};
use kiln_report::ktap::{self, Ktap};
use kiln_virtio_check::{
    names, offer, run as check, Fault, Offer, RecordRow, Row, Target, Verdict,
};

/// Test a virtio-crypto device for correctness and safety; KTAP on stdout
///
/// For developers and operators of any vhost-user backend. Compares the services that the device
/// offers with published vectors, in both request formats and without sessions; then checks how the
/// device handles the requests and rings of a hostile driver.
#[derive(Args)]
#[command(after_long_help = "\
Each check has a connection of its own. What is not offered is skipped. The
device must serve its control queue on the socket, and connections one after
the other. If it serves several at a time, a second connection watches
whether it still serves others during a hostile check.

Exit status:
  1 if a check failed

Examples:
  kiln serve --socket kiln.sock &
  kiln virtio-check --socket kiln.sock

See also:
  docs/VIRTIO.md")]
pub struct VirtioCheckArgs {
    /// Path of the device's vhost-user socket
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
}

impl Question for VirtioCheckArgs {
    const NAME: &'static str = "virtio-check";

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<RecordRow>(90)]
    }

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let target = Target {
            path: self.socket.clone(),
            stop: session.stop.clone(),
        };
        let what = |e: &Fault| format!("--socket {}: {e}", self.socket.display());
        let offer = match offer(&target) {
            Ok(offer) => offer,
            Err(Fault::Stopped) => return Ok(Exit::Interrupted),
            Err(e @ Fault::Connect(_)) => return Err(Error::input(what(&e))),
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
        let mut ktap = Ktap::new(out, names(&offer).len(), &head(&offer));
        let rows = check(&target, &offer, &mut |row| {
            let verdict = match &row.verdict {
                Verdict::Pass => ktap::Verdict::Ok,
                Verdict::Skip(why) => ktap::Verdict::Skip(why.clone()),
                Verdict::Fail(what) => {
                    ktap.comment(what);
                    ktap::Verdict::NotOk
                }
            };
            ktap.result(&row.case, verdict);
        });
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
        // An interrupted run did not make all checks, and the interruption may have caused its last
        // failure.
        Ok(match session.stopped() {
            true => Exit::Interrupted,
            false => Exit::from_run(failed, false),
        })
    }
}

fn note(row: &Row) -> Option<String> {
    match &row.verdict {
        Verdict::Fail(what) => Some(format!("{}: {what}", row.case)),
        _ => None,
    }
}

/// Formats the features, services and limits that the device offers, one line for each.
fn head(offer: &Offer) -> [String; 3] {
    let c = &offer.config;
    [
        format!(
            "features {:#x}, services {:#x}, data queues {}",
            offer.features, c.crypto_services, c.max_dataqueues
        ),
        format!(
            "ciphers {:#x}, hashes {:#x}, macs {:#x}, aeads {:#x}, akciphers {:#x}",
            c.cipher_algo, c.hash_algo, c.mac_algo, c.aead_algo, c.akcipher_algo
        ),
        format!(
            "at most {} bytes a request, {} a cipher key, {} a mac key",
            c.max_size, c.max_cipher_key_len, c.max_auth_key_len
        ),
    ]
}
