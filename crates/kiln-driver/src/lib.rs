//! A virtio-crypto driver for programs: sessions and operations on a device behind a vhost-user
//! socket, without a kernel driver or a virtual machine.
//!
//! The device is not trusted. Everything that it can write is either plain data or checked before
//! use. The queue owns each buffer while the device may access it, so a program cannot read or
//! write a buffer in flight. The driver disconnects at once from a device that violates the
//! protocol. If a device dies, the driver reconnects and recreates the sessions. Unanswered
//! requests are resubmitted on the control queue and reported as lost on data queues.
//!
//! ```no_run
//! use kiln_driver::{Driver, Options, Request};
//! use kiln_virtio::wire::{algo, session::Cipher, Create};
//!
//! let driver = Driver::connect("/run/kiln.sock".as_ref(), Options::default())?;
//! let create = Create::Cipher(Cipher { algo: algo::cipher::AES_CBC, key_len: 16, op: algo::OP_ENCRYPT });
//! let session = driver.control().create(Request::new(create, &[0; 16]))?;
//! driver.control().close(session)?;
//! # Ok::<(), kiln_driver::Error>(())
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `driver.rs` | a driver for one device, with reconnection |
//! | `device.rs` | the connected device |
//! | `connection.rs` | a vhost-user connection |
//! | `memory.rs` | sealed shared memory |
//! | `ring.rs` | the driver's side of a split virtqueue |
//! | `control/` | the control queue, with polling, sleeping threads or callbacks |
//! | `port.rs` | the control queue's requests in flight |
//! | `batch.rs` | requests submitted together, and their waiters |
//! | `kick.rs` | notifies the device |
//! | `bell.rs` | lets a thread sleep until the device interrupts |
//! | `completion.rs` | a thread's wait for one request |
//! | `sleepers.rs` | wakes many waiting threads at once |
//! | `session.rs` | the driver's record of its sessions |
//! | `data.rs` | a data queue |
//! | `buffer.rs` | data buffers |
//! | `histogram.rs` | a histogram of durations |
//! | `rig.rs` | a ring with a scripted device, for tests |
//! | `corpora.rs` | replays the fuzz target's corpus, in tests |
//! | `error.rs` | errors |
#![forbid(unsafe_code)]

// The body of the fuzz target refers to this crate as `kiln_driver`. The tests compile it as part
// of this crate, so the name must also be valid here.
#[cfg(test)]
extern crate self as kiln_driver;

mod batch;
mod bell;
mod buffer;
mod completion;
mod connection;
mod control;
#[cfg(test)]
mod corpora;
mod data;
mod device;
mod driver;
mod error;
mod histogram;
mod kick;
mod memory;
mod port;
#[cfg(any(test, feature = "rig"))]
pub mod rig;
mod ring;
mod session;
mod sleepers;

pub use batch::Batch;
pub use buffer::Buffer;
pub use connection::Wishes;
pub use control::{Control, Counts, Mode};
pub use data::{Data, DataQueue, Done, Job, Refused};
pub use driver::{Driver, Options};
pub use error::{Error, Lie};
pub use histogram::Histogram;
pub use session::{Request, Session};
