//! A tree's functions called directly, as `tree/primitives` says.

use std::cell::RefCell;
use std::rc::Rc;

use kiln_tree::engine::{self, Engine};
use kiln_tree::primitive::{Bound, Keys, Primitive};

use super::Tree;
use crate::timing::candidate::{Candidate, Judge, Run, Takes};
use crate::timing::level::Level;
use crate::timing::messages::cipher_messages;
use crate::timing::shape::Op;
use crate::timing::source::{Choice, Work};

/// What a function computes with; kept for as long as it is called.
struct Material {
    /// Engines whose contexts hold the expanded keys.
    engines: Vec<Engine>,
    /// A key as it is.
    raw: Vec<u8>,
    /// A state to begin from, whole cache lines.
    start: Vec<u8>,
}

impl Tree {
    /// The functions wanted that this tree and this CPU have.
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
                && row.key_bits.is_none_or(|bits| bits == work.key_bits);
            let wanted = choice.wants(&row.symbol, Level::Primitive);
            if !for_this || !wanted || self.skips(&row.symbol) {
                continue;
            }
            if self.host.image.symbol(&row.symbol).is_none() {
                absent.push(&row.symbol);
                continue;
            }
            match self.function(row, work) {
                Ok(candidate) => found.push(candidate),
                Err(why) => notes.push(format!("{} {}: {why}", self.provider, row.symbol)),
            }
        }
        // Other versions have them.
        if !absent.is_empty() {
            notes.push(format!("{} has no {}", self.provider, absent.join(", ")));
        }
        found
    }

    fn function(&self, row: &Primitive, work: &Work) -> Result<Candidate<'_>, String> {
        let find = |symbol: &str| {
            Bound::find(&self.calls, &self.host, row, symbol)
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
            return Err(format!("the CPU lacks {lacks}"));
        }
        let material = Rc::new(self.material(row, work)?);
        let judge = match (&row.judge, row.from_state()) {
            (Some(symbol), _) => Some(Judge {
                name: format!("{} {symbol}", self.provider),
                run: direct(find(symbol)?, row.clone(), material.clone(), work),
            }),
            (None, true) => Some(self.state_judge(work)?),
            (None, false) => None,
        };
        Ok(Candidate {
            tier: Some(row.tier.clone().into()),
            config: Some(self.config.clone()),
            takes: Takes {
                least: row.least,
                most: row.most,
                multiple: row.multiple,
            },
            digest: row.state,
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
        let mut material = Material {
            engines: Vec::new(),
            raw: match row.raw_key {
                0 => work.key.to_vec(),
                bytes => self.key(bytes),
            },
            start: Vec::new(),
        };
        if let Some(driver) = &row.key {
            let listed = self.find(driver).ok_or("no driver for its key")?;
            // XTS: the first key is the cipher's, the second the tweak's.
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
            material.start = match &row.judge {
                // Any state will do, the judge begins from the same; its counters and flags are 0.
                Some(_) => {
                    let mut start = self.key(row.state.unwrap_or(0));
                    start.resize(start.len() + 64, 0);
                    start
                }
                None => {
                    let (_, engine) = self.generic(work).ok_or("no generic driver")?;
                    let mut start = vec![0; row.state.unwrap_or(0)];
                    engine
                        .state(&[], &mut start)
                        .map_err(|e| format!("no state to begin from: {e}"))?;
                    start
                }
            };
            material
                .start
                .resize(material.start.len().next_multiple_of(64), 0);
        }
        Ok(material)
    }

    /// Who knows a hash's state after a message: the generic driver, which can export it.
    fn state_judge(&self, work: &Work) -> Result<Judge<'_>, String> {
        let (name, engine) = self.generic(work).ok_or("no generic driver")?;
        let run: Run = Box::new(move |messages, calls| {
            let shape = messages.shape;
            let mut iv_room = Vec::new();
            let all = cipher_messages(Op::Digest, &mut iv_room, messages);
            for i in (0..all.count).take(calls as usize) {
                let data = &all.src[i * all.src_stride..][..shape.len];
                let state = &mut all.dst[i * all.dst_stride..][..shape.digest];
                engine
                    .state(data, state)
                    .map_err(|e| format!("no state: {e}"))?;
            }
            Ok(())
        });
        Ok(Judge {
            name: format!("{} {name}", self.provider),
            run,
        })
    }
}

/// Calls of a function.
fn direct(bound: Bound, row: Primitive, material: Rc<Material>, work: &Work) -> Run<'static> {
    let op = work.op;
    let iv_room = RefCell::new(Vec::new());
    Box::new(move |messages, calls| {
        let (len, digest) = (messages.shape.len, messages.shape.digest);
        let takes = Takes {
            least: row.least,
            most: row.most,
            multiple: row.multiple,
        };
        if !takes.len(len) {
            return Err(format!("does not take {len} bytes"));
        }
        let keys = match &material.engines[..] {
            [] => Keys::raw(&material.raw),
            [key] => Keys::in_contexts(&row, key, None),
            [key, tweak, ..] => Keys::in_contexts(&row, key, Some(tweak)),
        };
        // SAFETY: the keys are of the driver that the table names for this function, and live in `material`; the
        // length is one that the table allows.
        let ran = unsafe {
            let mut iv_room = iv_room.borrow_mut();
            let mut all = cipher_messages(op, &mut iv_room, messages);
            bound.run(keys, &material.start, digest, &mut all, calls)
        };
        ran.map_err(|e| e.to_string())
    })
}
