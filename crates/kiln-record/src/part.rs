use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The part of a run that a record contains. Present only if the run was divided by `--shard I/N`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "shard", title = "shard")]
pub struct Part {
    /// Number of this shard, from 1 to `count`.
    pub index: u32,
    /// Number of shards that the run was divided into.
    pub count: u32,
    /// Number of work items in this shard. What an item is depends on the command. An item is an
    /// algorithm for `test`, a length in a table for `speed`, a subject at one level for
    /// `compilers`, and a policy with one message for `fpu prove`. `fpu prove --tree` has one item
    /// for each KUnit suite and one for each library function. `test --tree` has one item for each
    /// driver, one for each KUnit suite, and a single item for all of the library's functions.
    pub items: usize,
    /// Number of items in all shards together.
    pub total: usize,
    /// Identifier of the list of all items: the first 16 hexadecimal digits of the SHA-256 of the
    /// items' names. Shards belong together only if they have the same identifier.
    pub plan: String,
    /// Whether the run of this shard was completed. False if it was interrupted, so that some of
    /// the items are missing.
    pub complete: bool,
    /// Name of the machine: the value of `KILN_HOST` if it is set, otherwise the host name.
    pub host: String,
}
