//! Two concurrent guests in one process. One guest sends arbitrary requests; the other must keep
//! its session and get correct answers throughout.

#![no_main]

use std::cell::RefCell;

use kiln_device::rig::Front;
use kiln_device::Limits;
use libfuzzer_sys::fuzz_target;

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

fuzz_target!(|data: &[u8]| {
    FRONTS.with_borrow_mut(|[hostile, other]| {
        let mut rest = data;
        let mut acts = 0;
        while !rest.is_empty() {
            hostile.act(&mut rest);
            acts += 1;
            if acts % 8 == 0 {
                other.is_served();
            }
        }
        other.is_served();
    });
});
