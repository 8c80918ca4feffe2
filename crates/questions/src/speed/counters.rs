//! Notes about the CPU's counters: why they are not available, or whether the estimated clock
//! agrees with them.

use kiln_measure::{Counters, Hardware};

use super::row::Row;

/// Largest relative difference between estimated and counted cycles that counts as agreement.
const AGREE: f64 = 0.02;

/// Returns a note that states whether the rows' estimated cycles agree with the CPU's cycle
/// counter, or why the CPU's counters are not available.
pub(super) fn note(rows: &[Row]) -> Option<String> {
    let counters = Counters::open();
    note_of(rows, counters.hardware(), counters.refusal())
}

fn note_of(rows: &[Row], here: Option<Hardware>, refusal: Option<&str>) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let counted = rows.iter().filter_map(|row| row.counted);
    let mut ratios: Vec<f64> = counted.filter_map(|c| c.estimate_to_counted).collect();
    ratios.sort_by(f64::total_cmp);
    if let Some(ratio) = kiln_measure::median(&ratios) {
        let off = 100.0 * (ratio - 1.0);
        let verdict = match (ratio - 1.0).abs() <= AGREE {
            true => "agrees with the cycle counter",
            false => {
                "CONTRADICTS the cycle counter: do not trust cycles on this machine, only times"
            }
        };
        return Some(format!(
            "the estimate of the clock by multiplication chains {verdict}: off by {off:+.2} %, the median of {} rows",
            ratios.len()
        ));
    }
    match (here, refusal) {
        (None, Some(why)) => Some(format!(
            "no hardware counters ({why}). So cycles are not counted, but computed: each measured time is multiplied by the core's clock \
             frequency, which chains of multiplications measure next to each sample. CPU time, context switches, page faults and \
             migrations are counted by the host's kernel"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speed::row::{example, CountedPerOp};

    fn counted(estimate_to_counted: Option<f64>) -> Row {
        Row {
            counted: Some(CountedPerOp {
                estimate_to_counted,
                ..CountedPerOp::default()
            }),
            ..example("a", 16, 100.0)
        }
    }

    #[test]
    fn an_estimate_is_checked_against_the_counter() {
        let of = |ratios: &[f64]| {
            let rows: Vec<Row> = ratios.iter().map(|r| counted(Some(*r))).collect();
            note_of(&rows, Some(Hardware::default()), None).unwrap()
        };
        let good = of(&[1.001, 1.002, 0.999]);
        assert!(
            good.contains("agrees") && good.contains("+0.10 %"),
            "{good}"
        );
        // As controls, use estimates that are 3/4 and 4/3 of the count. Such estimates would result
        // if a multiplication took four cycles but three were assumed, or vice versa.
        for wrong in [0.75, 1.33] {
            let note = of(&[wrong, wrong, 1.0]);
            assert!(note.contains("CONTRADICTS"), "{note}");
        }
    }

    #[test]
    fn a_reason_is_given_once() {
        let rows = [example("a", 16, 100.0), example("b", 16, 100.0)];
        let note = note_of(&rows, None, Some("perf_event_open: ENOENT, virtual")).unwrap();
        assert!(
            note.starts_with(
                "no hardware counters (perf_event_open: ENOENT, virtual). So cycles are not counted"
            ),
            "{note}"
        );
        assert_eq!(note_of(&[], None, Some("x")), None);
        assert_eq!(
            note_of(&[counted(None)], Some(Hardware::default()), None),
            None
        );
    }
}
