//! The lines that a guest process writes to the log. The main process takes them from memory that
//! both processes share. A guest process has no descriptor for the log, because it could use one to
//! hold locks, change the log, or pass the descriptor on.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use crate::shared::Shared;

/// Size of the ring of lines, in cells of 8 bytes. A line takes one cell for its length, and
/// further cells for its bytes. The ring has room for 200 lines of 300 bytes each, and the rate
/// limit of a guest process permits a burst of 200 lines.
const RING: u64 = 8192;
/// Maximum length of a line in bytes. If the main process replaces each byte with a 3-byte
/// character, the line still fits into 4096 bytes, the most that a pipe accepts atomically.
pub(crate) const LONGEST: usize = 1360;
const WORD: usize = size_of::<u64>();

/// Number of cells that the lines occupy at the start of the shared memory: one for the number of
/// cells written, one for the number of cells read, and the ring.
pub(crate) const CELLS: usize = 2 + RING as usize;
const WRITTEN: usize = 0;
const READ: usize = 1;

fn ring_cell(n: u64) -> usize {
    2 + (n % RING) as usize
}

/// Returns the number of cells that a line takes.
fn cells(len: usize) -> u64 {
    1 + len.div_ceil(WORD) as u64
}

/// Writes lines in a guest process.
pub(crate) struct Writer {
    memory: Arc<Shared>,
    one_at_a_time: Mutex<()>,
}

impl Writer {
    pub(crate) fn new(memory: Arc<Shared>) -> Writer {
        let one_at_a_time = Mutex::new(());
        Writer {
            memory,
            one_at_a_time,
        }
    }

    /// Writes a line, or returns false if it is too long or the ring has no room for it.
    pub(crate) fn write(&self, line: &[u8]) -> bool {
        let _guard = self.one_at_a_time.lock();
        let _guard = _guard.unwrap_or_else(PoisonError::into_inner);
        let written = self.memory.cell(WRITTEN).load(Ordering::Relaxed);
        let read = self.memory.cell(READ).load(Ordering::Acquire);
        let used = written.wrapping_sub(read);
        if line.len() > LONGEST || used + cells(line.len()) > RING {
            return false;
        }
        let put = |n, word: u64| {
            let cell = ring_cell(written.wrapping_add(n));
            self.memory.cell(cell).store(word, Ordering::Relaxed);
        };
        put(0, line.len() as u64);
        for (n, part) in (1..).zip(line.chunks(WORD)) {
            let mut word = [0; WORD];
            word[..part.len()].copy_from_slice(part);
            put(n, u64::from_ne_bytes(word));
        }
        let written = written.wrapping_add(cells(line.len()));
        self.memory.cell(WRITTEN).store(written, Ordering::Release);
        true
    }
}

/// Reads lines in the main process. Trusts nothing that it finds in the shared memory.
pub(crate) struct Reader {
    memory: Arc<Shared>,
    /// Number of cells read. The shared memory contains a copy of this number, which only the
    /// writer uses.
    read: u64,
}

impl Reader {
    pub(crate) fn new(memory: Arc<Shared>) -> Reader {
        Reader { memory, read: 0 }
    }

    /// Takes all lines written so far. If `admit` returns a value for a line, passes the line and
    /// the value to `print`. Other lines are not even copied.
    pub(crate) fn take<T>(
        &mut self,
        mut admit: impl FnMut() -> Option<T>,
        mut print: impl FnMut(&[u8], T),
    ) {
        let load = |cell, order| self.memory.cell(cell).load(order);
        let written = load(WRITTEN, Ordering::Acquire);
        let mut left = written.wrapping_sub(self.read);
        if left > RING {
            // Only a compromised process would claim to have written more than the ring holds, so
            // read none of its lines.
            left = 0;
        }
        while left > 0 {
            let len = load(ring_cell(self.read), Ordering::Relaxed);
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            if len > LONGEST || cells(len) > left {
                break;
            }
            if let Some(value) = admit() {
                let mut line = [0; LONGEST];
                for (n, part) in (1..).zip(line[..len].chunks_mut(WORD)) {
                    let word = load(ring_cell(self.read.wrapping_add(n)), Ordering::Relaxed);
                    part.copy_from_slice(&word.to_ne_bytes()[..part.len()]);
                }
                print(&line[..len], value);
            }
            left -= cells(len);
            self.read = self.read.wrapping_add(cells(len));
        }
        self.read = written;
        self.memory.cell(READ).store(written, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides() -> (Writer, Reader, Arc<Shared>) {
        let memory = Arc::new(Shared::create(CELLS).unwrap().0);
        (
            Writer::new(memory.clone()),
            Reader::new(memory.clone()),
            memory,
        )
    }

    fn take(reader: &mut Reader) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        let add = |line: &[u8], ()| {
            assert!((lines.len() as u64) < RING, "it does not end");
            lines.push(line.to_vec());
        };
        reader.take(|| Some(()), add);
        lines
    }

    #[test]
    fn lines_arrive_whole_and_in_order() {
        let (writer, mut reader, _) = sides();
        // Write several times the size of the ring in total, so that lines wrap around its end.
        for round in 0..100u8 {
            let lines: Vec<_> = (0..20).map(|n| vec![round; 71 * n]).collect();
            assert!(lines.iter().all(|line| writer.write(line)), "{round}");
            assert_eq!(take(&mut reader), lines);
        }
        assert!(take(&mut reader).is_empty());
    }

    #[test]
    fn a_line_without_room_is_left_out() {
        let (writer, mut reader, _) = sides();
        assert!(!writer.write(&[0; LONGEST + 1]));
        let fit = (0..).take_while(|_| writer.write(&[b'x'; LONGEST])).count();
        assert_eq!(fit as u64, RING / cells(LONGEST));
        assert_eq!(take(&mut reader).len(), fit);
        assert!(writer.write(b"x"), "there is room again");
    }

    #[test]
    fn lines_that_are_not_admitted_are_skipped() {
        let (writer, mut reader, _) = sides();
        assert!((0..3u8).all(|n| writer.write(&[n])));
        let mut n = 0;
        let mut lines = Vec::new();
        let admit = || {
            n += 1;
            (n == 2).then_some(())
        };
        reader.take(admit, |line, ()| lines.push(line.to_vec()));
        assert_eq!(lines, [[1]]);
    }

    /// Whatever a process writes into the memory, the main process takes a bounded number of lines
    /// of bounded length, and then continues.
    #[test]
    fn the_memory_may_hold_anything() {
        const MOST: u64 = LONGEST as u64;
        for value in [0, 1, 7, MOST - 1, MOST, MOST + 1, RING, 1 << 63, u64::MAX] {
            for written in [value, RING - 1, RING, RING + 1, u64::MAX] {
                let (writer, mut reader, memory) = sides();
                memory.fill(value);
                memory.cell(WRITTEN).store(written, Ordering::Relaxed);
                let lines = take(&mut reader);
                assert!(lines.len() as u64 <= RING, "{value} {written}");
                assert!(lines.iter().all(|line| line.len() <= LONGEST));
                assert!(take(&mut reader).is_empty(), "{value} {written}");
                // Control: valid lines arrive afterwards.
                assert!(writer.write(b"abc"), "{value} {written}");
                assert_eq!(take(&mut reader), [b"abc"]);
            }
        }
    }
}
