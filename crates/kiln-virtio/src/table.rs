//! A table that maps names to sessions. A name consists of a slot number and, in the higher bits,
//! the slot's generation. The name of a deleted session is therefore invalid even if its slot has
//! been reused.
//!
//! A look-up returns a counted reference, so a session can be removed from the table at any time.
//! The session is dropped when the last reference to it is dropped.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Number of bits in a name that hold the slot number.
const SLOT_BITS: u32 = 20;
/// Number of slots in a [`Chunk`].
const CHUNK: usize = 256;

struct Slot<T> {
    /// The slot's generation, which starts at 1 and is incremented whenever a value is removed from
    /// the slot. When the generation reaches 2^43, the slot is retired.
    generation: u64,
    value: Option<Arc<T>>,
}

/// A group of slots, allocated when one of them is first used.
type Chunk<T> = OnceLock<Box<[Mutex<Slot<T>>]>>;

struct Free {
    slots: Vec<u32>,
    /// Index of the first slot that has never been used. None of the slots after it has been used
    /// either.
    fresh: usize,
}

/// A bounded table that assigns a name to each value.
pub struct Table<T> {
    chunks: Box<[Chunk<T>]>,
    free: Mutex<Free>,
    capacity: usize,
    len: AtomicUsize,
}

/// Locks a mutex and ignores poisoning, because the code that holds these locks cannot panic and
/// leave the data in an inconsistent state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Table<T> {
    /// Maximum table capacity.
    pub const MOST: usize = 1 << SLOT_BITS;

    /// Creates a table for `capacity` values, at most [`Table::MOST`]. Memory is allocated on
    /// demand.
    pub fn new(capacity: usize) -> Table<T> {
        let capacity = capacity.min(Table::<T>::MOST);
        Table {
            chunks: (0..capacity.div_ceil(CHUNK))
                .map(|_| OnceLock::new())
                .collect(),
            free: Mutex::new(Free {
                slots: Vec::new(),
                fresh: 0,
            }),
            capacity,
            len: AtomicUsize::new(0),
        }
    }

    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the table is currently full. The answer may already be out of date if other
    /// threads are using the table.
    pub fn is_full(&self) -> bool {
        self.len() >= self.capacity
    }

    fn slot(&self, index: usize) -> Option<&Mutex<Slot<T>>> {
        self.chunks.get(index / CHUNK)?.get()?.get(index % CHUNK)
    }

    fn take_index(&self) -> Option<usize> {
        let mut free = lock(&self.free);
        if let Some(index) = free.slots.pop() {
            return Some(index as usize);
        }
        let index = free.fresh;
        if index >= self.capacity {
            return None;
        }
        free.fresh += 1;
        self.chunks[index / CHUNK].get_or_init(|| {
            let slot = || {
                Mutex::new(Slot {
                    generation: 1,
                    value: None,
                })
            };
            (0..CHUNK).map(|_| slot()).collect()
        });
        Some(index)
    }

    /// Inserts a value and returns its name, or `None` if the table is full. A name is never 0, and
    /// its most significant bit is clear.
    pub fn insert(&self, value: T) -> Option<u64> {
        let index = self.take_index()?;
        let mut slot = lock(self.slot(index)?);
        slot.value = Some(Arc::new(value));
        self.len.fetch_add(1, Ordering::Relaxed);
        Some(slot.generation << SLOT_BITS | index as u64)
    }

    pub fn get(&self, name: u64) -> Option<Arc<T>> {
        let (index, generation) = split(name);
        let slot = lock(self.slot(index)?);
        match slot.generation == generation {
            true => slot.value.clone(),
            false => None,
        }
    }

    /// Removes and returns the value with this name. Returns `None` if the name is invalid or if
    /// `such` returns false for the value.
    pub fn remove(&self, name: u64, such: impl FnOnce(&T) -> bool) -> Option<Arc<T>> {
        let (index, generation) = split(name);
        let mut slot = lock(self.slot(index)?);
        if slot.generation != generation || !slot.value.as_deref().is_some_and(such) {
            return None;
        }
        self.vacate(index, &mut slot)
    }

    fn vacate(&self, index: usize, slot: &mut Slot<T>) -> Option<Arc<T>> {
        let value = slot.value.take()?;
        slot.generation += 1;
        self.len.fetch_sub(1, Ordering::Relaxed);
        if slot.generation < 1 << (63 - SLOT_BITS) {
            lock(&self.free).slots.push(index as u32);
        }
        Some(value)
    }

    /// Removes all values, except that values inserted during the call may remain.
    pub fn clear(&self) {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        for (index, slot) in chunks.flat_map(|c| c.iter()).enumerate() {
            self.vacate(index, &mut lock(slot));
        }
    }
}

fn split(name: u64) -> (usize, u64) {
    let index = name & (Table::<()>::MOST as u64 - 1);
    (index as usize, name >> SLOT_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_used_again() {
        let table = Table::new(2);
        let a = table.insert('a').unwrap();
        let b = table.insert('b').unwrap();
        assert_eq!(table.insert('c'), None);
        assert_eq!(table.remove(a, |_| false), None, "another kind of session");
        assert_eq!(table.remove(a, |_| true).as_deref(), Some(&'a'));
        assert_eq!(table.get(a), None);
        assert_eq!(table.remove(a, |_| true), None);
        let c = table.insert('c').unwrap();
        assert!(![a, b].contains(&c));
        assert_eq!(table.get(c).as_deref(), Some(&'c'));
        assert_eq!(table.get(a), None, "another session uses the slot now");
        table.clear();
        assert!(table.is_empty() && table.get(b).is_none() && table.get(c).is_none());
        assert!(table.insert('d').is_some());
    }

    #[test]
    fn what_is_in_use_stays_until_it_is_not() {
        let table = Table::new(1);
        let name = table.insert(Arc::new(())).unwrap();
        let held = table.get(name).unwrap();
        let removed = table.remove(name, |_| true).unwrap();
        drop(removed);
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn any_name_can_be_asked_for() {
        let table = Table::new(300);
        for _ in 0..300 {
            assert!(table.insert(()).is_some());
        }
        assert!(table.is_full() && table.insert(()).is_none());
        for name in [0, 1, u64::MAX, 1 << 63, 299, 300, (1 << 20) | 300] {
            assert!(table.get(name).is_none(), "{name:#x}");
        }
        assert!(table.get(1 << 20 | 299).is_some());
    }

    #[test]
    fn threads_create_and_destroy_side_by_side() {
        let table = Table::new(64);
        std::thread::scope(|s| {
            for thread in 0..4u64 {
                let table = &table;
                s.spawn(move || {
                    for i in 0..2000 {
                        let Some(name) = table.insert((thread, i)) else {
                            continue;
                        };
                        assert_eq!(table.get(name).as_deref(), Some(&(thread, i)));
                        assert!(table.remove(name, |v| *v == (thread, i)).is_some());
                    }
                });
            }
        });
        assert!(table.is_empty());
        let free = lock(&table.free);
        assert_eq!(free.slots.len(), free.fresh);
    }
}
