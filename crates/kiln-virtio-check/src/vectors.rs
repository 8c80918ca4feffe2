//! A published test vector for each algorithm, from SP 800-38A, IEEE 1619, FIPS 180-4, the GCM
//! specification, and RFCs 2202, 4231, 4493, 3610, 8439 and 6979. The RSA vector was computed by
//! hand.

use kiln_virtio::wire::algo::{aead, akcipher, cipher, hash, mac, OP_DECRYPT, OP_ENCRYPT};
use kiln_virtio::wire::data::{self, Mode};
use kiln_virtio::wire::{session, Action, Create, Operation, Request};

/// The parameters of a session, a request in this session, and the expected answer.
#[derive(Clone)]
pub(crate) struct Vector {
    pub name: &'static str,
    pub create: Create,
    pub key: Vec<u8>,
    pub action: Action,
    pub op: Operation,
    pub iv: Vec<u8>,
    pub aad: Vec<u8>,
    pub src: Vec<u8>,
    pub want: Vec<u8>,
}

impl Vector {
    pub(crate) fn request<'a>(&'a self, mode: Mode<'a>) -> Request<'a> {
        Request {
            action: self.action,
            mode,
            op: self.op,
            iv: &self.iv,
            src: &self.src,
            aad: &self.aad,
        }
    }

    /// Returns the parameters and the key, for a request without a session.
    pub(crate) fn stateless(&self) -> Mode<'_> {
        Mode::Stateless {
            create: self.create,
            key: &self.key,
            auth_key: &[],
        }
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digit = |b: u8| (b as char).to_digit(16).map_or(0, |d| d as u8);
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|d| digit(d[0]) << 4 | digit(d[1]))
        .collect()
}

fn ciphered(name: &'static str, algo: u32, key: &str, iv: &str, src: &str, want: &str) -> Vector {
    let (key, iv, src, want) = (hex(key), hex(iv), hex(src), hex(want));
    Vector {
        name,
        create: Create::Cipher(session::Cipher {
            algo,
            key_len: key.len() as u32,
            op: OP_ENCRYPT,
        }),
        key,
        action: Action::Encrypt,
        op: Operation::Cipher(data::Cipher {
            iv_len: iv.len() as u32,
            src_len: src.len() as u32,
            dst_len: src.len() as u32,
        }),
        iv,
        aad: vec![],
        src,
        want,
    }
}

fn digested(name: &'static str, algo: u32, key: Option<&[u8]>, src: &[u8], want: &str) -> Vector {
    let want = hex(want);
    let result_len = want.len() as u32;
    let data = data::Digest {
        src_len: src.len() as u32,
        result_len,
    };
    let (create, op) = match key {
        None => (
            Create::Hash(session::Hash { algo, result_len }),
            Operation::Hash(data),
        ),
        Some(key) => (
            Create::Mac(session::Mac {
                algo,
                result_len,
                key_len: key.len() as u32,
            }),
            Operation::Mac(data),
        ),
    };
    Vector {
        name,
        create,
        key: key.unwrap_or(&[]).to_vec(),
        action: Action::Digest,
        op,
        iv: vec![],
        aad: vec![],
        src: src.to_vec(),
        want,
    }
}

fn sealed(name: &'static str, algo: u32, [key, iv, aad, src, want]: [&str; 5]) -> Vector {
    let (key, iv, aad, src, want) = (hex(key), hex(iv), hex(aad), hex(src), hex(want));
    let tag_len = (want.len() - src.len()) as u32;
    Vector {
        name,
        create: Create::Aead(session::Aead {
            algo,
            key_len: key.len() as u32,
            tag_len,
            aad_len: aad.len() as u32,
            op: OP_ENCRYPT,
        }),
        key,
        action: Action::Encrypt,
        op: Operation::Aead(data::Aead {
            iv_len: iv.len() as u32,
            aad_len: aad.len() as u32,
            src_len: src.len() as u32,
            dst_len: want.len() as u32,
            tag_len,
        }),
        iv,
        aad,
        src,
        want,
    }
}

/// Returns the vector for the inverse operation, or `None` if the operation has no inverse.
pub(crate) fn inverse(vector: &Vector) -> Option<Vector> {
    let (src, want) = (vector.want.clone(), vector.src.clone());
    let (src_len, dst_len) = (src.len() as u32, want.len() as u32);
    let (create, op) = match (vector.create, vector.op) {
        (Create::Cipher(c), Operation::Cipher(data)) => (
            Create::Cipher(session::Cipher {
                op: OP_DECRYPT,
                ..c
            }),
            Operation::Cipher(data::Cipher {
                src_len,
                dst_len,
                ..data
            }),
        ),
        (Create::Aead(a), Operation::Aead(data)) => (
            Create::Aead(session::Aead {
                op: OP_DECRYPT,
                ..a
            }),
            Operation::Aead(data::Aead {
                src_len,
                dst_len,
                ..data
            }),
        ),
        _ => return None,
    };
    Some(Vector {
        create,
        action: Action::Decrypt,
        op,
        src,
        want,
        ..vector.clone()
    })
}

/// Returns a vector that contains the public key from RFC 6979, section A.2.5, and the signature of
/// "sample" given there.
fn ecdsa() -> Vector {
    let point = hex(
        "04 60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6
            7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299",
    );
    let signature = hex(
        "3046 022100 efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716
              022100 f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
    );
    Vector {
        name: "ecdsa-p256 verify",
        create: Create::Akcipher(session::Akcipher {
            algo: akcipher::ECDSA,
            key_type: akcipher::PUBLIC,
            key_len: point.len() as u32,
            para: [akcipher::P256, 0],
        }),
        key: point,
        action: Action::Verify,
        op: Operation::Akcipher(data::Akcipher {
            src_len: signature.len() as u32,
            dst_len: 32,
        }),
        iv: vec![],
        aad: hex("af2bdbe1aa9b6ec1e2ade1d694f41fc71a831d0268e9891562113d8a62add1bf"),
        src: signature,
        want: vec![],
    }
}

/// Returns a vector that raises a small number to the third power. The result is smaller than the
/// modulus, and therefore does not depend on the modulus.
fn rsa() -> Vector {
    let mut n = vec![0xc1; 64];
    n[63] = 0x0d;
    let key = [&hex("3046 0241 00")[..], &n, &hex("020103")].concat();
    let mut want = vec![0; 64];
    // The result is 0x0100 cubed, which is 0x01000000.
    want[60] = 1;
    let mut src = vec![0; 64];
    src[62] = 1;
    Vector {
        name: "rsa raw encrypt",
        create: Create::Akcipher(session::Akcipher {
            algo: akcipher::RSA,
            key_type: akcipher::PUBLIC,
            key_len: key.len() as u32,
            para: [akcipher::RAW_PADDING, 0],
        }),
        key,
        action: Action::Encrypt,
        op: Operation::Akcipher(data::Akcipher {
            src_len: 64,
            dst_len: 64,
        }),
        iv: vec![],
        aad: vec![],
        src,
        want,
    }
}

/// Returns one vector for each algorithm that this file supports.
pub(crate) fn all() -> Vec<Vector> {
    const TEXT: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51";
    const KEY: &str = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
    let hmac_text = b"what do ya want for nothing?";
    let cmac_key = hex("2b7e151628aed2a6abf7158809cf4f3c");
    vec![
        ciphered(
            "aes-ecb",
            cipher::AES_ECB,
            KEY,
            "",
            TEXT,
            "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870",
        ),
        ciphered(
            "aes-cbc",
            cipher::AES_CBC,
            KEY,
            "000102030405060708090a0b0c0d0e0f",
            TEXT,
            "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d",
        ),
        ciphered(
            "aes-ctr",
            cipher::AES_CTR,
            KEY,
            "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
            TEXT,
            "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5",
        ),
        ciphered(
            "aes-xts",
            cipher::AES_XTS,
            "1111111111111111111111111111111122222222222222222222222222222222",
            "33333333330000000000000000000000",
            "4444444444444444444444444444444444444444444444444444444444444444",
            "c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0",
        ),
        digested(
            "sha1",
            hash::SHA1,
            None,
            b"abc",
            "a9993e364706816aba3e25717850c26c9cd0d89d",
        ),
        digested(
            "sha256",
            hash::SHA_256,
            None,
            b"abc",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        digested(
            "sha512",
            hash::SHA_512,
            None,
            b"abc",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
        digested(
            "hmac-sha1",
            mac::HMAC_SHA1,
            Some(b"Jefe"),
            hmac_text,
            "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
        ),
        digested(
            "hmac-sha256",
            mac::HMAC_SHA_256,
            Some(b"Jefe"),
            hmac_text,
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        digested(
            "hmac-sha512",
            mac::HMAC_SHA_512,
            Some(b"Jefe"),
            hmac_text,
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554
             9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
        ),
        digested(
            "cmac-aes",
            mac::CMAC_AES,
            Some(&cmac_key),
            &hex("6bc1bee22e409f96e93d7e117393172a"),
            "070a16b46b4d4144f79bdd9dd04a287c",
        ),
        sealed(
            "aes-gcm",
            aead::GCM,
            [
                "feffe9928665731c6d6a8f9467308308",
                "cafebabefacedbaddecaf888",
                "feedfacedeadbeeffeedfacedeadbeefabaddad2",
                "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
                 1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
                "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e
                 21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091
                 5bc94fbc3221a5db94fae95ae7121a47",
            ],
        ),
        sealed(
            "aes-ccm",
            aead::CCM,
            [
                "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf",
                "00000003020100a0a1a2a3a4a5",
                "0001020304050607",
                "08090a0b0c0d0e0f101112131415161718191a1b1c1d1e",
                "588c979a61c663d2f066d0c2c0f989806d5f6b61dac38417e8d12cfdf926e0",
            ],
        ),
        sealed(
            "chacha20-poly1305",
            aead::CHACHA20_POLY1305,
            [
                "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
                "070000004041424344454647",
                "50515253c0c1c2c3c4c5c6c7",
                "4c616469657320616e642047656e746c656d656e206f662074686520636c6173
                 73206f66202739393a204966204920636f756c64206f6666657220796f75206f
                 6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73
                 637265656e20776f756c642062652069742e",
                "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6
                 3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36
                 92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc
                 3ff4def08e4b7a9de576d26586cec64b6116
                 1ae10b594f09e26a7e902ecbd0600691",
            ],
        ),
        rsa(),
        ecdsa(),
    ]
}
