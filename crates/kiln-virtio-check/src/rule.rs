//! What the checks are about: sections of the virtio specification, which say what a device must do
//! or what a hostile driver violates, and messages of the vhost-user protocol.
//!
//! Numbers and titles are those of version 1.3. In version 1.4, sections 5.9.7 and below have
//! moved to 5.9.9; the other numbers are the same.

use std::fmt;

/// The requirement that a check tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    source: Source,
    /// Number of the section, or name of the message.
    place: &'static str,
    title: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// The virtio specification, version 1.3.
    Virtio,
    /// The vhost-user protocol (docs/interop/vhost-user.rst of QEMU).
    VhostUser,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            Source::Virtio => write!(f, "virtio {}", self.place),
            Source::VhostUser => write!(f, "vhost-user {}", self.place),
        }
    }
}

impl Rule {
    /// Returns the rule with the title of its section, or with what its message does.
    pub fn describe(&self) -> String {
        format!("{self} ({})", self.title)
    }

    const fn section(place: &'static str, title: &'static str) -> Rule {
        Rule {
            source: Source::Virtio,
            place,
            title,
        }
    }

    const fn message(place: &'static str, title: &'static str) -> Rule {
        Rule {
            source: Source::VhostUser,
            place,
            title,
        }
    }
}

pub(crate) const FEATURES: Rule = Rule::section("5.9.3.1", "Feature bit requirements");
pub(crate) const CONFIGURATION: Rule = Rule::section(
    "5.9.5.1",
    "Device Requirements: Device configuration layout",
);
pub(crate) const STATUS: Rule = Rule::section("5.9.7.1", "Operation Status");
pub(crate) const CREATE: Rule = Rule::section(
    "5.9.7.2.1.7",
    "Device Requirements: Session operation: create session",
);
pub(crate) const DESTROY: Rule = Rule::section(
    "5.9.7.2.1.9",
    "Device Requirements: Session operation: destroy session",
);
pub(crate) const DATA: Rule = Rule::section("5.9.7.3", "Data Virtqueue");
pub(crate) const HASH: Rule =
    Rule::section("5.9.7.4.2", "Device Requirements: HASH Service Operation");
pub(crate) const MAC: Rule =
    Rule::section("5.9.7.5.2", "Device Requirements: MAC Service Operation");
pub(crate) const CIPHER: Rule = Rule::section(
    "5.9.7.6.2",
    "Device Requirements: Symmetric algorithms Operation",
);
pub(crate) const AEAD: Rule =
    Rule::section("5.9.7.7.2", "Device Requirements: AEAD Service Operation");
pub(crate) const AKCIPHER: Rule = Rule::section(
    "5.9.7.8.2",
    "Device Requirements: AKCIPHER Service Operation",
);

pub(crate) const QUEUE_RESET: Rule =
    Rule::section("2.6.1.1.1", "Device Requirements: Virtqueue Reset");
pub(crate) const FRAMING: Rule = Rule::section("2.7.4.1", "Device Requirements: Message Framing");
pub(crate) const ORDER_OF_BUFFERS: Rule =
    Rule::section("2.7.4.2", "Driver Requirements: Message Framing");
pub(crate) const BUFFERS: Rule = Rule::section("2.7.5", "The Virtqueue Descriptor Table");
pub(crate) const WRITES: Rule = Rule::section(
    "2.7.5.1",
    "Device Requirements: The Virtqueue Descriptor Table",
);
pub(crate) const CHAINS: Rule = Rule::section(
    "2.7.5.2",
    "Driver Requirements: The Virtqueue Descriptor Table",
);
pub(crate) const INDIRECT: Rule = Rule::section("2.7.5.3", "Indirect Descriptors");
pub(crate) const INDIRECT_DRIVER: Rule =
    Rule::section("2.7.5.3.1", "Driver Requirements: Indirect Descriptors");
pub(crate) const AVAILABLE: Rule = Rule::section("2.7.6", "The Virtqueue Available Ring");
pub(crate) const AVAILABLE_INDEX: Rule = Rule::section(
    "2.7.6.1",
    "Driver Requirements: The Virtqueue Available Ring",
);
pub(crate) const IN_ORDER: Rule = Rule::section("2.7.9", "In-order use of descriptors");

pub(crate) const CONNECTION: Rule = Rule::message("Communication", "connections of front ends");
pub(crate) const HEADER: Rule = Rule::message("Header", "request, flags and size of a message");
pub(crate) const GET_FEATURES: Rule = Rule::message(
    "GET_FEATURES, GET_VRING_BASE, GET_CONFIG",
    "messages without descriptors",
);
pub(crate) const GET_CONFIG: Rule = Rule::message("GET_CONFIG", "reads the configuration");
pub(crate) const SET_MEM_TABLE: Rule = Rule::message("SET_MEM_TABLE", "shares the guest's memory");
pub(crate) const ADD_MEM_REG: Rule = Rule::message("ADD_MEM_REG", "shares one more region");
pub(crate) const SET_VRING_CALL: Rule = Rule::message(
    "SET_VRING_CALL",
    "the device signals used buffers on this descriptor",
);
pub(crate) const SET_VRING_KICK: Rule = Rule::message(
    "SET_VRING_KICK",
    "the driver signals available buffers on this descriptor",
);
pub(crate) const CREATE_CRYPTO_SESSION: Rule = Rule::message(
    "CREATE_CRYPTO_SESSION",
    "creates a session without the control queue",
);
pub(crate) const INFLIGHT: Rule = Rule::message(
    "GET_INFLIGHT_FD, SET_INFLIGHT_FD",
    "the record of requests in flight",
);
pub(crate) const GET_STATUS: Rule = Rule::message("SET_STATUS, GET_STATUS", "the device status");
