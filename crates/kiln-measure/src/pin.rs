//! Selects the cores that the measuring thread may use.

use std::fmt;
use std::fs;
use std::str::FromStr;

/// A one-line explanation of why a core list was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinError(String);

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PinError {}

/// Core numbers, ascending and unique. They are printed in the kernel's notation: `0`, `0,2-3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreList(Vec<usize>);

/// Maximum number of cores that a `cpu_set_t` can represent.
const MAX: usize = libc::CPU_SETSIZE as usize;

impl CoreList {
    pub fn cores(&self) -> &[usize] {
        &self.0
    }

    /// Returns the cores that are not in `other`. The list may be empty.
    #[must_use]
    pub fn without(&self, other: &CoreList) -> CoreList {
        let rest = self.0.iter().filter(|core| !other.0.contains(core));
        CoreList(rest.copied().collect())
    }

    /// Returns the cores in the order threads should occupy them: first one logical processor of
    /// each physical core, then the rest. Also returns the number of physical cores.
    pub fn spread(&self) -> (Vec<usize>, usize) {
        self.spread_by(siblings)
    }

    fn spread_by(&self, siblings: impl Fn(usize) -> Vec<usize>) -> (Vec<usize>, usize) {
        let (mut first, mut rest) = (Vec::new(), Vec::new());
        for &core in &self.0 {
            match siblings(core).iter().any(|s| first.contains(s)) {
                true => rest.push(core),
                false => first.push(core),
            }
        }
        let physical = first.len();
        first.extend(rest);
        (first, physical)
    }

    /// Returns the cores of this machine that are online, or `None` if they cannot be read.
    pub fn online() -> Option<CoreList> {
        let list = fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
        list.trim().parse().ok()
    }

    /// Returns the cores that this thread may currently use.
    pub fn allowed() -> Result<CoreList, PinError> {
        // SAFETY: cpu_set_t is an array of integers, so all-zero bytes are valid (the empty set).
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is valid and writable for the size passed, and 0 means the calling thread.
        let failed =
            unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } != 0;
        if failed {
            return Err(PinError(format!(
                "cannot read this thread's cores: {}",
                std::io::Error::last_os_error()
            )));
        }
        // SAFETY: every core queried is below CPU_SETSIZE, so its bit is inside `set`.
        Ok(CoreList(
            (0..MAX)
                .filter(|&core| unsafe { libc::CPU_ISSET(core, &set) })
                .collect(),
        ))
    }
}

impl FromStr for CoreList {
    type Err = PinError;

    fn from_str(list: &str) -> Result<CoreList, PinError> {
        let number = |text: &str, item: &str| match text.trim().parse::<usize>() {
            Ok(core) if core < MAX => Ok(core),
            Ok(_) => Err(PinError(format!(
                "core list \"{list}\": {text} is beyond the last possible core, {}",
                MAX - 1
            ))),
            Err(_) => Err(PinError(format!(
                "core list \"{list}\": \"{item}\" is neither a core nor a range like 2-3"
            ))),
        };
        let mut cores = Vec::new();
        for item in list.split(',') {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let (first, last) = (number(first, item)?, number(last, item)?);
            if first > last {
                return Err(PinError(format!(
                    "core list \"{list}\": the range \"{item}\" runs backwards"
                )));
            }
            cores.extend(first..=last);
        }
        cores.sort_unstable();
        cores.dedup();
        Ok(CoreList(cores))
    }
}

impl fmt::Display for CoreList {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| a + 1 == *b);
        let words: Vec<String> = runs
            .map(|run| match run {
                [one] => one.to_string(),
                _ => format!("{}-{}", run[0], run[run.len() - 1]),
            })
            .collect();
        f.write_str(&words.join(","))
    }
}

/// Restricts the calling thread, and threads that it starts later, to the cores in `list`.
pub fn pin(list: &CoreList) -> Result<(), PinError> {
    pin_within(&CoreList::allowed()?, list)
}

/// Like [`pin`], but checks `list` against `allowed` instead of the cores that this thread may
/// currently use. A new thread inherits the affinity of the thread that starts it. If the starting
/// thread is pinned, `allowed` must have been read before the pinning.
pub fn pin_within(allowed: &CoreList, list: &CoreList) -> Result<(), PinError> {
    if let Some(core) = list.0.iter().find(|core| !allowed.0.contains(core)) {
        return Err(PinError(format!(
            "core {core} is not among those this process may use ({allowed})"
        )));
    }
    // SAFETY: cpu_set_t is an array of integers, so all-zero bytes are valid (the empty set).
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &core in &list.0 {
        // SAFETY: a CoreList contains only cores below CPU_SETSIZE, so the bit is inside `set`.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    // SAFETY: `set` is a valid cpu_set_t of the size passed, and 0 means the calling thread.
    let failed = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) } != 0;
    if failed {
        return Err(PinError(format!(
            "cannot pin to cores {list}: {}",
            std::io::Error::last_os_error()
        )));
    }
    Ok(())
}

/// Returns the other logical processors on the same physical core as `core`.
pub(crate) fn siblings(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    let list = fs::read_to_string(path).unwrap_or_default();
    let list: Option<CoreList> = list.trim().parse().ok();
    let all = list.map_or(Vec::new(), |l| l.cores().to_vec());
    all.into_iter().filter(|c| *c != core).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (text, cores, back) in [
            ("0", vec![0], "0"),
            ("0,2-3", vec![0, 2, 3], "0,2-3"),
            ("3,1-2,2", vec![1, 2, 3], "1-3"),
            (" 4 - 4 ", vec![4], "4"),
        ] {
            let list: CoreList = text.parse().unwrap();
            assert_eq!(list.cores(), cores);
            assert_eq!(list.to_string(), back);
        }
        let [all, some]: [CoreList; 2] = ["0-3", "1,3-5"].map(|text| text.parse().unwrap());
        assert_eq!(all.without(&some).cores(), [0, 2]);
        assert!(some.without(&some).cores().is_empty());
    }

    #[test]
    fn threads_get_physical_cores_first() {
        let list: CoreList = "0-5".parse().unwrap();
        // Cores 0 and 1 share a physical core, as do cores 2 and 3. Cores 4 and 5 have no siblings.
        let pairs = |core: usize| match core {
            0..4 => vec![core ^ 1],
            _ => vec![],
        };
        assert_eq!(list.spread_by(pairs), (vec![0, 2, 4, 5, 1, 3], 4));
        let one: CoreList = "1".parse().unwrap();
        assert_eq!(one.spread_by(pairs), (vec![1], 1));
    }

    #[test]
    fn a_thread_of_a_pinned_one_gets_another_core() {
        let allowed = CoreList::allowed().unwrap();
        std::thread::spawn(move || {
            let (first, last) = (allowed.0[0], *allowed.0.last().unwrap());
            pin(&CoreList(vec![first])).unwrap();
            std::thread::spawn(move || {
                let other = CoreList(vec![last]);
                pin_within(&allowed, &other).unwrap();
                assert_eq!(CoreList::allowed().unwrap(), other);
            })
            .join()
            .unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn faults_have_one_line() {
        for (text, want) in [
            (
                "",
                "core list \"\": \"\" is neither a core nor a range like 2-3",
            ),
            (
                "0,x",
                "core list \"0,x\": \"x\" is neither a core nor a range like 2-3",
            ),
            (
                "-1",
                "core list \"-1\": \"-1\" is neither a core nor a range like 2-3",
            ),
            (
                "1-2-3",
                "core list \"1-2-3\": \"1-2-3\" is neither a core nor a range like 2-3",
            ),
            ("3-2", "core list \"3-2\": the range \"3-2\" runs backwards"),
            (
                "0-4096",
                "core list \"0-4096\": 4096 is beyond the last possible core, 1023",
            ),
        ] {
            assert_eq!(text.parse::<CoreList>().unwrap_err().to_string(), want);
        }
    }

    #[test]
    fn pins_a_thread_and_refuses_a_foreign_core() {
        // Use a separate thread, because the thread stays pinned after the call.
        std::thread::spawn(|| {
            let first = CoreList(vec![CoreList::allowed().unwrap().0[0]]);
            pin(&first).unwrap();
            assert_eq!(CoreList::allowed().unwrap(), first);
            let fault = pin(&CoreList(vec![MAX - 1])).unwrap_err().to_string();
            assert!(fault.starts_with("core 1023 is not among"), "{fault}");
        })
        .join()
        .unwrap();
    }
}
