//! Kiln's own device passes all checks, and each kind of check can fail.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread;

use kiln_device::{Config, Limits, Server};
use kiln_virtio::wire::Status;

use crate::conform::{open, usable};
use crate::rings::{hostile, CANARY};
use crate::{names, offer, run, Verdict};

/// Run `check` while a device serves at its path.
fn served(max_request: usize, check: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("device");
    let config = Config {
        sockets: vec![path.clone()],
        queues: 1,
        limits: Limits {
            max_sessions: 64,
            max_request,
            ..Limits::default()
        },
        // A sandbox is for good: this process does other things, too. And it is not the program that serves a guest.
        sandbox: false,
        isolation: false,
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
fn own_device() {
    served(Limits::default().max_request, |path| {
        let offer = offer(path).unwrap();
        let names = names(&offer);
        let mut told = 0;
        let rows = run(path, &offer, &AtomicBool::new(false), &mut |_| told += 1);
        assert_eq!((rows.len(), told), (names.len(), names.len()));
        let failed: Vec<_> = rows
            .iter()
            .filter(|row| matches!(row.verdict, Verdict::Fail(_)))
            .collect();
        assert!(failed.is_empty(), "{failed:#?}");
        let passed = rows.iter().filter(|row| row.verdict == Verdict::Pass);
        assert!(passed.count() > 60);
    });
}

/// A device that serves less than it offers, one that accepts what is wrong, one that writes where it must not, one
/// that is gone afterwards.
#[test]
fn checks_can_fail() {
    served(8, |path| {
        let mut cases = crate::conform::cases(&offer(path).unwrap());
        let at = cases.iter().position(|c| c.name == "legacy: aes-cbc");
        let row = cases.swap_remove(at.unwrap()).run(path);
        let Verdict::Fail(what) = &row.verdict else {
            panic!("{row:?}")
        };
        assert!(what.contains("status err"), "{what}");
    });
    served(4096, |path| {
        let mut link = open(path, 0).unwrap();
        let vector = usable(&link.offer).unwrap();
        let accepts = crate::hostile::refused("accepts", &vector, |_, _| Ok(Status::Ok));
        assert_eq!(accepts.run(path).status(), "fail");
        let refuses = crate::hostile::refused("refuses", &vector, |_, _| Ok(Status::Err));
        assert_eq!(refuses.run(path).status(), "pass");
        let gone = crate::hostile::next_driver(Path::new("/no/such"), &vector);
        assert!(gone.unwrap_err().starts_with("the next driver"));
        assert_eq!(hostile(path, &mut link, &vector, |_, _| ()), Ok(()));
        let wrote = hostile(path, &mut link, &vector, |link, _| link.write(CANARY, &[0]));
        assert_eq!(wrote, Err("it wrote where nothing was writable".into()));
    });
}
