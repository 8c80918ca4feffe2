//! Computes the expected result for a message with the reference implementation of its algorithm.
//! The reference implementation is the table-based one or, for algorithms without one, the
//! simplest.

use kiln_kernel::call::{Call, Entry};
use kiln_kernel::cipher::{Context as Keyed, Impl, Kind, Op};
use kiln_kernel::fpu::Context;

use super::message::{Answer, Message};

/// The expected result for a message, and the context that `setkey` derives from the message's key.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The expected output.
    pub answer: Answer,
    /// The context that `setkey` derives from the key. It is the same for all tiers.
    pub context: Vec<u8>,
}

/// Computes the result of `judge` for `message`. When an authenticated message is decrypted, `tag`
/// is the tag to check.
pub fn judge(judge: Impl, op: Op, message: &Message, tag: &[u8]) -> Result<Judged, String> {
    let keyed = Keyed::new(judge, &message.key)
        .map_err(|_| format!("the judge refuses a key of {} bytes", message.key.len()))?;
    let context = keyed.bytes()[..judge.context_size()].to_vec();
    let mut answer = Answer {
        text: match judge.kind() {
            Kind::Hash => Vec::new(),
            _ => vec![0; message.text.len()],
        },
        tag: match (judge.kind(), op) {
            (Kind::Skcipher, _) => Vec::new(),
            (Kind::Aead, Op::Decrypt) => tag.to_vec(),
            (Kind::Aead, Op::Encrypt) => vec![0; message.tag_size],
            (Kind::Hash, _) => vec![0; judge.digest_size()],
        },
        iv: message.iv.clone(),
    };
    let entry = match (judge.kind(), op) {
        (Kind::Skcipher, Op::Encrypt) => Entry::Encrypt,
        (Kind::Skcipher, Op::Decrypt) => Entry::Decrypt,
        (Kind::Aead, Op::Encrypt) => Entry::Seal,
        (Kind::Aead, Op::Decrypt) => Entry::Open,
        (Kind::Hash, _) => Entry::Digest,
    };
    let ctx = keyed.bytes().as_ptr() as u64;
    let (dst, src) = (
        answer.text.as_mut_ptr() as u64,
        message.text.as_ptr() as u64,
    );
    let (len, out) = (message.text.len() as u64, answer.tag.as_mut_ptr() as u64);
    let iv = answer.iv.as_mut_ptr() as u64;
    let args = match judge.kind() {
        Kind::Skcipher => [ctx, dst, src, len, iv, 0, 0, 0, 0],
        Kind::Aead => [
            ctx,
            dst,
            src,
            len,
            message.aad.as_ptr() as u64,
            message.aad.len() as u64,
            iv,
            out,
            message.tag_size as u64,
        ],
        Kind::Hash => [ctx, src, len, out, 0, 0, 0, 0, 0],
    };
    let call = Call {
        function: judge
            .function(entry)
            .ok_or_else(|| format!("{} has no {entry:?}", judge.driver()))?,
        scalar: None,
        args,
        context: Context::Task,
        through: None,
        step: false,
    };
    // SAFETY: the pointers refer to buffers with these lengths, which outlive the call.
    match unsafe { call.make() } {
        Some(r) if entry == Entry::Open && r.result as i32 != 0 => {
            Err("the judge refuses what it made".into())
        }
        Some(_) => Ok(Judged { answer, context }),
        None => Err("the judge could not be called".into()),
    }
}

/// Creates a message for the operation `op`, and the expected result. For decryption, encrypts the
/// given message first.
pub fn task(with: Impl, op: Op, message: Message) -> Result<(Message, Judged), String> {
    let sealed = judge(with, Op::Encrypt, &message, &[])?;
    if op == Op::Encrypt || with.kind() == Kind::Hash {
        return Ok((message, sealed));
    }
    let back = Message {
        text: sealed.answer.text,
        ..message.clone()
    };
    let judged = judge(with, Op::Decrypt, &back, &sealed.answer.tag)?;
    match judged.answer.text == message.text {
        true => Ok((back, judged)),
        false => Err(format!("{} does not invert itself", with.driver())),
    }
}

/// Checks that `got` equals `want`. Otherwise returns an error that states the position of the
/// first difference.
pub(super) fn same(what: &str, got: &[u8], want: &[u8]) -> Result<(), String> {
    if got == want {
        return Ok(());
    }
    if got.len() != want.len() {
        return Err(format!(
            "{what}: {} bytes and not {}",
            got.len(),
            want.len()
        ));
    }
    let at = got.iter().zip(want).position(|(g, w)| g != w).unwrap_or(0);
    Err(format!(
        "{what}: byte {at} of {} is {:02x} and should be {:02x}",
        want.len(),
        got[at],
        want[at]
    ))
}
