//! Rows that `kiln linux build` prints.

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
    /// What was built: user-mode Linux, or Kiln's module.
    #[schemars(extend("x-role" = "key"))]
    pub what: &'static str,
    /// Version of Linux, or the directory of the kernel headers that the module was built for.
    #[schemars(extend("x-role" = "key"))]
    pub version: String,
    /// Compiler used for the build, with its version.
    #[schemars(extend("x-role" = "key"))]
    pub cc: String,
    /// Duration of the build.
    #[schemars(extend("unit" = "s", "x-role" = "main"))]
    pub seconds: f64,
    /// Number of compiler warnings in Kiln's module. Always 0 for a kernel.
    #[schemars(extend("x-role" = "figure"))]
    pub warnings: usize,
    /// Path of the file that was built.
    #[schemars(extend("x-role" = "figure"))]
    pub path: String,
}
