//! Tests of the tests: implementations that are wrong in one way each, and how each is caught.

use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;

use kiln_kernel::xts::{Impl, Op};
use kiln_lab::check::{lengths, random, Subject, Tally};

const SEED: u64 = 77;
/// Past the sweep of lengths, so that a rare length is found by chance, as users' seeds must.
const CASES: std::ops::Range<u64> = 5_000..60_000;

fn check(subject: Subject<'_>, cases: std::ops::Range<u64>) -> Tally {
    let stop = AtomicBool::new(false);
    let mut tallies = random::run(&[subject], SEED, cases, 2, &stop, &|_| ()).unwrap();
    tallies.remove(0)
}

/// The best implementation, and what `then` does after it.
fn offender(
    name: &str,
    then: impl Fn(Op, *mut u8, *const u8, *mut u8, usize) + Sync + 'static,
) -> Subject<'static> {
    let right = Subject::of(Impl::best());
    Subject::new(name, move |op, key, iv, src, dst, len| {
        (right.crypt)(op, key, iv, src, dst, len)?;
        then(op, iv.cast_mut(), src, dst, len);
        Ok(())
    })
}

/// The case number in a replay line, which is checked word by word.
fn case_of(replay: &str, name: &str) -> u64 {
    let prefix = format!("kiln test 'xts(aes)' --impl {name} --seed {SEED} --case ");
    let number = replay.strip_prefix(&prefix);
    number
        .unwrap_or_else(|| panic!("{replay}"))
        .parse()
        .unwrap()
}

#[test]
fn the_right_one_passes() {
    let tally = check(offender("right", |_, _, _, _, _| ()), CASES);
    assert_eq!((tally.cases, tally.failed), (55_000, 0), "{tally:#?}");
}

/// One bit of the output, at one length, in one direction.
#[test]
fn a_flipped_bit_at_a_rare_length_is_caught_and_replayed() {
    let flip = || {
        offender("flip", |op, _, _, dst, len| {
            if len == 2067 && op == Op::Encrypt {
                // SAFETY: the destination has `len` bytes.
                unsafe { *dst.add(2066) ^= 0x10 };
            }
        })
    };
    let tally = check(flip(), CASES);
    assert!(tally.failed > 0);
    println!(
        "{} of {} cases: {:#?}",
        tally.failed, tally.cases, tally.failures
    );
    for failure in &tally.failures {
        assert!(failure.what.contains("byte 2066 of 2067"), "{failure:?}");
        let n = case_of(&failure.replay, "flip");
        let again = check(flip(), n..n + 1);
        assert_eq!((again.cases, again.failed), (1, 1));
        assert_eq!(again.failures.first(), Some(failure));
        let right = check(offender("right", |_, _, _, _, _| ()), n..n + 1);
        assert_eq!(right.failed, 0);
    }
}

/// In the sweep it takes no luck at all.
#[test]
fn a_flipped_bit_at_any_length_up_to_4112_is_caught_by_the_sweep() {
    for bad in [16, 31, 700, 1999, 4112] {
        let subject = offender("flip", move |_, _, _, dst, len| {
            if len == bad {
                // SAFETY: the destination has `len` bytes.
                unsafe { *dst ^= 1 };
            }
        });
        let n = bad as u64 - 16;
        assert_eq!(check(subject, n..n + 1).failed, 1, "length {bad}");
    }
}

#[test]
fn a_changed_iv_is_caught() {
    let tally = check(
        // SAFETY: the IV has 16 bytes, which `Crypt` says are writable.
        offender("iv", |_, iv, _, _, _| unsafe { *iv.add(15) ^= 1 }),
        CASES.start..CASES.start + 100,
    );
    assert_eq!(tally.failed, 100);
    assert!(tally.failures[0].what.contains("changed the IV: byte 15"));
}

#[test]
fn a_changed_source_is_caught() {
    let tally = check(
        offender("source", |_, _, src, dst, _| {
            if !std::ptr::eq(src, dst) {
                // SAFETY: the source has at least 16 bytes, in memory of the bench that is
                // writable, as it is a destination on the way back.
                unsafe { *src.cast_mut() ^= 1 };
            }
        }),
        CASES.start..CASES.start + 200,
    );
    assert!((50..150).contains(&tally.failed), "{}", tally.failed);
    assert!(tally.failures[0].what.contains("changed its source"));
}

/// Where there is room behind the destination, poison catches it. (Where there is none, the guard page does:
/// below.) The address tells the two apart.
#[test]
fn a_byte_past_the_destination_is_caught_by_poison() {
    let tally = check(
        offender("write-past", |_, _, _, dst, len| {
            if (dst as usize + len) % 4096 != 0 {
                // SAFETY: not the end of a page, so the byte lies in the bench's mapping.
                unsafe { *dst.add(len) = 0 };
            }
        }),
        CASES.start..CASES.start + 200,
    );
    assert!(tally.failed > 50, "{}", tally.failed);
    let what = &tally.failures[0].what;
    assert!(
        what.contains("wrote 1 byte(s) past the end of the "),
        "{what}"
    );
}

#[test]
fn a_byte_before_the_destination_is_caught_by_poison() {
    let tally = check(
        offender("write-before", |_, _, _, dst, _| {
            if dst as usize % 4096 != 0 {
                // SAFETY: not the start of a page, so the byte lies in the bench's mapping.
                unsafe { *dst.sub(1) = 0 };
            }
        }),
        CASES.start..CASES.start + 200,
    );
    assert!(tally.failed > 100, "{}", tally.failed);
    assert!(tally.failures[0].what.contains("before the start of the "));
}

#[test]
fn a_set_direction_flag_is_caught() {
    let tally = check(
        offender("std", |_, _, _, _, _| {
            // SAFETY: wrong on purpose; nothing but returns follows until the bench clears it.
            unsafe { std::arch::asm!("std") };
        }),
        CASES.start..CASES.start + 10,
    );
    assert_eq!(tally.failed, 10);
    assert!(tally.failures[0].what.contains("direction flag"));
}

/// A message that is too short must be refused, and nothing written before.
#[test]
fn an_eager_writer_of_short_messages_is_caught() {
    let right = Subject::of(Impl::best());
    assert_eq!(lengths::run(&right).unwrap().failed, 0);
    let eager = Subject::new("eager", |op, key, iv, src, dst, len| {
        if len > 0 {
            // SAFETY: the destination has `len` bytes.
            unsafe { *dst = 0 };
        }
        (right.crypt)(op, key, iv, src, dst, len)
    });
    let tally = lengths::run(&eager).unwrap();
    assert_eq!(
        (tally.cases, tally.failed),
        (3 * 2 * 2 * 16, 3 * 2 * 2 * 15)
    );
    let lax = Subject::new("lax", |_, _, _, _, _, _| Ok(()));
    let tally = lengths::run(&lax).unwrap();
    assert_eq!(tally.failed, tally.cases);
}

const OFFENDER: &str = "KILN_TEST_OFFENDER";

/// Run the offender of this name in a process of its own.
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

/// Not a test: what `in_a_child` runs.
#[test]
#[ignore = "a helper of the tests below, which start it"]
fn child() {
    let subject = match std::env::var(OFFENDER).as_deref() {
        // SAFETY: none: it reads what it may not, on purpose. So the three after it.
        Ok("read-past") => offender("read-past", |_, _, src, dst, len| unsafe {
            if !std::ptr::eq(src, dst) {
                src.add(len).read_volatile();
            }
        }),
        // SAFETY: as above.
        Ok("read-before") => offender("read-before", |_, _, src, dst, _| unsafe {
            if !std::ptr::eq(src, dst) {
                src.sub(1).read_volatile();
            }
        }),
        // SAFETY: as above.
        Ok("write-past") => offender("write-past", |_, _, _, dst, len| unsafe {
            dst.add(len).write_volatile(dst.add(len).read_volatile());
        }),
        // SAFETY: as above.
        Ok("iv-past") => offender("iv-past", |_, iv, _, _, _| unsafe {
            iv.add(16).read_volatile();
        }),
        // SAFETY: as above; `ud2` raises SIGILL.
        Ok("ud2") => offender("ud2", |_, _, _, _, _| unsafe { std::arch::asm!("ud2") }),
        _ => return,
    };
    let tally = check(subject, CASES);
    println!("survived: {} of {} failed", tally.failed, tally.cases);
}

/// Exit status 1 and one line that replays it: that case alone ends in the same way.
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
    assert!(CASES.contains(&case_of(replay, name)));
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

/// It leaves the poison as it was: the guard page alone catches it.
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

/// Outside a call under test a fault is what it always was.
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

/// Not a test: what `a_fault_elsewhere_is_not_swallowed` runs.
#[test]
#[ignore = "a helper of the test above, which starts it"]
fn child_elsewhere() {
    if std::env::var(OFFENDER).as_deref() == Ok("elsewhere") {
        let bench = kiln_lab::check::Bench::new().unwrap();
        let nowhere = std::hint::black_box(16 as *const u8);
        // SAFETY: none: it reads what it may not, on purpose.
        unsafe { nowhere.read_volatile() };
        drop(bench);
    }
}
