//! Generates the JSON schema of records from the row structures.

use schemars::generate::SchemaSettings;
use schemars::transform::{transform_subschemas, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{json, Map, Value};

use crate::record::{Record, SCHEMA};

/// The attribute that lists the commands that write rows of a type.
pub(crate) const COMMANDS: &str = "x-commands";
/// The attribute that lists the commands that wrote rows of a type in earlier versions.
pub(crate) const OLD_COMMANDS: &str = "x-old-commands";

/// A row type's name, and its definition in the schema.
#[derive(Clone, Debug)]
pub struct Description {
    name: String,
    definition: Value,
}

pub fn describe<R: JsonSchema>() -> Description {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<R>();
    schema.remove("$schema");
    Plain.transform(&mut schema);
    let name = R::schema_name().into_owned();
    let mut definition = schema.to_value();
    let fields = definition["properties"].as_object_mut();
    for field in fields.into_iter().flat_map(Map::values_mut) {
        let field = field.as_object_mut().expect("a field has a schema");
        // If one structure describes two types, the field has its role in only one of them.
        if field.remove("x-only").is_some_and(|only| only != *name) {
            field.remove("x-role");
            field.remove("x-heading");
        }
    }
    require_what_was_always_there(&mut definition);
    Description { name, definition }
}

/// Generates the schema for records with rows of these types, listed in the order in which reports
/// show them.
pub fn schema(types: &[Description]) -> Value {
    let generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let mut root = generator.into_root_schema_for::<Record<()>>();
    Plain.transform(&mut root);
    let mut root = root.to_value();
    require_what_was_always_there(&mut root);
    require_what_was_always_there(&mut root["$defs"]["machine"]);
    let mut commands: Vec<(String, Vec<&str>)> = Vec::new();
    for one in types {
        let now = command_lines(&one.definition, COMMANDS);
        let old = command_lines(&one.definition, OLD_COMMANDS);
        for line in now.chain(old) {
            let command = command_name(line);
            match commands.iter_mut().find(|(name, _)| *name == command) {
                Some((_, types)) if types.contains(&one.name.as_str()) => {}
                Some((_, types)) => types.push(&one.name),
                None => commands.push((command, vec![&one.name])),
            }
        }
    }
    let names: Vec<&str> = types.iter().map(|t| t.name.as_str()).collect();
    let fields = &mut root["properties"];
    fields["schema"]["maximum"] = json!(SCHEMA);
    fields["command"]["enum"] = commands.iter().map(|(name, _)| name.as_str()).collect();
    fields["type"]["enum"] = json!(names);
    // Since schema 2, records contain their type. In older records, the type is determined by the
    // command.
    let mut rules = vec![json!({
        "if": {"properties": {"schema": {"const": SCHEMA}}, "required": ["schema"]},
        "then": {"required": ["type"]}
    })];
    let reference = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
    rules.extend(commands.iter().map(|(command, types)| {
        let any: Vec<Value> = types.iter().map(|name| reference(name)).collect();
        json!({
            "if": {"properties": {"command": {"const": command}}},
            "then": {"properties": {"rows": {"items": {"anyOf": any}}}}
        })
    }));
    rules.extend(names.iter().map(|name| {
        json!({
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {"properties": {"rows": {"items": reference(name)}}}
        })
    }));
    root["$id"] = json!(format!("urn:kiln:record:{SCHEMA}"));
    root["allOf"] = Value::Array(rules);
    let definitions = root["$defs"]
        .as_object_mut()
        .expect("the machine is one of them");
    for one in types {
        definitions.insert(one.name.clone(), one.definition.clone());
    }
    root
}

/// Returns the command lines that `attribute` lists in the definition of a row type.
pub(crate) fn command_lines<'a>(
    definition: &'a Value,
    attribute: &str,
) -> impl Iterator<Item = &'a str> {
    let lines = definition[attribute].as_array().into_iter().flatten();
    lines.filter_map(Value::as_str)
}

/// Returns the name by which records refer to a command: `speed` for `speed --tcrypt`,
/// `linux-tcrypt` for `linux tcrypt`. At most two words are used: `fpu-prove` for `fpu prove
/// breakpoint`.
pub(crate) fn command_name(line: &str) -> String {
    let words = line.split(' ').take_while(|word| !word.starts_with('-'));
    words.take(2).collect::<Vec<_>>().join("-")
}

/// Makes fields optional if a later version added them, because older records lack them.
fn require_what_was_always_there(definition: &mut Value) {
    let since = |name: &Value| &definition["properties"][name.as_str().unwrap_or_default()];
    let required = definition["required"].as_array().into_iter().flatten();
    let always: Vec<Value> = required
        .filter(|name| since(name)["x-since"].is_null())
        .cloned()
        .collect();
    definition["required"] = Value::Array(always);
}

/// A schemars transform that removes constraints that the Rust types imply but records do not
/// guarantee, and joins the lines of doc comments.
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        for word in ["format", "maximum", "minItems", "maxItems", "default"] {
            schema.remove(word);
        }
        if let Some(Value::String(text)) = schema.get_mut("description") {
            *text = text.replace('\n', " ");
        }
        transform_subschemas(self, schema);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[allow(dead_code)]
    #[schemars(rename = "one", title = "One", extend("x-commands" = ["a b --c", "d"]))]
    struct One {
        /// The first line
        /// and the second.
        #[schemars(extend("x-role" = "key", "unit" = "bytes"))]
        len: usize,
        /// R.
        #[schemars(with = "Option<f64>", extend("x-role" = "main", "x-only" = "other"))]
        result: f64,
        /// L.
        #[schemars(extend("x-since" = 2))]
        later: Option<u16>,
        /// M.
        #[serde(skip_serializing_if = "Option::is_none")]
        maybe: Option<&'static str>,
    }

    #[test]
    fn a_structure_is_described_as_it_is_written() {
        let one = describe::<One>();
        assert_eq!(one.name, "one");
        assert_eq!(
            one.definition["properties"],
            json!({
                "len": {"type": "integer", "minimum": 0, "description": "The first line and the second.",
                        "x-role": "key", "unit": "bytes"},
                "result": {"type": ["number", "null"], "description": "R."},
                "later": {"type": ["integer", "null"], "minimum": 0, "description": "L.", "x-since": 2},
                "maybe": {"type": ["string", "null"], "description": "M."},
            })
        );
        assert_eq!(one.definition["required"], json!(["len", "result"]));
        let lines = command_lines(&one.definition, COMMANDS);
        let names: Vec<String> = lines.map(command_name).collect();
        assert_eq!(names, ["a-b", "d"]);
        assert_eq!(command_name("a b c --d"), "a-b");
    }

    /// Embeds `One` and adds a field. The fields of `One` are described only in `One`.
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    #[schemars(rename = "one", title = "One", extend("x-commands" = ["a b --c", "d"]))]
    struct Two {
        #[serde(flatten)]
        one: One,
        /// How long it took.
        #[schemars(extend("unit" = "ns", "x-role" = "figure", "x-heading" = "time", "x-better" = "less"))]
        added_ns: f64,
    }

    #[test]
    fn a_field_is_one_edit() {
        let without = schema(&[describe::<One>()]);
        let with = schema(&[describe::<Two>()]);
        let name = "added_ns";
        for (schema, there) in [(without, false), (with, true)] {
            let definition = &schema["$defs"]["one"];
            assert_eq!(definition["properties"].get(name).is_some(), there);
            let page = crate::reference(&schema);
            let line = "| `added_ns` | number | ns | How long it took. | result |";
            assert_eq!(page.contains(line), there, "{page}");
            // Check the properties that reports, exports and `kiln compare` use.
            let types = crate::row_type::read(&schema.to_string());
            let figure = types[0].figures().find(|f| f.name == name);
            assert_eq!(figure.is_some(), there);
            if let Some(figure) = figure {
                assert_eq!(figure.heading, "time");
                assert!(figure.always && figure.better == Some(crate::Better::Less));
            }
        }
    }

    #[test]
    fn old_commands_of_a_type_are_known() {
        #[derive(JsonSchema)]
        #[allow(dead_code)]
        #[schemars(
            rename = "moved",
            title = "Moved",
            extend("x-commands" = ["a new"], "x-old-commands" = ["a --old", "d"])
        )]
        struct Moved {
            /// L.
            len: usize,
        }
        let schema = schema(&[describe::<One>(), describe::<Moved>()]);
        assert_eq!(
            schema["properties"]["command"]["enum"],
            json!(["a-b", "d", "a-new", "a"])
        );
        let page = crate::reference(&schema);
        for line in [
            "Written by `kiln a new`; `command` is `a-new`.",
            "In earlier versions the command was `a --old` and `d`, and `command` is `a` or `d` in their records.",
        ] {
            assert!(page.contains(line), "{page}");
        }
        assert_eq!(page.matches("In earlier versions").count(), 1, "{page}");
    }

    #[test]
    fn a_schema_knows_commands_and_types() {
        let schema = schema(&[describe::<One>()]);
        assert_eq!(schema["properties"]["command"]["enum"], json!(["a-b", "d"]));
        assert_eq!(schema["properties"]["type"]["enum"], json!(["one"]));
        assert_eq!(schema["properties"]["machine"]["$ref"], "#/$defs/machine");
        assert_eq!(schema["allOf"].as_array().unwrap().len(), 4);
        assert_eq!(schema["$defs"]["one"]["title"], "One");
        for field in ["commit", "type", "records"] {
            let required = schema["required"].as_array().unwrap();
            assert!(!required.contains(&json!(field)), "{field}");
        }
    }
}
