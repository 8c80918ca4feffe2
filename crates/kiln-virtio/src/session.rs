//! A session, created from a request's parameters and keys. Dropping a session wipes its keys.

use kiln_kernel::cipher::{Context, Impl, Op};

use crate::akcipher::Key;
use crate::wire::session::ChainHash;
use crate::wire::{algo, session as wire, Create, Service, Status};
use crate::{Limits, Services};

/// An implementation with an expanded key.
pub(crate) struct Keyed {
    pub imp: Impl,
    pub ctx: Context,
}

/// A hash or a MAC, and the length to which its result is truncated.
pub(crate) struct Digest {
    pub keyed: Keyed,
    pub result_len: usize,
}

/// Which operation in a chain comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    HashThenCipher,
    CipherThenHash,
}

pub(crate) enum Session {
    Cipher {
        keyed: Keyed,
        op: Op,
    },
    Chain {
        keyed: Keyed,
        op: Op,
        hash: Digest,
        order: Order,
    },
    Hash(Digest),
    Mac(Digest),
    Aead {
        keyed: Keyed,
        op: Op,
        tag_len: usize,
    },
    /// The key is boxed because this variant would otherwise be by far the largest, even though it
    /// is the least used.
    Akcipher(Box<Key>),
}

impl Keyed {
    fn new(services: &Services, service: Service, algo: u32, key: &[u8]) -> Result<Keyed, Status> {
        let imp = services.find(service, algo).ok_or(Status::NotSupp)?;
        let ctx = Context::new(imp, key).map_err(|_| Status::Err)?;
        Ok(Keyed { imp, ctx })
    }
}

impl Digest {
    fn new(keyed: Keyed, result_len: u32) -> Result<Digest, Status> {
        let result_len = result_len as usize;
        match (1..=keyed.imp.digest_size()).contains(&result_len) {
            true => Ok(Digest { keyed, result_len }),
            false => Err(Status::Err),
        }
    }

    fn hash(services: &Services, hash: wire::Hash) -> Result<Digest, Status> {
        let keyed = Keyed::new(services, Service::Hash, hash.algo, &[])?;
        Digest::new(keyed, hash.result_len)
    }

    fn mac(services: &Services, mac: wire::Mac, key: &[u8]) -> Result<Digest, Status> {
        let keyed = Keyed::new(services, Service::Mac, mac.algo, key)?;
        Digest::new(keyed, mac.result_len)
    }
}

fn direction(op: u32) -> Result<Op, Status> {
    match op {
        algo::OP_ENCRYPT => Ok(Op::Encrypt),
        algo::OP_DECRYPT => Ok(Op::Decrypt),
        _ => Err(Status::Err),
    }
}

impl Session {
    /// Creates a session from parsed parameters and keys.
    pub(crate) fn new(
        services: &Services,
        limits: &Limits,
        create: &Create,
        key: &[u8],
        auth_key: &[u8],
    ) -> Result<Session, Status> {
        let akcipher = create.service() == Service::Akcipher;
        limits.keys([key.len(), auth_key.len()], akcipher)?;
        match *create {
            Create::Cipher(c) => Ok(Session::Cipher {
                keyed: Keyed::new(services, Service::Cipher, c.algo, key)?,
                op: direction(c.op)?,
            }),
            Create::Chain(c) => Ok(Session::Chain {
                order: match c.order {
                    algo::HASH_THEN_CIPHER => Order::HashThenCipher,
                    algo::CIPHER_THEN_HASH => Order::CipherThenHash,
                    _ => return Err(Status::NotSupp),
                },
                keyed: Keyed::new(services, Service::Cipher, c.cipher.algo, key)?,
                op: direction(c.cipher.op)?,
                hash: match c.hash {
                    ChainHash::Plain(h) => Digest::hash(services, h)?,
                    ChainHash::Auth(m) => Digest::mac(services, m, auth_key)?,
                },
            }),
            Create::Hash(h) => Digest::hash(services, h).map(Session::Hash),
            Create::Mac(m) => Digest::mac(services, m, key).map(Session::Mac),
            Create::Aead(a) => {
                let keyed = Keyed::new(services, Service::Aead, a.algo, key)?;
                let tag_len = a.tag_len as usize;
                if !keyed.imp.tag_sizes().contains(&tag_len) {
                    return Err(Status::Err);
                }
                Ok(Session::Aead {
                    keyed,
                    op: direction(a.op)?,
                    tag_len,
                })
            }
            Create::Akcipher(a) => {
                let library = services.library.as_ref().ok_or(Status::NotSupp)?;
                let key = Key::new(library, limits, &a, key)?;
                Ok(Session::Akcipher(Box::new(key)))
            }
        }
    }

    pub(crate) fn service(&self) -> Service {
        match self {
            Session::Cipher { .. } | Session::Chain { .. } => Service::Cipher,
            Session::Hash(_) => Service::Hash,
            Session::Mac(_) => Service::Mac,
            Session::Aead { .. } => Service::Aead,
            Session::Akcipher(_) => Service::Akcipher,
        }
    }
}
