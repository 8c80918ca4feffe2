//! Runs the benchmarks in the tree's KUnit suites. They run in the same child process that measures
//! the tree's library functions.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd};

use crate::event::Event;
use crate::host::Host;
use crate::{raw, Error};

/// Functions that the suites' benchmarks measure. Each entry holds the suite, the case, the
/// function, and the text that precedes the function's result in the output.
const BENCHMARKS: [(&str, &str, &str, &str); 26] = [
    ("aes_cbc_macs", "benchmark_hash", "aes_cmac", ""),
    ("aes_ccm", "benchmark_aead", "aes_ccm_decrypt", "dec "),
    ("aes_ccm", "benchmark_aead", "aes_ccm_encrypt", "enc "),
    ("aes_gcm", "benchmark_aead", "aes_gcm_decrypt", "dec "),
    ("aes_gcm", "benchmark_aead", "aes_gcm_encrypt", "enc "),
    ("blake2b", "benchmark_hash", "blake2b", ""),
    ("blake2s", "benchmark_hash", "blake2s", ""),
    ("crc", "crc16_benchmark", "crc16", ""),
    ("crc", "crc32_be_benchmark", "crc32_be", ""),
    ("crc", "crc32_le_benchmark", "crc32_le", ""),
    ("crc", "crc32c_benchmark", "crc32c", ""),
    ("crc", "crc64_be_benchmark", "crc64_be", ""),
    ("crc", "crc64_nvme_benchmark", "crc64_nvme", ""),
    ("crc", "crc7_be_benchmark", "crc7_be", ""),
    ("crc", "crc_t10dif_benchmark", "crc_t10dif_update", ""),
    ("ghash", "benchmark_hash", "ghash", ""),
    ("md5", "benchmark_hash", "md5", ""),
    ("poly1305", "benchmark_hash", "poly1305", ""),
    ("polyval", "benchmark_hash", "polyval", ""),
    ("sha1", "benchmark_hash", "sha1", ""),
    ("sha224", "benchmark_hash", "sha224", ""),
    ("sha256", "benchmark_hash", "sha256", ""),
    ("sha3", "benchmark_hash", "sha3_256", ""),
    ("sha384", "benchmark_hash", "sha384", ""),
    ("sha512", "benchmark_hash", "sha512", ""),
    ("sm3", "benchmark_hash", "sm3", ""),
];

/// A function's throughput for one message length, as printed by a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure {
    /// Message length in bytes.
    pub len: usize,
    /// Throughput, in whole megabytes (10^6 bytes) per second.
    pub mb_per_s: u64,
}

/// A benchmark in one of the tree's KUnit suites.
pub struct Benchmark {
    suite: CString,
    case: CString,
    /// Text that precedes the function's result in the output.
    mark: &'static str,
}

impl Benchmark {
    /// Finds the benchmark that measures a function, if the tree has one.
    pub fn find(host: &Host, function: &str) -> Option<Benchmark> {
        host.image.symbol("kiln_glue_kunit_run")?;
        let (suite, case, _, mark) = BENCHMARKS.into_iter().find(|b| b.2 == function)?;
        Some(Benchmark {
            suite: CString::new(suite).ok()?,
            case: CString::new(case).ok()?,
            mark,
        })
    }

    /// Runs the benchmark once, and returns the speeds that it printed for the function.
    ///
    /// # Errors
    /// Fails if the tree's output could not be read.
    pub fn run(&self, host: &mut Host) -> Result<Vec<Figure>, Error> {
        let printed = overhear(host, |host| {
            let mut order = raw::KunitOrder {
                suite: self.suite.as_ptr(),
                cases: self.case.as_ptr(),
                bench: 1,
                ..Default::default()
            };
            // SAFETY: the argument points to the structure that the function takes, and its strings
            // outlive the call.
            unsafe { host.call("kiln_glue_kunit_run", (&raw mut order).cast()) }.map(|_| ())
        })?;
        let figures = printed.lines().filter_map(|line| read(line, self.mark));
        Ok(figures.collect())
    }
}

/// Parses a line such as `len=4096: 2024 MB/s` or `data_len=4096: enc 2024 MB/s, dec 2030 MB/s`.
/// The text `mark` precedes the number to return.
fn read(line: &str, mark: &str) -> Option<Figure> {
    let (_, rest) = line.split_once("len=")?;
    let (len, rest) = rest.split_once(": ")?;
    let (_, number) = rest.split_once(mark)?;
    let (number, _) = number.split_once(" MB/s")?;
    Some(Figure {
        len: len.parse().ok()?,
        mb_per_s: number.parse().ok()?,
    })
}

/// Runs `what` and returns the text that the tree prints during the run. This text is not sent to
/// the parent process.
fn overhear(
    host: &mut Host,
    what: impl FnOnce(&mut Host) -> Result<(), Error>,
) -> Result<String, Error> {
    let failed = |_| {
        Error::host(
            "a file for what the tree prints",
            std::io::Error::last_os_error(),
        )
    };
    // SAFETY: the call creates a new descriptor, and the file becomes its only owner.
    let mut file = unsafe {
        let memory = libc::memfd_create(c"kiln-events".as_ptr(), libc::MFD_CLOEXEC);
        let memory = u32::try_from(memory).map_err(failed)?;
        File::from_raw_fd(memory as i32)
    };
    let events = host.events();
    // SAFETY: the descriptor is open, and the call only duplicates it.
    let saved = unsafe { libc::fcntl(events, libc::F_DUPFD_CLOEXEC, 0) };
    u32::try_from(saved).map_err(failed)?;
    // SAFETY: both descriptors are open, and `saved` keeps the parent's pipe open until it is
    // restored below.
    unsafe { libc::dup2(file.as_raw_fd(), events) };
    let done = what(host);
    // SAFETY: both descriptors are open, and `saved` is closed exactly once.
    unsafe {
        libc::dup2(saved, events);
        libc::close(saved);
    }
    done?;
    let mut lines = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut lines));
    read.map_err(|e| Error::host("what the tree printed", e))?;
    let text = lines
        .lines()
        .filter_map(|line| match serde_json::from_str::<Event>(line) {
            Ok(Event::Log { text }) => Some(text),
            _ => None,
        });
    Ok(text.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_what_the_suites_print() {
        let figure = |len, mb_per_s| Some(Figure { len, mb_per_s });
        assert_eq!(
            read("    # benchmark_hash: len=4096: 2024 MB/s", ""),
            figure(4096, 2024)
        );
        let aead = "    # benchmark_aead: data_len=1420: enc 3100 MB/s, dec 3200 MB/s";
        assert_eq!(read(aead, "enc "), figure(1420, 3100));
        assert_eq!(read(aead, "dec "), figure(1420, 3200));
        for none in ["    ok 1 benchmark_hash", "len=x: 3 MB/s", "len=16: fast"] {
            assert_eq!(read(none, ""), None, "{none}");
        }
    }
}
