//! Runs every suite. Suites that do not depend on a policy run under every mask of tiers; the
//! others run in every context. A mask applies to the whole process, so these tests are in a
//! separate binary.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use kiln_kernel::cipher::Impl;
use kiln_kernel::Tier;
use kiln_questions::test::masks::{self, Event};
use kiln_questions::test::{Plan, Row, Suite};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn plan(cases: u64) -> Plan {
    Plan {
        impls: Impl::all(),
        suites: Suite::OF_MASKS
            .into_iter()
            .chain(Suite::of_policies())
            .collect(),
        seed: 1,
        cases,
        requests: 40,
        many: 4,
        in_contexts: cases,
        interrupted: cases,
        forgeries: 2,
        longest: false,
        threads: 2,
    }
}

fn usable_tiers() -> Vec<Tier> {
    Tier::ALL.into_iter().filter(|t| t.usable()).collect()
}

/// Returns whether a suite contains tests for the implementation `imp`.
fn has(imp: Impl, suite: Suite) -> bool {
    match suite {
        Suite::Keys | Suite::Wiped => imp.is_keyed(),
        Suite::Forgeries => imp.kind() == kiln_kernel::cipher::Kind::Aead,
        Suite::Wycheproof => !kiln_questions::test::wycheproof::of(imp).is_empty(),
        _ => suite.fits(imp),
    }
}

#[test]
fn every_mask_and_every_policy() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = plan(if cfg!(debug_assertions) { 60 } else { 500 });
    let masks = Tier::masks();
    let before = usable_tiers();
    let (mut promised, mut told, mut groups) = (0, 0, 0);
    let rows = masks::run(
        &plan,
        &AtomicBool::new(false),
        &|_| (),
        &mut |event| match &event {
            Event::Group { rows, .. } => promised += rows,
            Event::Row(_) => told += 1,
            Event::End => groups += 1,
        },
    )
    .unwrap();
    assert_eq!(usable_tiers(), before, "the mask is put back");
    assert_eq!((promised, groups), (told, masks::groups(&plan)));

    for row in &rows {
        assert_eq!(row.failed, 0, "{row:#?}");
        match &row.reason {
            Some(reason) => println!("SKIPPED {}: {reason}", row.name()),
            None => assert!(row.cases > 0, "{row:#?}"),
        }
    }
    for imp in Impl::all() {
        let masks_with = masks.iter().filter(|m| m.contains(&imp.tier())).count();
        let count = |suite: Suite| {
            let of = |r: &&Row| r.implementation == imp.driver() && r.suite == suite.name();
            rows.iter().filter(of).count()
        };
        for suite in Suite::OF_MASKS.into_iter().filter(|s| has(imp, *s)) {
            let times = match suite {
                Suite::Wiped | Suite::Refusals => masks_with.min(1),
                _ => masks_with,
            };
            assert_eq!(count(suite), times, "{imp:?} {suite}");
        }
        for suite in Suite::of_policies() {
            // A suite that depends on a policy runs only once, with all tiers allowed. It has one
            // row for each of the four contexts.
            assert_eq!(count(suite), 4 * masks_with.min(1), "{imp:?} {suite}");
        }
    }
    let selected = rows.iter().filter(|r| r.suite == "selection").count();
    assert_eq!(selected, masks.len() * Impl::algorithms().len());
}

#[test]
fn what_cannot_run_is_a_skipped_row() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let before = usable_tiers();
    Tier::mask(&[Tier::Generic]);
    let stop = AtomicBool::new(false);
    let plan = Plan {
        suites: vec![Suite::Random],
        ..plan(10)
    };
    let rows = masks::run(&plan, &stop, &|_| (), &mut |_| ()).unwrap();
    assert_eq!(usable_tiers(), [Tier::Generic], "no more than before");
    Tier::mask(&before);

    let mut skipped: Vec<&str> = rows
        .iter()
        .filter(|r| r.skipped == 1 && r.cases == 0 && r.reason.is_some())
        .map(|r| r.implementation.as_str())
        .collect();
    let mut higher: Vec<&str> = Impl::all()
        .into_iter()
        .filter(|i| i.tier() != Tier::Generic)
        .map(Impl::driver)
        .collect();
    skipped.sort_unstable();
    higher.sort_unstable();
    assert_eq!(skipped, higher);
    assert!(rows.iter().all(|r| r.failed == 0), "{rows:#?}");
}

/// A replayed case must be identical to the case in the original run.
#[test]
fn replays_are_one_case_each() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = Plan {
        impls: Impl::find_all("ccm(aes)"),
        ..plan(1)
    };
    let (mut rows_told, mut groups) = (0, 0);
    let rows = masks::replay(&plan, 5, &mut |event| match event {
        Event::Row(_) => rows_told += 1,
        Event::End => groups += 1,
        Event::Group { .. } => {}
    })
    .unwrap();
    assert_eq!(groups, masks::replayed_groups(&plan, 5));
    assert_eq!(rows_told, rows.len());
    // Implementations that this CPU cannot run have a skipped row.
    let ran = rows.iter().filter(|r| r.alg != "all" && r.skipped == 0);
    for row in ran {
        let of_contexts = row.suite.contains(':');
        // Case 5 runs in only one of the four contexts.
        let want = u64::from(!of_contexts || row.context == "bh-off");
        match row.suite.as_str() {
            "wiped" => panic!("it has two cases: {row:?}"),
            "forgeries" => assert!(row.cases > 8, "{row:?}"),
            // The number of cases is the number of messages in the call.
            "many" => assert!((1..=80).contains(&row.cases), "{row:?}"),
            _ => assert_eq!(row.cases, want, "{row:?}"),
        }
        assert_eq!(row.failed, 0);
    }
}
