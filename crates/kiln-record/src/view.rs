//! What reports show of a row type besides tables of its fields. The attribute `"x-view"` of a row structure says it, so
//! that `kiln-report` names no field.

use serde::Deserialize;
use serde_json::Value;

use crate::Row;

/// A field under a condition. `f`: there, and neither false nor 0; `!f`: the opposite; `f=a|b`: one of these values;
/// `f!=a|b`: none of these. Null is the empty text, so that `f=` is null or absent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Term {
    /// The field's name.
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
    /// Whether the row fulfils the condition.
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

/// Whether the row fulfils all conditions.
pub fn all_hold(terms: &[Term], row: &Row) -> bool {
    terms.iter().all(|term| term.holds(row))
}

/// What reports show of a row type.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct View {
    /// How to read the pictures.
    pub how: String,
    /// The rows that pictures show.
    pub only: Vec<Term>,
    /// Pictures are drawn for each combination of these fields.
    pub each: Vec<Term>,
    /// What a row is called in a picture.
    pub name: Vec<Term>,
    /// The pictures of one combination.
    pub pictures: Vec<Shape>,
    /// Set if one field's values are columns of the table.
    pub across: Option<Across>,
    /// Set if a row is a check.
    pub check: Option<Check>,
    /// Set if rows count lost state.
    pub loss: Option<Loss>,
    /// Set if rows are headlines.
    pub cards: Option<Cards>,
}

/// A picture. Texts without a field of their own are what it says.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "form", rename_all = "kebab-case", deny_unknown_fields)]
#[allow(missing_docs)]
pub enum Shape {
    /// A bar per row, or a dot on a logarithmic scale.
    Bars {
        #[serde(default)]
        title: String,
        value: String,
        unit: String,
        #[serde(default)]
        log: bool,
        /// Rows that are drawn in another colour.
        mark: Option<Term>,
    },
    /// A distribution per row, in microseconds.
    Bands {
        #[serde(default)]
        title: String,
        unit: String,
        /// The prefix of the fields `PREFIX_le_N` and `PREFIX_more`.
        histogram: String,
        p50: String,
        /// The field with the tail, and what it is called.
        tail: (String, String),
        max: String,
        /// A field to compare the tail with, and what it is called.
        beside: Option<(String, String)>,
        /// A limit.
        target: Option<String>,
    },
    /// A line per name, on logarithmic scales.
    Lines {
        title: String,
        x: String,
        y: String,
        along: String,
        upwards: String,
    },
    /// A line per row over time: the fields `PREFIX_0`, `PREFIX_1` and so on.
    Course {
        title: String,
        prefix: String,
        /// The length of a step in milliseconds.
        step: String,
        /// Begin and end of a shaded part, and what it is.
        shade: (String, String, String),
        upwards: String,
    },
    /// A histogram per row: the fields `PREFIX_le_N` and `PREFIX_more`, in microseconds.
    Octaves {
        histogram: String,
        /// Results in the legend.
        also: Vec<String>,
        along: String,
        upwards: String,
    },
    /// A map of figures; the view's name is a line's.
    Map {
        value: String,
        unit: String,
        column: Vec<Term>,
        /// Which rows have a value; of others, the field is shown.
        status: Term,
        hint: Vec<Term>,
    },
    /// The fastest series of each provider, by message length.
    Fastest(Fastest),
}

/// The fastest series of each provider, each a line.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fastest {
    /// A row's provider.
    pub provider: String,
    /// The length.
    pub x: String,
    /// A result that is divided by the length.
    pub y: String,
    /// The limit of such results.
    pub limit: String,
    /// What the limit is.
    pub limit_name: String,
    /// Only rows like the best one are shown: one for which the first of these holds or is greatest, then the second…
    pub prefer: Vec<Term>,
    /// Fields of the best row for the title.
    pub title: Vec<Term>,
    /// Rows of a provider that has others are left out if this holds.
    pub aside: Term,
    /// What is from left to right.
    pub along: String,
    /// What is upwards.
    pub upwards: String,
}

/// A table per value of `each`, with the values of `by` as columns of the first main result.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Across {
    /// A table for each value of this field.
    pub each: String,
    /// A column for each value of this field.
    pub by: String,
    /// Other results, shown on request.
    pub hint: Vec<String>,
}

/// How a row is a check.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Rows that are checks.
    #[serde(default)]
    pub only: Vec<Term>,
    /// It failed if one of these holds.
    pub fail: Vec<Term>,
    /// Otherwise it was skipped if one of these holds.
    #[serde(default)]
    pub skip: Vec<Term>,
    /// The field that says why.
    #[serde(default)]
    pub why: String,
}

/// How rows count lost state.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// Rows that could lose something.
    #[serde(default)]
    pub only: Vec<Term>,
    /// What is judged.
    pub of: String,
    /// The control that saves nothing.
    pub control: Term,
    /// Wrong results, and lost user states.
    pub wrong: (String, String),
    /// Interrupts that could lose something.
    pub hit: String,
    /// How many would be wrong if what is judged were as bad as the control.
    pub expected: String,
    /// Whether all rows of one are one examination.
    #[serde(default)]
    pub together: bool,
}

/// The fields of a headline.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cards {
    /// What was asked.
    pub question: String,
    /// The answer in a few words.
    pub verdict: String,
    /// The answer as a sentence.
    pub headline: String,
    /// Its result.
    pub value: String,
    /// The result's unit.
    pub unit: String,
    /// The published result.
    pub published: String,
    /// Where that is from.
    pub source: String,
    /// The command that gives the details.
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
