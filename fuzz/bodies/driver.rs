//! Runs the driver's ring against a device that may write arbitrary bytes anywhere in the shared
//! memory at any time.

/// Runs one input. Returns whether the device completes a request.
pub(crate) fn run(script: &[u8]) -> bool {
    let (completed, _) = kiln_driver::rig::play(script);
    completed > 0
}
