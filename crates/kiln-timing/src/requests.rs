//! Kiln's own implementations, called through Kiln's crypto API.

use std::cell::RefCell;

use kiln_kernel::cipher::Impl;
use kiln_kernel::crypto::{Driver, Errno, Repeat};
use kiln_kernel::messages::Lens;
use kiln_question::Error;

use super::candidate::{Candidate, Run, KILN};
use super::level::{Layout, Level};
use super::messages::{cipher_messages, cipher_op, Messages};
use super::pages::Pages;
use super::shape::{Kind, Op, Shape};
use super::source::Work;

/// Creates a candidate that sends requests to an implementation's driver.
pub fn candidate(imp: Impl, work: &Work, layout: Layout) -> Result<Candidate<'static>, Error> {
    let fault = |what: &str, e| Error::Failed(format!("{}: {what}: {e}", imp.driver()));
    let mut driver = Driver::open(imp).map_err(|e| fault("the crypto API has none", e))?;
    if !work.key.is_empty() {
        let set = driver.set_key(&work.key);
        set.map_err(|e| fault("a key is refused", e))?;
    }
    let run = match layout {
        Layout::Plain | Layout::Kunit => each(driver, work.op),
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

/// Converts the outcome of `calls` requests, turning an error number into text. A request deferred
/// to cryptd counts as an error, because the measured time would not be the driver's.
fn told(answer: Result<u64, Errno>, calls: u64) -> Result<(), String> {
    match answer {
        Ok(0) => Ok(()),
        Ok(later) => Err(format!("{later} of {calls} requests answered later")),
        Err(e) => Err(format!("a request fails: {e}")),
    }
}

/// Returns a closure that makes a new request for each message.
fn each(driver: Driver, op: Op) -> Run<'static> {
    let state = RefCell::new((driver, Vec::new()));
    Box::new(move |messages: &mut Messages, calls| {
        let (driver, work) = &mut *state.borrow_mut();
        let mut all = cipher_messages(op, work, messages);
        told(driver.run(&mut all, calls), calls)
    })
}

/// State of a repeated request: the driver, the memory and the IV.
struct Repeated {
    driver: Driver,
    pages: Option<Pages>,
    iv: Vec<u8>,
}

/// Returns a closure that repeats one request over the same pages. If the request works in place,
/// only the result of the first call can be checked.
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
            // SAFETY: the pieces are disjoint parts of `pages`. The source and destination lists
            // are either identical or share only the associated data, which is not written.
            told(unsafe { driver.repeat(&mut request, calls) }, calls)?;
            if calls == first {
                pages.answer(messages);
            }
        }
        Ok(())
    })
}
