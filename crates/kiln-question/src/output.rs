//! Writes to stdout, where a closed pipe ends the output without an error, and prints error lines
//! on stderr.

use std::io::{self, ErrorKind, Write};

use crate::Error;

/// Writes `text` to stdout. A closed pipe counts as success.
pub fn print(text: &str) -> Result<(), Error> {
    print_bytes(text.as_bytes())
}

/// Writes `bytes` to stdout. A closed pipe counts as success.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    check(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Converts the result of a write to stdout. A closed pipe counts as success.
pub fn check(written: io::Result<()>) -> Result<(), Error> {
    match written {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Error::input(format!(
            "cannot write to stdout: {e}: free some space, or redirect it elsewhere"
        ))),
        _ => Ok(()),
    }
}

/// Prints the error to stderr. If stderr is closed, the line is silently lost.
pub fn print_error(e: &Error) {
    print_fault(&e.to_string());
}

/// Writes a line to stderr, prefixed with the program's name.
pub fn print_fault(line: &str) {
    let _ = writeln!(io::stderr(), "kiln: {}", without_numbers(line));
}

/// Removes the error numbers that the standard library appends to operating system error messages.
fn without_numbers(text: &str) -> String {
    const NUMBER: &str = " (os error ";
    let mut words = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(NUMBER) {
        words.push_str(before);
        rest = after.split_once(')').map_or("", |(_, behind)| behind);
    }
    words + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_numbers_are_left_out() {
        let text = "cannot read 'x': No such file or directory (os error 2): name a file";
        let words = "cannot read 'x': No such file or directory: name a file";
        assert_eq!(without_numbers(text), words);
        assert_eq!(without_numbers(words), words);
    }
}
