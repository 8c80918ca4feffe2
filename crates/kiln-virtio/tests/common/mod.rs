//! A test driver that exchanges byte buffers with the device instead of using queues.
#![allow(dead_code)]

use std::ops::Range;

use kiln_measure::SplitMix64;
use kiln_virtio::wire::algo::akcipher;
use kiln_virtio::wire::control::Created;
use kiln_virtio::wire::data::{self, Mode};
use kiln_virtio::wire::session::ChainHash;
use kiln_virtio::wire::{
    feature, session, Action, Control, Create, Features, Operation, Request, Service, Status,
};
use kiln_virtio::{Guest, Limits, Services, Worker};

/// The feature sets to test: none (the legacy format), only REVISION_1, and REVISION_1 with all
/// stateless modes.
pub(crate) const FORMS: [u64; 3] = [0, feature::REVISION_1, feature::ALL];

pub(crate) struct Driver {
    pub guest: Guest,
    pub worker: Worker,
    pub features: Features,
}

/// A session and a request that uses it.
#[derive(Clone)]
pub(crate) struct Case {
    pub create: Create,
    pub key: Vec<u8>,
    pub auth_key: Vec<u8>,
    pub action: Action,
    pub op: Operation,
    pub iv: Vec<u8>,
    pub src: Vec<u8>,
    pub aad: Vec<u8>,
}

impl Driver {
    pub(crate) fn new(features: u64) -> Driver {
        Driver::with(features, Limits::default())
    }

    pub(crate) fn with(features: u64, limits: Limits) -> Driver {
        let guest = Guest::new(limits, &Services::detect());
        guest.negotiate(features);
        Driver {
            features: Features::new(features & guest.device_features()),
            guest,
            worker: Worker::new().unwrap(),
        }
    }

    pub(crate) fn control(&self, control: &Control<'_>) -> Vec<u8> {
        let mut request = Vec::new();
        control.emit(self.features, &mut request);
        let mut answer = vec![0xa5; control.answer_len()];
        let used = self.guest.control(&request, &mut answer);
        assert_eq!(used, answer.len());
        answer
    }

    pub(crate) fn create(
        &self,
        create: Create,
        key: &[u8],
        auth_key: &[u8],
    ) -> Result<u64, Status> {
        let answer = self.control(&Control::Create {
            create,
            key,
            auth_key,
        });
        Created::parse(&answer).unwrap().result()
    }

    pub(crate) fn destroy(&self, service: Service, session: u64) -> Status {
        let answer = self.control(&Control::Destroy { service, session });
        Status::from_raw(answer[0]).unwrap()
    }

    /// Sends a request and returns the result, or the status if it is an error.
    pub(crate) fn request(&mut self, request: &Request<'_>) -> Result<Vec<u8>, Status> {
        let mut bytes = Vec::new();
        request.emit(self.features, &mut bytes);
        self.bytes(&mut bytes, request.answer_len())
    }

    /// Like [`Driver::request`], but takes the request as raw bytes. The device may write up to
    /// `room` bytes.
    pub(crate) fn bytes(&mut self, bytes: &mut [u8], room: usize) -> Result<Vec<u8>, Status> {
        let mut answer = vec![0xa5; room];
        let used = self.guest.data(&mut self.worker, bytes, &mut answer);
        let (status, dst) = answer.split_last().unwrap();
        assert!(
            dst[used - 1..].iter().all(|&b| b == 0),
            "old bytes are gone"
        );
        match Status::from_raw(*status).unwrap() {
            Status::Ok => Ok(dst[..used - 1].to_vec()),
            status => {
                assert_eq!(used, 1);
                Err(status)
            }
        }
    }

    /// Runs a case in a new session.
    pub(crate) fn run(&mut self, case: &Case) -> Result<Vec<u8>, Status> {
        let session = self.create(case.create, &case.key, &case.auth_key)?;
        let result = self.request(&case.request(Mode::Session(session)));
        assert_eq!(self.destroy(case.create.service(), session), Status::Ok);
        result
    }

    /// Runs a case without a session.
    pub(crate) fn run_stateless(&mut self, case: &Case) -> Result<Vec<u8>, Status> {
        self.request(&case.request(Mode::Stateless {
            create: case.create,
            key: &case.key,
            auth_key: &case.auth_key,
        }))
    }
}

impl Case {
    pub(crate) fn request<'a>(&'a self, mode: Mode<'a>) -> Request<'a> {
        Request {
            action: self.action,
            mode,
            op: self.op,
            iv: &self.iv,
            src: &self.src,
            aad: &self.aad,
        }
    }

    pub(crate) fn cipher(algo: u32, op: u32, key: &[u8], iv: &[u8], src: &[u8]) -> Case {
        let len = src.len() as u32;
        Case {
            create: Create::Cipher(session::Cipher {
                algo,
                key_len: key.len() as u32,
                op,
            }),
            key: key.to_vec(),
            auth_key: vec![],
            action: action(op),
            op: Operation::Cipher(data::Cipher {
                iv_len: iv.len() as u32,
                src_len: len,
                dst_len: len,
            }),
            iv: iv.to_vec(),
            src: src.to_vec(),
            aad: vec![],
        }
    }

    pub(crate) fn hash(algo: u32, result_len: u32, src: &[u8]) -> Case {
        Case {
            create: Create::Hash(session::Hash { algo, result_len }),
            key: vec![],
            auth_key: vec![],
            action: Action::Digest,
            op: Operation::Hash(data::Digest {
                src_len: src.len() as u32,
                result_len,
            }),
            iv: vec![],
            src: src.to_vec(),
            aad: vec![],
        }
    }

    pub(crate) fn mac(algo: u32, result_len: u32, key: &[u8], src: &[u8]) -> Case {
        Case {
            create: Create::Mac(session::Mac {
                algo,
                result_len,
                key_len: key.len() as u32,
            }),
            key: key.to_vec(),
            op: Operation::Mac(data::Digest {
                src_len: src.len() as u32,
                result_len,
            }),
            ..Case::hash(0, result_len, src)
        }
    }

    pub(crate) fn aead(
        algo: u32,
        op: u32,
        tag_len: u32,
        key: &[u8],
        iv: &[u8],
        aad: &[u8],
        src: &[u8],
    ) -> Case {
        let len = src.len() as u32;
        let dst_len = match action(op) {
            Action::Encrypt => len + tag_len,
            _ => len.saturating_sub(tag_len),
        };
        Case {
            create: Create::Aead(session::Aead {
                algo,
                key_len: key.len() as u32,
                tag_len,
                aad_len: aad.len() as u32,
                op,
            }),
            op: Operation::Aead(data::Aead {
                iv_len: iv.len() as u32,
                aad_len: aad.len() as u32,
                src_len: len,
                dst_len,
                tag_len,
            }),
            aad: aad.to_vec(),
            ..Case::cipher(0, op, key, iv, src)
        }
    }

    /// Combines a cipher case and a hash or MAC case into a chain. `encrypted` is the byte
    /// range that the cipher processes, and `hashed` is the byte range that is hashed.
    pub(crate) fn chain(
        order: u32,
        cipher: &Case,
        hash: &Case,
        encrypted: Range<u32>,
        hashed: Range<u32>,
        aad: &[u8],
    ) -> Case {
        let Create::Cipher(cipher_part) = cipher.create else {
            unreachable!()
        };
        let (hash_part, result_len) = match hash.create {
            Create::Mac(m) => (ChainHash::Auth(m), m.result_len),
            Create::Hash(h) => (ChainHash::Plain(h), h.result_len),
            _ => unreachable!(),
        };
        let (len, aad_len) = (cipher.src.len() as u32, aad.len() as u32);
        Case {
            create: Create::Chain(session::Chain {
                order,
                cipher: cipher_part,
                hash: hash_part,
                aad_len,
            }),
            auth_key: hash.key.clone(),
            op: Operation::Chain(data::Chain {
                iv_len: cipher.iv.len() as u32,
                src_len: len,
                dst_len: len,
                cipher_start: encrypted.start,
                cipher_len: encrypted.end - encrypted.start,
                hash_start: hashed.start,
                hash_len: hashed.end - hashed.start,
                aad_len,
                result_len,
            }),
            aad: aad.to_vec(),
            ..cipher.clone()
        }
    }

    pub(crate) fn akcipher(
        action: Action,
        algo: u32,
        private: bool,
        para: [u32; 2],
        key: &[u8],
        src: &[u8],
        other: u32,
    ) -> Case {
        Case {
            create: Create::Akcipher(session::Akcipher {
                algo,
                key_type: if private {
                    akcipher::PRIVATE
                } else {
                    akcipher::PUBLIC
                },
                key_len: key.len() as u32,
                para,
            }),
            key: key.to_vec(),
            auth_key: vec![],
            action,
            op: Operation::Akcipher(data::Akcipher {
                src_len: src.len() as u32,
                dst_len: other,
            }),
            iv: vec![],
            src: src.to_vec(),
            aad: vec![],
        }
    }
}

fn action(op: u32) -> Action {
    match op {
        1 => Action::Encrypt,
        _ => Action::Decrypt,
    }
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|b| !b.is_ascii_whitespace())
        .map(|b| (b as char).to_digit(16).unwrap() as u8)
        .collect();
    digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
}

/// Returns pseudo-random bytes that depend only on the seed.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SplitMix64(seed).fill(&mut bytes);
    bytes
}
