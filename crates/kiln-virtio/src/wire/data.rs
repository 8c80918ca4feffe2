//! Data requests (sections 5.9.7.3 to 5.9.7.8).

use super::bytes::{Put, Reader};
use super::{stateless, Action, Create, Fault, Features};

pub use super::operation::{Aead, Akcipher, Chain, Cipher, Digest, Operation};

/// Size of `struct virtio_crypto_op_header` in bytes.
pub const HEADER: usize = 24;
/// `VIRTIO_CRYPTO_DATAQ_OP_SPEC_HDR_LEGACY`: the size to which the fixed part of a request is
/// padded if REVISION_1 was not negotiated.
pub const LEGACY: usize = 48;
/// `VIRTIO_CRYPTO_FLAG_SESSION_MODE`, which is valid only under REVISION_1.
pub(crate) const SESSION_MODE: u32 = 1;
/// Where a request's parameters and keys come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode<'a> {
    /// The session with this ID.
    Session(u64),
    /// The request itself contains its parameters and keys.
    Stateless {
        /// The same parameters as in a request to create a session.
        create: Create,
        /// The key, or the cipher's key in a chain. Empty for a hash.
        key: &'a [u8],
        /// The MAC's key in a chain, or empty.
        auth_key: &'a [u8],
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub action: Action,
    pub mode: Mode<'a>,
    /// The operation and its lengths.
    pub op: Operation,
    /// The IV; empty if the algorithm does not use one.
    pub iv: &'a [u8],
    /// The source data. In a signature verification, this is the signature.
    pub src: &'a [u8],
    /// The associated data. In a signature verification, this is the signed data.
    pub aad: &'a [u8],
}

impl<'a> Request<'a> {
    /// Parses a request. `bytes` is everything that the driver made readable, and may be longer
    /// than the request.
    pub fn parse(bytes: &'a [u8], features: Features) -> Result<Request<'a>, Fault> {
        let mut r = Reader(bytes);
        let [opcode, _algo] = r.words()?;
        let session = r.u64()?;
        let [flag, _] = r.words()?;
        let (service, action) = Action::from_opcode(opcode).ok_or(Fault::Opcode(opcode))?;
        let in_session = !features.revision_1() || flag & SESSION_MODE != 0;
        let mut create = None;
        let op = if features.stateless(service) {
            let (op, parameters) = stateless::parse(service, in_session, &mut r)?;
            create = Some(parameters);
            op
        } else if !in_session {
            return Err(Fault::Stateless);
        } else if features.revision_1() {
            Operation::parse(service, &mut r)?
        } else {
            Operation::parse(service, &mut Reader(r.take(LEGACY)?))?
        };
        // The stateless format reserves space for keys even in session mode, where the keys are
        // ignored.
        let [key, auth_key] = create.map_or([0, 0], |c| c.key_lens());
        let (key, auth_key) = (r.field(key)?, r.field(auth_key)?);
        let [iv, src, aad] = op.lens(action);
        let iv = r.field(iv)?;
        let (src, aad) = match (&create, op) {
            // In the stateless format of a chain, the associated data precedes the source.
            (Some(_), Operation::Chain(_)) => {
                let aad = r.field(aad)?;
                (r.field(src)?, aad)
            }
            _ => (r.field(src)?, r.field(aad)?),
        };
        let mode = match create {
            Some(create) if !in_session => Mode::Stateless {
                create,
                key,
                auth_key,
            },
            _ => Mode::Session(session),
        };
        Ok(Request {
            action,
            mode,
            op,
            iv,
            src,
            aad,
        })
    }

    /// Appends the encoded request to `out`. The lengths in `op` are not checked against the data,
    /// so that tests can imitate a hostile driver.
    ///
    /// # Panics
    /// Panics if the service does not support the action.
    pub fn emit(&self, features: Features, out: &mut Vec<u8>) {
        let service = self.op.service();
        let opcode = self
            .action
            .opcode(service)
            .expect("the service supports the action");
        let (session, flag, algo) = match &self.mode {
            Mode::Session(session) => (*session, SESSION_MODE, 0),
            Mode::Stateless { create, .. } => (0, 0, create.algo()),
        };
        out.words(&[opcode, algo]);
        out.u64(session);
        out.words(&[if features.revision_1() { flag } else { 0 }, 0]);
        let start = out.len();
        if features.stateless(service) {
            let create = match &self.mode {
                Mode::Stateless { create, .. } => Some(create),
                Mode::Session(_) => None,
            };
            stateless::emit(&self.op, create, out);
        } else {
            self.op.emit(out);
            if !features.revision_1() {
                out.pad(start, LEGACY);
            }
        }
        if let Mode::Stateless { key, auth_key, .. } = self.mode {
            out.extend_from_slice(key);
            out.extend_from_slice(auth_key);
        }
        out.extend_from_slice(self.iv);
        if features.stateless(service) && matches!(self.op, Operation::Chain(_)) {
            out.extend_from_slice(self.aad);
            out.extend_from_slice(self.src);
        } else {
            out.extend_from_slice(self.src);
            out.extend_from_slice(self.aad);
        }
    }

    /// Returns the number of bytes that a driver makes writable for the answer: the result,
    /// followed by the status.
    pub fn answer_len(&self) -> usize {
        self.op.room(self.action) as usize + 1
    }
}
