//! Checks every service against published test vectors, in all request formats, with and without
//! sessions.

mod common;

use common::{bytes, hex, Case, Driver, FORMS};
use kiln_kernel::cipher::{Context, Impl, Op};
use kiln_virtio::wire::algo::{
    aead, akcipher, cipher, hash, mac, CIPHER_THEN_HASH, HASH_THEN_CIPHER, OP_DECRYPT, OP_ENCRYPT,
};
use kiln_virtio::wire::{Action, Status};

/// Checks that the result is the same in every format and mode.
fn all_ways(case: &Case, want: Result<Vec<u8>, Status>) {
    for form in FORMS {
        let mut driver = Driver::new(form);
        assert_eq!(
            driver.run(case),
            want,
            "{:?} in form {form:#x}",
            case.create
        );
        if driver.features.stateless(case.op.service()) {
            assert_eq!(driver.run_stateless(case), want, "{:?}", case.create);
        }
        assert_eq!(driver.guest.sessions(), 0);
    }
}

fn both_directions(algo: u32, key: &str, iv: &str, plain: &str, sealed: &str) {
    let (key, iv, plain, sealed) = (hex(key), hex(iv), hex(plain), hex(sealed));
    let there = Case::cipher(algo, OP_ENCRYPT, &key, &iv, &plain);
    all_ways(&there, Ok(sealed.clone()));
    let back = Case::cipher(algo, OP_DECRYPT, &key, &iv, &sealed);
    all_ways(&back, Ok(plain));
}

const SP800_38A: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51";
const KEY_256: &str = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";

/// Vectors from SP 800-38A, sections F.1.5, F.2.5 and F.5.5.
#[test]
fn aes_256_in_three_modes() {
    both_directions(
        cipher::AES_ECB,
        KEY_256,
        "",
        SP800_38A,
        "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870",
    );
    both_directions(
        cipher::AES_CBC,
        KEY_256,
        "000102030405060708090a0b0c0d0e0f",
        SP800_38A,
        "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d",
    );
    both_directions(
        cipher::AES_CTR,
        KEY_256,
        "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
        SP800_38A,
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5",
    );
}

/// Vector 2 from IEEE 1619-2018, annex B.
#[test]
fn aes_xts() {
    both_directions(
        cipher::AES_XTS,
        "1111111111111111111111111111111122222222222222222222222222222222",
        "33333333330000000000000000000000",
        "4444444444444444444444444444444444444444444444444444444444444444",
        "c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0",
    );
}

/// The examples for "abc" in FIPS 180-4.
#[test]
fn hashes() {
    for (algo, want) in [
        (hash::SHA1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (
            hash::SHA_256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            hash::SHA_512,
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
    ] {
        let want = hex(want);
        all_ways(&Case::hash(algo, want.len() as u32, b"abc"), Ok(want));
    }
}

/// Test case 2 from each of RFC 2202 and RFC 4231, and AES-128 example 2 from SP 800-38B.
#[test]
fn macs() {
    let text = b"what do ya want for nothing?";
    for (algo, key, src, want) in [
        (
            mac::HMAC_SHA1,
            &b"Jefe"[..],
            &text[..],
            "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
        ),
        (
            mac::HMAC_SHA_256,
            b"Jefe",
            text,
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            mac::HMAC_SHA_512,
            b"Jefe",
            text,
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554
             9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
        ),
        (
            mac::CMAC_AES,
            &hex("2b7e151628aed2a6abf7158809cf4f3c"),
            &hex("6bc1bee22e409f96e93d7e117393172a"),
            "070a16b46b4d4144f79bdd9dd04a287c",
        ),
    ] {
        let want = hex(want);
        let case = Case::mac(algo, want.len() as u32, key, src);
        all_ways(&case, Ok(want.clone()));
        // Truncate the MAC to 12 bytes, as ESP does.
        let short = Case::mac(algo, 12, key, src);
        all_ways(&short, Ok(want[..12].to_vec()));
    }
}

fn sealed(algo: u32, key: &str, iv: &str, aad: &str, plain: &str, want: &str, tag: u32) {
    let (key, iv, aad) = (hex(key), hex(iv), hex(aad));
    let (plain, want) = (hex(plain), hex(want));
    let seal = Case::aead(algo, OP_ENCRYPT, tag, &key, &iv, &aad, &plain);
    all_ways(&seal, Ok(want.clone()));
    let open = Case::aead(algo, OP_DECRYPT, tag, &key, &iv, &aad, &want);
    all_ways(&open, Ok(plain));
    // Flip one bit in the text, the tag and the associated data in turn.
    for at in [0, want.len() - 1] {
        let mut wrong = want.clone();
        wrong[at] ^= 1;
        let open = Case::aead(algo, OP_DECRYPT, tag, &key, &iv, &aad, &wrong);
        all_ways(&open, Err(Status::BadMsg));
    }
    let mut other = aad.clone();
    other[0] ^= 1;
    let open = Case::aead(algo, OP_DECRYPT, tag, &key, &iv, &other, &want);
    all_ways(&open, Err(Status::BadMsg));
}

/// Test case 4 from the GCM specification. The IV is passed first as a nonce and then as a counter
/// block.
#[test]
fn gcm() {
    for iv in [
        "cafebabefacedbaddecaf888",
        "cafebabefacedbaddecaf88800000001",
    ] {
        sealed(
            aead::GCM,
            "feffe9928665731c6d6a8f9467308308",
            iv,
            "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
             1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e
             21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091
             5bc94fbc3221a5db94fae95ae7121a47",
            16,
        );
    }
}

/// Packet vector 1 from RFC 3610.
#[test]
fn ccm() {
    sealed(
        aead::CCM,
        "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf",
        "00000003020100a0a1a2a3a4a5",
        "0001020304050607",
        "08090a0b0c0d0e0f101112131415161718191a1b1c1d1e",
        "588c979a61c663d2f066d0c2c0f989806d5f6b61dac38417e8d12cfdf926e0",
        8,
    );
}

/// The vector from RFC 8439, section 2.8.2.
#[test]
fn chacha20_poly1305() {
    sealed(
        aead::CHACHA20_POLY1305,
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
        16,
    );
}

/// A message longer than one FPU section must give the same result as a single call of the
/// primitive.
#[test]
fn long_messages() {
    let (key, iv) = (bytes(1, 64), bytes(2, 16));
    let mut driver = Driver::new(0);
    for len in [16 << 10, (16 << 10) + 1, (32 << 10) + 16, 100_000] {
        let plain = bytes(len as u64, len);
        for (algo, name, key) in [
            (cipher::AES_CTR, "ctr(aes)", &key[..32]),
            (cipher::AES_CBC, "cbc(aes)", &key[..32]),
            (cipher::AES_XTS, "xts(aes)", &key),
        ] {
            let whole = if algo == cipher::AES_CBC { 16 } else { 1 };
            let plain = &plain[..len / whole * whole];
            let want = at_once(name, key, &iv, &[], plain, 0);
            let seal = Case::cipher(algo, OP_ENCRYPT, key, &iv, plain);
            assert!(driver.run(&seal).as_ref() == Ok(&want), "{name} {len}");
            let open = Case::cipher(algo, OP_DECRYPT, key, &iv, &want);
            assert!(driver.run(&open).as_deref() == Ok(plain), "{name} {len}");
        }
        // An 11-byte nonce leaves a 4-byte counter.
        let ccm_iv = [&[3][..], &iv[..11], &[0; 4]].concat();
        for (algo, name, iv, given) in [
            (aead::GCM, "gcm(aes)", &iv[..12], &iv[..12]),
            (aead::CCM, "ccm(aes)", &ccm_iv, &iv[..11]),
        ] {
            let (key, aad) = (&key[..32], &plain[..100]);
            let want = at_once(name, key, iv, aad, &plain, 16);
            let seal = Case::aead(algo, OP_ENCRYPT, 16, key, given, aad, &plain);
            assert!(driver.run(&seal).as_ref() == Ok(&want), "{name} {len}");
            let mut open = Case::aead(algo, OP_DECRYPT, 16, key, given, aad, &want);
            assert!(driver.run(&open).as_ref() == Ok(&plain), "{name} {len}");
            *open.src.last_mut().unwrap() ^= 1;
            assert_eq!(driver.run(&open), Err(Status::BadMsg), "{name} {len}");
        }
    }
}

fn at_once(name: &str, key: &[u8], iv: &[u8], aad: &[u8], src: &[u8], tag: usize) -> Vec<u8> {
    let imp = Impl::best(name).unwrap();
    let mut tags = vec![0; tag];
    let ctx = Context::new(imp, key).unwrap();
    let sealed = imp.once(Op::Encrypt, &ctx, iv, aad, src, &mut tags);
    let dst = sealed.unwrap().unwrap();
    [dst, tags].concat()
}

/// The FIPS 180-4 example whose message is "a" repeated one million times, processed in sections
/// of 16 KiB.
#[test]
fn a_long_hash() {
    let limits = kiln_virtio::Limits {
        max_request: 1 << 20,
        ..Default::default()
    };
    let case = Case::hash(hash::SHA_256, 32, &vec![b'a'; 1_000_000]);
    let want = hex("cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    assert_eq!(Driver::with(0, limits).run(&case), Ok(want));
}

/// A chain returns the cipher's result, followed by the hash or MAC of the cipher's input or
/// output.
#[test]
fn chains() {
    let (key, auth_key, iv) = (bytes(1, 16), bytes(2, 20), bytes(3, 16));
    let (src, aad) = (bytes(4, 96), bytes(5, 13));
    // Use one driver at a time, because a thread can have only one emulated CPU.
    let alone = |case: &Case| Driver::new(0).run(case).unwrap();
    let mut sealed = src.clone();
    let middle = Case::cipher(cipher::AES_CBC, OP_ENCRYPT, &key, &iv, &src[16..80]);
    sealed[16..80].copy_from_slice(&alone(&middle));
    let whole = Case::cipher(cipher::AES_CBC, OP_ENCRYPT, &key, &iv, &src);
    for (order, hashed) in [(HASH_THEN_CIPHER, &src), (CIPHER_THEN_HASH, &sealed)] {
        let authenticated = [&aad[..], &hashed[8..88]].concat();
        let keyed = Case::mac(mac::HMAC_SHA1, 12, &auth_key, &authenticated);
        let plain = Case::hash(hash::SHA_256, 32, &authenticated);
        for hash in [keyed, plain] {
            let want = [&sealed[..], &alone(&hash)].concat();
            let chain = Case::chain(order, &whole, &hash, 16..80, 8..88, &aad);
            all_ways(&chain, Ok(want));
        }
    }
}

/// Verifies the SHA-256 signature of "sample" from RFC 6979, section A.2.5, using each of ECDSA's
/// two algorithm numbers. Also verifies a newly created signature.
#[test]
fn ecdsa() {
    if !offered() {
        return;
    }
    let point = hex(
        "04 60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6
            7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299",
    );
    let signature = hex(
        "3046 022100 efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716
              022100 f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
    );
    let digest = hex("af2bdbe1aa9b6ec1e2ade1d694f41fc71a831d0268e9891562113d8a62add1bf");
    for algo in [akcipher::ECDSA, akcipher::ECDSA_LINUX] {
        let para = [akcipher::P256, 0];
        let mut case = Case::akcipher(Action::Verify, algo, false, para, &point, &signature, 32);
        case.aad = digest.clone();
        all_ways(&case, Ok(vec![]));
        case.aad[0] ^= 1;
        all_ways(&case, Err(Status::KeyRejected));
    }
    // The private key, encoded as in RFC 5915, creates a signature that the public key verifies.
    let private = hex(
        "3031 020101 0420 c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721
         a00a 06082a8648ce3d030107",
    );
    for form in FORMS {
        let mut driver = Driver::new(form);
        let para = [akcipher::P256, 0];
        let sign = Case::akcipher(
            Action::Sign,
            akcipher::ECDSA,
            true,
            para,
            &private,
            &digest,
            72,
        );
        let signature = driver.run(&sign).unwrap();
        let verify = Action::Verify;
        let mut case = Case::akcipher(verify, akcipher::ECDSA, false, para, &point, &signature, 32);
        case.aad = digest.clone();
        assert_eq!(driver.run(&case), Ok(vec![]));
    }
}

/// Returns whether libcrypto is available, and prints a message if it is not.
fn offered() -> bool {
    let there = Driver::new(0).guest.config()[8] & 1 << 4 != 0;
    if !there {
        eprintln!("skipped: no libcrypto 4 or 3 here: apt-get install libssl3");
    }
    there
}

/// Returns the PKCS #1 encodings of a 512-bit RSA key that `openssl genrsa` created: first the
/// private key, then the public key.
fn rsa_key() -> (Vec<u8>, Vec<u8>) {
    let private = hex(include_str!("common/rsa512.hex"));
    // The public encoding is a SEQUENCE of modulus and exponent, which follow the header and the
    // version in the private encoding.
    let numbers = &private[7..7 + 67 + 5];
    (private.clone(), [&[0x30, 72][..], numbers].concat())
}

#[test]
fn rsa() {
    if !offered() {
        return;
    }
    let (private, public) = rsa_key();
    let raw = [akcipher::RAW_PADDING, 0];
    let pkcs1 = [akcipher::PKCS1_PADDING, akcipher::RSA_SHA256];
    let message = bytes(7, 32);
    for form in FORMS {
        let mut driver = Driver::new(form);
        let mut run = |action, secret: bool, para, src: &[u8], other, aad: &[u8]| {
            let key = if secret { &private } else { &public };
            let mut case = Case::akcipher(action, akcipher::RSA, secret, para, key, src, other);
            case.aad = aad.to_vec();
            driver.run(&case)
        };
        // Raw RSA decryption returns a number, padded with leading zeros.
        let there = run(Action::Encrypt, false, raw, &message, 64, &[]).unwrap();
        let back = run(Action::Decrypt, true, raw, &there, 64, &[]).unwrap();
        assert_eq!((&back[..32], &back[32..]), (&[0; 32][..], &message[..]));
        // The destination may be larger than the result.
        let there = run(Action::Encrypt, false, pkcs1, &message, 80, &[]).unwrap();
        assert_eq!(there.len(), 64);
        let back = run(Action::Decrypt, true, pkcs1, &there, 64, &[]).unwrap();
        assert_eq!(back, message);
        let signature = run(Action::Sign, true, pkcs1, &message, 64, &[]).unwrap();
        assert_eq!(
            run(Action::Verify, false, pkcs1, &signature, 32, &message),
            Ok(vec![])
        );
        let other = bytes(8, 32);
        assert_eq!(
            run(Action::Verify, false, pkcs1, &signature, 32, &other),
            Err(Status::KeyRejected)
        );
        // The following must fail: a destination that is too small, a digest of the wrong length,
        // decryption with a public key, and signing with a padding that is valid only for
        // encryption.
        assert_eq!(
            run(Action::Encrypt, false, raw, &message, 63, &[]),
            Err(Status::Err)
        );
        assert_eq!(
            run(Action::Sign, true, pkcs1, &message[1..], 64, &[]),
            Err(Status::Err)
        );
        assert_eq!(
            run(Action::Decrypt, false, raw, &there, 64, &[]),
            Err(Status::Err)
        );
        assert_eq!(
            run(Action::Sign, true, raw, &message, 64, &[]),
            Err(Status::NotSupp)
        );
    }
}

/// A private key must work even if its last five numbers (the primes and the CRT values) are zero,
/// because some encoders write zeros instead of these numbers.
#[test]
fn rsa_without_its_primes() {
    if !offered() {
        return;
    }
    let (private, _) = rsa_key();
    // The header is 4 bytes long, the version 3 bytes, n 67 bytes and e 5 bytes. The second byte
    // of d's encoding is the length of d.
    let d = 4 + 3 + 67 + 5;
    let d_end = d + 2 + usize::from(private[d + 1]);
    let body = [&private[4..d_end], &[2, 1, 0].repeat(5)].concat();
    let bare = [&[0x30, 0x81, body.len() as u8][..], &body].concat();
    let para = [akcipher::RAW_PADDING, 0];
    let mut driver = Driver::new(0);
    let mut run = |key: &[u8], action, src: &[u8]| {
        driver
            .run(&Case::akcipher(
                action,
                akcipher::RSA,
                true,
                para,
                key,
                src,
                64,
            ))
            .unwrap()
    };
    let there = run(&bare, Action::Encrypt, &bytes(9, 60));
    assert_eq!(
        run(&bare, Action::Decrypt, &there),
        run(&private, Action::Decrypt, &there)
    );
}
