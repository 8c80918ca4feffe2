//! Defines the survey part that runs `kiln ctrlq`, and the arguments with which it runs.

use kiln_question::survey::{args, Contribution, Part, Runs, Slot};

use super::headline::{self, TOPIC};

pub(crate) static SURVEY: &[Contribution] = &[Contribution {
    topic: &TOPIC,
    parts: &[&CTRLQ],
    rows: |answers| {
        let rows = headline::waiting(&Runs::new(answers, &[&CTRLQ]));
        rows.into_iter().flatten().collect()
    },
    failed: |_| false,
}];

/// The survey part that compares methods of waiting for the control queue.
pub(super) static CTRLQ: Part = Part {
    name: "ctrlq",
    what: "the virtio-crypto control queue",
    importance: 4,
    least_s: 2.2,
    share: 0.18,
    args: ctrlq_args,
    ..Part::USUAL
};

/// The minimum number of rounds that gives a 95 % interval.
const ROUNDS: f64 = 6.0;
/// Time that it takes to start the devices, in seconds.
const DEVICES_S: f64 = 0.1;
/// Time that it takes to connect to the device in each round, in seconds.
const CONNECT_S: f64 = 0.01;

/// Returns arguments that select the same kind of session and number of workers as the published
/// measurement, both devices, and enough rounds for an interval. If there is more time, a single
/// worker and `async` are added.
fn ctrlq_args(slot: &Slot) -> Vec<String> {
    let (modes, workers, rows) = match slot.seconds {
        s if s < 9.0 => ("wait,poll", "8", 4.0),
        _ => ("wait,poll,async", "1,8", 10.0),
    };
    // The divisor accounts for the warm-up, which takes a tenth of a round's time. The minimum
    // warm-up of 5 ms is ignored here.
    let row = (((slot.seconds - Part::START_S - DEVICES_S) / rows - ROUNDS * CONNECT_S) / 1.1)
        .clamp(0.1, 10.0);
    let row = format!("{row:.2}");
    let rounds = format!("{ROUNDS}");
    args(&[
        "ctrlq",
        "--mode",
        modes,
        "--workers",
        workers,
        "--session",
        "akcipher",
        "--rounds",
        &rounds,
        "--seconds",
        &row,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::slot_seconds;

    #[test]
    fn what_is_measured_fits_its_time() {
        for seconds in [2.5, 5.0, 12.0, 60.0] {
            let (args, row) = slot_seconds(&CTRLQ, seconds);
            let rows = match args.contains(&"1,8".to_string()) {
                true => 10.0,
                false => 4.0,
            };
            assert!(row * rows * 1.1 < seconds, "{args:?}");
        }
    }
}
