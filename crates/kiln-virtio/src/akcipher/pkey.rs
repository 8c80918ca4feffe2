//! Keys that have been imported into libcrypto, and the operations that use them.

use std::ffi::{c_int, CStr};
use std::ptr::{null, null_mut};

use zeroize::Zeroizing;

use super::key::{Curve, Ec, Hash, Padding, Parts, Rsa, Scheme};
use super::library::{Ctx, Functions, Library, Param};
use crate::wire::{Action, Status};

/// The selections `EVP_PKEY_PUBLIC_KEY` and `EVP_PKEY_KEYPAIR`.
const PUBLIC: c_int = 0x86;
const KEYPAIR: c_int = 0x87;

/// The padding modes `RSA_PKCS1_PADDING` and `RSA_NO_PADDING`.
const PKCS1_PADDING: c_int = 1;
const NO_PADDING: c_int = 3;

/// An `EVP_PKEY`. libcrypto wipes the key when freeing it.
pub(super) struct Pkey {
    library: Library,
    raw: *mut std::ffi::c_void,
    /// Size of an RSA key's modulus in bytes; 0 for an EC key.
    modulus: usize,
}

// SAFETY: libcrypto counts references to keys atomically and locks the data that it caches in keys.
// Each operation has its own context.
unsafe impl Send for Pkey {}
// SAFETY: concurrent operations on one key are safe for the reasons given above for `Send`.
unsafe impl Sync for Pkey {}

/// The libcrypto context of one operation.
struct Operation<'a> {
    f: &'a Functions,
    ctx: Ctx,
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        // SAFETY: the context was created by `start` or `Pkey::new` and is freed only here. No
        // other code reads this thread's error queue, so the queue may be cleared.
        unsafe {
            (self.f.ctx_free)(self.ctx);
            (self.f.clear_errors)();
        }
    }
}

/// Converts a big-endian number to the host's little-endian order.
fn reverse(number: &[u8]) -> Zeroizing<Vec<u8>> {
    // Use at least one byte, because libcrypto rejects a number with a length of zero.
    let mut bytes = Zeroizing::new(vec![0; number.len().max(1)]);
    bytes
        .iter_mut()
        .zip(number.iter().rev())
        .for_each(|(to, from)| *to = *from);
    bytes
}

impl Hash {
    fn name(self) -> &'static CStr {
        match self {
            Hash::Md5 => c"MD5",
            Hash::Sha1 => c"SHA1",
            Hash::Sha224 => c"SHA224",
            Hash::Sha256 => c"SHA256",
            Hash::Sha384 => c"SHA384",
            Hash::Sha512 => c"SHA512",
        }
    }
}

impl Curve {
    fn name(self) -> &'static CStr {
        match self {
            Curve::P192 => c"prime192v1",
            Curve::P224 => c"secp224r1",
            Curve::P256 => c"prime256v1",
            Curve::P384 => c"secp384r1",
            Curve::P521 => c"secp521r1",
        }
    }
}

impl Pkey {
    /// Imports a parsed key into libcrypto.
    pub(super) fn new(library: &Library, parts: &Parts<'_>) -> Result<Pkey, Status> {
        match parts {
            Parts::Rsa(rsa) => Pkey::rsa(library, rsa),
            Parts::Ec(ec) => Pkey::ec(library, ec),
        }
    }

    fn rsa(library: &Library, rsa: &Rsa<'_>) -> Result<Pkey, Status> {
        const CRT: [&CStr; 5] = [
            c"rsa-factor1",
            c"rsa-factor2",
            c"rsa-exponent1",
            c"rsa-exponent2",
            c"rsa-coefficient1",
        ];
        let mut numbers = vec![(c"n", reverse(rsa.n)), (c"e", reverse(rsa.e))];
        if let Some(private) = &rsa.private {
            numbers.push((c"d", reverse(private.d)));
            let crt = private.crt.iter().flatten();
            numbers.extend(CRT.into_iter().zip(crt.map(|n| reverse(n))));
        }
        let mut params: Vec<Param> = numbers.iter().map(|(k, n)| Param::number(k, n)).collect();
        params.push(Param::END);
        let selection = if rsa.private.is_some() {
            KEYPAIR
        } else {
            PUBLIC
        };
        Pkey::from_data(library, c"RSA", selection, &params, rsa.n.len())
    }

    fn ec(library: &Library, ec: &Ec<'_>) -> Result<Pkey, Status> {
        let number = ec.private.map(reverse);
        let mut params = vec![Param::text(c"group", ec.curve.name())];
        params.extend(number.iter().map(|n| Param::number(c"priv", n)));
        params.extend(ec.public.iter().map(|p| Param::octets(c"pub", p)));
        params.push(Param::END);
        let selection = if number.is_some() { KEYPAIR } else { PUBLIC };
        Pkey::from_data(library, c"EC", selection, &params, 0)
    }

    fn from_data(
        library: &Library,
        name: &CStr,
        selection: c_int,
        params: &[Param],
        modulus: usize,
    ) -> Result<Pkey, Status> {
        let f = &*library.0;
        // SAFETY: the name is a C string, and null selects the default library context and
        // properties.
        let ctx = unsafe { (f.ctx_from_name)(null_mut(), name.as_ptr(), null()) };
        let op = Operation::new(f, ctx)?;
        let mut raw = null_mut();
        // SAFETY: the parameter list is terminated and only read, and the memory it points to
        // outlives the calls.
        let ok = unsafe {
            (f.fromdata_init)(op.ctx) == 1
                && (f.fromdata)(op.ctx, &mut raw, selection, params.as_ptr()) == 1
        };
        let key = Pkey {
            library: library.clone(),
            raw,
            modulus,
        };
        match ok && !raw.is_null() {
            true => Ok(key),
            false => Err(Status::Err),
        }
    }

    fn start(
        &self,
        init: unsafe extern "C" fn(Ctx) -> c_int,
        scheme: Scheme,
        signs: bool,
    ) -> Result<Operation<'_>, Status> {
        let f = &*self.library.0;
        // SAFETY: the key is valid, and the context takes a reference to it.
        let ctx = unsafe { (f.ctx_from_pkey)(null_mut(), self.raw, null()) };
        let op = Operation::new(f, ctx)?;
        // SAFETY: `init` initialises the new context before the padding and the digest are set.
        let ok = unsafe {
            init(op.ctx) == 1
                && match scheme {
                    Scheme::Rsa(Padding::Raw) => (f.set_padding)(op.ctx, NO_PADDING) == 1,
                    Scheme::Rsa(Padding::Pkcs1(hash)) => {
                        (f.set_padding)(op.ctx, PKCS1_PADDING) == 1
                            && hash.filter(|_| signs).is_none_or(|hash| {
                                let md = (f.md_by_name)(hash.name().as_ptr());
                                !md.is_null() && (f.set_md)(op.ctx, md) == 1
                            })
                    }
                    Scheme::Ecdsa(_) => true,
                }
        };
        ok.then_some(op).ok_or(Status::Err)
    }

    /// Performs an RSA operation. In raw mode and when decrypting, `src` is a number that may be
    /// shorter than the modulus, because leading zeros are optional.
    pub(super) fn crypt(
        &self,
        padding: Padding,
        action: Action,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<usize, Status> {
        let f = &*self.library.0;
        let (init, call) = match action {
            Action::Encrypt => (f.encrypt_init, f.encrypt),
            _ => (f.decrypt_init, f.decrypt),
        };
        if src.len() > self.modulus {
            return Err(Status::Err);
        }
        let mut whole = Zeroizing::new(Vec::new());
        let number = padding == Padding::Raw || action == Action::Decrypt;
        if number {
            whole.resize(self.modulus - src.len(), 0);
        }
        whole.extend_from_slice(src);
        let op = self.start(init, Scheme::Rsa(padding), false)?;
        op.call(call, &whole, self.modulus, dst)
    }

    /// Signs a digest and returns the length of the signature.
    pub(super) fn sign(&self, scheme: Scheme, src: &[u8], dst: &mut [u8]) -> Result<usize, Status> {
        let f = &*self.library.0;
        let op = self.start(f.sign_init, scheme, true)?;
        let most = match scheme {
            Scheme::Rsa(_) => self.modulus,
            // The maximum size of the signature: a sequence of two integers, each with a header and
            // a sign byte.
            Scheme::Ecdsa(curve) => 2 * (curve.bytes() + 3) + 3,
        };
        op.call(f.sign, src, most, dst)
    }

    /// Checks that `signature` is a valid signature of the digest `signed`.
    pub(super) fn verify(
        &self,
        scheme: Scheme,
        signature: &[u8],
        signed: &[u8],
    ) -> Result<(), Status> {
        let f = &*self.library.0;
        let op = self.start(f.verify_init, scheme, true)?;
        let (s, d) = (signature, signed);
        // SAFETY: the context is valid, and each pointer is passed with the length of its slice.
        let right = unsafe { (f.verify)(op.ctx, s.as_ptr(), s.len(), d.as_ptr(), d.len()) };
        match right {
            1 => Ok(()),
            _ => Err(Status::KeyRejected),
        }
    }
}

impl Drop for Pkey {
    fn drop(&mut self) {
        // SAFETY: `self` owns one reference to the key, and this call releases it exactly once. A
        // null pointer is allowed.
        unsafe { (self.library.0.pkey_free)(self.raw) }
    }
}

impl Operation<'_> {
    fn new(f: &Functions, ctx: Ctx) -> Result<Operation<'_>, Status> {
        match ctx.is_null() {
            true => Err(Status::Err),
            false => Ok(Operation { f, ctx }),
        }
    }

    /// Calls a libcrypto function that returns at most `most` bytes, and writes the result to `dst`
    /// if it fits.
    fn call(
        &self,
        call: unsafe extern "C" fn(Ctx, *mut u8, *mut usize, *const u8, usize) -> c_int,
        src: &[u8],
        most: usize,
        dst: &mut [u8],
    ) -> Result<usize, Status> {
        let mut out = Zeroizing::new(vec![0; most]);
        let mut len = most;
        // SAFETY: the output buffer has `len` bytes, which is the capacity passed to the function,
        // and the input is passed with its length.
        let done = unsafe {
            call(
                self.ctx,
                out.as_mut_ptr(),
                &mut len,
                src.as_ptr(),
                src.len(),
            )
        };
        let result = out.get(..len).filter(|_| done == 1).ok_or(Status::Err)?;
        dst.get_mut(..len)
            .ok_or(Status::Err)?
            .copy_from_slice(result);
        Ok(len)
    }
}
