//! Adds a cipher to a copy of the tree by adding a folder, `tests/toy`, and nothing else. Checks
//! that the cipher is built, listed, tested and timed.

mod common;
mod repository;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use common::{build_library, copy, load, root};
use kiln_kernel::calls::Calls;
use kiln_kernel::cipher::{Context, Impl, Op, Sections};
use kiln_kernel::messages::Messages;
use kiln_kernel::Tier;
use kiln_questions::test::guard::Place;
use kiln_questions::test::message::Layout;
use kiln_questions::test::run::{self, Job};
use kiln_questions::test::{selection, vectors, Bench, Family, Replay, Suite};
use repository::copy_repository;

fn toy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/toy")
}

fn text(name: &str) -> String {
    fs::read_to_string(toy().join(name)).unwrap()
}

/// Builds a copy of `kernel/` that contains only the new cipher. This takes a few seconds.
#[test]
fn a_folder_makes_a_cipher_of_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let kernel = dir.path().join("kernel");
    copy(&root().join("kernel"), &kernel);
    for folder in kiln_kbuild::cipher_folders(&kernel).unwrap() {
        fs::remove_dir_all(kernel.join("ciphers").join(folder)).unwrap();
    }
    copy(&toy(), &kernel.join("ciphers/toy"));
    let (impls, api) = load(&build_library(dir.path()));

    let drivers: Vec<&str> = impls.iter().map(|i| i.driver()).collect();
    assert_eq!(drivers, ["toy-generic", "toy-aesni"]);
    let usable: Vec<Impl> = impls.into_iter().filter(|i| i.tier().usable()).collect();
    let family = Family {
        alg: "toy",
        judge: usable[0],
        subjects: usable.clone(),
        usable: usable.clone(),
        api: Some(api),
    };
    known_answers_hold(&usable);
    the_ranking_holds(&usable);
    for suite in [
        Suite::Keys,
        Suite::Lengths,
        Suite::Splits,
        Suite::Requests,
        Suite::Refusals,
        Suite::Random,
    ] {
        let job = Job::new(family.clone(), suite, 1, Some(0..2000), "");
        for part in run::one(job, 2, &AtomicBool::new(false)).unwrap() {
            assert!(part.tally.cases > 0, "{suite}");
            assert_eq!(part.tally.failed, 0, "{suite}: {:#?}", part.tally.failures);
        }
    }
    for imp in usable {
        let took = nanoseconds(imp);
        println!("{imp:?}: {took:.0} ns for 4 KiB");
        assert!(took > 0.0);
    }
}

fn known_answers_hold(impls: &[Impl]) {
    let mut bench = Bench::new().unwrap();
    let known = vectors::read("toy", &text("vectors.txt"));
    assert!(!known.is_empty());
    for vector in known {
        for (imp, op) in impls
            .iter()
            .flat_map(|i| [(*i, Op::Encrypt), (*i, Op::Decrypt)])
        {
            let (message, judged) = vector.task(impls[0], op).unwrap();
            let layout = Layout::at(Place::End, false);
            let result = bench.check(imp, op, &message, &judged, &layout, Replay("", 0));
            assert_eq!(result, Ok(()), "{imp:?} {op:?}");
        }
    }
}

fn the_ranking_holds(impls: &[Impl]) {
    let ranking = text("ranking.txt");
    for mask in [&[Tier::Generic][..], &[Tier::Generic, Tier::Aesni]] {
        let allowed = impls.iter().filter(|i| mask.contains(&i.tier()));
        let chosen = allowed.max_by_key(|i| i.priority()).unwrap();
        let end = selection::expected_by("toy", &ranking, "toy", mask).unwrap();
        assert!(chosen.driver().ends_with(&end) || !mask[mask.len() - 1].usable());
    }
    assert_eq!(
        selection::expected_by("toy", &ranking, "other", &Tier::ALL),
        None
    );
}

fn nanoseconds(imp: Impl) -> f64 {
    const CALLS: u64 = 1000;
    let (src, mut dst) = (vec![1; 4096], vec![0; 4096]);
    let context = Context::new(imp, &[7; 16]).unwrap();
    let mut calls = Calls {
        sections: Sections::Each,
        ..Calls::new(Messages::single(Op::Encrypt, &src, &mut dst, &[]))
    };
    let start = Instant::now();
    calls.run(imp, &context, CALLS).unwrap();
    let took = start.elapsed().as_nanos() as f64 / CALLS as f64;
    assert_eq!(dst, [8; 4096]);
    took
}

/// Builds the whole program from a copy of the tree that contains the folder. This takes minutes,
/// or seconds if nothing has changed since the last run. Command: `cargo test --release -p
/// kiln-questions --test new_cipher -- --ignored`
#[test]
#[ignore = "builds the whole program once more"]
fn a_folder_makes_a_cipher_of_the_program() {
    // Keep the directory, so that the next run has less to build.
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-cipher");
    let tree = home.join("tree");
    let folder = fs::read_dir(toy()).unwrap().map(|entry| {
        let file = entry.unwrap();
        let name = Path::new("kernel/ciphers/toy").join(file.file_name());
        (name, fs::read(file.path()).unwrap())
    });
    copy_repository(&tree, |_, _| None, folder);
    let built = Command::new(env!("CARGO"))
        .args([
            "build",
            "--release",
            "--locked",
            "--offline",
            "--package",
            "kiln",
        ])
        .env("CARGO_TARGET_DIR", home.join("target"))
        .current_dir(&tree)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");

    let kiln = |arguments: &[&str]| {
        let run = Command::new(home.join("target/release/kiln"))
            .args(arguments)
            .arg("--json")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{arguments:?}: {said}");
        let record: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        record["rows"].as_array().unwrap().clone()
    };
    let of = |rows: &[serde_json::Value], driver: &str| {
        let found = rows
            .iter()
            .find(|r| r["name"] == driver || r["impl"] == driver);
        found
            .unwrap_or_else(|| panic!("no {driver}: {rows:?}"))
            .clone()
    };
    let has_simd = Tier::Aesni.usable();
    let listed = kiln(&["list"]);
    let tested = kiln(&["test", "toy", "--cases", "500"]);
    let suites: Vec<_> = tested
        .iter()
        .map(|r| r["suite"].as_str().unwrap())
        .collect();
    for suite in ["selection", "vectors", "wiped", "random", "contexts:nested"] {
        assert!(suites.contains(&suite), "{suites:?}");
    }
    assert!(tested.iter().all(|r| r["failed"] == 0), "{tested:?}");
    let timed = kiln(&["speed", "toy", "--len", "1024", "--quick"]);
    for driver in ["toy-generic", "toy-aesni"] {
        if driver == "toy-generic" || has_simd {
            of(&listed, driver);
            assert!(of(&timed, driver)["cycles_per_byte"].as_f64().unwrap() > 0.0);
        }
    }
    let compiled = kiln(&[
        "compilers",
        "--subject",
        "toy-generic",
        "--cc",
        "gcc",
        "--opt",
        "O2",
        "--variant",
        "default",
        "--quick",
    ]);
    assert_eq!(compiled[0]["subject"], "toy-generic", "{compiled:?}");
}
