//! Calls a tree's functions directly, as described in `tree/primitives`. For functions that no
//! driver can check, [`answers`] computes the expected results.

use std::cell::RefCell;
use std::rc::Rc;

use kiln_kernel::Tier;
use kiln_question::lens::Lens;
use kiln_question::Algorithm;
use kiln_tree::engine::{self, Engine};
use kiln_tree::primitive::{Bound, Keys, Primitive};

use super::{answers, Tree};
use crate::candidate::{Candidate, Judge, Run, Takes};
use crate::level::Level;
use crate::messages::cipher_messages;
use crate::own;
use crate::shape::Kind;
use crate::source::{Choice, Spec, Work};

/// Length in bytes of the one-time key that begins each Poly1305 message. The functions in a tree's
/// library take this key as a separate argument.
const KEY_IN_MESSAGE: usize = 32;

/// A function's keys and tables, kept for as long as the function may be called.
struct Material {
    /// Engines whose contexts contain the expanded keys.
    engines: Vec<Engine>,
    /// A constant table in the tree that the function reads; `None` if it reads none.
    table: Option<Keys>,
    /// The function's key, either as given or prepared.
    raw: Vec<u8>,
    /// An initial state, padded to whole cache lines.
    start: Vec<u8>,
}

impl Tree {
    /// Adds the algorithms for which the tree has functions but no drivers. If a function accepts
    /// only short messages, also adds the maximum length to the lengths that are measured.
    pub(super) fn describe_functions(&self, specs: &mut Vec<Spec>) {
        let there = |p: &&Primitive| self.host.borrow().image.symbol(&p.symbol).is_some();
        for row in self.primitives.iter().filter(there) {
            let known = specs.iter().position(|s| s.name == row.alg);
            let Some(at) = known.or_else(|| {
                specs.push(spec(row)?);
                Some(specs.len() - 1)
            }) else {
                continue;
            };
            let Lens(usual) = Lens::default();
            let short = usual.iter().any(|len| *len > row.most);
            let more = &mut specs[at].more;
            if short && !usual.contains(&row.most) && !more.contains(&row.most) {
                more.push(row.most);
            }
        }
    }

    /// Returns the selected functions that exist in this tree and run on this CPU.
    pub(super) fn functions(
        &self,
        work: &Work,
        choice: Choice,
        notes: &mut Vec<String>,
    ) -> Vec<Candidate<'_>> {
        let mut found = Vec::new();
        let mut absent: Vec<&str> = Vec::new();
        for row in &self.primitives {
            let for_this = row.alg == work.spec.name
                && row.op == work.op.name()
                && row.key_bits.is_none_or(|bits| bits == work.key_bits)
                && row.key_in_message() == (work.spec.prefix == KEY_IN_MESSAGE);
            let wanted = choice.wants(&row.symbol, Level::Primitive);
            if !for_this || !wanted || self.skips(&row.symbol) {
                continue;
            }
            if self.host.borrow().image.symbol(&row.symbol).is_none() {
                absent.push(&row.symbol);
                continue;
            }
            match self.function(row, work) {
                Ok(candidate) => found.push(candidate),
                Err(why) => notes.push(format!("{} {}: {why}", self.provider, row.symbol)),
            }
        }
        // The table lists functions from several kernel versions, so this tree may lack some of
        // them.
        if !absent.is_empty() {
            notes.push(format!("{} has no {}", self.provider, absent.join(", ")));
        }
        found
    }

    fn function(&self, row: &Primitive, work: &Work) -> Result<Candidate<'_>, String> {
        let mut row = row.clone();
        if row.takes_rounds() {
            row.extra = u64::from(work.key_bits / 32 + 6);
        }
        let row = &row;
        let find = |symbol: &str| {
            Bound::find(&self.calls, &self.host.borrow(), row, symbol)
                .map_err(|missing| format!("the tree has no {missing}"))
        };
        let bound = find(&row.symbol)?;
        for driver in row.needs.iter().chain(&row.key) {
            if self.find(driver).is_none() {
                return Err(format!("the tree did not register {driver} on this CPU"));
            }
        }
        if !row.runs_here() {
            let lacks = row.cpu.as_deref().unwrap_or("something");
            let hidden = match Tier::masked() {
                true => ", or KILN_TIERS hides it",
                false => "",
            };
            return Err(format!("the CPU lacks {lacks}{hidden}"));
        }
        let material = Rc::new(self.material(row, work)?);
        let judge = match (answers::judge(row, work, &material.raw), &row.judge) {
            (Some(judge), _) => Some(judge?),
            (None, Some(symbol)) => Some(Judge {
                name: format!("{} {symbol}", self.provider),
                run: direct(find(symbol)?, row.clone(), material.clone(), work),
            }),
            (None, None) => None,
        };
        // If the result is as long as the digest, treat it as the digest. The exception is a
        // function that takes an initial state, because it returns the hash's internal state.
        let whole = |bytes: &usize| *bytes == work.spec.digest && !row.from_state();
        Ok(Candidate {
            tier: Some(row.tier.clone().into()),
            config: Some(self.config.clone()),
            takes: takes(row),
            together: row.two_messages(),
            digest: row.state.filter(|bytes| !whole(bytes)),
            judge: judge.map(Rc::new),
            ..Candidate::primitive(
                row.symbol.clone(),
                self.provider.clone(),
                None,
                direct(bound, row.clone(), material, work),
            )
        })
    }

    fn material(&self, row: &Primitive, work: &Work) -> Result<Material, String> {
        let raw = match row.raw_key {
            0 => work.key.to_vec(),
            bytes => self.key(bytes),
        };
        let table = Keys::in_tree(row, &self.host.borrow());
        let mut material = Material {
            engines: Vec::new(),
            table: table.map_err(|missing| format!("the tree has no {missing}"))?,
            raw: match &row.prepare {
                Some(how) => answers::prepare(how, &raw)?,
                None => raw,
            },
            start: Vec::new(),
        };
        if let Some(driver) = &row.key {
            let listed = self.find(driver).ok_or("no driver for its key")?;
            // For XTS, the first key is for the cipher and the second for the tweak.
            let keys: Vec<&[u8]> = match row.two_keys() {
                true => work.key.chunks(work.key.len().div_ceil(2).max(1)).collect(),
                false => vec![&work.key],
            };
            for key in keys {
                let engine =
                    Engine::open(&self.calls, &listed.driver, listed.kind, listed.internal)
                        .map_err(|e| format!("{driver} cannot be opened: {e}"))?;
                let tag = match listed.kind {
                    engine::Kind::Aead => work.spec.tag,
                    _ => 0,
                };
                engine
                    .set_key(key, tag)
                    .map_err(|e| format!("{driver} refuses the key: {e}"))?;
                material.engines.push(engine);
            }
        }
        if row.from_state() {
            // Use the hash's own initial state if `kernel/` has the hash, otherwise arbitrary
            // bytes. Arbitrary bytes are sufficient if the judge is one of the tree's functions,
            // because it starts from the same state. The counters, flags and buffers that follow
            // the state's words are set to zero.
            let mut start = answers::state_after(&row.alg, &[]);
            let start = start.get_or_insert_with(|| self.key(row.state.unwrap_or(0)));
            let behind = match row.two_messages() || row.judge.is_some() {
                true => 64,
                false => 0,
            };
            start.resize((start.len() + behind).next_multiple_of(64), 0);
            material.start = std::mem::take(start);
        }
        Ok(material)
    }
}

/// Describes an algorithm for which the tree has no driver. If Kiln has the algorithm, its
/// description is used; otherwise the description is derived from the function's requirements.
fn spec(row: &Primitive) -> Option<Spec> {
    let own = Algorithm::named(&row.alg).filter(|_| !row.key_in_message());
    if let Some(alg) = own {
        return Some(own::spec(alg));
    }
    let (_, digest) = row.judge.as_ref().zip(row.state)?;
    Some(Spec {
        name: row.alg.clone().into(),
        kind: match row.op.as_str() {
            "derive" => Kind::Kpp,
            _ => Kind::Hash,
        },
        key_bits: vec![0],
        iv: 0,
        prefix: match row.key_in_message() {
            true => KEY_IN_MESSAGE,
            false => 0,
        },
        tag: 0,
        digest,
        takes: Takes::default(),
        more: Vec::new(),
    })
}

fn takes(row: &Primitive) -> Takes {
    Takes {
        least: row.least,
        most: row.most,
        multiple: row.multiple,
    }
}

/// Returns a closure that calls one of the tree's functions.
fn direct(bound: Bound, row: Primitive, material: Rc<Material>, work: &Work) -> Run<'static> {
    let op = work.op;
    let iv_room = RefCell::new(Vec::new());
    Box::new(move |messages, calls| {
        let (len, digest) = (messages.shape.len, messages.shape.digest);
        if !takes(&row).len(len) {
            return Err(format!("does not take {len} bytes"));
        }
        let keys = match (&material.engines[..], material.table) {
            ([], Some(table)) => table,
            ([], None) => Keys::raw(&material.raw),
            ([key], _) => Keys::in_contexts(&row, key, None),
            ([key, tweak, ..], _) => Keys::in_contexts(&row, key, Some(tweak)),
        };
        // SAFETY: the keys are those that the table lists for this function, and they are kept
        // alive by `material` or the tree. The table allows this length.
        let ran = unsafe {
            let mut iv_room = iv_room.borrow_mut();
            let mut all = cipher_messages(op, &mut iv_room, messages);
            bound.run(keys, &material.start, digest, &mut all, calls)
        };
        ran.map_err(|e| e.to_string())
    })
}
