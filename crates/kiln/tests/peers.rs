//! Tests libraries that compute wrong results, are broken or are too old. The record must contain a
//! note about each of them, but no rows.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{fault, kiln_with, Run};

/// Compiles a shared library from this C text.
fn library(dir: &Path, name: &str, text: &str) -> PathBuf {
    let source = dir.join(format!("{name}.c"));
    let file = dir.join(format!("{name}.so"));
    std::fs::write(&source, text).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&file)
        .arg(&source)
        .status()
        .expect("a C compiler, which kernel/ needs as well");
    assert!(built.success());
    file
}

const VERSION: &str = "int nettle_version_major(void) { return 3; }\n\
                       int nettle_version_minor(void) { return 8; }\n";

/// C source of a cipher that copies its input to its output.
const WRONG: &str = "
#include <string.h>
void nettle_aes256_set_encrypt_key(void *ctx, const unsigned char *key) { memcpy(ctx, key, 32); }
void nettle_aes256_encrypt(const void *ctx, size_t n, unsigned char *dst, const unsigned char *src)
{ (void)ctx; memcpy(dst, src, n); }
";

fn speed(peers: &str, file: &Path) -> Run {
    let args = [
        "speed", "ecb(aes)", "--quick", "--len", "64", "--json", "--peers", peers,
    ];
    kiln_with(&args, &[("KILN_NETTLE", file.to_str().unwrap())])
}

/// Expects the run to have no row for nettle, but a note that contains `want`.
fn a_note_and_no_row(run: &Run, status: i32, want: &str) {
    assert_eq!(run.status, status, "{}", run.stderr);
    let doc = run.json();
    let rows = doc["rows"].as_array().unwrap();
    assert!(rows
        .iter()
        .any(|r| r["provider"] == "kiln" && r["cycles_per_op"].is_f64()));
    let of_it = rows
        .iter()
        .filter(|r| r["provider"].as_str().unwrap().starts_with("nettle"));
    assert_eq!(of_it.count(), 0);
    let best = rows.iter().filter_map(|r| r["best_peer_provider"].as_str());
    assert!(best.filter(|b| b.starts_with("nettle")).count() == 0);
    let notes = doc["notes"].as_array().unwrap();
    let told = |n: &serde_json::Value| n.as_str().unwrap().contains(want);
    assert!(notes.iter().any(told), "{notes:?}");
}

#[test]
fn a_wrong_answer_is_a_note_and_no_row() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = library(dir.path(), "wrong", &format!("{VERSION}{WRONG}"));
    a_note_and_no_row(&speed("auto", &wrong), 0, "WRONG ANSWER: nettle-3.8");
    // If the command line names the library, the command must fail.
    a_note_and_no_row(&speed("nettle", &wrong), 1, "WRONG ANSWER: nettle-3.8");
}

/// Control: a library that computes correct results must be measured, which shows that the library
/// is called.
#[test]
fn the_same_with_a_function_that_is_right_has_a_row() {
    let dir = tempfile::tempdir().unwrap();
    let right = "
#include <dlfcn.h>
#include <stddef.h>
typedef void crypt(const void *, size_t, unsigned char *, const unsigned char *);
typedef void set_key(void *, const unsigned char *);
static void *real(const char *name)
{
	static void *library;
	if (!library)
		library = dlopen(\"libnettle.so.8\", RTLD_NOW | RTLD_LOCAL);
	return library ? dlsym(library, name) : NULL;
}
int kiln_test_has_nettle(void) { return real(\"nettle_aes256_encrypt\") != NULL; }
void nettle_aes256_set_encrypt_key(void *ctx, const unsigned char *key)
{ ((set_key *)real(\"nettle_aes256_set_encrypt_key\"))(ctx, key); }
void nettle_aes256_encrypt(const void *ctx, size_t n, unsigned char *dst, const unsigned char *src)
{ ((crypt *)real(\"nettle_aes256_encrypt\"))(ctx, n, dst, src); }
";
    let here = kiln_with(&["list", "--json"], &[]).json();
    let here = here["rows"].as_array().unwrap().iter();
    if !here
        .clone()
        .any(|r| r["name"] == "nettle" && r["available"] == true)
    {
        println!("SKIPPED: no nettle here");
        return;
    }
    let right = library(dir.path(), "right", &format!("{VERSION}{right}"));
    let run = speed("nettle", &right);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let doc = run.json();
    let rows = doc["rows"].as_array().unwrap();
    assert!(rows.iter().any(|r| r["provider"] == "nettle-3.8"));
}

#[test]
fn too_old_or_broken_ones_are_notes() {
    let dir = tempfile::tempdir().unwrap();
    let old = VERSION.replace("return 8", "return 4");
    let old = library(dir.path(), "old", &format!("{old}{WRONG}"));
    a_note_and_no_row(&speed("auto", &old), 0, "is 3.4");
    let bare = library(dir.path(), "bare", "int nothing;\n");
    a_note_and_no_row(&speed("auto", &bare), 0, "too old");
    let without = library(dir.path(), "without", VERSION);
    a_note_and_no_row(&speed("auto", &without), 0, "nettle_aes256_set_encrypt_key");
    let text = dir.path().join("text.so");
    std::fs::write(&text, "no library\n").unwrap();
    a_note_and_no_row(&speed("auto", &text), 0, "check KILN_NETTLE");
    fault(&speed("nettle", &text), 3, "check KILN_NETTLE");
}

/// A multi-buffer manager with a different structure layout must not be used.
#[test]
fn a_manager_that_is_laid_out_otherwise_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let text = "
#include <stdlib.h>
#include <string.h>
unsigned imb_get_version(void) { return 0x10300; }
const char *imb_get_version_str(void) { return \"1.3.0\"; }
void sha256_sse(void) {}
void sha512_sse(void) {}
static void other(void) {}
void *alloc_mb_mgr(unsigned long long flags) { (void)flags; return calloc(1, 1 << 16); }
void free_mb_mgr(void *mgr) { free(mgr); }
void init_mb_mgr_auto(void *mgr, unsigned *arch)
{
	void (*f)(void) = other;
	int at;
	*arch = 5;
	for (at = 64; at < 1016; at += 8)
		memcpy((char *)mgr + at, &f, 8);
}
";
    let other = library(dir.path(), "other", text);
    let args = ["speed", "sha256", "--quick", "--len", "64", "--json"];
    let file = other.to_str().unwrap();
    let run = kiln_with(&args, &[("KILN_IPSEC_MB", file)]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let notes = run.json()["notes"].to_string();
    assert!(notes.contains("not laid out"), "{notes}");
    let newer = library(dir.path(), "newer", &text.replace("0x10300", "0x10500"));
    let run = kiln_with(&args, &[("KILN_IPSEC_MB", newer.to_str().unwrap())]);
    assert!(run.json()["notes"].to_string().contains("structures known"));
}

#[test]
fn a_baseline_that_is_a_peer_must_be_there() {
    let args = [
        "speed",
        "sha256",
        "--quick",
        "--len",
        "64",
        "--baseline",
        "libgcrypt",
    ];
    let run = kiln_with(&args, &[("KILN_LIBGCRYPT", "/no/such/file.so")]);
    fault(&run, 3, "peer libgcrypt is not here");
}
