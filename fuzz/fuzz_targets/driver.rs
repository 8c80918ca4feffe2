//! Runs the driver's ring with a device that writes arbitrary bytes anywhere in the shared memory
//! at any time.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| {
    kiln_driver::rig::play(script);
});
