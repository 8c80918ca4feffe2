//! Maps an image into this process at the addresses for which it was linked. The image consists of
//! a tree's objects, the glue and the services.

use std::collections::HashMap;
use std::mem;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::elf::{Elf, Segment};
use crate::fault::Symbols;
use crate::Error;

/// Prefix of slot names (`link.rs`). A slot is a pointer through which the image calls a `kernel/`
/// function.
pub(crate) const SLOT: &str = "__kiln_slot_";

const PAGE: u64 = 4096;

/// Name of the per-CPU data section. The section's address is an offset into a CPU's area
/// (`tree/host.ld`).
const PERCPU: &str = ".data..percpu";

/// A loaded image, which is never unloaded.
#[derive(Debug)]
pub struct Image {
    pub path: PathBuf,
    /// Address range of the image's code.
    pub text: Range<u64>,
    /// Initial contents of the tree's per-CPU data. Each entry holds an offset within a CPU's area,
    /// and the bytes to store there.
    pub(crate) percpu: Vec<(u64, Vec<u8>)>,
    /// Offset of the end of the tree's per-CPU data within a CPU's area.
    pub(crate) percpu_end: u64,
    symbols: HashMap<String, Found>,
    names: Symbols,
}

/// Addresses of all symbols with a given name.
#[derive(Debug, Default)]
struct Found {
    global: Option<u64>,
    local: Vec<u64>,
}

impl Image {
    /// Maps the file and stores the addresses of `kernel/` functions in the image's slots. Text is
    /// mapped writable, because static keys, static calls and breakpoints modify it.
    ///
    /// # Errors
    /// Fails if the file is damaged, if the image's addresses are in use, or if the image needs a
    /// function that this program does not have.
    pub fn load(path: &Path) -> Result<Image, Error> {
        let elf = Elf::open(path)?;
        for segment in &elf.segments {
            map(path, &elf, segment)?;
        }
        fill_slots(path, &elf)?;
        let mut percpu = Vec::new();
        let mut percpu_end = 0;
        for s in elf.sections.iter().filter(|s| s.name.starts_with(PERCPU)) {
            percpu_end = percpu_end.max(s.address + s.size);
            if let Some(bytes) = elf.section(s) {
                percpu.push((s.address, bytes.to_vec()));
            }
        }
        let mut symbols: HashMap<String, Found> = HashMap::new();
        for symbol in elf.symbols.iter().filter(|s| !s.name.is_empty()) {
            let found = symbols.entry(symbol.name.clone()).or_default();
            match symbol.global {
                true => found.global = Some(symbol.value),
                false => found.local.push(symbol.value),
            }
        }
        let code = elf.segments.iter().filter(|s| s.executable);
        Ok(Image {
            path: path.to_owned(),
            text: code
                .clone()
                .map(|s| s.address)
                .min()
                .zip(code.map(|s| s.address + s.size).max())
                .map_or(0..0, |(start, end)| start..end),
            percpu,
            percpu_end,
            symbols,
            names: Symbols::from_symbols(&elf.symbols),
        })
    }

    /// Returns the address of the global symbol with this name or, failing that, of the only local
    /// symbol with this name. The tree's own symbols are local.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        let found = self.symbols.get(name)?;
        found.global.or(match found.local[..] {
            [only] => Some(only),
            _ => None,
        })
    }

    /// Returns the addresses of all symbols with this name. Several files may define static
    /// functions with the same name.
    pub fn symbols(&self, name: &str) -> Vec<u64> {
        let found = self.symbols.get(name);
        found.map_or(Vec::new(), |f| {
            f.global.iter().chain(&f.local).copied().collect()
        })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.symbols.keys().map(String::as_str)
    }

    /// Formats an address as `function+0x12`.
    pub fn name(&self, address: u64) -> String {
        self.names.name(address)
    }

    /// Looks up a function in the glue or the services by its symbol, and returns a pointer to the
    /// function.
    ///
    /// # Errors
    /// Fails if the image does not have the function, because another version of Kiln linked it.
    ///
    /// # Safety
    /// `F` must be the function pointer type that matches the definition of the function `name`.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, Error> {
        const { assert!(mem::size_of::<F>() == mem::size_of::<usize>()) };
        let address = self.symbol(name).ok_or_else(|| Error::NoSymbol {
            image: self.path.clone(),
            name: name.to_owned(),
        })?;
        // SAFETY: `address` is the address of the function `name`. `F` has the size of a pointer,
        // as asserted above, and the caller guarantees that `F` is the type of a pointer to this
        // function.
        Ok(unsafe { mem::transmute_copy(&address) })
    }
}

fn map(path: &Path, elf: &Elf, segment: &Segment) -> Result<(), Error> {
    let start = segment.address & !(PAGE - 1);
    let end = segment
        .address
        .checked_add(segment.size)
        .and_then(|e| e.checked_next_multiple_of(PAGE))
        .ok_or_else(|| Error::BadSegment(path.to_owned()))?;
    let len = (end - start) as usize;
    let fail = |why: &str| Error::Load {
        start,
        why: why.to_owned(),
    };
    // SAFETY: the call creates an anonymous mapping, and fails if the range is in use.
    let got = unsafe {
        libc::mmap(
            start as *mut libc::c_void,
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    if got == libc::MAP_FAILED {
        let e = std::io::Error::last_os_error();
        return Err(match e.raw_os_error() {
            Some(libc::EEXIST) => fail("the addresses are in use"),
            _ => fail(&e.to_string()),
        });
    }
    if got as u64 != start {
        // Kernels older than 4.17 ignore MAP_FIXED_NOREPLACE. If the range is in use, they map
        // memory at another address instead of failing.
        return Err(fail("the addresses are in use"));
    }
    let contents = elf.contents(segment);
    // SAFETY: the target is inside the mapping made above, which nothing else uses yet.
    unsafe {
        std::ptr::copy_nonoverlapping(
            contents.as_ptr(),
            segment.address as *mut u8,
            contents.len(),
        );
    }
    // Read-only data stays writable, because initcalls modify some of it. A real kernel also
    // write-protects this data only after its initcalls have run.
    if segment.executable {
        let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        // SAFETY: the call affects only the mapping made above.
        if unsafe { libc::mprotect(start as *mut libc::c_void, len, all) } != 0 {
            return Err(fail(
                "this system refuses memory that is both writable and executable",
            ));
        }
    }
    Ok(())
}

fn fill_slots(path: &Path, elf: &Elf) -> Result<(), Error> {
    let functions: HashMap<&str, usize> = kiln_kernel::hosted::functions().into_iter().collect();
    for symbol in &elf.symbols {
        let Some(name) = symbol.name.strip_prefix(SLOT) else {
            continue;
        };
        let function = *functions.get(name).ok_or_else(|| Error::NoFunction {
            image: path.to_owned(),
            name: name.to_owned(),
        })?;
        // SAFETY: the linker placed this symbol, an aligned word, in a segment that was mapped
        // writable.
        unsafe { (symbol.value as *mut u64).write(function as u64) };
    }
    Ok(())
}
