//! Runs a front end that passes real file descriptors to the device and modifies the shared memory
//! while the device processes the rings. The device must not crash, and must serve the next driver
//! on the same connection.

use std::cell::RefCell;

use kiln_device::rig::Front;
use kiln_device::Limits;

thread_local! {
    static FRONT: RefCell<Front> = RefCell::new(Front::new(Limits {
        max_sessions: 8,
        max_request: 4096,
        ..Limits::default()
    }));
}

/// Runs one input. Returns whether the device accepts at least eight of the input's messages.
pub(crate) fn run(data: &[u8]) -> bool {
    FRONT.with_borrow_mut(|front| {
        let mut rest = data;
        let mut accepted = 0;
        while !rest.is_empty() {
            accepted += usize::from(front.act(&mut rest));
        }
        front.behave();
        accepted >= 8
    })
}
