//! Checks a request to process one message with one implementation, and processes the message.

use kiln_kernel::cipher::{Impl, Kind, Op, BLOCK};
use kiln_kernel::crypto::{Api, Errno, Transform};
use kiln_kernel::fpu::Context;
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
    /// Whether to encrypt or decrypt. For a hash, `Encrypt` computes the digest.
    pub op: Op,
    /// The complete key. For XTS, it consists of two AES keys. `None` for an algorithm without a
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
    /// The operation: `encrypt`, `decrypt` or `digest`.
    #[schemars(extend("x-role" = "key"))]
    pub op: &'static str,
    /// Size of the output.
    #[schemars(extend("unit" = "bytes", "x-role" = "main"))]
    pub bytes: usize,
    /// Number of pieces into which the input was divided. A cipher receives each piece as an entry
    /// of its request's scatterlist, and a hash as a separate update.
    #[schemars(extend("x-role" = "figure"))]
    pub pieces: usize,
}

/// A plan that has been checked, and the transform of the selected implementation with its key.
pub(crate) struct Cipher<'a> {
    imp: Impl,
    tfm: Transform,
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
        let tfm = open_with_key(plan, imp)?;
        check_iv(plan, imp)?;
        check_tag(plan, imp)?;
        check_aad(plan)?;
        if plan.divide.contains(&0) {
            return Err(Error::input(
                "--divide: a piece of 0 bytes: pieces have at least 1",
            ));
        }
        Ok(Cipher { imp, tfm, plan })
    }

    pub(crate) fn driver(&self) -> &'static str {
        self.imp.driver()
    }

    /// Encrypts, decrypts or hashes the message, and returns the resulting text or digest. When an
    /// AEAD encrypts, the tag is appended to the text. Errors refer to the data as `source`.
    ///
    /// A cipher gets one request whose scatterlist has an entry for each piece. A hash gets one
    /// update for each piece.
    ///
    /// # Errors
    /// Fails if the length is not supported or an AEAD's tag is wrong. If the tag is wrong, no part
    /// of the text is returned.
    pub(crate) fn crypt(self, data: &[u8], source: &str) -> Result<Zeroizing<Vec<u8>>, Error> {
        let driver = self.driver();
        let tag_size = self
            .tag_size(data.len())
            .map_err(|why| Error::input(format!("{source} has {}: {why}", in_bytes(data.len()))))?;
        let result = match self.imp.kind() {
            Kind::Hash => self.digest(data),
            _ => self.request(data, tag_size),
        };
        result.map_err(|e| {
            Error::Failed(match e {
                Errno::BAD_MESSAGE => format!(
                    "{source}: the tag is wrong: the key, the IV, the associated data or the text is not the one \
                     that was encrypted; nothing is written"
                ),
                e => format!("{driver}: {e}"),
            })
        })
    }

    fn digest(self, data: &[u8]) -> Result<Zeroizing<Vec<u8>>, Errno> {
        let lens: Vec<u32> = self.divide(data.len()).map(|len| len as u32).collect();
        let size = self.imp.digest_size();
        let digest = self.tfm.shash().digest(data, &lens, false, Context::Task)?;
        Ok(Zeroizing::new(digest[..size].to_vec()))
    }

    /// Copies the pieces and processes the copies in place, with a single request.
    fn request(mut self, data: &[u8], tag_size: usize) -> Result<Zeroizing<Vec<u8>>, Errno> {
        let plan = self.plan;
        let encrypt = plan.op == Op::Encrypt;
        let assoc = associated(plan);
        let tag = match (encrypt, plan.tag) {
            (true, _) => vec![0; tag_size],
            (false, tag) => tag.unwrap_or_default().to_vec(),
        };
        let text = match encrypt || plan.tag.is_some() {
            true => data.len(),
            false => data.len() - tag_size,
        };
        let copy = |bytes: &[u8]| Zeroizing::new(bytes.to_vec());
        let mut rest = data;
        let parts = self.divide(data.len()).map(|len| {
            let (piece, behind) = rest.split_at(len);
            rest = behind;
            piece
        });
        let mut pieces: Vec<_> = std::iter::once(&assoc[..])
            .chain(parts)
            .chain(std::iter::once(&tag[..]))
            .map(copy)
            .collect();
        let mut iv = [0; BLOCK];
        let given = plan.iv.unwrap_or_default();
        iv[..given.len()].copy_from_slice(given);
        let len = if encrypt { text } else { text + tag_size };
        let assoclen = assoc.len();
        if self.imp.kind() == Kind::Aead {
            let mut tfm = self.tfm.aead();
            tfm.set_tag_size(tag_size)?;
            tfm.crypt_in_place(plan.op, &mut iv, assoclen, len, &mut pieces)?;
        } else {
            self.tfm
                .crypt_in_place(plan.op, &mut iv, assoclen, len, &mut pieces)?;
        }
        // Allocate the final size up front, because growing a vector would leave copies of the text
        // in memory.
        let size = if encrypt { text + tag_size } else { text };
        let mut result = Zeroizing::new(Vec::with_capacity(data.len() + tag_size));
        for piece in &pieces[1..] {
            result.extend_from_slice(piece);
        }
        result.truncate(size);
        Ok(result)
    }

    /// Checks the length of the data, and returns the size of the tag in bytes: 0 if the algorithm
    /// is not an AEAD.
    fn tag_size(&self, len: usize) -> Result<usize, String> {
        let alg = self.plan.alg;
        if self.imp.kind() != Kind::Aead {
            return self.check_len(len).map(|()| 0);
        }
        let size = self.plan.tag.map_or(self.imp.digest_size(), <[u8]>::len);
        let text = match self.plan.op == Op::Decrypt && self.plan.tag.is_none() {
            true => len.checked_sub(size).ok_or_else(|| {
                format!("{alg} expects a tag of {size} bytes at the end: append it, or give it with --tag")
            })?,
            false => len,
        };
        self.check_len(text).map(|()| size)
    }

    /// Returns the length in bytes of the longest text that fits into a request. The length of a
    /// request is a 32-bit number that includes the tag.
    fn longest(&self) -> usize {
        u32::MAX as usize - self.imp.digest_size()
    }

    fn check_len(&self, len: usize) -> Result<(), String> {
        let alg = self.plan.alg;
        if len < alg.shortest() {
            return Err(format!("{alg} takes at least {} bytes", alg.shortest()));
        }
        let most = self.longest();
        if len > most {
            return Err(format!("{alg} takes at most {most} bytes in one request"));
        }
        let block = alg.block();
        if len % block != 0 {
            return Err(format!(
                "{alg} takes whole blocks of {block} bytes: pad the data, or use a mode without blocks, such as ctr(aes)"
            ));
        }
        // In CCM, the IV determines the size of the length field, and the message length must fit
        // into this field.
        let of_length = self
            .plan
            .iv
            .filter(|_| is_ccm(alg))
            .map_or(8, |iv| iv[0] + 1);
        if of_length < 8 && len as u64 >> (8 * of_length) != 0 {
            return Err(format!(
                "{alg} with this IV counts them in {of_length} bytes: begin the IV with a larger byte"
            ));
        }
        Ok(())
    }

    /// Returns the lengths of the pieces into which data of this length is divided.
    pub(crate) fn divide(&self, len: usize) -> impl Iterator<Item = usize> + 'a {
        let mut lengths = self.plan.divide.iter().copied().cycle();
        let mut rest = len;
        std::iter::from_fn(move || {
            let piece = lengths.next().unwrap_or(rest).min(rest);
            rest -= piece;
            (piece > 0).then_some(piece)
        })
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

/// Opens the implementation's synchronous driver and sets the key.
fn open_with_key(plan: &Plan, imp: Impl) -> Result<Transform, Error> {
    let mut tfm = Transform::open_impl(Api::get_linked(), imp, false)
        .map_err(|e| Error::Failed(format!("{}: {e}", imp.driver())))?;
    let alg = plan.alg;
    let key = match (plan.key, imp.is_keyed()) {
        (Some(key), true) => key,
        (None, false) => return Ok(tfm),
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
    let set = tfm.set_key(key).map_err(|_| {
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
            _ if is_rfc4106(alg) => " (an AES key and 4 bytes of salt)",
            _ => "",
        };
        Error::input(format!(
            "--key: this key has {}: {alg} takes {all} bytes{what}, in hex, or @FILE with hex or raw bytes",
            in_bytes(key.len())
        ))
    });
    set.map(|()| tfm)
}

fn is_rfc4106(alg: Algorithm) -> bool {
    alg.name().starts_with("rfc4106(")
}

/// Returns the associated data of the request. For rfc4106, it ends with the IV, as in Linux.
fn associated(plan: &Plan) -> Vec<u8> {
    match is_rfc4106(plan.alg) {
        true => [plan.aad, plan.iv.unwrap_or_default()].concat(),
        false => plan.aad.to_vec(),
    }
}

/// Checks the length of the associated data for rfc4106. RFC 4106 allows two lengths, because the
/// data is the SPI followed by a 32-bit or a 64-bit sequence number.
fn check_aad(plan: &Plan) -> Result<(), Error> {
    let len = plan.aad.len();
    if is_rfc4106(plan.alg) && ![8, 12].contains(&len) {
        return Err(Error::input(format!(
            "--aad: this associated data has {}: {} takes the SPI and the sequence number of an ESP packet, 8 or 12 bytes",
            in_bytes(len),
            plan.alg
        )));
    }
    Ok(())
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
        // A nonce in place of the IV (RFC 3610). The IV also contains the size of the length field,
        // and a counter of that size.
        Some(iv) if is_ccm(alg) && (7..=13).contains(&iv.len()) => Err(Error::input(format!(
            "--iv: this IV has {}: {alg} takes {size} bytes: for a nonce of {0}, write {:02x}, the nonce, and {} zero bytes",
            in_bytes(iv.len()),
            14 - iv.len(),
            15 - iv.len()
        ))),
        Some(iv) if iv.len() != size => Err(Error::input(format!(
            "--iv: this IV has {}: {alg} takes {size} bytes, written as {} hex digits",
            in_bytes(iv.len()),
            2 * size
        ))),
        // In CCM, the first byte of the IV is the size of the length field minus one (RFC 3610).
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
    use kiln_kernel::cipher;

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

    /// A division that splits blocks of every size, and also the tag at the end of a ciphertext.
    const DIVISION: [usize; 6] = [13, 1, 30, 64, 3, 130];

    fn crypt(plan: &Plan, data: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(Cipher::new(plan)?.crypt(data, "the data")?.to_vec())
    }

    #[test]
    fn the_division_repeats_until_the_data_ends() {
        let lengths = |divide: &[usize], len| -> Vec<usize> {
            let key = [(1..65).collect::<Vec<u8>>()].concat();
            Cipher::new(&plan(&key, divide))
                .unwrap()
                .divide(len)
                .collect()
        };
        assert_eq!(lengths(&[13, 1, 30], 100), [13, 1, 30, 13, 1, 30, 12]);
        assert_eq!(lengths(&[50], 100), [50, 50]);
        assert_eq!(lengths(&[], 100), [100]);
        assert!(lengths(&[5], 0).is_empty());
    }

    #[test]
    fn lengths_that_do_not_fit_in_a_request_are_refused() {
        let (key, iv) = ([3; 32], [4; 12]);
        for (alg, most) in [
            ("gcm(aes)", u32::MAX as usize - 16),
            ("rfc7539(chacha20,poly1305)", u32::MAX as usize - 16),
        ] {
            let plan = of(alg, Some(&key), Some(&iv));
            let cipher = Cipher::new(&plan).unwrap();
            assert!(cipher.check_len(most).is_ok());
            let fault = cipher.check_len(most + 1).unwrap_err().to_string();
            assert!(fault.contains(&format!("at most {most}")), "{fault}");
            assert!(most < alg.parse::<Algorithm>().unwrap().any().longest());
        }
    }

    #[test]
    fn an_aead_opens_what_it_sealed_and_nothing_else() {
        let (key, iv, aad) = ([3; 32], [4; 12], [5; 20]);
        let plan = Plan {
            aad: &aad,
            ..of("gcm(aes)", Some(&key), Some(&iv))
        };
        let text = b"nineteen characters";
        let sealed = crypt(&plan, text).unwrap();
        assert_eq!(sealed.len(), text.len() + 16);
        let behind = Plan {
            op: Op::Decrypt,
            ..plan
        };
        assert_eq!(crypt(&behind, &sealed).unwrap(), text);
        for i in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[i] ^= 1;
            let fault = crypt(&behind, &bad).unwrap_err();
            assert_eq!(fault.exit_code(), 1, "byte {i}");
        }
        let apart = Plan {
            tag: Some(&sealed[text.len()..]),
            ..behind
        };
        assert_eq!(crypt(&apart, &sealed[..text.len()]).unwrap(), text);
        assert!(crypt(&apart, &[1; 5]).is_err());
    }

    #[test]
    fn a_hash_gives_its_digest() {
        let plan = of("sha256", None, None);
        let digest = crypt(&plan, b"abc").unwrap();
        assert_eq!(digest[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(digest.len(), 32);
        let nothing = crypt(&plan, &[]).unwrap();
        assert_eq!(nothing[..4], [0xe3, 0xb0, 0xc4, 0x42]);
    }

    /// Returns the output of the primitive for a whole message. For an AEAD, the tag is appended.
    fn by_primitive(plan: &Plan, imp: Impl, data: &[u8]) -> Vec<u8> {
        let key = cipher::Context::new(imp, plan.key.unwrap_or_default()).unwrap();
        let mut tag = vec![0; imp.digest_size()];
        let iv = plan.iv.unwrap_or_default();
        let text = imp.once(Op::Encrypt, &key, iv, plan.aad, data, &mut tag);
        [text.unwrap().unwrap(), tag].concat()
    }

    /// Checks that every implementation gives the same result as the primitive, both for an
    /// undivided and for a divided message, and that decryption restores the message.
    #[test]
    fn every_implementation_gives_what_the_primitive_gives() {
        for imp in Impl::all().into_iter().filter(|imp| imp.tier().usable()) {
            let driver = imp.driver();
            let mut key: Option<Vec<u8>> = imp.key_sizes().last().map(|&n| vec![0x42; n]);
            // Make the two halves of the key differ, because XTS rejects equal halves.
            key.iter_mut().for_each(|k| k[0] = 1);
            let iv = Some(vec![3; imp.iv_size()]).filter(|iv| !iv.is_empty());
            let whole = Plan {
                imp: Some(driver),
                aad: match imp.kind() {
                    Kind::Aead => &[7; 12],
                    _ => &[],
                },
                ..of(imp.alg(), key.as_deref(), iv.as_deref())
            };
            let divided = Plan {
                divide: &DIVISION,
                ..whole
            };
            for len in [16, 64, 1008] {
                let data: Vec<u8> = (0..len).map(|i| (7 * i) as u8).collect();
                let want = by_primitive(&whole, imp, &data);
                for plan in [&whole, &divided] {
                    assert_eq!(crypt(plan, &data).unwrap(), want, "{driver}, {len} bytes");
                    if imp.kind() == Kind::Hash {
                        continue;
                    }
                    assert_ne!(want[..len], data[..], "{driver}, {len} bytes");
                    let op = Op::Decrypt;
                    let back = crypt(&Plan { op, ..*plan }, &want);
                    assert_eq!(back.unwrap(), data, "{driver}, {len} bytes");
                }
            }
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
        let nonce = fault(&of("ccm(aes)", k, Some(&[0; 13])));
        assert!(
            nonce.ends_with("write 01, the nonce, and 2 zero bytes"),
            "{nonce}"
        );
        let short = fault(&of("ccm(aes)", k, Some(&[0; 6])));
        assert!(short.ends_with("written as 32 hex digits"), "{short}");
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
        let rfc4106 = Plan {
            aad: &[0; 16],
            ..of("rfc4106(gcm(aes))", Some(&[1; 20]), Some(&[1; 8]))
        };
        assert!(fault(&rfc4106).contains("8 or 12 bytes"));
        let xts = plan(&[1; 32], &[]);
        assert!(crypt(&xts, &[1; 15]).is_err());
        assert!(crypt(&xts, &[]).is_err());
        assert!(crypt(&of("cbc(aes)", k, iv), &[1; 17]).is_err());
        let ccm = of("ccm(aes)", k, iv);
        assert!(crypt(&ccm, &[1; 65535]).is_ok());
        assert!(crypt(&ccm, &[1; 65536]).is_err());
    }
}
