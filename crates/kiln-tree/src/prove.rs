//! Interrupts a tree's functions before every instruction (`tree/prove.c`). The code in this file
//! runs in the child and collects the findings.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::rc::Rc;
use std::slice;

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, OpKind, Register};
use kiln_kernel::irq::{Audit, Auditing, Breach, Visit};
use serde_json::json;

use crate::child::ProveOrder;
use crate::engine::{Calls, Refused};
use crate::event::{Finding, Proof, ProveContext, Rule};
use crate::host::Host;
use crate::library::{Function, Library};
use crate::trial::Trial;
use crate::{link, raw, Error};

/// Maximum number of results per suite. Each function has one result per context.
const ROOM: usize = 192;

/// Maximum length of an x86 instruction in bytes.
const LONGEST: usize = 15;

/// An audit that single-steps functions and collects the results. Stepping ends when the audit is
/// dropped.
pub(crate) struct Proving {
    // Declared before `raw`, which it uses, so that it is dropped first.
    auditing: Auditing,
    raw: Box<raw::Prove>,
    proofs: Vec<raw::Proof>,
    /// Names of functions that other objects call. These functions must follow the ABI, unlike
    /// those that only assembly code in the same file calls.
    globals: BTreeSet<String>,
    /// The digests that the raw structure points to. They are stored here to keep them alive.
    _known: Box<[u64]>,
}

impl Proving {
    /// Starts the audit. The caller must pass [`Proving::raw`] to the suites.
    ///
    /// # Errors
    /// Fails if the image has no FPU sections, or the host does not support single-stepping.
    pub(crate) fn start(host: &mut Host, order: &ProveOrder) -> Result<Proving, Error> {
        let begin = "__wrap_kernel_fpu_begin_mask";
        let begin = host.image.symbol(begin).ok_or_else(|| Error::NoSymbol {
            image: host.image.path.clone(),
            name: begin.into(),
        })?;
        let mut proofs = vec![raw::Proof::default(); ROOM];
        let (last_call, last_step) = order.at.unwrap_or((u64::MAX, u64::MAX));
        let bits = order.contexts.iter().map(|c| 1 << *c as u32);
        let known: Box<[u64]> = order.known.clone().into();
        let mut raw = Box::new(raw::Prove {
            audit: Audit {
                last_call,
                last_step,
                ..Audit::default()
            },
            contexts: bits.sum(),
            room: ROOM as u32,
            count: 0,
            visits: order.visits,
            proofs: proofs.as_mut_ptr(),
            known: known.as_ptr(),
            known_count: known.len() as u64,
        });
        // Time all sections. Otherwise, the timer would skip some of them depending on the lengths
        // of earlier sections, so the stepped instructions would vary between runs.
        host.cpu.keep_sections(0);
        // SAFETY: `raw` and `auditing` become fields of the same structure, so the boxed audit
        // lives for as long as it is used.
        let auditing = unsafe { Auditing::start(&mut host.cpu, &raw mut raw.audit, begin) };
        let mut auditing = auditing.map_err(|e| Error::host("no single steps", e))?;
        // SAFETY: the image is never unloaded.
        let copied = unsafe { auditing.copy_instructions(host.image.text.clone()) };
        copied.map_err(|e| Error::host("no single steps", e))?;
        Ok(Proving {
            auditing,
            globals: link::globals(&host.image.path)?,
            raw,
            proofs,
            _known: known,
        })
    }

    /// Single-steps a library function and sends the results to the parent.
    fn step(
        &mut self,
        host: &mut Host,
        library: &Rc<Library>,
        function: &Function,
    ) -> Result<(), Error> {
        let title = function.title(library.functions());
        let name = CString::new(title.as_str())?;
        let error = match Trial::new(library, function) {
            Err(Refused(error)) => error,
            Ok(mut trial) => {
                let mut wanted = trial.order(&name, self.raw());
                let wanted = (&raw mut wanted).cast();
                library.name(&name);
                // SAFETY: `wanted` points to the structure that the function takes. This structure
                // points to memory that `trial` and `self` own, and both outlive the call.
                unsafe { host.call("kiln_glue_prove_library", wanted)? as i32 }
            }
        };
        let mut proofs = self.take(host);
        if error != 0 {
            proofs.push(refused(title, Refused(error)));
        }
        proofs.iter().try_for_each(|p| host.tell(&p.line()))
    }

    /// Returns the structure that the caller passes to a suite's C code.
    pub(crate) fn raw(&mut self) -> *mut raw::Prove {
        &raw mut *self.raw
    }

    /// Returns the results collected so far, and clears them.
    pub(crate) fn take(&mut self, host: &Host) -> Vec<Proof> {
        let (visits, breaches) = (self.auditing.visits(), self.auditing.breaches());
        let dropped = self.auditing.dropped();
        let count = (self.raw.count as usize).min(self.proofs.len());
        let proofs = self.proofs[..count].iter().map(|raw| {
            let visits: Vec<&Visit> = visits.iter().filter(|v| v.job == raw.job).collect();
            let breaches = breaches.iter().filter(|b| b.job() == raw.job);
            self.proof(host, raw, &visits, breaches, dropped)
        });
        let proofs = proofs.collect();
        self.raw.count = 0;
        self.auditing.clear();
        proofs
    }

    fn proof<'a>(
        &self,
        host: &Host,
        raw: &raw::Proof,
        visits: &[&Visit],
        breaches: impl Iterator<Item = &'a Breach>,
        dropped: u64,
    ) -> Proof {
        let name = |address| host.image.name(address);
        let contexts = ProveContext::ALL;
        let bytes = raw.name.iter().map(|&c| c as u8).take_while(|&b| b != 0);
        let mut findings = Vec::new();
        let mut find = |rule, place: String, what: String, at| {
            let alike = |f: &Finding| f.rule == rule && f.place == place;
            if !findings.iter().any(alike) {
                findings.push(Finding {
                    rule,
                    place,
                    what,
                    at,
                });
            }
        };
        for breach in breaches {
            match *breach {
                Breach::Nested {
                    call, step, caller, ..
                } => find(
                    Rule::Nested,
                    name(caller),
                    "begins a section inside another".into(),
                    Some((call, step)),
                ),
                Breach::Preserved {
                    call,
                    step,
                    function,
                    to,
                    register,
                    ..
                } if self
                    .globals
                    .contains(name(function).trim_end_matches("+0x0")) =>
                {
                    find(
                        Rule::Preserved,
                        name(function),
                        format!("returns to {} with another value in {register}", name(to)),
                        Some((call, step)),
                    )
                }
                Breach::Preserved { .. } | Breach::Frame { .. } => {}
            }
        }
        if raw.changed > 0 {
            find(
                Rule::Registers,
                name(raw.changed_at),
                format!(
                    "{} interrupts of open sections left other vector registers; this is the first",
                    raw.changed
                ),
                Some((raw.changed_call, raw.changed_step)),
            );
        }
        let mut outside: Vec<u64> = visits
            .iter()
            .filter(|v| v.outside > 0)
            .map(|v| v.address)
            .collect();
        outside.sort_unstable();
        for address in outside {
            if let Some(instruction) = vector_instruction(address) {
                find(
                    Rule::Outside,
                    name(address),
                    format!("'{instruction}' uses a vector register while no section is open"),
                    None,
                );
            }
        }
        if raw.left_open > 0 {
            find(
                Rule::LeftOpen,
                name(raw.opener),
                "begins a section that is still open when the call returns".into(),
                Some((raw.left_open_call, 0)),
            );
        }
        let function = |address: u64| {
            let name = name(address);
            name.split('+').next().unwrap_or_default().to_owned()
        };
        let functions: BTreeSet<String> = visits
            .iter()
            .filter(|v| v.outside < v.visits)
            .map(|v| function(v.address))
            .filter(|name| {
                let ours = name.starts_with("kiln_") || name.starts_with("0x");
                !ours && !name.contains("kernel_fpu_")
            })
            .collect();
        let case = String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned();
        if raw.wrong_alone > 0 {
            find(
                Rule::Wrong,
                case.clone(),
                "wrong answers before the first interrupt: 'kiln test --tree' finds them, too"
                    .into(),
                None,
            );
        } else if raw.wrong > 0 {
            find(
                Rule::Wrong,
                case.clone(),
                format!(
                    "{} of {} answers wrong, none before the first interrupt",
                    raw.wrong, raw.answers
                ),
                Some((raw.wrong_call, raw.wrong_step)),
            );
        }
        Proof {
            case,
            context: contexts[raw.context as usize % contexts.len()],
            calls: raw.calls,
            addresses: raw.addresses,
            points: raw.points,
            injected: raw.injected,
            masked: raw.masked,
            answers: raw.answers,
            in_softirqs: raw.in_softirqs,
            wrong: raw.wrong,
            digest: raw.digest,
            same: raw.same != 0,
            dropped,
            functions: functions.into_iter().collect(),
            findings,
        }
    }
}

/// Finds the tree's library. Returns `None` if its functions cannot be stepped.
fn find_library(host: &Host) -> Result<Option<Rc<Library>>, Error> {
    let calls = Calls::find(host)?;
    let there = host.image.symbol("kiln_glue_prove_library").is_some();
    Ok(Library::find(&calls, host).filter(|_| there))
}

/// Returns the functions that can be stepped, with their titles.
fn steppable(library: &Library) -> impl Iterator<Item = (String, &Function)> {
    let all = library.functions();
    let functions = all.iter().filter(|f| !f.judges);
    functions.map(|f| (f.title(all), f))
}

/// Sends the titles of the library's functions to the parent.
///
/// # Errors
/// Fails if the parent has closed its end of the pipe.
pub(crate) fn list_library(host: &mut Host) -> Result<(), Error> {
    let Some(library) = find_library(host)? else {
        return Ok(());
    };
    for (name, _) in steppable(&library) {
        let event = json!({"event": "function", "name": name});
        host.tell(&format!("{event}\n"))?;
    }
    Ok(())
}

/// Steps the library functions that `order` lists, and sends the results to the parent.
///
/// # Errors
/// Fails if the host does not support single-stepping, or the parent has closed its end of the
/// pipe.
pub(crate) fn step_library(host: &mut Host, order: &ProveOrder) -> Result<(), Error> {
    let Some(library) = find_library(host)? else {
        return Ok(());
    };
    let mut proving = Proving::start(host, order)?;
    for wanted in &order.functions {
        let named = steppable(&library).find(|(title, _)| title == wanted);
        if let Some((_, function)) = named {
            proving.step(host, &library, function)?;
        }
    }
    Ok(())
}

/// Creates the result for a function that fails even without interrupts.
fn refused(case: String, error: Refused) -> Proof {
    let finding = Finding {
        rule: Rule::Wrong,
        place: case.clone(),
        what: format!("fails without any interrupt: {error}"),
        at: None,
    };
    Proof {
        case,
        calls: 1,
        answers: 1,
        wrong: 1,
        findings: vec![finding],
        ..Proof::default()
    }
}

/// Disassembles the instruction at this address. Returns `None` if none of its operands is a vector
/// register.
fn vector_instruction(address: u64) -> Option<String> {
    // SAFETY: the address was executed inside a function, and the image's text continues for at
    // least 15 bytes after every function.
    let bytes = unsafe { slice::from_raw_parts(address as *const u8, LONGEST) };
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    uses_vectors(&instruction).then(|| {
        let mut text = String::new();
        GasFormatter::new().format(&instruction, &mut text);
        text
    })
}

fn uses_vectors(instruction: &Instruction) -> bool {
    let vector = |register: Register| register.is_vector_register() || register.is_k();
    (0..instruction.op_count())
        .any(|i| instruction.op_kind(i) == OpKind::Register && vector(instruction.op_register(i)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vector_registers_are_seen_in_operands_only() {
        let uses = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes.resize(LONGEST, 0x90);
            vector_instruction(bytes.as_ptr() as u64)
        };
        assert!(uses(&[0xc5, 0xfd, 0xef, 0xc0])
            .unwrap()
            .starts_with("vpxor"));
        assert!(uses(&[0x66, 0x0f, 0x6f, 0x00])
            .unwrap()
            .starts_with("movdqa"));
        // The instructions are mov (%rax),%rbx; xsave64 (%rdi); ldmxcsr (%rax).
        for plain in [
            &[0x48, 0x8b, 0x18][..],
            &[0x48, 0x0f, 0xae, 0x27],
            &[0x0f, 0xae, 0x10],
        ] {
            assert_eq!(uses(plain), None);
        }
    }
}
