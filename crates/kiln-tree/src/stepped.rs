//! Single-steps drivers for the oracles that need it. For `context` and `sharing`, interrupts are
//! delivered between instructions. For `registers` and `features`, this file checks the steps that
//! the trap handler recorded (see `tree/oracles/registers.c`).

use std::collections::BTreeSet;

use kiln_kernel::irq::{Audit, Auditing, Breach, Visit};

use crate::constants::{self, ByChance};
use crate::event::Violation;
use crate::features;
use crate::host::Host;
use crate::primitive::Primitive;
use crate::{link, raw, Error};

/// Returns whether this file checks the recorded steps for the oracle with this number.
pub(crate) fn is_judged(oracle: u32) -> bool {
    [raw::KILN_ORACLE_REGISTERS, raw::KILN_ORACLE_FEATURES].contains(&oracle)
}

/// An audit that single-steps drivers until it is dropped.
pub(crate) struct Stepped {
    /// Number of the oracle in `enum kiln_oracle`.
    oracle: u32,
    // Declared before `shared`, which it uses, so that it is dropped first.
    auditing: Auditing,
    shared: Box<Audit>,
    /// Names of global functions. These must follow the ABI because other objects can call them. A
    /// local assembly function need not, because only code in the same file calls it.
    globals: BTreeSet<String>,
    /// Instructions that read constants whose alignment is not guaranteed.
    constants: Vec<ByChance>,
}

impl Stepped {
    /// Starts single-stepping for the oracle with this number.
    ///
    /// # Errors
    /// Fails if the image has no FPU sections, or the host does not support single-stepping.
    pub(crate) fn start(host: &mut Host, oracle: u32) -> Result<Stepped, Error> {
        let name = "__wrap_kernel_fpu_begin_mask";
        let begin = host.image.symbol(name).ok_or_else(|| Error::NoSymbol {
            image: host.image.path.clone(),
            name: name.into(),
        })?;
        let mut shared = Box::new(Audit {
            last_call: u64::MAX,
            last_step: u64::MAX,
            ..Audit::default()
        });
        // SAFETY: `shared` and `auditing` become fields of the same structure, so the boxed audit
        // lives for as long as it is used.
        let auditing = unsafe { Auditing::start(&mut host.cpu, &raw mut *shared, begin) };
        let mut auditing = auditing.map_err(|e| Error::host("no single steps", e))?;
        // SAFETY: the image is never unloaded.
        let copied = unsafe { auditing.copy_instructions(host.image.text.clone()) };
        copied.map_err(|e| Error::host("no single steps", e))?;
        let all = Primitive::all();
        let narrow = all.iter().flat_map(Primitive::narrow);
        let narrow = narrow.filter_map(|(name, bits)| Some((host.image.symbol(name)?, bits)));
        let mut narrow: Vec<(u64, u8)> = narrow.collect();
        narrow.sort_unstable();
        narrow.dedup_by_key(|f| f.0);
        let globals = link::globals(&host.image.path)?;
        if is_judged(oracle) {
            auditing.narrow(narrow);
            let addresses = globals.iter().filter_map(|name| host.image.symbol(name));
            auditing.restore(addresses.collect());
            let frames = host.image.symbol("kiln_frame_pointers");
            // SAFETY: `at` is the address of a constant in `registers.c` that has this type.
            if frames.is_some_and(|at| unsafe { *(at as *const u32) } != 0) {
                auditing.expect_frames();
            }
        }
        Ok(Stepped {
            oracle,
            globals,
            constants: constants::read(&host.image.path)?,
            shared,
            auditing,
        })
    }

    /// Clears the recorded steps.
    pub(crate) fn clear(&mut self) {
        self.auditing.clear();
    }

    /// Returns a pointer to the audit. The caller stores it in the structure that it passes to the
    /// C code.
    pub(crate) fn raw(&mut self) -> *mut Audit {
        &raw mut *self.shared
    }

    /// Returns the stepped driver's violations and the names of the features that the driver used,
    /// and clears both. Executing an instruction that needs a feature in `hidden` is a violation.
    pub(crate) fn take(&mut self, host: &Host, hidden: &[u16]) -> (Vec<Violation>, Vec<String>) {
        let (visits, breaches) = (self.auditing.visits(), self.auditing.breaches());
        self.auditing.clear();
        match self.oracle {
            raw::KILN_ORACLE_REGISTERS => {
                let mut violations = self.preserved(host, &breaches);
                violations.extend(self.aligned(host, &visits));
                (violations, Vec::new())
            }
            _ => {
                let inside = visits.iter().filter(|v| v.outside < v.visits);
                let addresses: BTreeSet<u64> = inside.map(|v| v.address).collect();
                features::judge(host, &addresses, hidden)
            }
        }
    }

    /// Returns a violation for each constant that is aligned only by chance and is read by one of
    /// the executed functions.
    fn aligned<'a>(
        &'a self,
        host: &'a Host,
        visits: &[Visit],
    ) -> impl Iterator<Item = Violation> + 'a {
        let executed: BTreeSet<String> = match self.constants.is_empty() {
            true => BTreeSet::new(),
            false => visits.iter().map(|v| function(host, v.address)).collect(),
        };
        let found = self.constants.iter();
        let found = found.filter(move |c| executed.contains(&c.function));
        found.map(|c| Violation {
            rule: "constant".into(),
            what: c.what.clone(),
            trace: Vec::from_iter(host.image.symbol(&c.function).map(|at| at + c.offset)),
            ..Violation::default()
        })
    }

    fn preserved(&self, host: &Host, breaches: &[Breach]) -> Vec<Violation> {
        let mut violations: Vec<Violation> = Vec::new();
        for breach in breaches {
            let (function, to, register) = match *breach {
                Breach::Preserved {
                    function,
                    to,
                    register,
                    ..
                } => (function, to, register),
                Breach::Frame { address, .. } => {
                    let lost = frame_lost(host, address, &violations);
                    violations.extend(lost);
                    continue;
                }
                Breach::Nested { .. } => continue,
            };
            let name = host.image.name(function);
            if !self.globals.contains(name.trim_end_matches("+0x0")) {
                continue;
            }
            let what = format!("returns with another value in {register}");
            let known = |v: &Violation| v.what == what && v.trace[0] == function;
            if violations.iter().any(known) {
                continue;
            }
            violations.push(Violation {
                rule: "preserved".into(),
                what,
                trace: vec![function, to],
                ..Violation::default()
            });
        }
        violations
    }
}

/// Returns the name of the function that contains an address.
fn function(host: &Host, address: u64) -> String {
    let name = host.image.name(address);
    name.split('+').next().unwrap_or("").to_owned()
}

/// Creates the violation for a function that changes the frame pointer. Returns `None` if `known`
/// already contains such a violation for this function, or the function belongs to Kiln.
fn frame_lost(host: &Host, address: u64, known: &[Violation]) -> Option<Violation> {
    let name = function(host, address);
    let of_kiln = ["kiln_", "svc_", "__wrap_", "0x"];
    let is_known = |v: &Violation| v.rule == "frame-pointer" && function(host, v.trace[0]) == name;
    let skipped = of_kiln.iter().any(|start| name.starts_with(start));
    (!skipped && !known.iter().any(is_known)).then(|| Violation {
        rule: "frame-pointer".into(),
        what: "changes rbp, so that a backtrace from an interrupt of the next instruction fails"
            .into(),
        trace: vec![address],
        ..Violation::default()
    })
}
