//! Measures two sides in alternation, so that drift affects both.

use kiln_question::Error;

use super::side::{Figure, Side};

/// The side that is measured in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    A,
    B,
}

/// Measures both sides `rounds` times. A comes first in even rounds and B in odd ones, so that
/// steady drift favours neither. The value of a result is taken from its best turn, and its
/// interval is computed from all turns.
pub(super) fn turns(
    rounds: usize,
    stop: &dyn Fn() -> bool,
    measure: &mut dyn FnMut(Turn, usize) -> Result<Side, Error>,
) -> Result<(Side, Side), Error> {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let order = match round % 2 {
            0 => [Turn::A, Turn::B],
            _ => [Turn::B, Turn::A],
        };
        for turn in order {
            if stop() {
                break;
            }
            let side = measure(turn, round)?;
            match turn {
                Turn::A => a.push(side),
                Turn::B => b.push(side),
            }
        }
    }
    // If a round was interrupted, it may contain a turn of only one side, which is discarded.
    let complete = a.len().min(b.len());
    a.truncate(complete);
    b.truncate(complete);
    Ok((merged(a), merged(b)))
}

fn merged(turns: Vec<Side>) -> Side {
    let mut turns = turns.into_iter();
    let Some(mut side) = turns.next() else {
        return Side::default();
    };
    for figure in side.figures.values_mut() {
        figure.turns = vec![figure.value];
        if let Some(time) = &mut figure.time {
            time.turns = vec![time.value];
        }
    }
    let mut done = 1;
    for turn in turns {
        for (key, figure) in &mut side.figures {
            add_turn(figure, turn.figures.get(key));
        }
        done += 1;
    }
    side.figures.retain(|_, f| f.turns.len() == done);
    side
}

fn add_turn(figure: &mut Figure, turn: Option<&Figure>) {
    let value = turn.map_or(f64::NAN, |f| f.value);
    figure.turns.push(value);
    let better = match figure.less {
        true => value < figure.value,
        false => value > figure.value,
    };
    // NaN means a wrong answer, which invalidates the result even if it occurs in only one turn.
    if better || value.is_nan() {
        figure.value = value;
    }
    figure.interval = None;
    if let Some(time) = &mut figure.time {
        add_turn(time, turn.and_then(|f| f.time.as_deref()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(value: f64) -> Side {
        let of = |unit, value| Figure {
            unit,
            less: true,
            value,
            interval: Some((value, value)),
            of_rounds: false,
            turns: Vec::new(),
            subject: None,
            time: None,
        };
        let figure = Figure {
            time: Some(Box::new(of("ns_per_op", value / 4.0))),
            ..of("cycles_per_op", value)
        };
        Side {
            name: "s".into(),
            figures: [("k".to_string(), figure)].into(),
            ..Side::default()
        }
    }

    #[test]
    fn both_have_their_turns_and_the_best_counts() {
        let mut order = Vec::new();
        let mut n = 10.0;
        let (a, b) = turns(3, &|| false, &mut |turn, _| {
            order.push(turn);
            n -= 1.0;
            Ok(side(n))
        })
        .unwrap();
        use Turn::{A, B};
        assert_eq!(order, [A, B, B, A, A, B]);
        assert_eq!(a.figures["k"].turns, [9.0, 6.0, 5.0]);
        assert_eq!(b.figures["k"].turns, [8.0, 7.0, 4.0]);
        assert_eq!((a.figures["k"].value, b.figures["k"].value), (5.0, 4.0));
        assert_eq!(a.figures["k"].interval, None);
        let time = a.figures["k"].time.as_ref().unwrap();
        assert_eq!(
            (time.turns.as_slice(), time.value),
            (&[2.25, 1.5, 1.25][..], 1.25)
        );
    }

    #[test]
    fn one_wrong_turn_leaves_no_figure() {
        let mut values = [1.0, 1.0, f64::NAN, 1.0, 1.0, 1.0].into_iter();
        let (a, b) = turns(3, &|| false, &mut |_, _| Ok(side(values.next().unwrap()))).unwrap();
        assert!(a.figures["k"].value.is_finite());
        assert!(b.figures["k"].value.is_nan(), "{b:?}");
    }

    #[test]
    fn an_interrupted_round_does_not_count() {
        let done = std::cell::Cell::new(0);
        let (a, b) = turns(5, &|| done.get() == 3, &mut |_, _| {
            done.set(done.get() + 1);
            Ok(side(1.0))
        })
        .unwrap();
        assert_eq!(
            (a.figures["k"].turns.len(), b.figures["k"].turns.len()),
            (1, 1)
        );
    }
}
