//! Opens the drivers of a hosted tree by name, and makes requests through the tree's own crypto API
//! (`tree/request.c`).

use std::ffi::{c_char, c_void, CStr, CString};
use std::fmt;
use std::rc::Rc;

use kiln_kernel::cipher;
use kiln_kernel::cpu::{self, GateFn};
use kiln_kernel::messages::{IvRoom, Messages, Needs};

use crate::{raw, Error, Host};

/// The crypto API's driver types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Kind {
    /// A symmetric cipher.
    Skcipher,
    /// A cipher with associated data and a tag.
    Aead,
    /// A synchronous hash.
    Shash,
    /// A hash that may complete asynchronously.
    Ahash,
}

/// A driver in the crypto API's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Algorithm, such as `xts(aes)`; names of internal algorithms begin with `__`.
    pub name: String,
    /// Driver name, such as `xts-aes-aesni`.
    pub driver: String,
    pub kind: Kind,
    /// Whether the driver is internal: only other drivers of the crypto API may use it.
    pub internal: bool,
    /// The driver's priority. Among the drivers for an algorithm, the crypto API chooses the one
    /// with the highest priority.
    pub priority: i32,
    /// Whether a request may complete after the call has returned.
    pub is_async: bool,
}

/// The errno with which the crypto API rejected a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub i32);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            libc::EINVAL => "EINVAL",
            libc::ENOENT => "ENOENT",
            libc::ENOMEM => "ENOMEM",
            libc::EBADMSG => "EBADMSG",
            libc::ELIBBAD => "ELIBBAD",
            libc::ENOKEY => "ENOKEY",
            libc::ENOSYS => "ENOSYS",
            n => return write!(f, "error {n}"),
        };
        f.write_str(name)
    }
}

pub(crate) fn check(result: u64) -> Result<(), Refused> {
    match result as i32 {
        0 => Ok(()),
        n => Err(Refused(n)),
    }
}

/// Addresses of the glue functions through which Kiln uses the tree's crypto API, looked up once
/// per tree.
#[derive(Clone, Copy)]
pub struct Calls {
    list: GateFn,
    open: GateFn,
    close: GateFn,
    setkey: GateFn,
    requests: GateFn,
    request: GateFn,
    series: GateFn,
    testing: unsafe extern "C" fn(*const std::ffi::c_char),
}

impl Calls {
    /// Looks up the functions in a booted tree.
    ///
    /// # Errors
    /// Fails if the tree could not compile `tree/request.c`.
    pub fn find(host: &Host) -> Result<Rc<Calls>, Error> {
        let function = |name: &str| {
            if host.image.symbol(name).is_none() {
                return Err(Error::NoCall {
                    name: name.to_owned(),
                    image: host.image.path.clone(),
                });
            }
            // SAFETY: every function that is looked up here takes a pointer and returns a 64-bit
            // value (`request.c`, `series.c`).
            unsafe { host.image.function::<GateFn>(name) }
        };
        Ok(Rc::new(Calls {
            list: function("kiln_glue_list")?,
            open: function("kiln_glue_open")?,
            close: function("kiln_glue_close")?,
            setkey: function("kiln_glue_setkey")?,
            requests: function("kiln_glue_requests")?,
            request: function("kiln_glue_request")?,
            series: function("kiln_image_series")?,
            // SAFETY: `test.c` defines the function with the type that this field declares.
            testing: unsafe { host.image.function("kiln_image_testing")? },
        }))
    }

    /// Calls a glue function in kernel mode.
    ///
    /// # Safety
    /// `argument` must be valid for `function`.
    unsafe fn call(&self, function: GateFn, argument: *mut c_void) -> u64 {
        // SAFETY: `function` is a glue function, which must be called through the gate, and the
        // caller guarantees that the argument is valid for it.
        unsafe { cpu::gate(function, argument) }
    }

    /// Sets the driver name to report if the next call crashes.
    pub(crate) fn name(&self, name: &CStr) {
        // SAFETY: the function only copies the string, so it need not be called through the gate.
        unsafe { (self.testing)(name.as_ptr()) }
    }

    /// Calls an assembly function on a series of messages.
    ///
    /// # Safety
    /// `primitive` must point to a [`raw::Primitive`] whose pointers are all valid.
    pub(crate) unsafe fn series(&self, primitive: *mut c_void) -> u64 {
        // SAFETY: the function takes a `raw::Primitive`, and the caller guarantees that its
        // pointers are valid.
        unsafe { self.call(self.series, primitive) }
    }

    /// Returns the drivers that can be opened, in order of registration.
    pub fn list(&self) -> Vec<Listed> {
        let mut raw: Vec<raw::Listed> = Vec::new();
        let mut list = raw::List::default();
        loop {
            // SAFETY: the argument points to the structure that the function takes, and its buffer
            // has the stated capacity.
            unsafe { self.call(self.list, (&raw mut list).cast()) };
            let count = list.count as usize;
            if count <= raw.len() {
                raw.truncate(count);
                return raw.iter().map(Listed::from_raw).collect();
            }
            raw.resize_with(count, raw::Listed::default);
            (list.listed, list.room) = (raw.as_mut_ptr(), count as u64);
        }
    }
}

impl Listed {
    fn from_raw(raw: &raw::Listed) -> Listed {
        let text = |text: &[c_char]| {
            let bytes = text.iter().map(|&c| c as u8).take_while(|&b| b != 0);
            String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
        };
        let kinds = [Kind::Skcipher, Kind::Aead, Kind::Shash, Kind::Ahash];
        Listed {
            name: text(&raw.name),
            driver: text(&raw.driver),
            kind: kinds[raw.kind as usize],
            internal: raw.internal != 0,
            priority: raw.priority,
            is_async: raw.is_async != 0,
        }
    }
}

/// Sizes and properties that an open driver reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// IV size in bytes.
    pub iv: usize,
    /// Block size in bytes. A cipher whose block size is 1 accepts messages of any length.
    pub block: usize,
    /// Digest size in bytes.
    pub digest: usize,
    /// Largest tag size in bytes.
    pub tag: usize,
    /// Whether a request may complete after the call has returned.
    pub is_async: bool,
    /// Whether the driver requires a key.
    pub keyed: bool,
}

/// All fields of a request except its source and destination.
pub struct Request<'a> {
    /// The IV, which the driver may modify.
    pub iv: &'a mut [u8],
    /// Buffer for the digest, if the driver is a hash.
    pub result: &'a mut [u8],
    /// Number of bytes of associated data at the beginning of the source.
    pub prefix: usize,
    pub decrypt: bool,
}

/// An open driver, and one request that all calls reuse.
pub struct Engine {
    calls: Rc<Calls>,
    raw: *mut raw::Engine,
    name: CString,
    context: *mut u8,
    pub sizes: Sizes,
    pub kind: Kind,
}

impl Engine {
    /// Opens a driver by name. `internal` selects an internal driver instead of a public one.
    ///
    /// # Errors
    /// Fails if the crypto API has no such driver, or cannot instantiate it.
    pub fn open(
        calls: &Rc<Calls>,
        driver: &str,
        kind: Kind,
        internal: bool,
    ) -> Result<Engine, Refused> {
        let which = match internal {
            true => raw::KILN_INTERNAL,
            false => raw::KILN_PUBLIC,
        };
        Engine::open_which(calls, driver, kind, which)
    }

    /// Opens the driver that the crypto API chooses for a caller that needs synchronous completion.
    pub fn open_synchronous(calls: &Rc<Calls>, alg: &str, kind: Kind) -> Result<Engine, Refused> {
        Engine::open_which(calls, alg, kind, raw::KILN_SYNCHRONOUS)
    }

    fn open_which(
        calls: &Rc<Calls>,
        driver: &str,
        kind: Kind,
        which: u32,
    ) -> Result<Engine, Refused> {
        let name = CString::new(driver).map_err(|_| Refused(libc::EINVAL))?;
        let mut open = raw::EngineOpen {
            driver: name.as_ptr(),
            kind: kind as u32,
            which,
            ..Default::default()
        };
        calls.name(&name);
        // SAFETY: the argument points to the structure that the function takes, and the name
        // outlives the call.
        check(unsafe { calls.call(calls.open, (&raw mut open).cast()) })?;
        Ok(Engine {
            calls: calls.clone(),
            raw: open.engine,
            name,
            context: open.context.cast(),
            sizes: Sizes {
                iv: open.iv as usize,
                block: open.block as usize,
                digest: open.digest as usize,
                tag: open.tag as usize,
                is_async: open.is_async != 0,
                keyed: open.keyed != 0,
            },
            kind,
        })
    }

    /// Sets the key. For an AEAD, also sets the tag size, unless `tag` is 0.
    ///
    /// # Errors
    /// Fails if the driver rejects the key or the tag size.
    pub fn set_key(&self, key: &[u8], tag: usize) -> Result<(), Refused> {
        let mut raw = raw::EngineKey {
            engine: self.raw,
            key: key.as_ptr(),
            len: key.len() as u32,
            tag: tag as u32,
        };
        self.calls.name(&self.name);
        // SAFETY: the argument points to the structure that the function takes, and the engine is
        // open.
        check(unsafe { self.calls.call(self.calls.setkey, (&raw mut raw).cast()) })
    }

    /// Returns the driver's context, which holds its expanded key; null if the driver has no
    /// context.
    pub(crate) fn context(&self) -> *mut u8 {
        self.context
    }

    /// Makes `calls` calls, cycling through the messages.
    ///
    /// # Errors
    /// Returns the error of the first call that fails, or `EINVAL` if the messages exceed their
    /// buffers.
    pub fn run(&self, messages: &mut Messages<'_>, calls: u64) -> Result<(), Refused> {
        let cipher = matches!(self.kind, Kind::Skcipher | Kind::Aead);
        let needs = Needs {
            kind: match self.kind {
                Kind::Skcipher => cipher::Kind::Skcipher,
                Kind::Aead => cipher::Kind::Aead,
                Kind::Shash | Kind::Ahash => cipher::Kind::Hash,
            },
            iv: self.sizes.iv,
            digest: self.sizes.digest,
            tags_apart: false,
            copies_ivs: cipher,
        };
        let mut single = IvRoom::default();
        let m = messages.raw(&needs, &mut single, calls);
        let mut raw = raw::EngineRequests {
            engine: self.raw,
            m: m.map_err(|_| Refused(libc::EINVAL))?,
        };
        self.calls.name(&self.name);
        // SAFETY: the argument points to the structure that the function takes, and all messages
        // are within the buffers.
        check(unsafe { self.calls.call(self.calls.requests, (&raw mut raw).cast()) })
    }

    /// Makes one request whose data may consist of several pieces. If `dst` is empty, the request
    /// works in place.
    ///
    /// # Errors
    /// Returns the driver's error, such as `EBADMSG`.
    pub fn request(
        &self,
        src: &mut [&mut [u8]],
        dst: &mut [&mut [u8]],
        request: Request,
    ) -> Result<(), Refused> {
        let raw = |pieces: &mut [&mut [u8]]| -> Vec<raw::EnginePiece> {
            let piece = |p: &mut &mut [u8]| raw::EnginePiece {
                at: p.as_mut_ptr(),
                len: p.len() as u64,
            };
            pieces.iter_mut().map(piece).collect()
        };
        let total: usize = src.iter().map(|p| p.len()).sum();
        let fits = request.prefix <= total
            && request.iv.len() >= self.sizes.iv
            && request.result.len() >= self.sizes.digest;
        if !fits {
            return Err(Refused(libc::EINVAL));
        }
        let (from, to) = (raw(src), raw(dst));
        let mut raw = raw::EngineRequest {
            engine: self.raw,
            src: from.as_ptr(),
            dst: to.as_ptr(),
            iv: request.iv.as_mut_ptr(),
            result: request.result.as_mut_ptr(),
            len: (total - request.prefix) as u64,
            prefix: request.prefix as u64,
            src_count: from.len() as u32,
            dst_count: to.len() as u32,
            decrypt: u32::from(request.decrypt),
        };
        self.calls.name(&self.name);
        // SAFETY: the argument points to the structure that the function takes, and the pieces are
        // borrowed for the duration of the call.
        check(unsafe { self.calls.call(self.calls.request, (&raw mut raw).cast()) })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: the tree opened the engine, and only this call closes it.
        unsafe { self.calls.call(self.calls.close, self.raw.cast()) };
    }
}
