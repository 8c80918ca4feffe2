//! Judges the module of the package kiln-crypto-dkms on a stock kernel: IPsec between network namespaces while dm-crypt
//! writes on the same CPU, without the module and with it.

mod judge;
mod script;

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::fidelity::asker::{Plan, Wanted};
use crate::init::{initramfs, static_program, Order};
use crate::modinfo::Modules;
use crate::module::{known_answer, Module};
use crate::program;
use crate::qemu::{choose, Qemu};
use crate::Error;

/// The program that makes the load.
const TRAFFIC: &[(&str, &str)] = &[(
    "traffic.c",
    include_str!("../../../../linux/judge/traffic.c"),
)];

/// Modules of the kernel: what IPsec and dm-crypt need here, Linux's fastest drivers, and the random numbers of IVs.
const NEEDED: [&str; 24] = [
    "sha512_generic",
    "sha256_generic",
    "hmac",
    "cryptd",
    "aesni_intel",
    "ghash_clmulni_intel",
    "sha256_ssse3",
    "sha512_ssse3",
    "xts",
    "cbc",
    "ctr",
    "gcm",
    // Its self-tests need the modes and hashes above.
    "drbg",
    "seqiv",
    "echainiv",
    "authenc",
    "esp4",
    "xfrm_user",
    "veth",
    "sch_netem",
    "brd",
    "dm_mod",
    "dm_crypt",
    "chacha20poly1305",
];

/// Programs of this machine that set the guest up.
const PROGRAMS: [&str; 3] = ["ip", "tc", "dmsetup"];

/// MiB.
const MEMORY: &str = "1024";

/// The algorithm of the planted wrong answer.
const PLANTED: &str = "rfc4106(gcm(aes))";

/// IPsec packets between two network namespaces of a stock kernel while dm-crypt writes on the same CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(
    rename = "linux-dkms",
    title = "The installable module",
    extend(
        "x-question" = "Does the module of kiln-crypto-dkms keep IPsec out of cryptd, with every byte right?",
        "x-commands" = ["linux dkms"]
    )
)]
pub struct Row {
    /// Kernel release, as `uname -r` prints it.
    #[schemars(extend("x-role" = "key"))]
    pub kernel: String,
    /// What runs the guest: `kvm`, or `tcg` (software emulation).
    #[schemars(extend("x-role" = "key"))]
    pub accel: String,
    /// `without`: Linux's own drivers; `with`: Kiln's module with `prefer=1`; `unsaved`: the control, a module that
    /// does not save the registers of interrupted sections; `cycles`: the module is loaded, carries packets, and is
    /// unloaded, again and again.
    #[schemars(extend("x-role" = "key"))]
    pub module: &'static str,
    /// `transport`: a process encrypts, a softirq decrypts; `tunnel`: softirqs do both.
    #[schemars(extend("x-role" = "key"))]
    pub mode: &'static str,
    /// `gcm`: AES-GCM; `cbc`: AES-CBC with HMAC-SHA-256.
    #[schemars(extend("x-role" = "key"))]
    pub cipher: &'static str,
    /// Packets that the sender handed to the kernel.
    #[schemars(extend("x-role" = "main"))]
    pub sent: u64,
    /// Packets sent and not received.
    #[schemars(extend("x-role" = "main"))]
    pub lost: u64,
    /// Packets received after one that was sent later.
    #[schemars(extend("x-role" = "figure"))]
    pub reordered: u64,
    /// Packets received with wrong bytes.
    #[schemars(extend("x-role" = "main"))]
    pub wrong: u64,
    /// Requests that were deferred to cryptd.
    #[schemars(extend("x-role" = "main"))]
    pub cryptd: u64,
    /// Sections of Kiln's drivers that a softirq opened over an FPU section that it had interrupted.
    #[schemars(extend("x-role" = "figure", "x-heading" = "nested saves"))]
    pub nested_saves: u64,
    /// Pieces of 64 KiB read back from the encrypted disk and compared.
    #[schemars(extend("x-role" = "figure"))]
    pub disk: u64,
    /// Pieces that differed from what had been written.
    #[schemars(extend("x-role" = "figure", "x-heading" = "disk wrong"))]
    pub disk_wrong: u64,
    /// Times that a program compared the vector registers that it had left alone for a while.
    #[schemars(extend("x-role" = "figure"))]
    pub registers: u64,
    /// Comparisons that found changed registers.
    #[schemars(extend("x-role" = "figure", "x-heading" = "registers wrong"))]
    pub registers_wrong: u64,
    /// Drivers of Kiln's that were registered and had passed every self-test.
    #[schemars(extend("x-role" = "figure"))]
    pub drivers: u64,
    /// Times that the module was loaded, used and unloaded.
    #[schemars(extend("x-role" = "figure"))]
    pub cycles: u64,
}

#[derive(Debug)]
pub struct Outcome {
    pub rows: Vec<Row>,
    /// Descriptions of what does not hold.
    pub findings: Vec<String>,
    /// Controls, and remarks that a reader of the rows needs.
    pub notes: Vec<String>,
}

/// Kiln's module, as the package builds it and with the parameters of tests.
pub struct Built<'a> {
    pub package: &'a Module,
    pub controls: &'a Module,
}

/// Boots once: the load without the module, a module with a planted wrong answer, the load with the module, the load with
/// a module that does not save registers, and the load while the module is loaded and unloaded `cycles` times.
/// `seconds` is the time for each mode and cipher.
///
/// # Errors
/// The kernel cannot be booted, lacks a module or cannot be set up.
pub fn run(plan: &Plan, built: &Built, seconds: u32, cycles: u32) -> Result<Outcome, Error> {
    let content = read(&built.package.path)?;
    let modules = Modules::find(&plan.kernel.modules)?;
    let mut load = modules.with_needed(&NEEDED)?;
    for (name, needed) in modules.needed(&content)? {
        if !load.iter().any(|(n, _)| *n == name) {
            load.push((name, needed));
        }
    }
    let names: Vec<&str> = load.iter().map(|(name, _)| name.as_str()).collect();
    let script = script::write(&names, seconds, cycles)?;
    let files = [
        (
            "traffic",
            static_program(plan.compiler, "traffic", TRAFFIC)?,
        ),
        ("planted.ko", plant(&content)?),
        ("kiln.ko", content),
        ("controls.ko", read(&built.controls.path)?),
        ("sa.a", script::batch().into_bytes()),
        ("sa.b", script::batch().into_bytes()),
        // ip-netns(8) makes its directory, but not the one above.
        ("run/kiln", Vec::new()),
        ("var/run/kiln", Vec::new()),
    ];
    let archive = |orders: &[Order]| -> Result<Vec<u8>, Error> {
        let mut archive = initramfs(plan.compiler, orders)?;
        for (name, content) in &load {
            archive.file(&format!("{name}.ko"), content);
        }
        for name in PROGRAMS {
            program::add(&mut archive, name)?;
        }
        for (name, content) in &files {
            archive.file(name, content);
        }
        Ok(archive.finish())
    };
    (plan.progress)(0.3, "trying hardware virtualisation");
    let (accel, why) = match plan.accel {
        Wanted::Only(accel) => (accel, String::new()),
        Wanted::Auto => choose(&plan.kernel.image, &archive(&[])?, plan.stop)?,
    };
    let mut heard = judge::Heard::default();
    let last = script.orders.len() as f64;
    let ended = Qemu {
        image: &plan.kernel.image,
        initramfs: &archive(&script.orders)?,
        accel,
        arguments: &["-m".into(), MEMORY.into()],
        limit: plan.limit,
        stop: plan.stop,
    }
    .run(&mut |line| {
        heard.line(line);
        let what = format!("Linux {} under {}", plan.kernel.release, accel.name());
        (plan.progress)(0.4 + 0.6 * f64::from(heard.order) / last, &what);
    })?;
    if ended.exit != Some(0) {
        return Err(Error::Console {
            what: format!("the load on Linux {} failed", plan.kernel.release),
            tail: ended.tail,
        });
    }
    let mut outcome = judge::judge(&script, &heard, cycles)?;
    for row in &mut outcome.rows {
        row.kernel = plan.kernel.release.clone();
        row.accel = accel.name().into();
    }
    if !why.is_empty() {
        outcome.notes.push(format!("by software emulation: {why}"));
    }
    Ok(outcome)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|e| Error::cache(path, e))
}

/// The module with one bit flipped in the ciphertext of a known answer.
fn plant(module: &[u8]) -> Result<Vec<u8>, Error> {
    let answer = known_answer(PLANTED);
    let at = module
        .windows(answer.len())
        .position(|window| window == answer)
        .ok_or_else(|| Error::Answer(format!("the module has no known answer of {PLANTED}")))?;
    let mut planted = module.to_vec();
    planted[at + answer.len() - 1] ^= 1;
    Ok(planted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_of_the_answer_is_flipped() {
        let answer = known_answer(PLANTED);
        assert_eq!(answer.len(), 64);
        let module = [b"before", &answer[..], b"after"].concat();
        let planted = plant(&module).unwrap();
        let changed = module.iter().zip(&planted).filter(|(a, b)| a != b);
        assert_eq!(changed.count(), 1);
        assert!(plant(b"not a module").is_err());
    }
}
