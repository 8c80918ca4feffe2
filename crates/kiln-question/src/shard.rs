//! Shards: `--shard I/N` divides a run among processes or machines. Every shard builds the same
//! list of items and processes its own share of the list, so shards need not communicate.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock};

use clap::Args;
use kiln_record::Part;
use sha2::{Digest, Sha256};

use crate::Error;

/// Maximum number of shards. A larger number is most likely a typo.
const MOST: u32 = 100_000;
/// Default seed of a run that is divided into shards. It is a constant because all shards of a run
/// must use the same seed.
pub(crate) const SEED: u64 = 1;
/// Environment variable whose value replaces the host name in file names and records.
const HOST: &str = "KILN_HOST";

/// A shard's number, and the number of shards that the run is divided into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of this shard, from 1 to `count`.
    index: u32,
    count: u32,
}

impl Shard {
    /// Creates shard `index` of `count`. Returns `None` if `index` is not between 1 and `count`, or
    /// if `count` is too large.
    pub fn new(index: u32, count: u32) -> Option<Shard> {
        let exists = (1..=count).contains(&index) && count <= MOST;
        exists.then_some(Shard { index, count })
    }

    /// Describes this shard, which processes `items` of the plan's `total` items.
    fn part(self, items: usize, total: usize, plan: String) -> Part {
        Part {
            index: self.index,
            count: self.count,
            items,
            total,
            plan,
            complete: true,
            host: host_name(),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Shard, Error> {
        let numbers = text
            .split_once('/')
            .and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        let Some((index, count)) = numbers else {
            return Err(Error::input(format!(
                "--shard {text}: write I/N for shard I of N, such as 2/8"
            )));
        };
        Shard::new(index, count).ok_or_else(|| {
            let why = match count {
                1..=MOST => format!("shards are numbered 1/{count} to {count}/{count}"),
                _ => format!("the number of shards must be 1 to {MOST}"),
            };
            Error::input(format!("--shard {text}: {why}"))
        })
    }
}

/// The command-line flag that divides a run into shards.
#[derive(Args, Clone, Debug, Default)]
pub struct ShardArgs {
    /// Divide the work into N parts, and do only part I; 2/8 means part 2 of 8. If all parts use
    /// the same seed, they together make up one complete run
    ///
    /// With --out DIR, the results are written to DIR/COMMAND-HOST-IofN.json, where COMMAND is the
    /// name of the command and HOST is this machine's name.
    #[arg(long, value_name = "I/N", hide_short_help = true)]
    pub shard: Option<Shard>,
}

/// The part of a plan that this run processes: either all items or the items of one shard. All
/// clones share one description of the part, which is filled in when the list of items is known.
#[derive(Clone, Debug, Default)]
pub struct Share {
    shard: Option<Shard>,
    part: Arc<OnceLock<Part>>,
    /// Every item that was passed to [`Share::takes`], with the result for that item.
    asked: Arc<Mutex<BTreeMap<String, bool>>>,
}

impl Share {
    /// Creates the share that belongs to this shard, or to the whole run if `shard` is `None`.
    pub fn new(shard: Option<Shard>) -> Share {
        Share {
            shard,
            ..Share::default()
        }
    }

    /// Returns the shard requested with `--shard`, or `None` if the run processes all items.
    pub fn shard(&self) -> Option<Shard> {
        self.shard
    }

    /// Returns the items that belong to this shard. The shards of one list are disjoint and
    /// together contain all items, and their sizes differ by at most one. `name` must return a
    /// unique name for each item: records contain a digest of all names, so that shards of
    /// different lists are not mistaken for parts of one run. Each run has only one list.
    pub fn select<T>(&self, items: Vec<T>, name: impl Fn(&T) -> String) -> Vec<T> {
        let Some(shard) = self.shard else {
            return items;
        };
        let total = items.len();
        let plan = digest(items.iter().map(&name));
        let own = |place: &usize| place % shard.count as usize == shard.index as usize - 1;
        let placed = items.into_iter().enumerate().filter(|(i, _)| own(i));
        let kept: Vec<T> = placed.map(|(_, item)| item).collect();
        self.adopt(Some(shard.part(kept.len(), total, plan)));
        kept
    }

    /// Returns whether the item with this name belongs to this shard. This is for runs that
    /// discover their items one by one. The shards are disjoint and together contain all items, but
    /// their sizes vary randomly. Every shard must call this function for every item; the order and
    /// the number of calls do not matter.
    pub fn takes(&self, name: &str) -> bool {
        let Some(shard) = self.shard else {
            return true;
        };
        let hash = Sha256::digest(name.as_bytes());
        let number = u64::from_le_bytes(hash[..8].try_into().expect("a digest has 32 bytes"));
        let own = number % u64::from(shard.count) == u64::from(shard.index) - 1;
        let mut asked = self.asked.lock().expect("no one panics with this lock");
        asked.insert(name.to_string(), own);
        own
    }

    /// Returns whether [`Share::takes`] has recorded no items. It records items only if the run is
    /// divided into shards.
    pub fn is_empty(&self) -> bool {
        let asked = self.asked.lock().expect("no one panics with this lock");
        asked.is_empty()
    }

    /// Sets the description of this run's part, for example to the one reported by a child process
    /// that did the work. A description that is already set is kept.
    pub fn adopt(&self, part: Option<Part>) {
        if let Some(part) = part {
            // If a description is already set, the new one is equal to it, because children that
            // measure several trees share one list of items.
            let _ = self.part.set(part);
        }
    }

    /// Returns the description of the part that this run has processed. Returns `None` if the run
    /// is not divided into shards, or if it failed before its list of items existed.
    pub(crate) fn part(&self, complete: bool) -> Option<Part> {
        let asked = self.asked.lock().expect("no one panics with this lock");
        let part = match (self.part.get(), self.shard) {
            (Some(part), _) => part.clone(),
            (None, Some(shard)) if !asked.is_empty() => {
                let own = asked.values().filter(|own| **own).count();
                shard.part(own, asked.len(), digest(asked.keys()))
            }
            _ => return None,
        };
        Some(Part { complete, ..part })
    }

    /// Returns the name of an output file: `COMMAND.json` for a whole run, `COMMAND-HOST-IofN.json`
    /// for a shard.
    pub fn file_name(&self, name: &str) -> String {
        let Some(Shard { index, count }) = self.shard else {
            return name.to_string();
        };
        let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        // Add leading zeros, so that directory listings sort the files by number.
        let width = count.to_string().len();
        let host = host_name();
        format!("{stem}-{host}-{index:0width$}of{count}.{extension}")
    }
}

/// Returns the first 16 hexadecimal digits of the SHA-256 of a list of names. They identify the
/// list.
fn digest(names: impl Iterator<Item = impl AsRef<str>>) -> String {
    let mut digest = Sha256::new();
    for name in names {
        digest.update(name.as_ref().as_bytes());
        digest.update([0]);
    }
    let bytes = digest.finalize();
    bytes[..8].iter().map(|b| format!("{b:02x}")).collect()
}

/// Returns this machine's name, reduced to characters that are safe in file names.
fn host_name() -> String {
    let named = std::env::var(HOST).ok().filter(|name| !name.is_empty());
    let name = named.or_else(|| fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let safe = |c: char| match c.is_ascii_alphanumeric() || "._-".contains(c) {
        true => c,
        false => '_',
    };
    let name: String = name.unwrap_or_default().trim().chars().map(safe).collect();
    match name.is_empty() {
        true => "unknown".to_string(),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_measure::SplitMix64;

    fn select(items: &[u32], index: u32, count: u32) -> (Vec<u32>, Part) {
        let share = Share::new(Shard::new(index, count));
        let kept = share.select(items.to_vec(), u32::to_string);
        (kept, share.part(true).unwrap())
    }

    /// Checks that shards are disjoint and together contain all items. Reports that merge the
    /// shards of several machines rely on this property. `cut` is either `select` or a
    /// deliberately wrong version, which is used to test this check itself.
    fn check_random_plans(cut: fn(&[u32], u32, u32) -> Vec<u32>) -> Result<(), String> {
        let mut rng = SplitMix64(26);
        for n in 0..10_000 {
            let items: Vec<u32> = (0..rng.below(200) as u32).collect();
            let count = 1 + rng.below(40) as u32;
            let mut seen = vec![0; items.len()];
            for index in 1..=count {
                let kept = cut(&items, index, count);
                let fair = items.len() / count as usize;
                if kept.len() != fair && kept.len() != fair + 1 {
                    return Err(format!("plan {n}: {} items in one shard", kept.len()));
                }
                kept.iter().for_each(|item| seen[*item as usize] += 1);
            }
            if let Some(item) = seen.iter().position(|times| *times != 1) {
                return Err(format!("plan {n}: item {item}: {} times", seen[item]));
            }
        }
        Ok(())
    }

    #[test]
    fn shards_of_random_plans_are_disjoint_and_complete() {
        check_random_plans(|items, index, count| select(items, index, count).0).unwrap();
        // Controls: `lost` loses the last items, because it rounds the size of each shard down.
        // `twice` includes the first item more than once.
        let lost = |items: &[u32], index: u32, count: u32| {
            let size = items.len() / count as usize;
            items[size * (index as usize - 1)..size * index as usize].to_vec()
        };
        assert!(check_random_plans(lost).is_err());
        let twice = |items: &[u32], index: u32, count: u32| {
            let (mut kept, _) = select(items, index, count);
            if kept.len() > 1 && kept.len() == items.len() / count as usize {
                kept.push(items[0]);
            }
            kept
        };
        assert!(check_random_plans(twice).is_err());
    }

    #[test]
    fn items_that_come_one_by_one_are_in_one_shard_each() {
        let mut rng = SplitMix64(27);
        for _ in 0..200 {
            let items: Vec<String> = (0..1 + rng.below(50)).map(|i| format!("i{i}")).collect();
            let count = 1 + rng.below(9) as u32;
            let mut parts = Vec::new();
            let mut taken = 0;
            for index in 1..=count {
                let share = Share::new(Shard::new(index, count));
                // Shards may query the items in different orders, and may query an item more than
                // once.
                let first = rng.below(items.len());
                let order = items[first..].iter().chain(&items);
                let own: std::collections::BTreeSet<&String> =
                    order.filter(|item| share.takes(item)).collect();
                taken += own.len();
                let part = share.part(true).unwrap();
                assert_eq!((part.items, part.total), (own.len(), items.len()));
                parts.push(part.plan);
            }
            assert_eq!(taken, items.len());
            parts.dedup();
            assert_eq!(parts.len(), 1, "the shards have one plan");
        }
        let whole = Share::default();
        assert!(whole.takes("x"));
        assert_eq!(whole.part(true), None);
    }

    #[test]
    fn a_part_identifies_its_list() {
        let plan = |items: &[u32], index| select(items, index, 2).1.plan;
        assert_eq!(plan(&[1, 2, 3], 1), plan(&[1, 2, 3], 2));
        assert_ne!(plan(&[1, 2, 3], 1), plan(&[1, 2], 1));
        assert_ne!(plan(&[12, 3], 1), plan(&[1, 23], 1));
        let (kept, part) = select(&[7, 8, 9], 2, 2);
        assert_eq!(kept, [8]);
        assert_eq!((part.index, part.count), (2, 2));
        assert_eq!((part.items, part.total), (1, 3));
        let whole = Share::default();
        assert_eq!(whole.select(vec![1, 2], |_| String::new()), [1, 2]);
        assert_eq!(whole.part(true), None);
        assert_eq!(whole.file_name("speed.json"), "speed.json");
    }

    #[test]
    fn names_of_shards() {
        for good in ["1/1", "2/8", "100000/100000"] {
            assert_eq!(good.parse::<Shard>().unwrap().to_string(), good);
        }
        for bad in [
            "", "1", "0/4", "5/4", "1/0", "-1/4", "a/b", "1/100001", "1/2/3",
        ] {
            assert_eq!(bad.parse::<Shard>().unwrap_err().exit_code(), 2, "{bad}");
        }
        let name = Share::new(Shard::new(3, 12)).file_name("speed.json");
        assert!(
            name.starts_with("speed-") && name.ends_with("-03of12.json"),
            "{name}"
        );
    }
}
