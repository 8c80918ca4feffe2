//! Parses arbitrary bytes as a request of either queue. If a request can be parsed, emitting it and
//! parsing the result must yield the same request.

use kiln_virtio::wire::{Config, Control, Features, Request};

/// Runs one input. Returns whether it can be parsed as a request.
pub(crate) fn run(data: &[u8]) -> bool {
    let Some((&features, bytes)) = data.split_first() else {
        return false;
    };
    let features = Features::new(features.into());
    let mut parsed = false;
    if let Ok(control) = Control::parse(bytes, features) {
        let mut out = Vec::new();
        control.emit(features, &mut out);
        assert!(out.len() <= bytes.len());
        assert_eq!(Control::parse(&out, features), Ok(control));
        parsed = true;
    }
    if let Ok(request) = Request::parse(bytes, features) {
        let mut out = Vec::new();
        request.emit(features, &mut out);
        assert!(out.len() <= bytes.len());
        assert_eq!(Request::parse(&out, features), Ok(request));
        parsed = true;
    }
    if let Ok(config) = Config::parse(bytes) {
        assert_eq!(config.emit(), bytes[..56]);
    }
    parsed
}
