//! Tests the tests: each implementation in this file has one fault, which a suite must detect.

use std::ffi::{c_void, CStr};
use std::ops::Range;
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;

use kiln_kernel::call::Entry;
use kiln_kernel::cipher::Impl;
use kiln_questions::test::run::{self, Job};
use kiln_questions::test::{Family, Suite, Tally};

const SEED: u64 = 77;
const CASES: Range<u64> = 5_000..9_000;

fn check(imp: Impl, suite: Suite, cases: Range<u64>) -> Tally {
    let job = Job::new(Family::of(vec![imp]), suite, SEED, Some(cases), "");
    let mut parts = run::one(job, 2, &AtomicBool::new(false)).unwrap();
    parts.remove(0).tally
}

fn random(imp: Impl) -> Tally {
    check(imp, Suite::Random, CASES)
}

/// Returns the case number in a replay line, and checks all other words of the line.
fn case_of(replay: &str, alg: &str, name: &str, suite: Suite) -> u64 {
    let prefix = format!("kiln test '{alg}' --impl {name} --suite {suite} --seed {SEED} --case ");
    let number = replay.strip_prefix(&prefix);
    number
        .unwrap_or_else(|| panic!("{replay}"))
        .parse()
        .unwrap()
}

type Crypt = unsafe extern "C" fn(*const c_void, *mut u8, *mut u8, usize, *mut u8);
type Seal = unsafe extern "C" fn(
    *const c_void,
    *mut u8,
    *const u8,
    usize,
    *const u8,
    usize,
    *const u8,
    *mut u8,
    usize,
);
type Open = unsafe extern "C" fn(
    *const c_void,
    *mut u8,
    *const u8,
    usize,
    *const u8,
    usize,
    *const u8,
    *const u8,
    usize,
) -> i32;

const XTS: &str = "xts(aes)";

/// Encrypts or decrypts with the scalar code.
///
/// # Safety
/// The arguments must be valid for this entry's function.
unsafe fn right(
    entry: Entry,
    ctx: *const c_void,
    dst: *mut u8,
    src: *mut u8,
    len: usize,
    iv: *mut u8,
) {
    let function = Impl::find_all(XTS)[0].function(entry).unwrap();
    // SAFETY: the function belongs to a skcipher, so it has the type `Crypt`, and the caller
    // promises valid arguments.
    unsafe {
        let function: Crypt = std::mem::transmute(function.address());
        function(ctx, dst, src, len, iv);
    }
}

/// Defines deliberately faulty implementations. They compute the correct result, and then do
/// something wrong.
macro_rules! offenders {
    ($($name:ident: |$dst:ident, $src:ident, $len:ident, $iv:ident| $then:block)*) => {$(
        unsafe extern "C" fn $name(ctx: *const c_void, $dst: *mut u8, $src: *mut u8, $len: usize, $iv: *mut u8) {
            // SAFETY: the arguments are valid for the replaced function, and therefore for `right`.
            // The additional access is wrong on purpose: either it is inside the memory of the
            // bench, or it causes a fault that the test expects.
            unsafe {
                right(Entry::Encrypt, ctx, $dst, $src, $len, $iv);
                $then
            }
            let _ = ($dst, $src, $len, $iv);
        }
    )*};
}

offenders! {
    nothing: |dst, src, len, iv| {}
    flip: |dst, src, len, iv| { if len == 267 { *dst.add(266) ^= 0x10 } }
    flip_at_77: |dst, src, len, iv| { if len == 77 { *dst ^= 1 } }
    change_iv: |dst, src, len, iv| { *iv.add(15) ^= 1 }
    change_source: |dst, src, len, iv| { if src != dst { *src ^= 1 } }
    // If the buffer has room after the destination, the poison there detects the write; otherwise
    // the guard page does (see below). The implementation uses the address to distinguish the two
    // cases.
    write_past: |dst, src, len, iv| { if (dst as usize + len) % 4096 != 0 { *dst.add(len) = 0 } }
    write_before: |dst, src, len, iv| { if dst as usize % 4096 != 0 { *dst.sub(1) = 0 } }
    direction: |dst, src, len, iv| { std::arch::asm!("std") }
    read_past_source: |dst, src, len, iv| { if src != dst { src.add(len).read_volatile(); } }
    read_before_source: |dst, src, len, iv| { if src != dst { src.sub(1).read_volatile(); } }
    write_past_destination: |dst, src, len, iv| { dst.add(len).write_volatile(dst.add(len).read_volatile()) }
    read_past_iv: |dst, src, len, iv| { iv.add(16).read_volatile(); }
    invalid: |dst, src, len, iv| { std::arch::asm!("ud2") }
}

fn offender(name: &'static CStr, function: Crypt) -> Impl {
    // SAFETY: `function` has the signature of the function that it replaces.
    unsafe { Impl::find_all(XTS)[0].disguised(name, Entry::Encrypt, function as *const c_void) }
}

#[test]
fn the_right_one_passes() {
    let tally = random(offender(c"right", nothing));
    assert_eq!((tally.cases, tally.failed), (4_000, 0), "{tally:#?}");
}

/// `flip` inverts one bit of the output, but only when encrypting a message of one specific length.
#[test]
fn a_flipped_bit_at_a_rare_length_is_caught_and_replayed() {
    let bad = || offender(c"flip", flip);
    let tally = check(bad(), Suite::Random, 0..40_000);
    assert!(tally.failed > 0);
    println!(
        "{} of {} cases: {:#?}",
        tally.failed, tally.cases, tally.failures
    );
    for failure in &tally.failures {
        assert!(failure.what.contains("byte 266 of 267"), "{failure:?}");
        let n = case_of(&failure.replay, XTS, "flip", Suite::Random);
        let again = check(bad(), Suite::Random, n..n + 1);
        assert_eq!((again.cases, again.failed), (1, 1));
        assert_eq!(again.failures.first(), Some(failure));
        assert_eq!(
            check(offender(c"right", nothing), Suite::Random, n..n + 1).failed,
            0
        );
    }
}

/// The `lengths` suite tests every short length, so it always detects the flipped bit.
#[test]
fn a_flipped_bit_at_one_length_is_caught_by_the_lengths() {
    let tally = check(offender(c"flip", flip_at_77), Suite::Lengths, 0..u64::MAX);
    assert_eq!(tally.failed, 1, "{tally:#?}");
    assert!(tally.failures[0].what.contains("byte 0 of 77"));
}

#[test]
fn a_changed_iv_is_caught() {
    let tally = check(offender(c"iv", change_iv), Suite::Vectors, 0..u64::MAX);
    // Only one of the two directions has the fault, so half of the cases fail.
    assert_eq!(2 * tally.failed, tally.cases);
    let what = &tally.failures[0].what;
    assert!(what.contains("IV afterwards: byte 15"), "{what}");
}

#[test]
fn a_changed_source_is_caught() {
    let tally = random(offender(c"source", change_source));
    assert!((500..1500).contains(&tally.failed), "{}", tally.failed);
    assert!(tally.failures[0].what.contains("changed the source"));
}

#[test]
fn a_byte_past_the_destination_is_caught_by_poison() {
    let tally = random(offender(c"write-past", write_past));
    assert!(tally.failed > 500, "{}", tally.failed);
    let what = &tally.failures[0].what;
    assert!(
        what.contains("wrote 1 byte(s) past the end of the destination"),
        "{what}"
    );
}

#[test]
fn a_byte_before_the_destination_is_caught_by_poison() {
    let tally = random(offender(c"write-before", write_before));
    assert!(tally.failed > 500, "{}", tally.failed);
    let what = &tally.failures[0].what;
    assert!(
        what.contains("before the start of the destination"),
        "{what}"
    );
}

#[test]
fn a_set_direction_flag_is_caught() {
    let tally = random(offender(c"std", direction));
    assert!(tally.failed > 1000, "{}", tally.failed);
    assert!(tally.failures[0].what.contains("direction flag"));
}

mod keys {
    use super::*;

    type SetKey = unsafe extern "C" fn(*mut u8, *const u8, usize) -> i32;

    fn right() -> SetKey {
        let function = Impl::find_all("ctr(aes)")[0]
            .function(Entry::SetKey)
            .unwrap();
        // SAFETY: the function is a `setkey`, so it has the type `SetKey`.
        unsafe { std::mem::transmute(function.address()) }
    }

    /// Accepts a key that is too short, and pads it with zeros.
    unsafe extern "C" fn lax(ctx: *mut u8, key: *const u8, len: usize) -> i32 {
        let mut padded = [0; 16];
        // SAFETY: the arguments are valid for the replaced function. The key is copied only if it
        // is shorter than `padded`.
        unsafe {
            if len >= 16 {
                return right()(ctx, key, len);
            }
            std::ptr::copy_nonoverlapping(key, padded.as_mut_ptr(), len);
            right()(ctx, padded.as_ptr(), 16)
        }
    }

    /// Rejects a key of an invalid length, but writes to the context first.
    unsafe extern "C" fn eager(ctx: *mut u8, key: *const u8, len: usize) -> i32 {
        // SAFETY: the arguments are valid for the replaced `setkey`, so the context is writable.
        unsafe {
            *ctx = 0;
            right()(ctx, key, len)
        }
    }

    #[test]
    fn keys_of_other_lengths_must_be_refused_with_nothing_written() {
        let check = |name, function: SetKey| {
            // SAFETY: `function` has the signature of the function that it replaces.
            let imp = unsafe {
                Impl::find_all("ctr(aes)")[0].disguised(
                    name,
                    Entry::SetKey,
                    function as *const c_void,
                )
            };
            check(imp, Suite::Keys, 0..u64::MAX)
        };
        let tally = check(c"right", right());
        assert_eq!(tally.failed, 0, "{tally:#?}");
        let tally = check(c"lax", lax);
        assert_eq!(tally.failed, 16);
        assert!(tally.failures[0].what.contains("returned 0"), "{tally:#?}");
        let tally = check(c"eager", eager);
        assert_eq!(tally.failed, tally.cases - 3);
        assert!(
            tally.failures[0].what.contains("wrote the context"),
            "{tally:#?}"
        );
    }
}

mod tags {
    use super::*;

    const GCM: &str = "gcm(aes)";

    fn seal_and_compare(
        (ctx, dst, src, len): (*const c_void, *mut u8, *const u8, usize),
        (aad, aad_len, iv): (*const u8, usize, *const u8),
        tag: &[u8],
        bytes: usize,
    ) -> bool {
        let imp = Impl::find_all(GCM)[0];
        let open = imp.function(Entry::Open).unwrap();
        let seal = imp.function(Entry::Seal).unwrap();
        let mut plain = vec![0; len];
        let mut again = vec![0; len];
        let mut right = [0; 16];
        // SAFETY: the functions belong to an AEAD, so they have the types `Seal` and `Open`. The
        // caller passes the arguments of an `open`, and the buffers created above have room for
        // what `seal` writes: `len` bytes of text and 16 bytes of tag.
        unsafe {
            let seal: Seal = std::mem::transmute(seal.address());
            let open: Open = std::mem::transmute(open.address());
            // CTR is its own inverse, so sealing the ciphertext decrypts it. The second call seals
            // the decrypted text, which gives the correct tag.
            seal(
                ctx,
                plain.as_mut_ptr(),
                src,
                len,
                aad,
                aad_len,
                iv,
                right.as_mut_ptr(),
                16,
            );
            seal(
                ctx,
                again.as_mut_ptr(),
                plain.as_ptr(),
                len,
                aad,
                aad_len,
                iv,
                right.as_mut_ptr(),
                16,
            );
            let matches = right[..bytes] == tag[..bytes];
            if matches {
                std::ptr::copy_nonoverlapping(plain.as_ptr(), dst, len);
            } else {
                open(
                    ctx,
                    dst,
                    src,
                    len,
                    aad,
                    aad_len,
                    iv,
                    tag.as_ptr(),
                    tag.len(),
                );
            }
            matches
        }
    }

    /// Compares all bytes of the tag except the last one.
    #[allow(clippy::too_many_arguments)]
    unsafe extern "C" fn all_but_the_last(
        ctx: *const c_void,
        dst: *mut u8,
        src: *const u8,
        len: usize,
        aad: *const u8,
        aad_len: usize,
        iv: *const u8,
        tag: *const u8,
        size: usize,
    ) -> i32 {
        // SAFETY: every caller of an `open` function passes a tag of `size` bytes.
        let tag = unsafe { std::slice::from_raw_parts(tag, size) };
        match seal_and_compare((ctx, dst, src, len), (aad, aad_len, iv), tag, size - 1) {
            true => 0,
            false => -74,
        }
    }

    /// Rejects a wrong tag, but leaves the decrypted text in the destination.
    #[allow(clippy::too_many_arguments)]
    unsafe extern "C" fn unwiped(
        ctx: *const c_void,
        dst: *mut u8,
        src: *const u8,
        len: usize,
        aad: *const u8,
        aad_len: usize,
        iv: *const u8,
        tag: *const u8,
        size: usize,
    ) -> i32 {
        // SAFETY: every caller of an `open` function passes a tag of `size` bytes and a destination
        // of `len` bytes.
        unsafe {
            let tag = std::slice::from_raw_parts(tag, size);
            if seal_and_compare((ctx, dst, src, len), (aad, aad_len, iv), tag, size) {
                return 0;
            }
            if len > 0 {
                *dst.add(len - 1) = 0x80;
            }
        }
        -74
    }

    fn tally(name: &'static CStr, function: Open) -> Tally {
        // SAFETY: `function` has the signature of the function that it replaces.
        let imp = unsafe {
            Impl::find_all(GCM)[0].disguised(name, Entry::Open, function as *const c_void)
        };
        check(imp, Suite::Forgeries, 0..20)
    }

    #[test]
    fn a_comparison_that_leaves_out_the_last_byte_is_caught() {
        let tally = tally(c"last", all_but_the_last);
        assert_eq!(tally.failed, 20, "{tally:#?}");
        let what = &tally.failures[0].what;
        assert!(
            what.contains("accepted a message with bit 0 of byte"),
            "{what}"
        );
    }

    #[test]
    fn a_destination_that_is_not_wiped_is_caught() {
        let tally = tally(c"unwiped", unwiped);
        assert!(tally.failed >= 18, "{tally:#?}");
        assert!(tally.failures[0]
            .what
            .contains("did not wipe the destination"));
    }
}

mod several {
    //! Faults in functions that process several authenticated messages. The suite `many` must
    //! detect them.

    use super::*;
    use kiln_kernel::call::AeadMessage;
    use std::slice::from_raw_parts;

    type SealMany = unsafe extern "C" fn(*const c_void, *const AeadMessage, usize, usize);
    type OpenMany =
        unsafe extern "C" fn(*const c_void, *const AeadMessage, usize, usize, *mut i32) -> usize;

    /// Returns the usable implementation with the most lanes.
    fn honest() -> Option<Impl> {
        let all = Impl::find_all("ccm(aes)").into_iter();
        all.rev().find(|i| i.tier().usable() && i.lanes().is_some())
    }

    fn address(entry: Entry) -> *const c_void {
        honest().and_then(|i| i.function(entry)).unwrap().address()
    }

    unsafe extern "C" fn one_bit_of_the_last_tag(
        ctx: *const c_void,
        m: *const AeadMessage,
        count: usize,
        tag_size: usize,
    ) {
        // SAFETY: the arguments are valid for the replaced function, which has the type `SealMany`.
        // Every message has a tag of `tag_size` bytes.
        unsafe {
            std::mem::transmute::<*const c_void, SealMany>(address(Entry::SealMany))(
                ctx, m, count, tag_size,
            );
            let last = &from_raw_parts(m, count)[count - 1];
            *last.tag.add(tag_size - 1) ^= 1;
        }
    }

    unsafe extern "C" fn accepts_the_last(
        ctx: *const c_void,
        m: *const AeadMessage,
        count: usize,
        tag_size: usize,
        err: *mut i32,
    ) -> usize {
        // SAFETY: the arguments are valid for the replaced function, which has the type `OpenMany`.
        // Therefore `err` has room for one result per message.
        unsafe {
            let wrong = std::mem::transmute::<*const c_void, OpenMany>(address(Entry::OpenMany))(
                ctx, m, count, tag_size, err,
            );
            *err.add(count - 1) = 0;
            wrong
        }
    }

    unsafe extern "C" fn leaves_text(
        ctx: *const c_void,
        m: *const AeadMessage,
        count: usize,
        tag_size: usize,
        err: *mut i32,
    ) -> usize {
        // SAFETY: the arguments are valid for the replaced function, which has the type `OpenMany`.
        // Therefore `err` has room for one result per message, and the destination of every message
        // has room for `len` bytes.
        unsafe {
            let wrong = std::mem::transmute::<*const c_void, OpenMany>(address(Entry::OpenMany))(
                ctx, m, count, tag_size, err,
            );
            for (m, err) in from_raw_parts(m, count)
                .iter()
                .zip(from_raw_parts(err, count))
            {
                if *err != 0 && m.len > 0 {
                    *m.dst.add(m.len - 1) = 0x80;
                }
            }
            wrong
        }
    }

    /// Replaces the function for `entry` with `function`. Returns the failures that the suite
    /// `many` then reports, or `None` if this CPU cannot run a suitable implementation.
    fn reports(name: &'static CStr, entry: Entry, function: *const c_void) -> Option<String> {
        let Some(imp) = honest() else {
            println!("SKIPPED: needs a tier that processes several messages");
            return None;
        };
        assert_eq!(check(imp, Suite::Many, 0..60).failed, 0);
        // SAFETY: `function` has the signature of the function that it replaces.
        let imp = unsafe { imp.disguised(name, entry, function) };
        let tally = check(imp, Suite::Many, 0..60);
        assert!(tally.failed > 0, "{tally:#?}");
        Some(format!("{:#?}", tally.failures))
    }

    #[test]
    fn a_wrong_bit_of_one_tag_is_caught() {
        let function = one_bit_of_the_last_tag as *const c_void;
        if let Some(what) = reports(c"bit", Entry::SealMany, function) {
            assert!(what.contains("tags: byte"), "{what}");
        }
    }

    #[test]
    fn a_wrong_tag_that_is_accepted_is_caught() {
        let function = accepts_the_last as *const c_void;
        if let Some(what) = reports(c"accepts", Entry::OpenMany, function) {
            assert!(what.contains("accepted a wrong tag"), "{what}");
        }
    }

    #[test]
    fn text_of_a_forged_message_that_is_left_is_caught() {
        let function = leaves_text as *const c_void;
        if let Some(what) = reports(c"leaves", Entry::OpenMany, function) {
            assert!(what.contains("output: byte"), "{what}");
        }
    }
}

const OFFENDER: &str = "KILN_TEST_OFFENDER";

/// Runs the faulty implementation `name` in a child process.
fn in_a_child(name: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "child",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(OFFENDER, name)
        .output()
        .unwrap()
}

/// Runs in the child process that `in_a_child` starts.
#[test]
#[ignore = "a helper of the tests below, which start it"]
fn child() {
    let imp = match std::env::var(OFFENDER).as_deref() {
        Ok("read-past") => offender(c"read-past", read_past_source),
        Ok("read-before") => offender(c"read-before", read_before_source),
        Ok("write-past") => offender(c"write-past", write_past_destination),
        Ok("iv-past") => offender(c"iv-past", read_past_iv),
        Ok("ud2") => offender(c"ud2", invalid),
        _ => return,
    };
    let tally = random(imp);
    println!("survived: {} of {} failed", tally.failed, tally.cases);
}

/// Expects the child to exit with status 1 and to print one line, which contains the command that
/// replays only the failed case.
fn dies_of(name: &str, why: &str) {
    let out = in_a_child(name);
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1), "{name}: {out:?}");
    let line = err
        .lines()
        .find(|l| l.starts_with("FAILED: "))
        .unwrap_or_else(|| panic!("{name}: {err}"));
    println!("{line}");
    assert!(line.contains(why), "{line}");
    let (_, replay) = line.split_once("; replay: ").unwrap();
    assert!(CASES.contains(&case_of(replay, XTS, name, Suite::Random)));
}

#[test]
fn a_byte_read_past_the_source_is_caught_by_the_guard_page() {
    dies_of(
        "read-past",
        "SIGSEGV in the guard page after the source, byte 1;",
    );
}

#[test]
fn a_byte_read_before_the_source_is_caught_by_the_guard_page() {
    dies_of(
        "read-before",
        "SIGSEGV in the guard page before the source, byte 1;",
    );
}

/// The written byte has the same value as the poison, so only the guard page can detect the write.
#[test]
fn a_byte_written_past_the_destination_is_caught_by_the_guard_page() {
    dies_of(
        "write-past",
        "SIGSEGV in the guard page after the destination, byte 1;",
    );
}

#[test]
fn a_byte_read_past_the_iv_is_caught_by_the_guard_page() {
    dies_of("iv-past", "SIGSEGV in the guard page after the IV, byte 1");
}

#[test]
fn an_invalid_instruction_is_a_failing_case() {
    dies_of("ud2", "SIGILL at address 0x");
}

/// The signal handler must not treat a fault outside a tested call as a failed case.
#[test]
fn a_fault_elsewhere_is_not_swallowed() {
    use std::os::unix::process::ExitStatusExt;
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_elsewhere", "--ignored", "--nocapture"])
        .env(OFFENDER, "elsewhere")
        .output()
        .unwrap();
    assert_eq!(out.status.signal(), Some(11), "{out:?}");
}

/// Runs in the child process that `a_fault_elsewhere_is_not_swallowed` starts.
#[test]
#[ignore = "a helper of the test above, which starts it"]
fn child_elsewhere() {
    if std::env::var(OFFENDER).as_deref() == Ok("elsewhere") {
        let bench = kiln_questions::test::Bench::new().unwrap();
        let nowhere = std::hint::black_box(16 as *const u8);
        // SAFETY: this read is invalid on purpose. The test needs a fault, and only this child
        // process is affected.
        unsafe { nowhere.read_volatile() };
        drop(bench);
    }
}
