//! The facts about the machine that every record carries.

use std::arch::x86_64::__cpuid;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::{tsc_hz, Clock};

/// Where a figure was taken. What could not be read is `None`, never guessed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Marketing name of the processor.
    pub model: String,
    /// CPUID family, extended family added.
    pub family: u32,
    /// CPUID model, extended model included.
    pub model_number: u32,
    /// CPUID stepping.
    pub stepping: u32,
    /// Microcode revision as the kernel prints it; a hypervisor may report a false one.
    pub microcode: Option<String>,
    /// Logical processors online.
    pub cores: u32,
    /// Whether two logical processors share a core; null also where a hypervisor hides this.
    pub smt: Option<bool>,
    /// Whether CPUID reports a hypervisor.
    pub hypervisor: bool,
    /// The hypervisor's twelve-letter signature, such as `KVMKVMKVM`.
    pub hypervisor_vendor: Option<String>,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// The kernel's command line; null if it cannot be read.
    #[schemars(extend("x-since" = 2))]
    pub cmdline: Option<String>,
    /// The kernel's report on each CPU vulnerability (`/sys/devices/system/cpu/vulnerabilities`), by name, such as
    /// `Mitigation: Retpolines` for `spectre_v2`; null if it cannot be read.
    #[schemars(extend("x-since" = 2))]
    pub mitigations: Option<BTreeMap<String, String>>,
    /// cpufreq governor of core 0; null where the guest does not manage the clock.
    pub governor: Option<String>,
    /// Load averages over 1, 5 and 15 minutes.
    pub load: Option<[f64; 3]>,
    /// Time that the hypervisor has taken from the guest since boot, summed over all processors.
    #[schemars(extend("unit" = "s"))]
    pub stolen_s: Option<f64>,
    /// Whether CPUID promises that the TSC ticks at one rate in all states.
    pub invariant_tsc: bool,
    /// TSC ticks per second.
    #[schemars(extend("unit" = "Hz"))]
    pub tsc_hz: f64,
    /// Core cycles per second under a scalar load, when the record was made.
    #[schemars(extend("unit" = "Hz"))]
    pub core_hz: f64,
}

impl Machine {
    /// Reads them all; takes some 80 ms, for the clocks.
    pub fn read() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name| cpuinfo_field(&cpuinfo, name);
        let (family, model_number, stepping) = signature(cpuid(1)[0]);
        let hypervisor = cpuid(1)[2] >> 31 != 0;
        let invariant_tsc =
            cpuid(0x8000_0000)[0] >= 0x8000_0007 && cpuid(0x8000_0007)[3] >> 8 & 1 != 0;
        Machine {
            model: field("model name").unwrap_or("unknown").to_string(),
            family,
            model_number,
            stepping,
            microcode: field("microcode").map(str::to_string),
            cores: cpuinfo
                .lines()
                .filter(|line| line.starts_with("processor"))
                .count() as u32,
            smt: line("/sys/devices/system/cpu/smt/active").map(|active| active == "1"),
            hypervisor,
            hypervisor_vendor: hypervisor
                .then(|| vendor(cpuid(0x4000_0000)))
                .filter(|name| !name.is_empty()),
            kernel: line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_string()),
            cmdline: line("/proc/cmdline"),
            mitigations: mitigations(Path::new("/sys/devices/system/cpu/vulnerabilities")),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load: line("/proc/loadavg").and_then(|text| load(&text)),
            stolen_s: stolen_s(),
            invariant_tsc,
            tsc_hz: tsc_hz(),
            core_hz: Clock::calibrate().core_hz(),
        }
    }
}

/// Seconds stolen by the hypervisor since boot, all processors together, in steps of 10 ms.
pub(crate) fn stolen_s() -> Option<f64> {
    // SAFETY: sysconf only reads its argument.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let ticks = stolen_ticks(&fs::read_to_string("/proc/stat").ok()?)?;
    (hz > 0).then(|| ticks as f64 / hz as f64)
}

/// Eighth figure of the `cpu` line (proc_stat(5)).
fn stolen_ticks(stat: &str) -> Option<u64> {
    stat.lines()
        .find_map(|line| line.strip_prefix("cpu "))?
        .split_whitespace()
        .nth(7)?
        .parse()
        .ok()
}

fn load(text: &str) -> Option<[f64; 3]> {
    let mut figures = text.split_whitespace().map_while(|word| word.parse().ok());
    Some([figures.next()?, figures.next()?, figures.next()?])
}

/// What each file of the directory says; `None` if there is nothing to be read.
fn mitigations(dir: &Path) -> Option<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).ok()?.flatten() {
        let said = fs::read_to_string(entry.path());
        let said = said.map_or_else(|e| format!("unreadable: {e}"), |s| s.trim().to_string());
        all.insert(entry.file_name().to_string_lossy().into_owned(), said);
    }
    (!all.is_empty()).then_some(all)
}

fn line(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_string())
}

/// Value of the first processor's field.
fn cpuinfo_field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, v)| v.trim())
}

/// eax, ebx, ecx, edx.
fn cpuid(leaf: u32) -> [u32; 4] {
    // Newer toolchains declare __cpuid safe on x86-64, older ones do not.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 processor has cpuid; an unknown leaf returns some value and nothing else happens.
    let r = unsafe { __cpuid(leaf) };
    [r.eax, r.ebx, r.ecx, r.edx]
}

/// Family, model and stepping of CPUID leaf 1, eax (Intel SDM vol. 2A, CPUID; AMD APM vol. 3, Fn0000_0001).
fn signature(eax: u32) -> (u32, u32, u32) {
    let family = eax >> 8 & 15;
    let model = eax >> 4 & 15;
    let extended = eax >> 16 & 15;
    (
        if family == 15 {
            family + (eax >> 20 & 255)
        } else {
            family
        },
        if family == 15 || family == 6 {
            extended << 4 | model
        } else {
            model
        },
        eax & 15,
    )
}

/// The name in ebx, ecx, edx of the hypervisor leaf.
fn vendor(leaf: [u32; 4]) -> String {
    let bytes: Vec<u8> = leaf[1..]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    String::from_utf8_lossy(&bytes)
        .trim_end_matches('\0')
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures() {
        assert_eq!(signature(0x00b0_0f21), (26, 2, 1)); // Zen 5, Turin
        assert_eq!(signature(0x000c_06f2), (6, 0xcf, 2)); // Emerald Rapids
    }

    #[test]
    fn proc_files() {
        let info =
            "processor\t: 0\nmodel name\t: Some CPU @ 2.60GHz\nbugs\t\t:\nmodel name\t: Other\n";
        assert_eq!(
            cpuinfo_field(info, "model name"),
            Some("Some CPU @ 2.60GHz")
        );
        assert_eq!(cpuinfo_field(info, "microcode"), None);
        assert_eq!(
            stolen_ticks("cpu  1 2 3 4 5 6 7 88 9 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n"),
            Some(88)
        );
        assert_eq!(stolen_ticks("cpu  1 2 3\n"), None);
        assert_eq!(load("0.52 0.58 0.59 1/977 12345"), Some([0.52, 0.58, 0.59]));
        assert_eq!(load(""), None);
        assert_eq!(vendor([0, 0x4b4d_564b, 0x564b_4d56, 0x4d]), "KVMKVMKVM");
    }

    #[test]
    fn mitigations_are_what_the_files_say() {
        let dir = std::env::temp_dir().join(format!("kiln-mitigations-{}", std::process::id()));
        fs::create_dir_all(dir.join("spectre_v3")).unwrap();
        fs::write(dir.join("spectre_v2"), "Mitigation: Retpolines\n").unwrap();
        fs::write(dir.join("meltdown"), "Not affected\n").unwrap();
        let all = mitigations(&dir).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(all["spectre_v2"], "Mitigation: Retpolines");
        assert_eq!(all["meltdown"], "Not affected");
        // What cannot be read is not left out.
        assert!(all["spectre_v3"].starts_with("unreadable: "), "{all:?}");
        assert_eq!(mitigations(&dir), None, "a directory that is not there");
    }

    #[test]
    fn a_record_survives_json() {
        let machine = Machine::read();
        let text = serde_json::to_string(&machine).unwrap();
        assert_eq!(
            serde_json::from_str::<Machine>(&text).unwrap().model,
            machine.model
        );
    }
}
