//! Measures costs on the emulated CPU, and parses the costs that the real kernel measured. All
//! costs are in TSC cycles.

use kiln_kernel::cipher::{Op, BLOCK};
use kiln_kernel::crypto::{Errno, Part, Skcipher, INTERNAL};
use kiln_kernel::fpu;
use kiln_kernel::load::best_impl;
use kiln_kernel::messages::Messages;
use kiln_kernel::Tier;

/// Names of the costs that `costs.c` measures, each with a description.
pub(crate) const COSTS: &[(&str, &str)] = &[
    ("pair", "begin and end, nothing to save"),
    ("begin", "begin, nothing to save"),
    (
        "first-begin",
        "begin, the first in a kernel entry: saves the user's registers",
    ),
    (
        "user-restore",
        "the user's registers loaded again on the way back",
    ),
    (
        "nested-xmm",
        "a section over a section: save and restore, SSE registers live",
    ),
    ("nested-ymm", "the same, AVX registers live"),
    ("nested-zmm", "the same, AVX-512 and mask registers live"),
    ("helper-16", "xts(aes), 16 bytes, by the simd helper"),
    ("direct-16", "xts(aes), 16 bytes, without it"),
    ("helper-512", "xts(aes), 512 bytes, by the simd helper"),
    ("direct-512", "xts(aes), 512 bytes, without it"),
    ("helper-4096", "xts(aes), 4096 bytes, by the simd helper"),
    ("direct-4096", "xts(aes), 4096 bytes, without it"),
];

/// Given the name of a row that measures a call through the simd helper, returns the name of the
/// row that measures the same call without the helper.
pub(crate) fn name_direct(name: &str) -> Option<String> {
    name.strip_prefix("helper-")
        .map(|len| format!("direct-{len}"))
}

/// Finds the minimum and the median of the cost `name` in lines of the form `NAME LEAST MEDIAN`.
pub fn real(lines: &[String], name: &str) -> Option<(f64, f64)> {
    lines.iter().find_map(|line| {
        let mut words = line.split(' ');
        (words.next()? == name).then_some(())?;
        let least: u64 = words.next()?.parse().ok()?;
        let median: u64 = words.next()?.parse().ok()?;
        words
            .next()
            .is_none()
            .then_some((least as f64, median as f64))
    })
}

/// Measures a cost on the emulated CPU, which the calling thread must have booted. Returns `None`
/// if the cost cannot be measured there.
pub fn emulated(name: &str) -> Option<f64> {
    const MANY: u64 = 2000;
    match name.split_once('-') {
        None if name == "pair" => Some(least(MANY, |n| fpu::pairs(n, false))),
        // The emulated CPU always saves the widest registers, so measure only that width.
        Some(("nested", width)) if width == widest() => Some(least(MANY, fpu::saves)),
        Some(("helper", len)) => requests("xts(aes)", 0, len.parse().ok()?).ok(),
        Some(("direct", len)) => {
            let name = format!("__{}", best_impl().driver());
            requests(&name, INTERNAL, len.parse().ok()?).ok()
        }
        _ => None,
    }
}

fn widest() -> &'static str {
    match Tier::widest_present() {
        512 => "zmm",
        256 => "ymm",
        _ => "xmm",
    }
}

/// Measures the cost of a request by making many requests in sequence. The requests must complete
/// synchronously.
fn requests(name: &str, kind: u32, len: usize) -> Result<f64, Errno> {
    let mut tfm = Skcipher::open(name, kind, kind)?;
    let mut key = [0; 64];
    key[0] = 1;
    tfm.set_key(&key)?;
    // All requests use the same message. Each has its own IV, so that the measured time does not
    // include copying IVs.
    const IVS: usize = 64;
    let (src, mut dst) = (vec![0; len], vec![0; len]);
    let (ivs, mut iv_room) = ([0; IVS * BLOCK], [0; IVS * BLOCK]);
    let mut failed = Ok(0);
    let cycles = least(200, |n| {
        let mut messages = Messages {
            src_stride: 0,
            dst_stride: 0,
            iv_stride: BLOCK,
            iv_room: &mut iv_room,
            count: IVS,
            ..Messages::single(Op::Encrypt, &src, &mut dst, &ivs)
        };
        let ran = tfm.run(&mut messages, Part::Whole, n);
        if ran != Ok(0) {
            failed = ran;
        }
    });
    match failed {
        Ok(0) => Ok(cycles),
        Ok(_) => Err(Errno::IN_PROGRESS),
        Err(e) => Err(e),
    }
}

/// Runs many series of `n` operations. Returns the cycles per operation in the fastest series.
fn least(n: u64, mut series: impl FnMut(u64)) -> f64 {
    let cycles = (0..200).map(|_| {
        // SAFETY: reading the time-stamp counter touches no memory.
        let from = unsafe { std::arch::x86_64::_rdtsc() };
        series(n);
        // SAFETY: reading the time-stamp counter touches no memory.
        let to = unsafe { std::arch::x86_64::_rdtsc() };
        to.wrapping_sub(from)
    });
    cycles.min().unwrap_or(0) as f64 / n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_whole_lines() {
        let lines: Vec<String> = ["clock 26 52", "pair 104 130", "begin 5", "helper-16 1 2 3"]
            .iter()
            .map(|s| s.to_string())
            .collect();
        assert_eq!(real(&lines, "pair"), Some((104.0, 130.0)));
        assert_eq!(real(&lines, "begin"), None);
        assert_eq!(real(&lines, "helper-16"), None);
        assert_eq!(real(&lines, "direct-16"), None);
    }

    #[test]
    fn every_helper_has_its_direct_twin() {
        let names: Vec<&str> = COSTS.iter().map(|(name, _)| *name).collect();
        let twins: Vec<String> = names.iter().filter_map(|n| name_direct(n)).collect();
        assert_eq!(twins.len(), 3);
        assert!(twins.iter().all(|t| names.contains(&t.as_str())));
    }
}
