//! A part of the survey: its command's arguments in so many seconds.

use super::question::Question;
use super::runs::PROCESSES;

/// What one process of its own does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// AES-XTS beside peers and the limit: the first figure.
    Speed,
    /// The ways to a cipher.
    Ways,
    /// The policy table.
    Policies,
    /// Interrupts at random instructions.
    Breakpoints,
    /// IPsec through high and low load.
    Esp,
    /// Section lengths.
    Budget,
    /// The compilers.
    Compilers,
    /// The control queue.
    Ctrlq,
    /// Further ciphers.
    MoreSpeed,
    /// AES-XTS of a kernel tree.
    TreeSpeed,
    /// The ways to a cipher in it.
    TreeWays,
}

/// Lengths that all ciphers are measured at. More of them would not fit, and the longest is the one that is quoted.
const LENS: &str = "16,64,512,4096";
/// Further ciphers, those first that most people use.
const CIPHERS: [&str; 12] = [
    "gcm(aes)",
    "rfc7539(chacha20,poly1305)",
    "sha256",
    "cbc(aes)",
    "ctr(aes)",
    "sha512",
    "chacha20",
    "poly1305",
    "crc32c",
    "sha1",
    "sm3",
    "polyval",
];
/// One of them at these lengths, next to the libraries.
const CIPHER_S: f64 = 0.4;
/// What starting a process takes: loading it, its clock, what the kernel side measures at its start.
const START_S: f64 = 0.5;

/// Rounds of the control queue, and what starting its devices and a round take.
const CTRLQ_ROUNDS: f64 = 6.0;
const CTRLQ_DEVICES_S: f64 = 0.1;
const CONNECT_S: f64 = 0.01;

/// What compilers take: finding one, building a cell (on two cores), timing it; and the harness.
const FIND_S: f64 = 0.25;
const BUILD_S: f64 = 0.35;
const CELL_S: f64 = 0.25;
const HARNESS_S: f64 = 1.2;
const LEVELS: [&str; 4] = ["O2", "O3", "O1", "Os"];
const VARIANTS: usize = 2;

impl Part {
    /// The question it is for.
    pub fn question(self) -> Question {
        match self {
            Part::Speed | Part::MoreSpeed | Part::TreeSpeed => Question::Speed,
            Part::Ways | Part::TreeWays => Question::SoftirqSimd,
            Part::Policies | Part::Breakpoints | Part::Esp => Question::NestedFpu,
            Part::Budget => Question::FpuBudget,
            Part::Compilers => Question::Compilers,
            Part::Ctrlq => Question::Ctrlq,
        }
    }

    /// Whether it builds what may not have been built: that takes as long as it takes.
    pub fn builds(self) -> bool {
        matches!(self, Part::TreeSpeed | Part::TreeWays)
    }

    /// What it is, in a few words.
    pub fn what(self) -> String {
        match self {
            Part::MoreSpeed => return format!("{} more ciphers", CIPHERS.len()),
            Part::Speed => "AES-XTS beside other libraries",
            Part::Ways => "the methods to reach a cipher",
            Part::Policies => "the table of FPU policies",
            Part::Breakpoints => "interrupts at random instructions",
            Part::Esp => "IPsec under load",
            Part::Budget => "section lengths",
            Part::Compilers => "compilers",
            Part::Ctrlq => "the control queue",
            Part::TreeSpeed => "the kernel tree",
            Part::TreeWays => "the methods to reach a cipher in the kernel tree",
        }
        .to_string()
    }

    /// What its record's file is called.
    pub fn name(self) -> &'static str {
        match self {
            Part::Speed => "speed",
            Part::Ways => "fpu-overhead",
            Part::Policies => "fpu",
            Part::Breakpoints => "fpu-breakpoint",
            Part::Esp => "fpu-esp",
            Part::Budget => "budget",
            Part::Compilers => "compilers",
            Part::Ctrlq => "ctrlq",
            Part::MoreSpeed => "speed-more",
            Part::TreeSpeed => "speed-tree",
            Part::TreeWays => "fpu-overhead-tree",
        }
    }

    /// How many processes a survey with time for repetition runs of it: five where a measured number becomes a headline.
    /// Counts of wrong results add up and need one.
    pub fn processes(self, repeats: bool) -> usize {
        match self {
            Part::Policies | Part::Breakpoints => 1,
            _ if repeats => PROCESSES,
            _ => 1,
        }
    }

    /// The command's arguments, so that each of `processes` takes about `seconds` from its start to its end. `tree` and
    /// `compilers` are those there are.
    pub fn args(
        self,
        seconds: f64,
        processes: usize,
        compilers: &[String],
        tree: Option<&str>,
    ) -> Vec<String> {
        let measuring = format!("{:.1}", (seconds - START_S).max(0.1));
        let tree = tree.unwrap_or_default();
        match self {
            Part::Speed => words(&["speed", "xts(aes)", "--len", LENS, "--seconds", &measuring]),
            Part::MoreSpeed => {
                let mut args = vec!["speed"];
                args.extend(&CIPHERS[..ciphers(seconds)]);
                args.extend(["--len", LENS, "--seconds", &measuring]);
                words(&args)
            }
            Part::Ways => {
                let mut args = vec!["fpu", "overhead", "--policy", "legacy,bh-off,nested"];
                args.extend(["--len", "16,512,4096"]);
                args.extend((seconds < 2.5).then_some("--quick"));
                words(&args)
            }
            Part::Policies => {
                let loads = if seconds < 4.0 {
                    "xts-16"
                } else {
                    "xts-16,xts-4096"
                };
                words(&["fpu", "--load", loads, "--seconds", &measuring])
            }
            Part::Breakpoints => words(&[
                "fpu",
                "prove",
                "breakpoint",
                "--load",
                "xts-16",
                "--seconds",
                &measuring,
            ]),
            Part::Esp => {
                let policies = if seconds < 6.5 {
                    "legacy,bh-off"
                } else {
                    "legacy,bh-off,nested"
                };
                let mut args = vec!["ipsec", "--policy", policies];
                args.extend(["--seconds", &measuring]);
                // Phases half as long.
                args.extend((seconds < 25.0).then_some("--quick"));
                words(&args)
            }
            Part::Budget => budget(seconds),
            Part::Compilers => {
                let matrix = Matrix::within(seconds, processes, compilers.len());
                matrix.args(seconds, processes, compilers)
            }
            Part::Ctrlq => ctrlq(seconds),
            Part::TreeSpeed => words(&[
                "speed",
                "xts(aes)",
                "--len",
                LENS,
                "--tree",
                tree,
                "--seconds",
                "3",
            ]),
            Part::TreeWays => {
                let policy = format!("tree:{tree}");
                words(&[
                    "fpu",
                    "overhead",
                    "--policy",
                    &policy,
                    "--len",
                    "16,512,4096",
                ])
            }
        }
    }
}

fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(|a| a.to_string()).collect()
}

/// How many further ciphers there is time for.
pub fn ciphers(seconds: f64) -> usize {
    (((seconds - START_S) / CIPHER_S) as usize).clamp(1, CIPHERS.len())
}

/// Further ciphers there are.
pub const ALL_CIPHERS: usize = CIPHERS.len();

/// All implementations of the hashes that byte limits were posted for: with less time one algorithm of each kind, with more
/// time further ways of cutting.
fn budget(seconds: f64) -> Vec<String> {
    let few = ["sha256", "sm3", "poly1305", "polyval", "crc32c"];
    let more = ["sha1", "sha512", "ghash", "nhpoly1305", "crct10dif"];
    // Rows on a CPU that has every tier, and what they take however short a row is: messages of the slowest, and the
    // generic code's answers.
    let (algs, ways, rows, least) = match seconds {
        s if s < 1.7 => (few.to_vec(), "fixed,clocked", 20.0, 0.3),
        s if s < 12.0 => ([few, more].concat(), "fixed,clocked", 37.0, 0.5),
        _ => (
            [few, more].concat(),
            "unbounded,fixed,calibrated,clocked",
            85.0,
            1.2,
        ),
    };
    let row = (0.8 * (seconds - START_S - least) / rows).clamp(0.01, 1.0);
    let mut args = vec!["budget"];
    args.extend(&algs);
    let row = format!("{row:.3}");
    args.extend(["--mode", ways, "--seconds", &row]);
    words(&args)
}

/// Sessions and workers as published, by both devices, in as many rounds as give an interval; with more time one worker and
/// functions that are called.
fn ctrlq(seconds: f64) -> Vec<String> {
    let (modes, workers, rows) = match seconds {
        s if s < 9.0 => ("wait,poll", "8", 4.0),
        _ => ("wait,poll,async", "1,8", 10.0),
    };
    // Two devices are started, and before each round a tenth of its time passes, or 5 ms.
    let row = (((seconds - START_S - CTRLQ_DEVICES_S) / rows - CTRLQ_ROUNDS * CONNECT_S) / 1.1)
        .clamp(0.1, 10.0);
    let row = format!("{row:.2}");
    let rounds = format!("{CTRLQ_ROUNDS}");
    words(&[
        "ctrlq",
        "--mode",
        modes,
        "--workers",
        workers,
        "--session",
        "akcipher",
        "--rounds",
        &rounds,
        "--seconds",
        &row,
    ])
}

/// Compilers, levels and variants that there is time for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Of the compilers there are.
    pub compilers: usize,
    /// Of [`LEVELS`].
    pub levels: usize,
}

impl Matrix {
    /// For `processes` of `seconds` each. More compilers first: the question is which of them; then more levels.
    pub fn within(seconds: f64, processes: usize, compilers: usize) -> Matrix {
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

    /// What all processes spend before they measure. The first finds nothing in the cache of builds; the others find all.
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
        words(&[
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

/// The newest of each family, then the oldest of each, and so on inwards: what is far apart differs most.
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
    // gcc is what kernels are built with.
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
        // With one compiler time goes to levels.
        assert_eq!(Matrix::within(30.0, 1, 1).levels, 4);
    }

    #[test]
    fn what_a_part_is_told_to_measure_fits_its_time() {
        let number = |args: &[String]| -> f64 {
            let at = args.iter().position(|a| a == "--seconds").unwrap();
            args[at + 1].parse().unwrap()
        };
        let ccs = names("gcc-12");
        for seconds in [2.5, 5.0, 12.0, 60.0] {
            for part in [Part::Speed, Part::MoreSpeed, Part::Policies, Part::Esp] {
                assert!(
                    number(&part.args(seconds, 1, &ccs, None)) < seconds,
                    "{part:?}"
                );
            }
            let args = Part::Ctrlq.args(seconds, 1, &ccs, None);
            let rows = if args.contains(&"1,8".to_string()) {
                10.0
            } else {
                4.0
            };
            assert!(number(&args) * rows * 1.1 < seconds, "{args:?}");
            let args = Part::Budget.args(seconds, 1, &ccs, None);
            let algs = args.iter().position(|a| a == "--mode").unwrap() - 1;
            let ways = args[algs + 2].split(',').count();
            assert!(number(&args) * (algs * ways) as f64 <= seconds, "{args:?}");
        }
    }
}
