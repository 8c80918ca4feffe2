//! How many tasks (processes and threads) a device may have at the same time, and how many its
//! cgroup allows. If the limit is reached, the device cannot prepare a process for another guest.

use std::fs;
use std::path::Path;

use crate::closer;
use crate::config::Config;
use crate::crew;

/// Returns the maximum number of tasks that the device can have. As with the limit on descriptors,
/// each guest slot may have a second process while the first one is exiting. With isolation, a
/// process creates all its threads before it is given a guest, and cannot create more afterwards.
fn most(config: &Config) -> u64 {
    let sockets = (config.sockets.len() + config.inherited.len()) as u64;
    let guests = sockets
        .saturating_mul(config.max_guests as u64)
        .saturating_mul(2);
    let spares = sockets + 1;
    let first_thread = 1;
    let main_and_fork_server = 2;
    // Child processes that close sockets, and child processes that send replies.
    let children = (2 * sockets + 1) * closer::PROCESSES as u64 + 1;
    guests
        .saturating_add(spares)
        .saturating_mul(first_thread + crew::threads_per_guest(config))
        .saturating_add(main_and_fork_server + children)
}

/// Returns the smallest task limit of the cgroups that `groups` lists and of their ancestors.
/// `groups` is the content of `/proc/self/cgroup`, and `root` is the directory where cgroups are
/// mounted.
fn limit(root: &Path, groups: &str) -> Option<u64> {
    let files = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let root = match parts.next()? {
            "" => root.to_owned(),
            "pids" => root.join("pids"),
            _ => return None,
        };
        let group = Path::new(parts.next()?).strip_prefix("/").ok()?;
        let groups = group.ancestors();
        let files = groups.map(|group| root.join(group).join("pids.max"));
        Some(files.collect::<Vec<_>>())
    });
    // If a group has no limit, its file contains "max".
    files
        .flatten()
        .filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok())
        .min()
}

/// Warns if this process's cgroup allows fewer tasks than a device with this configuration may
/// have.
pub fn warn_of_few_tasks(config: &Config) {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let needed = most(config);
    if let Some(limit) = limit(Path::new("/sys/fs/cgroup"), &groups).filter(|l| *l < needed) {
        tracing::warn!(
            limit,
            needed,
            "the limit of tasks may keep guests from being served: raise it (TasksMax), or lower \
             --max-guests or --queues"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    use crate::config::MAX_QUEUES;

    fn config(sockets: usize, queues: u16) -> Config {
        Config {
            sockets: vec![PathBuf::new(); sockets],
            queues,
            ..Config::default()
        }
    }

    #[test]
    fn the_limit_of_the_unit_fits_its_socket_with_any_number_of_queues() {
        let unit = include_str!("../../../docs/kiln-serve.service");
        let value = |key| unit.lines().find_map(|line| line.strip_prefix(key));
        let limit: u64 = value("TasksMax=").unwrap().parse().unwrap();
        let flags = value("ExecStart=").unwrap();
        assert_eq!(flags.matches("--socket ").count(), 1, "{flags}");
        assert!(!flags.contains("--max-guests"), "{flags}");
        assert!(most(&config(1, MAX_QUEUES)) <= limit);
        // Control: more sockets need more tasks, as documented.
        assert_eq!(most(&config(4, MAX_QUEUES)), 2602);
        assert!(most(&config(4, MAX_QUEUES)) > limit);
    }

    #[test]
    fn the_smallest_limit_of_all_groups_is_found() {
        let root = tempfile::tempdir().unwrap();
        let write = |group: &str, text: &str| {
            let dir = root.path().join(group);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("pids.max"), text).unwrap();
        };
        let found = |groups: &str| limit(root.path(), groups);
        assert_eq!(found("0::/a/b\n"), None, "without limits");
        write("a/b", "max\n");
        assert_eq!(found("0::/a/b\n"), None, "unlimited");
        write("a", "1024\n");
        assert_eq!(found("0::/a/b\n"), Some(1024));
        write("a/b", "500\n");
        assert_eq!(found("0::/a/b\n"), Some(500));
        write("pids/c", "7\n");
        assert_eq!(found("8:pids:/c\n4:memory:/a/b\n0::/a\n"), Some(7));
        assert_eq!(found("8:pids:/c\n"), Some(7));
        assert_eq!(found("4:memory:/a/b\n"), None, "another controller");
    }
}
