//! Status codes of requests (section 5.9.7.1).

/// `VIRTIO_CRYPTO_*` status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    Ok = 0,
    /// Any failure without a more specific code.
    Err = 1,
    /// The tag is wrong.
    BadMsg = 2,
    /// The operation or algorithm is not supported.
    NotSupp = 3,
    /// The session does not exist, or belongs to another service.
    InvSess = 4,
    /// The device has no space for another session. This code is used only under REVISION_1.
    NoSpc = 5,
    /// The signature is wrong.
    KeyRejected = 6,
}

impl Status {
    /// All codes, in order of their numbers.
    pub const ALL: [Status; 7] = [
        Status::Ok,
        Status::Err,
        Status::BadMsg,
        Status::NotSupp,
        Status::InvSess,
        Status::NoSpc,
        Status::KeyRejected,
    ];

    /// Returns the status with this number, or `None` if the number is unknown.
    pub fn from_raw(raw: u8) -> Option<Status> {
        Status::ALL.get(usize::from(raw)).copied()
    }

    /// Returns the status's name in the specification, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Err => "err",
            Status::BadMsg => "badmsg",
            Status::NotSupp => "notsupp",
            Status::InvSess => "invsess",
            Status::NoSpc => "nospc",
            Status::KeyRejected => "key_rejected",
        }
    }
}
