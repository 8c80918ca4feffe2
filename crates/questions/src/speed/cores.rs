//! Chooses the cores on which several threads run the same candidates at once (`--multi`).

use std::fmt;
use std::str::FromStr;

use kiln_measure::{pin_within, CoreList, PinError};
use kiln_question::Error;

/// The number of threads that `--multi` requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threads {
    /// One thread for each permitted core.
    All,
    Count(usize),
}

impl FromStr for Threads {
    type Err = String;

    fn from_str(text: &str) -> Result<Threads, String> {
        match (text, text.parse()) {
            ("all", _) => Ok(Threads::All),
            (_, Ok(n)) if n > 0 => Ok(Threads::Count(n)),
            _ => Err("name a number of threads, or all".to_string()),
        }
    }
}

/// The core of each thread, starting with the measuring thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The cores that this process may use, read before any thread was pinned.
    allowed: CoreList,
    cores: Vec<usize>,
    /// Whether any of these cores are logical processors of the same physical core.
    shared: bool,
}

impl Cores {
    /// Chooses cores for the threads. Takes one logical processor from each physical core before it
    /// takes a second one from any of them.
    ///
    /// # Errors
    /// Fails if there are more threads than cores that this process may use.
    pub(super) fn choose(threads: Threads) -> Result<Cores, Error> {
        let allowed = CoreList::allowed().map_err(|e| Error::lacks(e.to_string()))?;
        let (mut cores, physical) = allowed.spread();
        let n = match threads {
            Threads::All => cores.len(),
            Threads::Count(n) => n,
        };
        if n > cores.len() {
            return Err(Error::input(format!(
                "--multi {n}: this process may use {} cores ({allowed}): ask for at most as many, or for all",
                cores.len()
            )));
        }
        cores.truncate(n);
        Ok(Cores {
            allowed,
            cores,
            shared: n > physical,
        })
    }

    /// Returns the number of threads, including the measuring thread.
    pub(super) fn count(&self) -> usize {
        self.cores.len()
    }

    /// Pins the calling thread to the core of thread `number`, counted from 0.
    ///
    /// # Errors
    /// Fails if the kernel refuses to pin the thread. Do not use the thread for measurements after
    /// such a failure, because its results would be attributed to this core.
    pub(super) fn occupy(&self, number: usize) -> Result<(), PinError> {
        let core: CoreList = self.cores[number].to_string().parse()?;
        pin_within(&self.allowed, &core)
    }

    /// Checks that the kernel permits every core, by pinning the calling thread to each one. The
    /// thread stays pinned to the core of thread 0.
    ///
    /// # Errors
    /// Fails if the kernel refuses one of the cores.
    pub(super) fn occupy_first(&self) -> Result<(), Error> {
        (0..self.count()).rev().try_for_each(|number| {
            self.occupy(number).map_err(|e| {
                Error::lacks(format!(
                    "--multi: {e}: let this process call sched_setaffinity(), or leave out --multi"
                ))
            })
        })
    }

    /// Returns the note that explains the rows of a run on several cores.
    pub(super) fn note(&self) -> String {
        let shared = match self.shared {
            true => "; some of them are logical processors of one physical core (SMT)",
            false => "",
        };
        format!(
            "{self}{shared}: all threads run the same code at the same time; cycles, ns and MB/s are those of one \
             thread, total_mb_per_s is the sum, core_ghz the clock of a core meanwhile"
        )
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut cores: Vec<usize> = self.cores.clone();
        cores.sort_unstable();
        let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
        write!(f, "{} threads on cores {}", self.count(), cores.join(","))
    }
}

#[cfg(test)]
impl Cores {
    /// Returns two cores. The second one does not exist, so the kernel refuses to pin a thread to
    /// it.
    pub(super) fn with_a_missing_core() -> Cores {
        let own = CoreList::allowed().unwrap();
        let last = libc::CPU_SETSIZE as usize - 1;
        assert!(!own.cores().contains(&last), "this machine has {own}");
        Cores {
            allowed: format!("0-{last}").parse().unwrap(),
            cores: vec![own.cores()[0], last],
            shared: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that pinning a thread to a missing core is an error. As a control, also checks that a
    /// thread can be pinned to each of the permitted cores.
    #[test]
    fn a_core_that_the_kernel_refuses_is_an_error() {
        // Use a separate thread, because pinning outlives the call.
        let run = || {
            let why = Cores::with_a_missing_core().occupy_first().unwrap_err();
            assert_eq!(why.exit_code(), 3);
            let text = why.to_string();
            assert!(
                text.starts_with("--multi: cannot pin to cores 1023: "),
                "{text}"
            );
            let all = Cores::choose(Threads::All).unwrap();
            all.occupy_first().unwrap();
            assert_eq!(CoreList::allowed().unwrap().cores(), &all.cores[..1]);
        };
        std::thread::spawn(run).join().unwrap();
    }

    #[test]
    fn threads_are_a_number_or_all() {
        assert_eq!("all".parse(), Ok(Threads::All));
        assert_eq!("2".parse(), Ok(Threads::Count(2)));
        for wrong in ["0", "-1", "two", ""] {
            assert!(wrong.parse::<Threads>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn there_are_at_most_as_many_threads_as_cores() {
        let all = Cores::choose(Threads::All).unwrap();
        let allowed = CoreList::allowed().unwrap();
        assert_eq!(all.count(), allowed.cores().len());
        let why = Cores::choose(Threads::Count(all.count() + 1)).unwrap_err();
        assert_eq!(why.exit_code(), 2);
        assert!(why.to_string().contains(&allowed.to_string()), "{why}");
        assert_eq!(Cores::choose(Threads::Count(1)).unwrap().count(), 1);
    }
}
