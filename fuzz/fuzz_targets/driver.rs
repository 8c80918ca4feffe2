//! The driver's ring, with a device that writes anything, anywhere, at any time.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| {
    kiln_driver::rig::play(script);
});
