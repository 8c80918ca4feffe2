//! Times candidates in several threads at the same time (`--multi`).

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{channel, Sender};
use std::thread;

use kiln_measure::Team;

use super::plan::Plan;
use super::set::{Set, Table};
use super::sources::Sources;
use kiln_timing::{
    bench, check_after, check_before, subjects, Crew, Entry, Reference, Timed, Work,
};

/// What a benchmark times: pairs of a message length and the index of a candidate in the table.
pub(super) type Jobs = [(usize, usize)];

/// Creates messages for each job.
pub(super) fn create_sets<'s>(table: &Table<'s>, jobs: &Jobs) -> Result<Vec<Set<'s>>, String> {
    jobs.iter()
        .map(|&(len, c)| {
            let set = table.sets(len, &[c])?.pop();
            set.ok_or_else(|| "no such length".to_string())
        })
        .collect()
}

/// Returns the entries and references that [`bench`] and [`check_before`] need to run these jobs
/// with these messages.
fn create_entries<'c, 'a, 's>(
    table: &'c Table<'a>,
    jobs: &Jobs,
    sets: &'s [&Set<'a>],
) -> (Vec<Entry<'c, 'a>>, Vec<Vec<&'s Reference<'a>>>) {
    let entry =
        |(&(_, c), set): (&(usize, usize), &&Set)| Entry::new(&table.candidates[c], &set.messages);
    let entries = jobs.iter().zip(sets).map(entry).collect();
    let references = sets.iter().map(|set| set.references.iter().collect());
    (entries, references.collect())
}

/// Times jobs with these messages in this thread or, if the plan requests several threads, in all
/// of them at once. The other threads create their own messages.
pub(super) fn bench_all(
    plan: &Plan,
    table: &Table,
    jobs: &Jobs,
    sets: &[&Set],
    effort: &kiln_measure::Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64),
) -> Vec<Timed> {
    let (entries, references) = create_entries(table, jobs, sets);
    let Some(cores) = &plan.cores else {
        return bench(entries, &references, None, effort, stop, progress);
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
                    // Send two reports even though nothing was timed, because the leader waits for
                    // both of them.
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
        bench(entries, &references, Some(&crew), effort, stop, progress)
    })
}

/// Runs one of the other threads: creates its own candidates and messages, times them together with
/// the leader, and sends one report before and one after the timing.
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
    let sets = create_sets(&table, jobs)?;
    let sets: Vec<&Set> = sets.iter().collect();
    let (mut entries, references) = create_entries(&table, jobs, &sets);
    let mut faults = check_before(&mut entries, &references);
    let _ = report.send(faults.clone());
    team.follow(number, &mut subjects(&mut entries));
    check_after(&entries, &references, &mut faults);
    let _ = report.send(faults);
    Ok(())
}
