//! Prepares the keys for ipsec-mb jobs, fills in the jobs, and submits them.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use super::layout::*;
use super::{IpsecMb, Manager, BATCH};
use crate::peer::each::{call_each, ccm_nonce, same_tag, Call, Memory};
use crate::peer::interface::Peer;
use crate::{Messages, Op, Run, Shape, Work};

impl IpsecMb {
    /// Submits one job per message, then flushes. Use this only with version 1.3, in which jobs
    /// have the size of [`Job`].
    pub(super) fn jobs(&self, work: &Work) -> Result<Run<'static>, String> {
        let manager = self.manager()?;
        let keys = Keys::new(&manager, work)?;
        // SAFETY: the header declares the functions at these offsets as `GetJob`.
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
            // Mention the whole manager, so that the closure captures and owns the manager, not
            // just its address.
            let (_, manager, shape) = (&keys, &manager, m.shape);
            let at = manager.at;
            let mut made = [[0u8; 16]; 256];
            let mut turn = 0;
            let mut right = true;
            let mut done = |job: *mut Job| {
                if !job.is_null() {
                    // SAFETY: the manager has returned this job. If the job decrypts an AEAD
                    // message, `keep_tag` has set the addresses of both tags.
                    right &= unsafe { is_right(&*job, open, &shape) };
                }
            };
            let told = call_each(m, calls, |c| {
                // SAFETY: the manager provides a job to fill in, and the pointers in the job stay
                // valid until the manager returns it. At most 256 jobs are in flight, and `made`
                // has room for 256 tags.
                unsafe {
                    let job = next(at);
                    *job = template;
                    place(&mut *job, &c, &shape);
                    if open {
                        keep_tag(&mut *job, &c, &shape, &mut made[turn % 256]);
                        turn += 1;
                    }
                    done(submit(at));
                }
                true
            });
            loop {
                // SAFETY: the manager is initialised. The result is null when all jobs are
                // complete.
                let job = unsafe { flush(at) };
                if job.is_null() {
                    break;
                }
                done(job);
            }
            told?;
            judge(right)
        }))
    }

    /// Submits bursts of `batch` jobs without checks, then flushes. `batch` is at most [`BATCH`].
    /// The template is copied only to jobs that do not contain it yet. In other jobs, only the
    /// fields that differ between messages are set.
    pub(super) fn bursts(&self, work: &Work, batch: usize) -> Result<Run<'static>, String> {
        let manager = self.manager()?;
        let keys = Keys::new(&manager, work)?;
        // SAFETY: the header declares the functions at these offsets as `Burst`. `bursts` is called
        // only if `has_bursts` found version 2.0, which has these functions.
        let (next, submit, flush) = unsafe {
            let next: Burst = manager.function(GET_NEXT_BURST)?;
            let submit: Burst = manager.function(SUBMIT_BURST_NOCHECK)?;
            let flush: Burst = manager.function(FLUSH_BURST)?;
            (next, submit, flush)
        };
        let template = manager.set_session(template(work, &keys)?)?;
        let open = work.spec.tag > 0 && work.op == Op::Decrypt;
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (_, manager, shape) = (&keys, &manager, m.shape);
            let at = manager.at;
            let mut made = [[0u8; 16]; 256];
            let mut turn = 0;
            let mut right = true;
            let mut ring = [null_mut::<Job2>(); BATCH];
            let (mut have, mut filled) = (0, 0);
            let mut back = |ring: &[*mut Job2; BATCH], n: usize| {
                // SAFETY: the manager has returned these jobs. If they decrypt AEAD messages,
                // `keep_tag` has set the addresses of both tags in each job.
                right &= ring[..n]
                    .iter()
                    .all(|&job| unsafe { is_right(&(*job).job, open, &shape) });
            };
            let told = call_each(m, calls, |c| {
                // SAFETY: the manager provides jobs to fill in, and the pointers in them stay valid
                // until the manager returns the jobs. The manager has 256 jobs and never provides
                // one that is in flight, so room for 256 tags in `made` is enough.
                unsafe {
                    if filled == have {
                        filled = 0;
                        have = next(at, batch as u32, ring.as_mut_ptr()) as usize;
                        while have == 0 {
                            let n = flush(at, BATCH as u32, ring.as_mut_ptr()) as usize;
                            back(&ring, n);
                            have = next(at, batch as u32, ring.as_mut_ptr()) as usize;
                        }
                    }
                    let job = &mut *ring[filled];
                    if job.session_id != template.session_id {
                        *job = template;
                    }
                    place(&mut job.job, &c, &shape);
                    if open {
                        keep_tag(&mut job.job, &c, &shape, &mut made[turn % 256]);
                        turn += 1;
                    }
                    filled += 1;
                    if filled == have {
                        let n = submit(at, have as u32, ring.as_mut_ptr()) as usize;
                        back(&ring, n);
                    }
                }
                true
            });
            // SAFETY: the first `filled` jobs of the ring are filled in but not submitted. The
            // pointers in these jobs and in the jobs in flight are still valid.
            unsafe {
                if filled < have && filled > 0 {
                    let n = submit(at, filled as u32, ring.as_mut_ptr()) as usize;
                    back(&ring, n);
                }
                loop {
                    let n = flush(at, BATCH as u32, ring.as_mut_ptr()) as usize;
                    if n == 0 {
                        break;
                    }
                    back(&ring, n);
                }
            }
            told?;
            judge(right)
        }))
    }

    /// Submits arrays of `batch` jobs without checks. `batch` is at most [`BATCH`]. Each job uses
    /// either a cipher or a hash, not both. When the library returns, all jobs in the array are
    /// complete.
    pub(super) fn arrays(&self, work: &Work, batch: usize) -> Result<Run<'static>, String> {
        let manager = self.manager()?;
        let keys = Keys::new(&manager, work)?;
        let template = manager.set_session(template(work, &keys)?)?;
        let job = template.job;
        let (mode, direction, hash, key) = (
            job.cipher_mode,
            job.direction,
            job.hash_alg,
            work.key.len() as u32,
        );
        // SAFETY: the header of version 2.0 declares the functions at these offsets with these
        // types. `set_session` succeeds only in version 2.0.
        let (cipher_burst, hash_burst) = unsafe {
            let cipher: CipherBurst = manager.function(SUBMIT_CIPHER_BURST_NOCHECK)?;
            let hash: HashBurst = manager.function(SUBMIT_HASH_BURST_NOCHECK)?;
            (cipher, hash)
        };
        Ok(Box::new(move |m: &mut Messages, calls| {
            let (_, manager, shape) = (&keys, &manager, m.shape);
            let at = manager.at;
            let mut array = [template; BATCH];
            let mut filled = 0;
            let submit = |array: &mut [Job2]| {
                let (jobs, n) = (array.as_mut_ptr(), array.len() as u32);
                // SAFETY: all jobs in the array have been filled in, and the pointers in them are
                // valid for the lengths of the messages.
                let done = unsafe {
                    match mode {
                        CIPHER_NULL => hash_burst(at, jobs, n, hash),
                        _ => cipher_burst(at, jobs, n, mode, direction, key),
                    }
                };
                done == n && array.iter().all(|j| j.job.status == STATUS_COMPLETED)
            };
            call_each(m, calls, |c| {
                // SAFETY: the pointers in the call are valid for this shape.
                unsafe { place(&mut array[filled].job, &c, &shape) };
                filled += 1;
                filled < batch || {
                    filled = 0;
                    submit(&mut array[..batch])
                }
            })?;
            judge(filled == 0 || submit(&mut array[..filled]))
        }))
    }
}

fn judge(right: bool) -> Result<(), String> {
    match right {
        true => Ok(()),
        false => Err("a job fails, or refuses a right tag".to_string()),
    }
}

/// Returns whether a job has succeeded. If `open` is set, the job decrypts an AEAD message, and the
/// computed tag must equal the received one. The library leaves this comparison to the caller.
///
/// # Safety
/// If `open` is set, [`keep_tag`] must have set the addresses of both tags in the job.
#[inline(always)]
unsafe fn is_right(job: &Job, open: bool, shape: &Shape) -> bool {
    job.status == STATUS_COMPLETED
        && (!open || {
            let tag = job.user_data.cast_const().cast();
            // SAFETY: the caller promises that `keep_tag` set both addresses.
            unsafe { same_tag(job.tag, tag, shape.tag.min(16)) }
        })
}

/// Makes a job write the tag that it computes to `made`, and stores the address of the received tag
/// in the job's `user_data`.
///
/// # Safety
/// The message must be followed by its tag.
#[inline(always)]
unsafe fn keep_tag(job: &mut Job, call: &Call, shape: &Shape, made: &mut [u8; 16]) {
    job.tag = made.as_mut_ptr();
    // SAFETY: the caller promises that the message is followed by its tag.
    job.user_data = unsafe { call.tag_to_open(shape.len) }.cast_mut().cast();
}

/// Stores the addresses and lengths of a message's parts in a job.
///
/// # Safety
/// The pointers in `call` must be valid for this shape.
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
        // SAFETY: the result buffer has room for the tag after the text.
        job.tag = unsafe { call.tag_made(shape.len) };
    } else if job.hash_alg != AUTH_NULL {
        job.tag = call.dst;
    }
    if job.cipher_mode == CIPHER_CCM {
        // SAFETY: the IV has 16 bytes, and the nonce begins at the second byte.
        job.iv = unsafe { call.iv.add(1) };
    }
}

/// Memory that holds keys. It must outlive the jobs that point to it.
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
        // SAFETY: `raw` has room for the key.
        unsafe {
            keys.raw
                .at::<u8>()
                .copy_from_nonoverlapping(work.key.as_ptr(), work.key.len());
        }
        if alg.contains("(aes)") {
            // SAFETY: the header declares the functions at these offsets with these types. The
            // offset depends on the size of the key, and the memory has room for all round keys.
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
            // SAFETY: the function reads one block and writes a hash state, for which `half` has
            // room.
            unsafe {
                let one_block: OneBlock = manager.function(offset)?;
                one_block(padded.as_ptr(), half.at());
            }
        }
        Ok(keys)
    }
}

/// Creates a job and fills in all fields that are the same for every message.
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
        // The hash covers the ciphertext, so it follows encryption and precedes decryption.
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
            // Counter modes never decrypt a block, so one set of round keys serves both directions.
            job.dec_keys = job.enc_keys;
            job.iv_len = ccm_nonce(&work.shape(16)) as u64;
            // CCM's MAC covers the plaintext, so it precedes encryption and follows decryption.
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
        "sm3" => job.hash_alg = AUTH_SM3,
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
