//! Hashes of every short length, of lengths around the steps of the long loops, and in every two
//! pieces around a block.

use kiln_kernel::cipher::{Context, Impl, Kind, Op, Pieces};

use crate::buffer::{call, Message, Random};

/// A key whose bytes differ, where there is one: of 37 bytes, where it may have any length.
fn key(imp: Impl) -> Vec<u8> {
    let sizes = imp.key_sizes();
    let most = sizes.last().copied().unwrap_or(0);
    let len = if sizes.contains(&37) { 37 } else { most };
    (0..len).map(|i| i as u8).collect()
}

/// Every algorithm's usable implementations, the judge first.
fn families() -> Vec<Vec<Impl>> {
    Impl::algorithms()
        .into_iter()
        .map(Impl::find_all)
        .filter(|impls| impls[0].kind() == Kind::Hash)
        .map(|impls| impls.into_iter().filter(|i| i.tier().usable()).collect())
        .collect()
}

#[test]
fn every_length() {
    // Parts of CRC-32C's tiers are 192, 448, 896, 1008, 4032 and 4080 bytes.
    let long = [1400, 2016, 4032, 4080, 4928, 8064, 8160, 16384, 40320]
        .into_iter()
        .flat_map(|n| n - 9..n + 9);
    let lengths: Vec<usize> = (0..1100).chain(long).collect();
    for impls in families() {
        let judge = impls[0];
        let ctx = Context::new(judge, &key(judge)).expect("a size it takes");
        for &len in &lengths {
            let message = Message {
                key: key(judge),
                text: Random(len as u64).bytes(len),
                ..Message::default()
            };
            let digest = |imp| call(imp, &ctx, Op::Encrypt, &message, &[], false, len % 64).tag;
            let want = digest(judge);
            for &imp in &impls[1..] {
                assert_eq!(digest(imp), want, "{imp:?}: {len} bytes");
            }
        }
    }
}

/// RFC 2104, section 3: a key longer than a block stands for its digest.
#[test]
fn hmac_keys_may_have_any_length() {
    for hash in ["sha1", "sha256", "sha512"] {
        let plain = Impl::find_all(hash)[0];
        let mac = Impl::find_all(&format!("hmac({hash})"))[0];
        let digest = |imp: Impl, key: &[u8], text: &[u8]| {
            let ctx = Context::new(imp, key)
                .unwrap_or_else(|e| panic!("{imp:?}: a key of {} bytes", e.0));
            let message = Message {
                key: key.to_vec(),
                text: text.to_vec(),
                ..Message::default()
            };
            call(imp, &ctx, Op::Encrypt, &message, &[], false, 0).tag
        };
        let block = plain.block_size();
        let text = Random(1).bytes(100);
        for len in [block + 1, 255, 256, 257, 300, 511, 512, 4096, 100_003] {
            let key = Random(len as u64).bytes(len);
            let short = digest(plain, &[], &key);
            let want = digest(mac, &short, &text);
            assert_eq!(digest(mac, &key, &text), want, "{mac:?}: {len} bytes");
        }
        // A key of one block is not hashed.
        let key = Random(9).bytes(block);
        let short = digest(plain, &[], &key);
        assert_ne!(digest(mac, &key, &text), digest(mac, &short, &text));
    }
}

#[test]
fn every_two_pieces() {
    for impls in families() {
        let ctx = Context::new(impls[0], &key(impls[0])).expect("a size it takes");
        for imp in impls {
            for len in [imp.block_size().max(64) + 3, 300] {
                let text = Random(3).bytes(len);
                let digest = |pieces: &[usize]| {
                    imp.pieces(
                        &ctx,
                        &mut Pieces {
                            op: Op::Encrypt,
                            other: None,
                            src: &text,
                            dst: &mut [],
                            iv: &[],
                            aad: &[],
                            tag_size: 0,
                            aad_pieces: &[],
                            pieces,
                        },
                    )
                };
                let want = digest(&[len]);
                for first in 0..=len {
                    let got = digest(&[first, len - first]);
                    assert_eq!(got, want, "{imp:?}: {first} of {len} bytes, then the rest");
                }
            }
        }
    }
}
