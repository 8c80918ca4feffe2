//! An algorithm: the implementations to test, and the reference implementation whose results are
//! taken as correct.

use kiln_kernel::cipher::Impl;
use kiln_kernel::crypto::Api;
use kiln_kernel::Tier;

/// One algorithm, with the implementations to test.
#[derive(Clone, Debug)]
pub struct Family {
    /// The algorithm's name in the kernel.
    pub alg: &'static str,
    /// The reference implementation, whose results are taken as correct: the simplest one, which
    /// runs on every CPU.
    pub judge: Impl,
    /// The implementations to test.
    pub subjects: Vec<Impl>,
    /// All usable implementations, tested or not. If a message is processed in pieces, the tested
    /// implementation may alternate with one of these.
    pub usable: Vec<Impl>,
    /// The crypto API that receives the requests. `None` means the API linked into this program;
    /// `Some` is used when another build is tested.
    pub api: Option<&'static Api>,
}

impl Family {
    /// Creates a family from `subjects`, which must all implement the same algorithm. Also finds
    /// the implementations of this algorithm that are currently usable.
    pub fn of(subjects: Vec<Impl>) -> Family {
        let alg = subjects.first().expect("somebody to test").alg();
        let usable: Vec<Impl> = Impl::find_all(alg)
            .into_iter()
            .filter(|i| i.tier().usable())
            .collect();
        Family {
            alg,
            judge: judge_of(alg),
            subjects,
            usable,
            api: None,
        }
    }

    /// Groups `impls` by algorithm, in the order of their first appearance.
    pub fn split(impls: &[Impl]) -> Vec<Vec<Impl>> {
        let mut families: Vec<Vec<Impl>> = Vec::new();
        for imp in impls {
            match families.iter_mut().find(|f| f[0].alg() == imp.alg()) {
                Some(family) => family.push(*imp),
                None => families.push(vec![*imp]),
            }
        }
        families
    }
}

/// Returns the reference implementation of an algorithm, which is the lowest-priority
/// implementation that needs no vector registers.
pub fn judge_of(alg: &str) -> Impl {
    let mut all = Impl::find_all(alg).into_iter();
    all.find(|i| i.tier() == Tier::Generic)
        .expect("every algorithm has a scalar implementation")
}
