//! Drivers of a hosted tree, opened by name: requests through the tree's own crypto API (`tree/request.c`).

use std::ffi::{c_void, CStr, CString};
use std::fmt;
use std::ptr;
use std::rc::Rc;

use kiln_kernel::cpu::{self, GateFn};

use crate::{Error, Host};

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
    /// What it is.
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

fn told(result: u64) -> Result<(), Refused> {
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
    calls: GateFn,
    pieces: GateFn,
    state: GateFn,
    series: GateFn,
    testing: unsafe extern "C" fn(*const std::ffi::c_char),
}

impl Calls {
    /// Of a booted tree.
    ///
    /// # Errors
    /// The tree could not compile `tree/request.c`.
    pub fn of(host: &Host) -> Result<Rc<Calls>, Error> {
        let function = |name: &str| {
            if host.image.symbol(name).is_none() {
                return Err(Error::Input(format!(
                    "this tree does not take kiln's calls ({name} is not in {}): 'kiln tree' says what does not build",
                    host.image.path.display()
                )));
            }
            // SAFETY: in `request.c` and `series.c` all of these take a pointer and return 64 bits.
            unsafe { host.image.function::<GateFn>(name) }
        };
        Ok(Rc::new(Calls {
            list: function("kiln_glue_list")?,
            open: function("kiln_glue_open")?,
            close: function("kiln_glue_close")?,
            setkey: function("kiln_glue_setkey")?,
            calls: function("kiln_glue_calls")?,
            pieces: function("kiln_glue_pieces")?,
            state: function("kiln_glue_state")?,
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

    /// Names what is called next: whoever reports a crash tells it.
    pub(crate) fn name(&self, name: &CStr) {
        // SAFETY: copies a string; needs no CPU.
        unsafe { (self.testing)(name.as_ptr()) }
    }

    /// # Safety
    /// `primitive` is `struct primitive` of `series.c`, all of its pointers good.
    pub(crate) unsafe fn series(&self, primitive: *mut c_void) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.call(self.series, primitive) }
    }

    /// The drivers that can be opened, in order of registration.
    pub fn list(&self) -> Vec<Listed> {
        let mut raw: Vec<RawListed> = Vec::new();
        let mut list = RawList {
            listed: ptr::null_mut(),
            room: 0,
            count: 0,
        };
        loop {
            // SAFETY: the list has room for as many as it says.
            unsafe { self.call(self.list, (&raw mut list).cast()) };
            let count = list.count as usize;
            if count <= raw.len() {
                raw.truncate(count);
                return raw.iter().map(RawListed::listed).collect();
            }
            raw.resize_with(count, RawListed::empty);
            (list.listed, list.room) = (raw.as_mut_ptr(), count as u64);
        }
    }
}

#[repr(C)]
struct RawListed {
    name: [u8; 128],
    driver: [u8; 128],
    kind: u32,
    internal: u32,
    priority: i32,
    is_async: u32,
}

impl RawListed {
    fn empty() -> RawListed {
        RawListed {
            name: [0; 128],
            driver: [0; 128],
            kind: 0,
            internal: 0,
            priority: 0,
            is_async: 0,
        }
    }

    fn listed(&self) -> Listed {
        let text = |bytes: &[u8]| {
            let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        let kinds = [Kind::Skcipher, Kind::Aead, Kind::Shash, Kind::Ahash];
        Listed {
            name: text(&self.name),
            driver: text(&self.driver),
            kind: kinds[self.kind as usize],
            internal: self.internal != 0,
            priority: self.priority,
            is_async: self.is_async != 0,
        }
    }
}

#[repr(C)]
struct RawList {
    listed: *mut RawListed,
    room: u64,
    count: u64,
}

/// `enum kiln_which`.
const PUBLIC: u32 = 0;
const INTERNAL: u32 = 1;
const SYNCHRONOUS: u32 = 2;

#[repr(C)]
struct RawOpen {
    driver: *const std::ffi::c_char,
    kind: u32,
    which: u32,
    engine: *mut c_void,
    context: *mut c_void,
    iv: u32,
    block: u32,
    digest: u32,
    tag: u32,
    is_async: u32,
    keyed: u32,
}

#[repr(C)]
struct RawKey {
    engine: *mut c_void,
    key: *const u8,
    len: u32,
    tag: u32,
}

#[repr(C)]
struct RawCalls {
    engine: *mut c_void,
    src: *const u8,
    dst: *mut u8,
    ivs: *const u8,
    src_stride: u64,
    dst_stride: u64,
    iv_stride: u64,
    src_len: u64,
    dst_len: u64,
    prefix: u64,
    count: u64,
    calls: u64,
    decrypt: u32,
    unused: u32,
}

#[repr(C)]
struct RawPiece {
    at: *mut u8,
    len: u64,
}

#[repr(C)]
struct RawPieces {
    engine: *mut c_void,
    src: *const RawPiece,
    dst: *const RawPiece,
    iv: *mut u8,
    result: *mut u8,
    len: u64,
    prefix: u64,
    src_count: u32,
    dst_count: u32,
    decrypt: u32,
    unused: u32,
}

#[repr(C)]
struct RawState {
    engine: *mut c_void,
    src: *const u8,
    len: u64,
    state: *mut u8,
    size: u64,
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

/// Messages in memory, as a series of calls goes over them: message i of `src_len` bytes at `i * src_stride`, and so on.
pub struct Series<'a> {
    /// The messages: prefix, data, an AEAD's tag where it is decrypted.
    pub src: &'a [u8],
    /// Where the results go.
    pub dst: &'a mut [u8],
    /// IVs.
    pub ivs: &'a [u8],
    /// Bytes from one to the next.
    pub src_stride: usize,
    /// Of results.
    pub dst_stride: usize,
    /// Of IVs.
    pub iv_stride: usize,
    /// Bytes of a message.
    pub src_len: usize,
    /// Bytes of a result.
    pub dst_len: usize,
    /// Bytes of a message that come before its data.
    pub prefix: usize,
    /// Messages.
    pub count: usize,
    /// Whether to decrypt.
    pub decrypt: bool,
}

impl Series<'_> {
    /// Panics unless all messages lie in the buffers.
    pub(crate) fn check(&self) {
        let last = |stride: usize, len: usize| (self.count - 1) * stride + len;
        assert!(self.count > 0 && self.prefix <= self.src_len);
        assert!(last(self.src_stride, self.src_len) <= self.src.len());
        assert!(last(self.dst_stride, self.dst_len) <= self.dst.len());
        assert!(self.count * self.iv_stride <= self.ivs.len());
    }
}

/// A request's parts that are no pieces.
pub struct Request<'a> {
    /// The IV, which the driver may write to.
    pub iv: &'a mut [u8],
    /// Of a hash: where the digest goes.
    pub result: &'a mut [u8],
    /// Bytes of the source's pieces that are a prefix (associated data).
    pub prefix: usize,
    /// Whether to decrypt.
    pub decrypt: bool,
}

/// A driver that was opened, with a request of its own.
pub struct Engine {
    calls: Rc<Calls>,
    raw: *mut c_void,
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
        let which = if internal { INTERNAL } else { PUBLIC };
        Engine::open_which(calls, driver, kind, which)
    }

    /// Opens what a caller gets for an algorithm's name who cannot wait for an answer.
    ///
    /// # Errors
    /// As there.
    pub fn open_synchronous(calls: &Rc<Calls>, alg: &str, kind: Kind) -> Result<Engine, Refused> {
        Engine::open_which(calls, alg, kind, SYNCHRONOUS)
    }

    fn open_which(
        calls: &Rc<Calls>,
        driver: &str,
        kind: Kind,
        which: u32,
    ) -> Result<Engine, Refused> {
        let name = CString::new(driver).map_err(|_| Refused(libc::EINVAL))?;
        let mut open = RawOpen {
            driver: name.as_ptr(),
            kind: kind as u32,
            which,
            engine: ptr::null_mut(),
            context: ptr::null_mut(),
            iv: 0,
            block: 0,
            digest: 0,
            tag: 0,
            is_async: 0,
            keyed: 0,
        };
        calls.name(&name);
        // SAFETY: the structure is `struct kiln_open`, the name lives as long as the call.
        told(unsafe { calls.call(calls.open, (&raw mut open).cast()) })?;
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
        let mut raw = RawKey {
            engine: self.raw,
            key: key.as_ptr(),
            len: key.len() as u32,
            tag: tag as u32,
        };
        self.calls.name(&self.name);
        // SAFETY: the structure is `struct kiln_key`; the engine is open.
        told(unsafe { self.calls.call(self.calls.setkey, (&raw mut raw).cast()) })
    }

    /// The driver's context, where its expanded key is; null for what has none of its own.
    pub(crate) fn context(&self) -> *mut u8 {
        self.context
    }

    /// Makes `calls` calls on the messages in turn, after the last the first again.
    ///
    /// # Errors
    /// The first that fails.
    pub fn run(&self, series: &mut Series, calls: u64) -> Result<(), Refused> {
        series.check();
        let mut raw = RawCalls {
            engine: self.raw,
            src: series.src.as_ptr(),
            dst: series.dst.as_mut_ptr(),
            ivs: series.ivs.as_ptr(),
            src_stride: series.src_stride as u64,
            dst_stride: series.dst_stride as u64,
            iv_stride: series.iv_stride as u64,
            src_len: series.src_len as u64,
            dst_len: series.dst_len as u64,
            prefix: series.prefix as u64,
            count: series.count as u64,
            calls,
            decrypt: u32::from(series.decrypt),
            unused: 0,
        };
        self.calls.name(&self.name);
        // SAFETY: the structure is `struct kiln_calls`; all messages lie in the buffers.
        told(unsafe { self.calls.call(self.calls.calls, (&raw mut raw).cast()) })
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
        let raw = |pieces: &mut [&mut [u8]]| -> Vec<RawPiece> {
            let piece = |p: &mut &mut [u8]| RawPiece {
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
        let mut raw = RawPieces {
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
            unused: 0,
        };
        self.calls.name(&self.name);
        // SAFETY: the structure is `struct kiln_pieces`; the pieces are borrowed for the call.
        told(unsafe { self.calls.call(self.calls.pieces, (&raw mut raw).cast()) })
    }

    /// Of a synchronous hash: its exported state after some data, at most as much as there is room for.
    ///
    /// # Errors
    /// Of another kind, or without its key.
    pub fn state(&self, data: &[u8], state: &mut [u8]) -> Result<usize, Refused> {
        let mut raw = RawState {
            engine: self.raw,
            src: data.as_ptr(),
            len: data.len() as u64,
            state: state.as_mut_ptr(),
            size: state.len() as u64,
        };
        // SAFETY: the structure is `struct kiln_state`.
        told(unsafe { self.calls.call(self.calls.state, (&raw mut raw).cast()) })?;
        Ok(raw.size as usize)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: open, and closed once.
        unsafe { self.calls.call(self.calls.close, self.raw) };
    }
}
