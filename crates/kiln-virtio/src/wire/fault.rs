//! Errors in the format of a request, and the status that the driver receives for each error.

use std::fmt;

use super::Status;

/// Why a request cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The request ends within the header, or is shorter than the header announces.
    Short,
    /// The lengths are inconsistent.
    Length,
    /// The opcode is unknown.
    Opcode(u32),
    /// The type of a symmetric request is neither cipher nor chain.
    OpType(u32),
    /// The hash mode of a chain is unknown.
    HashMode(u32),
    /// The request is stateless, but only session mode was negotiated.
    Stateless,
}

impl Fault {
    /// Returns the status to report to the driver.
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
            Fault::Length => write!(f, "its lengths are inconsistent"),
            Fault::Opcode(n) => write!(f, "opcode {n:#x} does not belong to this queue"),
            Fault::OpType(n) => write!(f, "op_type {n} is neither cipher (1) nor chain (2)"),
            Fault::HashMode(n) => write!(f, "hash_mode {n} is neither plain (1) nor auth (2)"),
            Fault::Stateless => write!(
                f,
                "it is stateless, which was not negotiated for its service"
            ),
        }
    }
}

impl std::error::Error for Fault {}
