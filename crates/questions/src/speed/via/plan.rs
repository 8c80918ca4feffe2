//! The request to `kiln speed --via virtio`, and its validation.

use std::path::PathBuf;

use kiln_question::{unknown, Error};
use kiln_virtio::wire::algo;

/// Ciphers that both Kiln and a device support, and the number of AES keys that each cipher uses.
const CIPHERS: [(&str, u32, usize); 4] = [
    ("xts(aes)", algo::cipher::AES_XTS, 2),
    ("cbc(aes)", algo::cipher::AES_CBC, 1),
    ("ctr(aes)", algo::cipher::AES_CTR, 1),
    ("ecb(aes)", algo::cipher::AES_ECB, 1),
];

/// A cipher to measure through the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) alg: &'static str,
    pub(super) algo: u32,
    pub(super) key_len: usize,
    pub(super) key_bits: u32,
}

impl Subject {
    /// Returns the length of the IV in bytes.
    pub(super) fn iv_len(self) -> usize {
        if self.algo == algo::cipher::AES_ECB {
            0
        } else {
            16
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Names of the ciphers in the kernel's crypto API.
    pub algs: Vec<String>,
    /// Sizes of the AES key in bits.
    pub key_bits: Vec<u32>,
    /// Message lengths in bytes.
    pub lens: Vec<usize>,
    /// Each number of data queues to measure. Each queue has its own thread.
    pub queues: Vec<usize>,
    /// Each number of messages in flight per queue to measure.
    pub depths: Vec<usize>,
    /// Measuring time per row in seconds.
    pub seconds: f64,
    /// Socket of a running device. If `None`, a device is started.
    pub socket: Option<PathBuf>,
    /// Seed for the keys and the data.
    pub seed: u64,
}

impl Plan {
    /// Creates the default plan, for AES-256-XTS.
    pub(super) fn new(seed: u64, quick: bool) -> Plan {
        Plan {
            algs: vec!["xts(aes)".into()],
            key_bits: vec![256],
            lens: vec![16, 512, 4096, 16384],
            queues: vec![1, 2],
            depths: vec![1, 64],
            seconds: if quick { 0.2 } else { 1.0 },
            socket: None,
            seed,
        }
    }

    /// Returns the ciphers to measure, one for each algorithm and key size.
    ///
    /// # Errors
    /// Fails if a cipher name is unknown, or if the plan contains an unsupported key size, message
    /// length, queue count or queue depth.
    pub(super) fn subjects(&self) -> Result<Vec<Subject>, Error> {
        if let Some(n) = self.queues.iter().find(|&&n| n == 0 || n > 16) {
            return Err(Error::input(format!(
                "--queues {n}: a device has from 1 to 16"
            )));
        }
        if let Some(n) = self.depths.iter().find(|&&n| n == 0 || n > 256) {
            return Err(Error::input(format!(
                "--depth {n}: a queue holds from 1 to 256"
            )));
        }
        if let Some(n) = self
            .lens
            .iter()
            .find(|&&n| n == 0 || n > 1 << 20 || n % 16 != 0)
        {
            return Err(Error::input(format!(
                "--len {n}: use a multiple of 16, at most 1 MiB"
            )));
        }
        let mut subjects = Vec::new();
        for name in &self.algs {
            let known = CIPHERS.map(|c| c.0);
            let &(alg, algo, keys) = CIPHERS
                .iter()
                .find(|c| c.0 == name)
                .ok_or_else(|| unknown("cipher of the device", name, &known))?;
            for &key_bits in &self.key_bits {
                // The standard does not define XTS with 192-bit keys, and devices reject it.
                if ![128, 192, 256].contains(&key_bits) || keys == 2 && key_bits == 192 {
                    return Err(Error::input(format!(
                        "--key-bits {key_bits}: {alg} of the device has none of these: use {}",
                        if keys == 2 {
                            "128 or 256"
                        } else {
                            "128, 192 or 256"
                        }
                    )));
                }
                subjects.push(Subject {
                    alg,
                    algo,
                    key_len: keys * key_bits as usize / 8,
                    key_bits,
                });
            }
        }
        Ok(subjects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had() {
        let plan = |change: fn(&mut Plan)| {
            let mut plan = Plan::new(1, true);
            change(&mut plan);
            plan.subjects()
        };
        assert_eq!(plan(|_| {}).unwrap()[0].key_len, 64);
        let e = plan(|p| p.algs = vec!["xts(aess)".into()]).unwrap_err();
        assert!(e.to_string().contains("'xts(aes)'"), "{e}");
        assert!(plan(|p| p.key_bits = vec![192]).is_err());
        assert!(plan(|p| p.lens = vec![17]).is_err());
        assert!(plan(|p| p.depths = vec![300]).is_err());
        assert!(plan(|p| p.queues = vec![0]).is_err());
    }
}
