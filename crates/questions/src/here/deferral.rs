//! Answers questions 1 and 2: are requests from softirqs deferred, and how does this affect IPsec?

use super::answer::Answer;
use super::crypto::{find_served, Driver, Path};
use super::files::{Missing, CRYPTO, MODULES, RELEASE, SYMBOLS, THREADS};
use super::machine::Machine;
use super::row::Basis;

/// The first mainline version in which FPU sections disable softirqs.
const SECTIONS_KEEP_SOFTIRQS_OUT: (u32, u32) = (6, 15);

/// Algorithms whose drivers show the answer to question 1, in decreasing order of significance.
const ANY: &[&str] = &[
    "xts(aes)",
    "gcm(aes)",
    "cbc(aes)",
    "ctr(aes)",
    "rfc4106(gcm(aes))",
];
/// Algorithms whose drivers show the answer to question 2. ESP uses AES-GCM, or a cipher that
/// authenc() combines with a hash.
const IPSEC: &[&str] = &["rfc4106(gcm(aes))", "gcm(aes)", "cbc(aes)", "ctr(aes)"];

/// How requests for a question's algorithms reach SIMD code. `Helper` and `Direct` contain the
/// driver that serves as evidence.
enum Found<'a> {
    Helper(&'a Driver),
    Direct(&'a Driver),
    /// No SIMD driver for AES is registered.
    None,
    Unread(&'a Missing),
}

fn find<'a>(machine: &'a Machine, names: &[&str]) -> Found<'a> {
    let drivers = match &machine.drivers {
        Ok(drivers) => drivers,
        Err(why) => return Found::Unread(why),
    };
    let served = || names.iter().filter_map(|name| find_served(drivers, name));
    let by = |path| served().find(|d| d.path(drivers) == Some(path));
    // The machine has the problem even if only one of the drivers is wrapped by the helper.
    match (by(Path::Helper), by(Path::Direct)) {
        (Some(driver), _) => Found::Helper(driver),
        (None, Some(driver)) => Found::Direct(driver),
        (None, None) => Found::None,
    }
}

/// The algorithms that one question is about, and the wording of its answers.
struct Words {
    /// Algorithms whose drivers show the answer, in decreasing order of significance.
    names: &'static [&'static str],
    deferred: fn(&Driver) -> String,
    direct: fn(&Driver) -> String,
    /// The advice if requests are deferred.
    advice: &'static str,
}

const SOFTIRQS: Words = Words {
    names: ANY,
    deferred: |driver| {
        format!(
            "{} is served by {} through cryptd; softirqs that interrupt an FPU section are deferred to a kworker; \
             kernels from 6.15 do not do this",
            driver.name, driver.driver
        )
    },
    direct: |driver| {
        format!(
            "{} is served by {} directly: its requests are not deferred to cryptd, whatever the context",
            driver.name, driver.driver
        )
    },
    advice: "run a kernel from 6.15 on; until then keep tasks that encrypt much off the CPUs whose softirqs encrypt, or try \
             the module kiln-crypto-dkms for 6.1 to 6.14 (docs/MODULE.md; tried in guests of 6.1 and 6.12), whose drivers defer nothing. \
             'kiln fpu prove breakpoint --policy tree:DIR' counts the deferred requests of your tree",
};

const ESP: Words = Words {
    names: IPSEC,
    deferred: |driver| {
        format!(
            "IPsec's {} is served by {} through cryptd; a softirq cannot nest a section in the one that it interrupts, \
             so its packet and those behind it are deferred to a kworker; kernels from 6.15 do not do this",
            driver.name, driver.driver
        )
    },
    direct: |driver| {
        format!(
            "IPsec's {} is served by {} directly: packets do not wait for a kworker",
            driver.name, driver.driver
        )
    },
    advice: "run a kernel from 6.15 on; until then spread packets over several CPUs (docs/tutorials/network.md), since in Kiln's \
             emulation throughput falls on a core that is nearly full ('kiln ipsec --policy legacy,bh-off'), or try the module \
             kiln-crypto-dkms for 6.1 to 6.14 (docs/MODULE.md; tried in guests of 6.1 and 6.12), whose drivers defer nothing",
};

/// Answers question 1: whether requests from softirqs are deferred.
pub(super) fn judge_softirqs(machine: &Machine) -> Answer {
    judge(machine, &SOFTIRQS).evidence(told_by_threads(machine))
}

/// Answers question 2: whether IPsec packets are deferred.
pub(super) fn judge_ipsec(machine: &Machine) -> Answer {
    let mut answer = judge(machine, &ESP);
    if machine.modules.is_ok() {
        let esp = ["esp4", "esp6"]
            .into_iter()
            .filter(|m| machine.has_module(m));
        let said = match esp.collect::<Vec<_>>().as_slice() {
            [] => "no ESP module is loaded".to_owned(),
            esp => format!("{} loaded", esp.join(" and ")),
        };
        answer = answer.evidence([format!("{}: {said}", MODULES.pattern)]);
    }
    let state = "whether nested use loses register state is in no file: Kiln's runs with Debian's 6.1, 6.12 and 7.3 lost \
                 none (docs/FINDINGS.md)";
    let caveat = match &answer.caveat {
        Some(caveat) => format!("{caveat}; {state}"),
        None => state.to_owned(),
    };
    answer.caveat(caveat)
}

fn judge(machine: &Machine, words: &Words) -> Answer {
    match find(machine, words.names) {
        Found::Helper(driver) => wrapped(machine, driver, words),
        Found::Direct(driver) => {
            let read = format!(
                "{}: {} is synchronous and has no internal twin __{}",
                CRYPTO.pattern, driver.driver, driver.driver
            );
            Answer::has_not(Basis::Files, (words.direct)(driver)).evidence([read])
        }
        Found::None => {
            let read = format!(
                "{}: none of {} is served by a SIMD driver for AES",
                CRYPTO.pattern,
                words.names.join(", ")
            );
            by_configuration(machine).evidence([read])
        }
        Found::Unread(why) => {
            by_configuration(machine).evidence([format!("{} {}", CRYPTO.pattern, why.words())])
        }
    }
}

/// Returns the answer for a machine on which the helper wraps drivers. The helper defers requests
/// only if softirqs can run during FPU sections.
fn wrapped(machine: &Machine, driver: &Driver, words: &Words) -> Answer {
    let instance = format!("cryptd(__{})", driver.driver);
    let drivers = machine.drivers.as_deref().unwrap_or_default();
    let read = format!(
        "{}: {} is asynchronous and has the internal twin __{}; {instance} is {}",
        CRYPTO.pattern,
        driver.driver,
        driver.driver,
        match drivers.iter().any(|d| d.driver == instance) {
            true => "there",
            // The kernel creates this instance of cryptd when the driver is first used.
            false => "not there yet",
        }
    );
    let number = version_evidence(machine);
    let wrapped = format!(
        "{} is served by {} through the simd helper",
        driver.name, driver.driver
    );
    let later = machine.has_symbol("kernel_fpu_allowed") == Some(true);
    match machine.version {
        _ if later => Answer::has_not(
            Basis::FilesAndVersion,
            format!("{wrapped}, but softirqs cannot interrupt an FPU section, so that the helper never has to defer"),
        )
        .evidence([read, format!("{}: kernel_fpu_allowed", SYMBOLS.pattern)])
        .caveat(
            "the symbol came to mainline after sections began to keep softirqs out: that this kernel has both is \
             concluded from one",
        ),
        Some(version) if version < SECTIONS_KEEP_SOFTIRQS_OUT => {
            Answer::has(Basis::FilesAndVersion, (words.deferred)(driver))
                .evidence([read, number])
                .advice(words.advice)
                .caveat(
                    "that the helper wraps drivers was read. That softirqs can interrupt a section follows from the \
                     version number: a distribution that backported only the sections of 6.15 looks the same",
                )
                .would_tell(LIVE)
        }
        _ => Answer::unknown(format!(
            "{wrapped}, which defers requests only if softirqs can interrupt an FPU section; no file shows that. By the \
             version number alone mainline's sections keep softirqs out from 6.15 on"
        ))
        .evidence([read, number])
        .would_tell(LIVE),
    }
}

const LIVE: &str = "root and bpftrace: 'kiln here --live 10' counts this kernel's FPU sections that softirqs interrupt";

/// Returns the answer for a machine on which no SIMD driver for AES is registered or `/proc/crypto`
/// cannot be read.
fn by_configuration(machine: &Machine) -> Answer {
    let load = "load what this machine encrypts with, such as 'modprobe aesni_intel', and run 'kiln here' again";
    let config = match &machine.config {
        Ok(config) => config,
        Err(why) => {
            let line = format!("the kernel's configuration {}", why.words());
            return Answer::unknown(format!(
                "neither the list of drivers nor the configuration shows how SIMD code is reached; by the version number \
                 alone, mainline defers requests of softirqs before 6.15, and this is {}",
                machine.kernel()
            ))
            .evidence([line])
            .would_tell(load);
        }
    };
    let read = |option| format!("{}: {}", config.path, config.words(option));
    let options = || ["CRYPTO_SIMD", "CRYPTO_AES_NI_INTEL"].map(read);
    if config.is_set("CRYPTO_SIMD") {
        return Answer::unknown(
            "some driver of this kernel is wrapped by the simd helper, which can defer requests to cryptd; which one \
             cannot be told, since no SIMD driver for AES is loaded",
        )
        .evidence(options())
        .would_tell(load);
    }
    match machine.version {
        Some(version) if version >= SECTIONS_KEEP_SOFTIRQS_OUT => Answer::has_not(
            Basis::FilesAndVersion,
            "the simd helper, which defers requests to cryptd, is not built",
        )
        .evidence(options())
        .evidence([version_evidence(machine)])
        .caveat(
            "that softirqs do not fall back to scalar code either follows from the version number: mainline's sections \
             keep softirqs out from 6.15 on",
        ),
        _ => Answer::unknown(format!(
            "the simd helper is not built, so nothing is deferred to cryptd; whether softirqs fall back to scalar code \
             cannot be told. By the version number alone mainline's do before 6.15, and this is {}",
            machine.kernel()
        ))
        .evidence(options())
        .would_tell(LIVE),
    }
}

fn version_evidence(machine: &Machine) -> String {
    let release = machine.release.as_deref().unwrap_or("unknown");
    format!("{}: {release}", RELEASE.pattern)
}

/// Returns a line of evidence that states the CPU time of the threads that run deferred softirqs
/// and requests.
fn told_by_threads(machine: &Machine) -> Option<String> {
    machine.threads.map(|t| {
        format!(
            "{}: CPU time since boot: ksoftirqd {:.2} s, kworkers {:.2} s, of which {:.2} s in those that did cryptd's \
             work last",
            THREADS.pattern, t.ksoftirqd, t.kworkers, t.cryptd
        )
    })
}
