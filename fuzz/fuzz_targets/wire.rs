//! Parses arbitrary bytes as a request of either queue. A request that can be parsed must not
//! change when it is emitted and parsed again.

#![no_main]

use kiln_virtio::wire::{Config, Control, Features, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&features, bytes)) = data.split_first() else {
        return;
    };
    let features = Features::new(features.into());
    if let Ok(control) = Control::parse(bytes, features) {
        let mut out = Vec::new();
        control.emit(features, &mut out);
        assert!(out.len() <= bytes.len());
        assert_eq!(Control::parse(&out, features), Ok(control));
    }
    if let Ok(request) = Request::parse(bytes, features) {
        let mut out = Vec::new();
        request.emit(features, &mut out);
        assert!(out.len() <= bytes.len());
        assert_eq!(Request::parse(&out, features), Ok(request));
    }
    if let Ok(config) = Config::parse(bytes) {
        assert_eq!(config.emit(), bytes[..56]);
    }
});
