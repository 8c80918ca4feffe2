//! Reads and parses all files needed to judge a machine.

use super::config::Config;
use super::crypto::{parse_drivers, Driver};
use super::files::{self, Missing, Root};
use super::kernel::{find_compiler, parse_version};

/// Device ID of virtio-crypto (virtio 1.2, section 5).
const VIRTIO_CRYPTO: u32 = 20;

/// A device on the virtio bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    /// The device's name in the kernel, such as `virtio0`.
    pub name: String,
    pub is_crypto: bool,
    /// Name of the bound driver; `None` if no driver is bound.
    pub driver: Option<String>,
}

/// CPU time of kernel threads since boot, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Threads {
    pub ksoftirqd: f64,
    pub kworkers: f64,
    /// CPU time of the kworkers that most recently worked for cryptd. This time is also included in
    /// `kworkers`.
    pub cryptd: f64,
}

/// The parsed contents of all files needed to judge a machine.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub release: Option<String>,
    pub version: Option<(u32, u32)>,
    /// The kernel's description of the compiler that built it, and the file that contains this
    /// description.
    pub compiler: Option<(String, String)>,
    pub config: Result<Config, Missing>,
    pub drivers: Result<Vec<Driver>, Missing>,
    pub modules: Result<Vec<String>, Missing>,
    pub symbols: Result<Vec<String>, Missing>,
    pub cpu: Option<String>,
    pub cpus: usize,
    /// CPU features; `None` if `/proc/cpuinfo` is missing or has no `flags` line, as on CPUs other
    /// than x86.
    pub flags: Option<Vec<String>>,
    pub softirqs: Vec<(String, u64)>,
    /// CPU times of ksoftirqd and of kworkers; `None` if no such thread was found.
    pub threads: Option<Threads>,
    pub uptime_s: Option<f64>,
    /// CPU vulnerabilities, each with the kernel's description of the mitigation.
    pub mitigations: Vec<(String, String)>,
    pub clock: Option<String>,
    pub devices: Result<Vec<Device>, Missing>,
    /// Whether this is a PREEMPT_RT kernel; `None` if unknown.
    pub realtime: Option<bool>,
}

impl Machine {
    pub(super) fn read(root: &Root) -> Machine {
        let first = |source| root.lines(source).ok().and_then(|l| l.into_iter().next());
        let version = first(&files::VERSION);
        let release = first(&files::RELEASE)
            .or_else(|| version.as_ref()?.split(' ').nth(2).map(str::to_owned))
            .map(|r| r.trim().to_owned())
            .filter(|r| !r.is_empty());
        let config = root
            .configuration(release.as_deref().unwrap_or(""))
            .and_then(Config::new);
        let compiler = config
            .as_ref()
            .ok()
            .and_then(|c| Some((c.value("CC_VERSION_TEXT")?.to_owned(), c.path.clone())))
            .or_else(|| {
                let words = find_compiler(version.as_ref()?)?;
                Some((words.to_owned(), files::VERSION.pattern.to_owned()))
            });
        let cpuinfo = root.lines(&files::CPUINFO).unwrap_or_default();
        let field = |name: &str| {
            let line = cpuinfo.iter().find(|l| l.starts_with(name))?;
            line.split_once(':').map(|(_, value)| value.trim())
        };
        Machine {
            version: release.as_deref().and_then(parse_version),
            release,
            compiler,
            config,
            drivers: root.lines(&files::CRYPTO).map(|l| parse_drivers(&l)),
            modules: root.lines(&files::MODULES).map(|lines| {
                let name = |l: &String| l.split(' ').next().map(str::to_owned);
                lines.iter().filter_map(name).collect()
            }),
            symbols: root.lines(&files::SYMBOLS).map(|l| parse_symbols(&l)),
            cpu: field("model name").map(str::to_owned),
            cpus: cpuinfo
                .iter()
                .filter(|l| l.starts_with("processor"))
                .count(),
            flags: field("flags").map(|f| f.split(' ').map(str::to_owned).collect()),
            softirqs: parse_softirqs(&root.lines(&files::SOFTIRQS).unwrap_or_default()),
            threads: sum_threads(&root.all(&files::THREADS)),
            uptime_s: first(&files::UPTIME)
                .and_then(|l| l.split(' ').next()?.parse().ok())
                .filter(|s: &f64| s.is_finite() && *s >= 0.0),
            mitigations: root
                .all(&files::MITIGATIONS)
                .into_iter()
                .filter_map(|(path, lines)| {
                    let name = path.rsplit('/').next()?.to_owned();
                    Some((name, lines.into_iter().next()?))
                })
                .collect(),
            clock: first(&files::CLOCK),
            devices: read_devices(root),
            realtime: match (first(&files::REALTIME), &version) {
                (Some(said), _) => Some(said.trim() == "1"),
                (None, Some(version)) => Some(version.contains("PREEMPT_RT")),
                (None, None) => None,
            },
        }
    }

    /// Returns whether the kernel has the symbol `name`; `None` if the symbols cannot be read.
    pub(super) fn has_symbol(&self, name: &str) -> Option<bool> {
        let symbols = self.symbols.as_ref().ok()?;
        Some(symbols.iter().any(|s| s == name))
    }

    pub(super) fn has_module(&self, name: &str) -> bool {
        let modules = self.modules.as_ref();
        modules.is_ok_and(|modules| modules.iter().any(|m| m == name))
    }

    /// Returns whether the CPU has at least one of the features in `names`; `None` if the features
    /// cannot be read.
    pub(super) fn has_cpu_flag(&self, names: &[&str]) -> Option<bool> {
        let flags = self.flags.as_ref()?;
        Some(flags.iter().any(|f| names.contains(&f.as_str())))
    }

    /// Returns the kernel's name for use in a sentence: `Linux 6.12`, for example, or `a kernel of
    /// unknown version`.
    pub(super) fn kernel(&self) -> String {
        match self.version {
            Some((major, minor)) => format!("Linux {major}.{minor}"),
            None => "a kernel of unknown version".into(),
        }
    }
}

/// Extracts the symbol names from the lines of `/proc/kallsyms`, which have the form `ADDRESS TYPE
/// NAME [MODULE]`.
fn parse_symbols(lines: &[String]) -> Vec<String> {
    let name = |l: &String| l.split_whitespace().nth(2).map(str::to_owned);
    lines.iter().filter_map(name).collect()
}

/// Returns the name and count of each softirq, summed over all CPUs.
fn parse_softirqs(lines: &[String]) -> Vec<(String, u64)> {
    let row = |l: &String| -> Option<(String, u64)> {
        let (name, counts) = l.split_once(':')?;
        let mut sum = 0_u64;
        for count in counts.split_whitespace() {
            sum = sum.checked_add(count.parse().ok()?)?;
        }
        Some((name.trim().to_owned(), sum))
    };
    lines.iter().filter_map(row).collect()
}

fn sum_threads(files: &[files::Lines]) -> Option<Threads> {
    let mut sum = None;
    for (_, lines) in files {
        let Some((name, seconds)) = lines.first().and_then(|l| files::parse_stat(l)) else {
            continue;
        };
        let sum: &mut Threads = sum.get_or_insert_default();
        if name.starts_with("ksoftirqd/") {
            sum.ksoftirqd += seconds;
        } else if name.starts_with("kworker/") {
            sum.kworkers += seconds;
            // The name of a kworker ends with `+` and the workqueue for which it is working, or
            // with `-` and the workqueue for which it last worked.
            if name.ends_with("-cryptd") || name.ends_with("+cryptd") {
                sum.cryptd += seconds;
            }
        }
    }
    sum
}

fn read_devices(root: &Root) -> Result<Vec<Device>, Missing> {
    let bus = "sys/bus/virtio";
    if !root.has(bus) {
        // If another bus is present but virtio is not, the virtio bus is neither built in nor
        // loaded, so the machine has no virtio devices.
        return match root.has(files::BUS.pattern) {
            true => Ok(Vec::new()),
            false => Err(Missing::Absent),
        };
    }
    let devices = root.all(&files::VIRTIO).into_iter().map(|(path, lines)| {
        let value = |key: &str| lines.iter().find_map(|l| l.strip_prefix(key));
        let id = value("MODALIAS=virtio:d")?.get(..8)?;
        Some(Device {
            name: path.split('/').rev().nth(1)?.to_owned(),
            is_crypto: u32::from_str_radix(id, 16).ok()? == VIRTIO_CRYPTO,
            driver: value("DRIVER=").map(str::to_owned),
        })
    });
    let devices: Option<Vec<Device>> = devices.collect();
    let there = root.expand("sys/bus/virtio/devices/*").len();
    match devices {
        Some(devices) if devices.len() == there => Ok(devices),
        _ => Err(Missing::Unusable(
            "has a device that does not say what it is",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_summed_by_kind() {
        let stat = |name: &str, user: u32, system: u32| {
            let line =
                format!("9 ({name}) I 2 0 0 0 -1 69238880 0 0 0 0 {user} {system} 0 0 20 0 1 0");
            ("proc/9/stat".to_owned(), vec![line])
        };
        let sum = sum_threads(&[
            stat("ksoftirqd/0", 0, 150),
            stat("kworker/0:1-cryptd", 100, 100),
            stat("kworker/0:2+cryptd", 0, 100),
            stat("kworker/u4:0-events_(odd)", 0, 50),
            ("proc/1/stat".into(), vec!["1 (ksoftirqd/1) S 2".into()]),
        ]);
        let want = Threads {
            ksoftirqd: 1.5,
            kworkers: 3.5,
            cryptd: 3.0,
        };
        assert_eq!(sum, Some(want));
        assert_eq!(sum_threads(&[]), None);
    }

    #[test]
    fn softirqs_are_summed_over_cpus() {
        let lines = [
            "                    CPU0       CPU1",
            "      NET_RX:          7          5",
            "       TIMER:  x",
        ];
        let rows = parse_softirqs(&lines.map(str::to_owned));
        assert_eq!(rows, [("NET_RX".to_owned(), 12)]);
    }

    #[test]
    fn a_recording_without_sys_is_not_a_machine_without_virtio() {
        let dir = tempfile::tempdir().unwrap();
        let make = |path: &str| std::fs::create_dir_all(dir.path().join(path)).unwrap();
        let root = Root::new(dir.path());
        assert_eq!(read_devices(&root), Err(Missing::Absent));
        make("sys/bus/cpu/drivers_autoprobe");
        assert_eq!(read_devices(&root), Ok(Vec::new()));
        make("sys/bus/virtio/devices/virtio3");
        assert!(matches!(read_devices(&root), Err(Missing::Unusable(_))));
        let uevent = dir.path().join("sys/bus/virtio/devices/virtio3/uevent");
        std::fs::write(&uevent, "MODALIAS=virtio:d00000014v00001AF4\n").unwrap();
        let devices = read_devices(&root).unwrap();
        assert_eq!(devices[0].name, "virtio3");
        assert!(devices[0].is_crypto && devices[0].driver.is_none());
        std::fs::write(&uevent, "MODALIAS=virtio:d0\n").unwrap();
        assert!(matches!(read_devices(&root), Err(Missing::Unusable(_))));
        std::fs::write(
            &uevent,
            "DRIVER=virtio_net\nMODALIAS=virtio:d00000001v00001AF4\n",
        )
        .unwrap();
        let device = &read_devices(&root).unwrap()[0];
        assert!(!device.is_crypto && device.driver.as_deref() == Some("virtio_net"));
    }
}
