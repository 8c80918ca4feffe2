//! The state of one guest of the device: its negotiated features and its sessions.

use std::sync::atomic::{AtomicU64, Ordering};

use kiln_kernel::cpu::wipe_saved_registers;
use zeroize::Zeroize;

use crate::section::MAX_DIGEST;
use crate::serve::serve;
use crate::session::Session;
use crate::table::Table;
use crate::wire::control::{Created, CREATED};
use crate::wire::data::Mode;
use crate::wire::{config, Control, Features, Request, Service, Status};
use crate::{Limits, Services, Worker};

/// A guest's state, shared by all threads that serve its queues. Guests cannot access each other's
/// data.
pub struct Guest {
    services: Services,
    limits: Limits,
    features: AtomicU64,
    sessions: Table<Session>,
}

impl Guest {
    /// Creates a guest that has not negotiated features yet.
    pub fn new(limits: Limits, services: &Services) -> Guest {
        Guest {
            services: services.clone(),
            features: AtomicU64::new(0),
            sessions: Table::new(limits.max_sessions),
            limits,
        }
    }

    /// Returns the device's configuration space, `struct virtio_crypto_config`.
    pub fn config(&self) -> [u8; config::SIZE] {
        self.services.config(&self.limits).emit()
    }

    /// Returns the feature bits of the crypto device type that this device offers. The transport
    /// adds the ring feature bits.
    pub fn device_features(&self) -> u64 {
        self.services.features()
    }

    /// Sets the feature bits that the driver accepted, ignoring bits that were not offered. The
    /// accepted bits determine the format of all later requests.
    pub fn negotiate(&self, features: u64) {
        let features = features & self.device_features();
        self.features.store(features, Ordering::Relaxed);
    }

    fn features(&self) -> Features {
        Features::new(self.features.load(Ordering::Relaxed))
    }

    /// Returns whether the driver may send data requests that carry their key
    /// (`VIRTIO_CRYPTO_F_*_STATELESS_MODE`).
    pub fn carries_keys(&self) -> bool {
        Service::ALL
            .into_iter()
            .any(|service| self.features().stateless(service))
    }

    /// Serves a control request and returns the used length of `answer`. `request` is a copy of
    /// everything that the driver made readable. `answer` is as long as the part that the driver
    /// made writable; bytes after the used length are zeroed.
    ///
    /// The answer to a create request is 16 bytes long, and the answer to a destroy request is one
    /// byte long. If the request cannot be parsed, the answer is 16 bytes long if `answer` has room
    /// for that, and one byte long otherwise. If `answer` is too short, the function returns 0, and
    /// no session is created or destroyed.
    pub fn control(&self, request: &[u8], answer: &mut [u8]) -> usize {
        answer.fill(0);
        let features = self.features();
        match Control::parse(request, features) {
            Ok(Control::Create {
                create,
                key,
                auth_key,
            }) => {
                let Some(answer) = answer.first_chunk_mut::<CREATED>() else {
                    return 0;
                };
                *answer = match self.create(&create, key, auth_key) {
                    Ok(session) => created(session, Status::Ok),
                    Err(Status::NoSpc) if !features.revision_1() => created(0, Status::Err),
                    Err(status) => created(0, status),
                };
                wipe_saved_registers();
                CREATED
            }
            Ok(Control::Destroy { service, session }) => match answer.first_mut() {
                Some(status) => {
                    *status = self.destroy(service, session) as u8;
                    1
                }
                None => 0,
            },
            Err(fault) => refuse(fault.status(), answer),
        }
    }

    fn create(
        &self,
        create: &crate::wire::Create,
        key: &[u8],
        auth_key: &[u8],
    ) -> Result<u64, Status> {
        if self.sessions.is_full() {
            return Err(Status::NoSpc);
        }
        let session = Session::new(&self.services, &self.limits, create, key, auth_key)?;
        self.sessions.insert(session).ok_or(Status::NoSpc)
    }

    fn destroy(&self, service: Service, session: u64) -> Status {
        match self.sessions.remove(session, |s| s.service() == service) {
            Some(_) => Status::Ok,
            None => Status::Err,
        }
    }

    /// Serves a data request. This works like [`Guest::control`], except that `request` may be
    /// overwritten and `answer` has a different layout. The result is at the start of `answer`, the
    /// status is the last byte, and the bytes in between are zeroed. The used length is the length
    /// of the result plus 1.
    pub fn data(&self, worker: &mut Worker, request: &mut [u8], answer: &mut [u8]) -> usize {
        let Some((status, dst)) = answer.split_last_mut() else {
            return 0;
        };
        let answer = self.answer(worker, request, dst);
        if self.carries_keys() {
            wipe_stack();
            wipe_saved_registers();
        }
        match answer {
            Ok(len) => {
                dst[len..].fill(0);
                *status = Status::Ok as u8;
                len + 1
            }
            Err(fault) => {
                dst.fill(0);
                *status = fault as u8;
                1
            }
        }
    }

    // This function is never inlined, because its stack frame must be below the caller's frame, in
    // the area that `wipe_stack` wipes.
    #[inline(never)]
    fn answer(&self, worker: &mut Worker, request: &[u8], dst: &mut [u8]) -> Result<usize, Status> {
        let request = Request::parse(request, self.features()).map_err(|f| f.status())?;
        let parts = request.iv.len() + request.src.len() + request.aad.len();
        let room = request.op.room(request.action);
        if parts > self.limits.max_request
            || room > (self.limits.max_request + MAX_DIGEST) as u64
            || room > dst.len() as u64
        {
            return Err(Status::Err);
        }
        let dst = &mut dst[..room as usize];
        match request.mode {
            Mode::Session(name) => {
                let session = self.sessions.get(name).ok_or(Status::InvSess)?;
                serve(&session, worker, &request, dst)
            }
            Mode::Stateless {
                create,
                key,
                auth_key,
            } => {
                let session = Session::new(&self.services, &self.limits, &create, key, auth_key)?;
                serve(&session, worker, &request, dst)
            }
        }
    }

    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Removes all sessions and wipes their keys. If a session is in use, its key is wiped once the
    /// request that uses it has been served.
    pub fn reset(&self) {
        self.sessions.clear();
    }
}

/// Wipes the stack area below the caller's frame, because it may contain copies of a stateless
/// request's session. The array has `u64` elements, because `zeroize` writes one element at a time
/// and would take longer to wipe the same area as bytes.
#[inline(never)]
fn wipe_stack() {
    [0u64; 4096].zeroize();
}

fn created(session: u64, status: Status) -> [u8; CREATED] {
    let status = status as u32;
    Created { session, status }.emit()
}

fn refuse(status: Status, answer: &mut [u8]) -> usize {
    if let Some(answer) = answer.first_chunk_mut() {
        *answer = created(0, status);
        return CREATED;
    }
    match answer.first_mut() {
        Some(byte) => {
            *byte = status as u8;
            1
        }
        None => 0,
    }
}
