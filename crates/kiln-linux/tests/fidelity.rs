//! Compares the emulated CPU's answers with the answers of real kernels in `linux/records/`, which
//! `kiln linux fidelity --record` wrote. The tests need neither QEMU nor a kernel.

use std::fs;
use std::path::Path;
use std::thread;

use kiln_kernel::crypto::broken;
use kiln_linux::debian;
use kiln_linux::fidelity::emulated::Emulated;
use kiln_linux::fidelity::question::{self, Asked, Question};
use kiln_linux::fidelity::row::Record;

fn records() -> Vec<(String, Record)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux/records");
    let files = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    files
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let record = Record::read(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            (
                path.file_stem().unwrap().to_str().unwrap().to_owned(),
                record,
            )
        })
        .collect()
}

/// Describes each difference between the emulated CPU's answers and the record, and counts the
/// questions that the emulated CPU cannot answer.
fn differences(
    record: &Record,
    policy: &str,
    only: impl Fn(&Question) -> bool,
) -> (Vec<String>, usize) {
    let (mut differ, mut unasked) = (Vec::new(), 0);
    let mut cpu = Emulated::boot(policy).unwrap();
    for question in question::all()
        .iter()
        .filter(|q| q.concerns(&record.rows[0].policy) && only(q))
    {
        let row = record.answers().find(|r| r.number == Some(question.number));
        let Some(row) = row else {
            differ.push(format!("question {} is not in the record", question.number));
            continue;
        };
        if row.asked.as_ref() != Some(&question.program()) {
            differ.push(format!("question {} was another one", question.number));
        }
        match cpu.answer(question) {
            None => unasked += 1,
            Some(answer) if row.real.as_ref() == Some(&answer) => {}
            Some(answer) => differ.push(format!(
                "{} {}: real {:?}, emulated {answer:?}",
                question.number, question.text, row.real
            )),
        }
    }
    (differ, unasked)
}

/// Runs `body` on a new thread, because a thread can become an emulated CPU only once.
fn on_a_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|s| s.spawn(body).join().unwrap())
}

// All checks are in one test, because the policy and the broken rules are set for the whole
// process.
#[test]
fn the_emulated_cpu_answers_as_real_kernels_did() {
    let records = records();
    for wanted in ["6.1", "6.12"] {
        assert!(
            records.iter().any(|(name, _)| name == wanted),
            "a record of {wanted}"
        );
    }
    for (name, record) in &records {
        let first = &record.rows[0];
        assert_eq!(*name, debian::version(&first.kernel));
        let (differ, unasked) = on_a_thread(|| differences(record, &first.policy, |_| true));
        assert!(
            differ.is_empty(),
            "Linux {}:\n{}",
            first.kernel,
            differ.join("\n")
        );
        if unasked > 0 {
            println!("SKIPPED: {unasked} questions, since nothing is asynchronous without SIMD");
        }
        println!(
            "Linux {}: {} answers",
            first.kernel,
            record.answers().count() - unasked
        );
    }

    // Control: the test must detect differences under other policies and with broken rules.
    let (_, record) = records.iter().find(|(name, _)| name == "6.12").unwrap();
    let scenes = |q: &Question| matches!(q.asked, Asked::Scene(_));
    for other in ["bh-off", "nested", "preemptible", "none"] {
        let (differ, _) = on_a_thread(|| differences(record, other, scenes));
        println!("{other}: {} answers differ", differ.len());
        assert!(!differ.is_empty(), "{other} answers as legacy does");
    }
    for rules in [
        broken::NO_LIMIT,
        broken::NO_BACKLOG,
        broken::UNCOUNTED,
        broken::LATE_FIRST,
    ] {
        broken::set(rules);
        // Exclude question 54, which frees a transform while requests wait: with cryptd's rules
        // broken, this would be a use after free.
        let (differ, unasked) =
            on_a_thread(|| differences(record, "legacy", |q| !scenes(q) && q.number != 54));
        broken::set(0);
        if unasked == 0 {
            println!("rule {rules:#x} broken: {} answers differ", differ.len());
            assert!(!differ.is_empty(), "a broken rule {rules:#x} is not seen");
        }
    }
}
