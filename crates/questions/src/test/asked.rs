//! Creates the requests for the tests: random requests, and a fixed list of request forms, some
//! valid and some invalid.

use kiln_kernel::cipher::{Impl, Kind, Op};
use kiln_kernel::fpu::Context;
use kiln_measure::SplitMix64;

use super::caller::CONTEXTS;
use super::judge::task;
use super::message::{bytes, whole, Message};
use super::request::{Request, Twist};

/// How many tag sizes are tried above the largest valid size.
const BEYOND: usize = 8;
/// Longest associated data that is tried, in bytes.
const ASSOCIATED: usize = 40;
/// How many message lengths are tried, starting with 0.
const LENS: usize = 130;
/// How many key lengths are tried above the longest valid length.
const KEYS_BEYOND: usize = 33;
/// The smallest length that two bytes cannot represent.
const TOO_LONG: usize = 1 << 16;
/// A length that every algorithm accepts.
const LEN: usize = 48;

/// A form of request. Each form is tried once in each direction.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// A message of this length.
    Len(usize),
    /// A tag of this size.
    Tag(usize),
    /// Associated data of this length. For IPsec, the length includes the IV.
    Associated(usize),
    /// A nonce that begins with this byte, for CCM.
    Nonce(u8),
    /// For CCM, a message that is too long for a two-byte length field.
    TooLong,
    /// For decryption: an input (ciphertext and tag) of this length, which is too short to hold
    /// even the tag. For encryption: a plaintext of this length, which must be accepted.
    ShorterThanTag(usize),
    /// Any other deviation from a correct request.
    Twisted(Twist),
}

fn forms(imp: Impl) -> Vec<Form> {
    let mut forms = Vec::new();
    let aead = imp.kind() == Kind::Aead;
    forms.extend((0..LENS).map(Form::Len));
    if aead {
        forms.extend((0..=imp.digest_size() + BEYOND).map(Form::Tag));
        forms.extend((0..=ASSOCIATED).map(Form::Associated));
        forms.extend((0..imp.digest_size()).map(Form::ShorterThanTag));
    }
    if is_ccm(imp) {
        forms.extend((0..=255).map(Form::Nonce));
        forms.push(Form::TooLong);
    }
    if let Some(longest) = imp.key_sizes().last() {
        let sizes = 0..=longest + KEYS_BEYOND;
        let bad = sizes.filter(|&n| !imp.takes_key(n));
        forms.extend(bad.map(|n| Form::Twisted(Twist::BadKey(n))));
        forms.push(Form::Twisted(Twist::NoKey));
    }
    if imp.kind() != Kind::Hash {
        let all = [Twist::ShortSource, Twist::ShortDestination, Twist::Hardirq];
        forms.extend(all.map(Form::Twisted));
    }
    forms
}

fn is_ccm(imp: Impl) -> bool {
    imp.alg().starts_with("ccm(")
}

fn is_ipsec(imp: Impl) -> bool {
    imp.alg().starts_with("rfc4106(")
}

fn directions(imp: Impl) -> usize {
    match imp.kind() {
        Kind::Hash => 1,
        _ => 2,
    }
}

/// Returns the number of refusal tests for one implementation: one for each combination of form and
/// direction.
pub(crate) fn refusals(imp: Impl) -> u64 {
    (forms(imp).len() * directions(imp)) as u64
}

/// Creates refusal test number `n`.
pub(crate) fn refusal(judge: Impl, rng: &mut SplitMix64, n: u64) -> Result<Request, String> {
    let n = n as usize;
    let form = forms(judge)[n / directions(judge)];
    let op = [Op::Encrypt, Op::Decrypt][n % directions(judge)];
    let mut message = Message::draw(judge, rng, Some(LEN));
    in_form(judge, &mut message, rng);
    let mut twist = Twist::None;
    let bad = |is: bool| if is { Twist::Message } else { Twist::None };
    match form {
        Form::Len(len) => {
            message.text = bytes(rng, len);
            let takes = whole(judge, len) == len;
            twist = bad(!takes);
            if is_ccm(judge) {
                message.iv[0] = 3;
            }
        }
        Form::Tag(size) if judge.tag_sizes().contains(&size) => message.tag_size = size,
        Form::Tag(size) => twist = Twist::BadTag(size),
        // IPsec's associated data consists of the SPI (four bytes), a sequence number of four or
        // eight bytes, and the IV.
        Form::Associated(len @ (16 | 20)) if is_ipsec(judge) => {
            message.aad = bytes(rng, len - message.iv.len());
        }
        Form::Associated(len) if is_ipsec(judge) => twist = Twist::BadAssociated(len),
        Form::Associated(len) => message.aad = bytes(rng, len),
        Form::Nonce(first) => {
            message.iv[0] = first;
            twist = bad(!(1..=7).contains(&first));
        }
        Form::TooLong => {
            message.iv[0] = 1;
            message.text = bytes(rng, TOO_LONG);
            twist = Twist::Message;
        }
        Form::ShorterThanTag(len) if op == Op::Decrypt => {
            message.tag_size = judge.digest_size();
            twist = Twist::ShorterThanTag(len);
        }
        Form::ShorterThanTag(len) => message.text = bytes(rng, len),
        Form::Twisted(other) => twist = other,
    }
    let context = match twist {
        Twist::Hardirq => Context::Hardirq,
        _ => CONTEXTS[rng.below(3)],
    };
    if !matches!(twist, Twist::None | Twist::BadTag(_)) {
        return Ok(Request {
            op,
            message,
            judged: None,
            twist,
            context,
            rng: rng.next_u64(),
        });
    }
    judged(judge, op, message, twist, context, rng)
}

fn judged(
    judge: Impl,
    op: Op,
    message: Message,
    twist: Twist,
    context: Context,
    rng: &mut SplitMix64,
) -> Result<Request, String> {
    let (message, judged) = task(judge, op, message)?;
    Ok(Request {
        op,
        message,
        judged: Some(judged),
        twist,
        context,
        rng: rng.next_u64(),
    })
}

/// Creates random request number `n`. The number also determines the caller's context.
pub(crate) fn random(judge: Impl, rng: &mut SplitMix64, n: u64) -> Result<Request, String> {
    // Make some messages span several pages, to test that lists of pieces are processed correctly
    // across page boundaries.
    let pages = rng.one_in(32).then(|| 3800 + rng.below(9000));
    let mut message = Message::draw(judge, rng, pages);
    in_form(judge, &mut message, rng);
    let op = [Op::Encrypt, Op::Decrypt][rng.below(2)];
    let contexts = match judge.kind() {
        Kind::Hash => &CONTEXTS[..],
        // Exclude the last context, the hardirq, in which only hashes may be requested.
        _ => &CONTEXTS[..3],
    };
    let forged = judge.kind() == Kind::Aead && op == Op::Decrypt && rng.one_in(8);
    let twist = match forged {
        true => Twist::Forged(rng.below(message.tag_size)),
        false => Twist::None,
    };
    let context = contexts[n as usize % contexts.len()];
    judged(judge, op, message, twist, context, rng)
}

/// Gives the associated data of an IPsec message one of its two valid lengths.
fn in_form(judge: Impl, message: &mut Message, rng: &mut SplitMix64) {
    if is_ipsec(judge) {
        let len = [8, 12][rng.below(2)];
        message.aad = bytes(rng, len);
    }
}
