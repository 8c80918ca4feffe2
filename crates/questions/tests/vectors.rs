//! Checks that every usable implementation gives the known answers, and that a wrong known answer
//! is detected for every algorithm.

use std::sync::atomic::AtomicBool;

use kiln_kernel::cipher::{Impl, Kind, Op};
use kiln_questions::test::guard::Place;
use kiln_questions::test::message::Layout;
use kiln_questions::test::run::{self, Job};
use kiln_questions::test::{vectors, Bench, Family, Replay, Suite};

fn families() -> Vec<Family> {
    let usable: Vec<Impl> = Impl::all()
        .into_iter()
        .filter(|i| i.tier().usable())
        .collect();
    Family::split(&usable).into_iter().map(Family::of).collect()
}

#[test]
fn known_answers_hold() {
    for suite in [Suite::Vectors, Suite::Wycheproof] {
        for family in families() {
            let job = Job::new(family.clone(), suite, 1, None, "");
            for part in run::one(job, 2, &AtomicBool::new(false)).unwrap() {
                let imp = family.subjects[part.subject];
                assert_eq!(part.tally.failed, 0, "{imp:?}: {:#?}", part.tally.failures);
                println!("{imp:?} {suite}: {} cases", part.tally.cases);
            }
        }
    }
}

/// Changes the last byte of every known answer. The check in ordinary memory and the check in
/// guarded memory must both detect this, because they compare all bytes.
#[test]
fn a_wrong_vector_is_noticed() {
    let mut bench = Bench::new().unwrap();
    for family in families() {
        let imp = family.judge;
        for mut vector in vectors::of(family.alg) {
            let end = match imp.kind() {
                Kind::Skcipher => &mut vector.cipher,
                Kind::Aead | Kind::Hash => &mut vector.tag,
            };
            let Some(last) = end.last_mut() else { continue };
            *last ^= 1;
            let plainly = vector.check_plainly(imp, Op::Encrypt);
            assert!(plainly.is_err(), "{imp:?}, {}", vector.name);
            if vector.message.text.len() > 5000 || vector.message.key.len() > 5000 {
                continue;
            }
            let (message, judged) = vector.task(imp, Op::Encrypt).unwrap();
            let layout = Layout::at(Place::End, false);
            let replay = Replay("", 0);
            let result = bench.check(imp, Op::Encrypt, &message, &judged, &layout, replay);
            assert!(result.is_err(), "{imp:?}, {}", vector.name);
        }
    }
}
