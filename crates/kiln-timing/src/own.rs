//! Kiln's own implementations, presented as candidates.

use std::cell::RefCell;
use std::rc::Rc;

use kiln_kernel::calls::Calls;
use kiln_kernel::cipher::{self, Context, Impl};
use kiln_question::algorithm::usable_impl;
use kiln_question::{Algorithm, Error};

use super::candidate::{Candidate, Cold, Judge, Run, Takes, KILN};
use super::level::{Layout, Level};
use super::messages::{cipher_messages, Messages};
use super::requests;
use super::shape::{Kind, Op, Shape};
use super::source::{bits_of_key, Choice, Source, Spec, Work};

/// All implementations in `kernel/`, called either as functions or as drivers through its crypto
/// API.
pub enum Own {
    /// Functions, called directly.
    Functions,
    /// Drivers, called through requests with this memory layout.
    Requests(Layout),
    /// Drivers, called through requests with the plain layout, for comparison with calls to
    /// libraries. They are measured in addition to [`Own::Functions`].
    Calls,
}

impl Own {
    fn level(&self) -> Level {
        match self {
            Own::Functions => Level::Primitive,
            Own::Requests(_) | Own::Calls => Level::Api,
        }
    }

    fn candidate(&self, imp: Impl, work: &Work) -> Result<Candidate<'static>, Error> {
        match self {
            Own::Functions => {
                let run = run_impl(imp, context(imp, work)?, work.op, false);
                Ok(Candidate {
                    takes: work.spec.takes,
                    cold: Some(run_cold(imp, context(imp, work)?, work.op)),
                    ..Candidate::primitive(imp.driver(), KILN, Some(imp.tier().name()), run)
                })
            }
            Own::Requests(layout) => requests::candidate(imp, work, *layout),
            Own::Calls => requests::candidate(imp, work, Layout::Plain),
        }
    }
}

/// Size of the associated data in bytes, which is the size used in IPsec and in tcrypt.
const AAD: usize = 16;
/// Key lengths in bytes to measure if an algorithm accepts any key length.
const ANY_KEY: [usize; 5] = [16, 20, 32, 48, 64];

impl Source for Own {
    fn algorithms(&self) -> Vec<Spec> {
        if matches!(self, Own::Calls) {
            return Vec::new();
        }
        Algorithm::all().into_iter().map(spec).collect()
    }

    fn names(&self, alg: &str) -> Vec<(String, Level)> {
        let impls = Algorithm::named(alg).map_or_else(Vec::new, Algorithm::impls);
        let many = impls.iter().filter(|i| i.lanes().is_some());
        let many = many.map(|i| (many_name(*i), Level::Primitive));
        let names = impls.iter().map(|i| (i.driver().to_string(), self.level()));
        match self {
            Own::Functions => names.chain(many).collect(),
            Own::Requests(_) => names.collect(),
            // List only the two drivers with the highest priority, because `called` selects at most
            // two.
            Own::Calls => names.rev().take(2).collect(),
        }
    }

    fn usable(&self, alg: &str, name: &str) -> Result<(), Error> {
        match Algorithm::named(alg) {
            Some(alg) => {
                let impls = alg.impls();
                let is = |i: &&Impl| i.driver() == name || many_name(**i) == name;
                match impls.iter().find(is) {
                    Some(imp) => usable_impl(alg, imp.driver()).map(|_| ()),
                    None => Ok(()),
                }
            }
            None => Ok(()),
        }
    }

    fn candidates(
        &self,
        work: &Work,
        choice: Choice,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Candidate<'_>>, Error> {
        let Some(alg) = named(work) else {
            return Ok(Vec::new());
        };
        let requests = self.level() == Level::Api;
        if requests && choice.latency {
            notes.push(
                "requests are not made to depend on each other: no figures with --latency".into(),
            );
            return Ok(Vec::new());
        }
        // If no implementation is named, `Requests` uses only the algorithm's best driver, and
        // `Calls` uses the drivers that `called` returns.
        let impls = match (self, choice.impls.is_empty()) {
            (Own::Requests(_), true) => vec![alg.best()],
            (Own::Calls, true) => called(alg),
            _ => alg.impls(),
        };
        let mut found = Vec::new();
        for imp in impls {
            if self.level() == Level::Primitive {
                found.extend(many(imp, work, choice)?);
            }
            if !choice.wants(imp.driver(), self.level()) {
                continue;
            }
            if imp.tier().usable() {
                found.push(self.candidate(imp, work)?);
            } else if choice.impls.is_empty() {
                let why = kiln_question::tiers::reason(imp.tier());
                notes.push(format!("tier {} was not measured: {why}", imp.tier()));
            }
        }
        Ok(found)
    }

    fn judge(&self, work: &Work) -> Result<Option<Judge<'_>>, Error> {
        let Some(alg) = named(work).filter(|_| !matches!(self, Own::Calls)) else {
            return Ok(None);
        };
        let imp = alg.any();
        Ok(Some(Judge {
            name: imp.driver().to_string(),
            run: run_impl(imp, context(imp, work)?, work.op, false),
        }))
    }
}

/// Finds the algorithm in `kernel/`. Returns `None` if `kernel/` does not have the algorithm or
/// expects a different number of bytes before each message, which only other sources support.
fn named(work: &Work) -> Option<Algorithm> {
    Algorithm::named(&work.spec.name).filter(|alg| spec(*alg).prefix == work.spec.prefix)
}

/// Returns the sizes that an algorithm in `kernel/` uses, and the message lengths that it accepts.
pub(super) fn spec(alg: Algorithm) -> Spec {
    let imp = alg.any();
    let kind = match imp.kind() {
        cipher::Kind::Skcipher => Kind::Skcipher,
        cipher::Kind::Aead => Kind::Aead,
        cipher::Kind::Hash => Kind::Hash,
    };
    let aead = kind == Kind::Aead;
    Spec {
        name: alg.name().into(),
        kind,
        key_bits: key_bits(alg),
        iv: imp.iv_size(),
        prefix: if aead { AAD } else { 0 },
        tag: if aead { imp.digest_size() } else { 0 },
        digest: match kind {
            Kind::Hash => imp.digest_size(),
            _ => 0,
        },
        takes: Takes {
            least: alg.shortest(),
            multiple: alg.block(),
            ..Takes::default()
        },
        more: Vec::new(),
    }
}

/// Returns the key sizes in bits, as rows store them.
fn key_bits(alg: Algorithm) -> Vec<u32> {
    let mut sizes = alg.any().key_sizes();
    if sizes.is_empty() {
        return vec![0];
    }
    if sizes.len() > ANY_KEY.len() {
        sizes.retain(|size| ANY_KEY.contains(size));
    }
    sizes
        .into_iter()
        .filter_map(|size| bits_of_key(alg.name(), size))
        .collect()
}

fn context(imp: Impl, work: &Work) -> Result<Rc<Context>, Error> {
    Context::new(imp, &work.key)
        .map(Rc::new)
        .map_err(|e| Error::Failed(format!("{}: a key of {} bytes", imp.driver(), e.0)))
}

/// Returns the best driver. If it uses 512-bit vectors, also returns the best driver that does not.
fn called(alg: Algorithm) -> Vec<Impl> {
    let best = alg.best();
    let narrow = |i: &Impl| i.tier().usable() && i.tier().bits() < 512;
    let mut all = vec![best];
    if best.tier().bits() == 512 {
        all.extend(alg.impls().into_iter().rfind(narrow));
    }
    all
}

/// Returns the name of the candidate in which an implementation processes many messages per call.
fn many_name(imp: Impl) -> String {
    format!("{}-many", imp.driver())
}

/// Creates a candidate in which an implementation processes many messages per call. Returns `None`
/// if the candidate was not requested, if its tier cannot be used, or if the implementation has no
/// function that does this work on many messages.
fn many(imp: Impl, work: &Work, choice: Choice) -> Result<Option<Candidate<'static>>, Error> {
    let wanted = choice.wants(&many_name(imp), Level::Primitive) && !choice.latency;
    // Only AEADs have such a candidate for decryption: other ciphers decrypt a single message as
    // fast as several.
    let both_ways = imp.kind() == cipher::Kind::Aead || work.op != Op::Decrypt;
    let has = imp.lanes().is_some() && imp.tier().usable() && both_ways;
    if !(wanted && has) {
        return Ok(None);
    }
    let run = run_impl(imp, context(imp, work)?, work.op, true);
    Ok(Some(Candidate {
        takes: work.spec.takes,
        together: true,
        ..Candidate::primitive(many_name(imp), KILN, Some(imp.tier().name()), run)
    }))
}

/// Returns the length of the associated data that a function authenticates. In an ESP request, the
/// associated data ends with the IV, which is not authenticated (RFC 4106, section 5).
fn aad_len(imp: Impl, shape: Shape) -> usize {
    match imp.alg().starts_with("rfc4106(") {
        true => shape.prefix.saturating_sub(shape.iv),
        false => shape.prefix,
    }
}

/// Returns a closure that makes single calls with cold caches.
fn run_cold(imp: Impl, ctx: Rc<Context>, op: Op) -> Cold<'static> {
    let work = RefCell::new(Vec::new());
    Box::new(move |messages: &mut Messages, index, evictor| {
        let shape = messages.shape;
        let mut work = work.borrow_mut();
        let mut one = Calls {
            aad_len: aad_len(imp, shape),
            ..Calls::new(cipher_messages(op, &mut work, messages).skip(index))
        };
        match one.run_cold(imp, &ctx, evictor) {
            Ok(Some(ticks)) => Ok(ticks),
            Ok(None) => Err("a right tag is refused".to_string()),
            Err(e) => Err(e.to_string()),
        }
    })
}

/// Returns a closure that calls an implementation within one FPU section. If `many` is set, each
/// call processes a queue of messages.
pub(super) fn run_impl(imp: Impl, ctx: Rc<Context>, op: Op, many: bool) -> Run<'static> {
    let work = RefCell::new(Vec::new());
    Box::new(move |messages: &mut Messages, calls| {
        let (shape, chained) = (messages.shape, messages.chained);
        let mut work = work.borrow_mut();
        let mut all = Calls {
            aad_len: aad_len(imp, shape),
            chained,
            many,
            ..Calls::new(cipher_messages(op, &mut work, messages))
        };
        match all.run(imp, &ctx, calls) {
            Ok(0) => Ok(()),
            Ok(n) => Err(format!("{n} of {calls} right tags refused")),
            Err(e) => Err(e.to_string()),
        }
    })
}
