//! Calls the exported functions of the tree's library, as listed by `tree/library/library.c`.

use std::cell::RefCell;

use kiln_question::{Algorithm, Error};
use kiln_tree::benchmark::Benchmark;
use kiln_tree::event::Checked;
use kiln_tree::library::{self, Function, Keyed};

use super::{known, reference, Tree};
use crate::candidate::{Beside, Candidate, Judge, Run, Takes};
use crate::level::Level;
use crate::messages::cipher_messages;
use crate::shape::{Kind, Op};
use crate::source::{bits_of_key, Choice, Spec, Work};

impl Tree {
    /// Adds the algorithms that the tree implements only as library functions.
    pub(super) fn describe_library(&self, specs: &mut Vec<Spec>) {
        for function in self.exported() {
            let spec = spec(function);
            let same = |s: &Spec| s.name == spec.name && s.prefix == spec.prefix;
            if !specs.iter().any(same) {
                specs.push(spec);
            }
        }
    }

    /// Returns the functions that the tree's library exports.
    pub(super) fn exported(&self) -> &[Function] {
        self.library.as_ref().map_or(&[], |l| l.functions())
    }

    /// Returns the selected library functions, ready to be called, each with its judge. Functions
    /// that cannot be prepared are reported in `notes`.
    pub(super) fn library_functions(
        &self,
        work: &Work,
        choice: Choice,
        notes: &mut Vec<String>,
    ) -> Vec<Candidate<'_>> {
        let mut found = Vec::new();
        for function in (self.exported().iter()).filter(|f| !f.judges && is_for(f, work)) {
            let wanted = choice.wants(&function.name, Level::Library);
            if !wanted || self.skips(&function.name) {
                continue;
            }
            let made = || {
                let run: Run = match self.knows(function, work)? {
                    true => self.series(function, work, false)?,
                    false => Box::new(|_, _| Err("does not give the known answer".into())),
                };
                let beside = self.kunit_benchmark(function, work)?;
                Ok::<_, String>((run, self.judge_of(function, work)?, beside))
            };
            match made() {
                Ok((run, judge, beside)) => found.push(Candidate {
                    level: Level::Library,
                    config: Some(self.config.clone()),
                    takes: takes(function),
                    judge: judge.map(Into::into),
                    together: function.pairs,
                    beside,
                    ..Candidate::primitive(function.name.clone(), self.provider.clone(), None, run)
                }),
                Err(why) => notes.push(format!("{} {}: {why}", self.provider, function.name)),
            }
        }
        found
    }

    /// Returns a separate judge for a function, or `None` if it can share the algorithm's judge.
    /// Sharing requires that the function uses the key of `work`, and that either Kiln or a generic
    /// driver implements the algorithm. `-lib` drivers do not count, because they call the function
    /// that is being judged.
    fn judge_of(&self, function: &Function, work: &Work) -> Result<Option<Judge<'_>>, String> {
        let generic = || {
            let (name, _) = self.generic(work)?;
            (!name.contains("-lib")).then_some(())
        };
        let others = Algorithm::named(&work.spec.name).is_some() || generic().is_some();
        match others && function.own_key == 0 {
            true => Ok(None),
            false => self.other_path(function, work).map(Some),
        }
    }

    /// Returns a judge that does not run the code under test. The judge is Kiln's own computation,
    /// the function that the table names as the judge, or the same function called within an open
    /// FPU section, where it uses its generic code.
    fn other_path(&self, function: &Function, work: &Work) -> Result<Judge<'_>, String> {
        if let Some(answer) = reference::answer(&work.spec.name) {
            return Ok(Judge {
                name: format!("Kiln's {}", work.spec.name),
                run: Box::new(move |messages, calls| {
                    let (shape, src_stride) = (messages.shape, messages.src_stride);
                    let (dst_stride, count) = (messages.dst_stride, messages.count());
                    let (_, src, dst) = messages.parts();
                    for i in 0..count.min(calls as usize) {
                        let dst = &mut dst[i * dst_stride..][..shape.dst()];
                        answer(&src[i * src_stride..][..shape.src()], dst);
                    }
                    Ok(())
                }),
            });
        }
        let named = function.judge.as_ref().and_then(|name| {
            let like = |f: &&Function| f.name == *name && is_for(f, work);
            self.exported().iter().find(like)
        });
        let (judge, what) = match named {
            Some(judge) => (judge, ""),
            None => (function, ", its generic code"),
        };
        Ok(Judge {
            name: format!("{} {}{what}", self.provider, judge.name),
            run: self.series(judge, work, named.is_none())?,
        })
    }

    /// Returns a judge that uses the library itself, for an algorithm that has no other judge.
    pub(super) fn library_judge(&self, work: &Work) -> Option<Judge<'_>> {
        let function = self.exported().iter().find(|f| is_for(f, work))?;
        self.other_path(function, work).ok()
    }

    /// Reports a function's result to the parent process.
    pub fn tell(&mut self, checked: &Checked) -> Result<(), Error> {
        let mut line = serde_json::to_value(checked).expect("plain values");
        line["event"] = "checked".into();
        Ok(self.host.get_mut().tell(&format!("{line}\n"))?)
    }

    /// Reports to the parent process that all functions have been checked.
    pub fn end(&mut self) -> Result<(), Error> {
        let host = self.host.get_mut();
        let done = format!("{{\"event\":\"done\",\"initcalls\":{}}}\n", host.initcalls);
        Ok(host.tell(&done)?)
    }

    /// Finds the KUnit benchmark that measures a function. Returns `None` if the tree's suites have
    /// no such benchmark.
    fn kunit_benchmark(
        &self,
        function: &Function,
        work: &Work,
    ) -> Result<Option<Beside<'_>>, String> {
        let Some(benchmark) = Benchmark::find(&self.host.borrow(), &function.name) else {
            return Ok(None);
        };
        let (keyed, op) = (self.open_keyed(function, work)?, work.op);
        let iv_room = RefCell::new(Vec::new());
        Ok(Some(Beside {
            benchmark: Box::new(move || {
                let figures = benchmark.run(&mut self.host.borrow_mut());
                let figures = figures.map_err(|e| e.to_string())?;
                let plain = figures.iter().map(|f| (f.len, f.mb_per_s as f64));
                Ok(plain.collect())
            }),
            time: Box::new(move |messages, calls| {
                let mut iv_room = iv_room.borrow_mut();
                let mut all = cipher_messages(op, &mut iv_room, messages);
                let ns = keyed.time(&mut all, calls);
                ns.map_err(|e| format!("a call fails: {e}"))
            }),
        }))
    }

    /// Prepares a function's key. This is the key of `work`, or a random key if the function needs
    /// a key of its own.
    fn open_keyed(&self, function: &Function, work: &Work) -> Result<Keyed, String> {
        let library = self.library.as_ref().ok_or("the tree has no library")?;
        let own_key = self.key(function.own_key);
        let key = match function.own_key {
            0 => &work.key[..],
            _ => &own_key,
        };
        Keyed::open(library, function, key).map_err(|e| format!("its key cannot be prepared: {e}"))
    }

    /// Returns a closure that calls a function. If `generic` is set, the function's generic code is
    /// called instead.
    fn series(&self, function: &Function, work: &Work, generic: bool) -> Result<Run<'_>, String> {
        let keyed = self.open_keyed(function, work)?;
        let (op, takes) = (work.op, takes(function));
        let iv_room = RefCell::new(Vec::new());
        Ok(Box::new(move |messages, calls| {
            let len = messages.shape.len;
            if !takes.len(len) {
                return Err(format!("does not take {len} bytes"));
            }
            let mut iv_room = iv_room.borrow_mut();
            let mut all = cipher_messages(op, &mut iv_room, messages);
            keyed
                .run(&mut all, calls, generic)
                .map_err(|e| format!("a call fails: {e}"))
        }))
    }

    /// Returns whether a function's result matches the known answer. Returns true if no answer is
    /// known.
    fn knows(&self, function: &Function, work: &Work) -> Result<bool, String> {
        let Some((key, answer)) = known::answer(&function.alg, work.op.name()) else {
            return Ok(true);
        };
        let counted = |len: usize| (0..len).map(|i| i as u8).collect::<Vec<u8>>();
        let library = self.library.as_ref().ok_or("the tree has no library")?;
        let keyed = Keyed::open(library, function, &counted(key))
            .map_err(|e| format!("its key cannot be prepared: {e}"))?;
        let mut result = vec![0; work.shape(known::LEN).dst()];
        keyed
            .call(
                &mut counted(function.iv),
                &counted(known::LEN),
                &mut result,
                known::LEN,
                0,
            )
            .map_err(|e| format!("a call fails: {e}"))?;
        Ok(result.ends_with(&answer))
    }
}

/// Describes the algorithm that a function computes.
fn spec(function: &Function) -> Spec {
    let bits = |&bytes: &usize| bits_of_key(&function.alg, bytes);
    let mut key_bits: Vec<u32> = function.keys.iter().filter_map(bits).collect();
    if key_bits.is_empty() {
        key_bits.push(0);
    }
    Spec {
        name: function.alg.clone().into(),
        kind: match function.kind {
            library::Kind::Cipher => Kind::Skcipher,
            library::Kind::Aead => Kind::Aead,
            library::Kind::Hash => Kind::Hash,
            library::Kind::Agreement => Kind::Kpp,
            library::Kind::Parity => Kind::Parity,
        },
        key_bits,
        iv: function.iv,
        prefix: function.prefix,
        tag: function.tag,
        digest: function.digest,
        takes: Takes::default(),
        more: Vec::new(),
    }
}

/// Returns whether the function performs the operation of `work` with the same algorithm.
fn is_for(function: &Function, work: &Work) -> bool {
    let ops = match work.op {
        // A stream cipher performs the same operation in both directions.
        Op::Decrypt if function.kind == library::Kind::Cipher => ["decrypt", "crypt"],
        Op::Encrypt => ["encrypt", "crypt"],
        op => [op.name(), op.name()],
    };
    function.alg == work.spec.name
        && ops.contains(&function.op.as_str())
        && spec(function).is_like(&work.spec)
}

fn takes(function: &Function) -> Takes {
    Takes {
        least: function.least,
        most: function.most,
        multiple: function.multiple,
    }
}
