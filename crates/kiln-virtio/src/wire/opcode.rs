//! Services and their operations (sections 5.9.4, 5.9.7.2 and 5.9.7.3).

/// A service. The enum value is the service's bit number in `crypto_services`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Service {
    /// Ciphers, and chains that combine a cipher with a hash or MAC.
    Cipher = 0,
    Hash = 1,
    /// Message authentication codes.
    Mac = 2,
    /// Authenticated encryption.
    Aead = 3,
    /// RSA and ECDSA.
    Akcipher = 4,
}

impl Service {
    /// All services, in order of their numbers.
    pub const ALL: [Service; 5] = [
        Service::Cipher,
        Service::Hash,
        Service::Mac,
        Service::Aead,
        Service::Akcipher,
    ];

    /// Returns the service with this number, or `None` if the number is unknown.
    pub fn from_raw(raw: u32) -> Option<Service> {
        Service::ALL.get(raw as usize).copied()
    }

    /// Returns the service's name in the specification, in lower case.
    pub fn name(self) -> &'static str {
        ["cipher", "hash", "mac", "aead", "akcipher"][self as usize]
    }

    /// Returns the opcode for operation number `op` of the service.
    pub fn opcode(self, op: u32) -> u32 {
        (self as u32) << 8 | op
    }

    /// `VIRTIO_CRYPTO_*_CREATE_SESSION`.
    pub fn create(self) -> u32 {
        self.opcode(self.first_control())
    }

    /// `VIRTIO_CRYPTO_*_DESTROY_SESSION`.
    pub fn destroy(self) -> u32 {
        self.opcode(self.first_control() + 1)
    }

    /// Returns the number of the first control operation. It follows the data operations, of which
    /// akcipher has four and every other service has two.
    fn first_control(self) -> u32 {
        if self == Service::Akcipher {
            4
        } else {
            2
        }
    }

    /// Splits an opcode into the service and the operation's number.
    pub(crate) fn from_opcode(opcode: u32) -> Option<(Service, u32)> {
        Some((Service::from_raw(opcode >> 8)?, opcode & 0xff))
    }
}

/// The action that a data request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Encryption, supported by ciphers, AEADs and RSA.
    Encrypt,
    Decrypt,
    Digest,
    /// Signing, supported by akcipher only.
    Sign,
    /// Verifying a signature, supported by akcipher only.
    Verify,
}

impl Action {
    /// Returns the action's opcode, or `None` if the service does not support the action.
    pub fn opcode(self, service: Service) -> Option<u32> {
        use Service::*;
        let op = match (service, self) {
            (Cipher | Aead | Akcipher, Action::Encrypt) | (Hash | Mac, Action::Digest) => 0,
            (Cipher | Aead | Akcipher, Action::Decrypt) => 1,
            (Akcipher, Action::Sign) => 2,
            (Akcipher, Action::Verify) => 3,
            _ => return None,
        };
        Some(service.opcode(op))
    }

    /// Splits an opcode into a service and an action. This is the inverse of [`Action::opcode`].
    pub(crate) fn from_opcode(opcode: u32) -> Option<(Service, Action)> {
        let (service, op) = Service::from_opcode(opcode)?;
        let digest = matches!(service, Service::Hash | Service::Mac);
        let action = match op {
            0 if digest => Action::Digest,
            0 => Action::Encrypt,
            1 => Action::Decrypt,
            2 => Action::Sign,
            3 => Action::Verify,
            _ => return None,
        };
        (action.opcode(service)? == opcode).then_some((service, action))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_are_the_specification_s() {
        assert_eq!(Service::Cipher.create(), 0x002);
        assert_eq!(Service::Aead.destroy(), 0x303);
        assert_eq!(Service::Akcipher.create(), 0x404);
        assert_eq!(Action::Verify.opcode(Service::Akcipher), Some(0x403));
        assert_eq!(Action::Encrypt.opcode(Service::Hash), None);
    }

    #[test]
    fn there_and_back() {
        let mut known = 0;
        for opcode in 0..0x700 {
            if let Some((service, action)) = Action::from_opcode(opcode) {
                assert_eq!(action.opcode(service), Some(opcode));
                known += 1;
            }
        }
        assert_eq!(known, 2 + 1 + 1 + 2 + 4);
    }
}
