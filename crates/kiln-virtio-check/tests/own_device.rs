//! Kiln's own device passes all that it is checked for.

#![allow(missing_docs)]

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread;

use kiln_device::{Config, Limits, Server};
use kiln_virtio_check::{names, offer, run, Verdict};

/// Run `check` while a device serves at its path.
fn served(check: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("device");
    let config = Config {
        sockets: vec![path.clone()],
        queues: 1,
        limits: Limits {
            max_sessions: 64,
            ..Limits::default()
        },
        // A sandbox is for good: this process does other things, too.
        sandbox: false,
        ..Config::default()
    };
    let server = Server::bind(config).unwrap();
    let (stop, rings) = UnixStream::pair().unwrap();
    thread::scope(|s| {
        s.spawn(|| server.run(rings.as_fd()).unwrap());
        check(&path);
        drop(stop);
    });
}

#[test]
fn passes() {
    served(|path| {
        let offer = offer(path).unwrap();
        let names = names(&offer);
        let rows = run(path, &offer, &AtomicBool::new(false), &mut |row| {
            println!("{}", row.ktap(0));
        });
        assert_eq!(rows.len(), names.len());
        let failed: Vec<_> = rows
            .iter()
            .filter(|row| matches!(row.verdict, Verdict::Fail(_)))
            .collect();
        assert!(failed.is_empty(), "{failed:#?}");
        let passed = rows.iter().filter(|row| row.verdict == Verdict::Pass);
        assert!(passed.count() > 60);
    });
}
