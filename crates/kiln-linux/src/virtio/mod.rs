//! Tests Linux's own virtio_crypto driver with a device on a vhost-user socket. Checks whether the
//! driver probes the device successfully and whether the kernel's self-tests pass on it, and
//! measures session and data traffic.

mod device;
mod guest;
mod row;
mod traffic;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kiln_kbuild::Compiler;

use crate::console::{End, Line};
use crate::init::{initramfs, Order};
use crate::Error;

pub use device::Device;
pub use guest::Guest;
pub use row::Row;
pub use traffic::Kind;

use row::Listing;
use traffic::{Load, DRIVERS};

/// The kernel's own modules to load: the virtio_crypto driver, and the generic implementations that
/// its results are compared with.
const MODULES: [&str; 3] = ["aes_generic", "cbc", "virtio_crypto"];

/// Kernel log texts that indicate faults. A call trace may follow them.
const COMPLAINTS: [&str; 4] = ["alg: ", "BUG:", "WARNING:", "vring"];

pub struct Plan<'a> {
    /// The kernel to boot, and how it connects to the device.
    pub guest: Guest<'a>,
    pub compiler: &'a Compiler,
    /// The device's vhost-user socket.
    pub socket: &'a Path,
    /// Thread counts to measure in the guest. Each kind of traffic is measured once per count.
    pub workers: &'a [u32],
    /// Duration of each measurement. A measurement covers one kind of traffic and one thread count.
    pub each: Duration,
    /// Length of a message in bytes.
    pub len: u32,
    /// The boot is killed after this time.
    pub limit: Duration,
    /// Set when the user presses Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Callback that receives the completed fraction and a description of the current activity.
    pub progress: &'a dyn Fn(f64, &str),
}

pub struct Outcome {
    /// Rows for the self-tests, followed by rows for the traffic.
    pub rows: Vec<Row>,
    /// Descriptions of failed expectations.
    pub findings: Vec<String>,
    /// Notes that help the reader interpret the rows.
    pub notes: Vec<String>,
}

/// Boots the guest, loads the driver, generates the traffic, and collects the results.
///
/// # Errors
/// Fails if the guest cannot be booted, or the traffic module does not build.
pub fn run(plan: &Plan) -> Result<Outcome, Error> {
    (plan.progress)(0.05, "building the module that makes traffic");
    let module = traffic::build(&plan.guest, plan.compiler, plan.stop)?;
    let load = plan.guest.modules(&MODULES)?;
    let loads = loads(plan);
    let mut orders: Vec<Order> = load
        .iter()
        .map(|(name, _)| Order::module(&format!("/{name}.ko"), ""))
        .collect();
    let before = orders.len();
    for load in &loads {
        // If an algorithm's test is still running, the module waits for it. Allow the commands to
        // fail, because a missing algorithm is reported as a finding and must not end the run.
        orders.push(Order::module("/traffic.ko", &load.parameters()).may_fail());
        orders.push(Order::remove(traffic::NAME).may_fail());
    }
    orders.push(Order::print("/proc/crypto"));
    let mut archive = initramfs(plan.compiler, &orders)?;
    for (name, content) in &load {
        archive.file(&format!("{name}.ko"), content);
    }
    archive.file("traffic.ko", &module);

    let mut heard = Heard::default();
    let share = |order: u32| f64::from(order) / orders.len() as f64;
    (plan.progress)(0.1, "booting");
    let mut hear = |line: &Line| {
        heard.line(line);
        (plan.progress)(0.1 + 0.9 * share(heard.order), "traffic of the guest");
    };
    let guest = &plan.guest;
    let outcome = guest.boot(
        plan.socket,
        archive.finish(),
        plan.limit,
        plan.stop,
        &mut hear,
    )?;
    if outcome.exit != Some(0) {
        let name = plan.guest.name();
        return Err(Error::Console {
            what: format!("Linux's virtio_crypto cannot be loaded into {name}"),
            tail: outcome.tail,
        });
    }
    Ok(judge(plan, &loads, before, &heard))
}

/// Returns every combination of a kind of traffic and a number of workers.
fn loads(plan: &Plan) -> Vec<Load> {
    let of = |kind: Kind| {
        plan.workers.iter().map(move |workers| Load {
            kind,
            workers: *workers,
            each: plan.each,
            len: plan.len,
        })
    };
    Kind::ALL.into_iter().flat_map(of).collect()
}

/// A boot's console output.
#[derive(Default)]
struct Heard {
    order: u32,
    listing: Listing,
    /// Lines that the traffic module printed, each with the number of the command that was running.
    told: Vec<(u32, String)>,
    ends: Vec<(u32, End)>,
    /// Messages in which the driver or the kernel reported a fault.
    complaints: Vec<String>,
}

impl Heard {
    fn line(&mut self, line: &Line) {
        match line {
            Line::Begin { order, .. } => self.order = *order,
            Line::Out(text) => self.listing.line(text),
            Line::End { order, how } => self.ends.push((*order, *how)),
            Line::Log { level, text, .. } => match text.strip_prefix(traffic::PREFIX) {
                Some(told) => self.told.push((self.order, told.to_owned())),
                None if text.starts_with("virtio_crypto") && *level <= 4 => self.complain(text),
                None if *level <= 4 && COMPLAINTS.iter().any(|c| text.contains(c)) => {
                    self.complain(text);
                }
                None => {}
            },
            Line::Lost => self.complain("messages of the kernel were lost"),
            _ => {}
        }
    }

    fn complain(&mut self, text: &str) {
        if !self.complaints.iter().any(|c| c == text) {
            self.complaints.push(text.to_owned());
        }
    }

    fn end(&self, order: u32) -> Option<End> {
        let of = self.ends.iter().find(|(n, _)| *n == order);
        of.map(|(_, how)| *how)
    }
}

fn judge(plan: &Plan, loads: &[Load], before: usize, heard: &Heard) -> Outcome {
    let (mut rows, mut findings, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    let empty = Row::new(&plan.guest);
    for (alg, driver) in DRIVERS {
        let selftest = heard.listing.selftest(driver);
        match selftest {
            "passed" => {}
            "absent" if alg == "rsa" => notes.push(format!(
                "{driver} is absent: this front end or the device offers no akcipher service"
            )),
            _ => findings.push(format!("{driver}: {selftest}")),
        }
        rows.push(empty.selftest(alg, driver, selftest));
    }
    for (i, load) in loads.iter().enumerate() {
        let (alg, driver) = load.kind.driver();
        if heard.listing.selftest(driver) == "absent" {
            continue;
        }
        let order = (before + 2 * i + 1) as u32;
        let mut lines = heard.told.iter().filter(|(n, _)| *n == order);
        match lines.find_map(|(_, line)| load.parse_result(line)) {
            Some(told) => {
                if told.errors > 0 || told.wrong > 0 || told.operations == 0 {
                    findings.push(format!(
                        "{} with {} workers: {} operations, {} errors, {} with wrong bytes",
                        load.kind.name(),
                        load.workers,
                        told.operations,
                        told.errors,
                        told.wrong
                    ));
                }
                rows.push(empty.traffic(alg, driver, load, &told));
            }
            None => findings.push(format!(
                "{} with {} workers: nothing was reported ({:?})",
                load.kind.name(),
                load.workers,
                heard.end(order)
            )),
        }
    }
    let complaints = heard.complaints.iter().take(8);
    notes.extend(complaints.map(|c| format!("the kernel said: {c}")));
    Outcome {
        rows,
        findings,
        notes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console;
    use crate::debian::Kernel;
    use crate::qemu::Accel;

    static NEVER: AtomicBool = AtomicBool::new(false);

    /// Returns the outcome of a simulated boot with one worker. The boot loads three modules, and
    /// then loads and unloads the traffic module once per kind of traffic.
    fn judged(edit: &dyn Fn(String) -> String) -> Outcome {
        let mut text = String::from("kiln:start 6.12.1 x86_64\n");
        for (i, (kind, driver)) in [
            ("cipher-sessions", "virtio_crypto_aes_cbc"),
            ("akcipher-sessions", "virtio-crypto-rsa"),
            ("cipher-data", "virtio_crypto_aes_cbc"),
        ]
        .iter()
        .enumerate()
        {
            let order = 4 + 2 * i;
            text += &format!(
                "kiln:begin {order} -module\t/traffic.ko\n\
                 kiln:log 4 1.0 kiln_traffic: loading out-of-tree module taints kernel.\n\
                 kiln:log 6 1.1 kiln_traffic: {kind} {driver} workers 1 ms 500 operations 4000 errors 0 wrong 0 \
                 max_ns 9000\nkiln:end {order} errno 0\n"
            );
        }
        for (_, driver) in DRIVERS {
            text += &format!(
                "kiln:out driver       : {driver}\nkiln:out selftest     : passed\nkiln:out\n"
            );
        }
        let kernel = Kernel {
            release: "6.12.1".into(),
            image: "vmlinuz".into(),
            headers: "headers".into(),
            modules: "modules".into(),
        };
        let plan = Plan {
            guest: Guest::Qemu {
                kernel: &kernel,
                accel: Accel::Tcg,
            },
            compiler: &Compiler::from_env().unwrap(),
            socket: Path::new("/s"),
            workers: &[1],
            each: Duration::from_millis(500),
            len: 4096,
            limit: Duration::from_secs(1),
            stop: &NEVER,
            progress: &|_, _| (),
        };
        let mut heard = Heard::default();
        let text = edit(text);
        text.lines()
            .for_each(|l| heard.line(&console::line(l.as_bytes())));
        judge(&plan, &loads(&plan), 3, &heard)
    }

    #[test]
    fn a_good_boot_has_a_row_for_each_test_and_traffic() {
        let outcome = judged(&|text| text);
        assert_eq!(outcome.findings, [""; 0]);
        assert_eq!(outcome.rows.len(), 5);
        assert_eq!(outcome.rows[2].ops_per_s, Some(8000.0));
        assert_eq!(outcome.rows[4].mb_per_s, Some(8000.0 * 4096.0 / 1e6));
        assert_eq!(outcome.rows[0].selftest.as_deref(), Some("passed"));
    }

    #[test]
    fn whatever_is_wrong_is_a_finding() {
        for (from, to) in [
            ("selftest     : passed", "selftest     : unknown"),
            ("operations 4000 errors 0", "operations 4000 errors 1"),
            ("operations 4000", "operations 0"),
            ("wrong 0", "wrong 1"),
            ("kiln_traffic: cipher-data", "kiln_traffic: cipher"),
            (
                "driver       : virtio_crypto_aes_cbc",
                "driver       : other",
            ),
        ] {
            let outcome = judged(&|text| text.replace(from, to));
            assert!(!outcome.findings.is_empty(), "{from}");
        }
    }

    #[test]
    fn a_front_end_without_akcipher_is_no_finding() {
        let outcome =
            judged(&|text| text.replace("driver       : virtio-crypto-rsa", "driver : x"));
        assert_eq!(outcome.findings, [""; 0]);
        assert_eq!(outcome.rows[1].selftest.as_deref(), Some("absent"));
        assert_eq!(outcome.rows.len(), 4);
        assert!(outcome.notes[0].contains("virtio-crypto-rsa is absent"));
    }
}
