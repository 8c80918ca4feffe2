//! Sends the one answer with a descriptor, that to GET_INFLIGHT_FD, on behalf of a guest's process.
//!
//! A guest's process may not send descriptors. If it could, one that was taken over could leave so
//! many in flight that the kernel lets no other process of the device's user send any, or pass its
//! own descriptors to programs that delay the main process by watching them. It therefore writes
//! the answer into memory that it shares with the main process, which has the file. A child process
//! of the main process sends both, because a send wakes all programs that watch the front end's
//! socket, and these may be very many.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::closer::{Closer, Owner};
use crate::notify::Bell;
use crate::shared::Shared;
use crate::vhost_user::{send_at_once, InflightArea, ANSWERS, INFLIGHT, SENDING};

const WORD: usize = size_of::<u64>();

/// The cells in shared memory: how many answers were asked for, twice the number of the last one
/// that was dealt with, plus 1 if it was sent, and the answer.
const ASKED: usize = 0;
const DONE: usize = 1;
const AREA: usize = 2;
pub(crate) const CELLS: usize = AREA + INFLIGHT / WORD;

/// How long the child process may take. It does not wait for the front end, so this is long enough
/// on a busy machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often a guest's process checks whether its answer was sent.
const LOOK: Duration = Duration::from_millis(1);

/// The side of a guest's process.
pub(crate) struct Asker {
    memory: Arc<Shared>,
    /// Index of the first cell.
    first: usize,
    /// Wakes the main process.
    bell: Arc<Bell>,
    asked: u64,
}

impl Asker {
    pub(crate) fn new(memory: Arc<Shared>, first: usize, bell: Arc<Bell>) -> Asker {
        Asker {
            memory,
            first,
            bell,
            asked: 0,
        }
    }

    /// Has the answer sent, and waits until it was.
    ///
    /// # Errors
    /// Fails if the front end has no room for the answer, or the main process does not send it in
    /// time.
    pub(crate) fn ask(&mut self, area: &InflightArea) -> io::Result<()> {
        let cell = |n: usize| self.memory.cell(self.first + n);
        for (n, word) in area.emit().chunks_exact(WORD).enumerate() {
            let word = u64::from_ne_bytes(word.try_into().expect("a word"));
            cell(AREA + n).store(word, Ordering::Relaxed);
        }
        self.asked += 1;
        cell(ASKED).store(self.asked, Ordering::Release);
        self.bell.ring();
        let until = Instant::now() + SENDING;
        loop {
            let done = cell(DONE).load(Ordering::Acquire);
            if done == self.asked << 1 | 1 {
                return Ok(());
            }
            if done == self.asked << 1 {
                return Err(io::Error::other(
                    "its socket is full, or too many descriptors are in flight",
                ));
            }
            if Instant::now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(LOOK);
        }
    }
}

/// The side of the main process. It trusts nothing that it finds in the memory.
pub(crate) struct Relay {
    memory: Arc<Shared>,
    /// Index of the first cell.
    first: usize,
    /// The file of the memory for requests in flight.
    file: OwnedFd,
    /// How many answers were dealt with.
    answered: u64,
}

impl Relay {
    pub(crate) fn new(memory: Arc<Shared>, first: usize, file: OwnedFd) -> Relay {
        Relay {
            memory,
            first,
            file,
            answered: 0,
        }
    }

    /// Returns whether the guest's process has asked for an answer. A process can have
    /// [`ANSWERS`] of them.
    pub(crate) fn is_asked(&self) -> bool {
        let asked = self.memory.cell(self.first + ASKED).load(Ordering::Acquire);
        asked != self.answered && self.answered < u64::from(ANSWERS)
    }

    /// Sends an answer that was asked for to the front end, in a child process, unless the owner has
    /// too many of these.
    pub(crate) fn go_on(&mut self, stream: &UnixStream, owner: Owner, closer: &mut Closer) {
        if !self.is_asked() || !closer.may_run(owner) {
            return;
        }
        let Ok(copy) = stream.try_clone() else {
            return;
        };
        self.answered += 1;
        let file = self.file.as_fd();
        closer.run(owner, copy, &[file], PATIENCE, |stream| self.answer(stream));
    }

    /// Sends the answer, and stores whether that was possible.
    fn answer(&self, stream: &UnixStream) {
        let cell = |n: usize| self.memory.cell(self.first + n);
        let words = (AREA..CELLS).map(|n| cell(n).load(Ordering::Relaxed).to_ne_bytes());
        let bytes: Vec<u8> = words.flatten().collect();
        let sent = InflightArea::parse(&bytes).is_some_and(|area| {
            let file = self.file.as_fd().try_clone_to_owned();
            file.is_ok_and(|file| send_at_once(stream, &area.to_message(file)).is_ok())
        });
        let done = self.answered << 1 | u64::from(sent);
        cell(DONE).store(done, Ordering::Release);
    }

    /// Returns the file. Front ends that have it, too, can make closing it slow, so a child process
    /// must do that.
    pub(crate) fn into_file(self) -> OwnedFd {
        self.file
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

    const OWNER: Owner = Owner::Socket(0);
    const AREA: InflightArea = InflightArea {
        size: 4096,
        offset: 0,
        queues: 2,
        queue_size: 16,
    };

    struct Rig {
        memory: Arc<Shared>,
        relay: Relay,
        closer: Closer,
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
                closer: Closer::new(true),
                stream,
                front_end,
            }
        }

        /// Asks for an answer in a thread, as a guest's process does, while the main process goes on.
        fn ask(&mut self) -> io::Result<()> {
            let bell = Arc::new(Bell::new().unwrap());
            let mut asker = Asker::new(self.memory.clone(), 3, bell);
            asker.asked = self.relay.answered;
            let thread = thread::spawn(move || asker.ask(&AREA));
            while !thread.is_finished() {
                self.relay.go_on(&self.stream, OWNER, &mut self.closer);
                self.closer.go_on();
                thread::sleep(LOOK);
            }
            thread.join().unwrap()
        }

        fn receive(&self) -> Message {
            let front_end = Socket::new(self.front_end.try_clone().unwrap());
            front_end.receive().unwrap().unwrap()
        }
    }

    #[test]
    fn the_front_end_gets_the_answer_and_the_file() {
        let _alone = fork_alone();
        let mut rig = Rig::new();
        for _ in 0..2 {
            rig.ask().unwrap();
            let answer = rig.receive();
            assert_eq!(answer.request, request::GET_INFLIGHT_FD);
            assert_eq!(InflightArea::parse(&answer.payload), Some(AREA));
            let inode = |file: &OwnedFd| fstat(file).unwrap().st_ino;
            assert_eq!(inode(&answer.fds[0]), inode(&rig.relay.file));
            assert!(!rig.relay.is_asked());
        }
    }

    #[test]
    fn a_front_end_without_room_for_the_answer_delays_nothing() {
        let _alone = fork_alone();
        let mut rig = Rig::new();
        rig.stream.set_nonblocking(true).unwrap();
        while rig.stream.write(&[0; 512]).is_ok() {}
        let refused = rig.ask().unwrap_err();
        assert!(refused.to_string().contains("full"), "{refused}");
    }

    /// A process that was taken over asks all the time, with any answer.
    #[test]
    fn a_process_gets_a_few_answers_whatever_it_writes() {
        let _alone = fork_alone();
        let mut rig = Rig::new();
        let mut words = (0..).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for _ in 0..50 {
            rig.memory.fill(words.next().unwrap());
            rig.relay.go_on(&rig.stream, OWNER, &mut rig.closer);
            rig.closer.go_on();
        }
        assert_eq!(rig.relay.answered, u64::from(ANSWERS));
        assert!(!rig.relay.is_asked());
    }
}
