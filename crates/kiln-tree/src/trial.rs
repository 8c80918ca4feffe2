//! Creates the messages that library functions process while they are single-stepped.

use std::ffi::CStr;
use std::ptr;
use std::rc::Rc;

use kiln_measure::SplitMix64;

use crate::engine::Refused;
use crate::library::{Function, Keyed, Kind, Library};
use crate::raw;

/// Message lengths in bytes. The longest message takes more than two iterations of the widest loop
/// (ChaCha: 16 blocks, or 1024 bytes, per iteration).
const LENGTHS: [usize; 8] = [1, 64, 200, 16, 31, 512, 1041, 2100];
/// Calls made in interrupts use only the first `BRIEF` messages. One of these is shorter than a
/// block, and another spans several blocks. Both are needed because some functions open a section
/// for only one of the two kinds.
const BRIEF: usize = 3;
/// Alignment of all buffers in bytes. RAID functions require it.
const LINE: usize = 64;

/// A buffer whose address is a multiple of [`LINE`].
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
}

impl Aligned {
    fn new(size: usize) -> Aligned {
        let bytes = vec![0; size + LINE];
        let start = bytes.as_ptr().align_offset(LINE);
        Aligned { bytes, start }
    }

    fn get(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

/// Seed for random keys and messages.
const SEED: u64 = 1;

struct Message {
    keyed: Keyed,
    iv: Vec<u8>,
    src: Aligned,
    second: Option<Aligned>,
    expected: Aligned,
    len: usize,
    result: usize,
}

/// A function, and the messages that it processes while it is single-stepped.
pub(crate) struct Trial<'a> {
    function: &'a Function,
    messages: Vec<Message>,
    raw: Vec<raw::ProveMessage>,
    rooms: Aligned,
    room: usize,
}

impl<'a> Trial<'a> {
    /// Creates keys and messages. If the function decrypts, the messages are encrypted by the
    /// matching encryption function.
    ///
    /// # Errors
    /// Fails if a key or a message is rejected.
    pub(crate) fn new(library: &Rc<Library>, function: &'a Function) -> Result<Trial<'a>, Refused> {
        // The seed is fixed, so that a replay executes the same instructions as the original run.
        let mut random = SplitMix64(SEED);
        let mut lengths: Vec<usize> = Vec::new();
        for len in LENGTHS.map(|len| fit(function, len)) {
            if !lengths.contains(&len) {
                lengths.push(len);
            }
        }
        let keys = match function.keys.is_empty() {
            true => vec![function.own_key],
            false => function.keys.clone(),
        };
        let mut messages = Vec::new();
        // The number of rounds may depend on the key size, so test the longest message with every
        // key size. For the other lengths, cycle through the key sizes.
        let longest = lengths.iter().max().copied().unwrap_or(0);
        let all = keys.iter().map(|&key| (longest, key));
        let each = lengths.iter().copied().zip(keys.iter().copied().cycle());
        let pairs: Vec<(usize, usize)> = each.filter(|p| p.0 < longest).chain(all).collect();
        for (len, key) in pairs {
            messages.push(message(library, function, len, key, &mut random)?);
        }
        let room = messages.iter().map(|m| m.iv.len() + m.result + 2 * LINE);
        let room = room.max().unwrap_or(0).next_multiple_of(LINE);
        Ok(Trial {
            function,
            messages,
            raw: Vec::new(),
            rooms: Aligned::new(room * raw::KILN_PROVE_LEVELS as usize),
            room,
        })
    }

    /// Returns the structure that the C code takes. It is valid only while `self` exists.
    pub(crate) fn order(&mut self, name: &CStr, prove: *mut raw::Prove) -> raw::ProveLibrary {
        let function = self.function;
        let messages = self.messages.iter_mut().map(|m| raw::ProveMessage {
            library: m.keyed.raw(),
            iv: m.iv.as_ptr(),
            src: m.src.get().as_ptr(),
            second: m.second.as_mut().map_or(ptr::null(), |s| s.get().as_ptr()),
            expected: m.expected.get().as_mut_ptr(),
            iv_size: m.iv.len() as u64,
            len: m.len as u64,
            prefix: function.prefix as u64,
            result: m.result as u64,
        });
        self.raw = messages.collect();
        let flag = |on, flag| if on { flag } else { 0 };
        raw::ProveLibrary {
            name: name.as_ptr(),
            prove,
            messages: self.raw.as_ptr(),
            count: self.raw.len() as u64,
            brief: BRIEF.min(self.raw.len()) as u64,
            rooms: self.rooms.get().as_mut_ptr(),
            room: self.room as u64,
            flags: flag(function.task_only, raw::KILN_LIBRARY_TASK)
                | flag(function.unasked, raw::KILN_LIBRARY_UNASKED),
        }
    }
}

/// Rounds `len` down to a multiple that the function accepts, then clamps it to the function's
/// range.
fn fit(function: &Function, len: usize) -> usize {
    let down = len - len % function.multiple;
    down.clamp(function.least, function.most)
}

fn message(
    library: &Rc<Library>,
    function: &Function,
    len: usize,
    key: usize,
    random: &mut SplitMix64,
) -> Result<Message, Refused> {
    let f = function;
    let mut bytes = vec![0; key];
    random.fill(&mut bytes);
    let keyed = Keyed::open(library, f, &bytes)?;
    let mut iv = vec![0; f.iv];
    random.fill(&mut iv);
    if f.alg.starts_with("ccm(") {
        // For CCM, the first byte is the size of the length field minus 1 (RFC 3610, section 2.2).
        iv[0] = 3;
    }
    let mut plain = Aligned::new(f.prefix + len + f.tag);
    random.fill(&mut plain.get()[..f.prefix + len]);
    let opposite = library
        .functions()
        .iter()
        .find(|g| f.kind == Kind::Aead && f.decrypts() && g.alg == f.alg && g.op == "encrypt");
    let src = match opposite {
        None => plain,
        Some(seals) => {
            let mut sealed = Aligned::new(f.prefix + len + f.tag);
            sealed.get()[..f.prefix].copy_from_slice(&plain.get()[..f.prefix]);
            let seals = Keyed::open(library, seals, &bytes)?;
            let (from, to) = (plain.get(), sealed.get());
            seals.call(&mut iv.clone(), from, to, len, f.prefix)?;
            sealed
        }
    };
    let second = f.pairs.then(|| {
        let mut second = Aligned::new(len);
        random.fill(second.get());
        second
    });
    let result = f.result(len, f.prefix) * if f.pairs { 2 } else { 1 };
    Ok(Message {
        keyed,
        iv,
        src,
        second,
        expected: Aligned::new(result),
        len,
        result,
    })
}
