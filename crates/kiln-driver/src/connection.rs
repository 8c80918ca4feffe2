//! One conversation with a device over vhost-user: features, memory, rings.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserProtocolFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtio_bindings::bindings::virtio_config::{VIRTIO_F_IN_ORDER, VIRTIO_F_VERSION_1};
use virtio_bindings::bindings::virtio_ring::{
    VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC,
};
use vmm_sys_util::eventfd::EventFd;

use crate::error::Error;
use crate::kick::Kick;
use crate::memory::{Memory, GUEST_BASE};
use crate::ring::Ring;

/// vhost-user's own bit among the device's features.
const PROTOCOL_FEATURES: u32 = 30;
/// Bytes of the configuration space.
pub(crate) const CONFIG_LEN: usize = 56;
/// Queues that vhost-user can name.
const MOST_QUEUES: u64 = 256;

/// What is asked of a connection.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Use EVENT_IDX if it is offered.
    pub event_idx: bool,
    /// Use indirect descriptors if they are offered.
    pub indirect: bool,
    /// Use IN_ORDER if it is offered.
    pub in_order: bool,
    /// How long the device may take to answer while it is set up.
    pub patience: Duration,
}

impl Default for Wishes {
    fn default() -> Wishes {
        Wishes {
            event_idx: true,
            indirect: true,
            in_order: true,
            patience: Duration::from_secs(10),
        }
    }
}

/// A queue as the device knows it: its ring, and the two file descriptors by which either side wakes the other.
pub(crate) struct Queue {
    pub ring: Ring,
    /// Written to notify the device.
    pub kick: Arc<Kick>,
    /// Written by the device: an interrupt.
    pub call: Arc<EventFd>,
}

/// A device that answered. Dropped, it closes the socket, and the device forgets this driver.
pub(crate) struct Connection {
    frontend: Frontend,
    socket: UnixStream,
    features: u64,
    config: [u8; CONFIG_LEN],
    queues: u64,
    /// Of all its queues.
    kicks: Vec<Arc<Kick>>,
}

impl Connection {
    /// Connects to the device at `path` and agrees on features.
    ///
    /// # Errors
    /// [`Error::Connect`]; [`Error::Protocol`] if it is not a virtio-crypto device of virtio 1.
    pub(crate) fn open(path: &Path, wishes: &Wishes) -> Result<Connection, Error> {
        let socket = UnixStream::connect(path).map_err(Error::connect)?;
        Connection::open_on(socket, wishes)
    }

    /// As [`Connection::open`], on a connected socket.
    pub(crate) fn open_on(socket: UnixStream, wishes: &Wishes) -> Result<Connection, Error> {
        let again = socket.try_clone().map_err(Error::connect)?;
        let frontend = Frontend::from_stream(again, MOST_QUEUES);
        let guard = Guard::start(&socket, wishes.patience)?;
        let agreed = agree(frontend, wishes);
        let expired = guard.end();
        let (frontend, features, config, queues) = match agreed {
            Err(_) if expired => Err(Error::Timeout),
            agreed => agreed,
        }?;
        Ok(Connection {
            frontend,
            socket,
            features,
            config,
            queues,
            kicks: Vec::new(),
        })
    }

    /// The configuration space.
    pub(crate) fn config(&self) -> &[u8; CONFIG_LEN] {
        &self.config
    }

    /// Queues that the device has, the control queue included.
    pub(crate) fn queues(&self) -> u64 {
        self.queues
    }

    /// Whether EVENT_IDX was agreed on.
    pub(crate) fn event_idx(&self) -> bool {
        self.features & 1 << VIRTIO_RING_F_EVENT_IDX != 0
    }

    /// Whether IN_ORDER was agreed on.
    pub(crate) fn in_order(&self) -> bool {
        self.features & 1 << VIRTIO_F_IN_ORDER != 0
    }

    /// Whether indirect descriptors were agreed on.
    pub(crate) fn indirect(&self) -> bool {
        self.features & 1 << VIRTIO_RING_F_INDIRECT_DESC != 0
    }

    /// Hands the device the memory and the rings in it; afterwards it serves them.
    ///
    /// # Errors
    /// [`Error::Protocol`]; [`Error::Resource`].
    pub(crate) fn start(
        &mut self,
        memory: &Memory,
        rings: Vec<(usize, Ring)>,
        patience: Duration,
    ) -> Result<Vec<Queue>, Error> {
        let guard = Guard::start(&self.socket, patience)?;
        let started = self.hand_over(memory, rings);
        match guard.end() && started.is_err() {
            true => Err(Error::Timeout),
            false => started,
        }
    }

    fn hand_over(
        &mut self,
        memory: &Memory,
        rings: Vec<(usize, Ring)>,
    ) -> Result<Vec<Queue>, Error> {
        self.frontend.set_mem_table(&[VhostUserMemoryRegionInfo {
            guest_phys_addr: GUEST_BASE,
            memory_size: memory.size() as u64,
            userspace_addr: memory.host_base(),
            mmap_offset: 0,
            mmap_handle: memory.fd(),
        }])?;
        let mut queues = Vec::new();
        for (index, ring) in rings {
            let layout = ring.layout();
            let kick = Arc::new(Kick::new().map_err(Error::resource)?);
            let call = EventFd::new(libc::EFD_CLOEXEC).map_err(Error::resource)?;
            self.frontend.set_vring_num(index, layout.size)?;
            self.frontend.set_vring_addr(
                index,
                &VringConfigData {
                    queue_max_size: layout.size,
                    queue_size: layout.size,
                    flags: 0,
                    desc_table_addr: memory.host(layout.descriptors),
                    used_ring_addr: memory.host(layout.used),
                    avail_ring_addr: memory.host(layout.avail),
                    log_addr: None,
                },
            )?;
            self.frontend.set_vring_base(index, 0)?;
            self.frontend.set_vring_call(index, &call)?;
            self.frontend.set_vring_kick(index, kick.event())?;
            self.frontend.set_vring_enable(index, true)?;
            self.kicks.push(kick.clone());
            queues.push(Queue {
                ring,
                kick,
                call: Arc::new(call),
            });
        }
        // A device that acknowledges nothing has read all of this once it answers a question.
        self.frontend.get_features()?;
        Ok(queues)
    }

    /// What tells the device, of all its queues.
    pub(crate) fn kicks(&self) -> &[Arc<Kick>] {
        &self.kicks
    }

    /// A second handle on the socket, to see when the device goes.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub(crate) fn watch(&self) -> Result<Watch, Error> {
        let socket = self.socket.try_clone().map_err(Error::resource)?;
        Ok(Watch { socket })
    }
}

/// Between two looks at writes that the device may hold.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 400_000_000,
};

/// Knows whether the device is still there.
pub(crate) struct Watch {
    socket: UnixStream,
}

impl Watch {
    /// Sleeps until the device has gone, or [`Watch::hang_up`] was called on another handle. A device that holds the
    /// writers of these kicks is as good as gone.
    pub(crate) fn until_gone(&self, kicks: &[Arc<Kick>]) {
        loop {
            let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
            match poll(&mut fds, Some(&LOOK)) {
                // All of them, each time.
                Ok(0) => match kicks.iter().filter(|kick| kick.release()).count() {
                    0 => {}
                    _ => return self.hang_up(),
                },
                Err(rustix::io::Errno::INTR) => {}
                _ => return,
            }
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|n| n > 0)
    }

    /// Ends the conversation from this side.
    pub(crate) fn hang_up(&self) {
        // An end that is already closed is as good.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

type Agreed = (Frontend, u64, [u8; CONFIG_LEN], u64);

fn agree(mut frontend: Frontend, wishes: &Wishes) -> Result<Agreed, Error> {
    let protocol = |what: &str| Error::Protocol(what.to_string());
    frontend.set_owner()?;
    let offered = frontend.get_features()?;
    if offered & 1 << VIRTIO_F_VERSION_1 == 0 {
        return Err(protocol("it offers no VIRTIO_F_VERSION_1"));
    }
    if offered & 1 << PROTOCOL_FEATURES == 0 {
        return Err(protocol("it offers no vhost-user protocol features"));
    }
    let able = frontend.get_protocol_features()?;
    if !able.contains(VhostUserProtocolFeatures::CONFIG) {
        return Err(protocol("it shows no configuration space"));
    }
    let wanted = VhostUserProtocolFeatures::MQ
        | VhostUserProtocolFeatures::REPLY_ACK
        | VhostUserProtocolFeatures::CONFIG;
    let able = able & wanted;
    frontend.set_protocol_features(able)?;
    if able.contains(VhostUserProtocolFeatures::REPLY_ACK) {
        frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    }
    let queues = match able.contains(VhostUserProtocolFeatures::MQ) {
        true => frontend.get_queue_num()?,
        false => 2,
    };
    let mut wanted = 1 << VIRTIO_F_VERSION_1 | 1 << PROTOCOL_FEATURES;
    if wishes.event_idx {
        wanted |= 1 << VIRTIO_RING_F_EVENT_IDX;
    }
    if wishes.indirect {
        wanted |= 1 << VIRTIO_RING_F_INDIRECT_DESC;
    }
    if wishes.in_order {
        wanted |= 1 << VIRTIO_F_IN_ORDER;
    }
    let features = offered & wanted;
    frontend.set_features(features)?;
    let (_, bytes) = frontend.get_config(
        0,
        CONFIG_LEN as u32,
        VhostUserConfigFlags::empty(),
        &[0; CONFIG_LEN],
    )?;
    let config = bytes
        .try_into()
        .map_err(|_| protocol("its configuration space is too short"))?;
    Ok((frontend, features, config, queues))
}

/// Hangs up on a device that does not answer: the protocol's library waits forever.
struct Guard {
    done: std::sync::mpsc::Sender<()>,
    thread: thread::JoinHandle<bool>,
}

impl Guard {
    fn start(socket: &UnixStream, patience: Duration) -> Result<Guard, Error> {
        let socket = socket.try_clone().map_err(Error::resource)?;
        let (done, waiting) = channel();
        let thread = thread::Builder::new()
            .name("vhost-guard".into())
            .spawn(move || match waiting.recv_timeout(patience) {
                Err(RecvTimeoutError::Timeout) => {
                    let _ = socket.shutdown(Shutdown::Both);
                    true
                }
                _ => false,
            })
            .map_err(Error::resource)?;
        Ok(Guard { done, thread })
    }

    /// Whether it hung up.
    fn end(self) -> bool {
        let _ = self.done.send(());
        self.thread.join().unwrap_or(false)
    }
}
