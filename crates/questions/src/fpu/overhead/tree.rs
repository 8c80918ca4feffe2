//! Measures a hosted kernel tree's methods of calling a cipher, using the tree's own drivers and
//! crypto API.

use std::sync::atomic::AtomicBool;

use kiln_question::lens::Lens;
use kiln_question::{Error, Outcome, Report};

use super::plan::Plan;
use super::run::{compare, Path, Row};
use crate::speed;
use kiln_timing::peer::Wanted;
use kiln_timing::{Op, Tree};

const ALG: &str = "xts(aes)";

/// Measures a tree's methods with `driver`, or with the tree's best driver if `driver` is `None`.
/// `policy` is the policy's name in the rows.
///
/// # Errors
/// Fails if the tree has no such driver.
pub(super) fn run_tree(
    plan: &Plan,
    tree: &mut Tree,
    policy: &str,
    driver: Option<&str>,
    stop: &AtomicBool,
    progress: Report<'_>,
) -> Result<Outcome<Row>, Error> {
    let ways = tree.ways(ALG, driver)?;
    let mut outcome = Outcome::default();
    let mut named: Vec<(Path, String)> = Vec::new();
    for (path, name) in [
        (Path::Primitive, ways.primitive),
        (Path::Direct, Some(ways.direct.clone())),
        (Path::SimdHelper, ways.helper),
        (Path::Cryptd, ways.cryptd),
        (Path::Scalar, ways.scalar),
        (Path::SyncUser, ways.synchronous),
    ] {
        match name {
            Some(name) => named.push((path, name)),
            None => outcome
                .notes
                .push(format!("{policy}: no {} in this tree", path.name())),
        }
    }
    let mut impls: Vec<String> = named.iter().map(|(_, name)| name.clone()).collect();
    impls.dedup();
    let speed = speed::Plan {
        algs: vec![ALG.to_string()],
        impls,
        ops: vec![Op::Encrypt],
        lens: Lens(plan.lens.clone()),
        key_bits: vec![256],
        peers: Wanted::None,
        quick: plan.quick,
        own: false,
        ..speed::Plan::new(plan.seed)
    };
    let measured = speed::run_with(speed, &[&*tree], stop, progress)?;
    outcome.failed = measured.failed;
    outcome.interrupted = measured.interrupted;
    // Drop the note that begins with ±, because it explains columns that this table does not have.
    let told = |n: &String| !n.starts_with('±');
    outcome
        .notes
        .extend(measured.notes.into_iter().filter(told));
    for &len in &plan.lens {
        let mut rows = Vec::new();
        for (path, name) in &named {
            let found = measured
                .rows
                .iter()
                .find(|r| r.len == len && r.imp == *name);
            let Some(found) = found else { continue };
            let figure = |x: f64| x.is_finite().then_some(x);
            rows.push(Row {
                alg: ALG.into(),
                imp: name.clone(),
                provider: found.provider.clone(),
                config: found.config.clone(),
                len,
                policy: policy.to_string().into(),
                path: path.name().into(),
                cycles_per_op: figure(found.cycles_per_op),
                cycles_low: figure(found.ci_low),
                cycles_high: figure(found.ci_high),
                ns_per_op: figure(found.ns_per_op),
                ns_low: figure(found.ns_low),
                ns_high: figure(found.ns_high),
                mb_per_s: figure(found.mb_per_s),
                ..Row::default()
            });
        }
        // Compare a tree's methods with the tree's own simd helper, because the tree's code differs
        // from Kiln's.
        compare(&mut rows, (policy, Path::SimdHelper));
        outcome.rows.append(&mut rows);
    }
    Ok(outcome)
}
