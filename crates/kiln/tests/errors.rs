//! Tests the messages for errors caused by bad input or by the machine. Each message must be a
//! single line that states what is wrong, where, and what to do about it.

use crate::common::{fault, kiln, kiln_with};

/// The arguments of a run, its expected exit status, and two texts that the error line must
/// contain: what is wrong, and the remedy.
type Case = (&'static [&'static str], i32, &'static str, &'static str);

/// A 32-byte key in hexadecimal.
const KEY: &str = "000102030405060708090a0b0c0d0e0f000102030405060708090a0b0c0d0e0f";

#[rustfmt::skip] // one case per line
const CASES: &[Case] = &[
    // Mistakes on the command line.
    (&["spede"], 2, "'spede'", "'speed'"),
    (&["speed", "--lens", "16"], 2, "'--lens'", "'--len'"),
    (&["list", "--seed", "x"], 2, "'x'", "see 'kiln list --help'"),
    (&["serve"], 2, "--socket", "see 'kiln serve --help'"),
    (&["linux", "boto"], 2, "'linux boto'", "'boot'"),
    (&["completions", "tcsh"], 2, "'tcsh'", "bash, zsh, fish"),
    // Unknown names: the message suggests the nearest name.
    (&["speed", "xts(ase)"], 2, "'xts(ase)'", "did you mean 'xts(aes)'"),
    (&["speed", "--impl", "xts-aes-vaes-avx51"], 2, "'xts-aes-vaes-avx51'", "did you mean 'xts-aes-vaes-avx512'"),
    (&["speed", "--op", "encrpyt"], 2, "'encrpyt'", "did you mean 'encrypt'"),
    (&["speed", "--via", "virtio", "cbc(ase)"], 2, "'cbc(ase)'", "did you mean 'cbc(aes)'"),
    (&["test", "sha265"], 2, "'sha265'", "did you mean 'sha256'"),
    (&["test", "--suite", "vectro"], 2, "'vectro'", "did you mean 'vectors'"),
    (&["test", "--constant-time", "gcm(ase)"], 2, "'gcm(ase)'", "did you mean 'gcm(aes)'"),
    (&["crypt", "--alg", "ctr(ase)"], 2, "'ctr(ase)'", "did you mean 'ctr(aes)'"),
    (&["fpu", "--policy", "nestd"], 2, "'nestd'", "did you mean 'nested'"),
    (&["fpu", "--inject", "tmier"], 2, "'tmier'", "did you mean 'timer'"),
    (&["fpu", "--overhead"], 2, "'--overhead'", "use: kiln fpu overhead"),
    (&["fpu", "--policy", "legacy", "prove"], 2, "--policy", "put it after 'prove'"),
    (&["fpu", "--fallback", "scaler"], 2, "'scaler'", "did you mean 'scalar'"),
    (&["budget", "--mode", "clokced"], 2, "'clokced'", "did you mean 'clocked'"),
    (&["ctrlq", "--mode", "wiat"], 2, "'wiat'", "did you mean 'wait'"),
    (&["linux", "selftest", "gcm(ase)"], 2, "'gcm(ase)'", "did you mean 'gcm(aes)'"),
    // Invalid numbers: the message gives the allowed values.
    (&["speed", "xts(aes)", "--len", "15"], 2, "length 15", "16"),
    (&["speed", "gcm(aes)", "--key-bits", "512"], 2, "--key-bits 512", "256"),
    (&["speed", "sha256", "--multi", "4096"], 2, "--multi 4096: this process may use", "or for all"),
    (&["speed", "sha256", "--multi", "two"], 2, "'two'", "a number of threads, or all"),
    (&["ipsec", "--packet-rate", "9,1"], 2, "--packet-rate", "the low one first"),
    (&["budget", "--seconds", "0"], 2, "--seconds 0", "0.001 to 60"),
    (&["ctrlq", "--workers", "0"], 2, "--workers 0", "use 1 to 256"),
    (&["ctrlq", "--mode", "async", "--workers", "8"], 2, "--workers", "use --depth"),
    (&["ctrlq", "--mode", "wait", "--spins", "9"], 2, "--spins", "leave --spins out"),
    (&["ctrlq", "--device-cpu", "0-1023"], 2, "--device-cpu 0-1023", "--cpu"),
    (&["ctrlq", "--socket", "/dev/null"], 2, "/dev/null: not a socket", "kiln serve"),
    (&["serve", "--socket", "x", "--out", "/tmp"], 2, "--out", "log"),
    (&["budget", "sha256", "--header", "h", "--mode", "fixed"], 2, "--header", "leave --mode out"),
    (&["compilers", "--code"], 2, "--code", "--explain CELL"),
    (&["compilers", "--cflags=-O3"], 2, "-O3 conflicts", "--opt"),
    (&["compilers", "--cflags=-fno-such-flag"], 2, "-fno-such-flag", "correct the flags"),
    (&["compilers", "--reproduce", "gcc-12/O2/a/b,gcc-12/O2/c/d", "--out", "x"], 2, "gcc-12/O2/a/b,", "a single cell"),
    (&["compilers", "--reproduce", "gcc-12/O2/a/b", "--out", "x", "--json"], 2, "--json", "leave --json out"),
    (&["compilers", "--baseline", "/etc/passwd"], 2, "/etc/passwd", ".json"),
    (&["ipsec", "--packet-size", "1400"], 2, "--packet-size", "--load pcap:FILE"),
    (&["ipsec", "--tree", "/usr"], 2, "--tree", "kiln fpu --policy tree:DIR"),
    (&["ctrlq", "--rounds", "5"], 2, "--rounds 5", "use 6"),
    (&["linux", "boot", "--memory", "lots"], 2, "'lots'", "such as 256M"),
    (&["linux", "fidelity", "--debian", "six"], 2, "'six'", "such as 6.12"),
    (&["compilers", "--max-regression", "5"], 2, "--max-regression", "--baseline CC"),
    (&["compilers", "--explain", "gcc"], 2, "'gcc' is not a cell", "CC/LEVEL/SUBJECT/VARIANT"),
    (&["crypt", "--alg", "cbc(aes)", "--key", "0g", "--iv", "00"], 2, "--key: character 2", "0-9 and a-f"),
    (&["crypt", "--alg", "cbc(aes)", "--key", KEY, "--iv", "00"], 2, "--iv", "16"),
    // Files and directories that cannot be used.
    (&["crypt", "--alg", "cbc(aes)", "--key", "@/no/key"], 2, "'/no/key'", "name a file you may read"),
    (&["crypt", "--alg", "sha256", "--in", "/no/file"], 2, "'/no/file'", "name a file you may read"),
    (&["compare", "/no/a.json", "/no/b.json"], 2, "'/no/a.json'", "name a record"),
    (&["compare", "Cargo.toml", "Cargo.toml"], 2, "'Cargo.toml' is not a record", "--json or --out"),
    (&["tree", "/no/tree"], 2, "'/no/tree' is not a Linux source tree", "name the directory"),
    (&["linux", "build", "--tree", "/no/tree"], 2, "'/no/tree'", "name the directory"),
    (&["fpu", "--policy", "tree:/no/tree"], 2, "'/no/tree'", "name the directory"),
    (&["compilers", "--subject", "no-such.c"], 2, "'no-such.c'", "'kiln compilers --list'"),
    (&["schema", "fpu prove"], 2, "'fpu prove' is a command", "fpu-step"),
    (&["linux", "build", "--sources", "Cargo.toml/x"], 2, "--sources Cargo.toml/x", "name a new directory"),
    (&["fpu", "prove", "--impl", "pattern", "--suite", "sha256"], 2, "--suite selects functions", "add --tree DIR"),
    (&["test", "--tree", "/no/tree", "--oracle", "all,none"], 2, "excludes every oracle", "leave 'none' or the others out"),
    (&["fpu", "overhead", "--impl", "xts-aes-generic"], 2, "uses no SIMD", "name another implementation"),
    (&["compilers", "--subject", "Cargo.toml"], 2, "'Cargo.toml' is not a C file", "ends in .c"),
    (&["speed", ""], 2, "the algorithm is empty", "choose from"),
    (&["speed", "--peers", "none,openssl"], 2, "'none' cannot be combined", "leave 'none' or the others out"),
    (&["compare", "no-such-1", "no-such-2", "--alg", "sha256"], 2, "'no-such-1'", "name a record"),
    (&["linux", "build", "--headers", "/etc"], 2, "'/etc' has no kernel headers", "name /lib/modules/VERSION/build"),
    (&["linux", "fidelity", "--kernel", "no-such", "--headers", "/etc"], 2, "'no-such'", "name the image of a built kernel"),
    (&["budget", "--header", "/no/dir/h"], 2, "/no/dir/h", "in a directory you may write to"),
    (&["list", "--out", "/dev/null/x"], 2, "'/dev/null/x'", "a directory you may write to"),
    (&["serve", "--socket", "/no/dir/kiln.sock"], 2, "/no/dir/kiln.sock", "in a directory you may write to"),
    (&["serve", "--socket", "/usr"], 2, "/usr: is a directory", "such as /usr/kiln.sock"),
    (&["virtio-check", "--socket", "unix:/no/kiln.sock"], 2, "'unix:/no/kiln.sock'", "write only the path: /no/kiln.sock"),
    (&["virtio-check", "--socket", "/no/kiln.sock"], 3, "/no/kiln.sock", "start a device there"),
    (&["man", "/dev/null/x"], 2, "'/dev/null/x'", "a directory you may write to"),
    (&["list", "--cpu", "1023"], 2, "core 1023", "name some of those"),
    (&["ctrlq", "--socket", "/no/kiln.sock"], 3, "/no/kiln.sock", "start a device there"),
    // Flags that would have no effect.
    (&["test", "sha256", "--suite", "forgeries"], 2, "has no test for sha256", "vectors"),
    (&["compilers", "--against", "gcc/O2/aes-generic/default"], 2, "--against", "--explain CELL"),
    (&["fpu", "--policy", "bh-off", "--fallback", "cryptd"], 2, "--fallback", "legacy"),
    (&["budget", "crc32c", "--op", "decrypt"], 2, "--op: crc32c", "leave it out"),
    (&["speed", "sha256", "--key-bits", "256"], 2, "--key-bits 256", "leave this option out"),
    (&["speed", "sha256", "--latency", "--len", "64"], 2, "--latency", "xts(aes)"),
    // Invalid numbers for common flags.
    (&["list", "--seed", "-1"], 2, "'-1'", "cannot be negative"),
    (&["list", "--seed", "0x10"], 2, "'0x10'", "a whole number"),
    (&["list", "--seed", "99999999999999999999"], 2, "'99999999999999999999'", "too large"),
    (&["self-check", "--quick", "--seed", ""], 2, "--seed", "needs a value"),
    // Programs, devices and files that the machine lacks.
    (&["compilers", "--cc", "no-such-cc"], 3, "'no-such-cc'", "name another with --cc"),
    (&["tree", "/no/tree", "--cc", "no-such-cc"], 2, "'/no/tree'", "name the directory"),
    (&["linux", "build", "--cc", "no-such-cc"], 3, "no-such-cc", "name another with --cc"),
];

#[test]
fn bad_input_is_one_line_with_thing_and_remedy() {
    for (args, status, thing, remedy) in CASES {
        let run = kiln(args);
        fault(&run, *status, thing);
        fault(&run, *status, remedy);
        let line = run.stderr.trim_end();
        // Raw messages of Rust or of a library must not reach the user.
        for never in [
            "os error",
            "Err(",
            "Error:",
            "panicked",
            "..",
            "::",
            "invalid digit",
            "invalid float",
        ] {
            assert!(!line.contains(never), "{args:?}: {line}");
        }
        assert!(line.chars().count() < 1000, "{args:?}: {line}");
    }
}

#[test]
fn what_is_wrong_with_the_environment_is_named_too() {
    for (variable, value, status, remedy) in [
        ("KILN_TIERS", "generic,aes", 2, "did you mean 'aesni'"),
        ("KILN_TREE_CHILD", "1", 2, "unset it"),
    ] {
        let run = kiln_with(&["list"], &[(variable, value)]);
        fault(&run, status, remedy);
    }
}
