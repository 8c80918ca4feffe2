//! Tests with messages of the maximum length that algorithms accept, and with longer messages.
//! Every layer must treat these lengths in the same way, and must reject a message that is too long
//! before accessing it.

use std::slice;

use kiln_kernel::calls::Calls;
use kiln_kernel::cipher::{Context as KeyContext, Impl, Kind, Op, BLOCK};
use kiln_kernel::crypto::{authenc_key, Aead, Driver, Errno, Model, Repeat, Shash};
use kiln_kernel::fpu::Context;
use kiln_kernel::messages::Messages;

use crate::aead::{ask_in_place, open_keyed, AUTHENC, RFC4106, SEQIV};
use crate::machine::{assert_dies, boot, run_alone};

/// Returns two lists of pieces that cover the same bytes. One list consists of one piece, the other
/// of two.
fn lists(bytes: &mut [u8]) -> [Vec<(*mut u8, usize)>; 2] {
    let (base, len) = (bytes.as_mut_ptr(), bytes.len());
    let half = len / 2;
    // SAFETY: the offset is half of the slice's length, so the result is inside the slice.
    let second = unsafe { base.add(half) };
    [vec![(base, len)], vec![(base, half), (second, len - half)]]
}

#[test]
fn sums_of_lengths_do_not_wrap() {
    run_alone(|_| {
        let _cpu = boot();
        for model in [Model::Helper, Model::Direct] {
            model.set();
            for (name, alg) in [
                ("gcm(aes)", "gcm(aes)"),
                ("gcm-aes-fixed-time", "gcm(aes)"),
                ("ccm(aes)", "ccm(aes)"),
                ("rfc7539(chacha20,poly1305)", "rfc7539(chacha20,poly1305)"),
                (RFC4106, RFC4106),
                (SEQIV, SEQIV),
                (AUTHENC, AUTHENC),
                ("authenc(hmac(sha256),cbc-aes-fixed-time)", AUTHENC),
            ] {
                let mut tfm = open_keyed(name, alg);
                let mut bytes = [0x5au8; 128];
                for list in lists(&mut bytes) {
                    for op in [Op::Encrypt, Op::Decrypt] {
                        for assoc in [u32::MAX, u32::MAX - 7, u32::MAX - 15, u32::MAX - 47] {
                            for len in [20, 48, 64, 96, u32::MAX - 15] {
                                let (mut iv, task) = ([1; BLOCK], Context::Task);
                                let (a, n) = (assoc as usize, len as usize);
                                // SAFETY: the pieces cover exactly the array's bytes.
                                let got =
                                    unsafe { tfm.request(op, &mut iv, a, n, &list, &list, task) };
                                let what = (name, op, assoc, len, list.len());
                                assert_eq!(got.1, Errno::INVALID, "{what:?}");
                            }
                        }
                    }
                }
                assert_eq!(bytes, [0x5a; 128], "{name}");
            }
        }
    });
}

#[test]
fn ccm_opens_what_it_seals_up_to_the_longest() {
    run_alone(|_| {
        let _cpu = boot();
        Model::Direct.set();
        let mut tfm = Aead::open("ccm(aes)", 0, 0).expect("it is there");
        tfm.set_key(&[3; 16]).expect("16 bytes");
        let mut bytes = vec![0x5a; (1 << 24) + 16];
        for (width, longest) in [(2, (1 << 16) - 1), (3, (1 << 24) - 1)] {
            for tag in [4, 16] {
                tfm.set_tag_size(tag).expect("one it takes");
                for len in [longest - tag, longest - tag + 1, longest, longest + 1] {
                    let want = match len > longest {
                        true => Errno::INVALID,
                        false => Errno(0),
                    };
                    bytes[..len].fill(0x5a);
                    for (op, len) in [(Op::Encrypt, len), (Op::Decrypt, len + tag)] {
                        let (mut iv, task) = ([9; BLOCK], Context::Task);
                        iv[0] = width - 1;
                        let got = ask_in_place(&mut tfm, op, iv, 0, len, &mut bytes, task);
                        assert_eq!(got, want, "{op:?}, {len} bytes, a length of {width}");
                    }
                    assert!(bytes[..len].iter().all(|&b| b == 0x5a), "{len} bytes");
                }
            }
        }
    });
}

#[test]
fn repeated_requests_refuse_short_pieces() {
    run_alone(|_| {
        let _cpu = boot();
        for alg in ["sha256", "cbc(aes)", "gcm(aes)"] {
            let imp = Impl::find_all(alg)[0];
            let mut driver = Driver::open(imp).expect("a tier of general registers");
            if imp.is_keyed() {
                driver.set_key(&[1; 16]).expect("16 bytes");
            }
            for (text, want) in [(64, Ok(0)), (96, Err(Errno::INVALID))] {
                let mut bytes = [0u8; 80];
                let [_, list] = lists(&mut bytes);
                let mut request = Repeat {
                    op: Op::Encrypt,
                    src: &list,
                    dst: &list,
                    iv: &mut [0; BLOCK],
                    digest: &mut [0; 32],
                    lens: imp.lens(0, text),
                };
                // SAFETY: the pieces cover exactly the array's bytes.
                let got = unsafe { driver.repeat(&mut request, 3) };
                assert_eq!(got, want, "{alg}: {text} bytes of 80");
            }
        }
    });
}

#[test]
fn hmac_keys_may_have_any_length() {
    run_alone(|_| {
        let _cpu = boot();
        let mut mac = Shash::open("hmac(sha256)", 0, 0).expect("it is there");
        let mut sha = Shash::open("sha256", 0, 0).expect("it is there");
        for len in [65, 257, 300, 5000] {
            let key = vec![0x17; len];
            let short = sha.digest(&key, &[], false, Context::Task).expect("no key");
            mac.set_key(&short[..32]).expect("32 bytes");
            let want = mac.digest(b"abc", &[], false, Context::Task);
            mac.set_key(&key).expect("any length");
            assert_eq!(mac.digest(b"abc", &[], false, Context::Task), want);
            let sealed = [&key[..], &short[..32]].map(|auth| {
                let mut tfm = Aead::open(AUTHENC, 0, 0).expect("it is there");
                tfm.set_key(&authenc_key(auth, &[2; 16]))
                    .expect("any length");
                let (mut bytes, iv, task) = ([0u8; 128], [3; BLOCK], Context::Task);
                let got = ask_in_place(&mut tfm, Op::Encrypt, iv, 16, 64, &mut bytes, task);
                assert_eq!(got, Errno(0));
                bytes
            });
            assert_eq!(sealed[0], sealed[1], "{len} bytes");
        }
    });
}

/// Maps `len` bytes of address space. Only the first `usable` bytes, rounded up to whole pages, are
/// accessible; any other access kills the process.
fn addresses(len: usize, usable: usize) -> &'static mut [u8] {
    // SAFETY: the mapping is new and is never unmapped. An access beyond the usable bytes kills the
    // process.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let at = libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED, "{len} bytes of addresses");
        let usable = usable.next_multiple_of(4096);
        assert_eq!(
            libc::mprotect(at, usable, libc::PROT_READ | libc::PROT_WRITE),
            0
        );
        slice::from_raw_parts_mut(at.cast(), len)
    }
}

/// Tries to encrypt and to decrypt a text of `len` bytes in inaccessible memory. Each operation is
/// tried twice: with the tag and the associated data in separate buffers, and with both next to the
/// text. Returns the return values of the four calls.
fn refused(imp: Impl, len: usize) -> [u64; 4] {
    let ctx = KeyContext::new(imp, &vec![5; imp.key_sizes()[0]]).expect("a right key");
    let src = addresses(len + BLOCK, 0);
    let mut answers = Vec::new();
    for op in [Op::Encrypt, Op::Decrypt] {
        for apart in [true, false] {
            let messages = Messages {
                len,
                tag_size: BLOCK,
                ..Messages::single(op, src, addresses(len + BLOCK, 0), &[1; BLOCK])
            };
            let mut tag = [0; BLOCK];
            let mut calls = Calls {
                aad: apart.then_some(&[]),
                tags: apart.then_some(&mut tag),
                ..Calls::new(messages)
            };
            answers.push(calls.run(imp, &ctx, 1).expect("right lengths"));
        }
    }
    answers.try_into().expect("four")
}

fn counted() -> impl Iterator<Item = Impl> {
    let all = Impl::all().into_iter().filter(|i| i.tier().usable());
    all.filter(|i| i.kind() == Kind::Aead && i.alg() != "ccm(aes)")
}

/// All tiers must reject texts that have more blocks than the cipher's counter allows.
#[test]
fn texts_longer_than_the_counter_are_refused() {
    run_alone(|_| {
        let _cpu = boot();
        for imp in counted() {
            let most = match imp.alg() {
                "rfc7539(chacha20,poly1305)" => (1 << 38) - 64,
                _ => (1 << 36) - 32,
            };
            assert_eq!(imp.longest(), most, "{imp:?}");
            assert_eq!(refused(imp, most + 1), [1; 4], "{imp:?}");
        }
    });
}

/// Control: a text of the maximum length must not be rejected. The process then crashes, because
/// the text's memory is inaccessible.
#[test]
fn the_longest_text_is_not_refused() {
    assert_dies(|_| {
        let _cpu = boot();
        let imp = counted().next().expect("there are AEADs");
        println!("refused: {:?}", refused(imp, imp.longest()));
    });
}

/// Encrypts one message of `len` bytes with `encrypt_many`. Only the first page of the buffers is
/// accessible. Returns false if no usable implementation has this function.
fn encrypt_as_many(len: usize) -> bool {
    let all = Impl::find_all("cbc(aes)").into_iter();
    let many = all.rev().find(|i| i.tier().usable() && i.lanes().is_some());
    let Some(imp) = many else {
        println!("SKIPPED: needs a tier that encrypts many messages");
        return false;
    };
    let ctx = KeyContext::new(imp, &[5; 16]).expect("16 bytes");
    let mut calls = Calls {
        many: true,
        ..Calls::new(Messages::single(
            Op::Encrypt,
            addresses(len, 4096),
            addresses(len, 4096),
            &[1; BLOCK],
        ))
    };
    calls.run(imp, &ctx, 1).expect("right lengths");
    true
}

fn encrypt_beyond_the_page(len: usize) {
    let _cpu = boot();
    if !encrypt_as_many(len) {
        std::process::abort();
    }
    println!("{len} bytes: the first page was enough");
}

#[test]
fn cbc_encrypts_all_of_64_gib() {
    assert_dies(|_| encrypt_beyond_the_page(1 << 36));
}

#[test]
fn cbc_encrypts_all_of_64_gib_and_a_bit() {
    assert_dies(|_| encrypt_beyond_the_page((1 << 36) + 1024));
}

/// Control for the two tests above: a message of one page is encrypted without a crash.
#[test]
fn cbc_encrypts_a_page() {
    run_alone(|_| {
        let _cpu = boot();
        encrypt_as_many(4096);
    });
}
