//! Defines the rows that `kiln linux virtio` prints, and parses driver states from `/proc/crypto`.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::guest::Guest;
use super::traffic::{Load, Told};

/// One self-test of a Linux guest, or one measurement of the guest's traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(
    rename = "linux-virtio",
    title = "Linux guests on the device",
    extend(
        "x-question" = "Does real Linux accept the device, and how fast is the device there?",
        "x-commands" = ["linux virtio"],
        "x-view" = {"check": {"only": ["selftest"], "fail": ["selftest=failed"], "skip": ["selftest!=passed"]}}
    )
)]
pub struct Row {
    /// Front end that connects to the device: `user-mode` (User-Mode Linux) or `qemu`.
    #[schemars(extend("x-role" = "key"))]
    pub front_end: &'static str,
    /// The guest's kernel release, as `uname -r` prints it.
    #[schemars(extend("x-role" = "key"))]
    pub kernel: String,
    /// What runs the guest: `native`, `kvm`, or `tcg` (software emulation).
    #[schemars(extend("x-role" = "key"))]
    pub accel: &'static str,
    /// Kind of row: `selftest`, `cipher-sessions`, `akcipher-sessions` or `cipher-data`.
    #[schemars(extend("x-role" = "key"))]
    pub kind: &'static str,
    /// Algorithm name in the kernel's crypto API, such as `xts(aes)`.
    #[schemars(extend("x-role" = "key"))]
    pub alg: &'static str,
    /// Name of the Linux driver that implements the algorithm.
    #[schemars(extend("x-role" = "key"))]
    pub driver: &'static str,
    /// Number of guest threads that generate traffic. Null for a self-test.
    #[schemars(extend("x-role" = "key"))]
    pub workers: Option<u32>,
    /// Message size; null unless `kind` is `cipher-data`.
    #[schemars(extend("unit" = "bytes", "x-role" = "key"))]
    pub len: Option<u32>,
    /// Result of the driver's self-test as reported by `/proc/crypto`, such as `passed`, or
    /// `absent` if the driver is not listed there. Null for a measurement.
    #[schemars(extend("x-role" = "main", "x-heading" = "self-test"))]
    pub selftest: Option<String>,
    /// Operations per second (`ops` divided by `seconds`). Null for a self-test.
    #[schemars(extend("unit" = "1/s", "x-role" = "main", "x-heading" = "operations per second"))]
    pub ops_per_s: Option<f64>,
    /// Encryption throughput. Null unless `kind` is `cipher-data`.
    #[schemars(extend("unit" = "10^6 bytes/s", "x-role" = "main", "x-heading" = "MB/s", "x-better" = "more"))]
    pub mb_per_s: Option<f64>,
    /// Duration of the longest call. If `kind` is `cipher-data`, a call encrypts one message;
    /// otherwise it sets a key, which takes two or four session operations. Null for a self-test.
    #[schemars(extend("unit" = "µs", "x-role" = "figure", "x-heading" = "µs max"))]
    pub us_max: Option<f64>,
    /// Number of calls that returned an error. Messages with wrong bytes are counted in `wrong`
    /// instead. Null for a self-test.
    #[schemars(extend("x-role" = "figure"))]
    pub errors: Option<u64>,
    /// Number of messages that were encrypted incorrectly. Null for a self-test.
    #[schemars(extend("x-role" = "figure"))]
    pub wrong: Option<u64>,
    /// Number of messages if `kind` is `cipher-data`, otherwise number of sessions created plus
    /// number of sessions destroyed. Null for a self-test.
    pub ops: Option<u64>,
    /// Duration of the measurement according to the guest's clock. Null for a self-test.
    #[schemars(extend("unit" = "s"))]
    pub seconds: Option<f64>,
}

impl Row {
    pub(super) fn new(guest: &Guest) -> Row {
        Row {
            front_end: guest.front_end(),
            kernel: guest.release(),
            accel: guest.accel(),
            kind: "selftest",
            alg: "",
            driver: "",
            ..Row::default()
        }
    }

    pub(super) fn selftest(&self, alg: &'static str, driver: &'static str, said: &str) -> Row {
        Row {
            alg,
            driver,
            selftest: Some(said.to_owned()),
            ..self.clone()
        }
    }

    pub(super) fn traffic(
        &self,
        alg: &'static str,
        driver: &'static str,
        load: &Load,
        told: &Told,
    ) -> Row {
        let seconds = told.ms as f64 / 1e3;
        let per_s = told.operations as f64 / seconds;
        let len = load.kind.has_len().then_some(load.len);
        Row {
            kind: load.kind.name(),
            alg,
            driver,
            workers: Some(load.workers),
            len,
            ops: Some(told.operations),
            seconds: Some(seconds),
            ops_per_s: Some(per_s),
            mb_per_s: len.map(|len| per_s * f64::from(len) / 1e6),
            us_max: Some(told.max_ns as f64 / 1e3),
            errors: Some(told.errors),
            wrong: Some(told.wrong),
            ..self.clone()
        }
    }
}

/// The self-test status of each driver in `/proc/crypto`. A driver's entry there is a paragraph of
/// lines, each with a name, a colon and a value.
#[derive(Debug, Default)]
pub(super) struct Listing {
    driver: Option<String>,
    selftests: HashMap<String, String>,
}

impl Listing {
    pub(super) fn line(&mut self, line: &str) {
        let Some((name, value)) = line.split_once(':') else {
            self.driver = None;
            return;
        };
        match name.trim() {
            "driver" => self.driver = Some(value.trim().to_owned()),
            "selftest" => {
                if let Some(driver) = self.driver.take() {
                    // Keep only the driver's first entry, which describes the driver itself. A
                    // second entry for its test larval may follow.
                    self.selftests
                        .entry(driver)
                        .or_insert_with(|| value.trim().to_owned());
                }
            }
            _ => {}
        }
    }

    pub(super) fn selftest(&self, driver: &str) -> &str {
        self.selftests.get(driver).map_or("absent", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_are_found_with_their_verdicts() {
        let text =
            "name         : rsa\ndriver       : virtio-crypto-rsa\nselftest     : passed\n\n\
                    driver       : virtio_crypto_aes_cbc\nselftest     : unknown\n\n\
                    selftest     : passed\n";
        let mut listing = Listing::default();
        text.lines().for_each(|line| listing.line(line));
        assert_eq!(listing.selftest("virtio-crypto-rsa"), "passed");
        assert_eq!(listing.selftest("virtio_crypto_aes_cbc"), "unknown");
        assert_eq!(listing.selftest("cbc-aes-aesni"), "absent");
    }
}
