//! The main process's view of a process that serves one guest. The fork server
//! ([`crate::forkserver`]) starts that process in advance. The process enters its sandbox, then
//! receives a guest.
//!
//! A compromised guest process must not be able to make the main process wait. The main process
//! therefore shares with it only the following objects, and never waits for a lock that the guest
//! process can hold for long:
//!
//! - memory ([`crate::shared`]);
//! - an eventfd;
//! - the guest's connection, which the main process only polls. On its side, only child processes
//!   send on the connection or close it;
//! - the memfd for in-flight requests, which the main process neither reads, writes nor maps.
//!
//! A pipe would be unsuitable. It stays locked while a write copies bytes into it, and the page
//! that contains these bytes may never arrive.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::child::{Child, End};
use crate::closer::{Closer, Owner};
use crate::inflight::Inflight;
use crate::lines::{self, Reader};
use crate::log::{self, Limit};
use crate::notify::Bell;
use crate::relay::{self, Relay};
use crate::shared::Shared;
use crate::tally::{Counters, Gauge};
use crate::vhost_user::{Message, Socket};

/// Values of [`Gauge::Ready`] when a guest process is ready for a guest. The second value also
/// reports that the process could not lock its memory.
pub(crate) const READY: u64 = 1;
pub(crate) const READY_UNLOCKED: u64 = 2;

/// The only message that the main process sends to a guest process. It contains the guest number
/// and the socket number, and carries one descriptor, the connection.
pub(crate) const GUEST: u32 = 1;

/// The progress of a guest process from its start to its exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Starting,
    Ready {
        locked: bool,
    },
    /// The process has exited or was killed.
    Closed,
}

/// What the main process keeps for a process that it has requested but that has not yet started.
pub(crate) struct Requested {
    channel: UnixStream,
    bell: Bell,
    memory: Shared,
    /// The memfd for in-flight requests.
    inflight: File,
    data: u16,
}

/// Returns the size, in cells, of the memory that the main process shares with a guest process: the
/// cells for lines, for counters and for the relay.
fn cells(data: u16) -> usize {
    relay_cell(data) + relay::CELLS
}

/// Returns the index of the relay's first cell.
pub(crate) fn relay_cell(data: u16) -> usize {
    lines::CELLS + Counters::cells(data)
}

impl Requested {
    /// Creates the objects that the main process shares with a new process. Also returns the
    /// descriptors for the new process: its end of the channel, the shared memory, the bell and the
    /// memfd for in-flight requests.
    pub(crate) fn create(data: u16) -> io::Result<(Requested, [OwnedFd; 4])> {
        let (channel, theirs) = one_way()?;
        // A compromised process must not be able to block this one.
        channel.set_nonblocking(true)?;
        let (memory, file) = Shared::create(cells(data))?;
        let bell = Bell::new()?;
        let inflight = Inflight::file(usize::from(data) + 1)?;
        let copies = [bell.as_fd(), inflight.as_fd()].map(|fd| fd.try_clone_to_owned());
        let [bell_copy, inflight_copy] = copies;
        let requested = Requested {
            channel,
            bell,
            memory,
            inflight,
            data,
        };
        let theirs = [theirs.into(), file.into(), bell_copy?, inflight_copy?];
        Ok((requested, theirs))
    }

    pub(crate) fn into_process(self, child: Child) -> Process {
        let memory = Arc::new(self.memory);
        let relay = Relay::new(memory.clone(), relay_cell(self.data), self.inflight.into());
        Process::watch(child, self.channel, self.bell, memory, relay, self.data)
    }
}

pub(crate) struct Process {
    child: Child,
    /// The channel on which the main process passes the guest to the process. It is closed
    /// afterwards. If it is closed without passing a guest, the process exits. The main process
    /// cannot receive on this channel.
    channel: Option<UnixStream>,
    /// Rings when the process has become ready, has written log lines, or requests a
    /// GET_INFLIGHT_FD reply.
    bell: Bell,
    /// When [`Process::look`] last ran.
    looked: Option<Instant>,
    counters: Arc<Counters>,
    lines: Reader,
    relay: Relay,
    limit: Limit,
    pub state: State,
    started: Instant,
}

/// How long a new process may take to become ready for a guest.
pub(crate) const START: Duration = Duration::from_secs(20);

/// How long a process's bell is ignored after each [`Process::look`]. Without this pause, a process
/// that rings all the time would keep the main process busy.
const REST: Duration = Duration::from_millis(50);

impl Process {
    fn watch(
        child: Child,
        channel: UnixStream,
        bell: Bell,
        memory: Arc<Shared>,
        relay: Relay,
        data: u16,
    ) -> Process {
        Process {
            child,
            channel: Some(channel),
            bell,
            looked: None,
            counters: Counters::at(memory.clone(), lines::CELLS, data),
            lines: Reader::new(memory),
            relay,
            limit: Limit::default(),
            state: State::Starting,
            started: Instant::now(),
        }
    }

    /// Hands this process to the closer, which counts it until the kernel releases it. Call this
    /// when the process has exited, or to stop waiting for its exit.
    pub(crate) fn release(self, owner: Owner, closer: &mut Closer) {
        closer.note_process(owner, self.child);
    }

    /// Returns the bell, which becomes readable when [`Process::look`] has something to do. Also
    /// returns how long the caller must wait before polling the bell, if at all.
    pub(crate) fn bell(&self) -> (&Bell, Option<Duration>) {
        let looked = self.looked.filter(|_| self.state != State::Starting);
        let rests = looked.and_then(|at| REST.checked_sub(at.elapsed()));
        (&self.bell, rests)
    }

    /// Returns a descriptor that becomes readable when the process has exited. The caller must then
    /// call [`Process::note_end`].
    pub(crate) fn end(&self) -> &OwnedFd {
        self.child.end()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the counters that the process shares with this one.
    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Updates the state of a starting process, and forwards the log lines that it has written.
    pub(crate) fn look(&mut self) {
        self.looked = Some(Instant::now());
        self.bell.clear();
        if self.state == State::Starting {
            self.state = match self.counters.get(Gauge::Ready) {
                READY => State::Ready { locked: true },
                READY_UNLOCKED => State::Ready { locked: false },
                _ => State::Starting,
            };
        }
        self.forward_lines();
    }

    fn forward_lines(&mut self) {
        self.lines.take(|| self.limit.admit_now(), log::forward);
    }

    /// Returns the relay, which sends the GET_INFLIGHT_FD reply for this process.
    pub(crate) fn relay(&self) -> &Relay {
        &self.relay
    }

    pub(crate) fn relay_mut(&mut self) -> &mut Relay {
        &mut self.relay
    }

    pub(crate) fn note_end(&mut self) {
        self.state = State::Closed;
    }

    /// Passes a guest to the process. The send cannot block, because it is the only message on this
    /// channel.
    pub(crate) fn give(
        &mut self,
        number: u64,
        socket: usize,
        connection: &UnixStream,
    ) -> io::Result<()> {
        let payload = [number, socket as u64].map(u64::to_le_bytes).concat();
        let mut message = Message::new(GUEST, 0, payload);
        message.fds = vec![connection.as_fd().try_clone_to_owned()?];
        let channel = self.channel.take().ok_or(io::ErrorKind::NotConnected)?;
        Socket::new(channel)
            .send(&message)
            .map_err(io::Error::other)
    }

    /// Makes the process serve the requests that are already available, and then exit.
    pub(crate) fn drain(&mut self) {
        // A process without a guest exits when its channel is closed. A process that has a guest is
        // sent SIGTERM, which needs no shared object.
        if self.channel.take().is_none() && self.state != State::Closed {
            self.child.signal(Signal::TERM);
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.signal(Signal::KILL);
    }

    /// Kills the process, which must not have a guest. The caller must wait for it to exit.
    pub(crate) fn discard(&mut self) {
        self.kill();
        self.state = State::Closed;
    }

    /// Returns whether the process has taken too long to become ready.
    pub(crate) fn is_late(&self) -> bool {
        self.state == State::Starting && self.started.elapsed() > START
    }

    /// Returns how the process ended, as [`Child::ended`] does, and forwards its last lines.
    pub(crate) fn ended(&mut self) -> Option<End> {
        let end = self.child.ended();
        if end.is_some() {
            // The process may have written lines before it exited.
            self.forward_lines();
        }
        end
    }
}

/// Returns the two ends of a new channel, on which only the first end can send.
fn one_way() -> io::Result<(UnixStream, UnixStream)> {
    let (channel, theirs) = UnixStream::pair()?;
    channel.shutdown(std::net::Shutdown::Read)?;
    Ok((channel, theirs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, BorrowedFd};
    use std::process::Command;
    use std::sync::mpsc;
    use std::thread;

    use rustix::event::{poll, PollFd, PollFlags, Timespec};
    use vmm_sys_util::sock_ctrl_msg::ScmSocket;

    use crate::child::start_program;
    use crate::fork_lock::fork_alone;
    use crate::withheld::Page;

    #[test]
    fn nothing_can_be_sent_to_the_main_process() {
        let (channel, theirs) = one_way().unwrap();
        let (pipe, _other) = std::io::pipe().unwrap();
        let send = |stream: &UnixStream| stream.send_with_fd(&[1u8][..], pipe.as_raw_fd()).is_ok();
        assert!(!send(&theirs), "to the main process");
        assert!(send(&channel), "to the guest's process");
        // Control: a two-way channel accepts descriptors from both ends.
        let (channel, theirs) = UnixStream::pair().unwrap();
        assert!(send(&theirs) && send(&channel));
    }

    fn wait_for(process: &Process) {
        assert!(is_readable(process.end().as_fd(), LATE), "it has not ended");
    }

    /// Returns a process that does nothing, and the bell and counters that it would use.
    fn idle() -> (Process, Bell, Arc<Counters>) {
        let (channel, _) = one_way().unwrap();
        let bell = Bell::new().unwrap();
        let theirs = Bell::from(bell.as_fd().try_clone_to_owned().unwrap());
        let (memory, _) = Shared::create(cells(1)).unwrap();
        let memory = Arc::new(memory);
        let inflight = Inflight::file(2).unwrap();
        let relay = Relay::new(memory.clone(), relay_cell(1), inflight.into());
        let alone = fork_alone();
        let mut command = Command::new("/bin/sleep");
        command.arg("60");
        let child = start_program(command, START).unwrap();
        drop(alone);
        let process = Process::watch(child, channel, bell, memory, relay, 1);
        let counters = process.counters().clone();
        (process, theirs, counters)
    }

    fn is_readable(fd: BorrowedFd<'_>, limit: Timespec) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        poll(&mut fds, Some(&limit)).unwrap() == 1
    }

    const AT_ONCE: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    const LATE: Timespec = Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };

    #[test]
    fn a_process_is_ready_once_and_ends_once() {
        for (value, locked) in [(READY, true), (READY_UNLOCKED, false)] {
            let (mut process, bell, counters) = idle();
            process.look();
            assert_eq!(process.state, State::Starting);
            counters.set(Gauge::Ready, value);
            bell.ring();
            assert!(is_readable(process.bell().0.as_fd(), AT_ONCE));
            let before_look = Instant::now();
            process.look();
            assert_eq!(process.state, State::Ready { locked });
            assert!(!is_readable(process.bell().0.as_fd(), AT_ONCE));
            // Later writes to the gauge change nothing, and the process's bell is ignored for a
            // while.
            counters.set(Gauge::Ready, 0);
            match process.bell().1 {
                Some(rest) => assert!(rest <= REST),
                // This test was delayed, so the pause is over.
                None => assert!(before_look.elapsed() >= REST),
            }
            process.look();
            assert_eq!(process.state, State::Ready { locked });
            assert!(!is_readable(process.end().as_fd(), AT_ONCE));
            assert!(process.ended().is_none());
            process.kill();
            wait_for(&process);
            // In this test, the process remains a zombie, so `ended` returns `None` for a while.
            while process.ended().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Runs `what` while a write to `file` waits for a withheld page, and supplies the page after
    /// `limit` at the latest. Returns whether `what` returned before the page arrived, and whether
    /// it returned at all.
    fn returns(
        page: Page,
        file: OwnedFd,
        limit: Duration,
        what: impl FnOnce() + Send + 'static,
    ) -> [bool; 2] {
        let held = page.write_to(file);
        let (done, wait) = mpsc::channel();
        let thread = thread::spawn(move || {
            what();
            done.send(()).unwrap();
        });
        let before = wait.recv_timeout(limit).is_ok();
        drop(page);
        let after = before || wait.recv_timeout(Duration::from_secs(60)).is_ok();
        held.join().unwrap();
        thread.join().unwrap();
        [before, after]
    }

    /// Control: a write that waits for a withheld page keeps a pipe locked, so that even a
    /// non-blocking read waits.
    #[test]
    fn a_write_whose_page_never_arrives_delays_nothing() {
        let (Some(page), Some(other)) = (Page::new(), Page::new()) else {
            println!("SKIPPED: this process may not use userfaultfd");
            return;
        };
        let (mut process, bell, counters) = idle();
        let theirs = bell.as_fd().try_clone_to_owned().unwrap();
        let look = move || {
            counters.set(Gauge::Ready, READY);
            assert!(!is_readable(process.bell().0.as_fd(), AT_ONCE));
            process.look();
            assert!(process.state == State::Ready { locked: true } && process.ended().is_none());
            process.kill();
            wait_for(&process);
        };
        let limit = Duration::from_secs(60);
        assert_eq!(returns(page, theirs, limit, look), [true, true]);
        let (reader, writer) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        let read = move || {
            let _ = rustix::io::read(&reader, &mut [0; 8]);
        };
        let limit = Duration::from_millis(500);
        assert_eq!(returns(other, writer.into(), limit, read), [false, true]);
    }
}
