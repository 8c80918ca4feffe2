//! Scripts that submit requests in given contexts and record each result. They test the behaviour
//! of an asynchronous crypto API from its callers' point of view.

use std::ffi::c_void;

use crate::cipher::BLOCK;
use crate::cpu::{self, Cpu};
use crate::crypto::{Errno, Skcipher};
use crate::fpu::Context;
use crate::sys;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Submit requests: the transform's index, the context, flags, and the number of requests.
    Submit(usize, Context, u32, u32),
    /// Let other tasks run until this many more requests have completed asynchronously.
    Run(u32),
    /// Open an FPU section.
    SectionBegin,
    /// Close the FPU section.
    SectionEnd,
    /// Disable softirqs.
    BhOff,
    /// Enable softirqs.
    BhOn,
    /// Free the transform with this index.
    Free(usize),
}

impl Step {
    fn raw(self) -> sys::Step {
        let raw = |kind, tfm, context, flags, count| sys::Step {
            kind,
            tfm,
            context,
            flags,
            count,
        };
        match self {
            Step::Submit(tfm, context, flags, count) => {
                raw(0, tfm as u32, context as u32, flags, count)
            }
            Step::Run(count) => raw(1, 0, 0, 0, count),
            Step::SectionBegin => raw(2, 0, 0, 0, 0),
            Step::SectionEnd => raw(3, 0, 0, 0, 0),
            Step::BhOff => raw(4, 0, 0, 0, 0),
            Step::BhOn => raw(5, 0, 0, 0, 0),
            Step::Free(tfm) => raw(6, tfm as u32, 0, 0, 0),
        }
    }
}

/// An event in the processing of a request: the call that submitted it returned, or its callback
/// was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number of the request, in order of submission.
    pub request: u32,
    /// True if the callback was called, false if the submitting call returned.
    pub answer: bool,
    /// Whether the event occurred in a kernel thread.
    pub kthread: bool,
    /// Whether the result was 0 although the output was wrong.
    pub wrong: bool,
    /// The result that was passed to the callback, or that the call returned.
    pub err: Errno,
    pub preempt_count: u32,
}

/// The events that a script caused, and the step where it got stuck, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// All events in order of occurrence.
    pub events: Vec<Event>,
    /// Index of the step that did not finish. Equals the number of steps if every step finished but
    /// some requests never completed. `None` if all requests completed.
    pub stuck: Option<usize>,
}

/// Runs `steps`. All requests encrypt the same message, each into its own output buffer. If a step
/// frees a transform, pass the transform to [`give_up`] afterwards.
pub fn run(
    _cpu: &mut Cpu,
    tfms: &[&Skcipher],
    steps: &[Step],
    (src, want, iv): (&[u8], &[u8], &[u8; BLOCK]),
) -> Outcome {
    let mut handles: Vec<*mut c_void> = tfms.iter().map(|t| t.raw.tfm).collect();
    let ops = &raw const sys::kiln_request_ops;
    run_on(ops, &mut handles, steps, (src, want, iv))
}

pub use crate::sys::RequestOps;

/// Runs `steps` like [`run`], but with a crypto API other than Kiln's.
///
/// # Safety
/// The functions must uphold the contract of `struct kiln_request_ops` when they are called with
/// these transforms.
pub unsafe fn run_foreign(
    _cpu: &mut Cpu,
    ops: &RequestOps,
    tfms: &mut [*mut c_void],
    steps: &[Step],
    message: (&[u8], &[u8], &[u8; BLOCK]),
) -> Outcome {
    run_on(ops, tfms, steps, message)
}

/// Returns scripts that reveal the behaviour of a crypto API: the limit of its queue, its backlog,
/// which requests may overtake others, how long a transform lives, and which requests complete
/// without the kworker. Each tuple contains a script's name, the number of `xts(aes)` transforms it
/// uses, and its steps. The policy must be `legacy` when the scripts run.
pub fn scenarios() -> Vec<(&'static str, usize, Vec<Step>)> {
    use Context::{Softirq, Task, TaskBhOff};
    const BACKLOG: u32 = crate::crypto::MAY_BACKLOG;
    vec![
        (
            "overflow",
            1,
            vec![
                Step::SectionBegin,
                Step::Submit(0, Softirq, 0, 1000),
                Step::Submit(0, Softirq, 0, 1),
                Step::Submit(0, Softirq, BACKLOG, 2),
                Step::Submit(0, Softirq, 0, 1),
                Step::SectionEnd,
                Step::Run(1002),
            ],
        ),
        (
            "order",
            2,
            vec![
                Step::SectionBegin,
                Step::Submit(0, Softirq, 0, 3),
                Step::SectionEnd,
                Step::Submit(0, TaskBhOff, 0, 1),
                Step::Submit(0, Softirq, 0, 1),
                Step::Submit(0, Task, 0, 1),
                Step::Submit(1, TaskBhOff, 0, 1),
                Step::Run(5),
                Step::Submit(0, TaskBhOff, 0, 1),
                Step::Submit(0, Softirq, 0, 1),
            ],
        ),
        (
            "free while queued",
            1,
            vec![
                Step::SectionBegin,
                Step::Submit(0, Softirq, 0, 20),
                Step::SectionEnd,
                Step::Free(0),
                Step::Run(20),
            ],
        ),
        (
            "two transforms, one queue",
            2,
            vec![
                Step::SectionBegin,
                Step::Submit(0, Softirq, 0, 2),
                Step::Submit(1, Softirq, 0, 2),
                Step::Submit(0, Softirq, 0, 1),
                Step::SectionEnd,
                Step::Submit(1, TaskBhOff, 0, 1),
                Step::Run(6),
            ],
        ),
        (
            "at once",
            1,
            vec![
                Step::Submit(0, Task, 0, 2),
                Step::Submit(0, TaskBhOff, 0, 2),
                Step::Submit(0, Softirq, 0, 2),
            ],
        ),
    ]
}

/// Returns a scenario's steps.
///
/// # Panics
/// If no scenario has this name.
pub fn scenario(name: &str) -> Vec<Step> {
    let all = scenarios().into_iter();
    let mut named = all.filter(|(n, ..)| *n == name).map(|(.., steps)| steps);
    named.next().expect("a scenario's name")
}

fn run_on(
    ops: *const sys::RequestOps,
    handles: &mut [*mut c_void],
    steps: &[Step],
    (src, want, iv): (&[u8], &[u8], &[u8; BLOCK]),
) -> Outcome {
    assert_eq!(src.len(), want.len());
    let raw_steps: Vec<_> = steps.iter().map(|s| s.raw()).collect();
    let asks = |tfm: u32| (tfm as usize) < handles.len();
    assert!(raw_steps
        .iter()
        .all(|s| s.kind > 0 && s.kind < 6 || asks(s.tfm)));
    let requests: u32 = raw_steps
        .iter()
        .filter(|s| s.kind == 0)
        .map(|s| s.count)
        .sum();
    // A request causes up to three events: submission, leaving the backlog, and completion.
    let mut events = vec![sys::ScriptEvent::default(); 3 * requests as usize + 8];
    let mut raw = sys::Script {
        ops,
        tfm: handles.as_mut_ptr(),
        step: raw_steps.as_ptr(),
        steps: raw_steps.len() as u32,
        len: src.len() as u32,
        src: src.as_ptr().cast_mut(),
        want: want.as_ptr().cast_mut(),
        iv: iv.as_ptr().cast_mut(),
        event: events.as_mut_ptr(),
        max_events: events.len() as u32,
        ..Default::default()
    };
    // SAFETY: `kiln_script` takes a pointer to this structure, and every index refers to a handle.
    unsafe { cpu::gate(sys::kiln_script, (&raw mut raw).cast()) };
    assert!(raw.events as usize <= events.len(), "{} events", raw.events);
    events.truncate(raw.events as usize);
    Outcome {
        events: events
            .into_iter()
            .map(|e| Event {
                request: e.request,
                answer: e.answer,
                kthread: e.kthread,
                wrong: e.wrong,
                err: Errno(e.err),
                preempt_count: e.preempt_count,
            })
            .collect(),
        stuck: (raw.stuck > 0).then(|| raw.stuck as usize - 1),
    }
}

/// Drops the handle of a transform that a script has already freed, without freeing it a second
/// time.
pub fn give_up(mut tfm: Skcipher) {
    tfm.raw.tfm = std::ptr::null_mut();
}
