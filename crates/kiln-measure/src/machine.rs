//! Reads the facts about the machine that every record contains.

use std::arch::x86_64::__cpuid;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::{tsc_hz, Clock};

/// The machine on which a result was measured. A fact that could not be read is `None`; no value is
/// ever guessed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Marketing name of the processor.
    #[schemars(extend("x-role" = "condition", "x-heading" = "processor", "x-side" = "machine"))]
    pub model: String,
    /// CPUID family, including the extended family.
    pub family: u32,
    /// CPUID model, including the extended model.
    pub model_number: u32,
    /// CPUID stepping.
    pub stepping: u32,
    /// Microcode revision from `/proc/cpuinfo`. A hypervisor may report a fake revision. Null if
    /// the file does not contain a revision.
    #[schemars(extend("x-role" = "condition", "x-heading" = "microcode", "x-side" = "machine"))]
    pub microcode: Option<String>,
    /// Number of logical processors online.
    #[schemars(extend("x-role" = "condition", "x-heading" = "logical processors", "x-side" = "machine"))]
    pub cores: u32,
    /// Whether SMT is active, so that two logical processors share a core. A hypervisor may hide
    /// SMT. Null if the kernel does not report it.
    #[schemars(extend("x-role" = "condition", "x-heading" = "two to a core"))]
    pub smt: Option<bool>,
    /// Whether CPUID reports a hypervisor.
    pub hypervisor: bool,
    /// The hypervisor's CPUID signature, such as `KVMKVMKVM`. Null if CPUID reports no hypervisor,
    /// or if the signature is empty.
    #[schemars(extend("x-role" = "condition", "x-heading" = "hypervisor"))]
    pub hypervisor_vendor: Option<String>,
    /// Kernel release, as `uname -r` prints it.
    #[schemars(extend("x-role" = "condition", "x-heading" = "Linux", "x-side" = "machine"))]
    pub kernel: String,
    /// The kernel's command line; null if it cannot be read.
    #[schemars(extend("x-since" = 2, "x-role" = "condition", "x-heading" = "kernel command line"))]
    pub cmdline: Option<String>,
    /// Status of each CPU vulnerability in `/sys/devices/system/cpu/vulnerabilities`, such as
    /// `Mitigation: Retpolines` for `spectre_v2`. Null if the directory is empty or cannot be read.
    #[schemars(extend("x-since" = 2, "x-role" = "condition", "x-heading" = "CPU mitigations"))]
    pub mitigations: Option<BTreeMap<String, String>>,
    /// cpufreq governor of CPU 0. Null if this kernel does not control the clock frequency, as in
    /// most guests.
    #[schemars(extend("x-role" = "condition", "x-heading" = "governor"))]
    pub governor: Option<String>,
    /// Load averages over 1, 5 and 15 minutes; null if they cannot be read.
    #[schemars(extend("x-role" = "condition", "x-heading" = "load"))]
    pub load: Option<[f64; 3]>,
    /// Steal time: CPU time that the hypervisor has taken from this machine since boot, summed over
    /// all processors. Null if it cannot be read.
    #[schemars(extend("unit" = "s", "x-role" = "condition", "x-heading" = "stolen since boot"))]
    pub stolen_s: Option<f64>,
    /// Whether the TSC runs at a constant rate in all power states, according to CPUID.
    pub invariant_tsc: bool,
    /// TSC ticks per second.
    #[schemars(extend("unit" = "Hz"))]
    pub tsc_hz: f64,
    /// The core's clock frequency under a scalar load, measured when the record was made.
    #[schemars(extend("unit" = "Hz", "x-role" = "condition", "x-heading" = "clock"))]
    pub core_hz: f64,
}

impl Machine {
    /// Reads all facts. This takes about 80 ms, mostly to measure the clocks.
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

/// Returns the time in seconds that the hypervisor has stolen since boot, summed over all
/// processors. The value advances in steps of 10 ms.
pub(crate) fn stolen_s() -> Option<f64> {
    // SAFETY: sysconf() only reads its argument.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let ticks = stolen_ticks(&fs::read_to_string("/proc/stat").ok()?)?;
    (hz > 0).then(|| ticks as f64 / hz as f64)
}

/// Returns the eighth number in the `cpu` line, which is the stolen time in clock ticks
/// (proc_stat(5)).
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

/// Returns the content of each file in the directory, by file name. Returns `None` if the directory
/// cannot be read or is empty.
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

/// Returns the value of the field `name` for the first processor listed.
fn cpuinfo_field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, v)| v.trim())
}

/// Executes CPUID and returns eax, ebx, ecx and edx.
fn cpuid(leaf: u32) -> [u32; 4] {
    // Only older toolchains need the `unsafe` block: newer ones declare `__cpuid` safe.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 processor supports cpuid, and an unknown leaf only returns an arbitrary
    // value.
    let r = unsafe { __cpuid(leaf) };
    [r.eax, r.ebx, r.ecx, r.edx]
}

/// Decodes family, model and stepping from CPUID leaf 1, eax (Intel SDM vol. 2A, CPUID; AMD APM
/// vol. 3, Fn0000_0001).
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

/// Decodes the vendor signature that the hypervisor leaf returns in ebx, ecx and edx.
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
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        fs::create_dir_all(dir.join("spectre_v3")).unwrap();
        fs::write(dir.join("spectre_v2"), "Mitigation: Retpolines\n").unwrap();
        fs::write(dir.join("meltdown"), "Not affected\n").unwrap();
        let all = mitigations(dir).unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(all["spectre_v2"], "Mitigation: Retpolines");
        assert_eq!(all["meltdown"], "Not affected");
        // An unreadable file is reported as unreadable instead of being omitted.
        assert!(all["spectre_v3"].starts_with("unreadable: "), "{all:?}");
        let absent = dir.join("absent");
        assert_eq!(mitigations(&absent), None, "a directory that is not there");
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
