//! Closes the sockets of front ends and metrics clients in child processes, because closing a
//! socket can take a long time. Other operations on these sockets that may have to wait for the
//! peer also run in child processes.
//!
//! When a socket is closed, the kernel also drops its unread messages and the descriptors sent with
//! them. Dropping the last reference to a file frees the file, which for a memfd takes 0.16 s of
//! CPU time per GiB. A TCP socket with `SO_LINGER` waits for its peer, and a file on FUSE may wait
//! for its server. Neither a timer nor SIGKILL ends all of these waits. Shutting a socket down
//! wakes every process that waits on its other side, which takes a long time if many processes
//! wait. The main process therefore neither shuts down such a socket nor drops the last reference
//! to it. A child process dedicated to this task does both.
//!
//! The main process never receives the descriptors in such messages either, because every close()
//! of a file on FUSE, not only the last, waits for the FUSE server (FUSE_FLUSH).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::Signal;

use crate::child::Child;

/// Maximum number of concurrent child processes per owner. A child process stuck in a file system
/// occupies one of its owner's slots forever.
pub(crate) const PROCESSES: usize = 8;

/// Maximum number of descriptors per owner that wait for a child process. Once this limit is
/// reached, no more front ends of this owner can connect until one of its child processes exits.
pub(crate) const LEFT: usize = 64;

/// How long a child process may run before it is killed. Closing a TCP socket can block until the
/// remote side has read all data.
const PATIENCE: Duration = Duration::from_millis(100);

/// Minimum time before a connection with unread answers is given to another child process.
const AGAIN: Duration = Duration::from_millis(300);

/// Minimum interval between two child processes that close sockets of the same owner, unless at
/// least half of [`LEFT`] sockets are waiting. The second child process closes all sockets that end
/// within this interval, so that a front end that connects in a loop does not cost one child
/// process per connection.
const APART: Duration = Duration::from_millis(20);

/// How long a front end is expected to take to exit or to read its answers after its connection has
/// ended. During this time, new front ends wait for its slot instead of being rejected.
const READING: Duration = Duration::from_millis(500);

/// The owner of a socket: the listening socket that a front end has connected to, identified by its
/// index, or the metrics. The limits above apply to each owner separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Socket(usize),
    Metrics,
}

pub(crate) struct Closer {
    /// Whether this process may fork, which is safe only while it has a single thread.
    forks: bool,
    left: Vec<(Owner, OwnedFd)>,
    /// Connections that have been shut down, but whose front ends have not read all answers. The
    /// descriptors in these answers are in flight, and the kernel counts them against the device's
    /// user.
    unread: Vec<Unread>,
    children: Vec<Running>,
    /// Guest processes and spare processes that have exited, but that the kernel has not released
    /// yet.
    unreleased: Vec<(Owner, Child)>,
    /// Each owner for which a child process was recently started to close sockets, with the start
    /// time.
    started: Vec<(Owner, Instant)>,
}

struct Unread {
    owner: Owner,
    stream: UnixStream,
    since: Instant,
    /// When the connection was last given to a child process.
    tried: Instant,
}

struct Running {
    owner: Owner,
    process: Child,
    /// When the child is killed if it is still running.
    until: Instant,
}

impl Closer {
    pub(crate) fn new(forks: bool) -> Closer {
        Closer {
            forks,
            left: Vec::new(),
            unread: Vec::new(),
            children: Vec::new(),
            unreleased: Vec::new(),
            started: Vec::new(),
        }
    }

    /// Shuts down and closes a connection, or a listening socket along with the connections that it
    /// has not accepted. A descriptor that is not a socket is only closed. This is done in a child
    /// process, unless this process must not fork.
    pub(crate) fn end(&mut self, owner: Owner, socket: impl Into<OwnedFd>) {
        let socket = socket.into();
        match self.forks {
            true => self.left.push((owner, socket)),
            false => shut_down(socket.as_raw_fd()),
        }
    }

    /// Closes a connection that was held by a guest process.
    ///
    /// Returns false if the front end has not yet read all its answers. Until it has read them or
    /// closes its end, [`Closer::unread`] includes the connection in its count.
    pub(crate) fn end_held(&mut self, owner: Owner, stream: UnixStream) -> bool {
        let is_read = !self.forks || is_read(&stream);
        // A message that was never received may contain the descriptor of the front end's own side
        // of the connection, which the front end could then never close. A child process therefore
        // drops these messages.
        match stream.try_clone() {
            Ok(copy) if !is_read => {
                self.end(owner, copy);
                let since = Instant::now();
                self.unread.push(Unread {
                    owner,
                    stream,
                    since,
                    tried: since,
                });
                false
            }
            _ => {
                self.end(owner, stream);
                true
            }
        }
    }

    /// Runs `job` on a connection in a child process, which is killed after `limit`. `stream` is
    /// closed afterwards. If no child process can be started, the connection is shut down. If this
    /// process must not fork, it runs the job itself and waits for it.
    pub(crate) fn run(
        &mut self,
        owner: Owner,
        stream: UnixStream,
        limit: Duration,
        job: impl FnOnce(&UnixStream),
    ) {
        if !self.forks {
            job(&stream);
            return self.end(owner, stream);
        }
        match start(&[stream.as_raw_fd()], || job(&stream)) {
            Ok(started) => self.note(owner, started, limit, stream),
            Err(error) => {
                report_no_child(&error);
                self.end(owner, stream);
            }
        }
    }

    /// Counts an owner's process as unreleased until the kernel releases it.
    pub(crate) fn note_process(&mut self, owner: Owner, process: Child) {
        if !process.is_released() {
            self.unreleased.push((owner, process));
        }
    }

    /// Returns how many of an owner's exited processes the kernel has not released yet. These still
    /// count towards the task limit.
    pub(crate) fn unreleased(&self, owner: Owner) -> usize {
        self.unreleased
            .iter()
            .filter(|(of, _)| *of == owner)
            .count()
    }

    /// Returns the number of an owner's connections whose front ends have not read all answers.
    pub(crate) fn unread(&self, owner: Owner) -> usize {
        self.unread.iter().filter(|u| u.owner == owner).count()
    }

    /// Returns whether one of an owner's connections ended less than [`READING`] ago and has
    /// answers that its front end has not read yet.
    pub(crate) fn may_be_read(&self, owner: Owner) -> bool {
        let is_new = |u: &Unread| u.owner == owner && u.since.elapsed() < READING;
        self.unread.iter().any(is_new)
    }

    /// Returns whether [`Closer::run`] may start another child process for this owner.
    pub(crate) fn may_run(&self, owner: Owner) -> bool {
        self.running(owner).count() < PROCESSES
    }

    /// Returns whether more front ends of this owner may connect.
    pub(crate) fn has_room(&self, owner: Owner) -> bool {
        self.waiting(owner) < LEFT
    }

    /// Returns how many sockets of an owner wait for a child process.
    fn waiting(&self, owner: Owner) -> usize {
        self.left.iter().filter(|(of, _)| *of == owner).count()
    }

    /// Returns whether anything is unfinished, in which case [`Closer::go_on`] must be called
    /// again.
    pub(crate) fn is_busy(&self) -> bool {
        let waits = !self.left.is_empty() || !self.unread.is_empty();
        waits || !self.children.is_empty() || !self.unreleased.is_empty()
    }

    /// Forgets child processes that have exited, and kills those that have exceeded their time
    /// limit. Starts one child process for each owner that has waiting sockets and fewer than
    /// [`PROCESSES`] child processes; the sockets of other owners keep waiting.
    pub(crate) fn go_on(&mut self) {
        let unread = std::mem::take(&mut self.unread).into_iter();
        let (read, unread): (Vec<_>, _) = unread.partition(|u| is_read(&u.stream));
        self.unread = unread;
        let read = read.into_iter().map(|u| (u.owner, u.stream.into()));
        self.left.extend(read);
        self.children.retain(|child| {
            if Instant::now() > child.until {
                child.process.signal(Signal::KILL);
            }
            !child.process.has_exited()
        });
        self.unreleased.retain(|(_, child)| !child.is_released());
        self.started.retain(|(_, at)| at.elapsed() < APART);
        self.try_again();
        while let Some(owner) = self.next_owner() {
            let left = std::mem::take(&mut self.left).into_iter();
            let (over, rest) = left.partition(|(of, _)| *of == owner);
            self.left = rest;
            if !self.hand_over(owner, over) {
                return;
            }
        }
    }

    /// Starts a separate child process for each connection that still has unread messages. The
    /// first child process may have been killed while it closed a slow descriptor from this or
    /// another connection.
    fn try_again(&mut self) {
        for n in 0..self.unread.len() {
            let Unread {
                owner,
                stream,
                tried,
                ..
            } = &self.unread[n];
            if tried.elapsed() < AGAIN || is_dropped(stream) || !self.may_run(*owner) {
                continue;
            }
            if let Ok(copy) = stream.try_clone() {
                let owner = *owner;
                self.unread[n].tried = Instant::now();
                self.run(owner, copy, PATIENCE, |copy| {
                    drop_messages(copy.as_raw_fd());
                });
            }
        }
    }

    /// Hands all waiting sockets to one more child process, regardless of the limits, because this
    /// process is about to exit and would otherwise drop the last references itself.
    pub(crate) fn finish(mut self) {
        let mut left = std::mem::take(&mut self.left);
        let unread = std::mem::take(&mut self.unread).into_iter();
        left.extend(unread.map(|u| (u.owner, u.stream.into())));
        if self.forks && !left.is_empty() && !self.hand_over(Owner::Metrics, left) {
            // Closing TCP sockets here could block on their peers. When a process exits, the kernel
            // closes its sockets without waiting for the peers.
            self.left.drain(..).for_each(std::mem::forget);
        }
    }

    fn running(&self, owner: Owner) -> impl Iterator<Item = &Running> {
        self.children.iter().filter(move |c| c.owner == owner)
    }

    /// Returns an owner that has waiting sockets and may start another child process.
    fn next_owner(&self) -> Option<Owner> {
        let is_new = |owner| self.started.iter().any(|(of, _)| *of == owner);
        let mut owners = self.left.iter().map(|(owner, _)| *owner);
        owners.find(|owner| {
            let are_many = self.waiting(*owner) >= LEFT / 2;
            self.may_run(*owner) && (are_many || !is_new(*owner))
        })
    }

    /// Hands the sockets to a child process. If no child process can be started, keeps the sockets
    /// and returns false.
    fn hand_over(&mut self, owner: Owner, over: Vec<(Owner, OwnedFd)>) -> bool {
        let fds: Vec<_> = over.iter().map(|(_, fd)| fd.as_raw_fd()).collect();
        match start(&fds, || fds.iter().for_each(|fd| drop_messages(*fd))) {
            Ok(started) => {
                self.note(owner, started, PATIENCE, over);
                self.started.push((owner, Instant::now()));
                true
            }
            Err(error) => {
                report_no_child(&error);
                self.left.extend(over);
                false
            }
        }
    }

    /// Records a child process, and drops this process's copies of the child's sockets.
    fn note<T>(
        &mut self,
        owner: Owner,
        (process, hold): (Child, UnixStream),
        limit: Duration,
        sockets: T,
    ) {
        drop(sockets);
        // Closing `hold` lets the child begin.
        drop(hold);
        self.children.push(Running {
            owner,
            process,
            until: Instant::now() + limit,
        });
    }
}

fn report_no_child(error: &io::Error) {
    tracing::error!(
        %error,
        "cannot start a child process for a socket of a front end or a metrics client"
    );
}

/// Returns whether the other side has received everything sent on a connection, or has closed it.
fn is_read(stream: &UnixStream) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the command writes one number, which outlives the call.
    let done = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    done != 0 || bytes == 0
}

/// Returns whether a connection has been shut down, and has no unread messages.
fn is_dropped(stream: &UnixStream) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the command writes one number, which outlives the call.
    let done = unsafe { libc::ioctl(stream.as_raw_fd(), libc::FIONREAD, &mut bytes) };
    let mut fds = [PollFd::new(stream, PollFlags::empty())];
    let now = Timespec::default();
    let is_shut_down = poll(&mut fds, Some(&now)).is_ok_and(|n| n == 1);
    done == 0 && bytes == 0 && is_shut_down
}

/// Starts a child process that keeps these descriptors. The child waits until the returned socket
/// is closed, does its job, and exits, which closes the descriptors.
fn start(fds: &[RawFd], job: impl FnOnce()) -> io::Result<(Child, UnixStream)> {
    let (over, hold) = UnixStream::pair()?;
    let mut keep = fds.to_vec();
    keep.push(over.as_raw_fd());
    keep.sort_unstable();
    // SAFETY: this process has a single thread, so the child is not restricted to async-signal-safe
    // calls before _exit().
    let process = unsafe { libc::fork() };
    match process {
        0 => {
            keep_only(&keep, over.as_raw_fd());
            job();
            // SAFETY: the call ends the process.
            unsafe { libc::_exit(0) }
        }
        -1 => Err(io::Error::last_os_error()),
        // If the child cannot be watched, `hold` is closed here. The child then does its job. The
        // caller keeps the sockets for the next child.
        _ => Ok((Child::watch(process)?, hold)),
    }
}

/// Runs in the child: closes all descriptors not in `keep`, and waits until the other end of `over`
/// is closed.
fn keep_only(keep: &[RawFd], over: RawFd) {
    let mut next: libc::c_uint = 0;
    // SAFETY: this process does not use any of the closed descriptors afterwards, and `byte`
    // outlives the read() call that writes to it.
    unsafe {
        for fd in keep.iter().map(|fd| *fd as libc::c_uint) {
            if fd > next {
                libc::syscall(libc::SYS_close_range, next, fd - 1, 0);
            }
            next = fd + 1;
        }
        libc::syscall(libc::SYS_close_range, next, libc::c_uint::MAX, 0);
        let mut byte = 0u8;
        libc::read(over, std::ptr::from_mut(&mut byte).cast(), 1);
    }
}

fn shut_down(socket: RawFd) {
    // SAFETY: the call takes no pointers.
    unsafe { libc::shutdown(socket, libc::SHUT_RDWR) };
}

/// Shuts a socket down, so that nothing more can be sent to it, and drops what it has received. The
/// main process may keep the socket open.
fn drop_messages(socket: RawFd) {
    shut_down(socket);
    let mut bytes = [0u8; 4096];
    // SAFETY: the buffer outlives the calls.
    while unsafe {
        libc::recv(
            socket,
            bytes.as_mut_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT,
        )
    } > 0
    {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixListener;
    use std::thread::sleep;

    use rustix::net::sockopt::set_socket_linger;
    use vmm_sys_util::sock_ctrl_msg::ScmSocket;

    use crate::fork_lock::fork_alone;

    /// Returns a TCP socket whose last close blocks for ten minutes unless the process is exiting,
    /// and the socket connected to it, from which nothing is read.
    fn slow_to_close() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 1 << 16]).is_ok() {}
        set_socket_linger(&stream, Some(Duration::from_secs(600))).unwrap();
        (stream, peer)
    }

    /// Returns a connection on which a front end has sent a byte with a descriptor that is slow to
    /// close, and the other ends of both sockets, which the caller must keep open.
    fn sent() -> (UnixStream, (UnixStream, impl Sized)) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (slow, peer) = slow_to_close();
        ours.send_with_fd(&[1u8][..], slow.as_raw_fd()).unwrap();
        (theirs, (ours, peer))
    }

    /// Waits until the closer has nothing left to do.
    fn wait_for(closer: &mut Closer) {
        wait_while("the closer is busy", closer, Closer::is_busy);
    }

    /// Runs the closer while `goes_on` returns true, and fails after 60 s.
    fn wait_while(what: &str, closer: &mut Closer, goes_on: impl Fn(&Closer) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        closer.go_on();
        while goes_on(closer) {
            assert!(Instant::now() < end, "{what}: still after 60 s");
            sleep(Duration::from_millis(1));
            closer.go_on();
        }
    }

    /// If this process dropped the last reference to the slow descriptor, the test would block.
    #[test]
    fn what_was_sent_is_closed_in_another_process() {
        let _alone = fork_alone();
        let mut closer = Closer::new(true);
        let owner = Owner::Socket(0);
        for held in [false, true] {
            let (theirs, _held) = sent();
            match held {
                // This socket was held by a guest process, which may have hidden what was sent.
                // This process cannot detect that.
                true => assert!(closer.end_held(owner, theirs)),
                false => closer.end(owner, theirs),
            }
            wait_for(&mut closer);
        }
        let (theirs, _held) = sent();
        closer.end(owner, theirs);
        closer.finish();
    }

    /// Shutting down and closing a socket may block, so this process does neither. Control: a
    /// process that must not fork does both immediately.
    #[test]
    fn sockets_are_shut_down_and_closed_in_another_process() {
        let _alone = fork_alone();
        let dir = tempfile::tempdir().unwrap();
        let owner = Owner::Socket(0);
        for forks in [true, false] {
            let mut closer = Closer::new(forks);
            let path = dir.path().join(forks.to_string());
            let listener = UnixListener::bind(&path).unwrap();
            let [(mut ours, theirs), (mut held, other)] =
                [(); 2].map(|()| UnixStream::pair().unwrap());
            closer.end(owner, theirs);
            closer.end_held(owner, other);
            closer.end(owner, listener);
            let mut is_open = || {
                let writes = [ours.write_all(&[1]).is_ok(), held.write_all(&[1]).is_ok()];
                [writes[0], writes[1], UnixStream::connect(&path).is_ok()]
            };
            assert_eq!(is_open(), [forks; 3]);
            wait_for(&mut closer);
            assert_eq!(is_open(), [false; 3]);
        }
    }

    /// The first message contains the slow descriptor, and the second message contains the front
    /// end's side of the connection. The first child process is killed while it drops the first
    /// message, so the next child process must drop the second one.
    #[test]
    fn a_descriptor_that_is_slow_to_close_saves_no_message_behind_it() {
        let _alone = fork_alone();
        let owner = Owner::Socket(0);
        let mut closer = Closer::new(true);
        let (mut theirs, (ours, _peer)) = sent();
        ours.send_with_fd(&[1u8][..], ours.as_raw_fd()).unwrap();
        drop(ours);
        theirs.write_all(b"an answer").unwrap();
        assert!(!closer.end_held(owner, theirs));
        // Keep the next child process from starting, so that the front end's side of the connection
        // is still open when the first child has exited.
        closer.unread[0].tried = Instant::now() + Duration::from_secs(86_400);
        wait_while("the first child process runs", &mut closer, |closer| {
            closer.running(owner).count() > 0
        });
        assert_eq!(closer.unread(owner), 1);
        closer.unread[0].tried = Instant::now();
        wait_while("the front end's end is open", &mut closer, Closer::is_busy);
        assert_eq!(closer.unread(owner), 0);
    }

    /// A client that never reads keeps a child process busy until that process is killed.
    #[test]
    fn a_job_runs_in_another_process_until_its_limit() {
        let _alone = fork_alone();
        let owner = Owner::Metrics;
        let mut closer = Closer::new(true);
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let own = std::process::id();
        let limit = Duration::from_secs(60);
        closer.run(owner, theirs, limit, |mut stream| {
            let _ = stream.write_all(&[u8::from(std::process::id() == own)]);
        });
        let mut answer = Vec::new();
        ours.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, [0]);
        // A child process counts towards the limit until it has exited.
        wait_for(&mut closer);
        let all: Vec<_> = (0..PROCESSES)
            .map(|n| {
                assert!(closer.may_run(owner), "{n}");
                let (ours, theirs) = UnixStream::pair().unwrap();
                let forever = |_: &UnixStream| sleep(limit);
                closer.run(owner, theirs, Duration::from_millis(50), forever);
                ours
            })
            .collect();
        assert!(!closer.may_run(owner) && closer.may_run(Owner::Socket(0)));
        wait_for(&mut closer);
        assert!(closer.may_run(owner));
        assert!(all.iter().all(|mut ours| ours.write_all(&[1]).is_err()));
        // Control: a process that must not fork runs the job itself.
        let mut closer = Closer::new(false);
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        closer.run(owner, theirs, limit, |mut stream| {
            let _ = stream.write_all(&[u8::from(std::process::id() == own)]);
        });
        ours.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, [0, 1]);
    }

    /// Sockets that end in quick succession are closed by only a few child processes.
    #[test]
    fn many_sockets_that_end_cost_few_child_processes() {
        let _alone = fork_alone();
        let mut closer = Closer::new(true);
        let start = Instant::now();
        let (mut all, mut forked) = (Vec::new(), std::collections::BTreeSet::new());
        for _ in 0..LEFT {
            let (ours, theirs) = UnixStream::pair().unwrap();
            closer.end(Owner::Socket(0), theirs);
            closer.go_on();
            forked.extend(closer.children.iter().map(|child| child.process.id()));
            all.push(ours);
        }
        let most = start.elapsed().as_millis() / APART.as_millis() + 3;
        assert!(forked.len() as u128 <= most, "{} of {most}", forked.len());
        wait_for(&mut closer);
        assert!(all.iter().all(|mut ours| ours.write_all(&[1]).is_err()));
    }

    /// A child process that never exits occupies a slot of its own listening socket only. Once all
    /// slots are occupied, further connections of that listening socket wait for a child process to
    /// close them. This process does not close them itself.
    #[test]
    fn children_that_do_not_end_take_the_places_of_their_own_socket() {
        let _alone = fork_alone();
        let mut closer = Closer::new(true);
        let (full, other) = (Owner::Socket(0), Owner::Socket(1));
        // SAFETY: the child only waits for a signal.
        let stuck = || unsafe {
            match libc::fork() {
                0 => loop {
                    libc::pause();
                },
                process => Running {
                    owner: full,
                    process: Child::watch(process).unwrap(),
                    // Do not kill the child for a day, as if no signal could end it.
                    until: Instant::now() + Duration::from_secs(86_400),
                },
            }
        };
        closer.children = (0..PROCESSES).map(|_| stuck()).collect();
        for n in 0..LEFT {
            assert!(closer.has_room(full), "{n}");
            closer.left.push((full, sent_nothing()));
            closer.go_on();
        }
        assert!(!closer.has_room(full) && closer.has_room(other));
        assert_eq!(closer.children.len(), PROCESSES);
        let (theirs, _held) = sent();
        closer.end(other, theirs);
        closer.go_on();
        assert_eq!(closer.left.len(), LEFT, "the other socket's is closed");
        assert_eq!(closer.children.len(), PROCESSES + 1);
        // One child exits, so a new child process takes over all waiting sockets.
        closer.children[0].process.signal(Signal::KILL);
        while !closer.left.is_empty() {
            sleep(Duration::from_millis(1));
            closer.go_on();
        }
        assert!(closer.has_room(full));
        for child in &closer.children {
            child.process.signal(Signal::KILL);
        }
        wait_for(&mut closer);
    }

    /// A process counts as unreleased until the kernel releases it, which here happens when the
    /// test reaps it.
    #[test]
    fn a_process_that_is_not_released_counts() {
        let _alone = fork_alone();
        let mut closer = Closer::new(true);
        let owner = Owner::Socket(0);
        // SAFETY: the child only exits.
        let process = unsafe {
            match libc::fork() {
                0 => libc::_exit(0),
                process => process,
            }
        };
        let child = Child::watch(process).unwrap();
        while !child.has_exited() {
            sleep(Duration::from_millis(1));
        }
        closer.note_process(owner, child);
        closer.go_on();
        assert!(closer.unreleased(owner) == 1 && closer.is_busy());
        assert_eq!(closer.unreleased(Owner::Socket(1)), 0);
        // SAFETY: the only pointer is null, which waitpid() allows.
        let reaped = unsafe { libc::waitpid(process, std::ptr::null_mut(), 0) };
        assert_eq!(reaped, process);
        closer.go_on();
        assert!(closer.unreleased(owner) == 0 && !closer.is_busy());
    }

    fn sent_nothing() -> OwnedFd {
        UnixStream::pair().unwrap().0.into()
    }
}
