//! What can be wrong with the form of a request.

use std::fmt;

use super::Status;

/// Why a request cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// It ends before its header, or what its header announces, does.
    Short,
    /// Lengths that do not add up.
    Length,
    /// No such operation.
    Opcode(u32),
    /// A symmetric request is neither a cipher nor a chain.
    OpType(u32),
    /// A chain has none of the three hash modes.
    HashMode(u32),
    /// Not in session mode, where that is the only one negotiated.
    Stateless,
}

impl Fault {
    /// The status for the driver.
    pub fn status(self) -> Status {
        match self {
            Fault::Short | Fault::Length => Status::Err,
            Fault::Opcode(_) | Fault::OpType(_) | Fault::HashMode(_) | Fault::Stateless => {
                Status::NotSupp
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Short => write!(f, "it ends before what its header announces"),
            Fault::Length => write!(f, "its lengths do not add up"),
            Fault::Opcode(n) => write!(f, "opcode {n:#x} is none of this queue's"),
            Fault::OpType(n) => write!(f, "op_type {n} is neither cipher (1) nor chain (2)"),
            Fault::HashMode(n) => write!(f, "hash_mode {n} is neither plain (1) nor auth (2)"),
            Fault::Stateless => write!(f, "stateless, which was not negotiated for its service"),
        }
    }
}

impl std::error::Error for Fault {}
