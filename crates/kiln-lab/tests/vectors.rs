//! IEEE Std 1619-2018, annex B, in every usable implementation.

use kiln_kernel::xts::Impl;
use kiln_lab::check::{vectors, Subject};

#[test]
fn ieee_1619() {
    let all = vectors::ieee1619();
    assert_eq!(all.len(), 19);
    let mut run = 0;
    for imp in Impl::all() {
        if !imp.tier().usable() {
            println!(
                "SKIPPED {imp:?}: this CPU lacks {}",
                imp.tier().lacks().unwrap_or("nothing, but it is masked")
            );
            continue;
        }
        let tally = vectors::run(&Subject::of(imp), &all).unwrap();
        assert_eq!(tally.failed, 0, "{imp:?}: {:#?}", tally.failures);
        // Two directions, four places, in place and not.
        assert_eq!(tally.cases, 19 * 16);
        println!("{imp:?}: {} vectors, {} cases", all.len(), tally.cases);
        run += 1;
    }
    assert!(run >= 2, "the scalar implementations are always usable");
}

/// A wrong byte anywhere in a vector is noticed: the check compares all of it.
#[test]
fn a_wrong_vector_is_noticed() {
    let imp = Impl::find("xts-aes-generic").unwrap();
    for mut vector in vectors::ieee1619() {
        let last = vector.cipher.len() - 1;
        vector.cipher[last] ^= 1;
        let tally = vectors::run(&Subject::of(imp), &[vector.clone()]).unwrap();
        assert_eq!(tally.failed, tally.cases, "vector {}", vector.name);
    }
}
