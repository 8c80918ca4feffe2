//! An algorithm, whoever is tested of it, and who judges.

use kiln_kernel::cipher::Impl;
use kiln_kernel::crypto::Api;
use kiln_kernel::Tier;

/// The implementations of one algorithm that are tested.
#[derive(Clone, Debug)]
pub struct Family {
    /// The kernel's name.
    pub alg: &'static str,
    /// Whose answers are right: the plainest one, which runs everywhere.
    pub judge: Impl,
    /// Those tested.
    pub subjects: Vec<Impl>,
    /// All that may be used, tested or not: pieces take turns among them.
    pub usable: Vec<Impl>,
    /// Whose drivers requests go to; those linked in, if not another build's.
    pub api: Option<&'static Api>,
}

impl Family {
    /// Of `subjects`, all of one algorithm, with what may be used now.
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

    /// `impls` by algorithm, in the order they come in.
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

/// The one of the lowest priority that needs no vector registers.
pub fn judge_of(alg: &str) -> Impl {
    let mut all = Impl::find_all(alg).into_iter();
    all.find(|i| i.tier() == Tier::Generic)
        .expect("every algorithm has a scalar implementation")
}
