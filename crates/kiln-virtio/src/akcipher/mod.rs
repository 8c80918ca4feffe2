//! RSA and ECDSA using libcrypto, which blinds private operations and takes the same time for all
//! keys of the same size. libcrypto is loaded at run time; if it is not available, the service is
//! not offered.

mod der;
mod key;
mod library;
mod pkey;
mod trial;

use std::sync::OnceLock;

use zeroize::Zeroizing;

use crate::wire::algo::akcipher as algo;
use crate::wire::{session, Action, Status};
use crate::Limits;
use key::{Parts, Scheme};
pub(crate) use library::Library;
pub use library::LIBCRYPTO;
use pkey::Pkey;
pub(crate) use trial::load;

/// A session's key, whose encoding has been checked. libcrypto imports the key when it is first
/// used, so a session that is never used costs nothing.
pub(crate) struct Key {
    library: Library,
    scheme: Scheme,
    private: bool,
    encoded: Zeroizing<Vec<u8>>,
    limits: Limits,
    loaded: OnceLock<Result<Pkey, Status>>,
}

impl Key {
    pub(crate) fn new(
        library: &Library,
        limits: &Limits,
        create: &session::Akcipher,
        key: &[u8],
    ) -> Result<Key, Status> {
        let scheme = Scheme::new(create)?;
        let private = match create.key_type {
            algo::PUBLIC => false,
            algo::PRIVATE => true,
            _ => return Err(Status::Err),
        };
        Parts::parse(scheme, private, key, limits)?;
        Ok(Key {
            library: library.clone(),
            scheme,
            private,
            encoded: Zeroizing::new(key.to_vec()),
            limits: limits.clone(),
            loaded: OnceLock::new(),
        })
    }

    fn pkey(&self) -> Result<&Pkey, Status> {
        let load = || {
            let parts = Parts::parse(self.scheme, self.private, &self.encoded, &self.limits)?;
            Pkey::new(&self.library, &parts)
        };
        self.loaded.get_or_init(load).as_ref().map_err(|e| *e)
    }

    /// Serves a request and returns the length of the result in `dst`. For a verification request,
    /// `src` is the signature and `signed` is the data that was signed.
    pub(crate) fn serve(
        &self,
        action: Action,
        src: &[u8],
        signed: &[u8],
        dst: &mut [u8],
    ) -> Result<usize, Status> {
        let secret = matches!(action, Action::Decrypt | Action::Sign);
        if secret && !self.private {
            return Err(Status::Err);
        }
        match (self.scheme, action) {
            (Scheme::Rsa(padding), Action::Encrypt | Action::Decrypt) => {
                self.pkey()?.crypt(padding, action, src, dst)
            }
            (Scheme::Rsa(key::Padding::Raw), _) => Err(Status::NotSupp),
            (scheme, Action::Sign) => self.pkey()?.sign(scheme, src, dst),
            (scheme, Action::Verify) => self.pkey()?.verify(scheme, src, signed).map(|()| 0),
            _ => Err(Status::NotSupp),
        }
    }
}
