//! Describes what reports show for a row type in addition to tables of its fields. The attribute
//! `"x-view"` of the row structure contains this description, so `kiln-report` does not refer to
//! fields by name.

use serde::Deserialize;
use serde_json::Value;

use crate::Row;

/// A condition on a field. `f` means that the field is present and neither false nor 0; `!f` is the
/// opposite; `f=a|b` means that the field has one of these values; `f!=a|b` means that it has none
/// of them. Null counts as the empty text, so `f=` means null or absent.
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

/// Returns whether the row meets every condition in `terms`. Every row meets an empty list.
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
    /// Fields that divide the rows: each combination of their values gets separate pictures.
    pub each: Vec<Term>,
    /// Fields that form a row's name in a picture.
    pub name: Vec<Term>,
    pub pictures: Vec<Shape>,
    /// Set if the values of one field become columns of the table.
    pub across: Option<Across>,
    /// Set if each row is a check.
    pub check: Option<Check>,
    /// Set if rows count lost state.
    pub loss: Option<Loss>,
    /// Set if each row is a headline.
    pub cards: Option<Cards>,
}

/// A picture. Strings without a description below are texts shown in the picture.
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
        /// Condition for rows drawn in another colour.
        mark: Option<Term>,
    },
    /// One distribution per row, in microseconds.
    Bands {
        #[serde(default)]
        title: String,
        unit: String,
        /// Prefix of the histogram's fields, `PREFIX_le_N` and `PREFIX_more`.
        histogram: String,
        p50: String,
        /// The field with the tail value, and its label.
        tail: (String, String),
        max: String,
        /// A field to compare the tail value with, and its label.
        beside: Option<(String, String)>,
        /// The field that contains a limit.
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
    /// One line per row over time, from fields `PREFIX_0`, `PREFIX_1` and so on.
    Course {
        title: String,
        prefix: String,
        /// The field with a time step's length in milliseconds.
        step: String,
        /// Names of the fields with the beginning and end of the shaded part, and that part's
        /// label.
        shade: (String, String, String),
        upwards: String,
    },
    /// One histogram per row from the fields `PREFIX_le_N` and `PREFIX_more`, in microseconds.
    Octaves {
        histogram: String,
        /// Further results that the legend shows.
        also: Vec<String>,
        along: String,
        upwards: String,
    },
    /// A heat map of results. The view's `name` determines each line's name.
    Map {
        value: String,
        unit: String,
        column: Vec<Term>,
        /// Condition for a row to have a value. For other rows, the condition's field is shown
        /// instead.
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
    /// The field with the provider.
    pub provider: String,
    /// The field with the message length.
    pub x: String,
    /// The field whose value, divided by the message length, is plotted on the vertical axis.
    pub y: String,
    /// The field that contains the limit for these results.
    pub limit: String,
    /// Label of the limit in charts.
    pub limit_name: String,
    /// Terms that select the best row, the most important one first. A row is better if the term's
    /// field has a greater number or, if the field is not a number, if the term holds. Only rows
    /// that have the same values as the best row in these fields are shown.
    pub prefer: Vec<Term>,
    /// Fields of the best row that appear in the title.
    pub title: Vec<Term>,
    /// A row that meets this condition is skipped if its provider has other rows.
    pub aside: Term,
    /// Horizontal axis label.
    pub along: String,
    /// Vertical axis label.
    pub upwards: String,
}

/// Tables of the first main result: one table per value of `each`, with the values of `by` as
/// columns.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Across {
    /// The field that divides the rows into tables, one per value.
    pub each: String,
    /// The field that provides the columns, one per value.
    pub by: String,
    /// Other results, shown as a tooltip.
    pub hint: Vec<String>,
}

/// How rows are reported as checks.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Conditions for a row to be a check.
    #[serde(default)]
    pub only: Vec<Term>,
    /// Conditions under which a check failed; one of them is enough.
    pub fail: Vec<Term>,
    /// Conditions for a skipped check; one of them is enough, unless the check failed.
    #[serde(default)]
    pub skip: Vec<Term>,
    /// The field with the reason why the check failed or was skipped.
    #[serde(default)]
    pub why: String,
}

/// How rows count lost state.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// Conditions for rows where state could be lost.
    #[serde(default)]
    pub only: Vec<Term>,
    /// The field that names the subject of the verdict, such as a policy.
    pub of: String,
    /// The condition that selects the rows of the control policy, which does not save any state.
    pub control: Term,
    /// The fields with the numbers of wrong results and of lost user states.
    pub wrong: (String, String),
    /// The field with the number of interrupts that could have caused a loss.
    pub hit: String,
    /// The field with the number of wrong results that would be expected if the judged policy lost
    /// state as often as the control policy.
    pub expected: String,
    /// Whether all rows with the same value of `of` are judged together.
    #[serde(default)]
    pub together: bool,
}

/// The names of the fields that make up a headline.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cards {
    /// The field with the question.
    pub question: String,
    /// The field with the answer in a few words.
    pub verdict: String,
    /// The field with the answer as a sentence.
    pub headline: String,
    /// The field with the answer's result.
    pub value: String,
    /// The field with the result's unit.
    pub unit: String,
    /// The field with the published result.
    pub published: String,
    /// The field with the source of the published result.
    pub source: String,
    /// The field with the command that gives the details.
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
