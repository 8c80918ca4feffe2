//! Logs events with fields to stderr, as text or JSON. Fields never contain keys, request bytes, or
//! addresses of guest memory.
//!
//! If stderr has no room for a line, the line is dropped and counted. If the write blocked instead,
//! a stalled reader would stop the main process: it would neither accept guests nor exit on
//! SIGTERM.
//!
//! Only the main process writes to stderr. It also writes the lines of guest processes, which it
//! reads from the memory that it shares with them ([`crate::lines`]).

use std::io::{self, stderr, IoSlice, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{fstat, open, FileType, Mode, OFlags};
use rustix::io::{pwritev2, Errno, ReadWriteFlags};
use rustix::net::{sendmsg, SendAncillaryBuffer, SendFlags};
use rustix::pipe::PIPE_BUF;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::error::Error;
use crate::lines::Writer;
use crate::notify::Bell;
use crate::pace::Bucket;

/// Maximum number of lines per second that one process logs, and the burst allowed after a pause.
/// The burst is as many lines as this rate permits in [`LINES_AT_ONCE`]. Without a limit, a front
/// end could cause any number of lines.
const LINES: u64 = 20;
const LINES_AT_ONCE: Duration = Duration::from_secs(10);

/// A rate limit for log lines. It drops lines that exceed the rate. Later, it reports how many
/// lines were dropped, whether by the limit or because the output had no room.
pub(crate) struct Limit {
    bucket: Bucket,
    start: Instant,
    left_out: AtomicU64,
    /// Number of lines for which the output had no room, shared with [`Out::lost`].
    lost: Arc<AtomicU64>,
}

/// The limit that the main process applies to the lines of a guest process. The guest process
/// limits its lines as well, unless it was taken over. The main process receives the lines later
/// and in groups, so its limit has to allow a longer burst.
impl Default for Limit {
    fn default() -> Limit {
        Limit {
            bucket: Bucket::new(LINES, LINES_AT_ONCE * 2),
            ..Limit::new(Arc::default())
        }
    }
}

impl Limit {
    fn new(lost: Arc<AtomicU64>) -> Limit {
        Limit {
            bucket: Bucket::new(LINES, LINES_AT_ONCE),
            start: Instant::now(),
            left_out: AtomicU64::new(0),
            lost,
        }
    }

    /// Returns the number of lines dropped since the last one was written, or `None` if no line may
    /// be written now.
    pub(crate) fn admit_now(&self) -> Option<u64> {
        self.admit(self.start.elapsed())
    }

    /// Like [`Limit::admit_now`], but for the time `now` since the limit was created.
    fn admit(&self, now: Duration) -> Option<u64> {
        let now = now.as_nanos() as u64;
        if !self.bucket.is_due(now) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.bucket.take(1, now);
        Some(self.left_out.swap(0, Ordering::Relaxed) + self.lost.swap(0, Ordering::Relaxed))
    }

    /// Returns whether a line may be written at the time `now`, and reports how many lines were
    /// dropped before that time.
    fn admit_and_report(&self, now: Duration, report: impl FnOnce(u64)) -> bool {
        match self.admit(now) {
            None => return false,
            Some(0) => {}
            Some(lines) => {
                report(lines);
                let count = |dropped: &AtomicU64| dropped.load(Ordering::Relaxed);
                if count(&self.lost) != 0 || count(&self.left_out) != 0 {
                    // The report itself was dropped, so a later report must include its lines.
                    self.left_out.fetch_add(lines, Ordering::Relaxed);
                }
            }
        }
        true
    }
}

impl<S: Subscriber> Layer<S> for Limit {
    fn event_enabled(&self, _: &Event<'_>, _: Context<'_, S>) -> bool {
        self.admit_and_report(self.start.elapsed(), report_dropped)
    }
}

fn report_dropped(lines: u64) {
    tracing::warn!(
        lines,
        "lines were dropped: the rate limit was exceeded, or the output had no room"
    );
}

/// An output for log lines. Each write is one line, and is dropped and counted if it would block.
struct Out {
    to: To,
    lost: Arc<AtomicU64>,
}

/// How lines are written without blocking. `O_NONBLOCK` is never set on an inherited descriptor,
/// because all processes that share the open file description would see it.
enum To {
    /// A descriptor reopened for this process with `O_NONBLOCK`: a pipe or a terminal.
    Own(OwnedFd),
    /// A socket, whose writes can be made non-blocking individually.
    Socket(OwnedFd),
    /// A pipe or a terminal that cannot be reopened, because another user owns it.
    Foreign(OwnedFd),
    /// A regular file or a block device, whose writes do not wait for a reader.
    File(OwnedFd),
    /// Memory from which the main process takes the lines, and the bell that wakes the main
    /// process.
    Main(Writer, Arc<Bell>),
}

impl Out {
    fn new(out: BorrowedFd<'_>, lost: Arc<AtomicU64>) -> io::Result<Out> {
        let copy = out.try_clone_to_owned()?;
        let to = match FileType::from_raw_mode(fstat(out)?.st_mode) {
            FileType::Socket => To::Socket(copy),
            FileType::Fifo | FileType::CharacterDevice => {
                let path = format!("/proc/self/fd/{}", out.as_raw_fd());
                let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                match open(path, flags, Mode::empty()) {
                    Ok(own) => To::Own(own),
                    Err(_) => To::Foreign(copy),
                }
            }
            _ => To::File(copy),
        };
        Ok(Out { to, lost })
    }

    fn write_line(&self, line: &[u8]) -> Result<usize, Errno> {
        match &self.to {
            To::Own(out) | To::File(out) => rustix::io::write(out, line),
            To::Socket(out) => sendmsg(
                out,
                &[IoSlice::new(line)],
                &mut SendAncillaryBuffer::default(),
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ),
            To::Foreign(out) => {
                // The offset -1 means the file's current position.
                let at_end = u64::MAX;
                match pwritev2(out, &[IoSlice::new(line)], at_end, ReadWriteFlags::NOWAIT) {
                    Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_if_room(out, line),
                    done => done,
                }
            }
            To::Main(lines, bell) => match lines.write(line) {
                true => {
                    bell.ring();
                    Ok(line.len())
                }
                false => Err(Errno::AGAIN),
            },
        }
    }
}

/// Where the main process writes its own lines and those of guest processes.
static OUT: OnceLock<Arc<Out>> = OnceLock::new();

/// Writes a line from a guest process, which may contain any bytes. Control characters are
/// replaced, so that they neither reach a terminal nor begin another line. `dropped` is the number
/// of lines from the same process that were dropped before this one.
pub(crate) fn forward(line: &[u8], dropped: u64) {
    if dropped > 0 {
        report_dropped(dropped);
    }
    if let Some(out) = OUT.get() {
        let _ = out.as_ref().write(clean(line).as_bytes());
    }
}

/// Returns the line with its control characters replaced and a line feed appended.
fn clean(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line));
    let shown = |c: char| match c.is_control() {
        true => char::REPLACEMENT_CHARACTER,
        false => c,
    };
    line.chars().map(shown).chain(['\n']).collect()
}

/// Writes a line if poll() reports room. Used only where non-blocking writes are impossible: for a
/// terminal of another user, or for a pipe of another user before Linux 6.5. Another process that
/// writes to the same pipe can use up the room between the two calls, and then the write blocks.
fn write_if_room(out: &OwnedFd, line: &[u8]) -> Result<usize, Errno> {
    let mut fds = [PollFd::new(out, PollFlags::OUT)];
    if poll(&mut fds, Some(&Timespec::default()))? == 0 || line.len() > PIPE_BUF {
        return Err(Errno::AGAIN);
    }
    rustix::io::write(out, line)
}

impl Write for &Out {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // If a line was written only in part, the rest is not written later: it would end up within
        // another process's line.
        if self.write_line(line) != Ok(line.len()) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    #[default]
    Text,
    /// One JSON object per line, for programs.
    Json,
}

impl FromStr for Form {
    type Err = Error;

    fn from_str(name: &str) -> Result<Form, Error> {
        match name {
            "text" => Ok(Form::Text),
            "json" => Ok(Form::Json),
            _ => Err(Error::Argument(format!(
                "unknown log format '{name}': choose text or json"
            ))),
        }
    }
}

/// Starts logging to stderr at the given level: off, error, warn, info, debug or trace.
pub fn start(form: Form, level: &str) -> Result<(), Error> {
    let lost = Arc::new(AtomicU64::new(0));
    // Without stderr, no line can be written, so do not start logging.
    let Ok(out) = Out::new(stderr().as_fd(), lost) else {
        return Ok(());
    };
    let out = Arc::new(out);
    if start_on(out.clone(), form, level)? != LevelFilter::OFF {
        let _ = OUT.set(out);
    }
    Ok(())
}

/// Starts logging in a guest process. The main process writes the lines to the log.
pub(crate) fn start_inside(
    lines: Writer,
    bell: Arc<Bell>,
    form: Form,
    level: &str,
) -> Result<(), Error> {
    let lost = Arc::new(AtomicU64::new(0));
    let to = To::Main(lines, bell);
    start_on(Arc::new(Out { to, lost }), form, level).map(|_| ())
}

fn start_on(out: Arc<Out>, form: Form, level: &str) -> Result<LevelFilter, Error> {
    let level: LevelFilter = level.parse().map_err(|_| {
        Error::Argument(format!(
            "unknown log level '{level}': choose from off, error, warn, info, debug, trace"
        ))
    })?;
    let limit = Limit::new(out.lost.clone());
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_ansi(false)
        .with_writer(out)
        // The reader of stderr may have closed its end, and reporting that error on stderr would
        // panic.
        .log_internal_errors(false);
    let done = match form {
        Form::Text => log.finish().with(limit).try_init(),
        Form::Json => {
            let log = log.json().flatten_event(true);
            log.finish().with(limit).try_init()
        }
    };
    done.map(|()| level)
        .map_err(|e| Error::Argument(format!("--log: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::os::unix::net::UnixStream;

    use rustix::fs::fcntl_getfl;
    use rustix::pipe::pipe;

    #[test]
    fn lines_beyond_the_rate_are_left_out_and_counted() {
        let limit = Limit::new(Arc::default());
        let most = LINES * LINES_AT_ONCE.as_secs();
        let admitted = (0..10 * most).filter(|_| limit.admit(Duration::ZERO).is_some());
        // The line that exceeds the burst is still admitted, so one more than `most` is expected.
        assert_eq!(admitted.count() as u64, most + 1);
        let later = LINES_AT_ONCE * 2;
        assert_eq!(limit.admit(later), Some(9 * most - 1));
        assert_eq!(limit.admit(later), Some(0), "they are counted once");
    }

    #[test]
    fn a_report_that_is_left_out_is_made_later() {
        let limit = Limit {
            bucket: Bucket::new(1, Duration::ZERO),
            ..Limit::new(Arc::default())
        };
        let reports = RefCell::new(Vec::<u64>::new());
        // The report counts as a line as well.
        let line = |second| {
            let now = Duration::from_secs(second);
            limit.admit_and_report(now, |lines| {
                if limit.admit(now).is_some() {
                    reports.borrow_mut().push(lines);
                }
            })
        };
        assert_eq!([line(0), line(0), line(0)], [true, false, false]);
        // Only one line may be written, so the report is dropped, and counts as a dropped line.
        assert!(line(2));
        assert!(reports.borrow().is_empty());
        assert_eq!(limit.admit(Duration::from_secs(60)), Some(3));
    }

    /// A compromised guest process can skip its own limit, so the main process applies one as well.
    #[test]
    fn the_main_process_limits_the_lines_of_each_process() {
        let limit = Limit::default();
        let admitted = (0..10_000).filter(|_| limit.admit(Duration::ZERO).is_some());
        assert_eq!(admitted.count(), 401);
    }

    #[test]
    fn control_characters_are_replaced_and_a_line_stays_one() {
        assert_eq!(clean(b"plain text\n"), "plain text\n", "the control");
        let hostile = b"a\x1b[2J\nb\r\x07\xc2\x9b1m\xff\x7f\n";
        assert_eq!(
            clean(hostile),
            "a\u{fffd}[2J\u{fffd}b\u{fffd}\u{fffd}\u{fffd}1m\u{fffd}\u{fffd}\n"
        );
        assert_eq!(clean(b""), "\n");
        let longest = clean(&[0xff; crate::lines::LONGEST]);
        assert!(longest.len() <= PIPE_BUF, "{}", longest.len());
    }

    /// Fills a pipe or a socket with lines until one is dropped, and returns the number of bytes
    /// that were written.
    fn fill(out: &Out) -> usize {
        let line = [b'x'; 100];
        let mut out = out;
        let lost = out.lost.load(Ordering::Relaxed);
        let mut written = 0;
        while out.lost.load(Ordering::Relaxed) == lost {
            written += out.write(&line).unwrap();
        }
        written - line.len()
    }

    #[test]
    fn a_line_without_room_is_dropped_and_not_waited_for() {
        let (read, write) = pipe().unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let foreign = |fd: BorrowedFd<'_>| Out {
            to: To::Foreign(fd.try_clone_to_owned().unwrap()),
            lost: Arc::default(),
        };
        let (slow, other) = pipe().unwrap();
        let outs = [
            (
                Out::new(write.as_fd(), Arc::default()).unwrap(),
                read.as_fd(),
            ),
            (Out::new(near.as_fd(), Arc::default()).unwrap(), far.as_fd()),
            (foreign(other.as_fd()), slow.as_fd()),
        ];
        assert!(matches!(outs[0].0.to, To::Own(_)));
        assert!(matches!(outs[1].0.to, To::Socket(_)));
        for (n, (out, reader)) in outs.iter().enumerate() {
            assert!(fill(out) > 1000, "output {n}");
            // Once there is room again, lines are written again.
            rustix::io::read(reader, &mut [0; 1 << 16]).unwrap();
            assert!(fill(out) > 1000, "output {n}");
            assert_eq!(out.lost.load(Ordering::Relaxed), 2);
        }
        // Other processes that share the file description still get blocking writes.
        for shared in [write.as_fd(), near.as_fd(), other.as_fd()] {
            assert!(!fcntl_getfl(shared).unwrap().contains(OFlags::NONBLOCK));
        }
    }

    #[test]
    fn without_non_blocking_writes_a_full_pipe_is_seen_first() {
        let (_read, write) = pipe().unwrap();
        while write_if_room(&write, &[0; 100]).is_ok() {}
        assert_eq!(write_if_room(&write, &[0; 100]), Err(Errno::AGAIN));
        let (_read, write) = pipe().unwrap();
        let long = write_if_room(&write, &[0; PIPE_BUF + 1]);
        assert_eq!(long, Err(Errno::AGAIN), "a part of it could block");
    }

    #[test]
    fn lines_without_room_are_counted_once() {
        let (_read, write) = pipe().unwrap();
        let lost = Arc::default();
        let out = Out::new(write.as_fd(), Arc::clone(&lost)).unwrap();
        let limit = Limit::new(lost);
        assert_eq!(limit.admit(Duration::ZERO), Some(0), "the control");
        fill(&out);
        fill(&out);
        assert_eq!(limit.admit(Duration::ZERO), Some(2));
        assert_eq!(limit.admit(Duration::ZERO), Some(0));
    }
}
