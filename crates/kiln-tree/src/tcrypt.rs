//! Runs tcrypt, the tree's own benchmark, and parses the lines that it prints.

use std::ffi::OsString;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use kiln_kernel::cpu::Config;
use schemars::JsonSchema;
use serde::Serialize;

use crate::child::{self, Fault, Order, Watch};
use crate::event::Event;
use crate::host::{Clock, Host};
use crate::{Built, Error};

/// Values of tcrypt's module parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Number by which tcrypt selects a benchmark.
    pub mode: u32,
    /// Seconds per measurement; if 0, tcrypt measures the cycles of a few operations instead.
    pub seconds: u32,
}

/// One measurement that tcrypt, the kernel's own benchmark, printed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(
    rename = "tcrypt",
    title = "tcrypt",
    extend(
        "x-question" = "What are the results of the kernel's own benchmark?",
        "x-commands" = ["speed --tcrypt", "linux tcrypt"]
    )
)]
pub struct Row {
    /// Name of the algorithm in the kernel's crypto API, such as `xts(aes)`.
    #[schemars(extend("x-role" = "key"))]
    pub alg: String,
    /// The driver that was measured, such as `xts-aes-vaes-avx2`.
    #[schemars(extend("x-role" = "key"))]
    pub driver: String,
    /// Operation: `encryption`, `decryption` or `digest`.
    #[schemars(extend("x-role" = "key"))]
    pub op: String,
    /// Key size of a cipher; for XTS, the total size of both keys. Null for a hash.
    #[schemars(extend("unit" = "bits", "x-role" = "key"))]
    pub key_bits: Option<u32>,
    /// Size of the data that one operation processes.
    #[schemars(extend("unit" = "bytes", "x-role" = "key"))]
    pub len: u64,
    /// Size of the data that each update call passes to a hash. Null for a cipher.
    #[schemars(extend("unit" = "bytes", "x-role" = "key"))]
    pub update_len: Option<u64>,
    /// The configuration that the kernel was built with.
    #[schemars(extend("x-role" = "key"))]
    pub config: String,
    /// TSC cycles per operation; null if tcrypt measured throughput.
    #[schemars(extend("unit" = "cycles", "x-role" = "main"))]
    pub cycles: Option<u64>,
    /// Throughput; null if tcrypt measured cycles.
    #[schemars(extend("unit" = "10^6 bytes/s", "x-role" = "main", "x-heading" = "MB/s", "x-better" = "more"))]
    pub mb_per_s: Option<f64>,
    /// Number of operations in `seconds`; null if tcrypt measured cycles.
    #[schemars(extend("x-role" = "figure", "x-heading" = "operations"))]
    pub ops: Option<u64>,
    /// Duration of the measurement; null if tcrypt measured cycles.
    #[schemars(extend("unit" = "s", "x-role" = "figure"))]
    pub seconds: Option<u64>,
}

/// Boots the tree without self-tests, and runs the tree's tcrypt. Called in the child process that
/// [`run`] starts.
///
/// # Errors
/// Fails if the tree's tcrypt could not be built.
pub fn measure(order: &Order, request: Request) -> Result<(), Error> {
    let mut host = Host::boot(order, &Config::default())?;
    // The clock thread is needed because tcrypt polls jiffies in a loop.
    let _clock = Clock::start(&host.image)?;
    for (name, value) in [
        ("kiln_glue_tcrypt_mode", request.mode),
        ("kiln_glue_tcrypt_sec", request.seconds),
    ] {
        let at = host.image.symbol(name).ok_or(Error::NoTcrypt)?;
        // SAFETY: the address is that of a variable in `tcrypt.c`, which has this size. No code
        // reads the variable yet.
        unsafe { ptr::write_volatile(at as *mut u32, value) };
    }
    host.tell("{\"event\":\"started\"}\n")?;
    // SAFETY: the function takes no parameters, so it ignores the argument, and it returns an int.
    unsafe { host.call("kiln_glue_tcrypt", ptr::null_mut())? };
    let done = format!("{{\"event\":\"done\",\"initcalls\":{}}}\n", host.initcalls);
    host.tell(&done)
}

#[derive(Debug)]
pub struct Outcome {
    pub rows: Vec<Row>,
    /// Description of the crash, if the tree's code crashed.
    pub fault: Option<Fault>,
    /// Exit status of the child, if it reported an error.
    pub refused: Option<u8>,
}

/// Starts a child with the arguments `args`, which must make it call [`measure`]. Calls `line` for
/// each complete line of the child's output.
///
/// # Errors
/// Fails if the child cannot be started, or if Ctrl-C was pressed.
pub fn run(
    built: &Built,
    seed: u64,
    args: &[OsString],
    stop: &AtomicBool,
    line: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let mut rows = Vec::new();
    let (mut reader, mut lines) = (Reader::default(), Lines::default());
    let mut started = false;
    let mut complete = |text: &str| {
        rows.extend(reader.line(text).map(|row| Row {
            config: built.config.clone(),
            ..row
        }));
        line(text);
    };
    let mut watch = Watch {
        stop,
        silence: None,
        event: &mut |event| match event {
            Event::Started => started = true,
            Event::Log { text } if started => lines.push(text, &mut complete),
            _ => {}
        },
    };
    let ended = child::run(&Order::new(&built.image, seed), args, &mut watch)?;
    lines.end(&mut complete);
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    let status = ended.status.code().and_then(|c| u8::try_from(c).ok());
    Ok(Outcome {
        rows,
        fault: ended.fault,
        refused: status.filter(|s| *s != 0),
    })
}

/// The beginning of a line that tcrypt prints in several pieces.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn push(&mut self, text: &str, line: &mut dyn FnMut(&str)) {
        // A new message terminates an unfinished line, as on the kernel's console.
        if text.starts_with("tcrypt: ") && !self.0.is_empty() {
            self.end(line);
        }
        self.0.push_str(text);
        while let Some(end) = self.0.find('\n') {
            let rest = self.0.split_off(end + 1);
            line(self.0.trim_end_matches('\n'));
            self.0 = rest;
        }
    }

    fn end(&mut self, line: &mut dyn FnMut(&str)) {
        if !self.0.is_empty() {
            line(&std::mem::take(&mut self.0));
        }
    }
}

/// A parser that converts the lines printed by tcrypt into rows.
#[derive(Default)]
pub struct Reader {
    alg: String,
    driver: String,
    op: String,
}

impl Reader {
    /// Parses a line. If the line completes a row, returns the row.
    pub fn line(&mut self, line: &str) -> Option<Row> {
        let line = line.strip_prefix("tcrypt: ").unwrap_or(line);
        if let Some(rest) = line.strip_prefix("testing speed of ") {
            let known = ["async ", "sync ", "multibuffer "];
            let rest = known
                .iter()
                .find_map(|k| rest.strip_prefix(k))
                .unwrap_or(rest);
            let (alg, rest) = rest.split_once(" (")?;
            let (driver, op) = rest.rsplit_once(')')?;
            self.alg = alg.to_string();
            self.driver = driver.to_string();
            self.op = match op.trim() {
                "" => "digest".to_string(),
                op => op.to_string(),
            };
            return None;
        }
        let (what, found) = line.strip_prefix("test")?.split_once("): ")?;
        let (_, what) = what.split_once('(')?;
        let before = |unit: &str, text: &str| -> Option<u64> {
            let (head, _) = text.split_once(unit)?;
            head.split_whitespace().last()?.parse().ok()
        };
        let mut row = Row {
            alg: self.alg.clone(),
            driver: self.driver.clone(),
            op: self.op.clone(),
            key_bits: before(" bit key", what).and_then(|n| u32::try_from(n).ok()),
            len: before(" byte blocks", what)?,
            update_len: before(" bytes per update", what),
            ops: None,
            seconds: None,
            cycles: None,
            mb_per_s: None,
            config: String::new(),
        };
        if let Some(cycles) = before(" cycles/operation", found) {
            row.cycles = Some(cycles);
        } else if let Some(bytes) = before(" bytes/sec", found) {
            row.ops = before(" opers/sec", found);
            row.seconds = Some(1);
            row.mb_per_s = Some(bytes as f64 / 1e6);
        } else if let Some(cycles) = before(" cycles (", found) {
            row.cycles = Some(cycles);
        } else {
            let ops = before(" operations in ", found)?;
            let seconds = before(" seconds (", found)?;
            let (_, bytes) = found.split_once('(')?;
            let bytes = before(" bytes)", bytes)?;
            row.ops = Some(ops);
            row.seconds = Some(seconds);
            row.mb_per_s = (seconds > 0).then(|| bytes as f64 / seconds as f64 / 1e6);
        }
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> (Vec<String>, Vec<Row>) {
        let (mut lines, mut rows, mut reader) = (Vec::new(), Vec::new(), Reader::default());
        let mut assembled = Lines::default();
        let mut complete = |line: &str| {
            rows.extend(reader.line(line));
            lines.push(line.to_string());
        };
        for text in texts {
            assembled.push(text, &mut complete);
        }
        assembled.end(&mut complete);
        (lines, rows)
    }

    #[test]
    fn lines_are_put_together_as_on_a_console() {
        let (lines, _) = read(&[
            "tcrypt: test 0: ",
            "1 operation\n",
            "tcrypt: cut",
            "tcrypt: \nnext\n",
            "last",
        ]);
        let wanted = [
            "tcrypt: test 0: 1 operation",
            "tcrypt: cut",
            "tcrypt: ",
            "next",
            "last",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn ciphers_have_keys_and_lengths() {
        let (_, rows) = read(&[
            "tcrypt: testing speed of async gcm(aes) (gcm_base(ctr(aes-generic),ghash-generic)) encryption\n",
            "tcrypt: test 0 (256 bit key, 16 byte blocks): ",
            "1 operation in 812 cycles (16 bytes)\n",
            "tcrypt: test 1 (512 bit key, 4096 byte blocks): ",
            "1000 operations in 2 seconds (4096000 bytes)\n",
        ]);
        assert_eq!(rows[0].alg, "gcm(aes)");
        assert_eq!(rows[0].driver, "gcm_base(ctr(aes-generic),ghash-generic)");
        assert_eq!(
            (rows[0].op.as_str(), rows[0].key_bits),
            ("encryption", Some(256))
        );
        assert_eq!((rows[0].len, rows[0].cycles), (16, Some(812)));
        assert_eq!((rows[1].ops, rows[1].seconds), (Some(1000), Some(2)));
        assert_eq!(rows[1].mb_per_s, Some(2.048));
        assert_eq!(rows.len(), 2);
    }

    #[test]
    fn hashes_have_updates() {
        let (_, rows) = read(&[
            "tcrypt: \ntesting speed of async sha256 (sha256-ni)\n",
            "tcrypt: test  0 (   16 byte blocks,    8 bytes per update,   2 updates): ",
            "   103 cycles/operation,    6 cycles/byte\n",
            "tcrypt: test  1 (   64 byte blocks,   64 bytes per update,   1 updates): ",
            "   500 opers/sec,     32000 bytes/sec\n",
        ]);
        assert_eq!(
            (rows[0].driver.as_str(), rows[0].op.as_str()),
            ("sha256-ni", "digest")
        );
        assert_eq!(
            (rows[0].len, rows[0].update_len, rows[0].cycles),
            (16, Some(8), Some(103))
        );
        assert_eq!((rows[1].ops, rows[1].mb_per_s), (Some(500), Some(0.032)));
    }
}
