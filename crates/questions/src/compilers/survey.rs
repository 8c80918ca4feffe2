//! The survey part that runs `kiln compilers`.

use kiln_question::survey::{args, Contribution, Means, Part, Runs, Slot};

use super::headline::{self, TOPIC};

pub(crate) static SURVEY: &[Contribution] = &[Contribution {
    topic: &TOPIC,
    parts: &[&COMPILERS],
    rows: |answers| {
        let all = Runs::new(answers, &[&COMPILERS]);
        let rows = [headline::cells(&all), headline::compilers(&all)];
        rows.into_iter().flatten().collect()
    },
    failed: |_| false,
}];

/// The survey part that measures how compilers affect a cipher's speed.
pub(super) static COMPILERS: Part = Part {
    name: "compilers",
    what: "compilers",
    importance: 7,
    least_s: 3.0,
    share: 0.20,
    can_run: |means| !means.compilers.is_empty(),
    missing,
    args: |slot| {
        let (seconds, processes) = (slot.seconds, slot.processes);
        let compilers = &slot.means.compilers;
        Matrix::within(seconds, processes, compilers.len()).args(seconds, processes, compilers)
    },
    left_out,
    ..Part::USUAL
};

/// Estimated times in seconds: `FIND_S` to find a compiler, `BUILD_S` to build a cell on two cores,
/// `CELL_S` to time a cell, and `HARNESS_S` to build the harness.
const FIND_S: f64 = 0.25;
const BUILD_S: f64 = 0.35;
const CELL_S: f64 = 0.25;
const HARNESS_S: f64 = 1.2;
const LEVELS: [&str; 4] = ["O2", "O3", "O1", "Os"];
const VARIANTS: usize = 2;

fn missing(means: &Means) -> Option<(&'static str, &'static str)> {
    match means.compilers.len() {
        0 => Some((
            "all compilers, because none is installed",
            "apt-get install gcc clang",
        )),
        1 => Some(("a second compiler, not installed", "apt-get install clang")),
        _ => None,
    }
}

fn left_out(slot: &Slot) -> Option<String> {
    let all = slot.means.compilers.len();
    let n = Matrix::within(slot.seconds, slot.processes, all).compilers;
    (n < all).then(|| format!("{} of {all} compilers, to save time", all - n))
}

/// How many compilers and levels fit into the available time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Matrix {
    /// Number of compilers that the survey measures.
    compilers: usize,
    /// Number of levels that the survey measures, counted from the start of [`LEVELS`].
    levels: usize,
}

impl Matrix {
    /// Returns the largest matrix that fits into `processes` processes of `seconds` each. Compilers
    /// are added before levels, because the main question is which compiler matters.
    fn within(seconds: f64, processes: usize, compilers: usize) -> Matrix {
        let fits = |m: &Matrix| m.seconds(processes) <= seconds * processes as f64;
        let mut matrix = Matrix {
            compilers: 1,
            levels: 1,
        };
        while matrix.compilers < compilers {
            let more = Matrix {
                compilers: matrix.compilers + 1,
                ..matrix
            };
            if !fits(&more) {
                break;
            }
            matrix = more;
        }
        while matrix.levels < LEVELS.len() {
            let more = Matrix {
                levels: matrix.levels + 1,
                ..matrix
            };
            if !fits(&more) {
                break;
            }
            matrix = more;
        }
        matrix
    }

    fn cells(self) -> usize {
        self.compilers * self.levels * VARIANTS
    }

    /// Returns the total time in seconds that the processes spend on work other than measuring.
    /// Only the first process builds the cells; the others find them in the build cache.
    fn untimed(self, processes: usize) -> f64 {
        BUILD_S * self.cells() as f64
            + processes as f64 * (HARNESS_S + FIND_S * self.compilers as f64)
    }

    fn seconds(self, processes: usize) -> f64 {
        self.untimed(processes) + processes as f64 * CELL_S * self.cells() as f64
    }

    fn args(self, seconds: f64, processes: usize, names: &[String]) -> Vec<String> {
        let chosen = spread(names, self.compilers).join(",");
        let levels = LEVELS[..self.levels].join(",");
        let least = CELL_S * self.cells() as f64;
        let measured = seconds - self.untimed(processes) / processes as f64;
        let timing = format!("{:.1}", measured.max(least));
        args(&[
            "compilers",
            "--cc",
            &chosen,
            "--opt",
            &levels,
            "--variant",
            "default,ubsan",
            "--seconds",
            &timing,
        ])
    }
}

/// Selects at most `count` compilers whose versions differ as much as possible. Takes the newest
/// compiler of each family, then the oldest of each, then the second newest, and so on.
fn spread(names: &[String], count: usize) -> Vec<String> {
    let family = |n: &str| n.split(['-', ' ']).next().unwrap_or_default().to_string();
    let mut families: Vec<(String, Vec<String>)> = Vec::new();
    for name in names {
        let own = family(name);
        match families.iter_mut().find(|f| f.0 == own) {
            Some(f) => f.1.push(name.clone()),
            None => families.push((own, vec![name.clone()])),
        }
    }
    // gcc comes first because kernels are usually built with it.
    families.sort_by_key(|f| f.0 != "gcc");
    let mut order = Vec::new();
    for turn in 0..names.len() {
        for (_, all) in &mut families {
            if all.is_empty() {
                continue;
            }
            let at = if turn % 2 == 0 { all.len() - 1 } else { 0 };
            order.push(all.remove(at));
        }
    }
    order.truncate(count);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<String> {
        list.split(',').map(str::to_string).collect()
    }

    #[test]
    fn compilers_far_apart_come_first() {
        let all = names("clang-13,clang-19,clang-22,gcc-11,gcc-12,gcc-13,zig cc");
        let three = spread(&all, 3);
        assert_eq!(three, ["gcc-13", "clang-22", "zig cc"]);
        let five = spread(&all, 5);
        assert_eq!(five[3..], ["gcc-11", "clang-13"]);
        let mut every = spread(&all, 99);
        every.sort();
        assert_eq!(every, all);
    }

    #[test]
    fn more_time_has_more_cells_and_never_more_than_fit() {
        assert_eq!(
            Matrix::within(3.0, 1, 12),
            Matrix {
                compilers: 1,
                levels: 1
            }
        );
        let mut last = 0;
        for seconds in 4..200 {
            let matrix = Matrix::within(f64::from(seconds), 1, 5);
            assert!(matrix.seconds(1) <= f64::from(seconds), "{matrix:?}");
            assert!(matrix.cells() >= last);
            last = matrix.cells();
        }
        assert_eq!(last, 5 * 4 * VARIANTS);
        // With only one compiler, the time is spent on more levels.
        assert_eq!(Matrix::within(30.0, 1, 1).levels, 4);
    }
}
