//! Loads a tree's image into this process, boots it on emulated CPUs, and runs its initcalls.

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

/// Size in bytes of the tree's memory. The host allocates each page only when it is first accessed.
const ARENA: usize = 8 << 30;
/// Size in bytes of the largest block that the tree can allocate. The arena is aligned to this
/// size.
const LARGEST: usize = 1 << 27;
/// Size in bytes of each CPU's per-CPU area.
const AREA: usize = 64 << 20;
/// Size in bytes of the tree's `struct page`, and the number of address bits that the page array
/// must cover (`memory.c`).
const STRUCT_PAGE: usize = 64;
const ADDRESS_BITS: u32 = 47;

/// Maximum number of tasks per CPU. Algorithms that are registered together are tested
/// concurrently, each in its own kthread.
const TASKS: usize = 512;

/// Number of emulated CPUs that the tree can see.
pub(crate) const CPUS: u32 = 4;

/// A booted tree, whose initcalls have run on this thread's CPU.
pub struct Host {
    pub image: Image,
    /// CPU 0, which booted the tree. Other threads may boot more CPUs, but this thread must drop
    /// `cpu` before it boots another one. All CPUs in the process belong to the tree.
    pub cpu: Cpu,
    pub initcalls: u64,
    /// The FPU policy that the tree's own FPU code implements. It must be active whenever the
    /// tree's code runs.
    pub policy: Policy,
    events: i32,
}

/// A tree that is loaded and ready for CPUs to be booted, but has not run its initcalls.
pub struct Loaded {
    pub image: Image,
    policy: Policy,
    start: GateFn,
    events: i32,
}

impl Loaded {
    /// Runs the initcalls on this thread's CPU.
    pub fn start(self, cpu: Cpu) -> Host {
        // SAFETY: the call goes through the gate, as `start` requires, and the image was given the
        // address of the CPUs' areas.
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
    /// Loads the image and boots it on the calling thread, which must not already have a CPU.
    /// While the tree boots, its output is sent to the parent.
    ///
    /// # Errors
    /// Fails if the image cannot be loaded, or memory is insufficient.
    pub fn boot(order: &Order, config: &Config) -> Result<Host, Error> {
        let loaded = Host::load(order)?;
        let cpu = Cpu::boot(config);
        let cpu = cpu.map_err(|e| Error::host("no CPU for the tree", e))?;
        Ok(loaded.start(cpu))
    }

    /// Loads the image. The process must not have loaded another image or booted a CPU before.
    ///
    /// # Errors
    /// Fails if the image cannot be loaded, or memory is insufficient.
    pub fn load(order: &Order) -> Result<Loaded, Error> {
        let image = Image::load(&order.image)?;
        let areas = reserve(AREA * CPUS as usize, 64)?;
        for n in 0..CPUS as usize {
            for (at, bytes) in &image.percpu {
                let at = AREA * n + *at as usize;
                assert!(
                    at + bytes.len() < AREA * (n + 1),
                    "the per-CPU data fit into an area"
                );
                // SAFETY: the range is inside the mapping, as asserted, and nothing else uses it
                // yet.
                unsafe {
                    let to = areas.as_ptr().add(at);
                    ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
                }
            }
        }
        // Leak the names, because the tree keeps pointers to them.
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
        // SAFETY: `boot.c` defines these functions with these types.
        let (setup, attach, start): (Setup, GateFn, GateFn) = unsafe {
            (
                image.function("kiln_image_setup")?,
                image.function("kiln_image_cpu")?,
                image.function("kiln_image_start")?,
            )
        };
        crash::watch(&image, order.events())?;
        // SAFETY: the structure points only to memory that is never freed.
        if unsafe { setup(&boot) } != 0 {
            return Err(Error::OtherVersion(image.path.clone()));
        }
        // SAFETY: `fpu.c` defines the function with this type. No CPU has been booted yet, so the
        // call cannot disturb one.
        let policy = unsafe {
            let add: GateFn = image.function("kiln_glue_fpu_policy")?;
            let policy = Policy::from_number(add(ptr::null_mut()));
            let policy = policy.ok_or(Error::NoPolicy)?;
            policy.enforce();
            policy
        };
        // SAFETY: the areas are never unmapped, and the tree's data in each area starts after
        // `struct cpu`.
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

    /// Calls a glue function in kernel mode on this thread's CPU.
    ///
    /// # Errors
    /// Fails if the image has no function with that name.
    ///
    /// # Safety
    /// The function must take a pointer and return a 64-bit number, and `arg` must be a valid
    /// argument.
    pub unsafe fn call(&mut self, name: &str, arg: *mut c_void) -> Result<u64, Error> {
        // SAFETY: the caller guarantees that the function has the type `GateFn`, and that the
        // argument is valid for it.
        unsafe {
            let function: GateFn = self.image.function(name)?;
            Ok(cpu::gate(function, arg))
        }
    }

    /// Sets whether the tree runs the self-tests of algorithms that are registered from now on.
    ///
    /// # Errors
    /// Fails if the image is from another version of Kiln.
    pub fn tests(&mut self, wanted: bool) -> Result<(), Error> {
        let wanted = ptr::without_provenance_mut(usize::from(wanted));
        // SAFETY: `boot.c` defines the function. It takes a number in place of a pointer.
        unsafe { self.call("kiln_image_tests", wanted)? };
        Ok(())
    }

    /// Runs the self-tests that the tree itself skips, and sends the list of algorithms to the
    /// parent. Called in the child process of `kiln tree`.
    ///
    /// # Errors
    /// Fails if the image is from another version of Kiln.
    pub fn list(&mut self) -> Result<(), Error> {
        self.list_with(|_| String::new())
    }

    /// Like [`Host::list`], but also sends the event line that `line` returns.
    pub(crate) fn list_with(
        &mut self,
        line: impl FnOnce(&mut Host) -> String,
    ) -> Result<(), Error> {
        // SAFETY: `boot.c` defines the function, which ignores its argument.
        unsafe { self.call("kiln_image_list", ptr::null_mut())? };
        let line = line(self);
        self.tell(&line)?;
        let line = format!("{{\"event\":\"done\",\"initcalls\":{}}}\n", self.initcalls);
        self.tell(&line)
    }

    /// Returns the file descriptor to which events are written.
    pub(crate) fn events(&self) -> i32 {
        self.events
    }

    /// Sends a line of the event protocol to the parent.
    ///
    /// # Errors
    /// Fails if the parent has closed its end of the pipe.
    pub fn tell(&mut self, line: &str) -> Result<(), Error> {
        // SAFETY: the descriptor stays open for as long as the process lives, and `ManuallyDrop`
        // prevents it from being closed here.
        let events = unsafe { std::fs::File::from_raw_fd(self.events) };
        let mut events = std::mem::ManuallyDrop::new(events);
        events
            .write_all(line.as_bytes())
            .map_err(|e| Error::host("cannot send to the parent process", e))
    }
}

/// Returns a bit mask of the tiers that the tree can see. If tiers are not masked, all bits are
/// set, and the tree also sees CPU features that do not belong to any tier.
pub fn seen_tiers() -> u32 {
    match Tier::masked() {
        true => Tier::ALL
            .into_iter()
            .filter(|t| t.usable())
            .fold(0, |bits, t| bits | 1 << t as u32),
        false => u32::MAX,
    }
}

/// A thread that advances jiffies while this value exists, for code that polls jiffies in a loop.
/// The thread wakes up once per jiffy, which disturbs measurements, so use it only where needed.
pub struct Clock {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Clock {
    /// Starts the thread that advances jiffies.
    ///
    /// # Errors
    /// Fails if the image is from another version of Kiln.
    pub fn start(image: &Image) -> Result<Clock, Error> {
        type Update = unsafe extern "C" fn();
        // SAFETY: `time.c` defines the function with this type.
        let update: Update = unsafe { image.function("kiln_image_jiffies")? };
        let hz = image.symbol("kiln_glue_hz").unwrap_or(0) as *const u32;
        // SAFETY: the address is 0 or points to a constant in the glue.
        let hz = unsafe { hz.as_ref() }.copied().unwrap_or(100).max(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // SAFETY: the function only writes one word and may be called from any thread.
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

/// Reserves address space that is never released. Each page uses memory only after it has been
/// accessed.
fn reserve(size: usize, align: usize) -> Result<NonNull<u8>, Error> {
    // SAFETY: the call creates a new anonymous mapping at an address that the host chooses.
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
