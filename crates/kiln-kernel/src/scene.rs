//! Scenes: programs for a task, and for the hardirqs and softirqs that interrupt the task. Running
//! a scene records a trace (`kiln/scene.h`). The same scenes also run on a real kernel
//! (`linux/fidelity/`).

use std::ffi::{CStr, CString};

use crate::cpu::{self, Cpu};
use crate::sys;

/// Capacity of a trace in bytes.
const TRACE: usize = 4096;
/// Number of bytes beyond the trace's capacity that an interrupted write may touch. Must equal
/// `KILN_SCENE_SLACK`.
const SLACK: usize = 64;

/// A scene's programs. Each letter is an action, as listed in `kiln/scene.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scene {
    pub task: &'static str,
    /// Program that runs when a hardirq interrupts the task.
    pub hardirq: &'static str,
    pub softirq: &'static str,
    /// Program that runs when a hardirq interrupts the softirq.
    pub over_softirq: &'static str,
}

impl Scene {
    /// Returns the four programs, in the order of the fields.
    pub fn programs(&self) -> [&'static str; 4] {
        [self.task, self.hardirq, self.softirq, self.over_softirq]
    }

    /// Runs the scene under the active policy and returns its trace.
    ///
    /// # Panics
    /// If a program contains a NUL.
    pub fn play(&self, _cpu: &mut Cpu) -> String {
        let programs = self
            .programs()
            .map(|p| CString::new(p).expect("a program has no NUL"));
        let mut trace = vec![0_u8; TRACE + SLACK];
        let mut raw = sys::Scene {
            program: [0, 1, 2, 3].map(|level: usize| programs[level].as_ptr()),
            size: TRACE as u32,
            trace: trace.as_mut_ptr().cast(),
            ..Default::default()
        };
        // SAFETY: `kiln_scene` takes a pointer to this structure. The programs and the trace
        // outlive the call, and no softirq that refers to them is pending when the call returns.
        unsafe { cpu::gate(sys::kiln_scene, (&raw mut raw).cast()) };
        let text = CStr::from_bytes_until_nul(&trace).expect("the slack contains a NUL");
        text.to_string_lossy().into_owned()
    }
}
