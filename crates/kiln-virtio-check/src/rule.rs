//! The requirements that the checks test. Each is either a section of the virtio specification or a
//! message of the vhost-user protocol. A section states what the device must do, or it states a
//! rule that a hostile driver breaks.
//!
//! Section numbers and titles are those of version 1.3. In version 1.4, section 5.9.7 and its
//! subsections have become 5.9.9; the other numbers are the same.

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
    /// The vhost-user protocol (QEMU's docs/interop/vhost-user.rst).
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
    /// Returns the rule, followed by the section's title or by what the message does.
    pub fn describe(&self) -> String {
        format!("{self} ({})", self.title)
    }
}

/// Defines rules that all have the same `Source`. Each entry consists of the constant's name, the
/// section number or message name, and the title.
macro_rules! rules {
    ($source:ident: $($name:ident = $place:literal, $title:literal;)*) => {$(
        pub(crate) const $name: Rule = Rule {
            source: Source::$source,
            place: $place,
            title: $title,
        };
    )*};
}

rules! { Virtio:
    FEATURES = "5.9.3.1", "Feature bit requirements";
    CONFIGURATION = "5.9.5.1", "Device Requirements: Device configuration layout";
    STATUS = "5.9.7.1", "Operation Status";
    CREATE = "5.9.7.2.1.7", "Device Requirements: Session operation: create session";
    DESTROY = "5.9.7.2.1.9", "Device Requirements: Session operation: destroy session";
    DATA = "5.9.7.3", "Data Virtqueue";
    HASH = "5.9.7.4.2", "Device Requirements: HASH Service Operation";
    MAC = "5.9.7.5.2", "Device Requirements: MAC Service Operation";
    CIPHER = "5.9.7.6.2", "Device Requirements: Symmetric algorithms Operation";
    AEAD = "5.9.7.7.2", "Device Requirements: AEAD Service Operation";
    AKCIPHER = "5.9.7.8.2", "Device Requirements: AKCIPHER Service Operation";

    QUEUE_RESET = "2.6.1.1.1", "Device Requirements: Virtqueue Reset";
    FRAMING = "2.7.4.1", "Device Requirements: Message Framing";
    ORDER_OF_BUFFERS = "2.7.4.2", "Driver Requirements: Message Framing";
    BUFFERS = "2.7.5", "The Virtqueue Descriptor Table";
    WRITES = "2.7.5.1", "Device Requirements: The Virtqueue Descriptor Table";
    CHAINS = "2.7.5.2", "Driver Requirements: The Virtqueue Descriptor Table";
    INDIRECT = "2.7.5.3", "Indirect Descriptors";
    INDIRECT_DRIVER = "2.7.5.3.1", "Driver Requirements: Indirect Descriptors";
    AVAILABLE = "2.7.6", "The Virtqueue Available Ring";
    AVAILABLE_INDEX = "2.7.6.1", "Driver Requirements: The Virtqueue Available Ring";
    IN_ORDER = "2.7.9", "In-order use of descriptors";
}

rules! { VhostUser:
    CONNECTION = "Communication", "connections of front ends";
    HEADER = "Header", "request, flags and size of a message";
    GET_FEATURES = "GET_FEATURES, GET_VRING_BASE, GET_CONFIG", "messages without descriptors";
    GET_CONFIG = "GET_CONFIG", "reads the configuration";
    SET_MEM_TABLE = "SET_MEM_TABLE", "shares the guest's memory";
    ADD_MEM_REG = "ADD_MEM_REG", "shares one more region";
    SET_VRING_CALL = "SET_VRING_CALL", "the device signals used buffers on this descriptor";
    SET_VRING_KICK = "SET_VRING_KICK", "the driver signals available buffers on this descriptor";
    CREATE_CRYPTO_SESSION = "CREATE_CRYPTO_SESSION", "creates a session without the control queue";
    INFLIGHT = "GET_INFLIGHT_FD, SET_INFLIGHT_FD", "the record of requests in flight";
    GET_STATUS = "SET_STATUS, GET_STATUS", "the device status";
}
