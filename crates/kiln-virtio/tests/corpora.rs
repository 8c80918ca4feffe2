//! Replays the corpora of the fuzz targets that need only this crate.

#[path = "../../../fuzz/replay.rs"]
mod replay;

#[path = "../../../fuzz/bodies/guest.rs"]
mod guest;
#[path = "../../../fuzz/bodies/services.rs"]
mod services;
#[path = "../../../fuzz/bodies/table.rs"]
mod table;
#[path = "../../../fuzz/bodies/wire.rs"]
mod wire;

#[test]
fn inputs_of_wire() {
    replay::check("wire", 20, wire::run);
}

#[test]
fn inputs_of_table() {
    replay::check("table", 20, table::run);
}

#[test]
fn inputs_of_guest() {
    replay::check("guest", 1, guest::run);
}

#[test]
fn inputs_of_services() {
    replay::check("services", 20, services::run);
}
