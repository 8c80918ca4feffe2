//! Intel's Multi-Buffer Crypto for IPsec, called as its README and the comments in its header
//! recommend.
//!
//! A manager is allocated (`alloc_mb_mgr`) and initialised for the best instruction set of this CPU
//! (`init_mb_mgr_auto`). It has direct functions for AES-GCM, for GHASH and for hashing a single
//! buffer (`IMB_AES256_GCM_ENC`, `IMB_SHA256`). Data that depends only on the key is computed once.
//! All other work is submitted as jobs. If a single message cannot keep the CPU busy (CBC
//! encryption, CMAC, CCM, hashes, HMAC), the library processes several messages at once. Rows for
//! such work are marked, because they show the throughput of a stream of messages, not that of a
//! single message.
//!
//! In version 1.3, jobs are submitted one by one. For each message, call `IMB_GET_NEXT_JOB`, fill
//! in the job, and call `IMB_SUBMIT_JOB`. At the end, call `IMB_FLUSH_JOB` until all jobs are
//! complete.
//!
//! In version 2.0, the functions that skip checks are used, because they are faster. They accept
//! jobs in two forms:
//!
//! - Bursts: `IMB_GET_NEXT_BURST`, `IMB_SUBMIT_BURST_NOCHECK` and `IMB_FLUSH_BURST`. Their rows are
//!   named `…_BURST`.
//! - For some algorithms, arrays of jobs that all use the same cipher or hash:
//!   `IMB_SUBMIT_CIPHER_BURST_NOCHECK` and `IMB_SUBMIT_HASH_BURST_NOCHECK`. Their rows are named
//!   `…_CIPHER_BURST` and `…_HASH_BURST`.
//!
//! In rows whose names end in `_1`, each call submits a single job. Both forms require
//! `imb_set_session` to prepare the jobs. Arrays are the fastest interface for short messages. For
//! long messages, the fastest interface depends on the algorithm, so both have a row.
//!
//! SHA-1 and SHA-2 have rows for single buffers and rows for jobs.

mod jobs;
mod layout;

use std::ffi::{c_char, c_int, c_uint, CStr};
use std::path::Path;
use std::sync::Arc;

use super::each::{call_each, same_tag, Memory};
use super::interface::Peer;
use super::library::{Find, Opened};
use crate::{Candidate, Messages, Op, Run, Work};
use layout::*;

const FIND: Find = Find {
    peer: "ipsec-mb",
    variable: "KILN_IPSEC_MB",
    names: &["libIPSec_MB.so.2", "libIPSec_MB.so.1"],
    cached: Some("libIPSec_MB.so"),
    remedy: "kiln libraries install ipsec-mb, or apt-get install libipsec-mb1",
};

/// `IMB_VERSION` of the headers whose structure layouts are known. All patch releases of these
/// versions are accepted.
const KNOWN: [c_uint; 2] = [0x1_0300, 0x2_0000];

/// Number of jobs in a burst or array, which is twice the 16 lanes of the widest algorithm.
const BATCH: usize = 32;

type Candidates = Result<Vec<Candidate<'static>>, String>;

struct Functions {
    version: String,
    /// `imb_set_session`, added in version 2.0.
    set_session: Option<SetSession>,
    alloc: unsafe extern "C" fn(u64) -> Mgr,
    free: unsafe extern "C" fn(Mgr),
    init: unsafe extern "C" fn(Mgr, *mut c_uint),
    /// This field is last, so that the library is closed after all other fields are dropped.
    opened: Opened,
}

/// The library with its resolved functions.
#[derive(Clone)]
pub(super) struct IpsecMb(Arc<Functions>);

struct Manager {
    library: IpsecMb,
    at: Mgr,
}

impl IpsecMb {
    /// Loads the library. If `file` is given, tries only that file.
    ///
    /// # Errors
    /// Returns one line that states the reason and a remedy.
    pub(super) fn load(file: Option<&Path>) -> Result<IpsecMb, String> {
        let load = |o: &Opened| {
            let library = IpsecMb(Arc::new(Functions::load(o)?));
            // Create a manager now in order to check that managers have the expected layout.
            library.manager()?;
            Ok(library)
        };
        FIND.load(file, load, |library: &IpsecMb| &library.0.version)
    }

    /// Returns whether this version of the library has the burst functions.
    fn has_bursts(&self) -> bool {
        self.0.set_session.is_some()
    }

    fn manager(&self) -> Result<Manager, String> {
        let f = &*self.0;
        let mut arch = 0;
        // SAFETY: the header allows this call at any time; the argument 0 sets no flags.
        let at = unsafe { (f.alloc)(0) };
        if at.is_null() {
            return Err(format!("{} has no memory for a manager", self.provider()));
        }
        let manager = Manager {
            library: self.clone(),
            at,
        };
        // SAFETY: the manager is new, and its errno is at offset ERRNO in both 1.3 and 2.0.
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
        // SAFETY: the types match intel-ipsec-mb.h, and the library stays open in `opened`.
        unsafe {
            let number: unsafe extern "C" fn() -> c_uint = o.get("imb_get_version")?;
            let text: unsafe extern "C" fn() -> *const c_char = o.get("imb_get_version_str")?;
            let text = CStr::from_ptr(text()).to_string_lossy().into_owned();
            let series = number() & !0xff;
            if !KNOWN.contains(&series) {
                return Err(format!(
                    "{} is {text}: the structures known are those of 1.3 and 2.0",
                    o.file
                ));
            }
            Ok(Functions {
                version: text,
                set_session: match series {
                    0x2_0000 => Some(o.get("imb_set_session")?),
                    _ => None,
                },
                alloc: o.get("alloc_mb_mgr")?,
                free: o.get("free_mb_mgr")?,
                init: o.get("init_mb_mgr_auto")?,
                opened: o.clone(),
            })
        }
    }
}

impl Manager {
    /// Returns the function pointer that the manager contains at this offset.
    ///
    /// # Safety
    /// `T` must be the type of the function at this offset.
    unsafe fn function<T: Copy>(&self, offset: usize) -> Result<T, String> {
        // SAFETY: `self.at` points to a manager that the library allocated. Every caller passes
        // either an offset from `layout` or the offset of a later pointer in the same group. All
        // these offsets are multiples of 8 and at most 1008. The manager is much larger, because it
        // also contains the jobs, so this reads a pointer within it. The caller promises that `T`
        // is the function's type.
        unsafe {
            let at = self.at.cast::<u8>().add(offset);
            if at.cast::<usize>().read() == 0 {
                return Err(format!("{} lacks a function", self.library.provider()));
            }
            Ok(at.cast::<T>().read())
        }
    }

    /// Converts a job to the layout of version 2.0, and sets the fields by which the burst
    /// functions identify the job's algorithms.
    fn set_session(&self, job: Job) -> Result<Job2, String> {
        let mut whole = Job2 {
            job,
            suite_id: [0; 2],
            session_id: 0,
        };
        let fault = || Err(format!("{} has no bursts", self.library.provider()));
        let Some(set) = self.library.0.set_session else {
            return fault();
        };
        // SAFETY: the manager is initialised. Only version 2.0 has this function, and its jobs have
        // the layout `Job2`.
        match unsafe { set(self.at, &mut whole) } {
            0 => fault(),
            _ => Ok(whole),
        }
    }

    /// Compares function pointers in the manager with functions that the library also exports as
    /// symbols. A difference means that the manager does not have the expected layout.
    fn check(&self) -> Result<(), String> {
        let known: [(usize, &str, &[&str]); 4] = [
            (
                SHA256,
                "sha256_",
                &["sse", "avx", "avx2", "avx512", "sse_shani"],
            ),
            (
                SHA512,
                "sha512_",
                &["sse", "avx", "avx2", "avx512", "ni_avx2"],
            ),
            (
                GHASH,
                "ghash_",
                &[
                    "sse",
                    "avx_gen2",
                    "avx_gen4",
                    "avx512",
                    "vaes_avx2",
                    "vaes_avx512",
                ],
            ),
            (
                GHASH_PRE,
                "ghash_pre_",
                &[
                    "sse",
                    "avx_gen2",
                    "avx_gen4",
                    "avx512",
                    "vaes_avx2",
                    "vaes_avx512",
                ],
            ),
        ];
        for (offset, name, ends) in known {
            // SAFETY: every function pointer has the size of a usize, and this one is never called.
            let here: usize = unsafe { self.function(offset)? };
            let one_of = ends.iter().any(|end| {
                // SAFETY: the address of a symbol has the size of a usize, and this address is
                // never dereferenced.
                let symbol = unsafe { self.library.0.opened.get::<usize>(&format!("{name}{end}")) };
                symbol == Ok(here)
            });
            if !one_of {
                return Err(format!(
                    "{}: its manager is not laid out as versions 1.3 and 2.0 have it",
                    self.library.provider()
                ));
            }
        }
        Ok(())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: alloc_mb_mgr returned this manager, and only this call frees it.
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

    fn place(&self) -> &'static str {
        self.0.opened.place
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
        let bursts = self.has_bursts();
        // For a stream of messages, use jobs in version 1.3. In version 2.0, use bursts of jobs,
        // and also arrays of jobs for algorithms that support them.
        let stream = |name: &str, array: Option<&str>| -> Candidates {
            if !bursts {
                return Ok(vec![many(name.to_string(), self.jobs(work)?)]);
            }
            let mut all = vec![many(format!("{name}_BURST"), self.bursts(work, BATCH)?)];
            if let Some(kind) = array {
                all.push(many(
                    format!("{name}_{kind}_BURST"),
                    self.arrays(work, BATCH)?,
                ));
            }
            Ok(all)
        };
        // For a single message, use one job in version 1.3. In version 2.0, use arrays if the
        // algorithm supports them, otherwise bursts. In both cases, measure calls that submit one
        // job and calls that submit many.
        let single = |name: &str, array: Option<&str>| -> Candidates {
            Ok(match array {
                _ if !bursts => vec![one(name.to_string(), self.jobs(work)?)],
                None => vec![
                    one(format!("{name}_BURST_1"), self.bursts(work, 1)?),
                    many(format!("{name}_BURST"), self.bursts(work, BATCH)?),
                ],
                Some(kind) => vec![
                    one(format!("{name}_{kind}_BURST_1"), self.arrays(work, 1)?),
                    many(format!("{name}_{kind}_BURST"), self.arrays(work, BATCH)?),
                ],
            })
        };
        let cipher = Some("CIPHER");
        let hash = Some("HASH");
        let both = |name: &str, offset: usize, job: &str| -> Candidates {
            let mut all = vec![one(name.to_string(), self.hash(offset)?)];
            all.extend(stream(job, hash)?);
            Ok(all)
        };
        Ok(match alg {
            "gcm(aes)" => vec![one(format!("IMB_AES{bits}_GCM"), self.gcm(work)?)],
            "ghash" => vec![one("IMB_GHASH".into(), self.ghash(work)?)],
            "ecb(aes)" => single(&format!("IMB_CIPHER_ECB_{bits}"), cipher)?,
            "ctr(aes)" => single(&format!("IMB_CIPHER_CNTR_{bits}"), cipher)?,
            "cbc(aes)" if work.op == Op::Encrypt => {
                stream(&format!("IMB_CIPHER_CBC_{bits}"), cipher)?
            }
            "cbc(aes)" => single(&format!("IMB_CIPHER_CBC_{bits}"), cipher)?,
            "rfc7539(chacha20,poly1305)" => single("IMB_CIPHER_CHACHA20_POLY1305", None)?,
            "ccm(aes)" | "cmac(aes)" if bits == 192 => return lacks(),
            "ccm(aes)" => stream(&format!("IMB_CIPHER_CCM_{bits}"), None)?,
            "cmac(aes)" => stream(&format!("IMB_AUTH_AES_CMAC_{bits}"), hash)?,
            "hmac(sha1)" => stream("IMB_AUTH_HMAC_SHA_1", hash)?,
            "hmac(sha256)" => stream("IMB_AUTH_HMAC_SHA_256", hash)?,
            "hmac(sha512)" => stream("IMB_AUTH_HMAC_SHA_512", hash)?,
            "sha1" => both("IMB_SHA1", SHA1, "IMB_AUTH_SHA_1")?,
            "sha256" => both("IMB_SHA256", SHA256, "IMB_AUTH_SHA_256")?,
            "sha512" => both("IMB_SHA512", SHA512, "IMB_AUTH_SHA_512")?,
            "sm3" if bursts => single("IMB_AUTH_SM3", None)?,
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
        // SAFETY: the header declares the functions at these offsets with these types, and `check`
        // has verified the manager's layout. `which` selects the functions for the size of the key.
        let gcm: Gcm = unsafe {
            let pre: GcmPre = manager.function(GCM_PRE + which)?;
            pre(work.key.as_ptr(), key.at());
            manager.function(if decrypt { GCM_DEC } else { GCM_ENC } + which)?
        };
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (_, shape) = (&manager, m.shape);
            let (len, aad, tag) = (shape.len, shape.prefix as u64, shape.tag);
            let (key, state) = (key.at(), state.at());
            call_each(m, calls, |c| {
                let mut made = [0u8; 16];
                // SAFETY: the key and the context were prepared for this manager, the lengths of
                // the buffers match the shape, and tags have at most 16 bytes.
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
        // SAFETY: the header declares the functions at these offsets with these types, and `check`
        // has verified the manager's layout. The key has the size of a block.
        let ghash: Ghash = unsafe {
            let pre: GcmPre = manager.function(GHASH_PRE)?;
            pre(work.key.as_ptr(), key.at());
            manager.function(GHASH)?
        };
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (_, len, key) = (&manager, m.shape.len as u64, key.at());
            call_each(m, calls, |c| {
                // SAFETY: the result buffer has room for a block. The function reads the previous
                // hash from this buffer and writes the new one to it, so the buffer is set to zero
                // first.
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
        // SAFETY: callers pass the offset of a hash function, which the header declares as
        // `HashFn`.
        let hash: HashFn = unsafe { manager.function(offset)? };
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (_, len) = (&manager, m.shape.len as u64);
            call_each(m, calls, |c| {
                // SAFETY: the source has `len` bytes, and the result buffer has room for the
                // digest.
                unsafe { hash(c.src, len, c.dst) };
                true
            })
        }))
    }
}
