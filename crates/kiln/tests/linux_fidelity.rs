//! Tests `kiln linux fidelity`, `nested` and `dkms`: with invalid arguments and, if
//! `KILN_TEST_QEMU` is set, by booting real kernels.

use crate::common::{kiln, kiln_with};

#[test]
fn bad_input_is_one_line_and_its_status() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().to_str().unwrap();
    let file = dir.path().join("bzImage");
    std::fs::write(&file, "no kernel").unwrap();
    let file = file.to_str().unwrap();
    for command in ["fidelity", "nested", "dkms"] {
        let run = kiln_with(&["linux", command], &[("PATH", empty)]);
        assert_eq!(run.status, 3, "{run:?}");
        assert!(
            run.stderr.contains("apt-get install qemu-system-x86"),
            "{run:?}"
        );
        assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
        for args in [
            vec!["--debian", "6"],
            vec!["--debian", "6.12; true"],
            vec!["--kernel", file],
            vec!["--headers", empty],
            vec!["--kernel", file, "--headers", empty, "--debian", "6.1"],
            vec!["--accel", "hvf"],
            vec!["--limit", "0"],
        ] {
            let run = kiln(&[&["linux", command], &args[..]].concat());
            assert_eq!((run.status, run.stderr.lines().count()), (2, 1), "{run:?}");
        }
    }
    for args in [["--system", empty], ["--package", file]] {
        let run = kiln(&[&["linux", "dkms"], &args[..]].concat());
        assert_eq!((run.status, run.stderr.lines().count()), (2, 1), "{run:?}");
    }
    for args in [["--system", empty], ["--package", file]] {
        let run = kiln(&[&["linux", "dkms"], &args[..]].concat());
        assert_eq!((run.status, run.stderr.lines().count()), (2, 1), "{run:?}");
    }
    let nowhere = format!("{empty}/records");
    let run = kiln(&["linux", "fidelity", "--record", &nowhere]);
    assert_eq!((run.status, run.stderr.lines().count()), (2, 1), "{run:?}");
}

/// Boots Debian's 6.12 kernel. Runs only if `KILN_TEST_QEMU` is set, because it downloads a kernel.
#[test]
fn a_real_kernel_agrees_and_nested_sections_lose_nothing() {
    if std::env::var_os("KILN_TEST_QEMU").is_none() {
        return println!(
            "SKIPPED: set KILN_TEST_QEMU=1 to boot a kernel under QEMU (a minute, 120 MB)"
        );
    }
    let run = kiln(&["linux", "fidelity", "--json"]);
    assert_eq!(run.status, 0, "{run:?}");
    let json = run.json();
    let rows = json["rows"].as_array().unwrap();
    let answers = rows.iter().filter(|r| r["kind"] == "answer");
    assert!(answers.clone().count() >= 32 && answers.clone().all(|r| r["agree"] == true));

    let run = kiln(&["linux", "nested", "--json"]);
    assert_eq!(run.status, 0, "{run:?}");
    let json = run.json();
    let rows = json["rows"].as_array().unwrap();
    let wrong = |mode: &str| -> u64 {
        let of = rows.iter().filter(|r| r["mode"] == mode);
        of.map(|r| r["wrong"].as_u64().unwrap()).sum()
    };
    assert_eq!((wrong("saved"), wrong("scalar")), (0, 0));
    assert!(wrong("unsaved") > 0, "the control");
}

/// Boots Debian's 6.1 kernel. Runs only if `KILN_TEST_QEMU` is set, because it downloads a kernel
/// and its headers.
#[test]
fn the_installable_module_keeps_ipsec_out_of_cryptd_and_planted_faults_are_found() {
    if std::env::var_os("KILN_TEST_QEMU").is_none() {
        return println!(
            "SKIPPED: set KILN_TEST_QEMU=1 to boot a kernel under QEMU (minutes, 120 MB)"
        );
    }
    let run = kiln(&[
        "linux",
        "dkms",
        "--debian",
        "6.1",
        "--accel",
        "tcg",
        "--seconds",
        "3",
        "--cycles",
        "2",
        "--json",
    ]);
    assert_eq!(run.status, 0, "{run:?}");
    let json = run.json();
    let rows = json["rows"].as_array().unwrap();
    let sum = |module: &str, names: &[&str]| -> u64 {
        let rows = rows.iter().filter(|r| r["module"] == module);
        rows.flat_map(|r| names.iter().map(|n| r[*n].as_u64().unwrap()))
            .sum()
    };
    let wrong = ["wrong", "disk_wrong", "registers_wrong"];
    for module in ["without", "with", "cycles"] {
        assert!(sum(module, &["sent"]) > 0, "{module}");
        assert_eq!(sum(module, &wrong), 0, "{module}");
    }
    assert!(sum("without", &["cryptd"]) > 0);
    assert_eq!(sum("with", &["cryptd", "lost"]), 0);
    assert!(sum("with", &["nested_saves"]) > 0);
    assert_eq!(sum("cycles", &["cycles"]), 2);
    assert!(rows.iter().all(|r| r["load_ms"].as_u64().unwrap() > 0));
    assert!(rows.iter().all(|r| r["load_ms"].as_u64().unwrap() > 0));
    assert!(
        sum("unsaved", &wrong) > 0,
        "the control: registers not saved"
    );
    assert!(
        json.to_string()
            .contains("kiln-rfc4106-gcm-aes-aesni: not offered: it encrypts wrongly"),
        "the control: a wrong bit in a known answer"
    );
}
