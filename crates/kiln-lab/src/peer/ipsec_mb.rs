//! Intel's Multi-Buffer Crypto for IPsec as a peer, called as its README and its header's comments tell a user to call it.
//!
//! A manager is allocated and initialised for the best instructions this CPU has (`alloc_mb_mgr`, `init_mb_mgr_auto`).
//! AES-GCM, GHASH and hashes of one buffer have functions of the manager's that work at once (`IMB_AES256_GCM_ENC`,
//! `IMB_SHA256`): a key's precomputed data is made once. All else goes through jobs: `IMB_GET_NEXT_JOB`, its fields,
//! `IMB_SUBMIT_JOB`, until there are no more messages, then `IMB_FLUSH_JOB` until nothing is left. The library works on
//! the jobs of several messages at a time where one alone cannot fill the CPU (CBC encryption, CMAC, CCM, hashes, HMAC):
//! such rows are marked, for they say what a stream of messages gets, and not what one does.
//!
//! Hashes have a row of each.

mod layout;

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use super::each::{ccm_nonce, each, same_tag, Call, Memory};
use super::library::{Find, Opened};
use super::Peer;
use crate::speed::{Candidate, Messages, Op, Run, Shape, Work};
use layout::*;

const FIND: Find = Find {
    peer: "ipsec-mb",
    variable: "KILN_IPSEC_MB",
    names: &["libIPSec_MB.so.1"],
    package: "libipsec-mb1",
};

/// `IMB_VERSION` of the header whose structures are known: this and all of its patches.
const KNOWN: c_uint = 0x1_0300;

struct Functions {
    version: String,
    alloc: unsafe extern "C" fn(u64) -> Mgr,
    free: unsafe extern "C" fn(Mgr),
    init: unsafe extern "C" fn(Mgr, *mut c_uint),
    /// Last, so that it goes last.
    opened: Opened,
}

/// The library, its functions looked up.
#[derive(Clone)]
pub struct IpsecMb(Arc<Functions>);

/// A manager.
struct Manager {
    library: IpsecMb,
    at: Mgr,
}

impl IpsecMb {
    /// Loads it.
    ///
    /// # Errors
    /// A line that says why not, and what would help.
    pub fn load() -> Result<IpsecMb, String> {
        let found = FIND.load(Functions::load).map(|f| IpsecMb(Arc::new(f)))?;
        // Whether its managers are what they should be.
        found.manager()?;
        Ok(found)
    }

    fn manager(&self) -> Result<Manager, String> {
        let f = &*self.0;
        let mut arch = 0;
        // SAFETY: as the header says.
        let at = unsafe { (f.alloc)(0) };
        if at.is_null() {
            return Err(format!("{} has no memory for a manager", self.provider()));
        }
        let manager = Manager {
            library: self.clone(),
            at,
        };
        // SAFETY: a new manager; its errno is where version 1.3 has it.
        let error: c_int = unsafe {
            (f.init)(at, &mut arch);
            at.cast::<u8>().add(ERRNO).cast::<c_int>().read()
        };
        if arch == 0 || error != 0 {
            return Err(format!(
                "{} does not run on this CPU, or its self-test fails",
                self.provider()
            ));
        }
        manager.check()?;
        Ok(manager)
    }
}

impl Functions {
    fn load(o: &Opened) -> Result<Functions, String> {
        // SAFETY: the types are those of intel-ipsec-mb.h; the library stays open in `opened`.
        unsafe {
            let number: unsafe extern "C" fn() -> c_uint = o.get("imb_get_version")?;
            let text: unsafe extern "C" fn() -> *const c_char = o.get("imb_get_version_str")?;
            let text = CStr::from_ptr(text()).to_string_lossy().into_owned();
            if number() & !0xff != KNOWN {
                return Err(format!(
                    "{} is {text}: the structures known are those of 1.3",
                    o.file
                ));
            }
            Ok(Functions {
                version: text,
                alloc: o.get("alloc_mb_mgr")?,
                free: o.get("free_mb_mgr")?,
                init: o.get("init_mb_mgr_auto")?,
                opened: o.clone(),
            })
        }
    }
}

impl Manager {
    /// The function at an offset.
    ///
    /// # Safety
    /// `T` is its type.
    unsafe fn function<T: Copy>(&self, offset: usize) -> Result<T, String> {
        // SAFETY: within the manager, which has about a thousand bytes before its jobs.
        unsafe {
            let at = self.at.cast::<u8>().add(offset);
            if at.cast::<usize>().read() == 0 {
                return Err(format!("{} lacks a function", self.library.provider()));
            }
            Ok(at.cast::<T>().read())
        }
    }

    /// Some functions have symbols as well: they are where they should be, or the manager is another one.
    fn check(&self) -> Result<(), String> {
        let known = [
            (SHA256, "sha256_", ["sse", "avx", "avx2", "avx512"]),
            (SHA512, "sha512_", ["sse", "avx", "avx2", "avx512"]),
            (
                GHASH,
                "ghash_",
                ["sse", "avx_gen2", "avx512", "vaes_avx512"],
            ),
            (
                GHASH_PRE,
                "ghash_pre_",
                ["sse", "avx_gen2", "avx_gen2", "vaes_avx512"],
            ),
        ];
        for (offset, name, ends) in known {
            // SAFETY: read as an address, not called.
            let here: usize = unsafe { self.function(offset)? };
            let one_of = ends.iter().any(|end| {
                // SAFETY: as above.
                let symbol = unsafe { self.library.0.opened.get::<usize>(&format!("{name}{end}")) };
                symbol == Ok(here)
            });
            if !one_of {
                return Err(format!(
                    "{}: its manager is not laid out as version 1.3's",
                    self.library.provider()
                ));
            }
        }
        Ok(())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: from alloc_mb_mgr, freed once.
        unsafe { (self.library.0.free)(self.at) };
    }
}

impl Peer for IpsecMb {
    fn name(&self) -> &'static str {
        FIND.peer
    }

    fn version(&self) -> &str {
        &self.0.version
    }

    fn file(&self) -> &str {
        &self.0.opened.file
    }

    fn candidates(&self, work: &Work) -> Result<Vec<Candidate<'static>>, String> {
        let bits = work.key_bits;
        let alg: &str = &work.spec.name;
        let one = |name: String, run: Run<'static>| {
            Candidate::primitive(name, self.provider(), None, run)
        };
        let many = |name: String, run: Run<'static>| Candidate {
            together: true,
            ..one(name, run)
        };
        let lacks = || Err(format!("{} has no {alg} with AES-{bits}", self.provider()));
        Ok(match alg {
            "gcm(aes)" => vec![one(format!("IMB_AES{bits}_GCM"), self.gcm(work)?)],
            "ghash" => vec![one("IMB_GHASH".into(), self.ghash(work)?)],
            "ecb(aes)" => vec![one(format!("IMB_CIPHER_ECB_{bits}"), self.jobs(work)?)],
            "ctr(aes)" => vec![one(format!("IMB_CIPHER_CNTR_{bits}"), self.jobs(work)?)],
            "cbc(aes)" if work.op == Op::Encrypt => {
                vec![many(format!("IMB_CIPHER_CBC_{bits}"), self.jobs(work)?)]
            }
            "cbc(aes)" => vec![one(format!("IMB_CIPHER_CBC_{bits}"), self.jobs(work)?)],
            "rfc7539(chacha20,poly1305)" => {
                vec![one("IMB_CIPHER_CHACHA20_POLY1305".into(), self.jobs(work)?)]
            }
            "ccm(aes)" | "cmac(aes)" if bits == 192 => return lacks(),
            "ccm(aes)" => vec![many(format!("IMB_CIPHER_CCM_{bits}"), self.jobs(work)?)],
            "cmac(aes)" => vec![many(format!("IMB_AUTH_AES_CMAC_{bits}"), self.jobs(work)?)],
            "hmac(sha1)" => vec![many("IMB_AUTH_HMAC_SHA_1".into(), self.jobs(work)?)],
            "hmac(sha256)" => vec![many("IMB_AUTH_HMAC_SHA_256".into(), self.jobs(work)?)],
            "hmac(sha512)" => vec![many("IMB_AUTH_HMAC_SHA_512".into(), self.jobs(work)?)],
            "sha1" => vec![
                one("IMB_SHA1".into(), self.hash(SHA1)?),
                many("IMB_AUTH_SHA_1".into(), self.jobs(work)?),
            ],
            "sha256" => vec![
                one("IMB_SHA256".into(), self.hash(SHA256)?),
                many("IMB_AUTH_SHA_256".into(), self.jobs(work)?),
            ],
            "sha512" => vec![
                one("IMB_SHA512".into(), self.hash(SHA512)?),
                many("IMB_AUTH_SHA_512".into(), self.jobs(work)?),
            ],
            _ => Vec::new(),
        })
    }
}

impl IpsecMb {
    fn gcm(&self, work: &Work) -> Result<Run<'static>, String> {
        let manager = self.manager()?;
        let which = (work.key.len() - 16) / 8 * 8;
        let decrypt = work.op == Op::Decrypt;
        let (key, state) = (Memory::new(GCM_KEY), Memory::new(GCM_CTX));
        // SAFETY: the types at these offsets; the key has the size of the function chosen by it.
        let gcm: Gcm = unsafe {
            let pre: GcmPre = manager.function(GCM_PRE + which)?;
            pre(work.key.as_ptr(), key.at());
            manager.function(if decrypt { GCM_DEC } else { GCM_ENC } + which)?
        };
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (_, shape) = (&manager, m.shape);
            let (len, aad, tag) = (shape.len, shape.prefix as u64, shape.tag);
            let (key, state) = (key.at(), state.at());
            each(m, calls, |c| {
                let mut made = [0u8; 16];
                // SAFETY: key and context are this manager's; tags have 16 bytes at most. When decrypting the caller
                // compares them.
                unsafe {
                    let to = if decrypt {
                        made.as_mut_ptr()
                    } else {
                        c.tag_made(len)
                    };
                    let tag = tag.min(16);
                    gcm(
                        key, state, c.dst, c.src, len as u64, c.iv, c.aad, aad, to, tag as u64,
                    );
                    !decrypt || same_tag(made.as_ptr(), c.tag_to_open(len), tag)
                }
            })
        }))
    }

    fn ghash(&self, work: &Work) -> Result<Run<'static>, String> {
        let manager = self.manager()?;
        let key = Memory::new(GCM_KEY);
        // SAFETY: the types at these offsets; the key has a block.
        let ghash: Ghash = unsafe {
            let pre: GcmPre = manager.function(GHASH_PRE)?;
            pre(work.key.as_ptr(), key.at());
            manager.function(GHASH)?
        };
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (_, len, key) = (&manager, m.shape.len as u64, key.at());
            each(m, calls, |c| {
                // SAFETY: the tag is the hash so far, of which there is none, and then the result.
                unsafe {
                    c.dst.cast::<[u8; 16]>().write([0; 16]);
                    ghash(key, c.src, len, c.dst, 16);
                }
                true
            })
        }))
    }

    fn hash(&self, offset: usize) -> Result<Run<'static>, String> {
        let manager = self.manager()?;
        // SAFETY: the type at these offsets.
        let hash: HashFn = unsafe { manager.function(offset)? };
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (_, len) = (&manager, m.shape.len as u64);
            each(m, calls, |c| {
                // SAFETY: results have room for the digest.
                unsafe { hash(c.src, len, c.dst) };
                true
            })
        }))
    }

    /// Jobs, which are submitted until there are no more messages and then flushed.
    fn jobs(&self, work: &Work) -> Result<Run<'static>, String> {
        let manager = self.manager()?;
        let keys = Keys::new(&manager, work)?;
        // SAFETY: the types at these offsets.
        let (next, submit, flush) = unsafe {
            let next: GetJob = manager.function(GET_NEXT_JOB)?;
            let submit: GetJob = manager.function(SUBMIT_JOB)?;
            let flush: GetJob = manager.function(FLUSH_JOB)?;
            (next, submit, flush)
        };
        let template = template(work, &keys)?;
        let aead = work.spec.tag > 0;
        let open = aead && work.op == Op::Decrypt;
        Ok(Box::new(move |m: &mut Messages, calls| {
            // The whole manager: a closure would keep a copy of its address alone.
            let (_, manager, shape) = (&keys, &manager, m.shape);
            let at = manager.at;
            let mut made = [[0u8; 16]; 256];
            let mut turn = 0;
            let mut right = true;
            // What comes back is done, and of an AEAD its tag compared by whoever submitted it.
            let mut done = |job: *mut Job| {
                if job.is_null() {
                    return;
                }
                // SAFETY: a job of the manager's that has come back.
                unsafe {
                    right &= (*job).status == STATUS_COMPLETED;
                    if open {
                        let tag = (*job).user_data.cast_const().cast();
                        right &= same_tag((*job).tag, tag, shape.tag.min(16));
                    }
                }
            };
            let told = each(m, calls, |c| {
                // SAFETY: a job of the manager's to be filled in; its pointers are good until it comes back. No more
                // jobs are in flight than the manager has, which is as many as there are tags.
                unsafe {
                    let job = next(at);
                    *job = template;
                    place(&mut *job, &c, &shape);
                    if open {
                        (*job).tag = made[turn % made.len()].as_mut_ptr();
                        (*job).user_data = c.tag_to_open(shape.len).cast_mut().cast();
                        turn += 1;
                    }
                    done(submit(at));
                }
                true
            });
            loop {
                // SAFETY: an initialised manager; null when nothing is left.
                let job = unsafe { flush(at) };
                if job.is_null() {
                    break;
                }
                done(job);
            }
            told?;
            match right {
                true => Ok(()),
                false => Err("a job fails, or refuses a right tag".to_string()),
            }
        }))
    }
}

/// Fills in where a job's message is.
///
/// # Safety
/// `call` is of this shape.
#[inline(always)]
unsafe fn place(job: &mut Job, call: &Call, shape: &Shape) {
    job.src = call.src;
    job.dst = call.dst;
    job.cipher_len = if job.cipher_mode == CIPHER_NULL {
        0
    } else {
        shape.len as u64
    };
    job.hash_len = if job.hash_alg == AUTH_NULL {
        0
    } else {
        shape.len as u64
    };
    job.iv = call.iv;
    if shape.tag > 0 {
        job.u[0] = call.aad.cast();
        // SAFETY: sealed text has room for its tag.
        job.tag = unsafe { call.tag_made(shape.len) };
    } else if job.hash_alg != AUTH_NULL {
        job.tag = call.dst;
    }
    if job.cipher_mode == CIPHER_CCM {
        // SAFETY: the nonce begins at the second of 16 bytes.
        job.iv = unsafe { call.iv.add(1) };
    }
}

/// What the keys of jobs are made of; kept as long as they are used.
struct Keys {
    enc: Memory,
    dec: Memory,
    more: [Memory; 2],
    raw: Memory,
}

impl Keys {
    fn new(manager: &Manager, work: &Work) -> Result<Keys, String> {
        let keys = Keys {
            enc: Memory::new(AES_KEY),
            dec: Memory::new(AES_KEY),
            more: [Memory::new(128), Memory::new(128)],
            raw: Memory::new(work.key.len().max(64)),
        };
        let alg: &str = &work.spec.name;
        // SAFETY: memory of the key's size.
        unsafe {
            keys.raw
                .at::<u8>()
                .copy_from_nonoverlapping(work.key.as_ptr(), work.key.len());
        }
        if alg.contains("(aes)") {
            // SAFETY: the types at these offsets; the key's size chooses the function; room for all round keys.
            unsafe {
                let expand: KeyExp = manager.function(KEYEXP_128 + (work.key.len() - 16))?;
                expand(work.key.as_ptr(), keys.enc.at(), keys.dec.at());
                if alg.starts_with("cmac(") {
                    let offset = match work.key.len() {
                        16 => CMAC_SUBKEY_GEN_128,
                        _ => CMAC_SUBKEY_GEN_256,
                    };
                    let subkeys: Subkeys = manager.function(offset)?;
                    subkeys(keys.enc.at(), keys.more[0].at(), keys.more[1].at());
                }
            }
        }
        let (offset, block) = match alg {
            "hmac(sha1)" => (SHA1_ONE_BLOCK, 64),
            "hmac(sha256)" => (SHA256_ONE_BLOCK, 64),
            "hmac(sha512)" => (SHA512_ONE_BLOCK, 128),
            _ => return Ok(keys),
        };
        if work.key.len() > block {
            return Err(format!(
                "{}: a key of {} bytes must be hashed first",
                manager.library.provider(),
                work.key.len()
            ));
        }
        for (pad, half) in [0x36, 0x5c].into_iter().zip(&keys.more) {
            let mut padded = zeroize::Zeroizing::new(vec![pad; block]);
            padded.iter_mut().zip(&*work.key).for_each(|(p, k)| *p ^= k);
            // SAFETY: one block in, a state out, for which there is room.
            unsafe {
                let one_block: OneBlock = manager.function(offset)?;
                one_block(padded.as_ptr(), half.at());
            }
        }
        Ok(keys)
    }
}

/// What all jobs of a work have in common.
fn template(work: &Work, keys: &Keys) -> Result<Job, String> {
    let encrypt = work.op != Op::Decrypt;
    let mut job = Job {
        enc_keys: keys.enc.at(),
        dec_keys: keys.dec.at(),
        key_len: work.key.len() as u64,
        src: null(),
        dst: null_mut(),
        cipher_start: 0,
        cipher_len: 0,
        hash_start: 0,
        hash_len: 0,
        iv: null(),
        iv_len: work.spec.iv as u64,
        tag: null_mut(),
        tag_len: work.spec.tag.max(work.spec.digest) as u64,
        u: [null(); 3],
        status: 0,
        cipher_mode: CIPHER_NULL,
        direction: if encrypt { DIR_ENCRYPT } else { DIR_DECRYPT },
        hash_alg: AUTH_NULL,
        // The library wants the hash of ciphertext after encryption and before decryption.
        chain_order: if encrypt {
            ORDER_CIPHER_HASH
        } else {
            ORDER_HASH_CIPHER
        },
        user_data: null_mut(),
        user_data2: null_mut(),
        cipher_func: null(),
        hash_func: null(),
        sgl_state: 0,
        cipher_fields: null_mut(),
    };
    let aad = work.spec.prefix as *const c_void;
    match &*work.spec.name {
        "ecb(aes)" => job.cipher_mode = CIPHER_ECB,
        "cbc(aes)" => job.cipher_mode = CIPHER_CBC,
        "ctr(aes)" => job.cipher_mode = CIPHER_CNTR,
        "rfc7539(chacha20,poly1305)" => {
            job.cipher_mode = CIPHER_CHACHA20_POLY1305;
            job.hash_alg = AUTH_CHACHA20_POLY1305;
            job.enc_keys = keys.raw.at::<c_void>();
            job.dec_keys = job.enc_keys;
            job.u[1] = aad;
        }
        "ccm(aes)" => {
            job.cipher_mode = CIPHER_CCM;
            job.hash_alg = AUTH_AES_CCM;
            // A counter mode: there is one direction of AES. CCM's MAC is of the plaintext.
            job.dec_keys = job.enc_keys;
            job.iv_len = ccm_nonce(&work.shape(16)) as u64;
            job.chain_order = if encrypt {
                ORDER_HASH_CIPHER
            } else {
                ORDER_CIPHER_HASH
            };
            job.u[1] = aad;
        }
        "cmac(aes)" => {
            job.hash_alg = match work.key.len() {
                16 => AUTH_AES_CMAC,
                _ => AUTH_AES_CMAC_256,
            };
            let more = [keys.more[0].at::<c_void>(), keys.more[1].at()];
            job.u = [keys.enc.at::<c_void>().cast_const(), more[0], more[1]];
        }
        "sha1" => job.hash_alg = AUTH_SHA_1,
        "sha256" => job.hash_alg = AUTH_SHA_256,
        "sha512" => job.hash_alg = AUTH_SHA_512,
        hmac => {
            job.hash_alg = match hmac {
                "hmac(sha1)" => AUTH_HMAC_SHA_1,
                "hmac(sha256)" => AUTH_HMAC_SHA_256,
                "hmac(sha512)" => AUTH_HMAC_SHA_512,
                other => return Err(format!("no jobs for {other}")),
            };
            job.u[0] = keys.more[0].at::<c_void>();
            job.u[1] = keys.more[1].at::<c_void>();
        }
    }
    Ok(job)
}
