//! Sends the reply to GET_INFLIGHT_FD on behalf of a guest process. No other reply carries a
//! descriptor.
//!
//! In a guest process, seccomp forbids sendmsg(), because a process that was taken over could use
//! it to exhaust the user's limit on descriptors in flight, or to pass its descriptors to programs
//! that slow the main process down by watching them with epoll. Instead, the guest process writes
//! the reply's payload to shared memory. The main process, which has the memfd for in-flight
//! requests, forks a child process that sends the payload and the memfd. The main process does not
//! send them itself because a send wakes every waiter on the front end's socket, and the number of
//! waiters may be very large.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::child::{fork_with, Child};
use crate::notify::Bell;
use crate::shared::Shared;
use crate::vhost_user::{
    send_nonblocking, InflightArea, INFLIGHT_LEN, MAX_GET_INFLIGHT, SEND_TIMEOUT,
};

const WORD: usize = size_of::<u64>();

/// The cell that contains the number of the last request.
const ASKED: usize = 0;
/// The cell that contains `n << 1 | sent`, where `n` is the number of the last request that was
/// handled.
const DONE: usize = 1;
/// First cell of the reply's payload.
const PAYLOAD: usize = 2;
pub(crate) const CELLS: usize = PAYLOAD + INFLIGHT_LEN / WORD;

/// How long the child process may take. The child does not wait for the front end, so this is long
/// enough even on a busy machine.
const CHILD_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a guest process checks whether its reply was sent.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The guest process's side of the relay.
pub(crate) struct RelayClient {
    memory: Arc<Shared>,
    /// Index of the relay's first cell in the shared memory.
    first: usize,
    /// Wakes the main process.
    bell: Arc<Bell>,
    asked: u64,
}

impl RelayClient {
    pub(crate) fn new(memory: Arc<Shared>, first: usize, bell: Arc<Bell>) -> RelayClient {
        RelayClient {
            memory,
            first,
            bell,
            asked: 0,
        }
    }

    /// Asks the main process to send the reply, and waits for the result.
    ///
    /// # Errors
    /// Fails if the reply could not be sent, or was not sent in time. No replies are sent while the
    /// device shuts down.
    pub(crate) fn send(&mut self, area: &InflightArea) -> io::Result<()> {
        let cell = |n: usize| self.memory.cell(self.first + n);
        for (n, word) in area.emit().chunks_exact(WORD).enumerate() {
            let word = u64::from_ne_bytes(word.try_into().expect("a word"));
            cell(PAYLOAD + n).store(word, Ordering::Relaxed);
        }
        self.asked += 1;
        cell(ASKED).store(self.asked, Ordering::Release);
        self.bell.ring();
        let until = Instant::now() + SEND_TIMEOUT;
        loop {
            let done = cell(DONE).load(Ordering::Acquire);
            if done == self.asked << 1 | 1 {
                return Ok(());
            }
            if done == self.asked << 1 {
                return Err(io::Error::other(
                    "its socket is full or closed, or too many descriptors are open or in flight",
                ));
            }
            if Instant::now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// The main process's side of the relay. It trusts nothing that it finds in the shared memory.
pub(crate) struct Relay {
    memory: Arc<Shared>,
    /// Index of the relay's first cell in the shared memory.
    first: usize,
    /// The file that holds the memory for in-flight requests.
    file: OwnedFd,
    /// Number of requests that were handled, whether or not the reply was sent.
    answered: u64,
    /// The child process that sends a reply, and the time at which it is killed.
    child: Option<(Child, Instant)>,
}

impl Relay {
    pub(crate) fn new(memory: Arc<Shared>, first: usize, file: OwnedFd) -> Relay {
        Relay {
            memory,
            first,
            file,
            answered: 0,
            child: None,
        }
    }

    /// Returns whether the guest process has requested a reply that has not been handled yet.
    /// Requests after the first [`MAX_GET_INFLIGHT`] are ignored.
    pub(crate) fn is_pending(&self) -> bool {
        let asked = self.memory.cell(self.first + ASKED).load(Ordering::Acquire);
        asked != self.answered && self.answered < u64::from(MAX_GET_INFLIGHT)
    }

    /// Returns whether the child process that sends a reply is still running, and kills it if it
    /// has exceeded its time limit. The guest keeps its slot until the child process exits, even if
    /// the guest process has ended, because it is not known before then whether the front end has
    /// read all replies.
    pub(crate) fn is_sending(&self) -> bool {
        self.child.as_ref().is_some_and(|(child, until)| {
            if Instant::now() > *until {
                child.signal(Signal::KILL);
            }
            !child.has_exited()
        })
    }

    /// Sends a pending reply in a child process. Each guest has at most one such process.
    ///
    /// The child process shares this process's descriptor table. If it had its own table, its exit
    /// would close every descriptor in that table. Each close() walks the file's list of POSIX
    /// locks, which front ends can make longer. `stream` must stay open until the child process has
    /// exited.
    pub(crate) fn send_pending(&mut self, stream: &UnixStream) {
        if !self.is_pending() || self.is_sending() {
            return;
        }
        self.answered += 1;
        let words = (PAYLOAD..CELLS).map(|n| self.cell(n).load(Ordering::Relaxed).to_ne_bytes());
        let bytes: Vec<u8> = words.flatten().collect();
        let Some(area) = InflightArea::parse(&bytes) else {
            return self.note(false);
        };
        let message = area.to_message().to_bytes();
        // SAFETY: the child neither allocates nor waits.
        match unsafe { fork_with(libc::CLONE_FILES | libc::SIGCHLD) } {
            Ok(None) => {
                self.note(send_nonblocking(stream, &message, self.file.as_fd()));
                // SAFETY: the call ends the process.
                unsafe { libc::_exit(0) }
            }
            Ok(Some((id, child))) => {
                let child = Child::from_parts(id as u32, child);
                self.child = Some((child, Instant::now() + CHILD_TIMEOUT));
            }
            Err(error) => {
                tracing::error!(%error, "cannot start a process that sends a reply");
                self.note(false);
            }
        }
    }

    /// Kills the child process.
    pub(crate) fn stop(&self) {
        if let Some((child, _)) = &self.child {
            child.signal(Signal::KILL);
        }
    }

    fn cell(&self, n: usize) -> &AtomicU64 {
        self.memory.cell(self.first + n)
    }

    /// Records whether the last reply was sent.
    fn note(&self, sent: bool) {
        let done = self.answered << 1 | u64::from(sent);
        self.cell(DONE).store(done, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fork_lock::fork_alone;
    use crate::inflight::Inflight;
    use crate::vhost_user::{request, Message, Socket};
    use rustix::fs::fstat;
    use std::io::Write;

    const AREA: InflightArea = InflightArea {
        size: 4096,
        offset: 0,
        queues: 2,
        queue_size: 16,
    };

    struct Rig {
        memory: Arc<Shared>,
        relay: Relay,
        stream: UnixStream,
        front_end: UnixStream,
    }

    impl Rig {
        fn new() -> Rig {
            let (memory, _) = Shared::create(3 + CELLS).unwrap();
            let memory = Arc::new(memory);
            let (stream, front_end) = UnixStream::pair().unwrap();
            let file = Inflight::file(2).unwrap();
            Rig {
                relay: Relay::new(memory.clone(), 3, file.into()),
                memory,
                stream,
                front_end,
            }
        }

        /// Requests a reply in a thread, as a guest process does, while the main process continues.
        fn ask(&mut self) -> io::Result<()> {
            let bell = Arc::new(Bell::new().unwrap());
            let mut client = RelayClient::new(self.memory.clone(), 3, bell);
            client.asked = self.relay.answered;
            let thread = thread::spawn(move || client.send(&AREA));
            while !thread.is_finished() {
                self.relay.send_pending(&self.stream);
                thread::sleep(POLL_INTERVAL);
            }
            thread.join().unwrap()
        }

        fn ask_once(&mut self) {
            self.relay.send_pending(&self.stream);
        }

        fn receive(&self) -> Message {
            let front_end = Socket::new(self.front_end.try_clone().unwrap());
            front_end.receive().unwrap().unwrap()
        }
    }

    #[test]
    fn the_front_end_gets_the_reply_and_the_file() {
        let _alone = fork_alone();
        let mut rig = Rig::new();
        for _ in 0..2 {
            rig.ask().unwrap();
            let answer = rig.receive();
            assert_eq!(answer.request, request::GET_INFLIGHT_FD);
            assert_eq!(InflightArea::parse(&answer.payload), Some(AREA));
            let inode = |file: &OwnedFd| fstat(file).unwrap().st_ino;
            assert_eq!(inode(&answer.fds[0]), inode(&rig.relay.file));
            assert!(!rig.relay.is_pending());
        }
    }

    #[test]
    fn a_reply_that_does_not_fit_is_refused_without_waiting() {
        let _alone = fork_alone();
        let mut rig = Rig::new();
        rig.stream.set_nonblocking(true).unwrap();
        while rig.stream.write(&[0; 512]).is_ok() {}
        let refused = rig.ask().unwrap_err();
        assert!(refused.to_string().contains("full"), "{refused}");
    }

    /// Simulates a process that was taken over: it keeps requesting arbitrary replies.
    #[test]
    fn a_process_gets_four_replies_whatever_it_writes() {
        let _alone = fork_alone();
        let mut rig = Rig::new();
        let mut words = (0..).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut further = 0;
        while further < 50 {
            rig.memory.fill(words.next().unwrap());
            rig.ask_once();
            further += u32::from(rig.relay.answered == u64::from(MAX_GET_INFLIGHT));
            thread::sleep(POLL_INTERVAL);
        }
        assert_eq!(rig.relay.answered, u64::from(MAX_GET_INFLIGHT));
        assert!(!rig.relay.is_pending());
    }

    /// If a guest process ends while its reply is being sent, the guest must not lose its slot
    /// before the child process has exited.
    #[test]
    fn a_child_process_counts_until_it_has_exited() {
        let _alone = fork_alone();
        let mut rig = Rig::new();
        rig.memory.cell(3 + ASKED).store(1, Ordering::Release);
        rig.ask_once();
        assert!(rig.relay.answered == 1);
        // SAFETY: the child only sleeps and exits. It simulates a child process that is stuck.
        let child = unsafe {
            match fork_with(libc::CLONE_FILES | libc::SIGCHLD).unwrap() {
                None => {
                    libc::sleep(60);
                    libc::_exit(0)
                }
                Some((id, child)) => Child::from_parts(id as u32, child),
            }
        };
        rig.relay.child = Some((child, Instant::now() + Duration::from_secs(60)));
        rig.memory.cell(3 + ASKED).store(2, Ordering::Release);
        rig.ask_once();
        assert!(
            rig.relay.is_sending() && rig.relay.is_pending(),
            "one at a time"
        );
        // The child is killed when it reaches its time limit.
        let (_, until) = rig.relay.child.as_mut().unwrap();
        *until = Instant::now();
        while rig.relay.is_sending() {
            thread::sleep(POLL_INTERVAL);
        }
        rig.ask_once();
        assert!(!rig.relay.is_pending());
        while rig.relay.is_sending() {
            thread::sleep(POLL_INTERVAL);
        }
        assert!(fstat(&rig.relay.file).is_ok(), "shared, and still open");
    }
}
