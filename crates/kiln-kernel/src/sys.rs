//! `kernel/include/kiln/kiln.h`, declaration by declaration.
#![allow(missing_docs)] // the header has it

use std::ffi::{c_char, c_void};

use crate::cpu::{Histogram, Stats};
use crate::hosted::{FpuOps, Hooks};

/// What the gate calls in kernel mode.
pub type GateFn = unsafe extern "C" fn(*mut c_void) -> u64;

/// The start of `struct cpu`, as far as the signal handler knows it (cpu_offsets.h).
#[repr(C)]
pub struct CpuHead {
    _pcpu_hot: [u8; 64],
    _self: u64,
    pub irqs_off: u32,
    pub irq_pending: u32,
    pub kernel_mode: u32,
    _injecting: u32,
}

#[repr(C)]
pub struct CpuConfig {
    pub number: u32,
    pub preempt_full: bool,
    pub ticks_per_us: u64,
    pub tick_us: u64,
    pub slice_us: u64,
    pub switch_ns: u64,
    pub tasks: *mut u8,
    pub nr_tasks: u32,
    pub kstacks: *mut u8,
    pub kstack_size: u64,
    pub kstack_stride: u64,
    pub witness: *mut u64,
    pub witness_armed: u64,
}

pub const HISTOGRAM_SECTION: u32 = 0;
pub const HISTOGRAM_SOFTIRQ_LATENCY: u32 = 1;

/// `struct xts_key`: its size is known to C only.
#[repr(C)]
pub struct XtsKey {
    _opaque: [u8; 0],
}

pub type XtsCrypt = unsafe extern "C" fn(
    key: *const XtsKey,
    dst: *mut u8,
    src: *const u8,
    len: usize,
    iv: *const u8,
);

#[repr(C)]
pub struct XtsImpl {
    pub driver: *const c_char,
    pub tier: u32,
    pub priority: u32,
    pub constant_time: bool,
    pub encrypt: XtsCrypt,
    pub decrypt: XtsCrypt,
    pub first_tweak: unsafe extern "C" fn(key: *const XtsKey, tweak: *mut u8),
    pub encrypt_from: XtsCrypt,
    pub decrypt_from: XtsCrypt,
}

#[repr(C)]
pub struct XtsCall {
    pub imp: *const XtsImpl,
    pub key: *const XtsKey,
    pub dst: *mut u8,
    pub src: *const u8,
    pub iv: *const u8,
    pub len: usize,
    pub decrypt: bool,
}

#[repr(C)]
pub struct XtsSeries {
    pub imp: *const XtsImpl,
    pub key: *const XtsKey,
    pub dst: *mut u8,
    pub src: *const u8,
    pub iv: *const u8,
    pub len: usize,
    pub stride: usize,
    pub count: usize,
    pub calls: u64,
    pub decrypt: bool,
    pub chained: bool,
    pub sections: u32,
}

extern "C" {
    pub fn kiln_tiers_present() -> u32;
    pub fn kiln_tiers() -> u32;
    pub fn kiln_tier_lacks(tier: u32) -> *const c_char;
    pub fn kiln_tiers_mask(mask: u32);

    pub fn kiln_xts_impls() -> usize;
    pub fn kiln_xts_impl(i: usize) -> *const XtsImpl;
    pub fn kiln_xts_key_size() -> usize;
    pub fn kiln_xts_setkey(key: *mut XtsKey, raw: *const u8, len: usize) -> i32;
    pub fn kiln_xts_crypt(call: *mut c_void) -> u64;
    pub fn kiln_xts_run(series: *mut c_void) -> u64;

    pub fn kiln_impls() -> usize;
    pub fn kiln_impl(i: usize) -> *const Impl;
    pub fn kiln_call(call: *mut c_void) -> u64;
    pub fn kiln_guests_attach(guests: *mut c_void) -> u64;
    pub fn kiln_guests_detach(guests: *mut c_void) -> u64;
    pub fn kiln_impl_series(series: *mut c_void) -> u64;
    pub fn kiln_impl_pieces(pieces: *mut c_void) -> u64;
    pub fn kiln_calls_run(calls: *mut c_void) -> u64;

    pub fn kiln_cpu_size() -> usize;
    pub fn kiln_task_size() -> usize;
    pub fn kiln_cpu_init(cpu: *mut CpuHead, config: *const CpuConfig);
    pub fn kiln_cpu_configure(cpu: *mut CpuHead, config: *const CpuConfig);
    pub fn kiln_cpu_start();
    pub fn kiln_cpu_stop(cpu: *mut CpuHead);
    pub fn kiln_cpu_stats(cpu: *mut CpuHead) -> *mut Stats;
    pub fn kiln_cpu_histogram(cpu: *mut CpuHead, which: u32) -> *mut Histogram;
    pub fn kiln_cpu_reset_stats(cpu: *mut CpuHead);
    pub fn kiln_cpu_share_area(cpu: *mut CpuHead, owner: *mut CpuHead);
    pub fn kiln_gate(f: GateFn, arg: *mut c_void) -> u64;
    pub fn kiln_irq_trampoline();

    pub fn kiln_fpu_policies() -> u32;
    pub fn kiln_fpu_policy(i: u32) -> *const c_char;
    pub fn kiln_fpu_policy_set(i: u32);
    pub fn kiln_fpstate_size() -> u32;
    pub fn kiln_fpstate_forget(features: u32);

    pub fn kiln_slab_give(memory: *mut c_void, size: usize);
    pub fn kiln_slab_in_use() -> usize;
    pub fn kiln_crypto_init() -> i32;
    pub fn kiln_crypto_model(model: u32);
    pub fn kiln_crypto_open(tfm: *mut c_void) -> u64;
    pub fn kiln_crypto_close(tfm: *mut c_void) -> u64;
    pub fn kiln_crypto_setkey(setkey: *mut c_void) -> u64;
    pub fn kiln_crypto_setauthsize(setkey: *mut c_void) -> u64;
    pub fn kiln_crypto_seed(seed: u64);
    pub fn kiln_crypto_digest(digest: *mut c_void) -> u64;
    pub fn kiln_crypto_request(request: *mut c_void) -> u64;
    pub fn kiln_crypto_requests(requests: *mut c_void) -> u64;
    pub fn kiln_crypto_calls(calls: *mut c_void) -> u64;
    pub fn kiln_crypto_op_open(op: *mut c_void) -> u64;
    pub fn kiln_crypto_op_close(op: *mut c_void) -> u64;
    pub fn kiln_crypto_op_crypt(
        op: *mut c_void,
        slot: u32,
        dst: *mut u8,
        src: *const u8,
        len: usize,
        iv: *const u8,
        decrypt: bool,
        done: OpDone,
        data: *mut c_void,
    ) -> i32;
    pub fn kiln_cryptd_break(broken: u32);
    pub fn kiln_script(script: *mut c_void) -> u64;
    pub static kiln_request_ops: RequestOps;
    pub fn kiln_attach(hooks: *const Hooks) -> bool;
    pub fn kiln_detach();
    pub fn kiln_local_bh_disable(count: u32);
    pub fn kiln_local_bh_enable(count: u32);
    pub fn kiln_local_irq_save() -> u64;
    pub fn kiln_local_irq_restore(flags: u64);
    pub fn kiln_local_irq_disable();
    pub fn kiln_local_irq_enable();
    pub fn kiln_raise_softirq(nr: u32);
    pub fn kiln_open_softirq(nr: u32, handler: unsafe extern "C" fn(*mut c_void));
    pub fn kiln_on_interrupt(handler: Option<unsafe extern "C" fn(*mut c_void)>);
    pub fn kiln_do_softirq();
    pub fn kiln_pv_save_fl();
    pub fn kiln_pv_irq_disable();
    pub fn kiln_pv_irq_enable();
    pub fn kiln_preempt_schedule();
    pub fn kiln_preempt_schedule_thunk();
    pub fn kiln_schedule();
    pub fn kiln_cond_resched() -> bool;
    pub fn kiln_yield();
    pub fn kiln_need_resched() -> bool;
    pub fn kiln_wait_prepare(on: *const c_void);
    pub fn kiln_wait_finish();
    pub fn kiln_wake(on: *const c_void);
    pub fn kiln_kthread_create(
        f: unsafe extern "C" fn(*mut c_void),
        arg: *mut c_void,
        name: *const c_char,
    ) -> *mut c_void;
    pub fn kiln_kthread_exit();
    pub fn kiln_task_word(task: *mut c_void) -> *mut c_void;
    pub fn kiln_workqueue_start(queue: *mut Workqueue, name: *const c_char) -> bool;
    pub fn kiln_workqueue_stop(queue: *mut Workqueue);
    pub fn kiln_queue_work(queue: *mut Workqueue, work: *mut Work) -> bool;
    pub fn kiln_cancel_work(work: *mut Work) -> bool;
    pub fn kiln_flush_work(queue: *mut Workqueue, work: *mut Work);
    pub fn kiln_warn();
    pub fn kiln_fpu_usable() -> bool;
    pub fn kiln_fpu_policy_add(ops: *const FpuOps) -> i32;
    pub fn kiln_section_time(section: *mut Section);
    pub fn kiln_section_enter(section: *const Section);
    pub fn kiln_section_leave();

    pub fn kiln_load_attach(load: *mut c_void) -> u64;
    pub fn kiln_load_run(load: *mut c_void) -> u64;
    pub fn kiln_load_drain(load: *mut c_void) -> u64;
    pub fn kiln_load_ready(load: *mut c_void) -> u64;
    pub fn kiln_load_detach(load: *mut c_void) -> u64;
    #[cfg(test)]
    pub fn kiln_pattern_size() -> usize;
    pub fn kiln_usable(usable: *mut c_void) -> u64;
    pub fn kiln_scene(scene: *mut c_void) -> u64;
    pub fn kiln_storm(storm: *mut c_void) -> u64;
    pub fn kiln_fpu_pairs(pairs: *mut c_void) -> u64;
    pub fn kiln_fpu_saves(saves: *mut c_void) -> u64;
}

/// Told of an answer.
pub type OpDone = unsafe extern "C" fn(data: *mut c_void, answer: i32);

pub type OpCrypt = unsafe extern "C" fn(
    ctx: *mut c_void,
    slot: u32,
    dst: *mut u8,
    src: *const u8,
    len: usize,
    iv: *const u8,
    decrypt: bool,
    done: OpDone,
    data: *mut c_void,
) -> i32;

#[repr(C)]
pub struct Op {
    pub crypt: OpCrypt,
    pub ctx: *mut c_void,
    pub slots: u32,
}

#[repr(C)]
#[derive(Clone)]
pub struct OpSlot {
    pub side: *mut LoadSide,
    pub next: *mut OpSlot,
    pub seq: u64,
    pub message: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct LoadSide {
    pub imp: *const XtsImpl,
    pub op: *const Op,
    pub slots: *mut OpSlot,
    pub depth: u32,
    pub key: *const XtsKey,
    pub src: *const u8,
    pub want: *const u8,
    pub iv: *const u8,
    pub dst: *mut u8,
    pub len: u32,
    pub stride: u32,
    pub count: u32,
    pub next: u32,
    pub decrypt: bool,
    pub ops: u64,
    pub corrupted: u64,
    pub async_punts: u64,
    pub dropped: u64,
    pub reordered: u64,
    pub errors: u64,
    pub free: *mut OpSlot,
    pub in_flight: u32,
    pub put: u64,
    pub answered: u64,
}

#[repr(C)]
pub struct Load {
    pub task: LoadSide,
    pub softirq: LoadSide,
    pub second: LoadSide,
    pub stop_second: bool,
    pub second_stopped: bool,
    pub fallback: *const XtsImpl,
    pub empty: bool,
    pub hardirq_fpu: bool,
    pub step: bool,
    pub step_softirq: bool,
    pub hardirq_hook: Option<unsafe extern "C" fn()>,
    pub ops: u64,
    pub spins: u64,
    pub pattern: *const u8,
    pub found: *mut u8,
    pub scalar_fallbacks: u64,
    pub hardirq_sections: u64,
}

#[repr(C)]
pub struct Usable {
    pub context: u32,
    pub in_section: bool,
    pub over_section: bool,
    pub usable: bool,
    pub warnings: u64,
    pub preempt_count: u32,
    pub preempt_after: u32,
}

#[repr(C)]
pub struct Scene {
    pub ops: *const c_void,
    pub program: [*const c_char; 4],
    pub played: [u32; 4],
    pub len: u32,
    pub size: u32,
    pub trace: *mut u8,
}

#[repr(C)]
pub struct FpuPairs {
    pub pairs: u64,
    pub timed: bool,
}

#[repr(C)]
pub struct FpuSaves {
    pub saves: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Scatterlist {
    pub addr: *mut u8,
    pub length: u32,
    pub last: bool,
    pub chain: bool,
}

#[repr(C)]
pub struct Tfm {
    pub name: *const c_char,
    pub kind: u32,
    pub mask: u32,
    pub tfm: *mut c_void,
    pub driver: *const c_char,
    pub flags: u32,
    pub priority: i32,
    pub ivsize: u32,
    pub err: i32,
}

#[repr(C)]
pub struct SetKey {
    pub tfm: *mut c_void,
    pub key: *const u8,
    pub len: u32,
    pub err: i32,
}

#[repr(C)]
pub struct Request {
    pub tfm: *mut c_void,
    pub src: *mut Scatterlist,
    pub dst: *mut Scatterlist,
    pub iv: *mut u8,
    pub assoclen: u32,
    pub len: u32,
    pub decrypt: bool,
    pub context: u32,
    pub submitted: i32,
    pub result: i32,
}

#[repr(C)]
pub struct Requests {
    pub tfm: *mut c_void,
    pub dst: *mut u8,
    pub src: *mut u8,
    pub iv: *mut u8,
    pub len: u32,
    pub stride: usize,
    pub count: usize,
    pub calls: u64,
    pub decrypt: bool,
    pub part: u32,
    pub later: u64,
    pub err: i32,
}

#[repr(C)]
pub struct ApiCalls {
    pub tfm: *mut c_void,
    pub dst: *mut u8,
    pub src: *mut u8,
    pub fresh: *const u8,
    pub iv: *mut u8,
    pub src_stride: usize,
    pub dst_stride: usize,
    pub iv_stride: usize,
    pub src_len: u32,
    pub dst_len: u32,
    pub assoclen: u32,
    pub cryptlen: u32,
    pub count: usize,
    pub calls: u64,
    pub decrypt: bool,
    pub from: *mut Scatterlist,
    pub to: *mut Scatterlist,
    pub later: u64,
    pub err: i32,
}

#[repr(C)]
pub struct CryptoOp {
    pub tfm: *mut c_void,
    pub slots: u32,
    pub request: *mut *mut c_void,
}

/// `struct kiln_request_ops`: functions that `kernel/` calls.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RequestOps {
    pub request_alloc: *const c_void,
    pub request_free: *const c_void,
    pub submit: *const c_void,
    pub tfm_free: *const c_void,
}

// SAFETY: addresses of code.
unsafe impl Sync for RequestOps {}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ScriptStep {
    pub kind: u32,
    pub tfm: u32,
    pub context: u32,
    pub flags: u32,
    pub count: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ScriptEvent {
    pub request: u32,
    pub answer: bool,
    pub kthread: bool,
    pub wrong: bool,
    pub err: i32,
    pub preempt_count: u32,
}

#[repr(C)]
pub struct Script {
    pub ops: *const RequestOps,
    pub tfm: *mut *mut c_void,
    pub step: *const ScriptStep,
    pub steps: u32,
    pub len: u32,
    pub src: *const u8,
    pub want: *const u8,
    pub iv: *const u8,
    pub event: *mut ScriptEvent,
    pub max_events: u32,
    pub events: u32,
    pub stuck: u32,
}

/// `struct kiln_work`.
#[repr(C)]
pub struct Work {
    pub pending: u64,
    pub next: *mut Work,
    pub queue: *mut Workqueue,
    pub f: unsafe extern "C" fn(*mut Work),
}

/// `struct kiln_workqueue`.
#[repr(C)]
pub struct Workqueue {
    pub head: *mut Work,
    pub tail: *mut Work,
    pub running: *mut Work,
    pub stopped: u32,
}

/// `struct kiln_section`.
#[repr(C)]
pub struct Section {
    pub now: u64,
    pub irqs_seen: u32,
}

/// `struct kiln_impl`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Impl {
    pub alg: *const c_char,
    pub driver: *const c_char,
    pub kind: u32,
    pub tier: u32,
    pub priority: u32,
    pub constant_time: bool,
    pub key_min: u32,
    pub key_max: u32,
    pub key_step: u32,
    pub ivsize: u32,
    pub blocksize: u32,
    pub shortest: u32,
    pub digestsize: u32,
    pub tag_min: u32,
    pub tag_step: u32,
    pub ctxsize: u32,
    pub statesize: u32,
    pub setkey: Option<KeyFn>,
    /// The largest of the three tables of functions.
    pub ops: [usize; 7],
}

/// `struct kiln_series`.
#[repr(C)]
pub struct Series {
    pub imp: *const Impl,
    pub ctx: *const c_void,
    pub dst: *mut u8,
    pub src: *const u8,
    pub iv: *const u8,
    pub aad: *const u8,
    pub tag: *mut u8,
    pub len: usize,
    pub stride: usize,
    pub aadlen: usize,
    pub tagsize: usize,
    pub tag_stride: usize,
    pub count: usize,
    pub calls: u64,
    pub decrypt: bool,
    pub sections: u32,
    pub refused: u64,
}

/// `struct kiln_calls`.
#[repr(C)]
pub struct Calls {
    pub imp: *const Impl,
    pub ctx: *const c_void,
    pub dst: *mut u8,
    pub src: *const u8,
    pub fresh: *const u8,
    pub aad: *const u8,
    pub iv: *mut u8,
    pub tag: *mut u8,
    pub len: usize,
    pub src_stride: usize,
    pub dst_stride: usize,
    pub iv_stride: usize,
    pub aad_stride: usize,
    pub tag_stride: usize,
    pub aadlen: usize,
    pub tagsize: usize,
    pub count: usize,
    pub calls: u64,
    pub decrypt: bool,
    pub chained: bool,
    pub many: bool,
}

/// `struct kiln_pieces`.
#[repr(C)]
pub struct Pieces {
    pub imp: *const Impl,
    pub other: *const Impl,
    pub ctx: *const c_void,
    pub dst: *mut u8,
    pub src: *const u8,
    pub iv: *const u8,
    pub aad: *const u8,
    pub tag: *mut u8,
    pub len: usize,
    pub aadlen: usize,
    pub tagsize: usize,
    pub decrypt: bool,
    pub piece: *const u32,
    pub pieces: u32,
    pub aad_pieces: u32,
}

pub type KeyFn = unsafe extern "C" fn(ctx: *mut c_void, key: *const u8, len: usize) -> i32;

/// `struct kiln_call`.
#[repr(C)]
pub struct Call {
    pub function: usize,
    pub scalar: usize,
    pub args: [u64; 9],
    pub through: Option<crate::call::Through>,
    pub registers: *mut c_void,
    pub context: u32,
    pub section: bool,
    pub step: bool,
    pub done: bool,
    pub fell_back: bool,
    pub preempt_count: u32,
    pub result: u64,
}

/// `struct kiln_guest`.
#[repr(C)]
pub struct Guest {
    pub function: usize,
    pub scalar: usize,
    pub args: [u64; 9],
    pub section: bool,
    pub iv: *mut u8,
    pub iv_of: *const u8,
    pub iv_size: u32,
    pub got: *mut u8,
    pub want: *const u8,
    pub len: u32,
}

/// `struct kiln_guests`.
#[repr(C)]
pub struct Guests {
    pub guest: *mut Guest,
    pub softirqs: u32,
    pub hardirqs: u32,
    pub next: u32,
    pub next_hardirq: u32,
    pub interrupts: u64,
    pub into_sections: u64,
    pub served: u64,
    pub sections: u64,
    pub scalar_fallbacks: u64,
    pub corrupted: u64,
}

/// `struct kiln_digest`.
#[repr(C)]
pub struct Digest {
    pub tfm: *mut c_void,
    pub data: *const u8,
    pub len: u32,
    pub piece: *const u32,
    pub pieces: u32,
    pub reimport: bool,
    pub out: *mut u8,
    pub context: u32,
    pub err: i32,
}

/// `struct kiln_budget`.
#[repr(C)]
#[derive(Default)]
pub struct Budget {
    pub most: [u32; 2],
    pub start: [u32; 2],
    pub rate: [u64; 2],
    pub miss_rate: u64,
    pub granule: u32,
    pub min_bytes: u32,
    pub fastest: bool,
}

/// `struct kiln_calibration`.
#[repr(C)]
pub struct Calibration {
    pub memory: *mut u8,
    pub rates: *const u64,
    pub stalls: *const u64,
    pub nr_stalls: u32,
    pub chain: u64,
    pub ticks: u64,
    pub runs: u32,
    pub enough: u64,
}

/// `struct kiln_budget_part`.
#[repr(C)]
pub struct BudgetPart {
    pub section: crate::cpu::Histogram,
    pub softirq: crate::cpu::Histogram,
    pub wake: crate::cpu::Histogram,
    pub ops: u64,
    pub sections: u64,
    pub interrupted: u64,
    pub stolen: u64,
    pub stalls: u64,
    pub long_sections: u64,
    pub long_witnessed: u64,
    pub op_ticks: *mut u64,
}

/// `struct kiln_budget_run`.
#[repr(C)]
pub struct BudgetRun {
    pub calls: *mut ApiCalls,
    pub part: *mut BudgetPart,
    pub null_chain: u64,
    pub long_ticks: u64,
    pub max_ops: u32,
    pub ticks: u64,
    pub min_ops: u64,
    pub cold: bool,
    pub quiet: bool,
    pub err: i32,
    pub sleeper: *mut c_void,
    pub now: u32,
    pub raised: u32,
    pub woken: u64,
    pub stop: bool,
    pub stopped: bool,
}

extern "C" {
    pub fn kiln_cut_way(way: u32) -> *const c_char;
    pub fn kiln_cut_set(way: u32, target: u64);
    pub fn kiln_cut_get(target: *mut u64) -> u32;
    pub fn kiln_cut_force(bytes: u32);
    pub fn kiln_budget_get(imp: *const Impl, budget: *mut Budget);
    pub fn kiln_budget_bytes(imp: *const Impl, decrypt: bool, ticks: u64) -> u32;
    pub fn kiln_calibrate(calibration: *mut c_void) -> u64;
    pub fn kiln_calibrate_again(calibration: *mut c_void) -> u64;
    pub fn kiln_budget_run(run: *mut c_void) -> u64;
    pub fn kiln_budget_chain(n: u64) -> u64;
}
