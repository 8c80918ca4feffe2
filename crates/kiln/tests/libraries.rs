//! Tests `kiln libraries`: the list, and installations that must fail. Real installations are
//! tested only with `KILN_TEST_REGISTRIES=1`, because they need package registries and take several
//! minutes.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{fault, kiln_with, Run};
use serde_json::Value;

/// Returns the names of the libraries in the cache.
fn names(cache: &Path) -> Vec<String> {
    let entries = fs::read_dir(cache.join("kiln/libraries")).into_iter();
    let names = entries.flatten().flatten().map(|e| e.file_name());
    names.map(|n| n.into_string().unwrap()).collect()
}

fn list(cache: &Path) -> Run {
    let cache = cache.to_str().unwrap();
    // Set a PATH without programs, because the command must list libraries without running programs
    // or querying a registry.
    kiln_with(
        &["libraries", "--json"],
        &[("XDG_CACHE_HOME", cache), ("PATH", "/no/such/directory")],
    )
}

fn find<'a>(doc: &'a Value, name: &str) -> &'a Value {
    let rows = doc["rows"].as_array().unwrap();
    rows.iter().find(|r| r["name"] == name).unwrap()
}

#[test]
fn every_library_is_listed_with_what_would_provide_it() {
    let cache = tempfile::tempdir().unwrap();
    let run = list(cache.path());
    assert_eq!(run.status, 0, "{}", run.stderr);
    let doc = run.json();
    for name in ["openssl", "libgcrypt", "ipsec-mb", "aws-lc"] {
        let row = find(&doc, name);
        let get = row["get"].as_str().unwrap();
        assert!(get.starts_with(&format!("kiln libraries install {name}")));
        match row["available"] == true {
            true => assert_eq!(row["place"], "system", "{row}"),
            false => assert!(row["reason"].as_str().unwrap().contains("is not here")),
        }
    }
    // Kiln looks for AWS-LC only in the cache, which is empty here.
    assert_eq!(find(&doc, "aws-lc")["available"], false);
    assert!(names(cache.path()).is_empty());
}

/// If a library in the cache cannot be loaded, Kiln must still find the system's library.
#[test]
fn a_broken_library_in_the_cache_is_passed_over() {
    let cache = tempfile::tempdir().unwrap();
    let dir = cache.path().join("kiln/libraries/openssl-99.0.0");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("libcrypto.so"), "not a library\n").unwrap();
    let doc = list(cache.path()).json();
    let row = find(&doc, "openssl");
    assert_ne!(row["version"], "99.0.0");
    match row["available"] == true {
        true => assert_eq!(row["place"], "system", "{row}"),
        false => assert!(row["reason"].to_string().contains("openssl-99.0.0")),
    }
}

#[test]
fn an_unknown_library_is_refused() {
    let run = kiln_with(&["libraries", "install", "opensll"], &[]);
    fault(&run, 2, "did you mean 'openssl'");
}

#[test]
fn missing_programs_are_named_at_once() {
    let cache = tempfile::tempdir().unwrap();
    let env = [
        ("XDG_CACHE_HOME", cache.path().to_str().unwrap()),
        ("PATH", "/no/such/directory"),
    ];
    let run = kiln_with(&["libraries", "install", "openssl"], &env);
    fault(
        &run,
        3,
        "cargo, perl, make, cc not found: apt-get install cargo perl make gcc",
    );
    assert!(names(cache.path()).is_empty());
}

/// If the package client fails, or succeeds without providing a library, the command must print one
/// error line and leave no library in the cache.
#[test]
fn a_failed_installation_leaves_nothing() {
    let cache = tempfile::tempdir().unwrap();
    let bin = tempfile::tempdir().unwrap();
    let path = format!("{}:{}", bin.path().display(), env::var("PATH").unwrap());
    for (script, want) in [
        (
            "echo 'error: failed to fetch the index' >&2; exit 101",
            "failed to fetch the index: check the network",
        ),
        ("mkdir vendor", "gave no openssl-src"),
        (
            "mkdir -p vendor/openssl-src-400.9.9+4.9.9/openssl",
            "cannot install openssl: ",
        ),
    ] {
        let cargo = bin.path().join("cargo");
        fs::write(&cargo, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        // Skip the test if perl or another program is missing, because the error would then be
        // about that program.
        let env = [
            ("XDG_CACHE_HOME", cache.path().to_str().unwrap()),
            ("PATH", path.as_str()),
        ];
        let run = kiln_with(&["libraries", "install", "openssl"], &env);
        if run.stderr.contains("not found: apt-get install") {
            println!("SKIPPED: {}", run.stderr);
            return;
        }
        fault(&run, 3, want);
        assert!(names(cache.path()).is_empty(), "{:?}", names(cache.path()));
    }
}

/// Each library must be installable. Once installed, it must appear in the list and compute correct
/// results.
#[test]
fn libraries_are_installed_and_measured() {
    if env::var_os("KILN_TEST_REGISTRIES").is_none_or(|v| v.is_empty()) {
        println!("SKIPPED: package registries and minutes for them (KILN_TEST_REGISTRIES=1)");
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let env = [("XDG_CACHE_HOME", cache.path().to_str().unwrap())];
    let run = kiln_with(&["libraries", "install", "--json"], &env);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let doc = run.json();
    for name in ["openssl", "libgcrypt", "ipsec-mb", "aws-lc"] {
        let row = find(&doc, name);
        assert_eq!(row["place"], "cache", "{row}");
        assert!(row["year"].as_u64().is_some(), "{row}");
        let args = ["speed", "gcm(aes)", "--len", "64,1420", "--quick", "--json"];
        let run = kiln_with(&[&args[..], &["--peers", name]].concat(), &env);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let provider = format!("{name}-{}", row["version"].as_str().unwrap());
        let rows = run.json();
        let rows = rows["rows"].as_array().unwrap();
        assert!(rows.iter().any(|r| r["provider"] == provider), "{provider}");
    }
    assert!(names(cache.path()).iter().all(|n| !n.starts_with('.')));
}
