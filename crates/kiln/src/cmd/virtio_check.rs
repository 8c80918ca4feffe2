//! `kiln virtio-check`.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::Args;
use kiln_lab::{read_facts, Error};
use kiln_virtio_check::{names, offer, run as check, Fault, Offer, RecordRow, Row, Verdict};

use crate::output::print;
use crate::session::{Exit, Session};

/// Is a virtio-crypto device right, and safe? KTAP on stdout
///
/// For whoever writes or runs a device: any vhost-user backend's. Checks what the device serves of what it offers, in both
/// forms of requests and stateless, against published vectors; then what it does with requests and rings that a hostile
/// driver makes.
#[derive(Args)]
#[command(after_long_help = "\
Each check has a connection of its own. What is not offered is skipped. The
device must serve its control queue on the socket, and connections one after
the other; if it serves several at a time, one watches the others.

Row fields (--json):
  case, status (pass, skip, fail), note

Exit status:
  1 if a check failed

Examples:
  kiln serve --socket kiln.sock &
  kiln virtio-check --socket kiln.sock

See also:
  docs/VIRTIO.md")]
pub struct VirtioCheckArgs {
    /// The device's socket
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
}

/// Runs it.
pub fn run(args: &VirtioCheckArgs, session: &Session) -> Result<Exit, Error> {
    let path = &args.socket;
    let offer = offer(path).map_err(|e| {
        let what = format!("--socket {}: {e}", path.display());
        match e {
            Fault::Connect(_) => Error::input(what),
            Fault::Device(_) => Error::lacks(format!("{what}: name one's vhost-user socket")),
        }
    })?;
    let json = session.global.json;
    if !json {
        say(&head(&offer, names(&offer).len()))?;
    }
    let mut n = 0;
    let mut told = Ok(());
    let rows = check(path, &offer, &session.stop, &mut |row| {
        n += 1;
        if !json && told.is_ok() {
            told = say(&row.ktap(n));
        }
    });
    told?;
    let failed = rows.iter().filter(|row| row.status() == "fail").count();
    let notes: Vec<String> = rows.iter().filter_map(note).collect();
    if json || !io::stdout().is_terminal() {
        notes
            .iter()
            .for_each(|note| eprintln!("kiln virtio-check: {note}"));
    }
    if json || session.global.out.is_some() {
        let rows: Vec<RecordRow> = rows.into_iter().map(RecordRow::from).collect();
        session.emit("virtio-check", &read_facts(), &rows, &notes, String::new)?;
    }
    Ok(match failed {
        _ if session.stopped() => Exit::Interrupted,
        0 => Exit::Done,
        _ => Exit::Failed,
    })
}

fn note(row: &Row) -> Option<String> {
    match &row.verdict {
        Verdict::Fail(what) => Some(format!("{}: {what}", row.case)),
        _ => None,
    }
}

fn say(text: &str) -> Result<(), Error> {
    print(&format!("{text}\n"))
}

/// Version, what is offered, and how many checks there will be.
fn head(offer: &Offer, checks: usize) -> String {
    let c = &offer.config;
    format!(
        "KTAP version 1\n\
         # features {:#x}, services {:#x}, data queues {}\n\
         # ciphers {:#x}, hashes {:#x}, macs {:#x}, aeads {:#x}, akciphers {:#x}\n\
         # at most {} bytes a request, {} a cipher key, {} a mac key\n\
         1..{checks}",
        offer.features,
        c.crypto_services,
        c.max_dataqueues,
        c.cipher_algo,
        c.hash_algo,
        c.mac_algo,
        c.aead_algo,
        c.akcipher_algo,
        c.max_size,
        c.max_cipher_key_len,
        c.max_auth_key_len
    )
}
