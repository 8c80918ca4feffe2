//! Emulated CPUs. Each CPU is a host thread with a GS base that points to the CPU's data.
//!
//! [`Cpu::boot`] turns the calling thread into a CPU, until the returned [`Cpu`] is dropped. The
//! sources in [`crate::irq`] interrupt this CPU. Any other thread that calls into `kernel/`
//! automatically becomes a CPU that is never interrupted.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crate::irq::Injection;
use crate::sys;

mod area;
mod memory;
mod scheduler;
mod stats;
mod user;
mod witness;

pub use crate::sys::GateFn;
pub use area::{set_areas, Areas};
pub use scheduler::{Scheduler, HZ};
pub use stats::{Histogram, Stats};
pub use user::Pattern;
pub(crate) use user::UserProgram;

use area::Memory;
pub(crate) use memory::leak_pages;
use memory::{Mapping, Stacks};

thread_local! {
    /// The CPU of this thread. The variable is const-initialised and has no destructor, so the
    /// signal handler may read it until the thread exits.
    static HOST: Cell<*mut Host> = const { Cell::new(ptr::null_mut()) };
    /// The CPU of a thread that called into `kernel/` without calling [`Cpu::boot`].
    static PLAIN: RefCell<Option<Cpu>> = const { RefCell::new(None) };
}

/// Configuration of an emulated CPU, such as its scheduler and its number of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// CPU number, counted from 0.
    pub number: u32,
    /// Whether the kernel has full preemption; otherwise it has voluntary preemption.
    pub preempt_full: bool,
    pub scheduler: Scheduler,
    /// Interval between scheduler ticks, in microseconds.
    pub tick_us: u64,
    /// Base slice of EEVDF or minimum granularity of CFS, in microseconds.
    pub slice_us: u64,
    /// CFS only: the period in which every task runs once, in microseconds.
    pub latency_us: u64,
    /// CFS only: a woken task preempts the current task if its virtual runtime is this many
    /// microseconds behind that of the current task.
    pub wakeup_us: u64,
    /// Duration of each task switch in nanoseconds.
    pub switch_ns: u64,
    /// Maximum number of tasks, including the task that enters the kernel, ksoftirqd, the kworker,
    /// and other kthreads.
    pub tasks: usize,
    /// Size of a task's stack in bytes.
    pub stack_size: usize,
    /// Size in bytes of the area at [`Cpu::TAIL`], which holds the per-CPU data of a hosted tree.
    pub tail: usize,
}

impl Default for Config {
    /// Returns the settings of Linux 6.12 on one CPU at 250 Hz. The switch time was measured
    /// between two host threads.
    fn default() -> Config {
        Config::for_scheduler(Scheduler::Eevdf612, 1)
    }
}

impl Config {
    /// Returns the scheduler settings of a kernel on a machine with `cpus` CPUs.
    pub fn for_scheduler(scheduler: Scheduler, cpus: u32) -> Config {
        let [slice_us, latency_us, wakeup_us] = scheduler.times_us(cpus);
        Config {
            number: 0,
            preempt_full: false,
            scheduler,
            tick_us: 1_000_000 / HZ,
            slice_us,
            latency_us,
            wakeup_us,
            switch_ns: 1800,
            tasks: 8,
            stack_size: 64 * 1024,
            tail: 0,
        }
    }
}

/// The part of a CPU's state that the signal handler accesses.
pub(crate) struct Host {
    pub cpu: NonNull<sys::CpuHead>,
    pub injection: Injection,
}

impl Host {
    /// Returns the CPU of the calling thread, or null.
    pub(crate) fn current() -> *mut Host {
        HOST.get()
    }
}

/// The calling thread, acting as a CPU.
pub struct Cpu {
    host: Box<Host>,
    /// Section lengths in TSC ticks, as returned by [`Cpu::least_sections`]. Elements that have not
    /// been recorded are `u64::MAX`.
    least: Vec<u64>,
    memory: Memory,
    _tasks: Mapping,
    _stacks: Stacks,
    /// Prevents `Send`, because the CPU is bound to this thread.
    _here: PhantomData<*mut ()>,
}

impl Cpu {
    /// Offset in bytes of a CPU's tail from its GS base.
    pub const TAIL: usize = area::TAIL;

    /// Makes the calling thread a CPU. Any CPU that an earlier call created on this thread must
    /// have been dropped.
    pub fn boot(config: &Config) -> std::io::Result<Cpu> {
        // If the thread became a CPU by calling into `kernel/`, drop that CPU.
        PLAIN.take();
        Cpu::boot_as_is(config, Some(config.number))
    }

    fn boot_as_is(config: &Config, number: Option<u32>) -> std::io::Result<Cpu> {
        assert!(HOST.get().is_null(), "this thread is a CPU already");
        assert!(
            config.tasks >= 3,
            "a CPU needs tasks for ksoftirqd and the kworker"
        );
        // SAFETY: the function takes no arguments and returns a constant.
        let task = unsafe { sys::kiln_task_size() };
        let (memory, number) = Memory::new(number, config.tail)?;
        let nr_tasks = config.tasks.max(area::tasks());
        let tasks = Mapping::data(nr_tasks * task)?;
        let stacks = Stacks::new(nr_tasks, config.stack_size)?;
        let cpu = memory.base().cast::<sys::CpuHead>();
        let raw = sys::CpuConfig {
            number,
            tasks: tasks.base().as_ptr().cast(),
            nr_tasks: nr_tasks as u32,
            kstacks: stacks.base(),
            kstack_size: stacks.size as u64,
            kstack_stride: stacks.stride() as u64,
            ..raw_config(config)
        };
        // SAFETY: the memory has the required sizes and is zeroed where necessary. Tasks and stacks
        // match `raw`, and live as long as the CPU.
        unsafe { sys::kiln_cpu_init(cpu.as_ptr().cast(), &raw) };
        let mut this = Cpu {
            host: Box::new(Host {
                cpu,
                injection: Injection::default(),
            }),
            least: Vec::new(),
            memory,
            _tasks: tasks,
            _stacks: stacks,
            _here: PhantomData,
        };
        set_gs_base(cpu.as_ptr() as u64)?;
        HOST.set(&mut *this.host);
        // SAFETY: GS points to the initialised CPU. `start` needs kernel mode, which the gate
        // provides.
        unsafe { sys::kiln_gate(Some(start), ptr::null_mut()) };
        if let Some(tree) = area::start() {
            // SAFETY: GS points to the initialised CPU, and the tree's function is callable through
            // the gate.
            if unsafe { sys::kiln_gate(Some(tree), ptr::null_mut()) } != 0 {
                return Err(std::io::ErrorKind::OutOfMemory.into());
            }
        }
        Ok(this)
    }

    /// Returns the address of the CPU's memory, which the GS base points to.
    pub fn base(&self) -> *mut u8 {
        self.memory.base().as_ptr()
    }

    /// Returns the CPU's tail, which starts at [`Cpu::TAIL`], after the CPU's own data.
    pub fn tail(&mut self) -> &mut [u8] {
        // SAFETY: the CPU's memory contains this many bytes at `TAIL`.
        unsafe { std::slice::from_raw_parts_mut(self.base().add(Cpu::TAIL), self.memory.tail()) }
    }

    /// Changes all of the configuration except the CPU number and the sizes.
    pub fn configure(&mut self, config: &Config) {
        let raw = raw_config(config);
        // SAFETY: this thread is the CPU, and it is not in kernel mode now.
        unsafe { sys::kiln_cpu_configure(self.raw(), &raw) }
    }

    pub fn stats(&self) -> Stats {
        // SAFETY: the pointer points into the CPU's own memory. Only this thread writes there, and
        // all interrupt handlers have returned.
        unsafe { *sys::kiln_cpu_stats(self.raw()).cast() }
    }

    /// Returns the histogram of FPU section lengths.
    pub fn section_time(&self) -> Histogram {
        self.histogram(sys::KILN_HISTOGRAM_SECTION)
    }

    /// Returns the histogram of the delays between raising a softirq and starting its handler.
    pub fn softirq_latency(&self) -> Histogram {
        self.histogram(sys::KILN_HISTOGRAM_SOFTIRQ_LATENCY)
    }

    fn histogram(&self, which: u32) -> Histogram {
        // SAFETY: `which` is a valid histogram number, so the pointer is not null. It points into
        // the CPU's own memory. Only this thread writes there.
        unsafe { Histogram::from(&*sys::kiln_cpu_histogram(self.raw(), which)) }
    }

    /// Resets all counters to zero.
    pub fn reset_stats(&mut self) {
        // SAFETY: this thread is the CPU, and it is not in kernel mode now.
        unsafe { sys::kiln_cpu_reset_stats(self.raw()) }
    }

    /// Enables timing of every FPU section, and recording of the first `room` section lengths after
    /// each [`Cpu::reset_stats`]. By default, only a sample of the short sections is timed, because
    /// the timing slows them down.
    pub fn keep_sections(&mut self, room: usize) {
        self.least = vec![u64::MAX; room];
        let least = self.least.as_mut_ptr();
        // SAFETY: this thread is the CPU and is not in kernel mode, so no section is open. The
        // buffer lives as long as the CPU.
        unsafe { sys::kiln_cpu_keep_sections(self.raw(), least, room) }
    }

    /// Returns the recorded section lengths in TSC ticks. A run starts with [`Cpu::reset_stats`],
    /// and element n is the minimum length of the run's section n, counted from 0, over all runs
    /// since [`Cpu::forget_sections`]. Taking the minimum filters out disturbances, because they
    /// rarely hit the same section in every run.
    pub fn least_sections(&self) -> &[u64] {
        let least = &self.least;
        let known = least.partition_point(|&ticks| ticks != u64::MAX);
        &least[..known]
    }

    /// Discards the recorded section lengths. Call this before running different code.
    pub fn forget_sections(&mut self) {
        self.least.fill(u64::MAX);
    }

    /// Plants a fault to test the detectors. From now on, nested sections on this CPU save their
    /// state in another CPU's area, `owner`.
    #[doc(hidden)]
    pub fn share_nested_area(&mut self, owner: NestedArea) {
        // SAFETY: the area belongs to a CPU that the test keeps alive for as long as the area is
        // shared.
        unsafe { sys::kiln_cpu_share_area(self.raw(), owner.0) }
    }

    /// Returns this CPU's area for nested sections, which can be passed to
    /// [`Cpu::share_nested_area`].
    #[doc(hidden)]
    pub fn nested_area(&self) -> NestedArea {
        NestedArea(self.raw())
    }

    fn raw(&self) -> *mut sys::Cpu {
        self.host.cpu.as_ptr().cast()
    }

    pub(crate) fn host(&mut self) -> &mut Host {
        &mut self.host
    }
}

/// A CPU's area for nested sections, which a test shares with another CPU on purpose.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct NestedArea(*mut sys::Cpu);

// SAFETY: Rust never dereferences the pointer; it only passes the pointer back to C.
unsafe impl Send for NestedArea {}

impl Drop for Cpu {
    fn drop(&mut self) {
        self.host.injection.stop();
        // SAFETY: this thread's CPU is in user mode, and its kthreads never run afterwards.
        unsafe { sys::kiln_cpu_stop(self.raw()) };
        HOST.set(ptr::null_mut());
        // A failure would only leave an unused pointer, because nothing reads GS from here on.
        let _ = set_gs_base(0);
    }
}

/// Wipes the registers that the calling thread's last FPU section saved in memory. They may contain
/// parts of a key, for example if the thread had just copied the key. Does nothing if the thread is
/// not a CPU.
pub fn wipe_saved_registers() {
    let host = HOST.get();
    if !host.is_null() {
        // SAFETY: the host and its CPU live until the CPU is dropped, which resets the pointer. The
        // CPU is this thread, which is not in kernel mode, so the saved copy is not the only copy
        // of its registers.
        unsafe { sys::kiln_cpu_wipe_registers((*host).cpu.as_ptr().cast()) }
    }
}

extern "C" fn start(_: *mut c_void) -> u64 {
    // SAFETY: the gate calls this function in kernel mode.
    unsafe { sys::kiln_cpu_start() };
    0
}

fn raw_config(config: &Config) -> sys::CpuConfig {
    let witness = witness::word();
    sys::CpuConfig {
        number: config.number,
        preempt_full: config.preempt_full,
        ticks_per_us: (kiln_tsc_hz() / 1e6).round() as u64,
        scheduler: config.scheduler as u32,
        tick_us: config.tick_us,
        slice_us: config.slice_us,
        latency_us: config.latency_us,
        wakeup_us: config.wakeup_us,
        switch_ns: config.switch_ns,
        witness: witness.map_or(ptr::null_mut(), |w| w.word),
        witness_armed: witness.map_or(0, |w| w.armed),
        ..Default::default()
    }
}

static TSC_HZ: std::sync::OnceLock<f64> = std::sync::OnceLock::new();

/// Sets the TSC frequency to the value that another process measured on this machine, unless this
/// process has already measured the frequency.
pub fn set_kiln_tsc_hz(hz: f64) {
    let _ = TSC_HZ.set(hz);
}

/// Returns the TSC frequency in Hz. The first call measures it.
pub fn kiln_tsc_hz() -> f64 {
    *TSC_HZ.get_or_init(|| {
        let read = || {
            // SAFETY: RDTSC is unprivileged on every supported host.
            let t = unsafe { core::arch::x86_64::_rdtsc() };
            (std::time::Instant::now(), t)
        };
        let (t0, c0) = read();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (t1, c1) = read();
        (c1 - c0) as f64 / (t1 - t0).as_secs_f64()
    })
}

fn set_gs_base(address: u64) -> std::io::Result<()> {
    const ARCH_SET_GS: i32 = 0x1001;
    // SAFETY: the call sets this thread's GS base, which only `kernel/` uses.
    match unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, address) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Enters kernel mode on the calling thread's CPU and calls `f(arg)` there.
///
/// # Safety
/// `f` must be a function of `kernel/` or of a hosted tree that is callable through the gate, and
/// `arg` must be a valid argument for it.
pub unsafe fn gate(f: sys::GateFn, arg: *mut c_void) -> u64 {
    ensure();
    // SAFETY: the thread is a CPU, and the caller promises that `f` and `arg` are suitable.
    unsafe { sys::kiln_gate(Some(f), arg) }
}

fn ensure() {
    if HOST.get().is_null() {
        let cpu =
            Cpu::boot_as_is(&Config::default(), None).expect("memory for a CPU, and a GS base");
        PLAIN.replace(Some(cpu));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fpu;

    #[test]
    fn a_plain_thread_may_become_a_cpu_and_plain_again() {
        let thread = std::thread::spawn(|| {
            fpu::pairs(3, true);
            let mut cpu = Cpu::boot(&Config::default()).unwrap();
            fpu::pairs(5, true);
            assert_eq!(cpu.stats().sections, 5);
            cpu.reset_stats();
            assert_eq!(cpu.stats().sections, 0);
            drop(cpu);
            fpu::pairs(7, true);
        });
        thread.join().unwrap();
    }
}
