//! `kiln schema`: prints the JSON Schema of records, or of one row type.

use clap::Args;
use kiln_question::{print, unknown, Error, Exit, Question, Session};

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
            Some(name) => schema["$defs"].get(name).ok_or_else(|| {
                let types = schema["properties"]["type"]["enum"].as_array();
                let names = types.into_iter().flatten().filter_map(|n| n.as_str());
                unknown("type of rows", name, &names.collect::<Vec<_>>())
            })?,
        };
        print(&format!("{wanted:#}\n"))?;
        Ok(Exit::Done)
    }
}
