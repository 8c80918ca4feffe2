//! Tests that Ctrl-C stops every command that waits for a device, regardless of the device's
//! behaviour.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::common::{catches_sigint, interrupt};
use crate::device::until;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

/// How the device behaves towards programs that connect to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conduct {
    /// The device does not accept connections, and its backlog is full.
    Deaf,
    /// The device does not answer messages.
    Mute,
    /// The device answers all messages but processes no requests.
    Idle,
    /// Like `Idle`, but the device also fills the counters of the eventfds that it shares with its
    /// driver, keeps them full, and makes the eventfds blocking.
    Fills,
}

/// Maximum time between Ctrl-C and the exit of a command. It is shorter than the commands' own
/// timeouts, such as the 5 s for which virtio-check waits for an answer.
const SOON: Duration = Duration::from_secs(4);

/// Feature bits: VERSION_1 and VHOST_USER_F_PROTOCOL_FEATURES. The protocol features below are MQ,
/// REPLY_ACK and CONFIG.
const FEATURES: u64 = 1 << 32 | 1 << 30;
const PROTOCOL: u64 = 1 | 1 << 3 | 1 << 9;

/// Returns the configuration of a device: hardware ready, one data queue, the cipher service with
/// AES-CBC and DES-CBC, keys of up to 64 bytes, and requests of up to 1 MiB.
fn config() -> Vec<u8> {
    let words: [u32; 12] = [1, 1, 1, 1 << 3 | 1 << 6, 0, 0, 0, 0, 0, 64, 64, 0];
    let mut bytes = words.map(u32::to_le_bytes).concat();
    bytes.extend((1_u64 << 20).to_le_bytes());
    bytes
}

/// Clears O_NONBLOCK if `blocking` is true, and sets it otherwise.
fn set_blocking(file: &File, blocking: bool) {
    let flags = if blocking { 0 } else { libc::O_NONBLOCK };
    // SAFETY: the descriptor is open, and fcntl() takes no pointer for this command.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) };
    assert_eq!(done, 0);
}

/// Fills an eventfd's counter. A new thread keeps the counter full until the connection has ended.
fn fill(mut file: File, connection: Weak<()>) {
    set_blocking(&file, false);
    for count in [u64::MAX - 1, 1] {
        while file.write(&count.to_ne_bytes()).is_ok() {}
    }
    set_blocking(&file, true);
    thread::spawn(move || {
        while connection.strong_count() > 0 {
            let _ = file.write(&1_u64.to_ne_bytes());
        }
    });
}

/// Answers the messages on one connection until the program disconnects.
fn converse(mut stream: UnixStream, conduct: Conduct, rings: &AtomicUsize) -> std::io::Result<()> {
    let connection = Arc::new(());
    loop {
        let mut header = [0; 12];
        let (n, file) = stream.recv_with_fd(&mut header)?;
        if n == 0 {
            return Ok(());
        }
        stream.read_exact(&mut header[n..])?;
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        let (request, flags) = (word(0), word(4));
        let mut payload = vec![0; word(8) as usize];
        stream.read_exact(&mut payload)?;
        let answer = match request {
            1 => Some(FEATURES.to_le_bytes().to_vec()),
            15 => Some(PROTOCOL.to_le_bytes().to_vec()),
            17 => Some(2_u64.to_le_bytes().to_vec()),
            24 => {
                payload.truncate(12);
                Some([payload, config()].concat())
            }
            _ => (flags & 8 != 0).then(|| vec![0; 8]),
        };
        if let (12 | 13, Some(file), Conduct::Fills) = (request, file, conduct) {
            fill(file, Arc::downgrade(&connection));
        }
        // Count the messages that enable a ring. Each is the last message about its ring.
        if request == 18 {
            rings.fetch_add(1, Ordering::SeqCst);
        }
        if let Some(answer) = answer {
            let header = [request, 5, answer.len() as u32].map(u32::to_le_bytes);
            stream.write_all(&[header.concat(), answer].concat())?;
        }
    }
}

/// Serves a socket with the behaviour that `conduct` specifies. The returned function reports
/// whether a program is already waiting for the device.
fn serve(path: &Path, conduct: Conduct) -> impl Fn() -> bool {
    let listener = UnixListener::bind(path).unwrap();
    let [met, rings] = [0; 2].map(|_| Arc::new(AtomicUsize::new(0)));
    let waits = {
        let (met, rings) = (met.clone(), rings.clone());
        move || match conduct {
            // A device that accepts no connections cannot tell whether a program is waiting, so
            // assume that one is.
            Conduct::Deaf => true,
            Conduct::Mute => met.load(Ordering::SeqCst) > 0,
            Conduct::Idle | Conduct::Fills => rings.load(Ordering::SeqCst) > 1,
        }
    };
    if conduct == Conduct::Deaf {
        // SAFETY: the descriptor is open, and listen() takes no pointer.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let full = UnixStream::connect(path).unwrap();
        std::mem::forget((listener, full));
        return waits;
    }
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            met.fetch_add(1, Ordering::SeqCst);
            match conduct {
                Conduct::Mute => std::mem::forget(stream),
                _ => {
                    let rings = rings.clone();
                    thread::spawn(move || converse(stream, conduct, &rings));
                }
            }
        }
    });
    waits
}

#[test]
fn ctrl_c_ends_what_waits_for_a_device() {
    let ctrlq = ["ctrlq", "--quick", "--session", "cipher", "--mode"];
    let with = |mode| match mode {
        "async" => [&ctrlq[..], &[mode, "--socket"]].concat(),
        mode => [&ctrlq[..], &[mode, "--workers", "3", "--socket"]].concat(),
    };
    let commands = [
        with("poll"),
        with("wait"),
        with("async"),
        vec![
            "speed", "xts(aes)", "--quick", "--len", "64", "--via", "virtio", "--queues", "1",
            "--depth", "1", "--socket",
        ],
        vec!["virtio-check", "--socket"],
    ];
    let dir = tempfile::tempdir().unwrap();
    for conduct in [Conduct::Deaf, Conduct::Mute, Conduct::Idle, Conduct::Fills] {
        // Run one command at a time. If commands competed for the cores, virtio-check could give up
        // before it is interrupted.
        for (n, command) in commands.iter().enumerate() {
            let what = format!("{} with {conduct:?}", command.join(" "));
            let path = dir.path().join(format!("{conduct:?}{n}"));
            let waits = serve(&path, conduct);
            let mut child = Command::new(env!("CARGO_BIN_EXE_kiln"))
                .args(command)
                .arg(&path)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            until(&what, || waits() && catches_sigint(child.id()));
            sleep(Duration::from_millis(300));
            let is_there = child.try_wait().unwrap().is_none();
            assert!(is_there, "{what}: the control, it waits");
            let start = Instant::now();
            interrupt(child.id());
            let status = loop {
                if let Some(status) = child.try_wait().unwrap() {
                    break status;
                }
                if start.elapsed() > SOON {
                    let _ = child.kill();
                    panic!("{what}: it is still there {SOON:?} after Ctrl-C");
                }
                sleep(Duration::from_millis(5));
            };
            println!("{what}: {:.0?}", start.elapsed());
            assert_eq!(status.code(), Some(130), "{what}");
        }
    }
}
