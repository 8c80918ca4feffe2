//! Tests the program `kiln` in a single test binary. With one binary per file, linking would take a
//! minute longer. Also, cargo runs binaries one after another, so a slow single-threaded test would
//! leave the other cores idle.
//!
//! `cargo test --release -p kiln --test all serve::` runs only the tests in `serve.rs`.

mod boots;
mod budget;
mod budget_tree;
mod cli;
mod common;
mod compare;
mod compilers;
mod crypt;
mod defaults;
mod device;
mod device_figures;
mod docs;
mod documents;
mod edited;
mod errors;
mod exports;
mod fpu;
mod fpu_tree;
mod guest;
mod habits;
mod here;
mod hosted_speed;
mod hostile;
mod install;
mod interrupt;
mod ipsec;
mod killed;
mod ktap;
mod kunit;
mod lava;
mod libraries;
mod library;
mod linux_fidelity;
mod oracles;
mod oracles_planted;
mod peers;
mod planted;
mod policies;
mod policy_trees;
mod primitives;
mod prove_tree;
mod raw;
mod records;
mod report;
mod revisions;
mod serve;
mod shards;
mod slurm;
mod survey;
mod tree;

/// Every file in `tests/` must have a `mod` line here, because otherwise its tests would never run.
#[test]
fn each_file_of_tests_is_a_module() {
    let is_module = |name: &str| include_str!("main.rs").contains(&format!("\nmod {name};\n"));
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(
            name == "main" || is_module(name),
            "{} is not run: add `mod {name};` to main.rs",
            path.display()
        );
    }
    // Control: `main` is not a module here.
    assert!(!is_module("main"));
}
