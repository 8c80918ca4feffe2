//! Kiln's own implementations asked through Kiln's crypto API.

use std::cell::RefCell;

use kiln_kernel::cipher::Impl;
use kiln_kernel::crypto::{Driver, Errno, Repeat};
use kiln_kernel::messages::Lens;

use super::candidate::{Candidate, Run, KILN};
use super::level::{Layout, Level};
use super::messages::Messages;
use super::own::{cipher_messages, cipher_op};
use super::pages::Pages;
use super::shape::{Kind, Op, Shape};
use super::source::Work;
use crate::Error;

/// An implementation's driver as a candidate.
pub fn candidate(imp: Impl, work: &Work, layout: Layout) -> Result<Candidate<'static>, Error> {
    let fault = |what: &str, e| Error::Failed(format!("{}: {what}: {e}", imp.driver()));
    let mut driver = Driver::open(imp).map_err(|e| fault("the crypto API has none", e))?;
    if !work.key.is_empty() {
        let set = driver.set_key(&work.key);
        set.map_err(|e| fault("a key is refused", e))?;
    }
    let run = match layout {
        Layout::Plain => each(driver, work.op),
        Layout::Tcrypt => again(driver, work.op, work.key.len()),
    };
    Ok(Candidate {
        level: Level::Api,
        takes: work.spec.takes,
        ..Candidate::primitive(imp.driver(), KILN, Some(imp.tier().name()), run)
    })
}

fn lens(shape: Shape) -> Lens {
    Lens {
        assoc: shape.prefix,
        text: shape.len,
        tag: shape.tag,
        digest: shape.digest,
    }
}

/// What went wrong; nothing may be put off, for what was timed would not be the driver.
fn told(answer: Result<u64, Errno>, calls: u64) -> Result<(), String> {
    match answer {
        Ok(0) => Ok(()),
        Ok(later) => Err(format!("{later} of {calls} requests answered later")),
        Err(e) => Err(format!("a request fails: {e}")),
    }
}

/// A request for each message, made afresh.
fn each(driver: Driver, op: Op) -> Run<'static> {
    let state = RefCell::new((driver, Vec::new()));
    Box::new(move |messages: &mut Messages, calls| {
        let (driver, work) = &mut *state.borrow_mut();
        let mut all = cipher_messages(op, work, messages);
        told(driver.run(&mut all, calls), calls)
    })
}

/// What is asked again and again: the driver, its memory, an IV.
struct Repeated {
    driver: Driver,
    pages: Option<Pages>,
    iv: Vec<u8>,
}

/// One request over pages. In place, the answer of the first call is the one that is looked at.
fn again(driver: Driver, op: Op, key: usize) -> Run<'static> {
    let state = RefCell::new(Repeated {
        driver,
        pages: None,
        iv: Vec::new(),
    });
    Box::new(move |messages: &mut Messages, calls| {
        let Repeated { driver, pages, iv } = &mut *state.borrow_mut();
        let shape = messages.shape;
        if pages.as_ref().is_none_or(|p| p.shape() != shape) {
            *pages = Some(Pages::new(shape, key));
        }
        let pages = pages.as_mut().expect("made just now");
        pages.fill(messages);
        iv.clear();
        iv.extend(&messages.parts().0.as_flattened()[..shape.iv]);
        let first = if pages.in_place() {
            calls.min(1)
        } else {
            calls
        };
        for calls in [first, calls - first] {
            let (src, dst) = pages.pieces();
            let digest = match shape.kind {
                Kind::Hash => &mut messages.parts().2[..shape.digest],
                _ => &mut [],
            };
            let mut request = Repeat {
                op: cipher_op(op),
                src: &src,
                dst: &dst,
                iv,
                digest,
                lens: lens(shape),
            };
            // SAFETY: the pieces lie in `pages` one behind the other; the two lists are one, or have only the
            // associated data in common, at the same place and not written.
            told(unsafe { driver.repeat(&mut request, calls) }, calls)?;
            if calls == first {
                pages.answer(messages);
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use kiln_measure::SplitMix64;

    use super::super::own::Own;
    use super::super::plan::Plan;
    use super::super::set::Table;
    use super::super::source::{Source, Spec};
    use super::*;
    use crate::speed::Judge;

    /// Every driver's work in one operation, with a key of its own.
    fn work(spec: &Spec, op: Op) -> Work {
        let key_bits = spec.usual_key();
        let mut key = vec![0; spec.key_bytes(key_bits)];
        SplitMix64(7).fill(&mut key);
        Work {
            spec: spec.clone(),
            op,
            key_bits,
            key: key.into(),
        }
    }

    fn plan(layout: Layout) -> Plan {
        Plan {
            level: Some(Level::Api),
            layout,
            impls: kiln_kernel::cipher::Impl::all()
                .iter()
                .map(|i| i.driver().to_string())
                .collect(),
            ..Plan::new(1)
        }
    }

    /// Calls of a candidate on a set's messages, against its judge.
    fn checked(set: &super::super::set::Set, candidate: &Candidate, judge: &Judge) -> bool {
        let count = set.messages.count() as u64;
        let mut right = set.messages.afresh();
        (judge.run)(&mut right, count).unwrap();
        let mut got = set.messages.afresh();
        // Twice round, and somewhat on.
        let ran = (candidate.run)(&mut got, 2 * count + 1);
        ran.is_ok_and(|()| got.compare(&right, count).is_ok())
    }

    #[test]
    fn every_driver_answers_what_its_function_does_in_both_layouts() {
        let mut drivers = 0;
        for layout in [Layout::Plain, Layout::Tcrypt] {
            let plan = plan(layout);
            let own = Own::of(&plan);
            for spec in own.algorithms() {
                for &op in spec.kind.ops() {
                    let sources: [&dyn Source; 1] = [&own];
                    let table = Table::new(&plan, work(&spec, op), &sources, &mut Vec::new());
                    let table = table.unwrap();
                    let judge = own.judge(&table.work).unwrap().unwrap();
                    let all: Vec<usize> = (0..table.candidates.len()).collect();
                    for len in [16, 64, 1024, 4096, 12_288] {
                        for set in table.sets(len, &all).unwrap() {
                            for &i in &set.candidates {
                                let candidate = &table.candidates[i];
                                let name = &candidate.name;
                                assert_eq!(candidate.level, Level::Api);
                                assert!(checked(&set, candidate, &judge), "{name} {op} {len} B");
                                drivers += 1;
                            }
                        }
                    }
                }
            }
        }
        assert!(drivers > 500, "{drivers}");
    }

    /// The control: what another key makes is not taken for right.
    #[test]
    fn a_driver_with_another_key_is_found() {
        for layout in [Layout::Plain, Layout::Tcrypt] {
            let plan = plan(layout);
            let own = Own::of(&plan);
            let specs = own.algorithms();
            let spec = specs.iter().find(|s| s.name == "gcm(aes)").unwrap();
            let sources: [&dyn Source; 1] = [&own];
            for op in [Op::Encrypt, Op::Decrypt] {
                let table = Table::new(&plan, work(spec, op), &sources, &mut Vec::new()).unwrap();
                let judge = own.judge(&table.work).unwrap().unwrap();
                let mut other = work(spec, op);
                other.key[31] ^= 1;
                let imp = crate::Algorithm::named("gcm(aes)").unwrap().best();
                let wrong = candidate(imp, &other, layout).unwrap();
                let sets = table.sets(4096, &[0]).unwrap();
                assert!(checked(&sets[0], &table.candidates[0], &judge));
                assert!(!checked(&sets[0], &wrong, &judge));
            }
        }
    }
}
