//! Kiln's own implementations as candidates.

use std::rc::Rc;

use kiln_kernel::xts::{self, Impl, Key, Series};

use super::candidate::{Candidate, Judge, Run, Takes, KILN};
use super::messages::Messages;
use super::plan::Level;
use super::shape::{Kind, Op};
use super::source::{Choice, Source, Spec, Work};
use crate::algorithm::usable_impl;
use crate::{Algorithm, Error};

/// All of `kernel/`.
pub struct Own;

/// What Kiln has of this name.
fn own(alg: &str) -> Option<Algorithm> {
    Algorithm::ALL.into_iter().find(|a| a.name() == alg)
}

impl Source for Own {
    fn algorithms(&self) -> Vec<Spec> {
        let all = Algorithm::ALL.into_iter();
        all.map(spec).collect()
    }

    fn names(&self, alg: &str) -> Vec<(String, Level)> {
        let impls = own(alg).map_or_else(Vec::new, Algorithm::impls);
        let names = impls.iter().map(|i| i.driver().to_string());
        names.map(|name| (name, Level::Primitive)).collect()
    }

    fn usable(&self, alg: &str, name: &str) -> Result<(), Error> {
        match own(alg) {
            Some(alg) if alg.impls().iter().any(|i| i.driver() == name) => {
                usable_impl(alg, name).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    fn candidates(
        &self,
        work: &Work,
        choice: Choice,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Candidate<'_>>, Error> {
        let Some(alg) = own(&work.spec.name) else {
            return Ok(Vec::new());
        };
        let key = key(work)?;
        let mut found = Vec::new();
        for imp in alg.impls() {
            if !choice.wants(imp.driver(), Level::Primitive) {
                continue;
            }
            if imp.tier().usable() {
                found.push(xts(imp, &key, work.op, alg.shortest()));
            } else if choice.impls.is_empty() {
                let why = crate::tiers::reason(imp.tier());
                notes.push(format!("{}: {why}", imp.driver()));
            }
        }
        Ok(found)
    }

    fn judge(&self, work: &Work) -> Result<Option<Judge<'_>>, Error> {
        let Some(alg) = own(&work.spec.name) else {
            return Ok(None);
        };
        // The generic one comes first.
        let imp = alg.impls()[0];
        Ok(Some(Judge {
            name: imp.driver().to_string(),
            run: run_xts(imp, key(work)?, work.op),
        }))
    }
}

fn spec(alg: Algorithm) -> Spec {
    match alg {
        Algorithm::XtsAes => Spec {
            name: alg.name().into(),
            kind: Kind::Skcipher,
            key_bits: vec![128, 192, 256],
            iv: xts::BLOCK,
            prefix: 0,
            tag: 0,
            digest: 0,
        },
    }
}

fn key(work: &Work) -> Result<Rc<Key>, Error> {
    let key = Key::new(&work.key).map_err(|e| Error::Failed(e.to_string()))?;
    Ok(Rc::new(key))
}

fn xts(imp: Impl, key: &Rc<Key>, op: Op, shortest: usize) -> Candidate<'static> {
    let run = run_xts(imp, key.clone(), op);
    Candidate {
        takes: Takes {
            least: shortest,
            ..Takes::default()
        },
        ..Candidate::primitive(imp.driver(), KILN, Some(imp.tier().name()), run)
    }
}

/// `kernel/`'s word for the operation.
pub fn xts_op(op: Op) -> xts::Op {
    match op {
        Op::Decrypt => xts::Op::Decrypt,
        _ => xts::Op::Encrypt,
    }
}

/// The calls of an implementation of AES-XTS, in one FPU section.
pub fn run_xts(imp: Impl, key: Rc<Key>, op: Op) -> Run<'static> {
    let op = xts_op(op);
    Box::new(move |messages: &mut Messages, calls| {
        let (len, stride, chained) = (messages.shape.len, messages.src_stride, messages.chained);
        let (ivs, src, dst) = messages.parts();
        let mut series = Series::new(&key, op, src, dst, ivs, len, stride, chained)
            .map_err(|e| e.to_string())?;
        imp.run(&mut series, calls).map_err(|e| e.to_string())
    })
}
