//! Writes the guest's commands, which set up its namespaces, security associations and disk, and
//! run the load.

use super::mistake::{Mistake, MISTAKES};
use super::row::{Row, PLANTED, TIMER};
use crate::init::Order;
use crate::program;
use crate::Error;

/// How much work the guest does.
pub struct Load {
    /// Duration of the load in seconds, for each mode and algorithm.
    pub seconds: u32,
    /// Number of times to load, use and unload the module.
    pub cycles: u32,
    /// Number of nested sections to open in the mode `timer`; 0 skips this mode.
    pub sections: u64,
}

/// Linux errno values on x86.
const ENOENT: i32 = 2;
const EAGAIN: i32 = 11;
const EINVAL: i32 = 22;

const TRACING: &str = "/sys/kernel/debug/tracing";
const DISK: &str = "/dev/dm-0";

/// Name of the load process that keeps values in vector registers.
const HOLDER: &str = "registers";

/// The file that contains the module's count of nested sections.
const SAVES: &str = "/sys/module/kiln/parameters/nested_saves";

/// Maximum number of nested sections in the mode `timer` for the control that does not save
/// registers.
const CONTROL_SECTIONS: u64 = 2000;

/// Mount point of the disk that holds the Debian system.
pub(super) const SYSTEM: &str = "/system";
const ENVIRONMENT: &str =
    "/usr/bin/env -i HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
                           PATH=/usr/sbin:/usr/bin:/sbin:/bin";

const GCM: &str = "aead rfc4106(gcm(aes)) 0x0f1e2d3c4b5a69788796a5b4c3d2e1f001020304 128";
const CBC: &str = "enc cbc(aes) 0x0f1e2d3c4b5a69788796a5b4c3d2e1f0 \
                   auth-trunc hmac(sha256) 0xf0e1d2c3b4a5968778695a4b3c2d1e0ff0e1d2c3b4a5968778695a4b3c2d1e0f 128";

/// The netem option that releases packets in bursts. The softirq of a single timer interrupt sends
/// a whole burst. Bursts are smaller than 64 packets, because a softirq that has processed 64 may
/// leave the rest to ksoftirqd, which is a task and does not interrupt anything.
const BURSTS: &str = "slot 20ms packets 24 limit 100000";

/// The commands, and the numbers of those whose output is needed.
#[derive(Default)]
pub(super) struct Script {
    pub orders: Vec<Order>,
    pub rows: Vec<(Row, Answers)>,
    /// Number of the command that prints `/proc/crypto` while the module with a wrong known answer
    /// is loaded.
    pub planted: u32,
    /// Number of the command that loads the package's module.
    pub loaded: u32,
    /// Number of the command that prints `/proc/crypto` while the package's module is loaded.
    pub listed: u32,
    /// Numbers of the commands that install and remove the package.
    pub package: Option<Package>,
    pub early: Early,
    /// Commands that must fail. For each command: its number, the expected errno, and what it would
    /// mean if the command succeeded.
    pub failing: Vec<(u32, i32, &'static str)>,
    /// Commands that make a mistake for a debug kernel to report.
    pub mistakes: Vec<(u32, &'static Mistake)>,
}

/// Numbers of the commands that test the module with other parameters before the phases begin.
#[derive(Default)]
pub(super) struct Early {
    /// Number of the command that prints `/proc/crypto` after the module has been loaded without
    /// `prefer`.
    pub last: u32,
    /// Number of the command that prints `/proc/crypto` after the control has been loaded. The
    /// control registers Kiln's drivers without instantiating Linux's drivers first.
    pub alone: u32,
    /// Number of the command that loads a module whose self-test of nested sections must fail.
    pub broken: u32,
    /// Number of the command that prints the parameter `nested` after the failed self-test.
    pub nested: u32,
    /// Number of the command that prints `/proc/crypto` while the module has registered only one
    /// driver.
    pub named: u32,
}

/// Name of a driver, as `/proc/crypto` shows it. A test passes this name in the module parameter
/// `only`.
pub(super) const NAMED: &str = "kiln-xts-aes-aesni";

/// Numbers of the commands that install the package in a Debian system and remove it again.
#[derive(Default)]
pub(super) struct Package {
    pub install: u32,
    /// Number of the command that prints what DKMS built.
    pub status: u32,
    /// Numbers of the commands that list the package's files before and after the package is
    /// removed.
    pub files: [u32; 2],
}

/// Numbers of the commands whose output is needed for a row.
#[derive(Default)]
pub(super) struct Answers {
    pub traffic: u32,
    pub cryptd: u32,
    /// In the mode `timer`, the commands that print the module's count of nested sections before
    /// and after the load.
    pub saves: Option<[u32; 2]>,
}

impl Script {
    fn add(&mut self, order: Order) -> u32 {
        self.orders.push(order);
        self.orders.len() as u32
    }

    /// Adds a command that runs a program. `line` consists of the program and its arguments,
    /// separated by single spaces.
    fn run(&mut self, line: &str) -> Result<u32, Error> {
        let words: Vec<&str> = line.split(' ').collect();
        let path = program::path(words[0])?;
        Ok(self.add(Order::run(&path, &words[1..])))
    }

    fn all(&mut self, lines: &[&str]) -> Result<(), Error> {
        lines.iter().try_for_each(|line| self.run(line).map(drop))
    }

    /// Adds a command that runs a program of the Debian system on the disk.
    fn run_inside(&mut self, line: &str) -> Result<u32, Error> {
        self.run(&format!("chroot {SYSTEM} {ENVIRONMENT} {line}"))
    }

    fn install(&mut self, release: &str) -> Result<(), Error> {
        self.all(&[
            &format!("mount -t ext4 /dev/vda {SYSTEM}"),
            &format!("mount -t proc proc {SYSTEM}/proc"),
            &format!("mount -t sysfs sysfs {SYSTEM}/sys"),
            &format!("mount --bind /dev {SYSTEM}/dev"),
            &format!("cp /package.deb {SYSTEM}/tmp/package.deb"),
        ])?;
        // DKMS needs this link, which udev would normally create.
        self.run_inside("ln -s /proc/self/fd /dev/fd")?;
        let install =
            self.run_inside("apt-get install -q -y --no-install-recommends /tmp/package.deb")?;
        let status = self.run_inside("dkms status -m kiln-crypto")?;
        // From here on, the loads use this module instead of the one in the initramfs. DKMS compresses
        // it if the kernel's own modules are compressed.
        self.run(&format!(
            "cp -r {SYSTEM}/lib/modules/{release}/updates/dkms /dkms"
        ))?;
        let xz = program::path("xz")?;
        self.add(Order::run(&xz, &["-d", "/dkms/kiln.ko.xz"]).may_fail());
        self.run("cp /dkms/kiln.ko /kiln.ko")?;
        self.package = Some(Package {
            install,
            status,
            ..Package::default()
        });
        Ok(())
    }

    /// Removes the package if it was installed.
    fn purge(&mut self) -> Result<(), Error> {
        const FILES: &str = "find /etc /usr /var -name *kiln*";
        let Some(mut package) = self.package.take() else {
            return Ok(());
        };
        package.files[0] = self.run_inside(FILES)?;
        self.run_inside("apt-get purge -q -y kiln-crypto-dkms")?;
        package.files[1] = self.run_inside(FILES)?;
        self.package = Some(package);
        Ok(())
    }

    /// Connects three namespaces in the order c, a, b. Namespace a forwards packets from c to b.
    fn connect(&mut self) -> Result<(), Error> {
        self.add(Order::write("/proc/sys/net/ipv4/ip_forward", "1"));
        // Raise the limit of the queue in which packets wait while softirqs are delayed.
        self.add(Order::write(
            "/proc/sys/net/core/netdev_max_backlog",
            "100000",
        ));
        for name in ["c", "a", "b"] {
            self.run(&format!("ip netns add {name}"))?;
            self.run(&format!("ip -n {name} link set lo up"))?;
        }
        self.all(&[
            "ip link add vc netns c type veth peer name vac netns a",
            "ip link add va netns a type veth peer name vb netns b",
        ])?;
        for (name, link, address) in [
            ("c", "vc", "10.1.0.1/24"),
            ("a", "vac", "10.1.0.2/24"),
            ("a", "va", "10.0.0.1/24"),
            ("b", "vb", "10.0.0.2/24"),
        ] {
            self.run(&format!("ip -n {name} addr add {address} dev {link}"))?;
            self.run(&format!("ip -n {name} link set {link} up"))?;
        }
        self.all(&[
            "ip -n b addr add 10.2.0.2/32 dev lo",
            "ip -n c route add default via 10.1.0.2",
            "ip -n a route add 10.2.0.0/24 via 10.0.0.2",
            "ip -n b route add 10.1.0.0/24 via 10.0.0.1",
            &format!("tc -n c qdisc add dev vc root netem {BURSTS}"),
            &format!("tc -n a qdisc add dev va root netem {BURSTS}"),
        ])
    }

    fn associate(&mut self, mode: &str, cipher: &str) -> Result<(), Error> {
        let algorithm = if cipher == "gcm" { GCM } else { CBC };
        let selector = match mode {
            "tunnel" => "src 10.1.0.0/24 dst 10.2.0.0/24",
            _ => "src 10.0.0.1 dst 10.0.0.2",
        };
        for (name, direction) in [("a", "out"), ("b", "in")] {
            self.run(&format!("ip -n {name} {}", state(mode, algorithm, 64)))?;
            self.run(&format!(
                "ip -n {name} xfrm policy add {selector} dir {direction} tmpl src 10.0.0.1 dst 10.0.0.2 proto esp \
                 reqid 1 mode {mode}"
            ))?;
        }
        Ok(())
    }

    fn dissociate(&mut self) -> Result<(), Error> {
        for name in ["a", "b"] {
            self.run(&format!("ip -n {name} xfrm policy flush"))?;
            self.run(&format!("ip -n {name} xfrm state flush"))?;
        }
        Ok(())
    }

    /// Adds a command that must fail with this errno. `what` describes what it would mean if the
    /// command succeeded.
    fn fails(&mut self, order: Order, errno: i32, what: &'static str) {
        let number = self.add(order.may_fail());
        self.failing.push((number, errno, what));
    }

    /// Loads the module with `prefer=1`, sets up and deletes an association, and unloads the
    /// module. This must be the first association of the boot, because the kernel chooses the
    /// driver of its default random number generator at the first association and then keeps it.
    fn associate_first(&mut self) -> Result<(), Error> {
        self.add(Order::module("/kiln.ko", "prefer=1"));
        self.associate("tunnel", "gcm")?;
        self.dissociate()?;
        self.add(Order::remove("kiln"));
        Ok(())
    }

    /// Control for [`Script::associate_first`]: the module does not prepare the default random
    /// number generator, so the generator takes one of the module's drivers, and unloading the
    /// module must fail. This must come after all other commands that load the module.
    fn associate_unprepared(&mut self) -> Result<(), Error> {
        self.add(Order::module("/controls.ko", "prefer=1 unprepared=1"));
        self.associate("tunnel", "gcm")?;
        self.dissociate()?;
        self.fails(
            Order::remove("kiln"),
            EAGAIN,
            "a module was unloaded whose driver the default random number generator should have",
        );
        Ok(())
    }

    /// Loads the module with parameters that differ from those of the phases.
    fn vary_parameters(&mut self) {
        const PROC: &str = "/proc/crypto";
        self.early.broken = self.add(Order::module("/controls.ko", "unprepared=1 live_unsaved=1"));
        self.early.alone = self.add(Order::print(PROC));
        self.early.nested = self.add(Order::print("/sys/module/kiln/parameters/nested"));
        self.add(Order::remove("kiln"));
        self.add(Order::module("/kiln.ko", ""));
        self.early.last = self.add(Order::print(PROC));
        self.add(Order::remove("kiln"));
        self.add(Order::module("/kiln.ko", &format!("only={NAMED}")));
        self.early.named = self.add(Order::print(PROC));
        self.add(Order::remove("kiln"));
        for (parameters, errno, what) in [
            (
                "only=kiln-none",
                ENOENT,
                "only= without a driver of that name",
            ),
            ("tiers=generic", ENOENT, "tiers= without a SIMD driver"),
            ("live=4097", EINVAL, "live= beyond its limit"),
        ] {
            self.fails(Order::module("/kiln.ko", parameters), errno, what);
        }
    }

    /// Creates the encrypted disk. The disk keeps using the drivers that are preferred at this
    /// time.
    fn map_disk(&mut self) -> Result<(), Error> {
        let path = program::path("dmsetup")?;
        let key = "5a3c".repeat(32);
        let table = format!("0 8192 crypt aes-xts-plain64 {key} 0 /dev/ram0 0 1 sector_size:4096");
        self.add(Order::run(
            &path,
            &["create", "--noudevsync", "disk", "--table", &table],
        ));
        Ok(())
    }

    fn unmap_disk(&mut self) -> Result<(), Error> {
        self.run("dmsetup remove --noudevsync disk").map(drop)
    }

    /// Runs the load in all modes and with all ciphers.
    fn phases(&mut self, module: &'static str, seconds: u32) -> Result<(), Error> {
        self.map_disk()?;
        for mode in ["transport", "tunnel"] {
            for cipher in ["gcm", "cbc"] {
                self.phase(module, mode, cipher, &[&seconds.to_string(), DISK])?;
            }
        }
        self.unmap_disk()
    }

    fn phase(
        &mut self,
        module: &'static str,
        mode: &'static str,
        cipher: &'static str,
        arguments: &[&str],
    ) -> Result<(), Error> {
        self.associate(mode, cipher)?;
        let ends = match mode {
            "tunnel" => ["c", "b", "10.2.0.2"],
            _ => ["a", "b", "10.0.0.2"],
        };
        let answers = Answers {
            traffic: self.add(Order::run("/traffic", &[&ends[..], arguments].concat())),
            cryptd: self.add(Order::print(&format!("{TRACING}/kprobe_profile"))),
            saves: None,
        };
        let row = Row {
            module,
            mode,
            cipher,
            ..Row::default()
        };
        self.rows.push((row, answers));
        self.dissociate()
    }

    /// Loads the module `linux/judge/nest.c`, which interrupts sections with a timer until it has
    /// counted `sections` nested sections. Prints the counter of Kiln's module before and after, to
    /// confirm this count.
    fn interrupt(&mut self, module: &'static str, sections: u64) {
        let before = self.add(Order::print(SAVES));
        self.add(Order::module("/nest.ko", &format!("sections={sections}")));
        let answers = Answers {
            saves: Some([before, self.add(Order::print(SAVES))]),
            traffic: self.add(Order::print("/sys/module/nest/parameters/result")),
            cryptd: self.add(Order::print(&format!("{TRACING}/kprobe_profile"))),
        };
        self.add(Order::remove("nest"));
        let row = Row {
            module,
            mode: TIMER,
            cipher: "gcm, chacha",
            ..Row::default()
        };
        self.rows.push((row, answers));
    }
}

/// Returns the arguments for `ip` to add the security association from a to b.
fn state(mode: &str, algorithm: &str, window: u32) -> String {
    format!(
        "xfrm state add src 10.0.0.1 dst 10.0.0.2 proto esp spi 0x100 reqid 1 mode {mode} replay-window {window} \
         {algorithm}"
    )
}

/// Returns the batch file that sets up the association in each cycle. The replay window is off,
/// because the sequence numbers restart in each cycle while packets of the previous cycle are still
/// in flight.
pub(super) fn batch() -> String {
    state("tunnel", GCM, 0) + "\n"
}

/// Writes all commands. `modules` lists the kernel's modules in load order. If `release` is given,
/// the package is installed in the Debian system on the guest's disk, and DKMS builds the module
/// for this release's kernel. Otherwise the module in the initramfs is used.
pub(super) fn write(modules: &[&str], load: &Load, release: Option<&str>) -> Result<Script, Error> {
    let (seconds, cycles, sections) = (load.seconds, load.cycles, load.sections);
    let mut script = Script::default();
    for name in modules {
        let parameters = match *name {
            "brd" => "rd_nr=1 rd_size=4096",
            _ => "",
        };
        // Ignore errors, because a driver refuses to load if the CPU lacks a feature that it needs.
        script.add(Order::module(&format!("/{name}.ko"), parameters).may_fail());
    }
    script.add(Order::write(
        &format!("{TRACING}/kprobe_events"),
        "p:kiln/cryptd cryptd_enqueue_request",
    ));
    script.add(Order::write(
        &format!("{TRACING}/events/kiln/cryptd/enable"),
        "1",
    ));
    if let Some(release) = release {
        script.install(release)?;
    }
    script.connect()?;
    script.associate_first()?;
    script.vary_parameters();
    script.phases("without", seconds)?;
    script.add(Order::module("/planted.ko", ""));
    script.planted = script.add(Order::print("/proc/crypto"));
    script.add(Order::remove("kiln"));
    script.loaded = script.add(Order::module("/kiln.ko", "prefer=1"));
    script.listed = script.add(Order::print("/proc/crypto"));
    script.phases("with", seconds)?;
    if sections > 0 {
        script.interrupt("with", sections);
    }
    script.add(Order::remove("kiln"));
    script.add(Order::module(
        "/controls.ko",
        &format!("prefer=1 nested_unsaved=1 user_unsaved={HOLDER}"),
    ));
    script.map_disk()?;
    // Run this phase for twice as long. Softirqs interrupt the `registers` process much less often
    // than they interrupt the disk's sections.
    let longer = (2 * seconds).to_string();
    script.phase("unsaved", "tunnel", "gcm", &[&longer, DISK])?;
    script.unmap_disk()?;
    if sections > 0 {
        script.interrupt("unsaved", sections.min(CONTROL_SECTIONS));
    }
    script.add(Order::remove("kiln"));
    if cycles > 0 {
        script.map_disk()?;
        let (cycles, only) = (cycles.to_string(), format!("prefer=1 only={PLANTED}"));
        let ip = program::path("ip")?;
        let arguments = ["0", DISK, &cycles, &ip, "/kiln.ko", &only];
        script.phase("cycles", "tunnel", "gcm", &arguments)?;
        script.unmap_disk()?;
    }
    script.purge()?;
    script.associate_unprepared()?;
    for mistake in &MISTAKES {
        let number = script.add(mistake.order());
        script.mistakes.push((number, mistake));
    }
    Ok(script)
}
