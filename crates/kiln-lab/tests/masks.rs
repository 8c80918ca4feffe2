//! Every suite under every mask of tiers. The mask is the whole process's, so these tests have one of their own.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use kiln_kernel::xts::Impl;
use kiln_kernel::Tier;
use kiln_lab::check::ktap::Ktap;
use kiln_lab::check::suite::{self, Event};
use kiln_lab::check::{Outcome, Plan};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn plan(cases: u64) -> Plan {
    Plan {
        impls: Impl::all(),
        seed: 1,
        cases,
        threads: 2,
    }
}

fn usable_tiers() -> Vec<Tier> {
    Tier::ALL.into_iter().filter(|t| t.usable()).collect()
}

/// And that the implementation chosen is the one expected under each.
#[test]
fn every_mask() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = plan(if cfg!(debug_assertions) { 500 } else { 20_000 });
    let masks = suite::masks();
    let before = usable_tiers();
    let mut text = Vec::new();
    let mut ktap = Ktap::new(&mut text, masks.len(), &[]);
    let mut chosen = Vec::new();
    let rows = suite::run(&plan, &AtomicBool::new(false), &|_| (), &mut |event| {
        if let Event::Mask { .. } = event {
            chosen.push(Impl::best().driver());
        }
        ktap.event(&event);
    })
    .unwrap();
    ktap.finish().unwrap();
    print!("{}", String::from_utf8(text).unwrap());

    let highest = masks.iter().map(|m| *m.last().unwrap());
    let want: Vec<&str> = highest.map(suite::expected).collect();
    assert_eq!(chosen, want);
    assert_eq!(usable_tiers(), before, "the mask is put back");

    for row in &rows {
        assert_eq!(row.failed, 0, "{row:#?}");
        match &row.reason {
            Some(reason) => println!("SKIPPED {}: {reason}", row.name()),
            None => assert!(row.cases > 0, "{row:#?}"),
        }
    }
    for imp in Impl::all() {
        let masks_with = masks.iter().filter(|m| m.contains(&imp.tier())).count();
        for suite in ["vectors", "lengths", "random"] {
            let of = |r: &&Outcome| r.implementation == imp.driver() && r.suite == suite;
            assert_eq!(
                rows.iter().filter(of).count(),
                masks_with,
                "{imp:?} {suite}"
            );
        }
    }
}

/// A tier that is masked from outside is not run, and its implementations are rows that say so.
#[test]
fn what_cannot_run_is_a_skipped_row() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let before = usable_tiers();
    Tier::mask(&[Tier::Generic]);
    let stop = AtomicBool::new(false);
    let rows = suite::run(&plan(10), &stop, &|_| (), &mut |_| ()).unwrap();
    assert_eq!(usable_tiers(), [Tier::Generic], "no more than before");
    Tier::mask(&before);

    let skipped: Vec<&str> = rows
        .iter()
        .filter(|r| r.skipped == 1 && r.cases == 0 && r.reason.is_some())
        .map(|r| r.implementation.as_str())
        .collect();
    let higher: Vec<&str> = Impl::all()
        .into_iter()
        .filter(|i| i.tier() != Tier::Generic)
        .map(Impl::driver)
        .collect();
    assert_eq!(skipped, higher);
    assert!(rows.iter().all(|r| r.failed == 0), "{rows:#?}");
}
