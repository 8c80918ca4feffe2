//! Times candidates in several threads at the same time (`--multi`).

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{channel, Sender};
use std::thread;

use kiln_measure::Team;

use super::plan::Plan;
use super::set::{Set, Table};
use super::sources::Sources;
use crate::timing::{
    bench, check_after, check_before, subjects, Crew, Entry, Reference, Timed, Work,
};

/// The candidates of a benchmark: for each, the message length and the index in the table.
pub(super) type Jobs = [(usize, usize)];

/// Times entries in this thread or, if the plan asks for several, in all threads at once. `jobs`
/// describes the entries, because each thread makes its own.
#[allow(clippy::too_many_arguments)]
pub(super) fn bench_all(
    plan: &Plan,
    table: &Table,
    jobs: &Jobs,
    entries: Vec<Entry>,
    references: &[Vec<&Reference>],
    effort: &kiln_measure::Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64),
) -> Vec<Timed> {
    let Some(cores) = &plan.cores else {
        return bench(entries, references, None, effort, stop, progress);
    };
    let team = Team::new(cores.count());
    let names: Vec<String> = jobs
        .iter()
        .map(|(_, c)| table.candidates[*c].name.to_string())
        .collect();
    thread::scope(|scope| {
        let (team, names) = (&team, &names);
        let work = &table.work;
        let start = |number| {
            let (report, reports) = channel();
            scope.spawn(move || {
                let pinned = cores.occupy(number).map_err(|e| e.to_string());
                let followed =
                    pinned.and_then(|()| follow(plan, work, jobs, names, number, team, &report));
                if let Err(why) = followed {
                    // The leader waits for two reports, and nothing was timed.
                    for _ in 0..2 {
                        let _ = report.send(vec![Some(why.clone()); jobs.len()]);
                    }
                }
            });
            reports
        };
        let crew = Crew {
            team,
            reports: (1..cores.count()).map(start).collect(),
        };
        bench(entries, references, Some(&crew), effort, stop, progress)
    })
}

/// Makes this thread a member of the team, with candidates and messages of its own.
fn follow(
    plan: &Plan,
    work: &Work,
    jobs: &Jobs,
    names: &[String],
    number: usize,
    team: &Team,
    report: &Sender<Vec<Option<String>>>,
) -> Result<(), String> {
    let sources = Sources::load(plan, &mut Vec::new()).map_err(|e| e.to_string())?;
    let table = Table::new(
        plan,
        work.with_op(work.op),
        &sources.list(&[]),
        &mut Vec::new(),
    );
    let table = table.map_err(|e| e.to_string())?;
    let is_same = |(&(_, c), name): (&(usize, usize), &String)| {
        table.candidates.get(c).is_some_and(|of| of.name == **name)
    };
    if !jobs.iter().zip(names).all(is_same) {
        return Err("this thread has other candidates".to_string());
    }
    let sets = jobs
        .iter()
        .map(|&(len, c)| {
            table
                .sets(len, &[c])?
                .pop()
                .ok_or_else(|| "no such length".to_string())
        })
        .collect::<Result<Vec<Set>, String>>()?;
    let all = jobs.iter().zip(&sets);
    let mut entries: Vec<Entry> = all
        .map(|(&(_, c), set)| Entry::new(&table.candidates[c], &set.messages))
        .collect();
    let references: Vec<Vec<&Reference>> = sets
        .iter()
        .map(|set| set.references.iter().collect())
        .collect();
    let mut faults = check_before(&mut entries, &references);
    let _ = report.send(faults.clone());
    team.follow(number, &mut subjects(&mut entries));
    check_after(&entries, &references, &mut faults);
    let _ = report.send(faults);
    Ok(())
}
