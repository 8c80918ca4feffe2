//! Control requests (section 5.9.7.2), which create or destroy a session.

use super::bytes::{Put, Reader};
use super::{Create, Fault, Features, Service, Status};

/// Size of `struct virtio_crypto_ctrl_header` in bytes.
pub const HEADER: usize = 16;
/// `VIRTIO_CRYPTO_CTRLQ_OP_SPEC_HDR_LEGACY`: the size to which the fixed part of a request is
/// padded if REVISION_1 was not negotiated.
pub const LEGACY: usize = 56;
/// Size in bytes of the answer to a create request, `struct virtio_crypto_create_session_input`.
pub const CREATED: usize = 16;
/// Size in bytes of the answer to a destroy request.
pub const DESTROYED: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// A request to create a session with these parameters and keys.
    Create {
        /// The session's kind and parameters.
        create: Create,
        /// The session's key, or the cipher's key in a chain. Empty for a hash.
        key: &'a [u8],
        /// The MAC's key in a chain, or empty.
        auth_key: &'a [u8],
    },
    /// A request to destroy a session.
    Destroy {
        /// The service to which the session must belong.
        service: Service,
        /// The ID that the device assigned to the session.
        session: u64,
    },
}

impl<'a> Control<'a> {
    /// Parses a request. `bytes` is everything that the driver made readable, and may be longer
    /// than the request.
    pub fn parse(bytes: &'a [u8], features: Features) -> Result<Control<'a>, Fault> {
        let mut r = Reader(bytes);
        // Ignore the algorithm, because the fixed part repeats it, and ignore the queue number,
        // which legacy drivers set.
        let [opcode, _algo, _flag, _queue] = r.words()?;
        let (service, op) = Service::from_opcode(opcode).ok_or(Fault::Opcode(opcode))?;
        let opcode = service.opcode(op);
        let mut padded = match features.revision_1() {
            true => None,
            false => Some(Reader(r.take(LEGACY)?)),
        };
        if opcode == service.create() {
            let create = Create::parse(service, padded.as_mut().unwrap_or(&mut r))?;
            let [key, auth_key] = create.key_lens();
            Ok(Control::Create {
                create,
                key: r.field(key)?,
                auth_key: r.field(auth_key)?,
            })
        } else if opcode == service.destroy() {
            let session = padded.as_mut().unwrap_or(&mut r).u64()?;
            Ok(Control::Destroy { service, session })
        } else {
            Err(Fault::Opcode(opcode))
        }
    }

    /// Appends the encoded request to `out`. The key lengths in `create` are not checked against
    /// the keys, so that tests can imitate a hostile driver.
    pub fn emit(&self, features: Features, out: &mut Vec<u8>) {
        let pad = |out: &mut Vec<u8>, start| {
            if !features.revision_1() {
                out.pad(start, LEGACY);
            }
        };
        match self {
            Control::Create {
                create,
                key,
                auth_key,
            } => {
                out.words(&[create.service().create(), create.algo(), 0, 0]);
                let start = out.len();
                create.emit(out);
                pad(out, start);
                out.extend_from_slice(key);
                out.extend_from_slice(auth_key);
            }
            Control::Destroy { service, session } => {
                out.words(&[service.destroy(), 0, 0, 0]);
                let start = out.len();
                out.u64(*session);
                pad(out, start);
            }
        }
    }

    /// Returns the number of bytes that a driver makes writable for the answer.
    pub fn answer_len(&self) -> usize {
        match self {
            Control::Create { .. } => CREATED,
            Control::Destroy { .. } => DESTROYED,
        }
    }
}

/// The answer to a create request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// The session's ID, which is meaningless if `status` is an error.
    pub session: u64,
    /// The status as a number; see [`Status`].
    pub status: u32,
}

impl Created {
    /// Returns the answer in wire format.
    pub fn emit(self) -> [u8; CREATED] {
        let mut out = [0; CREATED];
        out[..8].copy_from_slice(&self.session.to_le_bytes());
        out[8..12].copy_from_slice(&self.status.to_le_bytes());
        out
    }

    pub fn parse(bytes: &[u8]) -> Result<Created, Fault> {
        let mut r = Reader(bytes);
        Ok(Created {
            session: r.u64()?,
            status: r.u32()?,
        })
    }

    /// Returns the session's ID, or the error. An unknown status number counts as [`Status::Err`].
    pub fn result(self) -> Result<u64, Status> {
        match u8::try_from(self.status).ok().and_then(Status::from_raw) {
            Some(Status::Ok) => Ok(self.session),
            Some(status) => Err(status),
            None => Err(Status::Err),
        }
    }
}
