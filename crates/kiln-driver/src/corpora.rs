//! Replays the corpus of the `driver` fuzz target as a test.

#[path = "../../../fuzz/replay.rs"]
mod replay;

#[path = "../../../fuzz/bodies/driver.rs"]
mod driver;

#[test]
fn inputs_of_driver() {
    replay::check("driver", 20, driver::run);
}
