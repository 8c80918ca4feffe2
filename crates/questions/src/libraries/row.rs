//! The rows that `kiln libraries` outputs. Each row is about a library that can be measured.

use schemars::JsonSchema;
use serde::Serialize;

use super::catalogue::ALL;
use kiln_timing::peer::{self, release};

/// A library with which Kiln can be compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(
    rename = "libraries",
    title = "Other libraries",
    extend(
        "x-question" = "Which other libraries are there to compare with, and how old are they?",
        "x-commands" = ["libraries"]
    )
)]
pub(super) struct Row {
    /// Name by which the flag `--peers` selects the library.
    #[schemars(extend("x-role" = "key"))]
    pub name: String,
    /// Whether the library can be measured on this machine.
    #[schemars(extend("x-role" = "main"))]
    pub available: bool,
    /// Version of the library. If several versions are installed, this is the one that is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("x-role" = "figure"))]
    pub version: Option<String>,
    /// Year in which the first release of this version's series appeared. Absent if it is not
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u16", extend("x-role" = "figure"))]
    pub year: Option<u16>,
    /// Where the library was found: `cache` (installed by `kiln libraries install`), `system`,
    /// `named` (an environment variable names the file) or `program` (compiled into Kiln).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("x-role" = "figure"))]
    pub place: Option<&'static str>,
    /// Path of the library's file. A name without a directory means that the file is in one of the
    /// system's library directories.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub file: Option<String>,
    /// Command to get the current version of the library. If the command is `kiln libraries
    /// install`, the library's origin follows in parentheses.
    pub get: String,
    /// Why the library is not available; absent if it is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<String>,
}

/// Returns a row for each library, in the order of `--peers`. Each library is loaded to determine
/// its version.
pub(super) fn list_libraries() -> Vec<Row> {
    peer::NAMES.into_iter().map(describe_library).collect()
}

fn describe_library(name: &'static str) -> Row {
    let get = match ALL.iter().find(|l| l.name == name) {
        Some(library) => format!("kiln libraries install {name} ({})", library.source),
        None if name == "nettle" => "apt-get install libnettle8".to_string(),
        None => "cargo build --release --features peers".to_string(),
    };
    let row = Row {
        name: name.to_string(),
        get,
        ..Row::default()
    };
    match peer::load(name) {
        Ok(peer) => Row {
            available: true,
            version: Some(peer.version().to_string()),
            year: release::year(&peer.provider()),
            place: Some(peer.place()),
            file: Some(peer.file().to_string()),
            ..row
        },
        Err(why) => Row {
            reason: Some(why),
            ..row
        },
    }
}
