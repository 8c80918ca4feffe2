//! Crypto API requests whose memory is divided into pieces, and the check of the results.

use std::fmt;
use std::io;

use kiln_kernel::cipher::{Impl, Kind, Op, BLOCK};
use kiln_kernel::crypto::{Api, Errno, Transform};
use kiln_kernel::fpu::Context;
use kiln_measure::SplitMix64;

use super::caller;
use super::judge::Judged;
use super::many::Many;
use super::message::Message;
use super::scatter::{divide, Piece, Scattered};

/// Initial value of every destination byte.
const UNWRITTEN: u8 = 0x5c;
/// The return value that means success.
const DONE: Errno = Errno(0);

/// How a request deviates from a correct request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twist {
    /// The request is correct.
    None,
    /// One bit of the tag is flipped, in the byte with this index.
    Forged(usize),
    /// The request is made without a key.
    NoKey,
    /// A valid key is set, followed by an invalid key of this length.
    BadKey(usize),
    /// An invalid tag size is set.
    BadTag(usize),
    /// The associated data has this length, which IPsec does not allow. The length includes the IV
    /// at the end.
    BadAssociated(usize),
    /// The input (ciphertext and tag) has this length, which is too short to hold even the tag.
    ShorterThanTag(usize),
    /// The message has an invalid length or an invalid IV.
    Message,
    /// The source is one byte too short.
    ShortSource,
    /// The destination is one byte too short.
    ShortDestination,
    /// The request is made in a hardirq, which is not allowed.
    Hardirq,
}

#[derive(Clone, Debug)]
pub struct Request {
    /// Whether the message is encrypted or decrypted.
    pub op: Op,
    /// Key, IV, associated data and text.
    pub message: Message,
    /// The expected output; `None` if the request must be rejected.
    pub judged: Option<Judged>,
    /// How the request deviates from a correct request.
    pub twist: Twist,
    /// The context from which the request is made.
    pub context: Context,
    /// Seed for all random choices, such as how the memory is divided into pieces and how the
    /// driver is opened.
    pub rng: u64,
}

/// The guarded memory for the data of requests.
pub(crate) struct Desk {
    src: Scattered,
    dst: Scattered,
}

impl Desk {
    pub(crate) fn new() -> io::Result<Desk> {
        Ok(Desk {
            src: Scattered::new()?,
            dst: Scattered::new()?,
        })
    }

    pub(crate) fn buffers(&self) -> [(&'static str, &super::guard::Guarded); 2] {
        [
            ("source's pieces", self.src.buffer()),
            ("destination's pieces", self.dst.buffer()),
        ]
    }

    /// Places the messages of one parallel call at random addresses and in random order. Returns
    /// the sources and the destinations.
    pub(crate) fn side_by_side(&mut self, many: &Many) -> (Vec<Piece>, Vec<Piece>) {
        let mut rng = SplitMix64::stream(many.rng, 0);
        let lens: Vec<usize> = many.messages.iter().map(|m| m.text.len()).collect();
        let texts = many.texts();
        self.src.lay(&lens, &texts, &mut rng);
        if many.in_place {
            return (self.src.list(), self.src.list());
        }
        let lens: Vec<usize> = many.results().map(<[u8]>::len).collect();
        let unwritten = vec![UNWRITTEN; lens.iter().sum()];
        self.dst.lay(&lens, &unwritten, &mut rng);
        (self.src.list(), self.dst.list())
    }

    /// Checks that the results equal the expected ones, and that nothing else was written.
    pub(crate) fn compare(&self, many: &Many) -> Result<(), String> {
        let right = many.results().collect::<Vec<_>>().concat();
        self.src.check().map_err(|e| format!("source: wrote {e}"))?;
        if many.in_place {
            return differs("output", &self.src.bytes(), &right);
        }
        self.dst
            .check()
            .map_err(|e| format!("destination: wrote {e}"))?;
        differs("source", &self.src.bytes(), &many.texts())?;
        differs("output", &self.dst.bytes(), &right)
    }

    pub(crate) fn clear(&mut self) {
        self.src.clear();
        self.dst.clear();
    }

    /// Sends the request to the driver of `imp` and checks the result. Returns the first error
    /// found.
    pub(crate) fn check(
        &mut self,
        api: &'static Api,
        imp: Impl,
        request: &Request,
    ) -> Result<(), String> {
        let mut rng = SplitMix64::stream(request.rng, 0);
        let opened = Transform::open_impl(api, imp, rng.one_in(3));
        let mut tfm = opened.map_err(|e| format!("no transform: {e}"))?;
        let keyed = !imp.key_sizes().is_empty();
        if keyed && request.twist != Twist::NoKey {
            let set = tfm.set_key(&request.message.key);
            set.map_err(|e| format!("setkey: {e}"))?;
        }
        if let Twist::BadKey(len) = request.twist {
            expect("setkey", tfm.set_key(&vec![7; len]), Errno::INVALID)?;
        }
        let result = match imp.kind() {
            Kind::Hash => self.digest(tfm, imp, request, &mut rng),
            _ => self.crypt(tfm, imp, request, &mut rng),
        };
        self.clear();
        result
    }

    fn digest(
        &mut self,
        tfm: Transform,
        imp: Impl,
        request: &Request,
        rng: &mut SplitMix64,
    ) -> Result<(), String> {
        let mut tfm = tfm.shash();
        same_driver(tfm.driver(), imp)?;
        let text = &request.message.text;
        // Consecutive updates of a hash process consecutive bytes of one buffer.
        self.src.lay(&[text.len()], text, rng);
        let pieces: Vec<u32> = divide(text.len(), rng).iter().map(|n| *n as u32).collect();
        let pieces = if rng.one_in(4) { &[][..] } else { &pieces };
        let (at, len) = self.src.list()[0];
        // SAFETY: the piece is valid for `len` bytes, and nothing writes to it while `data` exists.
        let data = unsafe { std::slice::from_raw_parts(at, len) };
        let answer = tfm.digest(data, pieces, rng.one_in(2), request.context);
        let wanted = wanted(request.twist);
        self.src.check().map_err(|e| format!("source: wrote {e}"))?;
        differs("source", &self.src.bytes(), text)?;
        match (answer, &request.judged) {
            (Ok(digest), Some(judged)) if wanted == DONE => differs(
                "digest",
                &digest[..judged.answer.tag.len()],
                &judged.answer.tag,
            ),
            (answer, _) => expect("a digest", answer, wanted),
        }
    }

    fn crypt(
        &mut self,
        tfm: Transform,
        imp: Impl,
        request: &Request,
        rng: &mut SplitMix64,
    ) -> Result<(), String> {
        let Request { op, message, .. } = request;
        let aead = imp.kind() == Kind::Aead;
        let mut assoc = associated(imp, message);
        if let Twist::BadAssociated(len) = request.twist {
            assoc.resize(len, 0);
        }
        let tag = request
            .judged
            .as_ref()
            .map_or(vec![0; message.tag_size], |j| {
                let mut tag = j.answer.tag.clone();
                if let Twist::Forged(byte) = request.twist {
                    tag[byte] ^= 1 << rng.below(8);
                }
                tag
            });
        let decrypt = *op == Op::Decrypt;
        let mut from = [&assoc[..], &message.text].concat();
        if aead && decrypt {
            from.extend_from_slice(&tag);
        }
        let cryptlen = match request.twist {
            Twist::ShorterThanTag(len) => len,
            _ => from.len() - assoc.len(),
        };
        let wants = assoc.len() + message.text.len() + if decrypt { 0 } else { tag.len() };
        // In one out of four requests, make the lists longer than needed. The driver must ignore
        // the extra bytes.
        let more = if rng.one_in(4) { 1 + rng.below(40) } else { 0 };
        let in_place = rng.one_in(2);
        let short = |twist| usize::from(request.twist == twist);
        let mut room = from.clone();
        room.resize(
            from.len().max(if in_place { wants } else { 0 }) + more,
            UNWRITTEN,
        );
        if short(Twist::ShortSource) == 1 {
            room.truncate(from.len() - 1);
        }
        let before = match in_place {
            true => room.clone(),
            false => vec![UNWRITTEN; wants + more],
        };
        let before = match short(Twist::ShortDestination) {
            1 => before[..wants - 1].to_vec(),
            _ => before,
        };
        let in_place = in_place && before.len() == room.len();
        self.src.lay(&divide(room.len(), rng), &room, rng);
        if !in_place {
            self.dst.lay(&divide(before.len(), rng), &before, rng);
        }
        let src = self.src.list();
        let dst = match in_place {
            // The destination is the same memory as the source, but is sometimes described by a
            // list with a different division.
            true if rng.one_in(2) => self.src.finer(rng),
            true => src.clone(),
            false => self.dst.list(),
        };
        let mut iv = [0; BLOCK];
        iv[..message.iv.len()].copy_from_slice(&message.iv);

        let lens = (assoc.len(), cryptlen);
        let (submitted, result) = self.ask(tfm, imp, request, &mut iv, lens, (&src, &dst))?;

        let got = if in_place {
            self.src.bytes()
        } else {
            self.dst.bytes()
        };
        self.src.check().map_err(|e| format!("source: wrote {e}"))?;
        if !in_place {
            self.dst
                .check()
                .map_err(|e| format!("destination: wrote {e}"))?;
            differs("source", &self.src.bytes(), &room)?;
        }
        let wanted = wanted(request.twist);
        if (submitted, result) != (wanted, wanted) {
            return Err(format!(
                "the call returned {submitted}, the request {result}, where {wanted} is right"
            ));
        }
        let mut right = before;
        let text = assoc.len()..assoc.len() + message.text.len();
        match (&request.judged, wanted) {
            (Some(judged), DONE) => {
                right[text.clone()].copy_from_slice(&judged.answer.text);
                if aead && !decrypt {
                    right[text.end..][..tag.len()].copy_from_slice(&tag);
                }
                if !aead {
                    differs("IV", &iv[..message.iv.len()], &judged.answer.iv)?;
                }
            }
            (_, Errno::BAD_MESSAGE) => right[text].fill(0),
            _ => {}
        }
        differs("destination", &got, &right)
    }

    fn ask(
        &mut self,
        tfm: Transform,
        imp: Impl,
        request: &Request,
        iv: &mut [u8; BLOCK],
        (assoc, len): (usize, usize),
        (src, dst): (&[Piece], &[Piece]),
    ) -> Result<(Errno, Errno), String> {
        let (op, context) = (request.op, request.context);
        if imp.kind() == Kind::Skcipher {
            let mut tfm = tfm.skcipher();
            same_driver(tfm.driver(), imp)?;
            // SAFETY: the pieces belong to the desk, which outlives the request. The two lists
            // describe either the same bytes in the same order, or disjoint bytes.
            return Ok(unsafe { tfm.request(op, iv, len, src, dst, context) });
        }
        let mut tfm = tfm.aead();
        same_driver(tfm.driver(), imp)?;
        if let Twist::BadTag(bytes) = request.twist {
            let set = tfm.set_tag_size(bytes);
            expect("setauthsize", set, Errno::INVALID)?;
        }
        let set = tfm.set_tag_size(request.message.tag_size);
        set.map_err(|e| format!("setauthsize: {e}"))?;
        // SAFETY: the pieces belong to the desk, which outlives the request. The two lists describe
        // either the same bytes in the same order, or disjoint bytes.
        Ok(unsafe { tfm.request(op, iv, assoc, len, src, dst, context) })
    }
}

/// Returns the associated data of a request. For IPsec, the IV is appended.
fn associated(imp: Impl, message: &Message) -> Vec<u8> {
    match imp.alg().starts_with("rfc4106(") {
        true => [&message.aad[..], &message.iv].concat(),
        false => message.aad.clone(),
    }
}

fn wanted(twist: Twist) -> Errno {
    match twist {
        // If a tag size is rejected, the previous one remains set, so the request succeeds.
        Twist::None | Twist::BadTag(_) => DONE,
        Twist::Forged(_) => Errno::BAD_MESSAGE,
        Twist::NoKey | Twist::BadKey(_) => Errno::NO_KEY,
        Twist::BadAssociated(_)
        | Twist::ShorterThanTag(_)
        | Twist::Message
        | Twist::ShortSource
        | Twist::ShortDestination => Errno::INVALID,
        Twist::Hardirq => Errno::DEADLOCK,
    }
}

fn expect<T>(what: &str, answer: Result<T, Errno>, wanted: Errno) -> Result<(), String> {
    let got = answer.map_or_else(|e| e, |_| DONE);
    match got == wanted {
        true => Ok(()),
        false => Err(format!("{what} gives {got} where {wanted} is right")),
    }
}

fn same_driver(driver: &str, imp: Impl) -> Result<(), String> {
    match driver.trim_start_matches("__") == imp.driver() {
        true => Ok(()),
        false => Err(format!("asked for {}, got {driver}", imp.driver())),
    }
}

fn differs(what: &str, got: &[u8], want: &[u8]) -> Result<(), String> {
    if got == want {
        return Ok(());
    }
    let same = got.iter().zip(want).take_while(|(a, b)| a == b).count();
    Err(format!("{what}: byte {same} of {} differs", want.len()))
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.op {
            Op::Encrypt => "encrypt or digest",
            Op::Decrypt => "decrypt",
        };
        let from = caller::name(self.context);
        write!(f, "request to {verb} {}, context {from}", self.message)?;
        match self.twist {
            Twist::None => Ok(()),
            twist => write!(f, ", {twist:?}"),
        }
    }
}
