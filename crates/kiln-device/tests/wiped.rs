//! Tests that a key in a front end's message does not stay in memory, however the message is
//! processed.

#[path = "../../kiln-virtio/tests/looking/mod.rs"]
mod looking;

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;

use kiln_device::vhost_user::{Error, FrontEndConnection, Message, Reply};
use looking::{found, MARK};

const SET_PROTOCOL_FEATURES: u32 = 16;
const CREATE_CRYPTO_SESSION: u32 = 26;
/// The protocol feature that CREATE_CRYPTO_SESSION needs.
const CRYPTO_SESSION: u64 = 1 << 7;

fn bytes(request: u32, payload: Vec<u8>) -> Vec<u8> {
    Message::new(request, 1, payload).to_bytes().to_vec()
}

/// Serves a front end that sends these bytes and then disconnects, with a session table that
/// refuses every request. Returns how the connection ended.
fn ends(sent: &[u8]) -> Result<(), Error> {
    let (mut stream, theirs) = UnixStream::pair().unwrap();
    let front_end = FrontEndConnection::new(theirs).unwrap();
    let thread = thread::spawn(move || {
        let mut device = |_| Ok(Reply::Done);
        front_end.run(&mut device, &|_: &[u8], _: &mut [u8]| 0)
    });
    stream.write_all(sent).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    thread.join().unwrap()
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
    // The three cases: sessions were not negotiated, the table refuses the session, and the message
    // is cut off after the key.
    for (sent, is_refused) in [
        (create.clone(), false),
        ([&agree[..], &create].concat(), true),
        (cut.to_vec(), false),
    ] {
        let mut done = Ok(());
        assert_eq!(found(|| done = ends(&sent)), 0, "{} bytes", sent.len());
        match done {
            Err(Error::NotNegotiated(CREATE_CRYPTO_SESSION)) => {
                assert_eq!(sent.len(), create.len())
            }
            Err(Error::CutShort) => assert_eq!(sent.len(), cut.len()),
            Ok(()) => assert!(is_refused),
            other => panic!("{other:?}"),
        }
    }
}
