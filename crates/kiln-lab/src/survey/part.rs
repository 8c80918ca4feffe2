//! A part of the survey: its command's arguments in so many seconds.

use super::question::Question;

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

/// Measuring AES-XTS: a curve for the picture.
const LENS: &str = "16,64,256,1024,4096,16384";
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
/// One of them at all lengths, beside peers.
const CIPHER_S: f64 = 0.9;
/// What starting a process takes: loading it, its clock, what the kernel side measures at its start.
const START_S: f64 = 0.5;

/// What compilers take: finding one, building a cell (on two cores), timing it; and the harness.
const FIND_S: f64 = 0.25;
const BUILD_S: f64 = 0.35;
const CELL_S: f64 = 0.25;
const HARNESS_S: f64 = 1.2;
const LEVELS: [&str; 4] = ["O2", "O3", "O1", "Os"];
const VARIANTS: usize = 3;

impl Part {
    /// The question it is for.
    pub fn question(self) -> Question {
        match self {
            Part::Speed | Part::MoreSpeed | Part::TreeSpeed => Question::Speed,
            Part::Ways | Part::Policies | Part::TreeWays => Question::SoftirqSimd,
            Part::Breakpoints | Part::Esp => Question::NestedFpu,
            Part::Budget => Question::FpuBudget,
            Part::Compilers => Question::Compilers,
            Part::Ctrlq => Question::Ctrlq,
        }
    }

    /// What it is, in a few words.
    pub fn what(self) -> String {
        match self {
            Part::MoreSpeed => return format!("{} more ciphers", CIPHERS.len()),
            Part::Speed => "AES-XTS beside other libraries",
            Part::Ways => "the ways to a cipher",
            Part::Policies => "the table of FPU policies",
            Part::Breakpoints => "interrupts at random instructions",
            Part::Esp => "IPsec under load",
            Part::Budget => "section lengths",
            Part::Compilers => "compilers",
            Part::Ctrlq => "the control queue",
            Part::TreeSpeed => "the kernel tree",
            Part::TreeWays => "the ways to a cipher in the kernel tree",
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

    /// The command's arguments, so that it takes about `seconds` from its start to its end. `tree` and `compilers` are
    /// those there are.
    pub fn args(self, seconds: f64, compilers: &[String], tree: Option<&str>) -> Vec<String> {
        let measuring = format!("{:.1}", (seconds - START_S).max(0.1));
        let tree = tree.unwrap_or_default();
        match self {
            Part::Speed => words(&["speed", "xts(aes)", "--len", LENS, "--seconds", &measuring]),
            Part::MoreSpeed => {
                let mut args = vec!["speed"];
                args.extend(&CIPHERS[..ciphers(seconds)]);
                args.extend(["--seconds", &measuring]);
                words(&args)
            }
            Part::Ways if seconds < 1.5 => {
                let policy = "legacy,bh-off";
                words(&[
                    "fpu",
                    "--overhead",
                    "--policy",
                    policy,
                    "--len",
                    "16,4096",
                    "--quick",
                ])
            }
            Part::Ways => words(&[
                "fpu",
                "--overhead",
                "--policy",
                "legacy,bh-off,nested,preemptible",
                "--len",
                "16,512,4096",
            ]),
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
                "--inject",
                "breakpoint",
                "--load",
                "xts-4096",
                "--seconds",
                &measuring,
            ]),
            Part::Esp => {
                let policies = if seconds < 6.5 {
                    "legacy,bh-off"
                } else {
                    "legacy,bh-off,nested"
                };
                let mut args = vec!["fpu", "--load", "esp", "--policy", policies];
                args.extend(["--seconds", &measuring]);
                // Phases half as long.
                args.extend((seconds < 25.0).then_some("--quick"));
                words(&args)
            }
            Part::Budget => budget(seconds),
            Part::Compilers => Matrix::within(seconds, compilers.len()).args(seconds, compilers),
            Part::Ctrlq => ctrlq(seconds),
            Part::TreeSpeed => words(&[
                "speed",
                "xts(aes)",
                "--len",
                LENS,
                "--tree",
                tree,
                "--seconds",
                "8",
            ]),
            Part::TreeWays => {
                let policy = format!("tree:{tree}");
                words(&[
                    "fpu",
                    "--overhead",
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

/// One algorithm of each kind at least; then more, then a further way of cutting.
fn budget(seconds: f64) -> Vec<String> {
    let few = ["sha256", "sm3", "poly1305", "polyval", "crc32c"];
    let many = ["sha1", "sha512", "nhpoly1305", "crct10dif", "gcm(aes)"];
    let (few, ways): (Vec<&str>, &str) = match seconds {
        s if s < 5.0 => (few.to_vec(), "fixed,clocked"),
        s if s < 12.0 => ([few, many].concat(), "fixed,clocked"),
        _ => ([few, many].concat(), "unbounded,fixed,calibrated,clocked"),
    };
    let rows = few.len() * ways.split(',').count();
    // A row's messages are checked as well, and those of the slowest are as long as a row.
    let row = (0.8 * (seconds - START_S) / rows as f64).clamp(0.02, 1.0);
    let mut args = vec!["budget"];
    args.extend(&few);
    let row = format!("{row:.3}");
    args.extend(["--mode", ways, "--quick", "--seconds", &row]);
    words(&args)
}

/// The paper's device and the one that answers at once; eight workers, and with more time one, and functions that are called.
fn ctrlq(seconds: f64) -> Vec<String> {
    let (modes, workers, rows) = match seconds {
        s if s < 9.0 => ("wait,poll", "8", 4.0),
        _ => ("wait,poll,async", "1,8", 10.0),
    };
    // A device is started for each row, and a tenth passes first.
    let row = (((seconds - START_S) / rows - 0.15) / 1.1).clamp(0.1, 10.0);
    let row = format!("{row:.2}");
    words(&[
        "ctrlq",
        "--mode",
        modes,
        "--workers",
        workers,
        "--session",
        "cipher",
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
    /// More compilers first: the question is which of them; then more levels.
    pub fn within(seconds: f64, compilers: usize) -> Matrix {
        let fits = |m: &Matrix| m.seconds() <= seconds;
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

    /// With nothing in the cache.
    fn untimed(self) -> f64 {
        HARNESS_S + FIND_S * self.compilers as f64 + BUILD_S * self.cells() as f64
    }

    fn seconds(self) -> f64 {
        self.untimed() + CELL_S * self.cells() as f64
    }

    fn args(self, seconds: f64, names: &[String]) -> Vec<String> {
        let chosen = spread(names, self.compilers).join(",");
        let levels = LEVELS[..self.levels].join(",");
        let least = CELL_S * self.cells() as f64;
        let timing = format!("{:.1}", (seconds - self.untimed()).max(least));
        words(&[
            "compilers",
            "--cc",
            &chosen,
            "--opt",
            &levels,
            "--variant",
            "default,ubsan,patched",
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
            Matrix::within(3.0, 12),
            Matrix {
                compilers: 1,
                levels: 1
            }
        );
        let mut last = 0;
        for seconds in 4..200 {
            let matrix = Matrix::within(f64::from(seconds), 5);
            assert!(matrix.seconds() <= f64::from(seconds), "{matrix:?}");
            assert!(matrix.cells() >= last);
            last = matrix.cells();
        }
        assert_eq!(last, 5 * 4 * VARIANTS);
        // With one compiler time goes to levels.
        assert_eq!(Matrix::within(30.0, 1).levels, 4);
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
                    number(&part.args(seconds, &ccs, None)) < seconds,
                    "{part:?}"
                );
            }
            let args = Part::Ctrlq.args(seconds, &ccs, None);
            let rows = if args.contains(&"1,8".to_string()) {
                10.0
            } else {
                4.0
            };
            assert!(number(&args) * rows * 1.1 < seconds, "{args:?}");
            let args = Part::Budget.args(seconds, &ccs, None);
            let algs = args.iter().position(|a| a == "--mode").unwrap() - 1;
            let ways = args[algs + 2].split(',').count();
            assert!(number(&args) * (algs * ways) as f64 <= seconds, "{args:?}");
        }
    }
}
