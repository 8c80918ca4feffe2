//! Tests that a key in a front end's message does not stay in memory, however the message is
//! processed.

#[path = "../../kiln-virtio/tests/looking/mod.rs"]
mod looking;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;

use kiln_device::adapter::{Adapter, Error, Message};
use looking::{found, MARK};

const SET_PROTOCOL_FEATURES: u32 = 16;
const CREATE_CRYPTO_SESSION: u32 = 26;
/// The protocol feature that CREATE_CRYPTO_SESSION needs.
const CRYPTO_SESSION: u64 = 1 << 7;

fn bytes(request: u32, payload: Vec<u8>) -> Vec<u8> {
    let message = Message::new(request, 1, payload);
    [&message.header()[..], &message.payload].concat()
}

/// Runs an adapter while the front end sends these bytes and disconnects, and the device stays
/// silent. Returns the adapter's result.
fn ends(sent: &[u8]) -> Result<(), Error> {
    let (mut front_end, theirs) = UnixStream::pair().unwrap();
    let (adapter, device) = Adapter::new(theirs).unwrap();
    let thread = thread::spawn(move || adapter.run(&|_: &[u8], _: &mut [u8]| 0));
    front_end.write_all(sent).unwrap();
    drop(front_end);
    let done = thread.join().unwrap();
    drop(device);
    done
}

#[test]
fn a_key_in_a_message_that_is_not_served_is_wiped() {
    // Control: the key must be found in memory that is not wiped.
    assert_eq!(found(|| drop(MARK.to_vec())), 1);

    // An AES-CBC session in QEMU 7.2's layout.
    let mut session = vec![0; 632];
    session[8] = 3;
    session[12] = 16;
    session[32..34].copy_from_slice(&[1, 1]);
    session[56..72].copy_from_slice(&MARK);
    let create = bytes(CREATE_CRYPTO_SESSION, session);
    let agree = bytes(SET_PROTOCOL_FEATURES, CRYPTO_SESSION.to_le_bytes().into());
    let cut = &create[..400];
    // In the three cases, the session is not negotiated, waits for the device, or is cut off after
    // the key.
    for (sent, waits) in [
        (create.clone(), false),
        ([&agree[..], &create].concat(), true),
        (cut.to_vec(), false),
    ] {
        let mut done = Ok(());
        assert_eq!(found(|| done = ends(&sent)), 0, "{} bytes", sent.len());
        match done {
            Err(Error::NotAgreed(CREATE_CRYPTO_SESSION)) => assert_eq!(sent.len(), create.len()),
            Err(Error::CutShort) => assert_eq!(sent.len(), cut.len()),
            Ok(()) => assert!(waits),
            other => panic!("{other:?}"),
        }
    }
}
