//! Checks a request to process one message with one implementation, and processes the message.

use kiln_kernel::cipher::{Context, Impl, Kind, Op};
use kiln_question::algorithm::usable_impl;
use kiln_question::{Algorithm, Error};
use schemars::JsonSchema;
use serde::Serialize;
use zeroize::Zeroizing;

/// A request to process one message.
pub(crate) struct Plan<'a> {
    pub alg: Algorithm,
    /// Driver name of the implementation. If `None`, the usable implementation with the highest
    /// priority is selected.
    pub imp: Option<&'a str>,
    /// Whether to encrypt or decrypt; for a hash, `Encrypt` means to compute the digest.
    pub op: Op,
    /// The complete key, which for XTS consists of two AES keys; `None` for an algorithm without a
    /// key.
    pub key: Option<&'a [u8]>,
    /// The IV; `None` for an algorithm without an IV.
    pub iv: Option<&'a [u8]>,
    /// Associated data of an AEAD.
    pub aad: &'a [u8],
    /// The tag that an AEAD compares when it decrypts. If `None`, the tag is expected at the end of
    /// the data.
    pub tag: Option<&'a [u8]>,
    /// Lengths in bytes of the pieces into which the message is divided. The list is repeated until
    /// the data ends. If it is empty, the message is a single piece.
    pub divide: &'a [usize],
}

/// One message that was encrypted, decrypted or hashed.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "crypt",
    title = "Crypt",
    extend(
        "x-question" = "What was encrypted or decrypted?",
        "x-commands" = ["crypt"]
    )
)]
pub(super) struct Row {
    /// Name of the algorithm in the kernel's crypto API, such as `xts(aes)`.
    #[schemars(extend("x-role" = "key"))]
    pub alg: &'static str,
    /// Driver name of the implementation, such as `xts-aes-aesni`.
    #[serde(rename = "impl")]
    #[schemars(extend("x-role" = "key"))]
    pub imp: &'static str,
    /// `encrypt`, `decrypt` or `digest`.
    #[schemars(extend("x-role" = "key"))]
    pub op: &'static str,
    /// Size of the output.
    #[schemars(extend("unit" = "bytes", "x-role" = "main"))]
    pub bytes: usize,
    /// Number of scatterlist pieces into which the input was divided.
    #[schemars(extend("x-role" = "figure"))]
    pub pieces: usize,
}

/// A plan that has been checked, with the selected implementation and the expanded key.
pub(crate) struct Cipher<'a> {
    imp: Impl,
    key: Context,
    plan: &'a Plan<'a>,
}

impl<'a> Cipher<'a> {
    /// Checks the plan and sets the key. This happens before any data is read.
    pub(crate) fn new(plan: &'a Plan<'a>) -> Result<Cipher<'a>, Error> {
        let imp = match plan.imp {
            Some(driver) => usable_impl(plan.alg, driver)?,
            None => plan.alg.best(),
        };
        check_op(plan, imp)?;
        let key = key(plan, imp)?;
        check_iv(plan, imp)?;
        check_tag(plan, imp)?;
        if plan.divide.contains(&0) {
            return Err(Error::input(
                "--divide: a piece of 0 bytes: pieces have at least 1",
            ));
        }
        Ok(Cipher { imp, key, plan })
    }

    pub(crate) fn driver(&self) -> &'static str {
        self.imp.driver()
    }

    /// Encrypts, decrypts or hashes the message in `pieces`, and returns the resulting text or
    /// digest. When an AEAD encrypts, the tag is appended to the text.
    ///
    /// # Errors
    /// Fails if the length is not supported or an AEAD's tag is wrong. If the tag is wrong, no part
    /// of the text is returned.
    pub(crate) fn crypt(&self, pieces: &[Vec<u8>]) -> Result<Zeroizing<Vec<u8>>, Error> {
        let whole = Zeroizing::new(pieces.concat());
        let alg = self.plan.alg;
        let (aead, open) = (self.imp.kind() == Kind::Aead, self.plan.op == Op::Decrypt);
        let mut tag = vec![0; self.imp.digest_size()];
        let mut text = &whole[..];
        if aead && open {
            tag = match self.plan.tag {
                Some(tag) => tag.to_vec(),
                None => {
                    let short = || {
                        Error::input(format!(
                            "data of {} bytes cannot end with the tag of {alg}, {} bytes: append the tag, or give it with --tag",
                            whole.len(),
                            tag.len()
                        ))
                    };
                    let at = whole.len().checked_sub(tag.len()).ok_or_else(short)?;
                    text = &whole[..at];
                    whole[at..].to_vec()
                }
            };
        }
        self.check_len(text.len())?;
        let hash = self.imp.kind() == Kind::Hash;
        let iv = self.plan.iv.unwrap_or_default();
        let ran = self
            .imp
            .once(self.plan.op, &self.key, iv, self.plan.aad, text, &mut tag);
        let result = match ran {
            Ok(Some(result)) => Zeroizing::new(result),
            Ok(None) => {
                return Err(Error::Failed(format!(
                "{}: the tag is wrong: not this key, IV, associated data or text; nothing is written",
                self.imp.driver()
            )))
            }
            Err(e) => return Err(Error::Failed(format!("{}: {e}", self.imp.driver()))),
        };
        if hash || aead && !open {
            // Allocate the final size up front, because growing a vector would leave copies of the
            // text in memory.
            let mut all = Zeroizing::new(Vec::with_capacity(result.len() + tag.len()));
            all.extend_from_slice(&result);
            all.extend_from_slice(&tag);
            return Ok(all);
        }
        Ok(result)
    }

    fn check_len(&self, len: usize) -> Result<(), Error> {
        let alg = self.plan.alg;
        let fault = |why: String| {
            Err(Error::input(format!(
                "the data has {}: {alg} {why}",
                in_bytes(len)
            )))
        };
        if len < alg.shortest() {
            return fault(format!("takes at least {} bytes", alg.shortest()));
        }
        if len > alg.longest() {
            return fault(format!("takes at most {} bytes with one IV", alg.longest()));
        }
        if len % alg.block() != 0 {
            return fault(format!("takes whole blocks of {} bytes", alg.block()));
        }
        // In CCM, the IV determines the size of the length field, and the message length must fit
        // into this field.
        let of_length = self
            .plan
            .iv
            .filter(|_| is_ccm(alg))
            .map_or(8, |iv| iv[0] + 1);
        if of_length < 8 && len as u64 >> (8 * of_length) != 0 {
            return fault(format!(
                "with this IV counts them in {of_length} bytes: begin the IV with a larger byte"
            ));
        }
        Ok(())
    }

    /// Divides the data into pieces of the planned lengths, each in its own buffer.
    pub(crate) fn cut(&self, mut data: &[u8]) -> Vec<Vec<u8>> {
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

fn is_ccm(alg: Algorithm) -> bool {
    alg.name().starts_with("ccm(")
}

fn check_op(plan: &Plan, imp: Impl) -> Result<(), Error> {
    if imp.kind() == Kind::Hash && plan.op == Op::Decrypt {
        return Err(Error::input(format!(
            "--decrypt: {} is a hash: leave --decrypt out",
            plan.alg
        )));
    }
    Ok(())
}

fn key(plan: &Plan, imp: Impl) -> Result<Context, Error> {
    let alg = plan.alg;
    let key = match (plan.key, imp.is_keyed()) {
        (Some(key), true) => key,
        (None, false) => &[],
        (None, true) => {
            return Err(Error::input(format!(
                "--key is missing: {alg} needs one: add --key HEX or --key @FILE"
            )))
        }
        (Some(_), false) => {
            return Err(Error::input(format!(
                "--key: {alg} takes none: leave --key out"
            )))
        }
    };
    Context::new(imp, key).map_err(|e| {
        let sizes = imp.key_sizes();
        let all = match sizes.as_slice() {
            [first, .., last] if sizes.len() > 8 => format!("{first} to {last}"),
            _ => sizes
                .iter()
                .map(usize::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        };
        let what = match alg.name() {
            "xts(aes)" => " (two AES keys)",
            name if name.starts_with("rfc4106(") => " (an AES key and 4 bytes of salt)",
            _ => "",
        };
        Error::input(format!(
            "--key: this key has {}: {alg} takes {all} bytes{what}, in hex",
            in_bytes(e.0)
        ))
    })
}

fn in_bytes(count: usize) -> String {
    format!("{count} byte{}", if count == 1 { "" } else { "s" })
}

fn check_iv(plan: &Plan, imp: Impl) -> Result<(), Error> {
    let (alg, size) = (plan.alg, imp.iv_size());
    match plan.iv {
        None if size > 0 => Err(Error::input(format!(
            "--iv is missing: {alg} needs one: add --iv HEX"
        ))),
        Some(_) if size == 0 => Err(Error::input(format!(
            "--iv: {alg} takes none: leave --iv out"
        ))),
        Some(iv) if iv.len() != size => Err(Error::input(format!(
            "--iv: this IV has {}: {alg} takes {size} bytes, written as {} hex digits",
            in_bytes(iv.len()),
            2 * size
        ))),
        // RFC 3610 defines the first byte as the size of the length field minus one.
        Some(iv) if is_ccm(alg) && !(1..=7).contains(&iv[0]) => Err(Error::input(format!(
            "--iv: first byte {:02x}: {alg} takes 01 to 07, the width of its counter in bytes minus 1",
            iv[0]
        ))),
        _ => Ok(()),
    }
}

fn check_tag(plan: &Plan, imp: Impl) -> Result<(), Error> {
    let alg = plan.alg;
    if imp.kind() != Kind::Aead {
        let given = [
            ("--aad", !plan.aad.is_empty()),
            ("--tag", plan.tag.is_some()),
        ];
        return match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Error::input(format!(
                "{flag}: {alg} is not an AEAD: leave {flag} out"
            ))),
            None => Ok(()),
        };
    }
    match plan.tag {
        Some(_) if plan.op == Op::Encrypt => Err(Error::input(
            "--tag: encryption appends the tag to the text: leave --tag out",
        )),
        Some(tag) if !imp.tag_sizes().contains(&tag.len()) => {
            let sizes: Vec<_> = imp.tag_sizes().iter().map(usize::to_string).collect();
            Err(Error::input(format!(
                "--tag: this tag has {}: {alg} takes {} bytes",
                in_bytes(tag.len()),
                sizes.join(", ")
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan<'a>(key: &'a [u8], divide: &'a [usize]) -> Plan<'a> {
        Plan {
            alg: Algorithm::XTS_AES,
            imp: Some("xts-aes-generic"),
            op: Op::Encrypt,
            key: Some(key),
            iv: Some(&[7; 16]),
            aad: &[],
            tag: None,
            divide,
        }
    }

    fn of<'a>(alg: &str, key: Option<&'a [u8]>, iv: Option<&'a [u8]>) -> Plan<'a> {
        Plan {
            alg: alg.parse().unwrap(),
            imp: None,
            key,
            iv,
            ..plan(&[], &[])
        }
    }

    #[test]
    fn pieces_give_what_the_whole_gives() {
        let key: Vec<u8> = (0..64).collect();
        let data: Vec<u8> = (0..100).collect();
        let whole = plan(&key, &[]);
        let whole = Cipher::new(&whole).unwrap();
        let want = whole.crypt(&whole.cut(&data)).unwrap();
        let parts = plan(&key, &[13, 1, 30]);
        let parts = Cipher::new(&parts).unwrap();
        let pieces = parts.cut(&data);
        let lengths: Vec<_> = pieces.iter().map(Vec::len).collect();
        assert_eq!(lengths, [13, 1, 30, 13, 1, 30, 12]);
        assert_eq!(parts.crypt(&pieces).unwrap(), want);
    }

    #[test]
    fn texts_longer_than_the_counter_are_refused() {
        let (key, iv) = ([3; 32], [4; 12]);
        for (alg, most) in [
            ("gcm(aes)", (1 << 36) - 32),
            ("rfc7539(chacha20,poly1305)", (1 << 38) - 64),
        ] {
            let plan = of(alg, Some(&key), Some(&iv));
            let cipher = Cipher::new(&plan).unwrap();
            assert!(cipher.check_len(most).is_ok());
            let fault = cipher.check_len(most + 1).unwrap_err().to_string();
            assert!(fault.contains(&format!("at most {most}")), "{fault}");
        }
    }

    #[test]
    fn an_aead_opens_what_it_sealed_and_nothing_else() {
        let (key, iv, aad) = ([3; 32], [4; 12], [5; 20]);
        let plan = Plan {
            aad: &aad,
            ..of("gcm(aes)", Some(&key), Some(&iv))
        };
        let text = b"nineteen characters".to_vec();
        let seal = Cipher::new(&plan).unwrap();
        let sealed = seal.crypt(std::slice::from_ref(&text)).unwrap();
        assert_eq!(sealed.len(), text.len() + 16);
        let behind = Plan {
            op: Op::Decrypt,
            ..plan
        };
        let open = Cipher::new(&behind).unwrap();
        assert_eq!(*open.crypt(&[sealed.to_vec()]).unwrap(), text);
        for i in 0..sealed.len() {
            let mut bad = sealed.to_vec();
            bad[i] ^= 1;
            let fault = open.crypt(&[bad]).unwrap_err();
            assert_eq!(fault.exit_code(), 1, "byte {i}");
        }
        let apart = Plan {
            tag: Some(&sealed[text.len()..]),
            ..behind
        };
        let open = Cipher::new(&apart).unwrap();
        assert_eq!(*open.crypt(&[sealed[..text.len()].to_vec()]).unwrap(), text);
        assert!(open.crypt(&[vec![1; 5]]).is_err());
    }

    #[test]
    fn a_hash_gives_its_digest() {
        let plan = of("sha256", None, None);
        let digest = Cipher::new(&plan)
            .unwrap()
            .crypt(&[b"abc".to_vec()])
            .unwrap();
        assert_eq!(digest[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(digest.len(), 32);
        let nothing = Cipher::new(&plan).unwrap().crypt(&[]).unwrap();
        assert_eq!(nothing[..4], [0xe3, 0xb0, 0xc4, 0x42]);
    }

    /// Every cipher must decrypt its own output, and every hash must return a digest.
    #[test]
    fn every_algorithm_has_its_turn() {
        for alg in Algorithm::all() {
            let imp = alg.any();
            let key: Option<Vec<u8>> = imp.key_sizes().last().map(|&n| vec![0x42; n]);
            let mut key = key;
            // Make the two halves of the key differ, because XTS rejects equal halves.
            key.iter_mut().for_each(|k| k[0] = 1);
            let iv = Some(vec![3; imp.iv_size()]).filter(|iv| !iv.is_empty());
            let plan = of(alg.name(), key.as_deref(), iv.as_deref());
            let data = vec![9; 64];
            let result = Cipher::new(&plan)
                .unwrap()
                .crypt(std::slice::from_ref(&data))
                .unwrap();
            if imp.kind() == Kind::Hash {
                assert_eq!(result.len(), imp.digest_size(), "{alg}");
                continue;
            }
            let back = Plan {
                op: Op::Decrypt,
                ..plan
            };
            let back = Cipher::new(&back)
                .unwrap()
                .crypt(&[result.to_vec()])
                .unwrap();
            assert_eq!(*back, data, "{alg}");
            assert_ne!(result[..64], data[..], "{alg}");
        }
    }

    #[test]
    fn faults() {
        let fault = |plan: &Plan| {
            let e = Cipher::new(plan).err().unwrap();
            assert_eq!(e.exit_code(), 2);
            e.to_string()
        };
        assert!(fault(&plan(&[1; 31], &[])).contains("31 bytes"));
        assert!(fault(&plan(&[1; 32], &[5, 0])).contains("0 bytes"));
        let mut short_iv = plan(&[1; 32], &[]);
        short_iv.iv = Some(&[1; 15]);
        assert!(fault(&short_iv).contains("--iv: this IV has 15 bytes"));
        let (k, iv) = (Some(&[1u8; 16][..]), Some(&[1u8; 16][..]));
        assert!(fault(&of("ecb(aes)", k, iv)).contains("takes none"));
        assert!(fault(&of("sha1", k, None)).contains("takes none"));
        assert!(fault(&of("cmac(aes)", None, None)).contains("--key is missing"));
        assert!(fault(&of("cbc(aes)", k, None)).contains("--iv is missing"));
        assert!(fault(&of("ccm(aes)", k, Some(&[0; 16]))).contains("01 to 07"));
        let aad = Plan {
            aad: &[1],
            ..of("sha1", None, None)
        };
        assert!(fault(&aad).contains("not an AEAD"));
        let tag = Plan {
            tag: Some(&[1; 3]),
            op: Op::Decrypt,
            ..of("gcm(aes)", k, Some(&[1; 12]))
        };
        assert!(fault(&tag).contains("3 bytes"));
        let tag = Plan {
            op: Op::Encrypt,
            ..tag
        };
        assert!(fault(&tag).contains("leave --tag out"));
        let hash = Plan {
            op: Op::Decrypt,
            ..of("sha1", None, None)
        };
        assert!(fault(&hash).contains("is a hash"));
        let plan = plan(&[1; 32], &[]);
        let cipher = Cipher::new(&plan).unwrap();
        assert!(cipher.crypt(&cipher.cut(&[1; 15])).is_err());
        assert!(cipher.crypt(&cipher.cut(&[])).is_err());
        let cbc = of("cbc(aes)", k, iv);
        assert!(Cipher::new(&cbc).unwrap().crypt(&[vec![1; 17]]).is_err());
        let ccm = of("ccm(aes)", k, iv);
        assert!(Cipher::new(&ccm).unwrap().crypt(&[vec![1; 65535]]).is_ok());
        assert!(Cipher::new(&ccm).unwrap().crypt(&[vec![1; 65536]]).is_err());
    }
}
