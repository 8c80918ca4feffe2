//! Tests the module of the package kiln-crypto-dkms in a stock kernel. IPsec packets pass between
//! network namespaces while dm-crypt writes on the same CPU, first without the module and then with
//! it.

mod judge;
mod row;
mod script;

use std::path::Path;

use crate::fidelity::asker::{Plan, Wanted};
use crate::init::{initramfs, static_program, Order};
use crate::modinfo::Modules;
use crate::module::{known_answer, Module};
use crate::program;
use crate::qemu::{choose, Qemu};
use crate::Error;

use row::PLANTED;
pub use row::{Outcome, Row};

/// Source of the program that generates the load.
const TRAFFIC: &[(&str, &str)] = &[(
    "traffic.c",
    include_str!("../../../../linux/judge/traffic.c"),
)];

/// Modules of the kernel that the test needs: for IPsec and dm-crypt, Linux's fastest drivers, and
/// the random number generator for IVs.
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
    // The self-tests of drbg need the modes and hashes above.
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

/// Programs that are copied from this machine into the guest to set it up.
const PROGRAMS: [&str; 3] = ["ip", "tc", "dmsetup"];

/// Memory size of the guest in MiB.
const MEMORY: &str = "1024";

/// Kiln's module in two versions: as the package builds it, and with the parameters for tests.
pub struct Built<'a> {
    pub package: &'a Module,
    pub controls: &'a Module,
}

/// Boots once and runs the load in four phases: without the module, with the module, with a module
/// that does not save registers, and while the module is loaded and unloaded `cycles` times. As a
/// control, a module with a planted wrong answer is loaded after the first phase. `seconds` is the
/// duration of each combination of mode and cipher.
///
/// # Errors
/// Fails if the kernel cannot be booted, lacks a module or cannot be set up.
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
        // ip-netns(8) creates its directory, but not the parent directory.
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

/// Flips one bit in a known answer's ciphertext, and returns the changed module.
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
