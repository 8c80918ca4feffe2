//! Makes the row types available at run time by parsing the compiled-in `docs/schema.json`.

use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;

use crate::record::Row;
use crate::schema::{command_lines, COMMANDS};
use crate::view::{Term, View};

/// The purpose of a field (`x-role`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The field is one of those that together identify a row.
    Key,
    /// The field is shown with the keys, but does not identify a row.
    Condition,
    /// A result that reports use to compare sides.
    Main,
    /// Another result that reports show, but do not use to compare sides.
    Figure,
}

/// Whether smaller or larger values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Smaller values are better, as for a cost.
    Less,
    /// Larger values are better, as for a rate.
    More,
}

/// What a fact about the machine identifies (`x-side`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aspect {
    /// The fact identifies a kind of machine.
    Machine,
    /// The fact identifies the compiler that built the kernel code.
    Compiler,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Field {
    /// The field's name in records.
    #[serde(skip)]
    pub name: String,
    #[serde(rename = "description")]
    pub meaning: String,
    pub unit: Option<String>,
    /// The field's purpose. A field without a role appears only in the record.
    #[serde(rename = "x-role")]
    pub role: Option<Role>,
    /// Heading of the field's column.
    #[serde(rename = "x-heading", default)]
    pub heading: String,
    /// Names of the fields that hold the lower and the upper end of the interval.
    #[serde(rename = "x-interval")]
    pub interval: Option<(String, String)>,
    /// Whether smaller or larger values are better; `None` if `kiln compare` does not compare the
    /// field.
    #[serde(rename = "x-better")]
    pub better: Option<Better>,
    /// Name of the field that contains the same result as a time rather than in cycles.
    #[serde(rename = "x-time")]
    pub time: Option<String>,
    /// The result's name in google-benchmark's format: `real_time`, `threads`, `iterations` or
    /// `bytes_per_second`. If it is `real_time_per_byte`, exports multiply the result by the number
    /// of bytes.
    #[serde(rename = "x-benchmark")]
    pub benchmark: Option<String>,
    /// Set if the field is a fact about the machine that distinguishes the sides of a report.
    #[serde(rename = "x-side")]
    pub side: Option<Aspect>,
    /// Whether every row has this field.
    #[serde(skip)]
    pub always: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RowType {
    pub name: String,
    /// Heading of the type's section in reports.
    pub title: String,
    /// The question that rows of this type answer.
    pub question: String,
    /// The commands that write such rows, as typed on the command line, such as
    /// `speed --via virtio`.
    pub commands: Vec<String>,
    /// The fields, in the order in which the row structure declares them.
    pub fields: Vec<Field>,
    /// What reports show for this type in addition to tables.
    pub view: View,
}

impl RowType {
    /// Returns the key fields and the conditions, in the order in which the row structure declares
    /// them.
    pub fn keys(&self) -> impl Iterator<Item = &Field> {
        let shown = [Some(Role::Key), Some(Role::Condition)];
        self.fields.iter().filter(move |f| shown.contains(&f.role))
    }

    /// Returns the results that reports use to compare sides.
    pub fn main_figures(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|f| f.role == Some(Role::Main))
    }

    /// Returns all results that reports show, starting with the main ones.
    pub fn figures(&self) -> impl Iterator<Item = &Field> {
        let more = self.fields.iter().filter(|f| f.role == Some(Role::Figure));
        self.main_figures().chain(more)
    }

    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// Returns the words that identify a row. If `plain` is set, conditions and provider versions
    /// are omitted, so that the corresponding row from another machine or version has the same key.
    pub fn key(&self, row: &Row, plain: bool) -> Vec<String> {
        // The roles of an unknown type's fields are not known, so assume that its text fields
        // identify a row.
        if self.fields.is_empty() {
            let texts = row.values().filter_map(Value::as_str);
            return texts.map(str::to_string).collect();
        }
        let wanted = |field: &&Field| !plain || field.role != Some(Role::Condition);
        self.words(self.keys().filter(wanted), row, plain)
    }

    /// Describes the values of the fields in `terms`, skipping each term that the row does not
    /// meet.
    pub fn describe(&self, row: &Row, terms: &[Term]) -> Vec<String> {
        let terms = terms.iter().filter(|term| term.holds(row));
        self.words(terms.filter_map(|t| self.field(&t.field)), row, false)
    }

    /// Describes the values of `fields` in a row. If `plain` is set, provider versions are omitted.
    pub fn words<'a>(
        &self,
        fields: impl Iterator<Item = &'a Field>,
        row: &Row,
        plain: bool,
    ) -> Vec<String> {
        let mut units: Vec<&str> = Vec::new();
        let mut words = Vec::new();
        for field in fields {
            let name = field.name.as_str();
            match row.get(name) {
                Some(Value::String(text)) if name == PROVIDER && plain => {
                    words.push(family(text).to_string());
                }
                Some(Value::String(text)) => words.push(text.clone()),
                Some(Value::Number(n)) => {
                    let n = n.to_string();
                    let n = n.strip_suffix(".0").unwrap_or(&n);
                    let unit = field.unit.as_deref().unwrap_or_default();
                    let short = match unit {
                        "bits" => "bit",
                        "bytes" => "B",
                        "µs" => "µs",
                        _ => "",
                    };
                    // Add the field's name if the unit does not identify the number, either because
                    // the unit has no short form or because an earlier number has the same unit.
                    words.push(match short.is_empty() || units.contains(&unit) {
                        true => format!("{name} {n}"),
                        false => format!("{n} {short}"),
                    });
                    units.push(unit);
                }
                Some(Value::Bool(true)) => words.push(name.to_string()),
                _ => {}
            }
        }
        words
    }
}

/// Name of the field that contains an implementation's provider. The version in this field does not
/// identify a row.
const PROVIDER: &str = "provider";

/// Removes the version from a provider's name.
pub fn family(provider: &str) -> &str {
    let digit = |i: usize| provider[i + 1..].starts_with(|c: char| c.is_ascii_digit());
    let end = provider.match_indices('-').find(|(i, _)| digit(*i));
    end.map_or(provider, |(i, _)| &provider[..i])
}

const SCHEMA: &str = include_str!("../../../docs/schema.json");

/// Returns all row types, in the order reports show them.
pub fn row_types() -> &'static [RowType] {
    static TYPES: OnceLock<Vec<RowType>> = OnceLock::new();
    TYPES.get_or_init(|| read(SCHEMA))
}

pub fn row_type(name: &str) -> Option<&'static RowType> {
    row_types().iter().find(|t| t.name == name)
}

/// Returns the type of a record's rows. For a type that this version does not know, returns the
/// type `other`, which has no fields.
pub fn type_of(record: &Value) -> &'static RowType {
    static OTHER: OnceLock<RowType> = OnceLock::new();
    let name = record.get("type").and_then(Value::as_str);
    let found = row_type(name.unwrap_or_else(|| infer(record)));
    found.unwrap_or_else(|| {
        OTHER.get_or_init(|| RowType {
            name: "other".to_string(),
            title: "More".to_string(),
            question: "Rows of other commands.".to_string(),
            commands: Vec::new(),
            fields: Vec::new(),
            view: View::default(),
        })
    })
}

/// Returns the name under which Kiln 0.1 recorded this command. In that version, a single command
/// `kiln fpu` answered all questions about FPU policies.
pub fn base_command(command: &str) -> &str {
    match command {
        "ipsec" => "fpu",
        c if c.starts_with("fpu-") => "fpu",
        other => other,
    }
}

/// Infers the type of a record that was written before schema 2 and therefore does not contain its
/// type. The result is the command's first type, unless the fields match another of the command's
/// types.
fn infer(record: &Value) -> &str {
    let command = record.get("command").and_then(Value::as_str);
    let rows = || record.get("rows").and_then(Value::as_array);
    let has = |field: &str| {
        let mut rows = rows().into_iter().flatten();
        rows.any(|row| row.get(field).is_some_and(|v| !v.is_null()))
    };
    match base_command(command.unwrap_or_default()) {
        "speed" if has("queues") => "speed-via",
        "speed" if has("driver") => "tcrypt",
        "linux-tcrypt" => "tcrypt",
        "fpu" => match () {
            () if has("path") => "fpu-overhead",
            () if has("instructions") => "fpu-step",
            () if has("in_section") => "fpu-answers",
            () if has("packets") => "fpu-esp",
            () => "fpu",
        },
        "test" if has("finding") => "constant-time",
        "test" if has("config") => "test-tree",
        other => other,
    }
}

/// Reads the row types from a schema.
pub(crate) fn read(schema: &str) -> Vec<RowType> {
    let schema: Value = serde_json::from_str(schema).expect("the schema is JSON");
    let names = schema["properties"]["type"]["enum"].as_array();
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    names
        .map(|name| read_type(name, &schema["$defs"][name]))
        .collect()
}

fn read_type(name: &str, definition: &Value) -> RowType {
    let text = |word: &str| definition[word].as_str().unwrap_or_default().to_string();
    let view = definition.get("x-view").cloned();
    RowType {
        name: name.to_string(),
        title: text("title"),
        question: text("x-question"),
        commands: command_lines(definition, COMMANDS)
            .map(str::to_string)
            .collect(),
        fields: read_fields(definition),
        view: view.map_or(View::default(), |view| {
            serde_json::from_value(view).expect("a view is described")
        }),
    }
}

/// Returns the machine facts that reports show.
pub fn machine_facts() -> &'static [Field] {
    static FACTS: OnceLock<Vec<Field>> = OnceLock::new();
    FACTS.get_or_init(|| {
        let schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
        let mut facts = read_fields(&schema["$defs"]["machine"]);
        facts.retain(|fact| fact.role == Some(Role::Condition));
        facts
    })
}

fn read_fields(definition: &Value) -> Vec<Field> {
    let required = definition["required"].as_array();
    let always = |name: &str| required.is_some_and(|all| all.iter().any(|r| r == name));
    let fields = definition["properties"].as_object().into_iter().flatten();
    let read_field = |(name, of): (&String, &Value)| {
        let field: Field = serde_json::from_value(of.clone()).expect("a field is described");
        let heading = match field.heading.as_str() {
            "" => name.replace('_', " "),
            heading => heading.to_string(),
        };
        Field {
            name: name.clone(),
            heading,
            always: always(name),
            ..field
        }
    };
    fields.map(read_field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn records_say_their_type_and_that_of_old_ones_is_inferred() {
        let typed = json!({"schema": 2, "command": "fpu", "type": "fpu-step", "rows": [{"path": "direct"}]});
        assert_eq!(type_of(&typed).name, "fpu-step");
        let newer = json!({"schema": 2, "command": "fpu", "type": "fpu-of-tomorrow", "rows": []});
        assert_eq!(type_of(&newer).name, "other");
        let old = |command: &str, row: Value| {
            let record = json!({"command": command, "rows": [row]});
            type_of(&record).name.as_str()
        };
        assert_eq!(old("fpu", json!({"path": "direct"})), "fpu-overhead");
        let policy = |packets: Value| json!({"policy": "legacy", "packets": packets});
        assert_eq!(old("fpu", policy(Value::Null)), "fpu");
        assert_eq!(old("fpu", policy(json!(3))), "fpu-esp");
        assert_eq!(old("fpu", json!({"instructions": 3})), "fpu-step");
        assert_eq!(old("fpu", json!({"in_section": true})), "fpu-answers");
        // Versions after 0.1 split `kiln fpu` into several commands. The types of their records
        // must be inferred as well.
        assert_eq!(
            old("fpu-overhead", json!({"path": "direct"})),
            "fpu-overhead"
        );
        assert_eq!(old("fpu-prove", json!({"instructions": 3})), "fpu-step");
        assert_eq!(old("fpu-prove", policy(Value::Null)), "fpu");
        assert_eq!(
            old("fpu-usable", json!({"in_section": true})),
            "fpu-answers"
        );
        assert_eq!(old("ipsec", policy(json!(3))), "fpu-esp");
        assert_eq!(old("speed", json!({"alg": "a"})), "speed");
        assert_eq!(old("speed", json!({"queues": 1})), "speed-via");
        assert_eq!(old("speed", json!({"driver": "d"})), "tcrypt");
        assert_eq!(old("linux-tcrypt", json!({})), "tcrypt");
        assert_eq!(old("test", json!({"finding": ""})), "constant-time");
        assert_eq!(old("test", json!({"config": "tree"})), "test-tree");
        assert_eq!(old("test", json!({"tiers": "generic"})), "test");
        assert_eq!(old("no such", json!({})), "other");
    }

    #[test]
    fn descriptions_are_consistent() {
        for (n, of) in row_types().iter().enumerate() {
            let name = &of.name;
            assert!(row_types()[..n].iter().all(|t| t.name != *name), "{name}");
            assert!(
                !of.title.is_empty() && of.question.ends_with(['?', '.']),
                "{name}"
            );
            assert!(!of.commands.is_empty(), "{name}");
            assert!(of.keys().any(|f| f.role == Some(Role::Key)), "{name}");
            assert!(of.main_figures().next().is_some(), "{name}");
            for field in &of.fields {
                let what = format!("{name}: {}", field.name);
                assert!(field.meaning.ends_with(['.', '…']), "{what}");
                let (low, high) = field.interval.clone().unzip();
                for partner in [low, high, field.time.clone()].into_iter().flatten() {
                    assert!(of.field(&partner).is_some(), "{what}: {partner}");
                }
            }
        }
    }

    /// Collects the field names in a view, skipping all other strings.
    fn names<'a>(key: &str, value: &'a Value, all: &mut Vec<&'a str>) {
        const WORDS: [&str; 9] = [
            "form",
            "how",
            "title",
            "unit",
            "along",
            "upwards",
            "limit_name",
            "histogram",
            "prefix",
        ];
        match value {
            Value::Object(fields) => fields.iter().for_each(|(key, of)| names(key, of, all)),
            Value::Array(list) if ["tail", "beside", "shade"].contains(&key) => {
                all.extend(list[..list.len() - 1].iter().filter_map(Value::as_str));
            }
            Value::Array(list) => list.iter().for_each(|of| names("", of, all)),
            Value::String(text) if !WORDS.contains(&key) => all.push(text),
            _ => {}
        }
    }

    #[test]
    fn views_name_fields_that_there_are() {
        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        let mut seen = 0;
        for of in row_types() {
            let mut all = Vec::new();
            names("", &schema["$defs"][&of.name]["x-view"], &mut all);
            seen += all.len();
            for name in all {
                let field = Term::from(name.to_string()).field;
                assert!(of.field(&field).is_some(), "{}: {name}", of.name);
            }
        }
        assert!(seen > 50, "{seen}");
        assert!(machine_facts().len() > 10);
    }

    #[test]
    fn a_key_identifies_a_row_on_another_machine_too() {
        let row = json!({"alg": "xts(aes)", "op": "encrypt", "key_bits": 256, "len": 16, "impl": "i",
            "provider": "linux-6.12.1", "level": "api", "latency": false, "cycles_per_op": 1.0});
        let speed = row_type("speed").unwrap();
        let key = |plain| speed.key(row.as_object().unwrap(), plain).join(", ");
        assert_eq!(key(true), "xts(aes), encrypt, 256 bit, 16 B, i, linux, api");
        assert_eq!(
            key(false),
            "xts(aes), encrypt, 256 bit, 16 B, i, linux-6.12.1, api"
        );
        let row = json!({"mode": "poll", "workers": 4, "session": "cipher", "cores": 2});
        let ctrlq = row_type("ctrlq").unwrap();
        let key = |plain| ctrlq.key(row.as_object().unwrap(), plain).join(", ");
        assert_eq!(key(true), "poll, workers 4, cipher");
        assert_eq!(key(false), "poll, workers 4, cipher, cores 2");
    }

    #[test]
    fn a_provider_has_a_family() {
        assert_eq!(family("linux-6.12.1"), "linux");
        assert_eq!(family("aws-lc-1.2"), "aws-lc");
        assert_eq!(family("kiln"), "kiln");
    }
}
