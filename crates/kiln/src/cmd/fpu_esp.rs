//! `kiln fpu --load esp` and `pcap:FILE`.

use kiln_lab::fpu::esp::{self, EspOutcome, Settings};
use kiln_lab::fpu::{Bench, EspRow, Plan};
use kiln_lab::{read_facts, replace, Error};
use kiln_record::Facts;

use super::fpu::ended;
use crate::progress::Progress;
use crate::session::{Exit, Session};
use crate::table;

/// Runs the loads, and draws what came of them.
pub fn run(plan: &Plan, settings: &Settings, session: &Session) -> Result<Exit, Error> {
    session.settle();
    let facts = read_facts();
    let mut bench = Bench::own(plan)?;
    let mut outcome = {
        let progress = Progress::start();
        let mut tell = |done: f64, what: &str| progress.report(done, what);
        esp::run(plan, settings, &mut bench, &session.stop, &mut tell)?
    };
    draw(&mut outcome, &facts, session)?;
    let rows: Vec<EspRow> = outcome.rows.iter().map(EspRow).collect();
    session.emit("fpu", &facts, &rows, &outcome.notes, || {
        format!(
            "{}\n\n{}\n{}",
            table::machine(&facts),
            table::fpu_esp::tables(&outcome.rows),
            table::notes(&outcome.notes, session.seed)
        )
    })?;
    Ok(ended(outcome.failed, outcome.interrupted))
}

/// `DIR/fpu-LOAD.svg`, with `--out`.
fn draw(outcome: &mut EspOutcome, facts: &Facts, session: &Session) -> Result<(), Error> {
    let Some(dir) = &session.global.out else {
        return Ok(());
    };
    let mut loads: Vec<&str> = outcome.curves.iter().map(|c| c.0.as_str()).collect();
    loads.dedup();
    for load in loads {
        let of = outcome.curves.iter().filter(|c| c.0 == load);
        let lines: Vec<(&str, &[(f64, f64)])> = of.map(|c| (c.1.as_str(), &c.2[..])).collect();
        let path = dir.join(format!("fpu-{load}.svg"));
        let settings = outcome.rows.iter().find_map(|r| r.sweep.as_ref());
        let scheduler = settings.map_or("", |s| &s.scheduler);
        let note = format!(
            "{}, {scheduler}, seed {}",
            facts.machine.model, session.seed
        );
        replace::write(&path, esp::curve_svg(load, &lines, &note).as_bytes())?;
        outcome
            .notes
            .push(format!("{load}: picture in {}", path.display()));
    }
    for (n, (name, phases, lines)) in outcome.timelines.iter().enumerate() {
        let kind = name.split(':').next().unwrap_or_default();
        // Two captures are two pictures.
        let number = match outcome.timelines[..n].iter().any(|t| t.0.starts_with(kind)) {
            true => format!("-{}", n + 1),
            false => String::new(),
        };
        let path = dir.join(format!("fpu-{kind}{number}.svg"));
        let note = format!("{}, seed {}", facts.machine.model, session.seed);
        replace::write(&path, esp::svg(name, *phases, lines, &note).as_bytes())?;
        outcome
            .notes
            .push(format!("{name}: picture in {}", path.display()));
    }
    Ok(())
}
