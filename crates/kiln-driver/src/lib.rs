//! A virtio-crypto driver for programs: sessions and operations on a device behind a vhost-user socket, without a
//! kernel driver and without a virtual machine.
//!
//! The device is not trusted. All that it can write is checked before it is used, or is only data; each buffer belongs
//! to the queue while the device may have it, so that no program reads or writes what is in flight. A device that lies
//! is left at once. One that dies is looked for; sessions are made again on the one that comes back, and what had no
//! answer is asked again (control queue) or reported as lost (data queues).
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
//! | file | its noun |
//! |---|---|
//! | `driver.rs` | a driver with its device, and with the next one |
//! | `device.rs` | the device that is connected now |
//! | `connection.rs` | one conversation over vhost-user |
//! | `memory.rs` | sealed memory that both sides share |
//! | `ring.rs` | the driver's side of a split virtqueue |
//! | `control/` | the control queue: polled, waited for, or with functions that are called |
//! | `port.rs` | the control queue's requests in flight |
//! | `batch.rs` | requests that are submitted together, and their waiters |
//! | `kick.rs` | what tells the device that there is something to do |
//! | `bell.rs` | what a thread sleeps on until the device interrupts |
//! | `completion.rs` | a thread that sleeps for one request |
//! | `sleepers.rs` | such threads, woken many at a time |
//! | `session.rs` | sessions as the driver keeps them |
//! | `data.rs` | a data queue |
//! | `buffer.rs` | room for data |
//! | `histogram.rs` | how long things took |
//! | `rig.rs` | a ring with a device that writes anything, for tests |
//! | `error.rs` | what goes wrong |
#![forbid(unsafe_code)]

mod batch;
mod bell;
mod buffer;
mod completion;
mod connection;
mod control;
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
