//! Handles the vhost-user requests of one guest's front end.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use virtio_bindings::virtio_config::{VIRTIO_F_IN_ORDER, VIRTIO_F_RING_RESET, VIRTIO_F_VERSION_1};
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};

use crate::account::Account;
use crate::config::MAX_RING;
use crate::crew::QueueThreads;
use crate::inflight::Inflight;
use crate::line::{Halt, Order};
use crate::memory::{Memory, MAX_REGIONS};
use crate::notify::{Call, Kick};
use crate::ring::{Areas, Place};
use crate::runner::{patience, Post, Runner, Stuck, Work};
use crate::tally::Gauge;
use crate::vhost_user::{Error, InflightArea, Reply, Request, RingAddresses, F_PROTOCOL_FEATURES};

type Result<T> = std::result::Result<T, Error>;

/// Feature bits of the rings, offered in addition to those of the crypto device. `IN_ORDER` is
/// offered because the device returns requests in the order they became available.
const RING_FEATURES: u64 = 1 << VIRTIO_F_VERSION_1
    | 1 << VIRTIO_F_IN_ORDER
    | 1 << VIRTIO_F_RING_RESET
    | 1 << VIRTIO_RING_F_EVENT_IDX
    | 1 << VIRTIO_RING_F_INDIRECT_DESC;

/// Settings for one guest's queues.
pub(crate) struct Queues {
    /// Maximum size of a request and its answer together, in bytes.
    pub max_request: usize,
    /// How long a thread polls before it sleeps.
    pub poll: Duration,
    /// The guest's number, used in thread names.
    pub number: u64,
    /// Maximum amount of memory the guest may share, in bytes.
    pub max_memory: u64,
}

/// A ring as configured by the front end.
#[derive(Default)]
struct Vring {
    place: Place,
    enabled: bool,
    /// Set when the front end has sent a kick descriptor, or has declared that it will not send
    /// one.
    started: bool,
    kick: Option<Kick>,
    call: Option<Call>,
    err: Option<Call>,
    /// The waiting threads of this queue; `None` once the ring has started for the first time.
    threads: Option<QueueThreads>,
    runner: Option<Runner>,
    /// Index of the next available entry when the ring was last stopped.
    stopped_at: u16,
    /// Number of requests that the queue had answered when its ring was last started.
    before: u64,
    /// Whether the ring has answered a request since the driver was last reset or paused.
    used: bool,
}

/// The vhost-user backend that serves one guest.
pub(crate) struct Backend {
    account: Arc<Account>,
    queues: Queues,
    memory: Memory,
    vrings: Vec<Vring>,
    features: u64,
    /// Set when a driver has accepted features, and cleared when a ring starts.
    begun: bool,
    /// Set when a driver accepts features or resets the device while all rings are stopped.
    /// Cleared by [`Backend::decide`] once it is known whether the driver is a new one.
    maybe_anew: bool,
    /// The file handed to a front end that requests memory for recording in-flight requests.
    inflight_file: File,
    inflight: Option<Arc<Inflight>>,
    /// The device's channel to the front end. The device sends nothing on this channel, but keeps
    /// it open because user mode Linux treats a closed channel as the end of the device.
    channel: Option<OwnedFd>,
}

fn stuck(_: Stuck) -> Error {
    Error::refused(
        "a queue's thread did not stop in time; the front end may be blocking it in a system call",
    )
}

impl Backend {
    /// Creates the backend of a device that the front end has yet to set up. `threads` contains the
    /// threads of each queue; those of the control queue come last. `inflight_file` comes from
    /// [`Inflight::file`].
    pub(crate) fn new(
        account: Arc<Account>,
        queues: Queues,
        threads: Vec<QueueThreads>,
        inflight_file: File,
    ) -> Backend {
        let vrings = threads
            .into_iter()
            .map(|threads| Vring {
                threads: Some(threads),
                ..Vring::default()
            })
            .collect();
        Backend {
            memory: Memory::new(queues.max_memory),
            account,
            queues,
            vrings,
            features: 0,
            begun: false,
            maybe_anew: false,
            inflight_file,
            inflight: None,
            channel: None,
        }
    }

    /// Makes all queues serve the requests that are already available, then stop.
    pub(crate) fn drain(&self) {
        self.vrings
            .iter()
            .filter_map(|vring| vring.runner.as_ref())
            .for_each(|runner| runner.order(Order::Drain));
    }

    /// Waits for all queues to stop after [`Backend::drain`], but no later than `until`.
    pub(crate) fn drained(&mut self, until: Instant) {
        for vring in &mut self.vrings {
            let done = vring.runner.as_mut().map(|runner| runner.wait(until));
            if let Some(Ok(work)) = done {
                vring.stopped(work);
            }
        }
    }

    /// Stops all queues, abandoning those that do not stop.
    pub(crate) fn stop(&mut self) {
        // Tell all queues to stop before waiting for the first one.
        self.vrings
            .iter()
            .filter_map(|vring| vring.runner.as_ref())
            .for_each(|runner| runner.order(Order::Stop));
        let until = patience();
        for vring in &mut self.vrings {
            if vring.stop(until).is_err() {
                tracing::warn!("a queue that does not stop is abandoned");
            }
        }
    }

    /// Returns the number of memory regions, and their total size in bytes.
    #[cfg(any(test, feature = "rig"))]
    pub(crate) fn memory_size(&self) -> (u64, u64) {
        self.memory.size()
    }

    fn offered(&self) -> u64 {
        RING_FEATURES | F_PROTOCOL_FEATURES | self.account.guest.device_features()
    }

    fn vring(&mut self, index: u32) -> Result<&mut Vring> {
        let rings = self.vrings.len();
        self.vrings.get_mut(index as usize).ok_or_else(|| {
            Error::refused(format!(
                "queue {index} does not exist: the device has {rings} queues"
            ))
        })
    }

    /// Returns the index of the control queue, which follows the data queues.
    fn control(&self) -> usize {
        self.vrings.len() - 1
    }

    /// Starts a ring if the front end has set everything that the ring needs. `goes_on` is true if
    /// the device itself had stopped the ring to apply a change.
    fn start(&mut self, index: usize, goes_on: bool) -> Result<()> {
        let control = self.control();
        let vring = &mut self.vrings[index];
        if vring.is_running() || !vring.enabled || !vring.started {
            return Ok(());
        }
        let map = self.memory.map();
        if let Err(broken) = Areas::find(&map, &vring.place) {
            return Err(Error::refused(format!("queue {index}: {broken}")));
        }
        let log = match &self.inflight {
            Some(inflight) => Some(inflight.log(index, vring.place.size).ok_or_else(|| {
                Error::refused(format!("queue {index} has no room in the in-flight memory"))
            })?),
            None => None,
        };
        if !goes_on && !self.settle(index) {
            return Ok(());
        }
        let vring = &mut self.vrings[index];
        vring.before = self.account.counters.tallies()[index].read().requests();
        if vring.runner.is_none() {
            let post = Post {
                account: self.account.clone(),
                tally: self.account.counters.tallies().swap_remove(index),
                max_request: self.queues.max_request,
                poll: self.queues.poll,
                name: match index == control {
                    true => format!("kiln-{}-control", self.queues.number),
                    false => format!("kiln-{}-data{index}", self.queues.number),
                },
            };
            let halt = Halt::new().map_err(Error::refused)?;
            // If the ring's runner was abandoned, its threads are gone. The error ends the
            // connection.
            let threads = vring.threads.take().ok_or_else(|| stuck(Stuck))?;
            vring.runner = Some(Runner::new(threads, halt, post));
        }
        if let Some(runner) = &mut vring.runner {
            runner.start(Work {
                place: vring.place,
                memory: map,
                kick: vring.kick.take(),
                call: vring.call.take(),
                err: vring.err.take(),
                log,
            });
        }
        Ok(())
    }

    /// Removes the sessions of a driver that was reset, before the next driver's ring starts.
    /// Returns false if this ring must not start yet.
    ///
    /// No message reports a reset reliably: for a pause, QEMU also sets the features and sets the
    /// status to 0. A driver that was reset starts its rings from entry 0. After a pause, each ring
    /// resumes at its old index, which may also be 0 if the ring was not used or has wrapped
    /// around.
    ///
    /// If the features or the status were set while all rings were stopped, every ring is checked,
    /// because the next driver may start with any ring and could then use the old sessions. Entry 0
    /// proves nothing about a ring that was not used, because such a ring also starts from entry 0
    /// after a pause. It therefore waits if another ring was used and has yet to start. If no other
    /// ring was used, the driver is treated as a new one.
    ///
    /// Otherwise, if sessions are created over the control queue, only that queue is checked:
    /// sessions prove that it was used, so entry 0 means a reset. A front end that sends sessions
    /// as messages, as QEMU's cryptodev does, handles the control queue itself, so any queue that
    /// was used is evidence. If RING_RESET (2.6.1) was negotiated, a driver may reset a single
    /// queue and keep its sessions. In that case, entry 0 means a reset only if the features or the
    /// status have been set as well, which a new driver does first.
    fn settle(&mut self, index: usize) -> bool {
        let vring = &self.vrings[index];
        let from_0 = vring.place.next_avail == 0;
        let (tells, used) = (vring.tells(), vring.used);
        self.notice_status();
        if !self.maybe_anew {
            let is_control = index == self.control();
            let by_message = self.account.is_by_message();
            let begun = (is_control || by_message) && std::mem::take(&mut self.begun);
            let was_used = if by_message {
                used || tells
            } else {
                is_control
            };
            if from_0 && was_used && (begun || !self.resets_rings()) {
                self.remove_sessions();
            }
            return true;
        }
        if !self.account.is_by_message() && self.account.guest.sessions() == 0 {
            self.decide(true);
            return true;
        }
        if from_0 && !tells && self.vrings.iter().any(Vring::tells) {
            return false;
        }
        self.decide(from_0);
        true
    }

    /// If the driver has set the status to 0, records that it may be a new driver.
    fn notice_status(&mut self) {
        if self.account.health.take_anew() {
            self.begun = true;
            self.maybe_anew |= !self.vrings.iter().any(Vring::is_running);
        }
    }

    /// Records whether the driver is a new one, and removes the old sessions if it is. After this
    /// call, rings do not wait for each other.
    fn decide(&mut self, is_anew: bool) {
        (self.maybe_anew, self.begun) = (false, false);
        match is_anew {
            true => self.remove_sessions(),
            // The driver was paused, not reset. The other rings must also continue, even those
            // whose index has wrapped around to 0 after 65536 requests.
            false => self.vrings.iter_mut().for_each(|vring| vring.used = false),
        }
    }

    /// Prepares for a session that the front end creates with a message. If some rings are still
    /// waiting for others ([`Backend::settle`]), the driver must be a new one that enables fewer
    /// rings than its predecessor, because a paused driver could not create a session.
    pub(crate) fn begin_session(&mut self) -> Result<()> {
        self.notice_status();
        if self.maybe_anew {
            self.decide(true);
            self.start_waiting()?;
        }
        Ok(())
    }

    fn resets_rings(&self) -> bool {
        self.features & 1 << VIRTIO_F_RING_RESET != 0
    }

    fn remove_sessions(&mut self) {
        let sessions = self.account.guest.sessions();
        if sessions > 0 {
            tracing::info!(sessions, "the driver was reset");
        }
        self.account.reset();
        for vring in &mut self.vrings {
            vring.used = false;
            if !vring.is_running() {
                // The other rings of the new driver start from entry 0 as well.
                vring.stopped_at = 0;
            }
        }
    }

    /// Changes a ring's settings. A running ring is stopped during the change and restarted.
    fn change(&mut self, index: u32, change: impl FnOnce(&mut Vring) -> Result<()>) -> Result<()> {
        self.vring(index)?;
        let was_running = self.stop_ring(index as usize)?;
        let vring = &mut self.vrings[index as usize];
        let at = vring.place.next_avail;
        change(vring)?;
        let goes_on = was_running && vring.place.next_avail == at;
        let waits = self.maybe_anew;
        self.start(index as usize, goes_on)?;
        match waits && !self.maybe_anew {
            true => self.start_waiting(),
            false => Ok(()),
        }
    }

    /// Starts the rings that [`Backend::settle`] held back until it was known whether the driver
    /// was reset.
    fn start_waiting(&mut self) -> Result<()> {
        (0..self.vrings.len()).try_for_each(|i| self.start(i, true))
    }

    /// Stops a ring, and returns whether it was running.
    fn stop_ring(&mut self, index: usize) -> Result<bool> {
        self.stop_ring_until(index, patience())
    }

    fn stop_ring_until(&mut self, index: usize, until: Instant) -> Result<bool> {
        let vring = &mut self.vrings[index];
        let was_running = vring.stop(until).map_err(stuck)?;
        if was_running {
            let now = self.account.counters.tallies()[index].read().requests();
            vring.used |= now != vring.before;
        }
        Ok(was_running)
    }

    /// Changes the guest's memory. All rings are stopped during the change, because a running ring
    /// could access memory that is being removed.
    fn remap(&mut self, change: impl FnOnce(&mut Memory) -> Result<()>) -> Result<()> {
        let running = self.stop_rings()?;
        change(&mut self.memory)?;
        let (regions, bytes) = self.memory.size();
        self.account.counters.set(Gauge::Regions, regions);
        self.account.counters.set(Gauge::Memory, bytes);
        self.start_rings(running)
    }

    /// Stops all rings and returns the numbers of those that were running.
    fn stop_rings(&mut self) -> Result<Vec<usize>> {
        let mut running = Vec::new();
        let until = patience();
        for i in 0..self.vrings.len() {
            if self.stop_ring_until(i, until)? {
                running.push(i);
            }
        }
        Ok(running)
    }

    fn start_rings(&mut self, rings: Vec<usize>) -> Result<()> {
        rings.into_iter().try_for_each(|i| self.start(i, true))
    }

    /// Serves a request from the front end.
    ///
    /// # Errors
    /// Fails if the request is refused. The connection must then be closed, unless the request was
    /// `GetConfig`.
    pub(crate) fn serve(&mut self, request: Request) -> Result<Reply> {
        match request {
            Request::Reset => self.reset()?,
            Request::GetFeatures => return Ok(Reply::Number(self.offered())),
            Request::SetFeatures(features) => self.set_features(features)?,
            Request::SetMemory(regions) => self.remap(|memory| memory.replace(regions))?,
            Request::AddRegion(region, file) => self.remap(|memory| memory.add(&region, file))?,
            Request::RemoveRegion(region) => self.remap(|memory| memory.remove(&region))?,
            Request::SetRingSize { ring, size } => self.set_ring_size(ring, size)?,
            Request::SetRingAddresses { ring, addresses } => {
                self.set_ring_addresses(ring, &addresses)?
            }
            Request::SetRingBase { ring, base } => self.set_ring_base(ring, base)?,
            Request::GetRingBase(ring) => {
                return Ok(Reply::Number(self.get_ring_base(ring)?.into()))
            }
            Request::SetKick { ring, file } => self.set_kick(ring, file)?,
            Request::SetCall { ring, file } => self.set_call(ring, file)?,
            Request::SetError { ring, file } => {
                let err = file.map(Call::new).transpose().map_err(Error::refused)?;
                self.change(ring, |vring| {
                    vring.err = err;
                    Ok(())
                })?
            }
            Request::EnableRing { ring, enable } => self.change(ring, |vring| {
                vring.enabled = enable;
                Ok(())
            })?,
            Request::GetQueueNum => return Ok(Reply::Number(self.vrings.len() as u64)),
            Request::GetMaxMemSlots => return Ok(Reply::Number(MAX_REGIONS as u64)),
            Request::GetConfig { offset, size } => {
                return Ok(Reply::Config(self.get_config(offset, size)?))
            }
            Request::GetInflight { queues, queue_size } => {
                return Ok(Reply::Inflight(self.get_inflight(queues, queue_size)?))
            }
            Request::SetInflight(area, file) => {
                let inflight =
                    Inflight::open(file, &area, self.vrings.len()).map_err(Error::refused)?;
                let running = self.stop_rings()?;
                self.inflight = Some(inflight);
                self.start_rings(running)?
            }
            Request::SetBackendChannel(channel) => self.channel = Some(channel),
        }
        Ok(Reply::Done)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        let unknown = features & !self.offered();
        if unknown != 0 {
            return Err(Error::refused(format!(
                "features {unknown:#x} were not offered"
            )));
        }
        // A request in flight must be served under the old features, because they determine whether
        // it carries a key to be wiped. Stop the rings before the features change.
        let running = self.stop_rings()?;
        self.features = features;
        self.account.guest.negotiate(features);
        self.begun = true;
        self.maybe_anew |= running.is_empty();
        let event_idx = features & 1 << VIRTIO_RING_F_EVENT_IDX != 0;
        // A front end without protocol features cannot send messages that enable rings, so all
        // rings start enabled.
        let enable = features & F_PROTOCOL_FEATURES == 0;
        for vring in &mut self.vrings {
            vring.place.event_idx = event_idx;
            vring.enabled |= enable;
        }
        (0..self.vrings.len()).try_for_each(|i| self.start(i, running.contains(&i)))?;
        match self.maybe_anew {
            true => Ok(()),
            false => self.start_waiting(),
        }
    }

    fn set_ring_size(&mut self, index: u32, size: u32) -> Result<()> {
        let size = u16::try_from(size)
            .ok()
            .filter(|n| n.is_power_of_two() && *n <= MAX_RING)
            .ok_or_else(|| {
                Error::refused(format!(
                    "queue {index}: {size} descriptors: a power of two up to {MAX_RING} is possible"
                ))
            })?;
        self.change(index, |vring| {
            vring.place.size = size;
            Ok(())
        })
    }

    fn set_ring_addresses(&mut self, index: u32, addresses: &RingAddresses) -> Result<()> {
        // The error must not contain the address, because the address is private to the guest and
        // errors are logged.
        let find = |address, part| {
            self.memory.guest_address(address).ok_or_else(|| {
                Error::refused(format!("queue {index}: its {part} is in no memory region"))
            })
        };
        let desc = find(addresses.descriptors, "descriptor table")?;
        let avail = find(addresses.available, "available ring")?;
        let used = find(addresses.used, "used ring")?;
        self.change(index, |vring| {
            vring.place = Place {
                desc,
                avail,
                used,
                ..vring.place
            };
            Ok(())
        })
    }

    fn set_ring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| {
            Error::refused(format!("queue {index}: base {base} exceeds {}", u16::MAX))
        })?;
        self.change(index, |vring| {
            vring.place.next_avail = base;
            Ok(())
        })
    }

    fn get_ring_base(&mut self, index: u32) -> Result<u16> {
        self.vring(index)?;
        self.stop_ring(index as usize)?;
        let vring = &mut self.vrings[index as usize];
        vring.started = false;
        (vring.kick, vring.call) = (None, None);
        Ok(vring.place.next_avail)
    }

    fn set_kick(&mut self, index: u32, file: Option<File>) -> Result<()> {
        let kick = file.map(Kick::new).transpose().map_err(Error::refused)?;
        self.change(index, |vring| {
            vring.kick = kick;
            vring.started = true;
            Ok(())
        })
    }

    fn set_call(&mut self, index: u32, file: Option<File>) -> Result<()> {
        let call = file.map(Call::new).transpose().map_err(Error::refused)?;
        self.change(index, |vring| {
            // Notify the driver once through the new descriptor, because it may have missed a
            // notification sent to the old one.
            if let (Some(call), true) = (&call, vring.started) {
                call.tell();
            }
            vring.call = call;
            Ok(())
        })
    }

    fn get_config(&mut self, offset: u32, size: u32) -> Result<Vec<u8>> {
        let config = self.account.guest.config();
        let (offset, size) = (offset as usize, size as usize);
        offset
            .checked_add(size)
            .and_then(|end| config.get(offset..end))
            .map(<[u8]>::to_vec)
            .ok_or_else(|| {
                Error::refused(format!(
                    "configuration read of {size} bytes at offset {offset}: only {} exist",
                    config.len()
                ))
            })
    }

    fn get_inflight(&mut self, queues: u16, queue_size: u16) -> Result<InflightArea> {
        let rings = self.vrings.len();
        let area = Inflight::describe(queues, queue_size, rings).ok_or_else(|| {
            Error::refused(format!(
                "cannot record requests in flight for {queues} queues of {queue_size} descriptors: \
                 out of range"
            ))
        })?;
        // The file may already have been sent for an earlier request, so clear its records.
        let file = self.inflight_file.try_clone().map_err(Error::refused)?;
        Inflight::open(file, &area, rings)
            .map_err(Error::refused)?
            .clear();
        Ok(area)
    }

    fn reset(&mut self) -> Result<()> {
        for vring in &mut self.vrings {
            vring.stop(patience()).map_err(stuck)?;
            *vring = Vring {
                threads: vring.threads.take(),
                runner: vring.runner.take(),
                ..Vring::default()
            };
        }
        self.account.reset();
        self.account.health.reset();
        (self.begun, self.maybe_anew) = (false, false);
        self.features = 0;
        self.inflight = None;
        Ok(())
    }
}

impl Vring {
    fn is_running(&self) -> bool {
        self.runner.as_ref().is_some_and(Runner::is_running)
    }

    /// Returns whether the entry at which this ring starts will show whether the driver was paused
    /// or reset.
    fn tells(&self) -> bool {
        !self.is_running() && self.stopped_at != 0
    }

    /// Stops the ring and returns whether the ring was running.
    fn stop(&mut self, until: Instant) -> std::result::Result<bool, Stuck> {
        let work = match &mut self.runner {
            Some(runner) => runner.stop(until),
            None => return Ok(false),
        };
        if work.is_err() {
            self.runner = None;
        }
        Ok(self.stopped(work?))
    }

    fn stopped(&mut self, work: Option<Work>) -> bool {
        let Some(work) = work else {
            return false;
        };
        self.place.next_avail = work.place.next_avail;
        self.place.paid = work.place.paid;
        self.stopped_at = work.place.next_avail;
        (self.kick, self.call, self.err) = (work.kick, work.call, work.err);
        true
    }
}
