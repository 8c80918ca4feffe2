//! The device: listens on its sockets, starts a process for each guest, and lets all guests finish
//! on shutdown.
//!
//! The main process is single-threaded, never parses what a front end sends, and does not wait for
//! any front end. A silent connection costs a descriptor for a few seconds. If a guest process
//! hangs or dies, only that guest is affected.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::thread;
use std::time::{Duration, Instant};

use kiln_virtio::Services;
use rustix::event::{poll, PollFd, PollFlags};
use rustix::io::Errno;

use crate::child::{self, End};
use crate::closer::{self, Closer, Owner};
use crate::config::Config;
use crate::confine;
use crate::crew::Crew;
use crate::error::Error;
use crate::forkserver::ForkServer;
use crate::guest::{Connection, Name};
use crate::inflight::Inflight;
use crate::listener::{self, inherit, listen, Access, Socket, Waiting, CLIENTS, SILENT, WAITING};
use crate::metrics::{self, Meter};
use crate::notify::timespec;
use crate::process::{Process, State, START};
use crate::relay::Relay;
use crate::sandbox::{self, Files, Role};
use crate::tally::Counters;
use crate::vhost_user::send_inflight_of;

/// How long a guest process may take to exit after its front end has disconnected.
const GRACE: Duration = Duration::from_millis(700);

/// How long a guest keeps its slot if its process has been killed but has not exited. A file system
/// can keep a killed process from exiting.
const LAST: Duration = Duration::from_millis(300);

/// Intervals for checking conditions that no descriptor signals. The short interval is used while a
/// process or guest is about to end.
const LOOK: Duration = Duration::from_millis(10);
const SELDOM: Duration = Duration::from_millis(50);

/// A device whose sockets are bound.
pub struct Server {
    config: Config,
    sockets: Vec<Socket>,
    metrics: Option<Socket>,
    meter: Meter,
}

/// A guest being served.
struct Guest {
    number: u64,
    socket: usize,
    /// The connection to the front end. This process only polls the connection for a hang-up. A
    /// child process may send on it ([`crate::relay`]).
    stream: UnixStream,
    host: Host,
    /// Becomes readable when the process that made the connection has exited. This is needed
    /// because a guest process that was taken over could receive the front end's end of the
    /// connection, which would then never hang up.
    front_end: Option<OwnedFd>,
    /// When the front end disconnected or exited.
    gone: Option<Instant>,
    killed: Option<Instant>,
    /// Whether a log message has already reported that the guest's threads have not exited.
    stays: bool,
}

/// What serves a guest: a separate process, or threads of this process.
enum Host {
    Process(Process),
    Threads(Connection),
}

/// The object that a polled descriptor belongs to.
#[derive(Clone, Copy)]
enum Watched {
    Stop,
    Listener(Owner),
    Waiting(Owner, usize),
    Guest(usize),
    Bell(Which),
    End(Which),
    ForkServer,
}

/// A process, identified by its index among the guests or among the spare processes.
#[derive(Clone, Copy)]
enum Which {
    Guest(usize),
    Spare(usize),
}

impl Which {
    fn find<'a>(
        self,
        guests: &'a mut [Guest],
        spares: &'a mut [Process],
    ) -> Option<&'a mut Process> {
        match self {
            Which::Spare(k) => spares.get_mut(k),
            Which::Guest(k) => match &mut guests.get_mut(k)?.host {
                Host::Process(process) => Some(process),
                Host::Threads(_) => None,
            },
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Number of front ends served.
    pub guests: u64,
    /// Number of requests answered, including control requests.
    pub requests: u64,
}

impl Guest {
    /// Returns `None` while the guest is being served. Afterwards, returns how its process ended,
    /// or `Some(None)` if threads served the guest.
    fn ended(&mut self) -> Option<Option<End>> {
        match &mut self.host {
            Host::Process(process) => process.ended().map(Some),
            Host::Threads(connection) => connection.is_over().then_some(None),
        }
    }

    /// Returns whether the guest is about to end. There may be no descriptor that signals the end,
    /// so the caller must check for it periodically.
    fn is_ending(&self) -> bool {
        let closed = matches!(&self.host, Host::Process(process) if process.state == State::Closed);
        closed || self.gone.is_some() || self.killed.is_some()
    }

    /// Returns the relay of the guest process, or `None` if threads serve the guest.
    fn relay(&self) -> Option<&Relay> {
        match &self.host {
            Host::Process(process) => Some(process.relay()),
            Host::Threads(_) => None,
        }
    }

    /// Returns whether a child process that sends a reply to the front end is still running.
    fn is_sending(&self) -> bool {
        self.relay().is_some_and(Relay::is_sending)
    }

    fn kill(&mut self) {
        if let Host::Process(process) = &mut self.host {
            process.kill();
            self.killed.get_or_insert_with(Instant::now);
        }
    }

    /// Closes the connection of a guest that has ended, and releases its process.
    fn close(self, closer: &mut Closer) {
        let owner = Owner::Socket(self.socket);
        if let Host::Process(process) = self.host {
            process.release(owner, closer);
        }
        if !closer.end_held(owner, self.stream) {
            tracing::warn!(
                guest = self.number,
                "its front end has not read all answers: it keeps its place until it does, or exits"
            );
        }
    }
}

impl Server {
    /// Binds all sockets, including the one for metrics.
    pub fn bind(config: Config) -> Result<Server, Error> {
        config.check()?;
        let access = Access {
            mode: config.socket_mode,
            group: config.socket_group,
        };
        let admitted = config.max_new_guests;
        let mut sockets = Vec::new();
        for path in &config.sockets {
            let owner = Owner::Socket(sockets.len());
            let listener = listen(path, access)?;
            sockets.push(Socket::new(owner, path.clone(), Some(listener), admitted));
        }
        for fd in &config.inherited {
            sockets.push(inherit(Owner::Socket(sockets.len()), *fd, admitted)?);
        }
        let metrics = match &config.metrics {
            Some(path) => {
                let listener = listen(path, Access::default())?;
                Some(Socket::new(
                    Owner::Metrics,
                    path.clone(),
                    Some(listener),
                    CLIENTS,
                ))
            }
            None => None,
        };
        let all = sockets.iter().chain(&metrics);
        for listener in all.filter_map(|s| s.listener.as_ref()) {
            listener
                .set_nonblocking(true)
                .map_err(|e| Error::lacks("sockets", e))?;
        }
        Ok(Server {
            meter: Meter::new(config.queues),
            sockets,
            metrics,
            config,
        })
    }

    /// Returns the socket that `owner` identifies, or `None` if the device does not have it.
    fn socket(&mut self, owner: Owner) -> Option<&mut Socket> {
        match owner {
            Owner::Socket(i) => self.sockets.get_mut(i),
            Owner::Metrics => self.metrics.as_mut(),
        }
    }

    /// Returns the maximum number of connections per socket that may wait after sending data.
    fn most_waiting(&self) -> usize {
        self.config.max_guests.max(WAITING)
    }

    /// Restricts this process before it serves guests: resource limits, user, memory locking,
    /// sandbox.
    fn confine(&self) -> Result<(), Error> {
        let sockets = self.sockets.len() as u64;
        let guests = self.config.max_guests as u64;
        // Each guest needs descriptors for its connection, its process, its bell, its memory for
        // requests in flight, and the process of its front end. The same number of guests that have
        // already left may also still need descriptors, because a file system can keep the
        // processes that served them from exiting.
        let waiting = (SILENT + self.most_waiting()) as u64;
        // With isolation, this process has a single thread, so it may fork child processes and hand
        // the sockets of front ends and of metrics clients to them. It has a descriptor for each
        // child process.
        let left = match self.config.isolation {
            true => (sockets + 1) * (closer::LEFT + closer::PROCESSES) as u64,
            false => 0,
        };
        let listeners = sockets + u64::from(self.metrics.is_some());
        let descriptors = sockets * (guests * 12 + 8) + listeners * waiting + 64 + left;
        if !self.config.shares_process {
            confine::confine_main(&self.config, descriptors)?;
            if self.config.isolation {
                child::release_children().map_err(|e| Error::lacks("child processes", e))?;
            }
        }
        if self.config.sandbox && confine::is_root() {
            tracing::warn!(
                "started as root, continues as the user nobody: start it as a separate user"
            );
            confine::leave_root()?;
        }
        // With isolation, only guest processes hold keys, so this process need not lock its memory.
        let keys = !self.config.isolation && !self.config.shares_process;
        if keys && !confine::lock(u64::MAX)? {
            warn_of_unlocked_memory();
        }
        if !self.config.sandbox {
            tracing::warn!("without a sandbox");
            return Ok(());
        }
        let role = match self.config.isolation {
            true => Role::Main,
            false => Role::Together,
        };
        match sandbox::enter(role)? {
            Files::Closed => tracing::info!("the sandbox is active"),
            Files::Partly => {
                tracing::info!(
                    "the sandbox is active, but this kernel supports only some landlock \
                     restrictions"
                );
            }
            Files::Open => {
                tracing::warn!(
                    "the sandbox is active, but this kernel has no landlock; seccomp still \
                     refuses to open files"
                );
            }
        }
        Ok(())
    }

    /// Serves guests until `stop` is readable, then finishes the requests that guests have already
    /// made available.
    pub fn run(mut self, stop: BorrowedFd<'_>) -> Result<Served, Error> {
        let services = (!self.config.isolation).then(Services::detect);
        self.confine()?;
        let (mut forks, mut spares) = match &services {
            None => {
                let (forks, process) = first_process(self.config.queues)?;
                (Some(forks), vec![process])
            }
            Some(_) => {
                tracing::warn!(
                    "--no-isolation: all guests share this process and its sandbox: a fault that \
                     ends one guest can end all, and --max-cpu counts the CPU time of all"
                );
                (None, Vec::new())
            }
        };
        for socket in &self.sockets {
            let what = match socket.listener {
                Some(_) => "listening",
                None => "serving one connection",
            };
            tracing::info!(socket = %socket.path.display(), queues = self.config.queues, "{what}");
        }
        if let Some(metrics) = &self.metrics {
            tracing::info!(socket = %metrics.path.display(), "serving metrics");
        }
        let mut guests: Vec<Guest> = Vec::new();
        let mut lost: Vec<Guest> = Vec::new();
        let mut served = Served::default();
        let start = Instant::now();
        // Earliest time for the next attempt after a process failed to start.
        let mut start_again = start;
        let mut turn = 0;
        let own = self.config.isolation && !self.config.shares_process;
        let mut closer = Closer::new(own);
        loop {
            let is_over = |s: &Socket| s.listener.is_none() && s.waiting.is_empty();
            if guests.is_empty() && self.sockets.iter().all(is_over) {
                // The device has only inherited connections, and all of them have ended.
                self.finish((guests, lost), spares, closer, &mut served);
                return Ok(served);
            }
            let ready = self.wait(
                stop,
                &guests,
                (&forks, &spares),
                (&lost, &closer),
                start.elapsed(),
            )?;
            let mut listening = Vec::new();
            for (watched, found) in ready {
                match watched {
                    Watched::Stop => {
                        self.finish((guests, lost), spares, closer, &mut served);
                        return Ok(served);
                    }
                    Watched::Listener(owner) => listening.push(owner),
                    Watched::Waiting(owner, k) => {
                        if let Some(socket) = self.socket(owner) {
                            socket.waiting[k].notice(found);
                        }
                    }
                    Watched::Guest(k) => {
                        guests[k].gone.get_or_insert_with(Instant::now);
                    }
                    Watched::Bell(which) => {
                        if let Some(process) = which.find(&mut guests, &mut spares) {
                            process.look();
                        }
                    }
                    Watched::End(which) => {
                        if let Some(process) = which.find(&mut guests, &mut spares) {
                            process.note_end();
                        }
                    }
                    // Nothing to do here, because every iteration takes the process that the fork
                    // server has started, if any.
                    Watched::ForkServer => {}
                }
            }
            send_pending_replies(&mut guests);
            self.remove_ended(&mut guests, &mut lost, &mut closer);
            self.remove_lost(&mut lost, &mut closer);
            // Each socket accepts one connection per iteration, so that a front end that connects
            // in a loop does not delay front ends of other sockets.
            for owner in listening {
                // If a guest is about to end and free its slot, the socket does not count as full.
                let full = match owner {
                    Owner::Metrics => false,
                    Owner::Socket(i) => {
                        places(&guests, &lost, &closer, i) >= self.config.max_guests
                            && !makes_room(&guests, &closer, i)
                    }
                };
                let most = self.most_waiting();
                if let Some(socket) = self.socket(owner) {
                    let refused = socket.accept(full, most, start.elapsed(), &mut closer);
                    if owner != Owner::Metrics {
                        self.meter.refused += refused;
                    }
                }
            }
            for socket in self.sockets.iter_mut().chain(&mut self.metrics) {
                socket.end_late(&mut closer);
            }
            let now = Instant::now();
            self.serve_clients(&mut closer, start.elapsed());
            let wanted = self.hand_over(
                &mut guests,
                &lost,
                &mut spares,
                services.as_ref(),
                (&mut served, &mut closer),
                (start.elapsed(), &mut turn),
            );
            closer.go_on();
            if services.is_some() {
                continue;
            }
            for spare in spares.iter_mut().filter(|spare| spare.is_late()) {
                tracing::error!("a spare process does not become ready: it is killed");
                spare.discard();
            }
            let is_over =
                |spare: &mut Process| spare.state == State::Closed && spare.ended().is_some();
            while let Some(at) = spares.iter_mut().position(is_over) {
                tracing::error!("a spare process ended before it got a guest");
                start_again = now + Duration::from_secs(1);
                // If [`Process::give`] failed, the process may still have a guest.
                spares.swap_remove(at).release(Owner::Metrics, &mut closer);
            }
            let wanted = if now < start_again { 0 } else { wanted };
            if let Err(error) = start_processes(&mut forks, &mut spares, wanted, &self.config) {
                tracing::error!(%error, "cannot start a process for a guest");
                start_again = now + Duration::from_secs(1);
            }
        }
    }

    /// Waits until at least one descriptor is ready or a periodic check is due, and returns the
    /// ready descriptors.
    fn wait(
        &self,
        stop: BorrowedFd<'_>,
        guests: &[Guest],
        (forks, spares): (&Option<ForkServer>, &[Process]),
        (lost, closer): (&[Guest], &Closer),
        elapsed: Duration,
    ) -> Result<Vec<(Watched, PollFlags)>, Error> {
        let mut watched = vec![Watched::Stop];
        let mut fds = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        let mut add = |what, fd, flags| {
            watched.push(what);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        };
        let mut pause = (!lost.is_empty() || closer.is_busy()).then_some(SELDOM);
        let mut within = |limit: Duration| pause = Some(pause.map_or(limit, |p| p.min(limit)));
        for socket in self.sockets.iter().chain(&self.metrics) {
            let owner = socket.owner;
            match &socket.listener {
                Some(_) if socket.rests(elapsed) => within(LOOK),
                // Do not poll this listener: its connections would take up more descriptors.
                // Polling resumes when the closer makes progress.
                Some(_) if !closer.has_room(owner) => {}
                Some(listener) => add(Watched::Listener(owner), listener.as_fd(), PollFlags::IN),
                None => {}
            }
            for (k, waiting) in socket.waiting.iter().enumerate() {
                // A connection that has already sent data is waiting for a process or for its
                // socket's rate limit, so poll it only for a hang-up.
                let flags = match waiting.speaks {
                    true => PollFlags::empty(),
                    false => PollFlags::IN,
                };
                add(Watched::Waiting(owner, k), waiting.stream.as_fd(), flags);
                within(SELDOM);
            }
        }
        for (k, guest) in guests.iter().enumerate() {
            if guest.is_ending() {
                within(LOOK);
            }
            if guest.gone.is_none() {
                add(Watched::Guest(k), guest.stream.as_fd(), PollFlags::RDHUP);
                if let Some(front_end) = &guest.front_end {
                    add(Watched::Guest(k), front_end.as_fd(), PollFlags::IN);
                }
            }
        }
        let of_guests = guests
            .iter()
            .enumerate()
            .filter_map(|(k, guest)| match &guest.host {
                Host::Process(process) => Some((Which::Guest(k), process)),
                Host::Threads(_) => None,
            });
        let of_none = spares.iter().enumerate();
        let of_none = of_none.map(|(k, spare)| (Which::Spare(k), spare));
        for (which, process) in of_guests.chain(of_none) {
            if process.state == State::Closed {
                within(LOOK);
                continue;
            }
            add(Watched::End(which), process.end().as_fd(), PollFlags::IN);
            if process.relay().is_pending() || process.relay().is_sending() {
                within(LOOK);
            }
            match process.bell() {
                (_, Some(rest)) => within(rest),
                (bell, None) => add(Watched::Bell(which), bell.as_fd(), PollFlags::IN),
            }
        }
        if let Some(forks) = forks {
            add(Watched::ForkServer, forks.channel().as_fd(), PollFlags::IN);
        }
        let starts = forks.as_ref().is_none_or(ForkServer::is_asked);
        if (spares.is_empty() || starts) && self.config.isolation {
            within(SELDOM);
        }
        let pause = pause.map(timespec);
        match poll(&mut fds, pause.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(e) => return Err(Error::lacks("poll", io::Error::from(e))),
        }
        let found = fds.iter().map(PollFd::revents);
        Ok(watched
            .into_iter()
            .zip(found)
            .filter(|(_, found)| !found.is_empty())
            .collect())
    }

    /// Removes guests that have ended, and kills the processes of guests that should have ended.
    fn remove_ended(
        &mut self,
        guests: &mut Vec<Guest>,
        lost: &mut Vec<Guest>,
        closer: &mut Closer,
    ) {
        let mut k = 0;
        while k < guests.len() {
            let guest = &mut guests[k];
            if !guest.is_ending() {
                k += 1;
                continue;
            }
            let how = match guest.is_sending() {
                true => None,
                false => guest.ended(),
            };
            if let Some(how) = how {
                let guest = guests.swap_remove(k);
                report_end(&guest, how);
                self.meter.left(guest.number);
                guest.close(closer);
                continue;
            }
            let late = guest.gone.is_some_and(|gone| gone.elapsed() > GRACE);
            if late && matches!(guest.host, Host::Threads(_)) {
                if !guest.stays {
                    guest.stays = true;
                    tracing::warn!(
                        guest = guest.number,
                        "its front end is gone and its threads do not end: it keeps its place"
                    );
                }
            } else if late && guest.killed.is_none() {
                tracing::warn!(
                    guest = guest.number,
                    "its front end is gone and its process does not end: it is killed"
                );
                self.meter.killed += 1;
                guest.kill();
            }
            if guest.killed.is_some_and(|killed| killed.elapsed() > LAST) {
                let guest = guests.swap_remove(k);
                tracing::error!(
                    guest = guest.number,
                    "its process was killed, but a file system keeps it from ending; its place is \
                     free"
                );
                self.meter.left(guest.number);
                lost.push(guest);
                continue;
            }
            k += 1;
        }
    }

    fn remove_lost(&self, lost: &mut Vec<Guest>, closer: &mut Closer) {
        let is_over = |guest: &mut Guest| !guest.is_sending() && guest.ended().is_some();
        while let Some(at) = lost.iter_mut().position(is_over) {
            lost.swap_remove(at).close(closer);
        }
    }

    /// Answers metrics clients that have sent something, each in a child process.
    fn serve_clients(&mut self, closer: &mut Closer, now: Duration) {
        let Some(metrics) = &mut self.metrics else {
            return;
        };
        let now = now.as_nanos() as u64;
        while closer.may_run(metrics.owner) && metrics.admitted.is_due(now) {
            let next = metrics.waiting.iter().position(|w| w.speaks);
            let Some(client) = next.and_then(|at| metrics.waiting.remove(at)) else {
                return;
            };
            metrics.admitted.take(1, now);
            let answer = metrics::answer(&self.meter);
            let serve = |stream: &UnixStream| metrics::serve(stream, &answer);
            closer.run(metrics.owner, client.stream, metrics::PATIENCE, serve);
        }
    }

    /// Passes connections that have sent data to processes that are ready, serving the sockets in
    /// turn. Returns the number of spare processes that are needed.
    fn hand_over(
        &mut self,
        guests: &mut Vec<Guest>,
        lost: &[Guest],
        spares: &mut Vec<Process>,
        services: Option<&Services>,
        (served, closer): (&mut Served, &mut Closer),
        (now, turn): (Duration, &mut usize),
    ) -> usize {
        let mut wanting = 0;
        let mut room = false;
        for n in 0..self.sockets.len() {
            let i = (*turn + n) % self.sockets.len();
            room |= places(guests, lost, closer, i) < self.config.max_guests;
            while let Some(at) = self.sockets[i].waiting.iter().position(|w| w.speaks) {
                if places(guests, lost, closer, i) >= self.config.max_guests {
                    if makes_room(guests, closer, i) {
                        break;
                    }
                    tracing::warn!(
                        guests = guests.len(),
                        "connection rejected: --max-guests is reached"
                    );
                    self.meter.refused += 1;
                    self.sockets[i].end(at, closer);
                    continue;
                }
                let spare = spares
                    .iter()
                    .position(|s| matches!(s.state, State::Ready { .. }));
                if services.is_none() && spare.is_none() {
                    wanting += 1;
                    break;
                }
                // The socket's rate is exhausted, for example because a front end connects in a
                // loop, so keep its connections waiting.
                if !self.sockets[i].admitted.is_due(now.as_nanos() as u64) {
                    break;
                }
                self.sockets[i].admitted.take(1, now.as_nanos() as u64);
                let Some(waiting) = self.sockets[i].waiting.remove(at) else {
                    break;
                };
                served.guests += 1;
                let spare = spare.map(|at| spares.swap_remove(at));
                match self.take_in(&waiting, i, served.guests, (spare, &mut *spares), services) {
                    Ok((host, front_end, gone)) => guests.push(Guest {
                        number: served.guests,
                        socket: i,
                        stream: waiting.stream,
                        host,
                        front_end,
                        gone,
                        killed: None,
                        stays: false,
                    }),
                    Err(error) => {
                        tracing::error!(%error, "connection rejected");
                        closer.end(Owner::Socket(i), waiting.stream);
                    }
                }
            }
        }
        *turn += 1;
        match room {
            true => 1 + wanting,
            false => 0,
        }
    }

    fn take_in(
        &mut self,
        waiting: &Waiting,
        socket: usize,
        number: u64,
        (spare, spares): (Option<Process>, &mut Vec<Process>),
        services: Option<&Services>,
    ) -> io::Result<(Host, Option<OwnedFd>, Option<Instant>)> {
        let Socket { path, listener, .. } = &self.sockets[socket];
        tracing::info!(guest = number, socket = %path.display(), peer = waiting.peer, "accepted");
        let host = match (spare, services) {
            (Some(mut process), _) => {
                let given = process.give(number, socket, &waiting.stream);
                if let Err(error) = given {
                    // The process may have received the guest, so it cannot be a spare, and the
                    // device must wait for it to exit.
                    process.discard();
                    spares.push(process);
                    return Err(error);
                }
                let (id, counters) = (process.id(), process.counters().clone());
                self.meter.joined(number, counters, Some(id));
                Host::Process(process)
            }
            (None, Some(services)) => {
                let name = Name {
                    number,
                    socket: path,
                };
                let stream = waiting.stream.try_clone()?;
                let inflight = Inflight::file(usize::from(self.config.queues) + 1)?;
                let send = send_inflight_of(inflight.try_clone()?);
                let inflight = (inflight, send);
                let counters = Counters::new(self.config.queues)?;
                self.meter.joined(number, counters.clone(), None);
                let config = &self.config;
                let threads = Crew::create(config)
                    .and_then(|crew| {
                        Connection::new(stream, &name, services, counters, inflight, config, crew)
                    })
                    .inspect_err(|_| self.meter.left(number))?;
                Host::Threads(threads)
            }
            (None, None) => return Err(io::Error::other("no process is ready")),
        };
        // If the connection was inherited, do not watch the process that created it, because that
        // process may exit before the process that uses the connection.
        let (front_end, gone) = match (&host, listener) {
            (Host::Process(_), Some(_)) => match listener::front_end_process(&waiting.stream) {
                Ok(process) => (process, None),
                Err(_) => (None, Some(Instant::now())),
            },
            _ => (None, None),
        };
        Ok((host, front_end, gone))
    }

    /// Lets all guests finish, and kills the processes of those that do not.
    fn finish(
        mut self,
        (guests, lost): (Vec<Guest>, Vec<Guest>),
        spares: Vec<Process>,
        mut closer: Closer,
        served: &mut Served,
    ) {
        let until = Instant::now() + self.config.drain;
        let sockets = std::mem::take(&mut self.sockets).into_iter();
        for socket in sockets.chain(self.metrics.take()) {
            socket.close(&mut closer);
        }
        closer.go_on();
        let mut processes: Vec<(Option<u64>, Owner, Process)> = spares
            .into_iter()
            .map(|spare| (None, Owner::Metrics, spare))
            .collect();
        let mut threads = Vec::new();
        let mut streams = Vec::new();
        // Tell all guests to drain before waiting for the first one. This also makes spare
        // processes exit.
        for guest in guests {
            let owner = Owner::Socket(guest.socket);
            streams.push((guest.number, owner, guest.stream));
            match guest.host {
                Host::Process(process) => processes.push((Some(guest.number), owner, process)),
                Host::Threads(connection) => threads.push(connection),
            }
        }
        for (_, _, process) in &mut processes {
            process.relay().stop();
            process.drain();
        }
        lost.iter().filter_map(Guest::relay).for_each(Relay::stop);
        threads.iter().for_each(Connection::drain);
        for connection in threads {
            connection.end(until);
        }
        let mut last = None;
        loop {
            for (_, _, process) in &mut processes {
                process.look();
            }
            let is_over = |(_, _, process): &mut (Option<u64>, Owner, Process)| {
                !process.relay().is_sending() && process.ended().is_some()
            };
            while let Some(at) = processes.iter_mut().position(is_over) {
                let (_, owner, process) = processes.swap_remove(at);
                process.release(owner, &mut closer);
            }
            closer.go_on();
            let over = last.is_some_and(|last| Instant::now() > last);
            let done = processes.is_empty() && !lost.iter().any(Guest::is_sending);
            if done || over {
                break;
            }
            if last.is_none() && Instant::now() > until {
                for (guest, _, process) in &mut processes {
                    tracing::warn!(guest, "did not finish in time: its process is killed");
                    process.kill();
                }
                last = Some(Instant::now() + LAST);
            }
            thread::sleep(Duration::from_millis(2));
        }
        // A child process that is still sending a reply shares this process's descriptor table.
        // Keep the descriptors that it uses open, so that their numbers are not reused. They are
        // closed when both processes have exited.
        for (number, owner, process) in processes {
            match process.relay().is_sending() {
                true => {
                    let own = streams.iter().position(|s| Some(s.0) == number);
                    std::mem::forget((process, own.map(|at| streams.swap_remove(at))));
                }
                false => process.release(owner, &mut closer),
            }
        }
        for guest in lost {
            match guest.is_sending() {
                true => std::mem::forget(guest),
                false => guest.close(&mut closer),
            }
        }
        for (_, owner, stream) in streams {
            let _ = closer.end_held(owner, stream);
        }
        closer.finish();
        let queues = self.meter.queues();
        served.requests = queues
            .iter()
            // A compromised process can write any value, so the sum must be allowed to wrap around.
            .fold(0, |sum: u64, count| sum.wrapping_add(count.requests()));
        tracing::info!(
            guests = served.guests,
            requests = served.requests,
            "stopped"
        );
    }
}

/// Returns how many of a socket's guest slots are in use. This is the larger of two sums: the
/// number of guests plus the number of front ends that have not read their last answers, and the
/// number of processes that could not be killed plus the number that the kernel has not released.
fn places(guests: &[Guest], lost: &[Guest], closer: &Closer, socket: usize) -> usize {
    let count = |all: &[Guest]| all.iter().filter(|g| g.socket == socket).count();
    let owner = Owner::Socket(socket);
    (count(guests) + closer.unread(owner)).max(count(lost) + closer.unreleased(owner))
}

/// Starts sending the replies that guest processes have requested, at most [`closer::PROCESSES`] at
/// a time per socket.
fn send_pending_replies(guests: &mut [Guest]) {
    for k in 0..guests.len() {
        let is_pending = guests[k].relay().is_some_and(Relay::is_pending);
        if !is_pending || guests[k].is_ending() {
            continue;
        }
        let socket = guests[k].socket;
        let of_socket = guests.iter().filter(|g| g.socket == socket);
        if of_socket.filter(|g| g.is_sending()).count() >= closer::PROCESSES {
            continue;
        }
        let Guest { host, stream, .. } = &mut guests[k];
        if let Host::Process(process) = host {
            process.relay_mut().send_pending(stream);
        }
    }
}

/// Returns whether one of this socket's guest slots is about to become free.
fn makes_room(guests: &[Guest], closer: &Closer, socket: usize) -> bool {
    let is_ending = |g: &Guest| g.socket == socket && g.is_ending();
    guests.iter().any(is_ending) || closer.may_be_read(Owner::Socket(socket))
}

fn warn_of_unlocked_memory() {
    tracing::warn!(
        "keys are not in locked memory: raise the limit (ulimit -l unlimited, LimitMEMLOCK=infinity)"
    );
}

/// Starts the fork server, and the first process that will serve a guest. If that first process
/// fails to start, later ones would fail too, so the device does not start.
fn first_process(data: u16) -> Result<(ForkServer, Process), Error> {
    let what = "a process for a guest";
    let lacks = |e: io::Error| Error::lacks(what, e);
    let mut forks = ForkServer::start(START).map_err(lacks)?;
    forks.ask(data).map_err(lacks)?;
    let until = Instant::now() + START;
    let mut process = loop {
        if let Some(process) = forks.answer().map_err(lacks)? {
            break process;
        }
        if Instant::now() > until {
            return Err(Error::lacks(what, "it does not start"));
        }
        let mut fds = [PollFd::new(forks.channel(), PollFlags::IN)];
        let _ = poll(&mut fds, Some(&timespec(SELDOM)));
    };
    let until = Instant::now() + START;
    while process.state == State::Starting {
        if Instant::now() > until {
            process.kill();
            return Err(Error::lacks(what, "it does not start"));
        }
        let mut fds = [
            PollFd::new(process.bell().0, PollFlags::IN),
            PollFd::new(process.end(), PollFlags::IN),
        ];
        // If poll() fails, the next check of the process reveals the cause.
        let _ = poll(&mut fds, Some(&timespec(SELDOM)));
        let has_ended = !fds[1].revents().is_empty();
        process.look();
        if has_ended {
            process.note_end();
        }
    }
    match process.state {
        State::Ready { locked } => {
            if !locked {
                warn_of_unlocked_memory();
            }
            Ok((forks, process))
        }
        _ => Err(Error::lacks(what, "it ended: see above")),
    }
}

/// Takes the requested process, and requests another one if there are fewer than `wanted` spare
/// processes. Replaces a fork server that has ended or does not answer. Waits for at most 1 ms.
fn start_processes(
    forks: &mut Option<ForkServer>,
    spares: &mut Vec<Process>,
    wanted: usize,
    config: &Config,
) -> io::Result<()> {
    if forks.is_none() && wanted > 0 {
        *forks = Some(ForkServer::start(Duration::from_millis(1))?);
    }
    let Some(server) = forks else { return Ok(()) };
    let mut go_on = || {
        spares.extend(server.answer()?);
        match spares.len() < wanted && !server.is_asked() {
            true => server.ask(config.queues),
            false => Ok(()),
        }
    };
    let done = go_on();
    if server.is_over() {
        server.kill();
        *forks = None;
    }
    done
}

/// Logs a guest process's exit if it was abnormal.
fn report_end(guest: &Guest, how: Option<End>) {
    let number = guest.number;
    let status = match how {
        None => return,
        Some(End::Known(status)) => status,
        Some(End::Unknown) => {
            // If the process ended normally, it has logged the reason itself, or its front end
            // disconnected first. Warn only if the front end did not disconnect and the process was
            // not killed.
            if guest.gone.is_none() && guest.killed.is_none() {
                tracing::warn!(
                    guest = number,
                    "its process ended, and the kernel did not report how (before 6.15, it cannot): \
                     unless a line above says why, it crashed, was killed, or lacked pages of shared \
                     memory"
                );
            }
            return;
        }
    };
    match status.signal() {
        _ if status.success() => {}
        Some(libc::SIGBUS) => tracing::warn!(
            guest = number,
            "its process ended: pages of the shared memory are missing, for example because its \
             front end truncated it"
        ),
        Some(libc::SIGKILL) if guest.killed.is_some() => {}
        _ => tracing::error!(guest = number, %status, "its process ended"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use std::path::PathBuf;

    use crate::listener::{ACCEPTED_AT_ONCE, ADMITTED_AT_ONCE};
    use crate::pace::Bucket;

    const FRONT_ENDS: usize = 12;
    const AT_ONCE: usize = 4;
    /// A socket's rate in front ends per second, and the resulting interval between front ends.
    const ADMITTED: u64 = 10;
    const EACH: Duration = Duration::from_nanos(1_000_000_000 / ADMITTED);

    /// The vhost-user messages SET_OWNER and GET_FEATURES.
    const HELLO: [u32; 6] = [3, 1, 0, 1, 1, 0];

    /// A server with two sockets, and front ends that have connected to the first socket and sent
    /// their first messages. Tests pass the current time to [`Crowd::hand_over`].
    struct Crowd {
        server: Server,
        guests: Vec<Guest>,
        served: Served,
        closer: Closer,
        services: Services,
        clients: Vec<UnixStream>,
        stop: UnixStream,
        turn: usize,
        _dir: tempfile::TempDir,
    }

    impl Crowd {
        fn connect(admitted: Bucket) -> Crowd {
            let dir = tempfile::tempdir().unwrap();
            let mut server = Server::bind(Config {
                sockets: vec![dir.path().join("crowd"), dir.path().join("other")],
                max_guests: 2 * FRONT_ENDS,
                isolation: false,
                sandbox: false,
                shares_process: true,
                ..Config::default()
            })
            .unwrap();
            server.sockets[0].admitted = admitted;
            let mut crowd = Crowd {
                server,
                guests: Vec::new(),
                served: Served::default(),
                closer: Closer::new(false),
                services: Services::detect(),
                clients: Vec::new(),
                stop: UnixStream::pair().unwrap().0,
                turn: 0,
                _dir: dir,
            };
            (0..FRONT_ENDS).for_each(|_| crowd.add(0));
            crowd
        }

        /// Connects a front end, sends its first messages, and lets the server accept it.
        fn add(&mut self, socket: usize) {
            let mut client = UnixStream::connect(&self.server.sockets[socket].path).unwrap();
            client
                .write_all(&HELLO.map(u32::to_le_bytes).concat())
                .unwrap();
            self.clients.push(client);
            let most = self.server.most_waiting();
            self.server.sockets[socket].accept(false, most, Duration::ZERO, &mut self.closer);
            let stop = self.stop.as_fd();
            let nothing: (&[Guest], &Closer) = (&[], &self.closer);
            let ready = self
                .server
                .wait(stop, &[], (&None, &[]), nothing, Duration::ZERO);
            for (watched, found) in ready.unwrap() {
                if let Watched::Waiting(owner, k) = watched {
                    self.server.socket(owner).unwrap().waiting[k].notice(found);
                }
            }
        }

        /// Hands over as many waiting front ends as the rate limit allows up to time `now`. Returns
        /// the number of front ends admitted so far.
        fn hand_over(&mut self, now: Duration) -> usize {
            self.server.hand_over(
                &mut self.guests,
                &[],
                &mut Vec::new(),
                Some(&self.services),
                (&mut self.served, &mut self.closer),
                (now, &mut self.turn),
            );
            self.guests.len()
        }

        /// Returns whether the front end has received nothing yet and is still connected.
        fn is_kept_waiting(&self, client: usize) -> bool {
            let stream = &self.clients[client];
            stream.set_nonblocking(true).unwrap();
            let got = (&mut &*stream).read(&mut [0]).map_err(|e| e.kind());
            stream.set_nonblocking(false).unwrap();
            got == Err(io::ErrorKind::WouldBlock)
        }

        /// Waits for the answer to GET_FEATURES.
        fn is_answered(&self, client: usize) -> bool {
            let mut answer = [0; 20];
            let stream = &self.clients[client];
            // If the front end is lost, make the test fail instead of hang.
            stream.set_read_timeout(Some(START)).unwrap();
            let done = (&mut &*stream).read_exact(&mut answer);
            done.is_ok() && answer[..8] == [1, 0, 0, 0, 5, 0, 0, 0]
        }
    }

    impl Drop for Crowd {
        /// Disconnects all front ends, which ends the threads that serve them.
        fn drop(&mut self) {
            self.clients.clear();
            for guest in self.guests.drain(..) {
                if let Host::Threads(connection) = guest.host {
                    connection.end(Instant::now());
                }
            }
        }
    }

    /// Front ends that exceed the rate are not rejected. They wait, are admitted in order at the
    /// socket's rate, and do not delay other sockets. The test passes the current time as an
    /// argument, so the speed of the machine does not matter.
    #[test]
    fn front_ends_beyond_the_rate_wait_for_their_turn() {
        let burst = EACH * (AT_ONCE as u32 - 1);
        let mut crowd = Crowd::connect(Bucket::new(ADMITTED, burst));
        assert_eq!(crowd.hand_over(Duration::ZERO), AT_ONCE);
        // A second call at the same time, or 1 ns before the next admission, admits no front end.
        assert_eq!(crowd.hand_over(Duration::ZERO), AT_ONCE);
        assert_eq!(crowd.hand_over(EACH - Duration::from_nanos(1)), AT_ONCE);
        for n in 0..FRONT_ENDS {
            match n < AT_ONCE {
                true => assert!(crowd.is_answered(n), "front end {n}"),
                false => assert!(crowd.is_kept_waiting(n), "front end {n}"),
            }
        }
        // A front end that connects to the other socket is admitted immediately.
        crowd.add(1);
        assert_eq!(crowd.hand_over(EACH - Duration::from_nanos(1)), AT_ONCE + 1);
        assert!(crowd.is_answered(FRONT_ENDS));
        for n in AT_ONCE..FRONT_ENDS {
            assert!(crowd.is_kept_waiting(n), "front end {n}");
            let now = EACH * (n - AT_ONCE + 1) as u32;
            assert_eq!(crowd.hand_over(now), n + 2);
            assert!(crowd.is_answered(n), "front end {n}");
        }
        assert!(crowd.server.sockets.iter().all(|s| s.waiting.is_empty()));
        assert_eq!(crowd.served.guests as usize, FRONT_ENDS + 1);
        assert_eq!(crowd.server.meter.refused, 0);
    }

    /// Control for the previous test: without the limit, all front ends are admitted at once.
    #[test]
    fn without_the_rate_all_front_ends_are_admitted_at_once() {
        let mut crowd = Crowd::connect(Bucket::new(u64::MAX, Duration::ZERO));
        assert_eq!(crowd.hand_over(Duration::ZERO), FRONT_ENDS);
        assert!((0..FRONT_ENDS).all(|n| crowd.is_answered(n)));
    }

    /// The device exits within 2 s after SIGTERM, as documented, whatever its guests do.
    #[test]
    fn the_limits_of_a_stop_leave_it_time() {
        let longest = Config::default().drain + LAST.max(crate::guest::ENDING);
        assert!(longest <= Duration::from_millis(1600), "{longest:?}");
    }

    /// A socket admits the documented burst and then the documented rate. The first front end
    /// beyond the burst is still admitted.
    #[test]
    fn a_socket_admits_a_burst_and_then_its_rate() {
        let socket = Socket::new(Owner::Metrics, PathBuf::new(), None, 7);
        let admit = |now: Duration| {
            let now = now.as_nanos() as u64;
            let due = || {
                socket
                    .admitted
                    .is_due(now)
                    .then(|| socket.admitted.take(1, now))
            };
            std::iter::from_fn(due).count()
        };
        assert_eq!(admit(Duration::ZERO), ADMITTED_AT_ONCE as usize + 1);
        assert_eq!(admit(Duration::from_secs(1)), 7);
        assert_eq!(admit(Duration::from_secs(2)), 7);
    }

    /// A socket whose rate is exhausted is not polled, so further connections wait to be accepted.
    /// The other socket is the control.
    #[test]
    fn a_socket_accepts_a_burst_of_connections_and_then_its_rate() {
        let mut crowd = Crowd::connect(Bucket::new(ADMITTED, Duration::ZERO));
        let listens = |crowd: &Crowd, now: Duration| {
            let (stop, nothing) = (crowd.stop.as_fd(), (&[][..], &crowd.closer));
            let _other = UnixStream::connect(&crowd.server.sockets[1].path).unwrap();
            let _one = UnixStream::connect(&crowd.server.sockets[0].path).unwrap();
            let ready = crowd
                .server
                .wait(stop, &[], (&None, &[]), nothing, now)
                .unwrap();
            let of = |watched: &Watched| match watched {
                Watched::Listener(Owner::Socket(i)) => Some(*i),
                _ => None,
            };
            let all: Vec<usize> = ready
                .iter()
                .filter_map(|(watched, _)| of(watched))
                .collect();
            [all.contains(&0), all.contains(&1)]
        };
        let mut accepted = FRONT_ENDS;
        while listens(&crowd, Duration::ZERO)[0] {
            crowd.add(0);
            accepted += 1;
        }
        assert_eq!(accepted, ACCEPTED_AT_ONCE as usize + 1);
        assert_eq!(listens(&crowd, Duration::ZERO), [false, true]);
        assert_eq!(listens(&crowd, Duration::from_secs(1)), [true, true]);
    }
}
