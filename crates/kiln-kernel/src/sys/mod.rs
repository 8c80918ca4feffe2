//! `kernel/include/kiln/kiln.h`: its functions here, its structures by subject.
#![allow(missing_docs)] // the header has it

mod budget;
mod cipher;
mod cpu;
mod crypto;
mod load;

use std::ffi::{c_char, c_void};

use crate::cpu::{Histogram, Stats};
use crate::hosted::{FpuOps, Hooks};

pub use budget::*;
pub use cipher::*;
pub use cpu::*;
pub use crypto::*;
pub use load::*;

/// What the gate calls in kernel mode.
pub type GateFn = unsafe extern "C" fn(*mut c_void) -> u64;

extern "C" {
    pub fn kiln_tiers_present() -> u32;
    pub fn kiln_tiers() -> u32;
    pub fn kiln_tier_lacks(tier: u32) -> *const c_char;
    pub fn kiln_tiers_mask(mask: u32);

    pub fn kiln_impls() -> usize;
    pub fn kiln_impl(i: usize) -> *const Impl;
    pub fn kiln_impl_folder(imp: *const Impl) -> *const c_char;
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
    pub fn kiln_wakeup(wakeup: *mut c_void) -> u64;
    pub fn kiln_fpu_pairs(pairs: *mut c_void) -> u64;
    pub fn kiln_fpu_saves(saves: *mut c_void) -> u64;
}
