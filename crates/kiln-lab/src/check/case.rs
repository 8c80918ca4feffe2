//! One random case, drawn from (seed, number) alone, so that it can be replayed alone.

use std::fmt;

use kiln_kernel::xts::{Op, BLOCK};

use super::guard::{Place, PAGE};
use super::rng::Rng;

/// The first cases of any seed go through the lengths from 16 one by one, to 4112: no length is left to chance.
pub const SWEEP: u64 = 4097;

/// The longest message drawn.
pub const LONGEST: usize = 70_000;

/// What is done, on what, and where it lies.
#[derive(Clone, Debug)]
pub struct Case {
    /// Which of its seed.
    pub number: u64,
    /// What the first call does; a second one undoes it.
    pub op: Op,
    /// Key1 then Key2.
    pub key: Vec<u8>,
    /// The IV.
    pub iv: [u8; BLOCK],
    /// The message.
    pub data: Vec<u8>,
    /// Source and destination are one.
    pub in_place: bool,
    /// Of the source.
    pub src: Place,
    /// Of the destination; in place, of both.
    pub dst: Place,
    /// Of the IV.
    pub iv_at: Place,
}

impl Case {
    /// Case `number` of `seed`.
    pub fn draw(seed: u64, number: u64) -> Case {
        let mut rng = Rng::of(seed, number);
        let drawn = length(&mut rng);
        let len = if number < SWEEP {
            BLOCK + number as usize
        } else {
            drawn
        };
        let mut case = Case {
            number,
            op: [Op::Encrypt, Op::Decrypt][rng.below(2)],
            key: vec![0; [32, 48, 64][rng.below(3)]],
            iv: [0; BLOCK],
            data: vec![0; len],
            in_place: rng.one_in(2),
            src: place(&mut rng),
            dst: place(&mut rng),
            iv_at: place(&mut rng),
        };
        rng.fill(&mut case.key);
        rng.fill(&mut case.iv);
        rng.fill(&mut case.data);
        case
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "case {}: {} {} bytes, AES-{}, ",
            self.number,
            match self.op {
                Op::Encrypt => "encrypt",
                Op::Decrypt => "decrypt",
            },
            self.data.len(),
            self.key.len() * 4
        )?;
        if self.in_place {
            write!(f, "in place ({})", self.dst)?;
        } else {
            write!(f, "source {}, destination {}", self.src, self.dst)?;
        }
        write!(f, ", IV {}", self.iv_at)
    }
}

/// Dense where paths branch, thin where they repeat.
fn length(rng: &mut Rng) -> usize {
    if rng.one_in(512) {
        return 4200 + rng.below(LONGEST - 4200 + 1);
    }
    match rng.below(16) {
        0..=5 => 16 + rng.below(65),
        6..=11 => {
            let unit = [64, 128, 256, 512, 1024][rng.below(5)];
            let middle = unit * (1 + rng.below(4200 / unit));
            (middle + rng.below(41) - 20).max(BLOCK)
        }
        _ => 16 + rng.below(4200 - 16 + 1),
    }
}

/// As the kernel's testmgr draws offsets: the last bytes of a page in a quarter, below 32 in three eighths,
/// anywhere in the rest; and half of all at the guard page, which its two-page buffers have not.
fn place(rng: &mut Rng) -> Place {
    if rng.one_in(2) {
        return Place::End;
    }
    Place::At(match rng.below(8) {
        0..=1 => PAGE - 1 - rng.below(128),
        2..=4 => rng.below(32),
        _ => rng.below(PAGE),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_follows_from_seed_and_number() {
        let text = |seed, number| format!("{:?}", Case::draw(seed, number));
        assert_eq!(text(1, 5000), text(1, 5000));
        assert_ne!(text(1, 5000), text(2, 5000));
        assert_ne!(text(1, 5000), text(1, 5001));
    }

    #[test]
    fn every_kind_is_drawn() {
        let cases: Vec<Case> = (SWEEP..SWEEP + 40_000).map(|n| Case::draw(3, n)).collect();
        let some = |what: &str, test: &dyn Fn(&Case) -> bool| {
            let n = cases.iter().filter(|c| test(c)).count();
            assert!(n > 0, "no case has {what}");
        };
        let near = (1..=8).flat_map(|n| 512 * n - 20..=512 * n + 20);
        for len in (16..=80).chain(near) {
            some(&format!("length {len}"), &|c| c.data.len() == len);
        }
        some("a long message", &|c| c.data.len() > 60_000);
        some("both at the guard", &|c| {
            !c.in_place && c.src == Place::End && c.dst == Place::End
        });
        for bits in [32, 48, 64] {
            some("a key length", &|c| c.in_place && c.key.len() == bits);
        }
        for offset in [0, 1, 31, PAGE - 128, PAGE - 1] {
            some("an offset", &|c| c.dst == Place::At(offset));
        }
        assert!(cases.iter().all(|c| (16..=LONGEST).contains(&c.data.len())));
    }

    #[test]
    fn the_sweep_leaves_no_length_out() {
        for n in 0..SWEEP {
            assert_eq!(Case::draw(9, n).data.len(), 16 + n as usize);
        }
    }
}
