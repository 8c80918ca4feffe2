//! What `kiln linux build` reports.

use schemars::JsonSchema;
use serde::Serialize;

/// A kernel or a module that was built.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "linux-build",
    title = "Linux builds",
    extend(
        "x-question" = "What was built, and how long did it take?",
        "x-commands" = ["linux build"]
    )
)]
pub struct Row {
    /// The kernel, or Kiln's module.
    #[schemars(extend("x-role" = "key"))]
    pub what: &'static str,
    /// Version of Linux.
    #[schemars(extend("x-role" = "key"))]
    pub version: String,
    /// The compiler.
    #[schemars(extend("x-role" = "key"))]
    pub cc: String,
    /// How long the build took.
    #[schemars(extend("unit" = "s", "x-role" = "main"))]
    pub seconds: f64,
    /// Warnings of the compiler.
    #[schemars(extend("x-role" = "figure"))]
    pub warnings: usize,
    /// Where the result is.
    #[schemars(extend("x-role" = "figure"))]
    pub path: String,
}
