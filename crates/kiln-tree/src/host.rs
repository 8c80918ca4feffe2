//! A tree in this process: its image on emulated CPUs, its initcalls run.

use std::ffi::{c_char, c_void, CString};
use std::io::Write;
use std::os::fd::FromRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use kiln_kernel::cpu::{self, Areas, Config, Cpu, GateFn};
use kiln_kernel::fpu::Policy;
use kiln_kernel::Tier;

use crate::child::Order;
use crate::crash;
use crate::image::Image;
use crate::{raw, Error};

/// Size of the tree's memory in bytes; a page is allocated when it is first touched.
const ARENA: usize = 8 << 30;
/// Its largest block, to which it is aligned.
const LARGEST: usize = 1 << 27;
/// Bytes of a CPU's area.
const AREA: usize = 64 << 20;
/// The tree's `struct page`, and the addresses there can be (`memory.c`).
const STRUCT_PAGE: usize = 64;
const ADDRESS_BITS: u32 = 47;

/// Tasks of each CPU: while algorithms are registered a kthread tests each.
const TASKS: usize = 512;

/// Emulated CPUs that the tree sees.
pub(crate) const CPUS: u32 = 4;

/// A tree that has run its initcalls on this thread's CPU.
pub struct Host {
    pub image: Image,
    /// The CPU it was booted on, number 0. Others are booted by threads of their own, or by this one when this is
    /// dropped: each CPU of this process is the tree's.
    pub cpu: Cpu,
    pub initcalls: u64,
    /// Its own code as an FPU policy. It is in force, and must be whenever the tree's code runs.
    pub policy: Policy,
    events: i32,
}

/// A tree that is in memory: CPUs may be booted, initcalls have not run.
pub struct Loaded {
    pub image: Image,
    policy: Policy,
    start: GateFn,
    events: i32,
}

impl Loaded {
    /// Runs the initcalls on this thread's CPU.
    pub fn start(self, cpu: Cpu) -> Host {
        // SAFETY: made for the gate; the CPU is of an area that the image knows.
        let initcalls = unsafe { cpu::gate(self.start, ptr::null_mut()) };
        Host {
            image: self.image,
            cpu,
            initcalls,
            policy: self.policy,
            events: self.events,
        }
    }
}

impl Host {
    /// Loads the image and boots it on the calling thread, which must not be a CPU yet. What the tree says meanwhile
    /// goes to the parent.
    ///
    /// # Errors
    /// The image cannot be loaded, or there is no memory.
    pub fn boot(order: &Order, config: &Config) -> Result<Host, Error> {
        let loaded = Host::load(order)?;
        let cpu = Cpu::boot(config);
        let cpu = cpu.map_err(|e| Error::host("no CPU for the tree", e))?;
        Ok(loaded.start(cpu))
    }

    /// Loads the image into a process that has no other, and no CPU yet.
    ///
    /// # Errors
    /// The image cannot be loaded, or there is no memory.
    pub fn load(order: &Order) -> Result<Loaded, Error> {
        let image = Image::load(&order.image)?;
        let areas = reserve(AREA * CPUS as usize, 64)?;
        for n in 0..CPUS as usize {
            for (at, bytes) in &image.percpu {
                let at = AREA * n + *at as usize;
                assert!(at + bytes.len() < AREA * (n + 1), "per-CPU data fit");
                // SAFETY: inside the mapping, as asserted; nothing else knows it yet.
                unsafe {
                    let to = areas.as_ptr().add(at);
                    ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
                }
            }
        }
        // The tree keeps the pointers for good.
        let names: Vec<CString> = (order.skipped.iter())
            .filter_map(|name| CString::new(name.as_str()).ok())
            .collect();
        let names: &'static [CString] = names.leak();
        let mut skipped: Vec<*const c_char> = names.iter().map(|n| n.as_ptr()).collect();
        skipped.push(ptr::null());
        let mut hidden = order
            .oracle
            .as_ref()
            .map_or(Vec::new(), |o| o.hidden.clone());
        hidden.push(u16::MAX);
        let boot = raw::Boot {
            size: size_of::<raw::Boot>() as u64,
            arena: reserve(ARENA, LARGEST)?.as_ptr().cast(),
            arena_size: ARENA as u64,
            page_class: reserve(ARENA >> 12, 4096)?.as_ptr(),
            struct_pages: reserve(STRUCT_PAGE << (ADDRESS_BITS - 12), 4096)?.as_ptr() as u64,
            areas: areas.as_ptr().cast(),
            area_size: AREA as u64,
            area_used: image.percpu_end,
            ns_per_tick: (1e9 / cpu::kiln_tsc_hz() * 2f64.powi(32) / f64::from(order.slow.max(1)))
                as u64,
            seed: order.seed,
            skipped: skipped.leak().as_ptr(),
            hidden: hidden.leak().as_ptr(),
            cpus: CPUS,
            events: order.events(),
            tests: u32::from(order.tests),
            tiers: seen_tiers(),
            lonely: u32::from(order.lonely),
        };
        type Setup = unsafe extern "C" fn(*const raw::Boot) -> i32;
        // SAFETY: the functions have these types in `boot.c`.
        let (setup, attach, start): (Setup, GateFn, GateFn) = unsafe {
            (
                image.function("kiln_image_setup")?,
                image.function("kiln_image_cpu")?,
                image.function("kiln_image_start")?,
            )
        };
        crash::watch(&image, order.events())?;
        // SAFETY: all that the structure points to lives as long as the process.
        if unsafe { setup(&boot) } != 0 {
            return Err(Error::OtherVersion(image.path.clone()));
        }
        // SAFETY: the function has this type in `fpu.c`; there is no CPU yet.
        let policy = unsafe {
            let add: GateFn = image.function("kiln_glue_fpu_policy")?;
            let policy = Policy::from_number(add(ptr::null_mut()));
            let policy = policy.ok_or(Error::NoPolicy)?;
            policy.enforce();
            policy
        };
        // SAFETY: the areas are never unmapped; the tree's data lie behind `struct cpu`.
        unsafe {
            cpu::set_areas(Areas {
                base: areas,
                size: AREA,
                count: CPUS,
                tasks: TASKS,
                start: attach,
            });
        }
        Ok(Loaded {
            image,
            policy,
            start,
            events: order.events(),
        })
    }

    /// Calls a function of the glue in kernel mode on this thread's CPU.
    ///
    /// # Errors
    /// The image has no function of that name.
    ///
    /// # Safety
    /// It takes a pointer, which is `arg`, and returns a number of 64 bits.
    pub unsafe fn call(&mut self, name: &str, arg: *mut c_void) -> Result<u64, Error> {
        // SAFETY: the caller's promise.
        unsafe {
            let function: GateFn = self.image.function(name)?;
            Ok(cpu::gate(function, arg))
        }
    }

    /// Whether what is registered from now on is tested by the tree.
    ///
    /// # Errors
    /// The image is of another version.
    pub fn tests(&mut self, wanted: bool) -> Result<(), Error> {
        let wanted = ptr::without_provenance_mut(usize::from(wanted));
        // SAFETY: a function of `boot.c`; its argument is not an address.
        unsafe { self.call("kiln_image_tests", wanted)? };
        Ok(())
    }

    /// The child's part of `kiln tree`: the tests that the tree leaves out, and the list of algorithms, to the parent.
    ///
    /// # Errors
    /// The image is of another version.
    pub fn list(&mut self) -> Result<(), Error> {
        self.list_with(|_| String::new())
    }

    /// The same, with a line of the protocol that is asked for when the tests are over.
    pub(crate) fn list_with(
        &mut self,
        line: impl FnOnce(&mut Host) -> String,
    ) -> Result<(), Error> {
        // SAFETY: a function of `boot.c`, which ignores its argument.
        unsafe { self.call("kiln_image_list", ptr::null_mut())? };
        let line = line(self);
        self.tell(&line)?;
        let line = format!("{{\"event\":\"done\",\"initcalls\":{}}}\n", self.initcalls);
        self.tell(&line)
    }

    /// The descriptor of the protocol.
    pub(crate) fn events(&self) -> i32 {
        self.events
    }

    /// A line of the protocol to the parent.
    ///
    /// # Errors
    /// It does not listen.
    pub fn tell(&mut self, line: &str) -> Result<(), Error> {
        // SAFETY: the descriptor is open for as long as the process lives, and is not closed here.
        let events = unsafe { std::fs::File::from_raw_fd(self.events) };
        let mut events = std::mem::ManuallyDrop::new(events);
        events
            .write_all(line.as_bytes())
            .map_err(|e| Error::host("the parent does not listen", e))
    }
}

/// A bit for each tier that the tree may see: without a mask all that the CPU has, tier or not.
pub fn seen_tiers() -> u32 {
    match Tier::masked() {
        true => Tier::ALL
            .into_iter()
            .filter(|t| t.usable())
            .fold(0, |bits, t| bits | 1 << t as u32),
        false => u32::MAX,
    }
}

/// Jiffies go on by themselves as long as this lives: for code that only reads them in a loop. The thread behind it
/// wakes once a jiffy; where nothing needs it, it would disturb what is measured.
pub struct Clock {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Clock {
    /// Starts it.
    ///
    /// # Errors
    /// The image is of another version.
    pub fn start(image: &Image) -> Result<Clock, Error> {
        type Update = unsafe extern "C" fn();
        // SAFETY: the function has this type in `time.c`.
        let update: Update = unsafe { image.function("kiln_image_jiffies")? };
        let hz = image.symbol("kiln_glue_hz").unwrap_or(0) as *const u32;
        // SAFETY: a constant of the glue, where there is one.
        let hz = unsafe { hz.as_ref() }.copied().unwrap_or(100).max(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // SAFETY: writes one word, from any thread.
                unsafe { update() };
                std::thread::sleep(Duration::from_secs(1) / hz);
            }
        });
        Ok(Clock {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Address space that costs memory only where it is touched, for good.
fn reserve(size: usize, align: usize) -> Result<NonNull<u8>, Error> {
    // SAFETY: a new anonymous mapping.
    let at = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size + align,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(Error::AddressSpace {
            gib: (size + align) >> 30,
        });
    }
    let aligned = (at as usize).next_multiple_of(align) as *mut u8;
    Ok(NonNull::new(aligned).expect("a mapping is not at 0"))
}
