//! `kiln schema`: prints the JSON Schema of records, or of one row type.

use clap::Args;
use kiln_question::{print, unknown, Error, Exit, Question, Session};
use serde_json::Value;

/// Print the JSON Schema for --json
///
/// A record is what --json prints and --out writes. With this schema, any JSON Schema validator can
/// check records. The schema is generated from this program's row types and equals
/// docs/schema.json.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  kiln schema > kiln.schema.json
  kiln schema budget    only the rows of 'kiln budget'

See also:
  docs/RECORDS.md")]
pub struct SchemaArgs {
    /// Print only the schema of one type of rows, such as budget for the rows of 'kiln budget'
    #[arg(value_name = "TYPE")]
    of: Option<String>,
}

impl Question for SchemaArgs {
    const NAME: &'static str = "schema";

    fn run(&self, _: &Session) -> Result<Exit, Error> {
        let schema = kiln_record::schema(&crate::row_types());
        let wanted = match &self.of {
            None => &schema,
            Some(name) => schema["$defs"]
                .get(name)
                .ok_or_else(|| unknown_type(&schema, name))?,
        };
        print(&format!("{wanted:#}\n"))?;
        Ok(Exit::Done)
    }
}

/// Creates the error for an unknown type of rows. If the name is a command instead, the message
/// lists only the types of that command's rows.
fn unknown_type(schema: &Value, name: &str) -> Error {
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(|n| n.as_str().map(str::to_string))
            .collect()
    };
    let types = texts(&schema["properties"]["type"]["enum"]);
    let flags = format!("{name} ");
    let writes = |of: &&String| {
        let commands = texts(&schema["$defs"][of.as_str()]["x-commands"]);
        commands.iter().any(|c| c == name || c.starts_with(&flags))
    };
    let of_command: Vec<&str> = types.iter().filter(writes).map(String::as_str).collect();
    if of_command.is_empty() {
        let types: Vec<&str> = types.iter().map(String::as_str).collect();
        return unknown("type of rows", name, &types);
    }
    Error::input(format!(
        "'{name}' is a command: name the type of its rows: {}",
        of_command.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_answered_by_the_types_of_its_rows() {
        let schema = kiln_record::schema(&crate::row_types());
        let fault = |name| unknown_type(&schema, name).to_string();
        assert_eq!(
            fault("fpu prove"),
            "'fpu prove' is a command: name the type of its rows: fpu, fpu-step, fpu-function"
        );
        assert!(fault("linux dkms").ends_with(": linux-dkms"));
        let far = fault("fpu disprove");
        assert!(
            far.starts_with("unknown type of rows 'fpu disprove'"),
            "{far}"
        );
    }
}
