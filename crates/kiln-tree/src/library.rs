//! Lists and calls the functions that a tree's library exports, such as `sha256()` and
//! `aes_gcm_encrypt()` (`tree/library/library.c`).

use std::ffi::{c_char, CStr, CString, OsString};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kiln_kernel::cipher;
use kiln_kernel::cpu::{self, GateFn};
use kiln_kernel::messages::{IvRoom, Messages, Needs};

use crate::child::{self, Label, Order, Watch};
use crate::engine::{check, Calls, Refused};
use crate::event::{Checked, Event};
use crate::{raw, Error, Host};

/// The kind of a library function, which determines its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Cipher,
    Aead,
    Hash,
    Agreement,
    /// A parity function. Its result is half as long as the message.
    Parity,
}

/// A library function, as described by the tables in `tree/library/`. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Name of the function, such as `sha256`.
    pub name: String,
    /// Name of the algorithm in the crypto API, such as `sha256`.
    pub alg: String,
    /// Operation: `encrypt`, `decrypt`, `digest` or `derive`.
    pub op: String,
    pub kind: Kind,
    /// Name of the reference function, if any, whose results this function must match.
    pub judge: Option<String>,
    /// Accepted key sizes; empty if the function takes no key.
    pub keys: Vec<usize>,
    /// Key size if it cannot be derived from the algorithm's name, otherwise 0.
    pub own_key: usize,
    pub iv: usize,
    pub prefix: usize,
    pub tag: usize,
    pub digest: usize,
    /// Length of the shortest message that the function accepts.
    pub least: usize,
    /// Length of the longest message that the function accepts.
    pub most: usize,
    /// Message lengths must be multiples of this number.
    pub multiple: usize,
    /// Whether the function may be called only from a task with softirqs and interrupts enabled.
    pub task_only: bool,
    /// Whether a call takes two messages.
    pub pairs: bool,
    /// Whether the function opens an FPU section without calling irq_fpu_usable() first.
    pub unasked: bool,
    /// Whether the function is not exported by the tree and only computes reference answers.
    pub judges: bool,
    raw: *const raw::Function,
}

impl Function {
    /// Returns the function's name. If several functions in `all` have this name, appends the
    /// algorithm.
    pub(crate) fn title(&self, all: &[Function]) -> String {
        let alike = all.iter().filter(|f| !f.judges && f.name == self.name);
        match alike.count() {
            0 | 1 => self.name.clone(),
            _ => format!("{}/{}", self.name, self.alg),
        }
    }

    pub(crate) fn takes(&self, len: usize) -> bool {
        (self.least..=self.most).contains(&len) && len % self.multiple == 0
    }

    /// Returns whether the function accepts a buffer at this address. RAID functions need aligned
    /// buffers, because they use aligned vector loads and stores.
    fn takes_address(&self, address: usize) -> bool {
        self.kind != Kind::Parity || address % 64 == 0
    }

    pub(crate) fn decrypts(&self) -> bool {
        self.op == "decrypt"
    }

    /// Returns the number of bytes that a call writes if a message of `len` bytes follows `prefix`
    /// bytes of associated data.
    pub(crate) fn result(&self, len: usize, prefix: usize) -> usize {
        let tag = if self.decrypts() { 0 } else { self.tag };
        match self.kind {
            Kind::Cipher | Kind::Aead => prefix + len + tag,
            Kind::Hash | Kind::Agreement => self.digest,
            Kind::Parity => len / 2,
        }
    }

    fn from_raw(raw: &raw::LibraryListed) -> Function {
        let text = |text: *const c_char| {
            // SAFETY: the pointer is NULL or a string in the image's table, which is never freed.
            let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
            text.map(|t| t.to_string_lossy().into_owned())
        };
        let flag = |flag| raw.flags & flag != 0;
        Function {
            name: text(raw.name).unwrap_or_default(),
            alg: text(raw.alg).unwrap_or_default(),
            op: text(raw.op).unwrap_or_default(),
            kind: match raw.kind {
                raw::KILN_LIBRARY_CIPHER => Kind::Cipher,
                raw::KILN_LIBRARY_AEAD => Kind::Aead,
                raw::KILN_LIBRARY_PARITY => Kind::Parity,
                raw::KILN_LIBRARY_AGREEMENT => Kind::Agreement,
                _ => Kind::Hash,
            },
            judge: text(raw.judge),
            keys: raw
                .keys
                .iter()
                .take_while(|&&n| n > 0)
                .map(|&n| n.into())
                .collect(),
            own_key: raw.own_key.into(),
            iv: raw.iv.into(),
            prefix: raw.prefix.into(),
            tag: raw.tag.into(),
            digest: raw.digest.into(),
            least: raw.least as usize,
            most: match raw.most {
                0 => usize::MAX,
                most => most as usize,
            },
            multiple: raw.multiple.max(1) as usize,
            task_only: flag(raw::KILN_LIBRARY_TASK),
            pairs: flag(raw::KILN_LIBRARY_PAIRS),
            unasked: flag(raw::KILN_LIBRARY_UNASKED),
            judges: flag(raw::KILN_LIBRARY_JUDGES),
            raw: raw.function,
        }
    }
}

/// The library functions of a booted tree.
pub struct Library {
    calls: Rc<Calls>,
    open: GateFn,
    close: GateFn,
    run: GateFn,
    call: GateFn,
    functions: Vec<Function>,
}

impl Library {
    /// Finds the library functions of a booted tree. Returns `None` if `tree/library/library.c`
    /// could not be compiled with this tree's headers.
    pub fn find(calls: &Rc<Calls>, host: &Host) -> Option<Rc<Library>> {
        let function = |name: &str| {
            host.image.symbol(name)?;
            // SAFETY: every function that is looked up here takes a pointer and returns 64 bits
            // (`library.c`).
            unsafe { host.image.function::<GateFn>(name) }.ok()
        };
        let mut library = Library {
            calls: calls.clone(),
            open: function("kiln_glue_library_open")?,
            close: function("kiln_glue_library_close")?,
            run: function("kiln_glue_library_run")?,
            call: function("kiln_glue_library_call")?,
            functions: Vec::new(),
        };
        library.functions = list(function("kiln_glue_library_list")?);
        Some(Rc::new(library))
    }

    /// Sets the name to report if the next call crashes.
    pub(crate) fn name(&self, name: &CStr) {
        self.calls.name(name);
    }

    /// Returns the tree's functions, in table order.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }
}

fn list(function: GateFn) -> Vec<Function> {
    let mut raw: Vec<raw::LibraryListed> = Vec::new();
    let mut list = raw::LibraryList::default();
    loop {
        // SAFETY: the argument points to the structure that the function takes, and its buffer has
        // the stated capacity.
        unsafe { cpu::gate(function, (&raw mut list).cast()) };
        let count = list.count as usize;
        if count <= raw.len() {
            return raw[..count].iter().map(Function::from_raw).collect();
        }
        raw.resize_with(count, raw::LibraryListed::default);
        (list.listed, list.room) = (raw.as_mut_ptr(), count as u64);
    }
}

/// A function whose key has been prepared.
pub struct Keyed {
    library: Rc<Library>,
    raw: *mut raw::Library,
    name: CString,
    function: Function,
}

impl Keyed {
    /// Prepares the key. If the function takes no key, `key` must be empty.
    ///
    /// # Errors
    /// Fails if the function does not accept a key of this size, or rejects the key.
    pub fn open(library: &Rc<Library>, function: &Function, key: &[u8]) -> Result<Keyed, Refused> {
        let name = CString::new(function.name.as_str()).map_err(|_| Refused(libc::EINVAL))?;
        let fits = match function.keys.is_empty() {
            true => key.len() == function.own_key,
            false => function.keys.contains(&key.len()),
        };
        if !fits {
            return Err(Refused(libc::EINVAL));
        }
        let mut open = raw::LibraryOpen {
            function: function.raw,
            key: key.as_ptr(),
            len: key.len() as u64,
            ..Default::default()
        };
        library.calls.name(&name);
        // SAFETY: the argument points to the structure that the function takes; the key outlives
        // the call and has an accepted size.
        check(unsafe { cpu::gate(library.open, (&raw mut open).cast()) })?;
        Ok(Keyed {
            library: library.clone(),
            raw: open.library,
            name,
            function: function.clone(),
        })
    }

    /// Returns the function's structure, to be passed to C code.
    pub(crate) fn raw(&self) -> *const raw::Library {
        self.raw
    }

    /// Makes `calls` calls, cycling through the messages. If `generic` is set, all calls are made
    /// inside an FPU section, where the function has to use its generic code.
    ///
    /// # Errors
    /// Returns the error of the first call that fails, or `EINVAL` if the messages exceed their
    /// buffers or have a length that the function does not accept.
    pub fn run(
        &self,
        messages: &mut Messages<'_>,
        calls: u64,
        generic: bool,
    ) -> Result<(), Refused> {
        self.run_raw(messages, calls, generic, false).map(|_| ())
    }

    /// Makes calls like [`Keyed::run`], with preemption off, and returns their duration in
    /// nanoseconds. The tree's KUnit benchmarks time their calls in this way.
    ///
    /// # Errors
    /// The same errors as [`Keyed::run`].
    pub fn time(&self, messages: &mut Messages<'_>, calls: u64) -> Result<u64, Refused> {
        self.run_raw(messages, calls, false, true)
    }

    fn run_raw(
        &self,
        messages: &mut Messages<'_>,
        calls: u64,
        generic: bool,
        timed: bool,
    ) -> Result<u64, Refused> {
        let f = &self.function;
        let needs = Needs {
            kind: match f.kind {
                Kind::Cipher => cipher::Kind::Skcipher,
                Kind::Aead => cipher::Kind::Aead,
                Kind::Hash | Kind::Agreement | Kind::Parity => cipher::Kind::Hash,
            },
            iv: f.iv,
            digest: match f.kind {
                Kind::Parity => messages.len / 2,
                _ => f.digest,
            },
            tags_apart: false,
            copies_ivs: true,
        };
        let decrypts = messages.op == cipher::Op::Decrypt;
        let addresses = [
            messages.src.as_ptr().addr() | messages.src_stride,
            messages.dst.as_ptr().addr() | messages.dst_stride,
        ];
        if !f.takes(messages.len)
            || !addresses.into_iter().all(|a| f.takes_address(a))
            || f.kind == Kind::Aead && (decrypts != f.decrypts() || messages.tag_size != f.tag)
        {
            return Err(Refused(libc::EINVAL));
        }
        let mut single = IvRoom::default();
        let m = messages.raw(&needs, &mut single, calls);
        let mut raw = raw::LibraryRun {
            library: self.raw,
            generic: generic.into(),
            timed: timed.into(),
            ns: 0,
            m: m.map_err(|_| Refused(libc::EINVAL))?,
        };
        self.library.calls.name(&self.name);
        // SAFETY: the argument points to the structure that the function takes, and all messages
        // are within the buffers.
        check(unsafe { cpu::gate(self.library.run, (&raw mut raw).cast()) })?;
        Ok(raw.ns)
    }

    /// Calls the function on one message of `len` bytes. In the source, `prefix` bytes of
    /// associated data precede the message; when decrypting, the tag follows the message. C code in
    /// `tree/` calls `kiln_library_call()` instead, which works in any context.
    ///
    /// # Errors
    /// Returns the function's error, such as `EBADMSG`, or `EINVAL` if a buffer is too small or the
    /// length is not accepted.
    pub fn call(
        &self,
        iv: &mut [u8],
        src: &[u8],
        dst: &mut [u8],
        len: usize,
        prefix: usize,
    ) -> Result<(), Refused> {
        let f = &self.function;
        let tag_in = if f.decrypts() { f.tag } else { 0 };
        let fits = f.takes(len)
            && f.takes_address(src.as_ptr().addr() | dst.as_ptr().addr())
            && iv.len() >= f.iv
            && src.len() >= prefix + len + tag_in
            && dst.len() >= f.result(len, prefix);
        if !fits {
            return Err(Refused(libc::EINVAL));
        }
        let mut raw = raw::LibraryCall {
            library: self.raw,
            iv: iv.as_mut_ptr(),
            src: src.as_ptr(),
            dst: dst.as_mut_ptr(),
            len: len as u64,
            prefix: prefix as u64,
        };
        self.library.calls.name(&self.name);
        // SAFETY: the argument points to the structure that the function takes, and the buffers
        // have at least the required lengths.
        check(unsafe { cpu::gate(self.library.call, (&raw mut raw).cast()) })
    }
}

impl Drop for Keyed {
    fn drop(&mut self) {
        // SAFETY: the tree opened the key, and only this call closes it.
        unsafe { cpu::gate(self.library.close, self.raw.cast()) };
    }
}

/// Time without events after which a child is considered hung.
const SILENCE: Duration = Duration::from_secs(120);

/// Starts a child with the arguments `args` to check the functions. If a function crashes, the
/// crash is reported, and the other functions are still checked.
///
/// # Errors
/// Fails if the child cannot be started, or if Ctrl-C was pressed.
pub fn run(
    image: &Path,
    seed: u64,
    label: &Label,
    args: &[OsString],
    stop: &AtomicBool,
) -> Result<Vec<Checked>, Error> {
    let mut order = Order::new(image, seed);
    (order.library, order.label) = (true, label.clone());
    let mut crashed: Vec<Checked> = Vec::new();
    loop {
        let mut checked = Vec::new();
        let mut watch = Watch {
            stop,
            silence: Some(SILENCE),
            event: &mut |event| {
                if let Event::Checked(function) = event {
                    checked.push(function.clone());
                }
            },
        };
        let ended = child::run(&order, args, &mut watch)?;
        let Some(fault) = ended.fault else {
            checked.extend(crashed);
            return Ok(checked);
        };
        let known = order.skipped.contains(&fault.driver);
        crashed.push(Checked {
            function: fault.driver.clone(),
            cases: 1,
            failed: 1,
            reason: Some(fault.line(image)),
            ..Checked::default()
        });
        if known || fault.driver.is_empty() {
            return Ok(crashed);
        }
        order.skipped.push(fault.driver);
    }
}
