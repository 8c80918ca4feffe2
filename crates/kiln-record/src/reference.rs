//! Generates `docs/RECORDS.md`, the human-readable form of the schema.

use std::fmt::Write;

use serde_json::{json, Value};

use crate::schema::{command_lines, command_name, COMMANDS, OLD_COMMANDS};

/// Generates the text of `docs/RECORDS.md` from the schema.
pub fn reference(schema: &Value) -> String {
    let mut out = String::from(
        "# Records\n\n\
         What `--json` prints and `--out DIR` writes as `DIR/COMMAND.json` (`DIR/COMMAND-HOST-IofN.json` with `--shard`). Their JSON Schema (draft 2020-12) is\n\
         [schema.json](schema.json). Both files are generated from the row structures in `crates/`. Fields keep their names and\n\
         units; new ones may be added without a new schema number, so readers should ignore fields they do not know. A\n\
         result that could not be measured is null, and a note gives the reason. Rows are flat; raw rounds are lists of\n\
         numbers.\n\n",
    );
    write_table(&mut out, schema);
    out.push_str(
        "\n`kiln report` and `kiln compare` read records, bundles (a record of `survey`, whose `records` are those that its\n\
         answers come from), directories of records, and reports (HTML), which contain the records they were made of. A\n\
         record from before schema 2 has no `type`; it is inferred from the command and the fields. Exports of all rows:\n\
         `kiln report A --format csv|markdown|google-benchmark|ktap|kcidb|bencher|lnt`.\n\n\
         The last column says what a field is for. A *key* identifies a row: `kiln compare` and reports of several sides\n\
         match rows by their keys. A *condition* is shown with the keys, but may differ between matching rows. A *main*\n\
         result is compared side by side in reports; other *results* are only shown.\n\n## Machine\n\n",
    );
    let defs = &schema["$defs"];
    write_table(&mut out, &defs["machine"]);
    out.push_str("\n## Shard\n\n");
    write_table(&mut out, &defs["shard"]);
    let types = schema["properties"]["type"]["enum"].as_array();
    let types: Vec<&str> = types
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (n, name) in types.iter().enumerate() {
        let def = &defs[*name];
        let (lines, names) = commands_of(def, COMMANDS, "kiln ");
        let _ = write!(
            out,
            "\n## `{name}`\n\n{} Written by {lines}; `command` is {names}.",
            text(&def["description"])
        );
        if def.get(OLD_COMMANDS).is_some() {
            // Omit the program's name, because these commands exist only in earlier versions.
            let (lines, names) = commands_of(def, OLD_COMMANDS, "");
            let _ = write!(
                out,
                " In earlier versions the command was {lines}, and `command` is {names} in their records."
            );
        }
        out.push_str("\n\n");
        let same = |other: &&&str| {
            let fields = |of: &Value| {
                of["properties"]
                    .as_object()
                    .map(|p| p.keys().cloned().collect::<Vec<_>>())
            };
            fields(&defs[**other]) == fields(def)
        };
        match types[..n].iter().find(same) {
            Some(other) => {
                let _ = writeln!(out, "The fields are those of [`{other}`](#{other}).");
            }
            None => write_table(&mut out, def),
        }
    }
    out
}

/// Returns the command lines, each prefixed with `program`, and the names by which records refer to
/// the commands.
fn commands_of(def: &Value, attribute: &str, program: &str) -> (String, String) {
    let lines: Vec<&str> = command_lines(def, attribute).collect();
    let typed: Vec<String> = lines.iter().map(|l| format!("`{program}{l}`")).collect();
    let names = lines.iter().map(|l| format!("`{}`", command_name(l)));
    let names: Vec<String> = names.collect();
    (typed.join(" and "), names.join(" or "))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().replace('|', "\\|")
}

fn write_table(out: &mut String, def: &Value) {
    out.push_str("| field | type | unit | meaning | for |\n|---|---|---|---|---|\n");
    let required = def["required"].as_array();
    let always = |field: &str| required.is_some_and(|all| all.contains(&json!(field)));
    for (field, of) in def["properties"].as_object().into_iter().flatten() {
        write_field(out, field, of, always(field));
    }
    for (pattern, of) in def["patternProperties"].as_object().into_iter().flatten() {
        let shown = pattern
            .trim_matches(['^', '$'])
            .replace("[0-9]+", "N")
            .replace("(le_N|more)", "le_N`, `…_more");
        write_field(out, &shown, of, false);
    }
}

fn write_field(out: &mut String, field: &str, of: &Value, always: bool) {
    let kind = match (&of["type"], of.get("$ref").or(of.get("anyOf"))) {
        (_, Some(_)) => "object".to_string(),
        (Value::Array(all), _) => all.iter().map(text).collect::<Vec<_>>().join(" or "),
        (one, _) => text(one),
    };
    let absent = match (always, &of["x-since"]) {
        (true, _) => String::new(),
        (false, Value::Null) => " May be absent.".to_string(),
        (false, version) => format!(" Absent before schema {version}."),
    };
    let role = match of["x-role"].as_str() {
        Some("figure") => "result",
        role => role.unwrap_or_default(),
    };
    let _ = writeln!(
        out,
        "| `{field}` | {kind} | {} | {}{absent} | {role} |",
        text(&of["unit"]),
        text(&of["description"])
    );
}
