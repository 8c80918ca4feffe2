//! Finds steps in a sweep: large differences in cycles between neighbouring lengths.

use super::row::Row;

/// Two neighbouring lengths of one candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    /// Index of the row with more cycles.
    pub row: usize,
    /// Index of the row with fewer cycles. This row may have the shorter or the longer length.
    pub neighbour: usize,
    /// Cycles of `row` divided by cycles of `neighbour`; at least 1.
    pub ratio: f64,
}

/// Returns each candidate's largest step, in the order of the candidates' first rows.
pub(super) fn worst(rows: &[Row]) -> Vec<Step> {
    let mut curves: Vec<Vec<usize>> = Vec::new();
    for (i, row) in rows.iter().enumerate().filter(|(_, r)| r.measured()) {
        match curves.iter_mut().find(|c| rows[c[0]].same_curve(row)) {
            Some(curve) => curve.push(i),
            None => curves.push(vec![i]),
        }
    }
    curves
        .into_iter()
        .filter_map(|mut curve| {
            curve.sort_by_key(|&i| rows[i].len);
            curve
                .windows(2)
                .map(|pair| step(rows, pair[0], pair[1]))
                .max_by(|a, b| a.ratio.total_cmp(&b.ratio))
        })
        .collect()
}

fn step(rows: &[Row], a: usize, b: usize) -> Step {
    let (x, y) = (rows[a].cycles_per_op, rows[b].cycles_per_op);
    let (row, neighbour) = if x >= y { (a, b) } else { (b, a) };
    Step {
        row,
        neighbour,
        ratio: x.max(y) / x.min(y),
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::example;
    use super::*;

    #[test]
    fn each_curve_has_its_worst_step_up_or_down() {
        let rows = [
            example("a", 16, 40.0),
            example("b", 16, 10.0),
            example("a", 18, 60.0),
            example("b", 18, 11.0),
            example("a", 17, 44.0),
            example("b", 17, 22.0),
            example("c", 17, 1.0),
        ];
        let steps = worst(&rows);
        assert_eq!(steps.len(), 2);
        assert_eq!((steps[0].row, steps[0].neighbour), (2, 4));
        assert!((steps[0].ratio - 60.0 / 44.0).abs() < 1e-9);
        assert_eq!((steps[1].row, steps[1].ratio), (5, 2.2));
    }
}
