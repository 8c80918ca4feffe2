//! Calls the primitives of `kernel/` in FPU sections of limited length.

use kiln_kernel::calls::Calls;
use kiln_kernel::cipher::{Context, Impl, Kind, Op, Sections};
use kiln_kernel::messages::Messages;
use kiln_kernel::pieces::Pieces;

use crate::wire::Status;

/// Maximum bytes per FPU section. The slowest service, AES-256-CBC encryption, takes about 15 us
/// for this many bytes.
pub(crate) const BYTES: usize = 16 << 10;

/// Size in bytes of the longest digest or tag.
pub(crate) const MAX_DIGEST: usize = 64;

/// Processes one message in a separate FPU section. Returns false if the message's tag is wrong.
fn once(imp: Impl, ctx: &Context, aad: &[u8], message: Messages<'_>) -> bool {
    let mut calls = Calls {
        aad: Some(aad),
        aad_len: aad.len(),
        sections: Sections::EachUntimed,
        ..Calls::new(message)
    };
    let refused = calls.run(imp, ctx, 1);
    refused.unwrap_or_else(|e| panic!("{imp:?}: {e}")) == 0
}

/// Splits a message of `len` bytes into one piece per FPU section, and returns the piece lengths.
fn pieces(len: usize) -> Vec<usize> {
    let mut pieces = vec![BYTES; len / BYTES];
    if len % BYTES > 0 {
        pieces.push(len % BYTES);
    }
    pieces
}

/// Encrypts or decrypts all of `src` into `dst`. The implementation must support the length of
/// `src`.
pub(crate) fn crypt(imp: Impl, ctx: &Context, op: Op, iv: &[u8], src: &[u8], dst: &mut [u8]) {
    if src.len() <= BYTES {
        once(imp, ctx, &[], Messages::single(op, src, dst, iv));
        return;
    }
    let mut lens = pieces(src.len());
    // The last piece of an XTS message must contain at least one whole block.
    if let [.., before, last] = &mut lens[..] {
        if *last < imp.shortest() {
            *before -= imp.shortest();
            *last += imp.shortest();
        }
    }
    imp.pieces(
        ctx,
        &mut Pieces {
            op,
            other: None,
            src,
            dst,
            iv,
            aad: &[],
            tag_size: 0,
            aad_pieces: &[],
            pieces: &lens,
        },
    );
}

/// Computes the digest or MAC of `src`, truncated to the length of `out`.
pub(crate) fn digest(imp: Impl, ctx: &Context, src: &[u8], out: &mut [u8]) {
    debug_assert_eq!(imp.kind(), Kind::Hash);
    let mut whole = [0; MAX_DIGEST];
    let size = imp.digest_size();
    if src.len() <= BYTES {
        let message = Messages::single(Op::Encrypt, src, &mut whole[..size], &[]);
        once(imp, ctx, &[], message);
    } else {
        let lens = pieces(src.len());
        let digest = imp.pieces(
            ctx,
            &mut Pieces {
                op: Op::Encrypt,
                other: None,
                src,
                dst: &mut [],
                iv: &[],
                aad: &[],
                tag_size: 0,
                aad_pieces: &[],
                pieces: &lens,
            },
        );
        whole[..size].copy_from_slice(&digest[..size]);
    }
    out.copy_from_slice(&whole[..out.len()]);
}

/// Encrypts `src` into `dst` and appends the tag. `dst` must have space for both.
pub(crate) fn seal(
    imp: Impl,
    ctx: &Context,
    iv: &[u8],
    aad: &[u8],
    src: &[u8],
    dst: &mut [u8],
    tag_size: usize,
) {
    if src.len() + aad.len() <= BYTES {
        let message = Messages {
            tag_size,
            ..Messages::single(Op::Encrypt, src, dst, iv)
        };
        once(imp, ctx, aad, message);
    } else {
        let (text, tag) = dst.split_at_mut(src.len());
        let made = long(imp, ctx, Op::Encrypt, iv, aad, src, text, tag_size);
        tag[..tag_size].copy_from_slice(&made[..tag_size]);
    }
}

/// Decrypts `src`, which ends with the tag, into `dst`. Wipes `dst` if the tag is wrong.
pub(crate) fn open(
    imp: Impl,
    ctx: &Context,
    iv: &[u8],
    aad: &[u8],
    src: &[u8],
    dst: &mut [u8],
    tag_size: usize,
) -> Result<(), Status> {
    let (text, tag) = src.split_at(src.len() - tag_size);
    let right = if text.len() + aad.len() <= BYTES {
        let message = Messages {
            len: text.len(),
            tag_size,
            ..Messages::single(Op::Decrypt, src, dst, iv)
        };
        once(imp, ctx, aad, message)
    } else {
        let made = long(imp, ctx, Op::Decrypt, iv, aad, text, dst, tag_size);
        same(&made[..tag_size], tag)
    };
    if right {
        return Ok(());
    }
    dst.fill(0);
    Err(Status::BadMsg)
}

#[allow(clippy::too_many_arguments)]
fn long(
    imp: Impl,
    ctx: &Context,
    op: Op,
    iv: &[u8],
    aad: &[u8],
    src: &[u8],
    dst: &mut [u8],
    tag_size: usize,
) -> Vec<u8> {
    imp.pieces(
        ctx,
        &mut Pieces {
            op,
            other: None,
            src,
            dst,
            iv,
            aad,
            tag_size,
            aad_pieces: &pieces(aad.len()),
            pieces: &pieces(src.len()),
        },
    )
}

/// Compares two byte strings in constant time.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differ = a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y));
    a.len() == b.len() && std::hint::black_box(differ) == 0
}
