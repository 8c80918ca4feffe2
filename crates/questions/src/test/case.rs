//! The cases of the suites. A case is determined by its suite, seed and number, so it can be
//! replayed on its own.

use std::fmt;

use kiln_kernel::cipher::{Impl, Kind, Op};
use kiln_kernel::crypto::Api;
use kiln_kernel::fpu::Context;
use kiln_measure::SplitMix64;

use super::bench::{Bench, Replay, Verdict};
use super::caller::{self, refused_in, CONTEXTS};
use super::family::Family;
use super::guard::Place;
use super::judge::{task, Judged};
use super::many::Many;
use super::message::{bytes, unit, whole, Cut, Layout, Message};
use super::request::Request;
use super::suite::Suite;
use super::vectors::{self, Vector};
use super::{asked, wiped, wycheproof};

/// Longest text and longest key, in bytes, that a vector may have to fit in the guarded buffers.
const LONGEST_VECTOR: (usize, usize) = (66_000, 8192);
/// All lengths below this are tested.
const EVERY_LENGTH: u64 = 520;
/// The same limit for hashes. It is higher because their loops are long.
const EVERY_LENGTH_OF_HASHES: u64 = 1100;
/// Number of additional lengths to test around each length in `STEPS`. At these lengths, the loops
/// of the tiers take different branches.
const AROUND: u64 = 18;
const STEPS: [u64; 17] = [
    640, 768, 896, 1024, 1280, 1400, 1408, 2016, 2048, 4032, 4080, 4928, 8064, 8160, 8192, 16384,
    40320,
];
/// How many key lengths are tried above the longest valid length.
const KEYS_BEYOND: u64 = 33;
/// Minimum number of key lengths that are tried. It is large enough to include lengths that do not
/// fit in a byte.
const KEYS: u64 = 1200;
/// Where vectors are placed in memory, and whether they are processed in place.
const PLACES: [(Place, bool); 4] = [
    (Place::End, false),
    (Place::At(0), true),
    (Place::At(1), false),
    (Place::End, true),
];
/// For ciphers and AEADs: number of whole units in the message that the `splits` suite cuts in two.
/// Such a message can be cut only at a multiple of `unit(judge)` bytes.
const UNITS: usize = 20;

/// In the context suites, one out of this many cases processes several messages in parallel, if any
/// implementation of the algorithm can.
const ONE_IN_PARALLEL: usize = 4;

/// A test of an implementation, with the expected result.
#[derive(Clone, Debug)]
pub enum Case {
    /// A message, with the expected result.
    Message {
        /// Whether the message is encrypted or decrypted.
        op: Op,
        /// Key, IV, associated data and text.
        message: Box<Message>,
        /// The expected output.
        judged: Box<Judged>,
        /// Placement of the message and the result in memory.
        layout: Layout,
        /// Source of the message. `None` if the message is random.
        source: Option<String>,
    },
    /// A known answer that is too long for the guarded memory.
    Long {
        /// Whether the message is encrypted or decrypted.
        op: Op,
        /// The known answer with its message.
        vector: Box<Vector>,
    },
    /// A key that must be accepted or rejected.
    Key {
        key: Vec<u8>,
        /// The context that `setkey` must derive from the key; `None` if the key must be rejected.
        becomes: Option<Vec<u8>>,
        /// Placement of the key in memory.
        layout: Layout,
    },
    /// A sealed message. It must be accepted unchanged, and rejected after any change.
    Forgery {
        /// The message; its text is ciphertext.
        message: Box<Message>,
        /// The valid tag.
        tag: Vec<u8>,
        /// Placement of the message in memory.
        layout: Layout,
        /// Seed that selects the bits to change outside the tag.
        rng: u64,
    },
    /// A key that must not be in memory after its transform has been freed.
    Wipe {
        key: Vec<u8>,
        /// The context that `setkey` derives from the key.
        context: Vec<u8>,
    },
    /// A request to the crypto API.
    Request {
        /// The crypto API that receives the request. `None` means the linked one.
        api: Option<&'static Api>,
        request: Box<Request>,
    },
    /// Several messages processed in parallel.
    Many {
        many: Box<Many>,
        /// The case to run instead on implementations that cannot process several messages in
        /// parallel. If `None`, such implementations are not checked.
        otherwise: Option<Box<Case>>,
    },
    /// A message whose tag is wrong from the start, and which must be rejected.
    Rejection {
        /// The message; its text is ciphertext.
        message: Box<Message>,
        /// The wrong tag.
        tag: Vec<u8>,
        /// Placement of the message in memory.
        layout: Layout,
        /// The source of the message, for reports of failures.
        source: String,
    },
}

/// The known answers of a family, read once.
#[derive(Clone, Debug, Default)]
pub struct Known {
    vectors: Vec<Vector>,
    wycheproof: Vec<wycheproof::Test>,
}

impl Known {
    /// Reads the known answers that a suite needs.
    pub fn of(family: &Family, suite: Suite) -> Known {
        Known {
            vectors: match suite {
                Suite::Vectors => vectors::of(family.alg),
                _ => Vec::new(),
            },
            wycheproof: match suite {
                Suite::Wycheproof => wycheproof::of(family.judge),
                _ => Vec::new(),
            },
        }
    }
}

fn directions(imp: Impl) -> u64 {
    match imp.kind() {
        Kind::Hash => 1,
        _ => 2,
    }
}

fn direction(n: u64) -> Op {
    [Op::Encrypt, Op::Decrypt][(n % 2) as usize]
}

/// Returns the number of cases in a suite with a fixed list of cases. Returns `None` for a suite
/// with an unlimited number of random cases.
pub fn listed(suite: Suite, family: &Family, known: &Known) -> Option<u64> {
    let judge = family.judge;
    match suite {
        Suite::Vectors => Some((known.vectors.len() * PLACES.len()) as u64 * directions(judge)),
        Suite::Wycheproof => Some(known.wycheproof.len() as u64 * directions(judge)),
        Suite::Keys => Some(match judge.key_sizes().last() {
            Some(longest) => (*longest as u64 + KEYS_BEYOND + 1).max(KEYS),
            None => 0,
        }),
        Suite::Wiped => Some(judge.key_sizes().len().min(2) as u64),
        Suite::Lengths => {
            Some(short_lengths(judge) + AROUND * STEPS.len() as u64 * directions(judge))
        }
        Suite::Splits => {
            Some((splits(family) * (family.usable.len() + 1)) as u64 * directions(judge))
        }
        Suite::Refusals => Some(asked::refusals(judge)),
        Suite::Forgeries if judge.kind() != Kind::Aead => Some(0),
        Suite::Many if !family.subjects.iter().any(|i| suite.fits(*i)) => Some(0),
        Suite::Many
        | Suite::Requests
        | Suite::Forgeries
        | Suite::Random
        | Suite::Contexts(_)
        | Suite::Interrupted(_) => None,
    }
}

/// Returns the number of cases in the `lengths` suite, not counting the cases with long messages.
pub(super) fn short_lengths(judge: Impl) -> u64 {
    every_length(judge) * directions(judge)
}

fn every_length(judge: Impl) -> u64 {
    match judge.kind() {
        Kind::Hash => EVERY_LENGTH_OF_HASHES,
        _ => EVERY_LENGTH,
    }
}

/// Returns the text length of the message that the `splits` suite cuts in two.
fn halves(judge: Impl) -> usize {
    match judge.kind() {
        Kind::Hash => judge.block_size().max(64) * 3 + 3,
        _ => whole(judge, unit(judge) * UNITS + 11),
    }
}

fn splits(family: &Family) -> usize {
    match family.judge.kind() {
        Kind::Hash => halves(family.judge) + 1,
        _ => UNITS + 1,
    }
}

impl Case {
    /// Creates case `n` of a suite.
    pub fn draw(
        suite: Suite,
        family: &Family,
        known: &Known,
        seed: u64,
        n: u64,
    ) -> Result<Case, String> {
        let judge = family.judge;
        let mut rng = SplitMix64::stream(seed ^ suite.salt(), n);
        match suite {
            Suite::Vectors => {
                let each = PLACES.len() as u64 * directions(judge);
                let vector = &known.vectors[(n / each) as usize];
                let (place, in_place) = PLACES[(n % PLACES.len() as u64) as usize];
                let op = direction(n % each / PLACES.len() as u64);
                known_answer(judge, vector, op, Layout::at(place, in_place))
            }
            Suite::Wycheproof => {
                let test = &known.wycheproof[(n / directions(judge)) as usize];
                let (vector, layout) = (&test.vector, Layout::draw(&mut rng));
                let op = direction(n % directions(judge));
                if test.valid {
                    return known_answer(judge, vector, op, layout);
                }
                Ok(Case::Rejection {
                    message: Box::new(Message {
                        text: vector.cipher.clone(),
                        ..vector.message.clone()
                    }),
                    tag: vector.tag.clone(),
                    layout,
                    source: vector.name.clone(),
                })
            }
            Suite::Keys => {
                let key = bytes(&mut rng, n as usize);
                let becomes = kiln_kernel::cipher::Context::new(judge, &key)
                    .ok()
                    .map(|c| c.bytes()[..judge.context_size()].to_vec());
                // Check that `setkey` and the list of key sizes agree on whether this length is
                // valid.
                if becomes.is_some() != judge.takes_key(key.len()) {
                    return Err(format!(
                        "{} and its list differ about a key of {n} bytes",
                        judge.driver()
                    ));
                }
                Ok(Case::Key {
                    key,
                    becomes,
                    layout: Layout::draw(&mut rng),
                })
            }
            Suite::Wiped => {
                let sizes = judge.key_sizes();
                // Use the longest key size and a medium one.
                let size = [sizes.len() - 1, sizes.len() / 2][n as usize];
                // Derive the key also from the algorithm's name, so that algorithms tested at the
                // same time use different keys.
                let alg = family
                    .alg
                    .bytes()
                    .fold(0, |h: u64, b| h.rotate_left(7) ^ u64::from(b));
                let key = bytes(&mut SplitMix64::stream(rng.next_u64(), alg), sizes[size]);
                let context = judge_key(judge, &key)?;
                Ok(Case::Wipe { key, context })
            }
            Suite::Lengths => {
                let len = length(judge, n / directions(judge));
                let message = Message::draw(judge, &mut rng, Some(len as usize));
                let layout = Layout::draw(&mut rng);
                message_case(judge, direction(n % directions(judge)), message, layout)
            }
            Suite::Splits => {
                let mut message = Message::draw(judge, &mut rng, Some(halves(judge)));
                let mut layout = Layout::draw(&mut rng);
                let at = n / directions(judge);
                let (who, at) = (at as usize / splits(family), at as usize % splits(family));
                let first = at * unit(judge);
                message.aad.truncate(40);
                let aad_first = at % (message.aad.len() + 1);
                let mut cut = Cut {
                    aad: match message.aad.len() {
                        0 => Vec::new(),
                        len => vec![aad_first, len - aad_first],
                    },
                    text: vec![first, message.text.len() - first],
                    other: who.checked_sub(1).map(|i| family.usable[i]),
                    moves: u64::MAX,
                };
                cut.settle(judge);
                layout.cut = Some(cut);
                message_case(judge, direction(n % directions(judge)), message, layout)
            }
            Suite::Forgeries => {
                let len = rng.below(200);
                let message = Message::draw(judge, &mut rng, Some(len));
                let layout = Layout::draw(&mut rng);
                let (sealed, judged) = task(judge, Op::Decrypt, message)?;
                Ok(Case::Forgery {
                    message: Box::new(sealed),
                    tag: judged.answer.tag,
                    layout,
                    rng: rng.next_u64(),
                })
            }
            Suite::Many => several(family, &mut rng, Context::Task, None),
            Suite::Requests | Suite::Refusals => {
                let request = match suite {
                    Suite::Requests => asked::random(judge, &mut rng, n)?,
                    _ => asked::refusal(judge, &mut rng, n)?,
                };
                Ok(Case::Request {
                    api: family.api,
                    request: Box::new(request),
                })
            }
            Suite::Random => drawn(family, &mut rng, Context::Task),
            Suite::Contexts(policy) | Suite::Interrupted(policy) => {
                let context = CONTEXTS[n as usize % CONTEXTS.len()];
                // Process messages in parallel only in contexts that allow sections. In the other
                // contexts, callers process one message at a time.
                let parallel = family.subjects.iter().any(|i| i.lanes().is_some())
                    && !refused_in(policy).contains(&context);
                let parallel = parallel && rng.one_in(ONE_IN_PARALLEL);
                let one = drawn(family, &mut rng, context)?;
                match parallel {
                    true => several(family, &mut rng, context, Some(Box::new(one))),
                    false => Ok(one),
                }
            }
        }
    }

    /// Runs the case on `imp`. Returns the number of checks, and the first error found.
    pub fn check(
        &self,
        bench: &mut Bench,
        imp: Impl,
        replay: Replay<'_>,
    ) -> (u64, Result<(), String>) {
        match self {
            Case::Message {
                op,
                message,
                judged,
                layout,
                ..
            } => (1, bench.check(imp, *op, message, judged, layout, replay)),
            Case::Key {
                key,
                becomes,
                layout,
            } => {
                let result = match becomes {
                    Some(context) => bench.takes_key(imp, key, context, layout, replay),
                    None => bench.refuses_key(imp, key, layout, replay),
                };
                (1, result)
            }
            Case::Long { op, vector } => (1, vector.check_plainly(imp, *op)),
            Case::Wipe { key, context } => (1, wiped::check(imp, key, context)),
            Case::Many { otherwise, .. } if imp.lanes().is_none() => match otherwise {
                Some(case) => case.check(bench, imp, replay),
                None => (0, Ok(())),
            },
            Case::Many { many, otherwise } => {
                // In the context suites, a case counts as one check for every implementation.
                let checks = match otherwise {
                    Some(_) => 1,
                    None => many.messages.len() as u64,
                };
                (checks, bench.many(imp, many, replay))
            }
            Case::Request { api, request } => {
                let api = api.unwrap_or_else(|| Api::get_linked());
                (1, bench.request(api, imp, request, replay))
            }
            Case::Rejection {
                message,
                tag,
                layout,
                ..
            } => {
                let result = match bench.open(imp, message, tag, layout, replay) {
                    Ok(Verdict::Accepted) => Err("accepted a message that is not authentic".into()),
                    other => other.map(|_| ()),
                };
                (1, result)
            }
            Case::Forgery {
                message,
                tag,
                layout,
                rng,
            } => forge(bench, imp, message, tag, layout, *rng, replay),
        }
    }
}

fn judge_key(judge: Impl, key: &[u8]) -> Result<Vec<u8>, String> {
    let context = kiln_kernel::cipher::Context::new(judge, key)
        .map_err(|_| format!("the judge refuses a key of {} bytes", key.len()))?;
    Ok(context.bytes()[..judge.context_size()].to_vec())
}

fn known_answer(judge: Impl, vector: &Vector, op: Op, layout: Layout) -> Result<Case, String> {
    let (text, key) = (vector.message.text.len(), vector.message.key.len());
    if text > LONGEST_VECTOR.0 || key > LONGEST_VECTOR.1 {
        return Ok(Case::Long {
            op,
            vector: Box::new(vector.clone()),
        });
    }
    let (message, judged) = vector.task(judge, op)?;
    Ok(Case::Message {
        op,
        message: Box::new(message),
        judged: Box::new(judged),
        layout,
        source: Some(vector.name.clone()),
    })
}

fn message_case(judge: Impl, op: Op, message: Message, layout: Layout) -> Result<Case, String> {
    let (message, judged) = task(judge, op, message)?;
    Ok(Case::Message {
        op,
        message: Box::new(message),
        judged: Box::new(judged),
        layout,
        source: None,
    })
}

/// Draws a random message. One message in three is processed in pieces, the rest in a single call.
fn drawn(family: &Family, rng: &mut SplitMix64, context: Context) -> Result<Case, String> {
    let judge = family.judge;
    let message = Message::draw(judge, rng, None);
    let mut layout = Layout::draw(rng);
    layout.context = context;
    let op = direction(rng.next_u64());
    if rng.one_in(3) {
        layout.cut = Some(Cut::draw(judge, &message, &family.usable, rng));
    }
    message_case(judge, op, message, layout)
}

fn several(
    family: &Family,
    rng: &mut SplitMix64,
    context: Context,
    otherwise: Option<Box<Case>>,
) -> Result<Case, String> {
    let many = Box::new(Many::draw(family.judge, context, rng)?);
    Ok(Case::Many { many, otherwise })
}

fn length(judge: Impl, n: u64) -> u64 {
    match n.checked_sub(every_length(judge)) {
        None => n,
        Some(i) => STEPS[(i / AROUND) as usize] - AROUND / 2 + i % AROUND,
    }
}

/// Flips each bit of the tag and some bits of the other inputs, one per attempt, and finally tries
/// the unchanged message.
fn forge(
    bench: &mut Bench,
    imp: Impl,
    message: &Message,
    tag: &[u8],
    layout: &Layout,
    rng: u64,
    replay: Replay<'_>,
) -> (u64, Result<(), String>) {
    let mut checks = 0;
    let mut refused = |message: &Message, tag: &[u8], what: String| {
        checks += 1;
        match bench.open(imp, message, tag, layout, replay) {
            Ok(Verdict::Refused) => Ok(()),
            Ok(Verdict::Accepted) => Err(format!("accepted a message with {what} changed")),
            Err(e) => Err(format!("{what} changed: {e}")),
        }
    };
    let mut all = || {
        for bit in 0..8 * tag.len() {
            let mut wrong = tag.to_vec();
            wrong[bit / 8] ^= 1 << (bit % 8);
            refused(
                message,
                &wrong,
                format!("bit {} of byte {} of the tag", bit % 8, bit / 8),
            )?;
        }
        let mut rng = SplitMix64::stream(rng, 0);
        for _ in 0..8 {
            let mut wrong = message.clone();
            if let Some((i, bit)) = flip(&mut wrong.text, &mut rng) {
                refused(&wrong, tag, format!("bit {bit} of byte {i} of the text"))?;
            }
            let mut wrong = message.clone();
            if let Some((i, bit)) = flip(&mut wrong.aad, &mut rng) {
                refused(
                    &wrong,
                    tag,
                    format!("bit {bit} of byte {i} of the associated data"),
                )?;
            }
            let mut wrong = message.clone();
            // Flip only bits of the nonce. The first byte of CCM's IV is not part of it, and the
            // last bytes are the counter.
            let nonce = match imp.alg().contains("ccm(") && wrong.iv.len() == 16 {
                true => 1..15 - wrong.iv[0] as usize,
                false => 0..wrong.iv.len(),
            };
            if let Some((i, bit)) = flip(&mut wrong.iv[nonce], &mut rng) {
                refused(&wrong, tag, format!("bit {bit} of byte {i} of the nonce"))?;
            }
        }
        let mut wrong = message.clone();
        wrong.aad.push(0);
        refused(&wrong, tag, "a byte more of the associated data".into())?;
        if wrong.aad.len() > 1 {
            wrong.aad.truncate(message.aad.len() - 1);
            refused(&wrong, tag, "a byte less of the associated data".into())?;
        }
        Ok(())
    };
    if let Err(e) = all() {
        return (checks, Err(e));
    }
    checks += 1;
    let result = match bench.open(imp, message, tag, layout, replay) {
        Ok(Verdict::Accepted) => Ok(()),
        Ok(Verdict::Refused) => Err("refused the right tag".into()),
        Err(e) => Err(e),
    };
    (checks, result)
}

/// Flips a random bit. Returns the index of the byte and the index of the bit.
fn flip(bytes: &mut [u8], rng: &mut SplitMix64) -> Option<(usize, usize)> {
    if bytes.is_empty() {
        return None;
    }
    let (i, bit) = (rng.below(bytes.len()), rng.below(8));
    bytes[i] ^= 1 << bit;
    Some((i, bit))
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Case::Message {
                op,
                message,
                layout,
                source,
                ..
            } => {
                if let Some(source) = source {
                    write!(f, "{source}: ")?;
                }
                let verb = match op {
                    Op::Encrypt => "encrypt or digest",
                    Op::Decrypt => "decrypt",
                };
                let from = caller::name(layout.context);
                write!(f, "{verb} {message}, {layout}, context {from}")
            }
            Case::Long { op, vector } => {
                write!(f, "{}: {op:?} {}", vector.name, vector.message)
            }
            Case::Many { many, otherwise } => {
                many.fmt(f)?;
                match otherwise {
                    Some(case) => write!(f, "; one at a time: {case}"),
                    None => Ok(()),
                }
            }
            Case::Request { request, .. } => request.fmt(f),
            Case::Wipe { key, .. } => write!(f, "a key of {} bytes in a transform", key.len()),
            Case::Key { key, .. } => write!(f, "a key of {} bytes", key.len()),
            Case::Forgery {
                message, layout, ..
            } => write!(f, "forge {message}, {layout}"),
            Case::Rejection {
                message,
                layout,
                source,
                ..
            } => write!(f, "{source}: refuse {message}, {layout}"),
        }
    }
}
