//! Describes what reports show for a row type in addition to tables of its fields. The row
//! structure contains this description in the attribute `"x-view"`, so `kiln-report` does not need
//! to know the names of fields.

use serde::Deserialize;
use serde_json::Value;

use crate::Row;

/// A condition on a field. `f` means that the field is present and neither false nor 0; `!f` is the
/// opposite; `f=a|b` means that the field has one of these values; `f!=a|b` means that it has none
/// of them. Null counts as an empty string, so `f=` means that the field is null or absent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Term {
    /// Name of the field that the condition tests.
    pub field: String,
    values: Vec<String>,
    negated: bool,
}

impl From<String> for Term {
    fn from(text: String) -> Term {
        let (field, values) = match text.split_once('=') {
            Some((field, values)) => (field, values.split('|').map(str::to_string).collect()),
            None => (text.as_str(), Vec::new()),
        };
        Term {
            negated: field.starts_with('!') || field.ends_with('!'),
            field: field.trim_matches('!').to_string(),
            values,
        }
    }
}

impl Term {
    /// Returns whether the row meets this condition.
    pub fn holds(&self, row: &Row) -> bool {
        let value = row.get(&self.field).unwrap_or(&Value::Null);
        let is = match (value, &self.values[..]) {
            (Value::Null | Value::Bool(false), []) => false,
            (Value::Number(n), []) => n.as_f64() != Some(0.0),
            (_, []) => true,
            (Value::Null, values) => values.iter().any(String::is_empty),
            (Value::String(text), values) => values.contains(text),
            (other, values) => values.contains(&other.to_string()),
        };
        is != self.negated
    }
}

/// Returns whether the row meets every condition in `terms`. An empty list is met by every row.
pub fn all_hold(terms: &[Term], row: &Row) -> bool {
    terms.iter().all(|term| term.holds(row))
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct View {
    /// Text that explains how to read the pictures.
    pub how: String,
    /// Conditions that select the rows shown in pictures.
    pub only: Vec<Term>,
    /// Fields that divide the rows into groups. Each combination of their values gets its own
    /// pictures.
    pub each: Vec<Term>,
    /// Fields that form a row's name in a picture.
    pub name: Vec<Term>,
    pub pictures: Vec<Shape>,
    /// Set if tables have one column for each value of some field.
    pub across: Option<Across>,
    /// Set if each row is a check.
    pub check: Option<Check>,
    /// Set if rows contain counts of lost state.
    pub loss: Option<Loss>,
    /// Set if each row is a headline.
    pub cards: Option<Cards>,
}

/// A picture. Strings that are not documented below are either names of fields or texts shown in
/// the picture.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "form", rename_all = "kebab-case", deny_unknown_fields)]
#[allow(missing_docs)]
pub enum Shape {
    /// One bar per row, or one dot per row on a logarithmic scale.
    Bars {
        #[serde(default)]
        title: String,
        value: String,
        unit: String,
        #[serde(default)]
        log: bool,
        /// Rows that meet this condition are drawn in a different colour.
        mark: Option<Term>,
    },
    /// One distribution per row, in microseconds.
    Bands {
        #[serde(default)]
        title: String,
        unit: String,
        /// Prefix of the names of the histogram's fields, which are `PREFIX_le_N` and
        /// `PREFIX_more`.
        histogram: String,
        p50: String,
        /// Name of the field that holds the tail value, and the label for this value.
        tail: (String, String),
        max: String,
        /// Name of a field that the tail value is compared with, and the label for this field.
        beside: Option<(String, String)>,
        /// Name of the field that holds a limit.
        target: Option<String>,
    },
    /// One line per name, with logarithmic axes.
    Lines {
        title: String,
        x: String,
        y: String,
        along: String,
        upwards: String,
    },
    /// One line per row, showing how a value changes over time. The fields `PREFIX_0`, `PREFIX_1`
    /// and so on hold the values.
    Course {
        title: String,
        prefix: String,
        /// Name of the field that holds the length of a time step in milliseconds.
        step: String,
        /// Names of the fields that hold the start and the end of the shaded part, and the label
        /// for this part.
        shade: (String, String, String),
        upwards: String,
    },
    /// One histogram per row, in microseconds, from the fields `PREFIX_le_N` and `PREFIX_more`.
    Octaves {
        histogram: String,
        /// Names of the fields whose values the legend also shows.
        also: Vec<String>,
        along: String,
        upwards: String,
    },
    /// A heat map of results. Each line of the map is labelled according to the view's `name`.
    Map {
        value: String,
        unit: String,
        column: Vec<Term>,
        /// The map shows the value of each row that meets this condition. For the rest, it shows
        /// the field that the condition tests.
        status: Term,
        hint: Vec<Term>,
    },
    /// The fastest series of each provider, plotted against the message length.
    Fastest(Fastest),
}

/// A picture of the fastest series of each provider, with one line per provider.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fastest {
    /// Name of the field that holds the provider.
    pub provider: String,
    /// Name of the field that holds the message length.
    pub x: String,
    /// Name of the field whose value, divided by the message length, is plotted on the vertical
    /// axis.
    pub y: String,
    /// Name of the field that holds the limit for these results.
    pub limit: String,
    /// Label of the limit in charts.
    pub limit_name: String,
    /// Terms that rank the rows, with the most important term first. Each term ranks a row by the
    /// number in the term's field or, if the field does not hold a number, by whether the row meets
    /// the term. Only rows with the same values in these fields as the best row are shown.
    pub prefer: Vec<Term>,
    /// Fields of the best row that appear in the title.
    pub title: Vec<Term>,
    /// Rows that meet this condition are skipped if their provider also has rows that do not meet
    /// it.
    pub aside: Term,
    /// Horizontal axis label.
    pub along: String,
    /// Vertical axis label.
    pub upwards: String,
}

/// Tables that show the first main result: one table per value of `each`, with one column per value
/// of `by`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Across {
    /// The field that divides the rows into tables, one per value.
    pub each: String,
    /// The field that provides the columns, one per value.
    pub by: String,
    /// Other results, which are shown in a tooltip.
    pub hint: Vec<String>,
}

/// Describes how rows are reported as checks.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Conditions that a row must meet to be a check.
    #[serde(default)]
    pub only: Vec<Term>,
    /// A check has failed if its row meets any of these conditions.
    pub fail: Vec<Term>,
    /// A check that has not failed was skipped if its row meets any of these conditions.
    #[serde(default)]
    pub skip: Vec<Term>,
    /// Name of the field that holds the reason why the check failed or was skipped.
    #[serde(default)]
    pub why: String,
}

/// Describes the fields that count lost state, and the rows for which a verdict is derived from
/// these counts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// Conditions that select the rows in which state could be lost.
    #[serde(default)]
    pub only: Vec<Term>,
    /// Name of the field that holds the subject of the verdict, such as a policy.
    pub of: String,
    /// The condition that selects the rows of the control policy, which does not save any state.
    pub control: Term,
    /// Names of the fields that hold the number of wrong results and the number of user-space FPU
    /// states that were lost.
    pub wrong: (String, String),
    /// Name of the field that holds the number of interrupts that could have caused a loss.
    pub hit: String,
    /// Name of the field that holds how many wrong results would be expected if the judged policy
    /// lost state as often as the control policy.
    pub expected: String,
    /// Whether all rows with the same value of `of` are judged together.
    #[serde(default)]
    pub together: bool,
}

/// The names of the fields that make up a headline.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cards {
    /// Name of the field that holds the question.
    pub question: String,
    /// Name of the field that holds the answer in a few words.
    pub verdict: String,
    /// Name of the field that holds the answer as a sentence.
    pub headline: String,
    /// Name of the field that holds the answer as a number.
    pub value: String,
    /// Name of the field that holds the unit of this number.
    pub unit: String,
    /// Name of the field that holds the published result.
    pub published: String,
    /// Name of the field that holds the source of the published result.
    pub source: String,
    /// Name of the field that holds the command that shows the details.
    pub command: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn terms_are_conditions() {
        let row = json!({"a": "x", "n": 0, "m": 3, "t": true, "f": false, "none": null});
        for (term, holds) in [
            ("a", true),
            ("n", false),
            ("m", true),
            ("t", true),
            ("f", false),
            ("none", false),
            ("absent", false),
            ("!f", true),
            ("!t", false),
            ("!absent", true),
            ("a=x|y", true),
            ("a=y", false),
            ("a!=y", true),
            ("a!=x|y", false),
            ("none=", true),
            ("absent!=x", true),
            ("a=", false),
            ("m=3", true),
            ("f=false", true),
        ] {
            let is = Term::from(term.to_string()).holds(row.as_object().unwrap());
            assert_eq!(is, holds, "{term}");
        }
        assert_eq!(Term::from("a!=x".to_string()).field, "a");
    }
}
