//! Records: the JSON documents that `--json` prints and `--out` writes.
//!
//! A record is an envelope ([`Record`]) around flat rows, all of one row type. The row structure
//! that a command serializes is the only description of its type. Doc comments give the meaning of
//! each field, and schemars attributes give the other properties:
//!
//! | attribute of a row structure | |
//! |---|---|
//! | `rename` | name of the type, as it appears in the `type` field of records |
//! | `title` | heading of the type's section in reports |
//! | `"x-question"` | the question that rows of the type answer |
//! | `"x-commands"` | commands that write such rows |
//! | `"x-old-commands"` | commands that wrote such rows in earlier versions, whose records are still read |
//! | `"x-view"` | what reports show in addition to tables of the fields: pictures, headlines, checks ([`view::View`]) |
//!
//! | attribute of a field | |
//! |---|---|
//! | `"unit"` | unit of the field |
//! | `"x-role"` | `key`: identifies a row. `condition`: shown with the keys, but rows that differ only in conditions count as the same row, measured on another machine or with another version. `main`: a result that reports use to compare sides. `figure`: another result that reports show. Without a role, a field appears only in the record |
//! | `"x-heading"` | heading of the field's column; the default is the field's name in words |
//! | `"x-interval"` | names of the fields that hold the lower and the upper end of the result's interval |
//! | `"x-better"` | `less` or `more`: whether lower or higher is better. `kiln compare` compares this field. The first such field that every record has is compared even if it is null; the other fields are compared only where both records have a value |
//! | `"x-time"` | the field that holds the same result as time instead of cycles |
//! | `"x-benchmark"` | the field's name in google-benchmark's format: `real_time`, `threads`, `iterations` or `bytes_per_second`; also `real_time_per_byte` |
//! | `"x-since"` | the first schema version in which the field is always present; older records may lack the field |
//! | `"x-side"` | for a fact about the machine: `machine` or `compiler`; records that differ in this fact are different sides of a report |
//! | `"x-only"` | for a structure that describes two types: the type in which the field has its role |
//!
//! `docs/schema.json` ([`schema`]) and `docs/RECORDS.md` ([`reference`]) are generated from these
//! descriptions. The crate `kiln-questions` lists the row types, and the test `records` of the
//! crate `kiln` keeps both files up to date. Programs read the descriptions back from the schema
//! ([`row_types`]), so neither `kiln-report` nor `kiln compare` lists fields.
#![forbid(unsafe_code)]

mod facts;
mod part;
mod plain;
pub mod read;
mod record;
mod reference;
mod row_type;
mod schema;
mod setting;
pub mod view;

pub use facts::Facts;
pub use part::Part;
pub use plain::plain;
pub use record::{utc_now, Record, Row, SCHEMA};
pub use reference::reference;
pub use row_type::{
    base_command, family, machine_facts, row_type, row_types, type_of, Aspect, Better, Field, Role,
    RowType,
};
pub use schema::{describe, schema, Description};
pub use setting::Setting;
