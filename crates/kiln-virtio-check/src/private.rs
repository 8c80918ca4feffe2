//! Checks operations with private keys. What one key of a pair encrypts or signs, the other key
//! must decrypt or accept, and wrong signatures must be rejected. Signing, the blinding of
//! decryption, and the padding of encryption need random numbers. A sandbox that is too strict can
//! block access to random numbers, and processes forked from a parent whose generator is already
//! seeded may all draw the same numbers.

use kiln_virtio::sample;
use kiln_virtio::wire::algo::akcipher;
use kiln_virtio::wire::data::{self, Mode};
use kiln_virtio::wire::{session, Action, Control, Create, Operation, Request, Service, Status};

use crate::bits::name_status;
use crate::case::{Case, Group};
use crate::conform::{not_created, not_destroyed, open};
use crate::link::{Link, Offer, Target};
use crate::rule::{self, Rule};

const KIND: (Group, Rule) = (Group::Keys, rule::AKCIPHER);

const DIGEST: [u8; 32] = [0x33; 32];

/// Number of guests whose random numbers are compared.
const GUESTS: usize = 3;

/// An open session that holds a private key.
struct Key<'a> {
    link: &'a mut Link,
    session: u64,
}

impl<'a> Key<'a> {
    fn new(link: &'a mut Link, algo: u32, para: [u32; 2], key: &[u8]) -> Result<Key<'a>, String> {
        let create = Create::Akcipher(session::Akcipher {
            algo,
            key_type: akcipher::PRIVATE,
            key_len: key.len() as u32,
            para,
        });
        let control = Control::Create {
            create,
            key,
            auth_key: &[],
        };
        let session = link.control(&control)?.map_err(not_created)?;
        Ok(Key { link, session })
    }

    fn ask(
        &mut self,
        action: Action,
        src: &[u8],
        aad: &[u8],
        dst_len: usize,
    ) -> Result<Result<Vec<u8>, Status>, String> {
        self.link.request(&Request {
            action,
            mode: Mode::Session(self.session),
            op: Operation::Akcipher(data::Akcipher {
                src_len: src.len() as u32,
                dst_len: dst_len as u32,
            }),
            iv: &[],
            src,
            aad,
        })
    }

    fn run(&mut self, action: Action, src: &[u8], room: usize) -> Result<Vec<u8>, String> {
        let what = format!("{action:?}").to_lowercase();
        self.ask(action, src, &[], room)?
            .map_err(|status| format!("{what}: status {}", name_status(status as u8)))
    }

    /// Signs a digest, then checks that the signature is accepted and that a wrong signature is
    /// rejected.
    fn signs(&mut self, room: usize) -> Result<(), String> {
        let signature = self.run(Action::Sign, &DIGEST, room)?;
        let mut other = DIGEST;
        other[31] ^= 1;
        if let Err(status) = self.ask(Action::Verify, &signature, &DIGEST, DIGEST.len())? {
            return Err(format!(
                "verifying the device's own signature: status {}",
                name_status(status as u8)
            ));
        }
        match self.ask(Action::Verify, &signature, &other, other.len())? {
            Err(Status::KeyRejected) => Ok(()),
            Err(status) => Err(format!(
                "verifying a signature of another digest: status {}, not {}",
                name_status(status as u8),
                name_status(Status::KeyRejected as u8)
            )),
            Ok(_) => Err("verifying a signature of another digest: status ok (0)".into()),
        }
    }

    fn end(self) -> Result<(), String> {
        let (service, session) = (Service::Akcipher, self.session);
        match self.link.control(&Control::Destroy { service, session })? {
            Ok(_) => Ok(()),
            Err(status) => Err(not_destroyed(status)),
        }
    }
}

fn rsa_there_and_back(link: &mut Link) -> Result<(), String> {
    let mut key = Key::new(link, akcipher::RSA, [akcipher::RAW_PADDING, 0], sample::RSA)?;
    let mut message = [0x5a; 64];
    message[0] = 0;
    let there = key.run(Action::Encrypt, &message, 64)?;
    let back = key.run(Action::Decrypt, &there, 64)?;
    if back != message || there == message {
        return Err("decrypting does not return what was encrypted".into());
    }
    key.end()
}

fn rsa_signs(link: &mut Link) -> Result<(), String> {
    let padding = [akcipher::PKCS1_PADDING, akcipher::RSA_SHA256];
    let mut key = Key::new(link, akcipher::RSA, padding, sample::RSA)?;
    key.signs(64)?;
    key.end()
}

fn ecdsa_signs(link: &mut Link) -> Result<(), String> {
    let mut key = Key::new(link, akcipher::ECDSA, [akcipher::P256, 0], sample::P256)?;
    for _ in 0..4 {
        key.signs(72)?;
    }
    key.end()
}

/// Encrypts the same message for several guests. PKCS #1 pads the message with random bytes
/// (RFC 8017, 7.2.1), so two equal results mean that the device drew the same random numbers twice.
/// ECDSA nonces could then repeat too, and a repeated nonce can reveal the private key.
fn random_numbers_differ(target: &Target) -> Result<(), String> {
    let mut texts = Vec::new();
    for _ in 0..GUESTS {
        let link = &mut open(target, 0)?;
        let padding = [akcipher::PKCS1_PADDING, akcipher::RSA_NO_HASH];
        let mut key = Key::new(link, akcipher::RSA, padding, sample::RSA)?;
        for _ in 0..2 {
            let text = key.run(Action::Encrypt, &DIGEST, 64)?;
            if key.run(Action::Decrypt, &text, 64)? != DIGEST {
                return Err("decrypting does not return what was encrypted".into());
            }
            texts.push(text);
        }
        key.end()?;
    }
    require_all_different(&texts)
}

fn require_all_different(texts: &[Vec<u8>]) -> Result<(), String> {
    for (n, text) in texts.iter().enumerate() {
        if let Some(earlier) = texts[..n].iter().position(|other| other == text) {
            return Err(format!(
                "encryptions {} and {} of one message are equal, although their padding is random: \
                 the device draws the same random numbers twice",
                earlier + 1,
                n + 1
            ));
        }
    }
    Ok(())
}

/// The name of a check, the algorithm that the check needs, and the function that performs it.
type Check = (&'static str, u32, fn(&mut Link) -> Result<(), String>);

pub(crate) fn cases(offer: &Offer) -> Vec<Case> {
    let checks: [Check; 3] = [
        (
            "private key: rsa raw, there and back",
            akcipher::RSA,
            rsa_there_and_back,
        ),
        (
            "private key: rsa pkcs1-sha256 signs",
            akcipher::RSA,
            rsa_signs,
        ),
        (
            "private key: ecdsa-p256 signs",
            akcipher::ECDSA,
            ecdsa_signs,
        ),
    ];
    let case = |(name, algo, check): Check| match offer.config.offers(Service::Akcipher, algo) {
        true => Case::new(KIND, name, move |target| check(&mut open(target, 0)?)),
        false => Case::skip(KIND, name, "not offered"),
    };
    let name = "private key: random numbers of several guests differ";
    let random = match offer.config.offers(Service::Akcipher, akcipher::RSA) {
        true => Case::new(KIND, name, random_numbers_differ),
        false => Case::skip(KIND, name, "not offered"),
    };
    checks.into_iter().map(case).chain([random]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_encryptions_are_found() {
        let texts: Vec<Vec<u8>> = (0..4).map(|n| vec![n, 1]).collect();
        assert_eq!(require_all_different(&texts), Ok(()));
        let twice = [&texts[..], &texts[1..2]].concat();
        let fault = require_all_different(&twice).unwrap_err();
        assert!(fault.contains("encryptions 2 and 5 "), "{fault}");
    }
}
