//! Sources of interrupts for the emulated CPU, selected by `--inject`.

use std::fs;
use std::str::FromStr;
use std::sync::Arc;

use kiln_kernel::cpu::Cpu;
use kiln_kernel::irq::{Arrivals, CrossCore, Timer};
use kiln_measure::CoreList;
use kiln_question::Error;

/// Shortest gap to replay, in nanoseconds. With shorter gaps, a host that delivers timer signals
/// slowly would spend all its time delivering them.
const SHORTEST_GAP: u64 = 50_000;
/// Longest gap that a file may contain, in nanoseconds. With longer gaps, a time slice might
/// contain no interrupt and would measure nothing.
const LONGEST_GAP: u64 = 1_000_000_000;

/// The source of interrupts that the user requested.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Inject {
    /// A timer with a constant period.
    Timer,
    /// A timer with random intervals.
    Poisson,
    /// Signals from another core.
    Signal,
    /// A timer that replays gaps from a file.
    Replay(Gaps),
    /// Breakpoints at random instructions.
    Breakpoint,
    /// Single-stepping, which interrupts before chosen instructions.
    Step(Steps),
}

/// Gaps between interrupts in nanoseconds, read from a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gaps {
    gaps: Arc<[u64]>,
    /// Number of gaps that were lengthened because they were too short to replay.
    stretched: usize,
}

/// The instructions before which single-stepping injects an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steps {
    /// Every instruction, for a proof.
    All,
    /// Only this instruction, for a replay.
    At(u64),
    /// One instruction of the section and one of the softirq, for a replay.
    Pair(u64, u64),
}

impl FromStr for Inject {
    type Err = Error;

    fn from_str(s: &str) -> Result<Inject, Error> {
        match s.split_once(':') {
            None => match s {
                "timer" => Ok(Inject::Timer),
                "poisson" => Ok(Inject::Poisson),
                "signal" => Ok(Inject::Signal),
                "replay" => Err(Error::input(
                    "--inject replay: name the file of gaps: replay:FILE",
                )),
                _ => Err(unknown(s)),
            },
            Some(("replay", file)) => Gaps::read(file).map(Inject::Replay),
            Some((name, _)) => Err(unknown(name)),
        }
    }
}

fn unknown(name: &str) -> Error {
    let known = ["timer", "poisson", "signal", "replay"];
    match name {
        "step" => Error::input("--inject step: use: kiln fpu prove"),
        "breakpoint" => Error::input("--inject breakpoint: use: kiln fpu prove breakpoint"),
        _ => kiln_question::unknown("source of interrupts", name, &known),
    }
}

impl FromStr for Steps {
    type Err = Error;

    /// Parses `K` or `K1,K2`, which identifies one injection to repeat.
    fn from_str(at: &str) -> Result<Steps, Error> {
        let number = |text: &str| {
            text.parse::<u64>().map_err(|_| {
                Error::input(format!(
                    "--at {at}: '{text}' is not the number of an instruction: use K or K1,K2, as in a replay line"
                ))
            })
        };
        match at.split_once(',') {
            None => Ok(Steps::At(number(at)?)),
            Some((k1, k2)) => Ok(Steps::Pair(number(k1)?, number(k2)?)),
        }
    }
}

impl Gaps {
    /// Reads a file that contains one gap per line, in nanoseconds. Blank lines and any text after
    /// a # are ignored.
    pub(crate) fn read(file: &str) -> Result<Gaps, Error> {
        let text = fs::read_to_string(file).map_err(|e| {
            Error::input(format!("--inject replay: cannot read '{file}': {e}: name a text file with one gap in ns per line"))
        })?;
        Gaps::parse(&text).map_err(|why| Error::input(format!("--inject replay: '{file}': {why}")))
    }

    fn parse(text: &str) -> Result<Gaps, String> {
        let mut gaps = Vec::new();
        let mut stretched = 0;
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let gap: u64 = line.parse().map_err(|_| {
                let shown: String = line.chars().take(40).collect();
                format!(
                    "line {}: '{shown}' is not a whole number of nanoseconds",
                    i + 1
                )
            })?;
            if gap > LONGEST_GAP {
                return Err(format!("line {}: a gap of more than a second", i + 1));
            }
            stretched += usize::from(gap < SHORTEST_GAP);
            gaps.push(gap.max(SHORTEST_GAP));
        }
        if gaps.is_empty() {
            return Err("no gaps: put a number of nanoseconds on each line".to_string());
        }
        Ok(Gaps {
            gaps: gaps.into(),
            stretched,
        })
    }

    /// Returns the average number of interrupts per second.
    fn rate(&self) -> f64 {
        1e9 * self.gaps.len() as f64 / self.gaps.iter().sum::<u64>() as f64
    }
}

/// A running source of interrupts. Dropping the value stops the source.
pub(crate) enum Source {
    /// A timer on this CPU.
    Timer(Timer),
    /// Another core that sends signals until this value is dropped.
    CrossCore(#[allow(dead_code)] CrossCore),
}

impl Inject {
    /// Returns the source's name as used in `--inject` and in rows.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Inject::Timer => "timer",
            Inject::Poisson => "poisson",
            Inject::Signal => "signal",
            Inject::Replay(_) => "replay",
            Inject::Breakpoint => "breakpoint",
            Inject::Step(_) => "step",
        }
    }

    /// Returns the maximum rate that the source can reach, in interrupts per second.
    pub(crate) fn ceiling(&self) -> f64 {
        match self {
            Inject::Signal => 60_000.0,
            _ => 33_000.0,
        }
    }

    /// Returns the rate that the source produces if `asked` interrupts per second are requested.
    pub(crate) fn rate(&self, asked: f64) -> f64 {
        match self {
            Inject::Replay(gaps) => gaps.rate(),
            _ => asked,
        }
    }

    /// Returns notes about the source that help interpret the results.
    pub(crate) fn notes(&self, asked: f64) -> Vec<String> {
        let how = match self {
            Inject::Timer => format!("from a timer, {asked} per second, at equal intervals"),
            Inject::Poisson => {
                format!("from a timer, {asked} per second on average, at random (Poisson) times")
            }
            Inject::Signal => format!("signals from another core, at most {asked} per second"),
            Inject::Replay(gaps) => format!(
                "with the {} gaps of a file, repeated from the start, {:.0} per second on average; {} gaps were shorter than {} µs and were \
                 lengthened to that",
                gaps.gaps.len(),
                gaps.rate(),
                gaps.stretched,
                SHORTEST_GAP / 1000
            ),
            Inject::Breakpoint | Inject::Step(_) => return Vec::new(),
        };
        vec![format!("interrupts: {how}")]
    }

    /// Starts interrupting `cpu`, which must be the emulated CPU of the calling thread.
    pub(crate) fn start(&self, cpu: &mut Cpu, hz: f64, seed: u64) -> Result<Source, Error> {
        let arrivals = match self {
            Inject::Poisson => Arrivals::Poisson(hz, seed),
            Inject::Replay(gaps) => Arrivals::Replay(gaps.gaps.clone()),
            Inject::Signal => {
                return CrossCore::start(cpu, hz, Some(other_core()?))
                    .map(Source::CrossCore)
                    .map_err(|e| {
                        Error::lacks(format!(
                            "cannot start a thread that interrupts: {e}: use --inject timer"
                        ))
                    })
            }
            _ => Arrivals::Periodic(hz),
        };
        Timer::start(cpu, arrivals).map(Source::Timer).map_err(|e| {
            Error::lacks(format!(
                "this host gives no timer to interrupt with: {e}: 'kiln fpu prove' needs none"
            ))
        })
    }
}

/// Finds a core other than the one on which this thread runs.
fn other_core() -> Result<usize, Error> {
    let mine = CoreList::allowed().map_err(|e| Error::lacks(e.to_string()))?;
    let all = CoreList::online()
        .ok_or_else(|| Error::lacks("cannot read the list of cores: use --inject timer"))?;
    let other = all.cores().iter().find(|c| !mine.cores().contains(c));
    other.copied().ok_or_else(|| {
        Error::lacks(
            "--inject signal needs a second core, but only one can be used: use --inject timer",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (text, want) in [
            ("timer", Inject::Timer),
            ("poisson", Inject::Poisson),
            ("signal", Inject::Signal),
        ] {
            assert_eq!(text.parse::<Inject>().unwrap(), want, "{text}");
        }
        for (text, want) in [("17", Steps::At(17)), ("17,4", Steps::Pair(17, 4))] {
            assert_eq!(text.parse::<Steps>().unwrap(), want, "{text}");
        }
        for (text, want) in [
            ("", "'' is not"),
            ("1,x", "'x' is not"),
            ("-1", "'-1' is not"),
        ] {
            let e = text.parse::<Steps>().unwrap_err();
            assert!(e.to_string().contains(want), "{text}: {e}");
            assert_eq!(e.exit_code(), 2);
        }
        for (text, want) in [
            ("tmer", "did you mean 'timer'"),
            ("step", "use: kiln fpu prove"),
            ("step:5", "use: kiln fpu prove"),
            ("breakpoint", "use: kiln fpu prove breakpoint"),
            ("timer:5", "unknown source"),
            ("replay", "replay:FILE"),
            ("replay:/no/such/file", "cannot read"),
        ] {
            let e = text.parse::<Inject>().unwrap_err();
            assert!(e.to_string().contains(want), "{text}: {e}");
            assert_eq!(e.exit_code(), 2);
        }
    }

    #[test]
    fn gaps() {
        let gaps = Gaps::parse("# a trace\n250000\n\n 750000 # late\n").unwrap();
        assert_eq!(*gaps.gaps, [250_000, 750_000]);
        assert_eq!((gaps.rate(), gaps.stretched), (2000.0, 0));
        assert_eq!(Gaps::parse("0\n").unwrap().stretched, 1);
        for (text, want) in [
            ("1000\nx\n", "line 2: 'x'"),
            ("-5\n", "line 1"),
            ("1.5\n", "line 1"),
            ("99999999999999999999999\n", "line 1"),
            ("2000000000\n", "more than a second"),
            ("# nothing\n", "no gaps"),
        ] {
            assert!(Gaps::parse(text).unwrap_err().contains(want), "{text}");
        }
    }
}
