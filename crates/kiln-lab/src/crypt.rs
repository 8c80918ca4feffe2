//! One message through one implementation.

use kiln_kernel::xts::{Impl, Key, Op, BLOCK};

use crate::algorithm::usable_impl;
use crate::{Algorithm, Error};

/// What to do with a message.
pub struct Plan<'a> {
    /// Algorithm.
    pub alg: Algorithm,
    /// Driver name; the one of highest priority that can run here.
    pub imp: Option<&'a str>,
    /// En- or decrypt.
    pub op: Op,
    /// The whole key: for XTS two AES keys.
    pub key: &'a [u8],
    /// IV, 16 bytes.
    pub iv: &'a [u8],
    /// Lengths of the pieces the message lies in, in turn and from the start again; empty means one piece.
    pub divide: &'a [usize],
}

/// All that `plan` needs, found and checked before any data is read.
pub struct Cipher<'a> {
    imp: Impl,
    key: Key,
    iv: [u8; BLOCK],
    plan: &'a Plan<'a>,
}

impl<'a> Cipher<'a> {
    /// Checks the plan.
    pub fn new(plan: &'a Plan<'a>) -> Result<Cipher<'a>, Error> {
        let imp = match plan.imp {
            Some(driver) => usable_impl(plan.alg, driver)?,
            None => Impl::best(),
        };
        let key = Key::new(plan.key)
            .map_err(|e| Error::input(format!("--key: {e} (two AES keys), in hex")))?;
        let iv = plan.iv.try_into().map_err(|_| {
            Error::input(format!(
                "--iv: {} bytes: {} takes {BLOCK}, {} hex digits",
                plan.iv.len(),
                plan.alg,
                2 * BLOCK
            ))
        })?;
        if plan.divide.contains(&0) {
            return Err(Error::input(
                "--divide: a piece of 0 bytes: pieces have at least 1",
            ));
        }
        Ok(Cipher { imp, key, iv, plan })
    }

    /// Driver name of the implementation.
    pub fn driver(&self) -> &'static str {
        self.imp.driver()
    }

    /// The message that lies in `pieces`, in pieces of the same lengths.
    pub fn crypt(&self, pieces: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Error> {
        let whole = pieces.concat();
        let shortest = self.plan.alg.shortest();
        if whole.len() < shortest {
            return Err(Error::input(format!(
                "data of {} bytes: {} takes at least {shortest}",
                whole.len(),
                self.plan.alg
            )));
        }
        let mut result = vec![0; whole.len()];
        self.imp
            .crypt(self.plan.op, &self.key, &self.iv, &whole, &mut result)
            .map_err(|e| Error::input(e.to_string()))?;
        let mut rest = &result[..];
        Ok(pieces
            .iter()
            .map(|piece| {
                let (this, later) = rest.split_at(piece.len());
                rest = later;
                this.to_vec()
            })
            .collect())
    }

    /// Cuts data as the plan says, each piece in memory of its own.
    pub fn cut(&self, mut data: &[u8]) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        let mut lengths = self.plan.divide.iter().copied().cycle();
        while !data.is_empty() {
            let length = lengths.next().unwrap_or(data.len()).min(data.len());
            let (piece, rest) = data.split_at(length);
            pieces.push(piece.to_vec());
            data = rest;
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan<'a>(key: &'a [u8], divide: &'a [usize]) -> Plan<'a> {
        Plan {
            alg: Algorithm::XtsAes,
            imp: Some("xts-aes-generic"),
            op: Op::Encrypt,
            key,
            iv: &[7; 16],
            divide,
        }
    }

    #[test]
    fn pieces_give_what_the_whole_gives() {
        let key: Vec<u8> = (0..64).collect();
        let data: Vec<u8> = (0..100).collect();
        let whole = plan(&key, &[]);
        let whole = Cipher::new(&whole).unwrap();
        let want = whole.crypt(&whole.cut(&data)).unwrap();
        assert_eq!(want.len(), 1);
        let parts = plan(&key, &[13, 1, 30]);
        let parts = Cipher::new(&parts).unwrap();
        let got = parts.crypt(&parts.cut(&data)).unwrap();
        let lengths: Vec<_> = got.iter().map(Vec::len).collect();
        assert_eq!(lengths, [13, 1, 30, 13, 1, 30, 12]);
        assert_eq!(got.concat(), want[0]);
    }

    #[test]
    fn faults() {
        let fault = |plan: &Plan| Cipher::new(plan).err().unwrap().to_string();
        assert!(fault(&plan(&[1; 31], &[])).contains("31 bytes"));
        assert!(fault(&plan(&[1; 32], &[5, 0])).contains("0 bytes"));
        let mut short_iv = plan(&[1; 32], &[]);
        short_iv.iv = &[1; 15];
        assert!(fault(&short_iv).contains("--iv: 15 bytes"));
        let plan = plan(&[1; 32], &[]);
        let cipher = Cipher::new(&plan).unwrap();
        assert!(cipher.crypt(&cipher.cut(&[1; 15])).is_err());
        assert!(cipher.crypt(&cipher.cut(&[])).is_err());
    }
}
