//! The memory of one thread, and one call on it with every check.

use std::io;

use kiln_kernel::xts::{Error, Key, Op, BLOCK};

use super::case::{Case, LONGEST};
use super::cpu_state::CpuState;
use super::fault::{role, Watch};
use super::guard::{Guarded, Place, Span, PAGE};
use super::subject::{inverse, Subject};

/// Three guarded buffers and the watch over them.
pub struct Bench {
    src: Guarded,
    dst: Guarded,
    iv: Guarded,
    watch: Watch,
}

/// Where the data of one call lies.
struct Spans {
    src: Span,
    dst: Span,
    iv: Span,
    in_place: bool,
}

/// The command that repeats a call, and the number of the case where ` --case N` belongs to it.
#[derive(Clone, Copy)]
pub struct Replay<'a>(pub &'a str, pub Option<u64>);

/// A call under test.
struct Call<'a> {
    subject: &'a Subject<'a>,
    key: &'a Key,
    iv: &'a [u8; BLOCK],
    replay: Replay<'a>,
}

impl Bench {
    /// For messages as long as cases have, on the thread that calls it.
    pub fn new() -> io::Result<Bench> {
        let src = Guarded::new(LONGEST + PAGE)?;
        let dst = Guarded::new(LONGEST + PAGE)?;
        let iv = Guarded::new(2 * PAGE)?;
        let watch = Watch::new([("source", &src), ("destination", &dst), ("IV", &iv)])?;
        Ok(Bench {
            src,
            dst,
            iv,
            watch,
        })
    }

    /// Have `subject` do `case`, of which `want` is the right result, and undo it. Says what was wrong first.
    pub fn check(
        &mut self,
        subject: &Subject<'_>,
        key: &Key,
        case: &Case,
        want: &[u8],
        replay: Replay<'_>,
    ) -> Result<(), String> {
        let len = case.data.len();
        let spans = Spans {
            src: self.src.place(len, case.src),
            dst: self.dst.place(len, case.dst),
            iv: self.iv.place(BLOCK, case.iv_at),
            in_place: case.in_place,
        };
        let call = Call {
            subject,
            key,
            iv: &case.iv,
            replay,
        };
        self.iv.write(spans.iv, &case.iv);
        if case.in_place {
            self.dst.write(spans.dst, &case.data);
        } else {
            self.src.write(spans.src, &case.data);
        }
        let result = self.there_and_back(&call, case, want, &spans);
        self.clear(&spans, result.is_err());
        result
    }

    fn there_and_back(
        &mut self,
        call: &Call<'_>,
        case: &Case,
        want: &[u8],
        spans: &Spans,
    ) -> Result<(), String> {
        self.call(call, case.op, spans, false)?
            .map_err(|e| format!("refused: {e}"))?;
        same("output", self.dst.bytes(spans.dst), want)?;
        if !spans.in_place {
            same("source", self.src.bytes(spans.src), &case.data)
                .map_err(|e| format!("changed its {e}"))?;
            self.src.wipe(spans.src);
        }

        self.call(call, inverse(case.op), spans, true)?
            .map_err(|e| format!("refused to invert: {e}"))?;
        let back = if spans.in_place {
            self.dst.bytes(spans.dst)
        } else {
            same("source", self.dst.bytes(spans.dst), want)
                .map_err(|e| format!("inverting changed its {e}"))?;
            self.src.bytes(spans.src)
        };
        same("round trip", back, &case.data)
    }

    /// One message that is too short must be refused and nothing written.
    pub fn refuses(
        &mut self,
        subject: &Subject<'_>,
        key: &Key,
        op: Op,
        len: usize,
        in_place: bool,
        replay: Replay<'_>,
    ) -> Result<(), String> {
        let spans = Spans {
            src: self.src.place(len, Place::End),
            dst: self.dst.place(len, Place::End),
            iv: self.iv.place(BLOCK, Place::End),
            in_place,
        };
        let iv = [0x3c; BLOCK];
        let call = Call {
            subject,
            key,
            iv: &iv,
            replay,
        };
        self.iv.write(spans.iv, &iv);
        let result = self
            .call(&call, op, &spans, false)
            .and_then(|returned| match returned {
                Err(Error::TooShort(n)) if n == len => Ok(()),
                other => Err(format!("{len} bytes: returned {other:?}")),
            })
            .and_then(|()| match self.dst.is_poison(spans.dst) {
                true => Ok(()),
                false => Err(format!("{len} bytes: refused, but wrote")),
            });
        self.clear(&spans, result.is_err());
        result
    }

    /// Call it, from source to destination or, if `back`, the other way round. The outer error says what it
    /// did that it may not; the inner one is its own.
    fn call(
        &mut self,
        call: &Call<'_>,
        op: Op,
        spans: &Spans,
        back: bool,
    ) -> Result<Result<(), Error>, String> {
        let (mut src, mut dst) = (self.src.ptr(spans.src), self.dst.ptr(spans.dst));
        if spans.in_place {
            src = dst;
        } else if back {
            (src, dst) = (dst, src);
        }
        let len = self.dst.bytes(spans.dst).len();
        let iv = self.iv.ptr(spans.iv);

        let armed = self
            .watch
            .arm(call.replay.0, call.replay.1, back && !spans.in_place);
        let before = CpuState::read();
        let returned = (call.subject.crypt)(op, call.key, iv, src, dst, len);
        let after = CpuState::read();
        drop(armed);

        if let Some(what) = before.spoilt(after) {
            return Err(what.to_string());
        }
        same("IV", self.iv.bytes(spans.iv), call.iv).map_err(|e| format!("changed the {e}"))?;
        for (name, buffer, span) in [
            ("source", &self.src, spans.src),
            ("destination", &self.dst, spans.dst),
            ("IV", &self.iv, spans.iv),
        ] {
            if !(spans.in_place && name == "source") {
                let name = role(name, back);
                buffer
                    .check(span)
                    .map_err(|stray| format!("{stray} of the {name}"))?;
            }
        }
        Ok(returned)
    }

    fn clear(&mut self, spans: &Spans, all: bool) {
        for (buffer, span) in [
            (&mut self.src, spans.src),
            (&mut self.dst, spans.dst),
            (&mut self.iv, spans.iv),
        ] {
            if all {
                buffer.reset();
            } else {
                buffer.wipe(span);
            }
        }
    }
}

fn same(what: &str, got: &[u8], want: &[u8]) -> Result<(), String> {
    if got == want {
        return Ok(());
    }
    let at = got.iter().zip(want).position(|(g, w)| g != w).unwrap_or(0);
    Err(format!(
        "{what}: byte {at} of {} is {:02x} and should be {:02x}",
        want.len(),
        got[at],
        want[at]
    ))
}
