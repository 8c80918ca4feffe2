//! Tests flags and names that people are likely to try first, such as the flags of other programs.

use std::collections::BTreeSet;
use std::fs;

use crate::common::{fault, kiln, kiln_fed};

const WORK: [&str; 4] = ["test", "sha256", "--suite", "vectors"];

#[test]
fn quiet_prints_nothing_and_keeps_the_record_and_the_status() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let run = kiln(&[&WORK[..], &["-q", "-o", out]].concat());
    assert_eq!((run.status, run.stdout().as_str()), (0, ""), "{run:?}");
    assert!(dir.path().join("test.json").exists());
    let run = kiln(&["list", "--quick", "--quiet"]);
    assert_eq!((run.status, run.stdout().as_str()), (0, ""), "{run:?}");
    // Without -q, the command must print text. With -q, it must still print the JSON.
    assert!(!kiln(&WORK).stdout().is_empty());
    kiln(&[&WORK[..], &["-q", "--json"]].concat()).json();
    fault(&kiln(&["test", "sha257", "-q"]), 2, "unknown algorithm");
}

#[test]
fn paths_are_relative_to_the_directory_of_c() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().to_str().unwrap();
    let run = kiln(&[&["-C", name], &WORK[..], &["--out", "sub"]].concat());
    assert_eq!(run.status, 0, "{run:?}");
    assert!(dir.path().join("sub/test.json").exists());
    let run = kiln(&["-C", name, "report", "sub", "--format", "csv"]);
    assert_eq!(run.status, 0, "{run:?}");
    fault(&kiln(&["-C", "/no/such", "list"]), 2, "-C /no/such");
}

#[test]
fn aliases_are_the_kernels_names() {
    let algs = |args: &[&str]| -> BTreeSet<String> {
        let record = kiln(&[args, &["--suite", "vectors", "--json"]].concat()).json();
        let rows = record["rows"].as_array().unwrap().iter();
        rows.map(|row| row["alg"].as_str().unwrap().to_string())
            .collect()
    };
    let kernel = ["test", "xts(aes)", "gcm(aes)", "rfc7539(chacha20,poly1305)"];
    let alias = ["test", "xts", "aes-256-gcm", "chacha20-poly1305"];
    assert_eq!(algs(&alias), algs(&kernel));
    let digest = |alg: &str| kiln_fed(&["crypt", "--alg", alg], b"abc").bytes;
    assert_eq!(digest("sha-256").len(), 32);
    assert_eq!(digest("sha-256"), digest("sha256"));
}

#[test]
fn completions_offer_algorithms_and_drivers() {
    for shell in ["bash", "zsh", "fish"] {
        let script = kiln(&["completions", shell]).stdout();
        for name in ["chacha20-poly1305", "xts-aes-vaes-avx512"] {
            assert!(script.contains(name), "{shell}: {name}");
        }
    }
    // Completions must contain only names that need no quoting in a shell.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kiln.bash");
    let script = kiln(&["completions", "bash"]).stdout();
    assert!(!script.contains("xts(aes)"));
    fs::write(&file, script).unwrap();
    let complete = format!(
        ". '{}'; COMP_WORDS=(kiln speed xt); COMP_CWORD=2; _kiln kiln xt speed; echo \"${{COMPREPLY[@]}}\"",
        file.display()
    );
    let output = std::process::Command::new("bash")
        .args(["-c", &complete])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap().trim(),
        "xts",
        "{:?}",
        output.stderr
    );
}
