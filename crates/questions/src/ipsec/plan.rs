//! Defines and checks the settings that `kiln ipsec` has in addition to the plan of `kiln fpu`,
//! such as packet loads and their rates.

use kiln_kernel::esp;
use kiln_question::Error;

use super::traffic::{EspLoad, Source};
use crate::fpu::plan::Plan;

/// Default number of interrupts per second.
pub(super) const IRQ_RATE: f64 = 4000.0;

/// The highest rate in the search, in packets per second. It is a constant: a limit derived from
/// the measured time per packet could end the search below the knee if the host was busy during
/// that measurement.
pub(super) const HIGHEST_PPS: f64 = 20e6;

/// Settings for the packets and the receivers.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub loads: Vec<EspLoad>,
    /// Packets per second. If the list is empty, the command searches for the knee. A single value
    /// is a constant rate; two values are the low and the high rate of a load with phases.
    pub rates: Vec<f64>,
    /// Nanoseconds added to each packet for the rest of the network stack.
    pub stack_ns: u64,
    /// Number of sectors after which the task itself sends a packet. 0 means never, and `None`
    /// means the default.
    pub own_every: Option<u32>,
    /// Size of the anti-replay windows, in packets.
    pub window: u32,
}

impl Settings {
    /// Checks that the settings are valid and compatible with the plan.
    ///
    /// # Errors
    /// Fails if a rate, the time per packet or the anti-replay window is out of range, if two rates
    /// are not in ascending order, or if a rate is given for a capture, whose packets have their
    /// own times.
    pub(super) fn checked(self, plan: &Plan) -> Result<Settings, Error> {
        let valid = self.rates.iter().all(|r| (1.0..=HIGHEST_PPS).contains(r));
        if !valid || self.rates.len() > 2 || !self.rates.is_sorted() {
            let rates: Vec<String> = self.rates.iter().map(f64::to_string).collect();
            return Err(Error::input(format!(
                "--packet-rate {}: one rate, or two with the low one first, from 1 to {HIGHEST_PPS} packets per second",
                rates.join(",")
            )));
        }
        if self.stack_ns > 100_000 {
            return Err(Error::input(format!(
                "--stack-ns {}: 0 to 100000 ns per packet",
                self.stack_ns
            )));
        }
        let capture = |l: &&EspLoad| matches!(l.source, Source::Capture(_));
        if let (false, Some(load)) = (self.rates.is_empty(), self.loads.iter().find(capture)) {
            return Err(Error::input(format!(
                "--packet-rate with --load {}: a capture has its own times: leave --packet-rate out",
                load.name
            )));
        }
        if !(1..=esp::replay::MAX).contains(&self.window) {
            return Err(Error::input(format!(
                "--replay-window {}: must be 1 to {} sequence numbers",
                self.window,
                esp::replay::MAX
            )));
        }
        if plan.irq_rate < 500.0 {
            return Err(Error::input(format!(
                "--irq-rate {}: packets arrive with interrupts: use at least 500 per second",
                plan.irq_rate
            )));
        }
        Ok(self)
    }
}
