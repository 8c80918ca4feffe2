//! Replays the corpora of the fuzz targets that need a device.

#[path = "../../../fuzz/replay.rs"]
mod replay;

#[path = "../../../fuzz/bodies/backend.rs"]
mod backend;
#[path = "../../../fuzz/bodies/guests.rs"]
mod guests;
#[path = "../../../fuzz/bodies/messages.rs"]
mod messages;
#[path = "../../../fuzz/bodies/queues.rs"]
mod queues;

#[test]
fn inputs_of_backend() {
    replay::check("backend", 20, backend::run);
}

#[test]
fn inputs_of_guests() {
    replay::check("guests", 20, guests::run);
}

#[test]
fn inputs_of_messages() {
    replay::check("messages", 1, messages::run);
}

#[test]
fn inputs_of_queues() {
    replay::check("queues", 1, queues::run);
}
