//! Serves data requests: applies a session's algorithm to a parsed request and writes the result.

use kiln_kernel::cipher::Op;

use crate::section;
use crate::session::{Digest, Keyed, Order, Session};
use crate::wire::{data, Action, Operation, Request, Status};
use crate::Worker;

/// Serves a request and returns the length of the result. The length of `dst` must equal
/// `request.op.room(request.action)`.
pub(crate) fn serve(
    session: &Session,
    worker: &mut Worker,
    request: &Request<'_>,
    dst: &mut [u8],
) -> Result<usize, Status> {
    match (session, request.op) {
        (Session::Cipher { keyed, op }, Operation::Cipher(data)) => {
            same_way(*op, request.action)?;
            let dst = exactly(dst, data.dst_len, request.src)?;
            cipher(keyed, *op, request.iv, request.src, dst)?;
            Ok(dst.len())
        }
        (
            Session::Chain {
                keyed,
                op,
                hash,
                order,
            },
            Operation::Chain(data),
        ) => {
            same_way(*op, request.action)?;
            let chain = Chain {
                keyed,
                op: *op,
                hash,
                order: *order,
            };
            chain.serve(worker, request, &data, dst)
        }
        (Session::Hash(hash), Operation::Hash(data)) => digest(hash, data, request.src, dst),
        (Session::Mac(mac), Operation::Mac(data)) => digest(mac, data, request.src, dst),
        (Session::Aead { keyed, op, tag_len }, Operation::Aead(data)) => {
            same_way(*op, request.action)?;
            if ![0, *tag_len].contains(&(data.tag_len as usize)) {
                return Err(Status::Err);
            }
            aead(keyed, *op, *tag_len, request, dst)
        }
        (Session::Akcipher(key), Operation::Akcipher(_)) => {
            key.serve(request.action, request.src, request.aad, dst)
        }
        // The session belongs to another service, so its ID is invalid here.
        _ => Err(Status::InvSess),
    }
}

fn same_way(op: Op, action: Action) -> Result<(), Status> {
    match (op, action) {
        (Op::Encrypt, Action::Encrypt) | (Op::Decrypt, Action::Decrypt) => Ok(()),
        _ => Err(Status::Err),
    }
}

/// Returns the first `src.len()` bytes of `dst`, if `dst_len` equals that length and `dst` is long
/// enough.
fn exactly<'a>(dst: &'a mut [u8], dst_len: u32, src: &[u8]) -> Result<&'a mut [u8], Status> {
    if dst_len as usize != src.len() {
        return Err(Status::Err);
    }
    dst.get_mut(..src.len()).ok_or(Status::Err)
}

/// Encrypts or decrypts a message of any length that the mode accepts.
fn cipher(keyed: &Keyed, op: Op, iv: &[u8], src: &[u8], dst: &mut [u8]) -> Result<(), Status> {
    let imp = keyed.imp;
    let whole = src.len() % imp.block_size().max(1) == 0 && src.len() >= imp.shortest();
    // ECB has no IV, but drivers may send one anyway.
    if !whole || (iv.len() != imp.iv_size() && imp.iv_size() != 0) {
        return Err(Status::Err);
    }
    if !src.is_empty() {
        section::crypt(imp, &keyed.ctx, op, iv, src, dst);
    }
    Ok(())
}

fn digest(
    digest: &Digest,
    data: data::Digest,
    src: &[u8],
    dst: &mut [u8],
) -> Result<usize, Status> {
    if data.result_len as usize != digest.result_len {
        return Err(Status::Err);
    }
    let out = dst.get_mut(..digest.result_len).ok_or(Status::Err)?;
    section::digest(digest.keyed.imp, &digest.keyed.ctx, src, out);
    Ok(out.len())
}

struct Chain<'a> {
    keyed: &'a Keyed,
    op: Op,
    hash: &'a Digest,
    order: Order,
}

impl Chain<'_> {
    /// Serves a chain request, which selects a cipher region and a hash region of the source. The
    /// cipher processes its region, and the bytes outside that region are copied. The hash covers
    /// the associated data and the hash region, and is computed before or after the cipher runs.
    /// The hash is written after the text.
    fn serve(
        &self,
        worker: &mut Worker,
        request: &Request<'_>,
        data: &data::Chain,
        dst: &mut [u8],
    ) -> Result<usize, Status> {
        if data.dst_len as usize != request.src.len()
            || data.result_len as usize != self.hash.result_len
        {
            return Err(Status::Err);
        }
        let ciphered = region(request.src.len(), data.cipher_start, data.cipher_len)?;
        let hashed = region(request.src.len(), data.hash_start, data.hash_len)?;
        let (text, rest) = dst
            .split_at_mut_checked(request.src.len())
            .ok_or(Status::Err)?;
        let out = rest.get_mut(..self.hash.result_len).ok_or(Status::Err)?;
        if self.order == Order::HashThenCipher {
            self.hash(worker, request.aad, &request.src[hashed.clone()], out);
        }
        text[..ciphered.start].copy_from_slice(&request.src[..ciphered.start]);
        text[ciphered.end..].copy_from_slice(&request.src[ciphered.end..]);
        let src = &request.src[ciphered.clone()];
        cipher(self.keyed, self.op, request.iv, src, &mut text[ciphered])?;
        if self.order == Order::CipherThenHash {
            self.hash(worker, request.aad, &text[hashed], out);
        }
        Ok(text.len() + out.len())
    }

    fn hash(&self, worker: &mut Worker, aad: &[u8], region: &[u8], out: &mut [u8]) {
        let Keyed { imp, ctx } = &self.hash.keyed;
        if aad.is_empty() {
            return section::digest(*imp, ctx, region, out);
        }
        worker.joined.clear();
        worker.joined.extend_from_slice(aad);
        worker.joined.extend_from_slice(region);
        section::digest(*imp, ctx, &worker.joined, out);
        worker.joined.fill(0);
    }
}

fn region(len: usize, start: u32, of: u32) -> Result<std::ops::Range<usize>, Status> {
    let (start, of) = (start as usize, of as usize);
    let end = start.checked_add(of).filter(|&end| end <= len);
    end.map(|end| start..end).ok_or(Status::Err)
}

/// Converts the IV to the format that `kernel/` expects. Returns the IV and its length.
fn aead_iv(keyed: &Keyed, iv: &[u8]) -> Result<([u8; 16], usize), Status> {
    let mut full = [0; 16];
    match (keyed.imp.alg(), iv.len()) {
        ("ccm(aes)", n @ 7..=13) => {
            // The first byte is the width in bytes of CCM's length field, minus 1. The nonce
            // follows.
            full[0] = 14 - n as u8;
            full[1..=n].copy_from_slice(iv);
            Ok((full, 16))
        }
        ("gcm(aes)", 16) if iv[12..] == [0, 0, 0, 1] => {
            // The IV may also be a whole counter block, whose first 12 bytes are the nonce.
            full[..12].copy_from_slice(&iv[..12]);
            Ok((full, 12))
        }
        ("gcm(aes)", 16) => Err(Status::NotSupp),
        ("gcm(aes)" | "rfc7539(chacha20,poly1305)", 12) => {
            full[..12].copy_from_slice(iv);
            Ok((full, 12))
        }
        _ => Err(Status::Err),
    }
}

fn aead(
    keyed: &Keyed,
    op: Op,
    tag_len: usize,
    request: &Request<'_>,
    dst: &mut [u8],
) -> Result<usize, Status> {
    let Keyed { imp, ctx } = keyed;
    let (iv, iv_len) = aead_iv(keyed, request.iv)?;
    let iv = &iv[..iv_len];
    let (aad, src) = (request.aad, request.src);
    let len = match op {
        Op::Encrypt => src.len().checked_add(tag_len),
        Op::Decrypt => src.len().checked_sub(tag_len),
    };
    let dst = len.and_then(|n| dst.get_mut(..n)).ok_or(Status::Err)?;
    let text = src.len().min(dst.len()) as u64;
    if text > imp.longest() as u64 {
        return Err(Status::Err);
    }
    // In CCM, the length of the text must fit in the length field, which is iv[0] + 1 bytes wide.
    if imp.alg() == "ccm(aes)" && iv[0] < 3 && text >> (8 * (u32::from(iv[0]) + 1)) != 0 {
        return Err(Status::Err);
    }
    match op {
        Op::Encrypt => section::seal(*imp, ctx, iv, aad, src, dst, tag_len),
        Op::Decrypt => section::open(*imp, ctx, iv, aad, src, dst, tag_len)?,
    }
    Ok(dst.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_stay_inside() {
        assert_eq!(region(10, 4, 6), Ok(4..10));
        assert_eq!(region(10, 10, 0), Ok(10..10));
        assert_eq!(region(10, 4, 7), Err(Status::Err));
        assert_eq!(region(10, u32::MAX, u32::MAX), Err(Status::Err));
    }

    #[test]
    fn directions_are_those_of_the_session() {
        assert_eq!(same_way(Op::Encrypt, Action::Encrypt), Ok(()));
        assert_eq!(same_way(Op::Encrypt, Action::Decrypt), Err(Status::Err));
    }
}
