//! Runs a front end with real descriptors, which modifies its memory while the device processes its
//! rings. The device must not crash, and must serve the next driver on the same connection.

#![no_main]

use std::cell::RefCell;

use kiln_device::rig::Front;
use kiln_device::Limits;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static FRONT: RefCell<Front> = RefCell::new(Front::new(Limits {
        max_sessions: 8,
        max_request: 4096,
        ..Limits::default()
    }));
}

fuzz_target!(|data: &[u8]| {
    FRONT.with_borrow_mut(|front| {
        let mut rest = data;
        while !rest.is_empty() {
            front.act(&mut rest);
        }
        front.behave();
    });
});
