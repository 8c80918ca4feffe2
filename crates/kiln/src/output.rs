//! stdout, where a closed pipe is the end and no fault.

use std::io::{self, ErrorKind, Write};

use kiln_lab::Error;

/// Writes it all.
pub fn print(text: &str) -> Result<(), Error> {
    print_bytes(text.as_bytes())
}

/// Writes them all.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Error::input(format!(
            "cannot write to stdout: {e}: free some space, or redirect it elsewhere"
        ))),
        _ => Ok(()),
    }
}
