//! The fixed part of a request to a service whose stateless mode was negotiated: session
//! parameters, followed by lengths.
//!
//! The specification ties this format to the feature bit instead of the request's flag (section
//! 5.9.7.3). Requests in session mode therefore also use it, and their session parameters are
//! ignored.

use super::algo::{HASH_MODE_AUTH, SYM_OP_CHAIN, SYM_OP_CIPHER};
use super::bytes::{Put, Reader};
use super::operation::{self, Operation};
use super::session::{self, ChainHash};
use super::{Create, Fault, Service};

/// `VIRTIO_CRYPTO_SYM_DATE_REQ_HDR_STATELESS_SIZE`: number of bytes before the `op_type` of a
/// symmetric request.
const SYM: usize = 72;

/// Parses the lengths and the session parameters. In session mode the caller ignores the
/// parameters.
pub(super) fn parse(
    service: Service,
    in_session: bool,
    r: &mut Reader<'_>,
) -> Result<(Operation, Create), Fault> {
    Ok(match service {
        Service::Cipher => {
            let mut body = Reader(r.take(SYM)?);
            match r.u32()? {
                SYM_OP_CIPHER => {
                    let [algo, key_len, op] = body.words()?;
                    let create = session::Cipher { algo, key_len, op };
                    let op = operation::Cipher::parse(&mut body)?;
                    (Operation::Cipher(op), Create::Cipher(create))
                }
                SYM_OP_CHAIN => chain(in_session, &mut body)?,
                n => return Err(Fault::OpType(n)),
            }
        }
        Service::Hash => {
            let [algo, src_len, result_len, _] = r.words()?;
            (
                Operation::Hash(operation::Digest {
                    src_len,
                    result_len,
                }),
                Create::Hash(session::Hash { algo, result_len }),
            )
        }
        Service::Mac => {
            let [algo, key_len, src_len, result_len] = r.words()?;
            (
                Operation::Mac(operation::Digest {
                    src_len,
                    result_len,
                }),
                Create::Mac(session::Mac {
                    algo,
                    result_len,
                    key_len,
                }),
            )
        }
        Service::Aead => {
            let [algo, key_len, op, iv_len, tag_len, aad_len, src_len, dst_len] = r.words()?;
            (
                Operation::Aead(operation::Aead {
                    iv_len,
                    aad_len,
                    src_len,
                    dst_len,
                    tag_len,
                }),
                Create::Aead(session::Aead {
                    algo,
                    key_len,
                    tag_len,
                    aad_len,
                    op,
                }),
            )
        }
        Service::Akcipher => {
            let [algo, key_type, key_len, para, more] = r.words()?;
            let op = operation::Akcipher::parse(r)?;
            let create = session::Akcipher {
                algo,
                key_type,
                key_len,
                para: [para, more],
            };
            (Operation::Akcipher(op), Create::Akcipher(create))
        }
    })
}

fn chain(in_session: bool, body: &mut Reader<'_>) -> Result<(Operation, Create), Fault> {
    let [order, aad_len, algo, key_len, op] = body.words()?;
    let [hash_algo, hash_key_len, mut hash_mode] = body.words()?;
    if in_session {
        hash_mode = HASH_MODE_AUTH;
    }
    let data = operation::Chain::parse(body)?;
    let create = session::Chain {
        order,
        cipher: session::Cipher { algo, key_len, op },
        hash: ChainHash::new(hash_mode, hash_algo, data.result_len, hash_key_len)?,
        aad_len,
    };
    Ok((Operation::Chain(data), Create::Chain(create)))
}

/// Appends the session parameters and the lengths. In session mode, `create` is `None` and the
/// parameters are zero.
pub(super) fn emit(op: &Operation, create: Option<&Create>, out: &mut Vec<u8>) {
    let start = out.len();
    match *op {
        Operation::Cipher(op) => {
            out.words(&match create {
                Some(Create::Cipher(c)) => [c.algo, c.key_len, c.op],
                _ => [0; 3],
            });
            out.words(&op.words());
            out.pad(start, SYM);
            out.words(&[SYM_OP_CIPHER]);
        }
        Operation::Chain(op) => {
            out.words(&match create {
                Some(Create::Chain(c)) => {
                    let [mode, algo, _, key_len] = c.hash.words();
                    let cipher = c.cipher;
                    [
                        c.order,
                        c.aad_len,
                        cipher.algo,
                        cipher.key_len,
                        cipher.op,
                        algo,
                        key_len,
                        mode,
                    ]
                }
                _ => [0; 8],
            });
            out.words(&op.words());
            out.pad(start, SYM);
            out.words(&[SYM_OP_CHAIN]);
        }
        Operation::Hash(op) => {
            let algo = create.map_or(0, Create::algo);
            out.words(&[algo, op.src_len, op.result_len, 0]);
        }
        Operation::Mac(op) => {
            let [algo, key_len] = match create {
                Some(Create::Mac(m)) => [m.algo, m.key_len],
                _ => [0; 2],
            };
            out.words(&[algo, key_len, op.src_len, op.result_len]);
        }
        Operation::Aead(op) => {
            out.words(&match create {
                Some(Create::Aead(a)) => [a.algo, a.key_len, a.op],
                _ => [0; 3],
            });
            out.words(&[op.iv_len, op.tag_len, op.aad_len, op.src_len, op.dst_len]);
        }
        Operation::Akcipher(op) => {
            out.words(&match create {
                Some(Create::Akcipher(a)) => [a.algo, a.key_type, a.key_len, a.para[0], a.para[1]],
                _ => [0; 5],
            });
            out.words(&[op.src_len, op.dst_len]);
        }
    }
}
