//! Memory that, when read, evicts everything else from a core's caches. `kernel/bench/evict.c`
//! reads it.

use std::arch::x86_64::__cpuid;

/// Size of a cache line in bytes.
const LINE: usize = 64;
/// Size of the memory, as a multiple of the size of the second-level cache. Pages are spread over
/// the cache sets at random. If the memory were only twice as large as the cache, about one set in
/// 110 of an 8-way LRU cache would keep an old line; with four times the size, only one set in 10
/// million keeps one.
const TIMES: usize = 4;
/// Size in bytes to assume for the second-level cache if the CPU does not report it. This is the
/// largest size in current x86 CPUs.
const LARGE: usize = 4 << 20;
/// Number of passes that the C code makes over the memory. Must equal `EVICT_PASSES` in
/// `kernel/bench/evict.h`.
const PASSES: u64 = 2;

/// Memory that evicts the caches when it is read. See the module documentation.
pub struct Evictor {
    words: Vec<u64>,
    /// Number of words before the first complete cache line.
    offset: usize,
    lines: usize,
}

impl Evictor {
    /// Allocates memory that is several times the size of this CPU's second-level cache.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Evictor {
        Evictor::with_lines(TIMES * second_level_bytes() / LINE)
    }

    fn with_lines(lines: usize) -> Evictor {
        let per_line = LINE / size_of::<u64>();
        let mut words = vec![0; (lines + 1) * per_line];
        let offset = words.as_ptr().align_offset(LINE);
        words[offset..]
            .iter_mut()
            .step_by(per_line)
            .for_each(|word| *word = 1);
        Evictor {
            words,
            offset,
            lines,
        }
    }

    /// Returns the number of cache lines that one pass reads.
    pub fn lines(&self) -> usize {
        self.lines
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words[self.offset..]
    }

    /// Returns whether `sum` is the value obtained by adding up the first word of every line in
    /// every pass.
    pub(crate) fn was_read(&self, sum: u64) -> bool {
        sum == PASSES * self.lines as u64
    }
}

/// Returns the size of the second-level cache in bytes. Both Intel and AMD CPUs report it in CPUID
/// leaf 8000_0006h.
fn second_level_bytes() -> usize {
    const LEAF: u32 = 0x8000_0006;
    // Only older toolchains need the `unsafe` block: newer ones declare `__cpuid` safe.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 CPU has CPUID and leaf 8000_0000h, and LEAF is read only if it exists.
    let kib = unsafe {
        match __cpuid(0x8000_0000).eax >= LEAF {
            true => __cpuid(LEAF).ecx >> 16,
            false => 0,
        }
    };
    match kib as usize * 1024 {
        0 => LARGE,
        bytes => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu;
    use crate::sys;

    /// The test fills the lines with powers of two, so the sum changes if a line is skipped or read
    /// twice.
    #[test]
    fn each_line_is_read_in_each_pass() {
        for lines in [1, 2, 1000] {
            let mut evictor = Evictor::with_lines(lines);
            let start = evictor.words().as_ptr() as usize;
            assert_eq!(start % LINE, 0);
            let (first, per_line) = (evictor.offset, LINE / size_of::<u64>());
            for line in 0..lines {
                evictor.words[first + line * per_line] = 1 << (line % 60);
            }
            let words = (0..lines).map(|line| 1u64 << (line % 60));
            let want = words.fold(0u64, u64::wrapping_add);
            assert_eq!(read(&evictor).0, PASSES.wrapping_mul(want), "{lines}");
        }
        let evictor = Evictor::with_lines(1000);
        let (sum, executed) = read(&evictor);
        assert!(evictor.was_read(sum));
        assert!(!evictor.was_read(sum - 1), "control: one line left out");
        // The executed code must be twice as large as the largest first-level instruction caches
        // (64 KiB).
        assert_eq!(executed, 2 * (64 << 10) / LINE as u64);
    }

    /// Returns the sum of the words that were read, and the number of code lines that were
    /// executed.
    fn read(evictor: &Evictor) -> (u64, u64) {
        let imp = crate::cipher::Impl::find_all("crc32c")[0];
        let mut digest = [0; 64];
        let text = [7u8; 16];
        let calls = sys::Calls {
            impl_: imp.0,
            m: sys::Messages {
                src: text.as_ptr(),
                dst: digest.as_mut_ptr(),
                len: 16,
                count: 1,
                ..Default::default()
            },
            ..Default::default()
        };
        let mut cold = sys::Cold {
            calls: &calls,
            memory: evictor.words().as_ptr(),
            lines: evictor.lines() as u64,
            ..Default::default()
        };
        // SAFETY: text and digest are as long as the call needs, and the evictor has as many lines
        // as the structure specifies.
        let refused = unsafe { cpu::gate(sys::kiln_cold_run, (&raw mut cold).cast()) };
        assert_eq!(refused, 0);
        (cold.read, cold.executed)
    }

    #[test]
    fn the_memory_is_several_times_as_large_as_the_cache() {
        let bytes = Evictor::new().lines() * LINE;
        assert!(bytes >= TIMES * second_level_bytes());
        assert!(second_level_bytes() >= 128 << 10);
    }
}
