//! Rows, and what `/proc/crypto` says of drivers.

use std::collections::HashMap;

use serde::Serialize;

use super::guest::Guest;
use super::traffic::{Load, Told};

/// A self-test, or a measurement of traffic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What connects to the device: `user-mode` or `qemu`.
    pub front_end: &'static str,
    /// The guest's, as `uname -r` has it.
    pub kernel: String,
    /// What runs the guest: `native`, `kvm` or `tcg`.
    pub accel: &'static str,
    /// `selftest`, `cipher-sessions`, `akcipher-sessions` or `cipher-data`.
    pub kind: &'static str,
    /// The algorithm.
    pub alg: &'static str,
    /// Linux's driver of it.
    pub driver: &'static str,
    /// `passed`, `absent`, or what `/proc/crypto` says.
    pub selftest: Option<String>,
    /// Threads of the guest.
    pub workers: Option<u32>,
    /// Bytes of a message.
    pub len: Option<u32>,
    /// Sessions created and destroyed, each counted; or messages.
    pub ops: Option<u64>,
    /// In so long, by the guest's clock.
    pub seconds: Option<f64>,
    /// `ops` a second.
    pub ops_per_s: Option<f64>,
    /// 10^6 bytes a second.
    pub mb_per_s: Option<f64>,
    /// The longest call: a key set, which is four or two session operations, or a message.
    pub us_max: Option<f64>,
    /// Calls that were refused.
    pub errors: Option<u64>,
    /// Messages with wrong bytes.
    pub wrong: Option<u64>,
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
            selftest: None,
            workers: None,
            len: None,
            ops: None,
            seconds: None,
            ops_per_s: None,
            mb_per_s: None,
            us_max: None,
            errors: None,
            wrong: None,
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

/// `/proc/crypto`: paragraphs of lines `name : value`.
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
                    // The first is the driver itself; behind it may be a larval of its test.
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
