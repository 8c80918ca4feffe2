//! Drivers of a hosted tree, opened by name: requests through the tree's own crypto API (`tree/request.c`).

use std::ffi::{c_char, c_void, CStr, CString};
use std::fmt;
use std::rc::Rc;

use kiln_kernel::cipher;
use kiln_kernel::cpu::{self, GateFn};
use kiln_kernel::messages::{IvRoom, Messages, Needs};

use crate::{raw, Error, Host};

/// What a driver is to the crypto API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Kind {
    /// A symmetric cipher.
    Skcipher,
    /// A cipher with associated data and a tag.
    Aead,
    /// A synchronous hash.
    Shash,
    /// A hash that may answer later.
    Ahash,
}

/// A driver as registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Such as `xts(aes)`; an internal one's begins with `__`.
    pub name: String,
    /// Such as `xts-aes-aesni`.
    pub driver: String,
    pub kind: Kind,
    /// For the crypto API's own use.
    pub internal: bool,
    /// The highest is chosen.
    pub priority: i32,
    /// May answer later.
    pub is_async: bool,
}

/// What the crypto API refused.
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

/// The functions of a tree's glue that make calls, looked up once.
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
    /// Looks them up in a booted tree.
    ///
    /// # Errors
    /// The tree could not compile `tree/request.c`.
    pub fn find(host: &Host) -> Result<Rc<Calls>, Error> {
        let function = |name: &str| {
            if host.image.symbol(name).is_none() {
                return Err(Error::NoCall {
                    name: name.to_owned(),
                    image: host.image.path.clone(),
                });
            }
            // SAFETY: in `request.c` and `series.c` all of these take a pointer and return 64 bits.
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
            // SAFETY: of this type in `test.c`.
            testing: unsafe { host.image.function("kiln_image_testing")? },
        }))
    }

    /// # Safety
    /// `argument` is what `function` takes.
    unsafe fn call(&self, function: GateFn, argument: *mut c_void) -> u64 {
        // SAFETY: made for the gate; the rest is the caller's promise.
        unsafe { cpu::gate(function, argument) }
    }

    /// Names what is called next, for the report of a crash.
    pub(crate) fn name(&self, name: &CStr) {
        // SAFETY: copies a string; needs no CPU.
        unsafe { (self.testing)(name.as_ptr()) }
    }

    /// # Safety
    /// `primitive` is a [`raw::Primitive`], all of its pointers good.
    pub(crate) unsafe fn series(&self, primitive: *mut c_void) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.call(self.series, primitive) }
    }

    /// The drivers that can be opened, in order of registration.
    pub fn list(&self) -> Vec<Listed> {
        let mut raw: Vec<raw::Listed> = Vec::new();
        let mut list = raw::List::default();
        loop {
            // SAFETY: the list has room for as many as it says.
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

/// What a driver says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of an IV.
    pub iv: usize,
    /// Bytes of a block; messages of a cipher need not be multiples of it if it is 1.
    pub block: usize,
    /// Bytes of a digest.
    pub digest: usize,
    /// Bytes of the largest tag.
    pub tag: usize,
    /// May answer later.
    pub is_async: bool,
    /// Does nothing without a key.
    pub keyed: bool,
}

/// A request's parts that are not pieces.
pub struct Request<'a> {
    /// The IV, which the driver may write to.
    pub iv: &'a mut [u8],
    /// Where the digest of a hash goes.
    pub result: &'a mut [u8],
    /// Bytes of the source's pieces that are a prefix (associated data).
    pub prefix: usize,
    pub decrypt: bool,
}

/// A driver that was opened, with a request of its own.
pub struct Engine {
    calls: Rc<Calls>,
    raw: *mut raw::Engine,
    name: CString,
    context: *mut u8,
    /// What it says of itself.
    pub sizes: Sizes,
    /// What it was opened as.
    pub kind: Kind,
}

impl Engine {
    /// Opens a driver by its name. Internal ones must be asked for as such.
    ///
    /// # Errors
    /// The crypto API has none, or cannot make one.
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

    /// Opens the transform that a caller gets for an algorithm's name if it cannot wait for an answer.
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
        // SAFETY: the structure is the one it takes, the name lives as long as the call.
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

    /// Sets the key; of an AEAD also the tag's size, unless it is 0.
    ///
    /// # Errors
    /// The driver refuses it.
    pub fn set_key(&self, key: &[u8], tag: usize) -> Result<(), Refused> {
        let mut raw = raw::EngineKey {
            engine: self.raw,
            key: key.as_ptr(),
            len: key.len() as u32,
            tag: tag as u32,
        };
        self.calls.name(&self.name);
        // SAFETY: the structure is the one it takes; the engine is open.
        check(unsafe { self.calls.call(self.calls.setkey, (&raw mut raw).cast()) })
    }

    /// The driver's context, where its expanded key is; null for what has none of its own.
    pub(crate) fn context(&self) -> *mut u8 {
        self.context
    }

    /// Makes `calls` calls on the messages in turn, after the last the first again.
    ///
    /// # Errors
    /// The first that fails; `EINVAL` if the messages do not lie in their buffers.
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
        // SAFETY: the structure is the one it takes; all messages lie in the buffers.
        check(unsafe { self.calls.call(self.calls.requests, (&raw mut raw).cast()) })
    }

    /// One request over pieces of memory; without destinations in place.
    ///
    /// # Errors
    /// The driver's answer, such as `EBADMSG`.
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
        // SAFETY: the structure is the one it takes; the pieces are borrowed for the call.
        check(unsafe { self.calls.call(self.calls.request, (&raw mut raw).cast()) })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: open, and closed once.
        unsafe { self.calls.call(self.calls.close, self.raw.cast()) };
    }
}
