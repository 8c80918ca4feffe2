//! Functions that a tree's library exports, such as `sha256()` and `aes_gcm_encrypt()`: the list, and calls
//! (`tree/library.c`).

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

/// What a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Cipher,
    Aead,
    Hash,
    Agreement,
    /// A result half as long as the message.
    Parity,
}

/// A function as the table of `tree/library.c` describes it. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Such as `sha256`.
    pub name: String,
    /// The algorithm's name, such as `sha256`.
    pub alg: String,
    /// `encrypt`, `decrypt`, `digest` or `derive`.
    pub op: String,
    pub kind: Kind,
    /// Another function with the same answers.
    pub judge: Option<String>,
    /// Sizes of its key; none if it has no key.
    pub keys: Vec<usize>,
    /// Size of a key that the algorithm's name does not imply.
    pub own_key: usize,
    pub iv: usize,
    pub prefix: usize,
    pub tag: usize,
    pub digest: usize,
    /// Shortest message.
    pub least: usize,
    /// Longest message.
    pub most: usize,
    /// Messages are multiples of this.
    pub multiple: usize,
    /// Only a task with softirqs and interrupts on may call it.
    pub task_only: bool,
    /// A call takes two messages.
    pub pairs: bool,
    /// It opens an FPU section without asking whether it may.
    pub unasked: bool,
    /// It is there to have the answers for others: other code that computes the same.
    pub judges: bool,
    raw: *const raw::Function,
}

impl Function {
    /// Its name, with the algorithm where several functions of the list have that name.
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

    /// Whether it may be called on a buffer there: vectors of a RAID's disks are loaded and stored aligned.
    fn takes_address(&self, address: usize) -> bool {
        self.kind != Kind::Parity || address % 64 == 0
    }

    pub(crate) fn decrypts(&self) -> bool {
        self.op == "decrypt"
    }

    /// Bytes that a call writes for a message of `len` bytes behind `prefix` bytes of associated data.
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
            // SAFETY: a string of the image's table, or NULL.
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

/// A tree's library.
pub struct Library {
    calls: Rc<Calls>,
    open: GateFn,
    close: GateFn,
    run: GateFn,
    call: GateFn,
    functions: Vec<Function>,
}

impl Library {
    /// The library of a booted tree; without functions if `tree/library.c` could not be compiled for it.
    pub fn find(calls: &Rc<Calls>, host: &Host) -> Option<Rc<Library>> {
        let function = |name: &str| {
            host.image.symbol(name)?;
            // SAFETY: in `library.c` all of these take a pointer and return 64 bits.
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

    /// Names what is called next, for the report of a crash.
    pub(crate) fn name(&self, name: &CStr) {
        self.calls.name(name);
    }

    /// The functions that the tree has, in the table's order.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }
}

fn list(function: GateFn) -> Vec<Function> {
    let mut raw: Vec<raw::LibraryListed> = Vec::new();
    let mut list = raw::LibraryList::default();
    loop {
        // SAFETY: the list has room for as many as it says.
        unsafe { cpu::gate(function, (&raw mut list).cast()) };
        let count = list.count as usize;
        if count <= raw.len() {
            return raw[..count].iter().map(Function::from_raw).collect();
        }
        raw.resize_with(count, raw::LibraryListed::default);
        (list.listed, list.room) = (raw.as_mut_ptr(), count as u64);
    }
}

/// A function with a key.
pub struct Keyed {
    library: Rc<Library>,
    raw: *mut raw::Library,
    name: CString,
    function: Function,
}

impl Keyed {
    /// Prepares the key, which is empty if the function has none.
    ///
    /// # Errors
    /// The key has another size than the function's keys, or the function refuses it.
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
        // SAFETY: the structure is the one it takes; the key lives, and has a size that the function takes.
        check(unsafe { cpu::gate(library.open, (&raw mut open).cast()) })?;
        Ok(Keyed {
            library: library.clone(),
            raw: open.library,
            name,
            function: function.clone(),
        })
    }

    /// For calls of C code.
    pub(crate) fn raw(&self) -> *const raw::Library {
        self.raw
    }

    /// Makes `calls` calls on the messages in turn, after the last the first again. With `generic`, all are made in one
    /// open FPU section, in which the function uses its generic code.
    ///
    /// # Errors
    /// The first call that fails; `EINVAL` if the messages do not lie in their buffers, or have a length that the function
    /// does not take.
    pub fn run(
        &self,
        messages: &mut Messages<'_>,
        calls: u64,
        generic: bool,
    ) -> Result<(), Refused> {
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
            m: m.map_err(|_| Refused(libc::EINVAL))?,
        };
        self.library.calls.name(&self.name);
        // SAFETY: the structure is the one it takes; all messages lie in the buffers.
        check(unsafe { cpu::gate(self.library.run, (&raw mut raw).cast()) })
    }

    /// Calls the function on one message of `len` bytes, which `prefix` bytes of associated data precede and a tag that is
    /// to be checked follows. C code of `tree/` does the same from any context by `kiln_library_call()`.
    ///
    /// # Errors
    /// The function's error, such as `EBADMSG`; `EINVAL` if a buffer is too small, or for a length that it does not take.
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
        // SAFETY: the structure is the one it takes; the buffers are as long as the function needs.
        check(unsafe { cpu::gate(self.library.call, (&raw mut raw).cast()) })
    }
}

impl Drop for Keyed {
    fn drop(&mut self) {
        // SAFETY: opened, and closed once.
        unsafe { cpu::gate(self.library.close, self.raw.cast()) };
    }
}

/// A child that says nothing for so long hangs.
const SILENCE: Duration = Duration::from_secs(120);

/// The parent's part of checking the functions: `args` make this program check them in a child. A function that crashes
/// is named; the rest goes on.
///
/// # Errors
/// The child cannot be started; Ctrl-C.
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
