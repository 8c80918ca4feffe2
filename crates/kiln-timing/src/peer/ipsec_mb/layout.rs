//! The layout of ipsec-mb's manager and jobs, as declared in intel-ipsec-mb.h of versions 1.3 and
//! 2.0. The members used here have the same offsets in both versions; version 2.0 only appends
//! functions to the manager and fields to the job. Tests compare the layout with the installed
//! headers, and every manager is checked before use.

use std::ffi::{c_int, c_uint, c_void};

pub(super) type Mgr = *mut c_void;
pub(super) type OneBlock = unsafe extern "C" fn(*const u8, *mut u8);
pub(super) type HashFn = unsafe extern "C" fn(*const u8, u64, *mut u8);
pub(super) type KeyExp = unsafe extern "C" fn(*const u8, *mut c_void, *mut c_void);
pub(super) type Subkeys = unsafe extern "C" fn(*const c_void, *mut c_void, *mut c_void);
pub(super) type GcmPre = unsafe extern "C" fn(*const u8, *mut c_void);
pub(super) type Ghash = unsafe extern "C" fn(*const c_void, *const u8, u64, *mut u8, u64);
pub(super) type Gcm = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    *mut u8,
    *const u8,
    u64,
    *const u8,
    *const u8,
    u64,
    *mut u8,
    u64,
);
pub(super) type GetJob = unsafe extern "C" fn(Mgr) -> *mut Job;
/// The type of the version 2.0 functions that get, submit or flush jobs. The caller passes the
/// maximum number of jobs; the functions return the actual number.
pub(super) type Burst = unsafe extern "C" fn(Mgr, c_uint, *mut *mut Job2) -> c_uint;
/// The type of the version 2.0 function that processes an array of jobs with the same mode,
/// direction and key size. The function returns the number of jobs it processed.
pub(super) type CipherBurst =
    unsafe extern "C" fn(Mgr, *mut Job2, c_uint, c_uint, c_uint, c_uint) -> c_uint;
/// The type of the version 2.0 function that processes an array of jobs with the same hash. The
/// function returns the number of jobs it processed.
pub(super) type HashBurst = unsafe extern "C" fn(Mgr, *mut Job2, c_uint, c_uint) -> c_uint;
/// The type of the version 2.0 function that prepares a job for bursts. The function returns 0 on
/// error.
pub(super) type SetSession = unsafe extern "C" fn(Mgr, *mut Job2) -> c_uint;

// Offsets into `IMB_MGR`.
pub(super) const ERRNO: usize = 60;
pub(super) const GET_NEXT_JOB: usize = 64;
pub(super) const SUBMIT_JOB: usize = 72;
pub(super) const FLUSH_JOB: usize = 96;
pub(super) const KEYEXP_128: usize = 112;
pub(super) const CMAC_SUBKEY_GEN_128: usize = 136;
pub(super) const SHA1_ONE_BLOCK: usize = 160;
pub(super) const SHA256_ONE_BLOCK: usize = 176;
pub(super) const SHA512_ONE_BLOCK: usize = 192;
pub(super) const SHA1: usize = 208;
pub(super) const SHA256: usize = 224;
pub(super) const SHA512: usize = 240;
/// Offset of the pointer to the function for 128-bit keys. The pointers for 192-bit and 256-bit
/// keys come next.
pub(super) const GCM_ENC: usize = 256;
pub(super) const GCM_DEC: usize = 280;
pub(super) const GCM_PRE: usize = 448;
pub(super) const GHASH: usize = 680;
pub(super) const CMAC_SUBKEY_GEN_256: usize = 808;
pub(super) const GHASH_PRE: usize = 816;
// The following burst functions exist only in version 2.0.
pub(super) const GET_NEXT_BURST: usize = 952;
pub(super) const SUBMIT_BURST_NOCHECK: usize = 968;
pub(super) const FLUSH_BURST: usize = 976;
pub(super) const SUBMIT_CIPHER_BURST_NOCHECK: usize = 992;
pub(super) const SUBMIT_HASH_BURST_NOCHECK: usize = 1008;

/// Sizes in bytes of the buffers that hold `struct gcm_key_data` (1264 bytes in version 2.0) and
/// `struct gcm_context_data` (88 bytes).
pub(super) const GCM_KEY: usize = 2048;
pub(super) const GCM_CTX: usize = 256;
/// Size in bytes of the buffer that holds an expanded AES key. Such a key consists of at most 15
/// round keys of 16 bytes.
pub(super) const AES_KEY: usize = 256;

// Values of the enums IMB_CIPHER_MODE, IMB_HASH_ALG and others.
pub(super) const CIPHER_CBC: c_uint = 1;
pub(super) const CIPHER_CNTR: c_uint = 2;
pub(super) const CIPHER_NULL: c_uint = 3;
pub(super) const CIPHER_CCM: c_uint = 9;
pub(super) const CIPHER_ECB: c_uint = 12;
pub(super) const CIPHER_CHACHA20_POLY1305: c_uint = 19;
pub(super) const AUTH_HMAC_SHA_1: c_uint = 1;
pub(super) const AUTH_HMAC_SHA_256: c_uint = 3;
pub(super) const AUTH_HMAC_SHA_512: c_uint = 5;
pub(super) const AUTH_NULL: c_uint = 8;
pub(super) const AUTH_AES_CCM: c_uint = 11;
pub(super) const AUTH_AES_CMAC: c_uint = 12;
pub(super) const AUTH_SHA_1: c_uint = 13;
pub(super) const AUTH_SHA_256: c_uint = 15;
pub(super) const AUTH_SHA_512: c_uint = 17;
pub(super) const AUTH_AES_CMAC_256: c_uint = 27;
pub(super) const AUTH_CHACHA20_POLY1305: c_uint = 29;
/// This hash exists only in version 2.0.
pub(super) const AUTH_SM3: c_uint = 47;
pub(super) const DIR_ENCRYPT: c_uint = 1;
pub(super) const DIR_DECRYPT: c_uint = 2;
pub(super) const ORDER_CIPHER_HASH: c_uint = 1;
pub(super) const ORDER_HASH_CIPHER: c_uint = 2;
pub(super) const STATUS_COMPLETED: c_uint = 3;

/// The part of `IMB_JOB` that versions 1.3 and 2.0 share.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub enc_keys: *const c_void,
    pub dec_keys: *const c_void,
    pub key_len: u64,
    pub src: *const u8,
    pub dst: *mut u8,
    pub cipher_start: u64,
    pub cipher_len: u64,
    pub hash_start: u64,
    pub hash_len: u64,
    pub iv: *const u8,
    pub iv_len: u64,
    pub tag: *mut u8,
    pub tag_len: u64,
    /// For an AEAD, the first two values are the address and the length of the associated data. For
    /// a MAC, the values are the addresses of its keys.
    pub u: [*const c_void; 3],
    pub status: c_uint,
    pub cipher_mode: c_uint,
    pub direction: c_uint,
    pub hash_alg: c_uint,
    pub chain_order: c_uint,
    pub user_data: *mut c_void,
    pub user_data2: *mut c_void,
    pub cipher_func: *const c_void,
    pub hash_func: *const c_void,
    pub sgl_state: c_int,
    pub cipher_fields: *mut c_void,
}

/// The `IMB_JOB` layout of version 2.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Job2 {
    pub job: Job,
    /// `imb_set_session` sets `suite_id` and `session_id`.
    pub suite_id: [c_uint; 2],
    pub session_id: c_uint,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::installed::{directory, find_installed};
    use std::fs;
    use std::mem::offset_of;
    use std::ops::Range;
    use std::path::Path;
    use std::process::Command;

    /// Checks the layout against the 1.3 header, if it is installed on the system.
    #[test]
    fn as_the_header_of_1_3_has_it() {
        let own = format!("SAME(sizeof(IMB_JOB), {});\n", size_of::<Job>());
        check_header(None, "1.3", 0x1_0300..0x1_0400, &own);
    }

    /// Checks the layout against the 2.0 header that `kiln libraries install ipsec-mb` unpacks.
    #[test]
    fn as_the_header_of_2_0_has_it() {
        let manager = [
            ("get_next_burst", GET_NEXT_BURST),
            ("submit_burst_nocheck", SUBMIT_BURST_NOCHECK),
            ("flush_burst", FLUSH_BURST),
            ("submit_cipher_burst_nocheck", SUBMIT_CIPHER_BURST_NOCHECK),
            ("submit_hash_burst_nocheck", SUBMIT_HASH_BURST_NOCHECK),
        ];
        let mut own = format!(
            "SAME(sizeof(IMB_JOB), {});\nSAME(offsetof(IMB_JOB, suite_id), {});\n\
             SAME(offsetof(IMB_JOB, session_id), {});\nSAME(IMB_AUTH_SM3, {AUTH_SM3});\n",
            size_of::<Job2>(),
            offset_of!(Job2, suite_id),
            offset_of!(Job2, session_id)
        );
        for (name, at) in manager {
            own += &format!("SAME(offsetof(IMB_MGR, {name}), {at});\n");
        }
        let all = directory().map(|all| find_installed(&all, "ipsec-mb", "intel-ipsec-mb.h"));
        let newest = all.and_then(|all| all.into_iter().find(|i| i.version.starts_with("2.0.")));
        let dir = newest.map(|i| i.dir);
        check_header(dir.as_deref(), "2.0", 0x2_0000..0x2_0100, &own);
    }

    /// Compiles assertions that compare the layout with `header`, or with the system's header if
    /// `header` is `None`. `own` contains assertions that apply only to this version.
    fn check_header(header: Option<&Path>, version: &str, numbers: Range<u32>, own: &str) {
        let dir = tempfile::tempdir().unwrap();
        let (source, program) = (dir.path().join("a.c"), dir.path().join("a"));
        let manager = [
            ("imb_errno", ERRNO),
            ("get_next_job", GET_NEXT_JOB),
            ("submit_job", SUBMIT_JOB),
            ("flush_job", FLUSH_JOB),
            ("keyexp_128", KEYEXP_128),
            ("keyexp_192", KEYEXP_128 + 8),
            ("keyexp_256", KEYEXP_128 + 16),
            ("cmac_subkey_gen_128", CMAC_SUBKEY_GEN_128),
            ("cmac_subkey_gen_256", CMAC_SUBKEY_GEN_256),
            ("sha1_one_block", SHA1_ONE_BLOCK),
            ("sha256_one_block", SHA256_ONE_BLOCK),
            ("sha512_one_block", SHA512_ONE_BLOCK),
            ("sha1", SHA1),
            ("sha256", SHA256),
            ("sha512", SHA512),
            ("gcm128_enc", GCM_ENC),
            ("gcm256_enc", GCM_ENC + 16),
            ("gcm128_dec", GCM_DEC),
            ("gcm256_dec", GCM_DEC + 16),
            ("gcm128_pre", GCM_PRE),
            ("gcm256_pre", GCM_PRE + 16),
            ("ghash", GHASH),
            ("ghash_pre", GHASH_PRE),
        ];
        let job = [
            ("src", offset_of!(Job, src)),
            ("msg_len_to_cipher_in_bytes", offset_of!(Job, cipher_len)),
            ("msg_len_to_hash_in_bytes", offset_of!(Job, hash_len)),
            ("iv", offset_of!(Job, iv)),
            ("auth_tag_output", offset_of!(Job, tag)),
            ("u", offset_of!(Job, u)),
            ("status", offset_of!(Job, status)),
            ("cipher_mode", offset_of!(Job, cipher_mode)),
            ("hash_alg", offset_of!(Job, hash_alg)),
            ("chain_order", offset_of!(Job, chain_order)),
            ("user_data", offset_of!(Job, user_data)),
            ("sgl_state", offset_of!(Job, sgl_state)),
            ("cipher_fields", offset_of!(Job, cipher_fields)),
        ];
        let enums = [
            ("IMB_CIPHER_CBC", CIPHER_CBC),
            ("IMB_CIPHER_CNTR", CIPHER_CNTR),
            ("IMB_CIPHER_NULL", CIPHER_NULL),
            ("IMB_CIPHER_CCM", CIPHER_CCM),
            ("IMB_CIPHER_ECB", CIPHER_ECB),
            ("IMB_CIPHER_CHACHA20_POLY1305", CIPHER_CHACHA20_POLY1305),
            ("IMB_AUTH_HMAC_SHA_1", AUTH_HMAC_SHA_1),
            ("IMB_AUTH_HMAC_SHA_256", AUTH_HMAC_SHA_256),
            ("IMB_AUTH_HMAC_SHA_512", AUTH_HMAC_SHA_512),
            ("IMB_AUTH_NULL", AUTH_NULL),
            ("IMB_AUTH_AES_CCM", AUTH_AES_CCM),
            ("IMB_AUTH_AES_CMAC", AUTH_AES_CMAC),
            ("IMB_AUTH_SHA_1", AUTH_SHA_1),
            ("IMB_AUTH_SHA_256", AUTH_SHA_256),
            ("IMB_AUTH_SHA_512", AUTH_SHA_512),
            ("IMB_AUTH_AES_CMAC_256", AUTH_AES_CMAC_256),
            ("IMB_AUTH_CHACHA20_POLY1305", AUTH_CHACHA20_POLY1305),
            ("IMB_DIR_ENCRYPT", DIR_ENCRYPT),
            ("IMB_DIR_DECRYPT", DIR_DECRYPT),
            ("IMB_ORDER_CIPHER_HASH", ORDER_CIPHER_HASH),
            ("IMB_ORDER_HASH_CIPHER", ORDER_HASH_CIPHER),
            ("IMB_STATUS_COMPLETED", STATUS_COMPLETED),
        ];
        let mut text = format!(
            "#include <stddef.h>\n#include <intel-ipsec-mb.h>\n\
             #if IMB_VERSION_NUM < {} || IMB_VERSION_NUM >= {}\n#error other version\n#endif\n\
             #define SAME(a, b) _Static_assert((a) == (b), #a)\nint main(void) {{ return 0; }}\n{own}",
            numbers.start, numbers.end
        );
        for (name, at) in manager {
            text += &format!("SAME(offsetof(IMB_MGR, {name}), {at});\n");
        }
        for (name, at) in job {
            text += &format!("SAME(offsetof(IMB_JOB, {name}), {at});\n");
        }
        for (name, value) in enums {
            text += &format!("SAME({name}, {value});\n");
        }
        for (name, room) in [("gcm_key_data", GCM_KEY), ("gcm_context_data", GCM_CTX)] {
            text += &format!("SAME(sizeof(struct {name}) <= {room}, 1);\n");
        }
        let build = |text: &str| {
            fs::write(&source, text).unwrap();
            let include = header.map(|dir| format!("-I{}", dir.display()));
            let cc = Command::new("cc")
                .args(include)
                .arg(&source)
                .arg("-o")
                .arg(&program)
                .output();
            cc.map(|o| {
                (
                    o.status.success(),
                    String::from_utf8_lossy(&o.stderr).into_owned(),
                )
            })
        };
        match build(&text) {
            Ok((true, _)) => {
                // Control: check that a wrong offset is detected.
                let (good, _) = build(&(text + "SAME(offsetof(IMB_MGR, ghash), 0);\n")).unwrap();
                assert!(!good);
            }
            Ok((false, why))
                if why.contains("intel-ipsec-mb.h:") || why.contains("other version") =>
            {
                println!("SKIPPED: no header of ipsec-mb {version} here");
            }
            Ok((false, why)) => panic!("{why}"),
            Err(_) => println!("SKIPPED: no C compiler here"),
        }
    }
}
