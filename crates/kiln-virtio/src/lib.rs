//! Implements the virtio-crypto protocol on byte buffers: the wire format, a guest's session table,
//! and the crypto services. The akcipher service uses libcrypto. The other services call the
//! primitives of `kernel/` in FPU sections of bounded length. This crate does no I/O and does not
//! access guest memory. The caller copies each request once, so that the guest cannot change the
//! request while it is being parsed.
//!
//! ```
//! use kiln_virtio::{Guest, Limits, Services, Worker};
//!
//! let guest = Guest::new(Limits::default(), &Services::detect());
//! guest.negotiate(0);
//! let mut worker = Worker::new().unwrap();
//! let mut answer = [0; 16];
//! // Too short for any request: only an error status is returned.
//! assert_eq!(guest.control(&[], &mut answer), 16);
//! assert_eq!(answer[8], 1);
//! assert_eq!(guest.data(&mut worker, &mut [], &mut answer[..1]), 1);
//! ```

mod akcipher;
mod guest;
mod limits;
pub mod sample;
mod section;
mod serve;
mod services;
mod session;
pub mod table;
pub mod wire;
mod worker;

pub use akcipher::LIBCRYPTO;
pub use guest::Guest;
pub use limits::Limits;
pub use services::Services;
pub use worker::Worker;
