//! Two concurrent guests in one process. One guest sends arbitrary requests; the other must keep
//! its session and get correct answers throughout.

use std::cell::RefCell;

use kiln_device::rig::Front;
use kiln_device::Limits;

thread_local! {
    static FRONTS: RefCell<[Front; 2]> = RefCell::new([0, 1].map(|n| {
        let mut front = Front::new(Limits {
            max_sessions: 8,
            max_request: 4096,
            ..Limits::default()
        });
        if n == 1 {
            front.behave();
        }
        front
    }));
}

/// Runs one input. Returns whether the device accepts at least eight messages from the hostile
/// guest.
pub(crate) fn run(data: &[u8]) -> bool {
    FRONTS.with_borrow_mut(|[hostile, other]| {
        let mut rest = data;
        let (mut acts, mut accepted) = (0, 0);
        while !rest.is_empty() {
            accepted += usize::from(hostile.act(&mut rest));
            acts += 1;
            if acts % 8 == 0 {
                other.is_served();
            }
        }
        other.is_served();
        accepted >= 8
    })
}
