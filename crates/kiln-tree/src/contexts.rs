//! Runs drivers in every context from which they may be called, and compares their results with
//! those of the generic driver (`tree/contexts.c`).

use std::ffi::{CString, OsString};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::irq::{Arrivals, Timer};

pub use crate::child::Driver;
use crate::child::{self, Order, Watch};
use crate::event::{Contexts, Event};
use crate::host::Host;
use crate::{raw, Error, Row};

/// Names of the contexts, in the same order as the results.
pub const NAMES: [&str; 3] = ["task", "task, BH off", "softirq"];

/// Minimum number of messages to process in each of the first two contexts. The run continues until
/// softirqs have also processed `SOFTIRQS` messages, but for at most 100 times as many rounds.
const ROUNDS: u32 = 300;
const SOFTIRQS: u64 = 30;

/// Average number of interrupts per second. They arrive at random times, and each of them raises a
/// softirq that calls the driver.
const RATE: f64 = 10_000.0;

/// Selects the drivers to run: public ciphers, AEADs and hashes that passed their own self-test.
pub fn drivers(rows: &[Row]) -> Vec<Driver> {
    rows.iter()
        .filter(|r| r.status == "tested" && r.internal == Some(false))
        .filter_map(|r| {
            let kind = match r.alg_type.as_deref()? {
                "skcipher" | "lskcipher" => 0,
                "aead" => 1,
                "shash" | "ahash" => 2,
                _ => return None,
            };
            Some(Driver {
                name: r.name.clone(),
                alg: r.alg.clone()?,
                kind,
            })
        })
        .collect()
}

/// Returns the name by which testmgr requests an algorithm's generic driver.
fn generic(alg: &str) -> String {
    let inner = |template: &str| {
        let rest = alg.strip_prefix(template)?.strip_prefix('(')?;
        rest.strip_suffix(')').map(String::from)
    };
    if let Some(cipher) = inner("xts") {
        return format!("xts(ecb({cipher}-generic))");
    }
    if let Some(cipher) = inner("lrw") {
        return format!("lrw(ecb({cipher}-generic))");
    }
    if let Some(cipher) = inner("gcm") {
        return format!("gcm_base(ctr({cipher}-generic),ghash-generic)");
    }
    if let Some(cipher) = inner("ccm") {
        return format!("ccm_base(ctr({cipher}-generic),cbcmac({cipher}-generic))");
    }
    for outer in ["rfc4106", "rfc4543", "rfc4309"] {
        if let Some(mode) = inner(outer) {
            return format!("{outer}({})", generic(&mode));
        }
    }
    if let Some(cipher) = inner("hctr2") {
        return format!("hctr2_base(xctr({cipher}-generic),polyval-generic)");
    }
    if let Some(ciphers) = inner("adiantum") {
        let ciphers = suffixed(&ciphers);
        return format!("adiantum({ciphers},nhpoly1305-generic)");
    }
    suffixed(alg)
}

/// Appends `-generic` to algorithm names, but not to template names.
fn suffixed(alg: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in alg.chars().chain(['\0']) {
        if c.is_ascii_alphanumeric() || "_-.".contains(c) {
            word.push(c);
            continue;
        }
        out.push_str(&word);
        if !word.is_empty() && c != '(' {
            out.push_str("-generic");
        }
        word.clear();
        if c != '\0' {
            out.push(c);
        }
    }
    out
}

/// Runs the drivers and sends the results to the parent. This is the child's part of [`run`].
///
/// # Errors
/// Fails if the image cannot be loaded, or the host provides no timer.
pub fn measure(order: &Order) -> Result<(), Error> {
    measure_with(order, |_| Ok(()))
}

/// Like [`measure`], but calls `register` first, for drivers that the tree does not register
/// itself.
///
/// # Errors
/// The same errors as [`measure`], and those that `register` returns.
pub fn measure_with(
    order: &Order,
    register: impl FnOnce(&mut Host) -> Result<(), Error>,
) -> Result<(), Error> {
    let loaded = Host::load(order)?;
    let cpu = Cpu::boot(&Config::default()).map_err(Error::Cpu)?;
    let mut host = loaded.start(cpu);
    register(&mut host)?;
    // SAFETY: the function is in `oracles/context.c` and ignores its argument.
    unsafe { host.call("kiln_glue_note_requests", ptr::null_mut())? };
    let interrupts = Timer::start(&mut host.cpu, Arrivals::Poisson(RATE, order.seed))
        .map_err(|e| Error::host("a timer for interrupts", e))?;
    for driver in &order.drivers {
        let reference = generic(&driver.alg);
        let mut seen = compare(&mut host, driver, &reference, order.seed)?;
        if seen.generic_error != 0 {
            // Since Linux 7.0, the generic code is in the library, and the name of the generic
            // driver ends in `-lib`.
            let library = reference.replace("-generic", "-lib");
            let again = compare(&mut host, driver, &library, order.seed)?;
            if again.generic_error == 0 {
                seen = again;
            }
        }
        let mut line = serde_json::to_value(&seen).expect("plain values");
        line["event"] = "contexts".into();
        host.tell(&format!("{line}\n"))?;
    }
    drop(interrupts);
    let done = format!("{{\"event\":\"done\",\"initcalls\":{}}}\n", host.initcalls);
    host.tell(&done)
}

/// Runs a driver in every context, and compares its results with those of the generic driver.
fn compare(host: &mut Host, driver: &Driver, generic: &str, seed: u64) -> Result<Contexts, Error> {
    let (name, reference) = (CString::new(driver.name.as_str())?, CString::new(generic)?);
    let mut raw = raw::Contexts {
        driver: name.as_ptr(),
        generic: reference.as_ptr(),
        type_: driver.kind,
        rounds: ROUNDS,
        softirqs: SOFTIRQS,
        seed,
        error: 0,
        generic_error: 0,
        cases: [0; 3],
        wrong: [0; 3],
        refused: 0,
    };
    // SAFETY: the argument points to the structure that `kiln_glue_contexts` takes, and its strings
    // outlive the call.
    unsafe { host.call("kiln_glue_contexts", (&raw mut raw).cast())? };
    Ok(Contexts {
        driver: driver.name.clone(),
        generic: generic.to_string(),
        error: raw.error,
        generic_error: raw.generic_error,
        cases: raw.cases,
        wrong: raw.wrong,
        refused: raw.refused,
    })
}

/// A driver, with either its results in all contexts or a description of its crash.
pub type Tried = (Driver, Result<Contexts, String>);

/// Starts children that call [`measure`]; `args` are their arguments. If a driver crashes, the
/// crash is reported, and the other drivers still run.
///
/// # Errors
/// Fails if a child cannot be started, or if Ctrl-C is pressed.
pub fn run(
    image: &Path,
    seed: u64,
    args: &[OsString],
    mut drivers: Vec<Driver>,
    stop: &AtomicBool,
    progress: &dyn Fn(f64, &str),
) -> Result<Vec<Tried>, Error> {
    let all = drivers.len().max(1) as f64;
    let mut tried: Vec<Tried> = Vec::new();
    while !drivers.is_empty() {
        let before = tried.len();
        let mut seen = Vec::new();
        let mut watch = Watch {
            stop,
            silence: Some(Duration::from_secs(120)),
            event: &mut |event| {
                if let Event::Contexts(contexts) = event {
                    seen.push(contexts.clone());
                    progress((before + seen.len()) as f64 / all, &contexts.driver);
                }
            },
        };
        let mut order = Order::new(image, seed);
        order.drivers.clone_from(&drivers);
        let ended = child::run(&order, args, &mut watch)?;
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let mut left = drivers.into_iter();
        for contexts in seen {
            tried.extend(left.next().map(|driver| (driver, Ok(contexts))));
        }
        if let Some(driver) = left.next() {
            let why = match &ended.fault {
                Some(fault) if fault.case.is_empty() => fault.line(image),
                Some(fault) => format!("{}; {}", fault.line(image), fault.case),
                None => format!("the tree's process ended early: {}", ended.status),
            };
            tried.push((driver, Err(why)));
        }
        drivers = left.collect();
    }
    Ok(tried)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_drivers_have_the_names_of_testmgr() {
        for (alg, wanted) in [
            ("sha256", "sha256-generic"),
            ("cbc(aes)", "cbc(aes-generic)"),
            ("xts(aes)", "xts(ecb(aes-generic))"),
            (
                "rfc4106(gcm(aes))",
                "rfc4106(gcm_base(ctr(aes-generic),ghash-generic))",
            ),
            (
                "rfc7539(chacha20,poly1305)",
                "rfc7539(chacha20-generic,poly1305-generic)",
            ),
            ("hmac(sha1)", "hmac(sha1-generic)"),
            (
                "adiantum(xchacha12,aes)",
                "adiantum(xchacha12-generic,aes-generic,nhpoly1305-generic)",
            ),
        ] {
            assert_eq!(generic(alg), wanted);
        }
    }
}
