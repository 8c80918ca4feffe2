//! A cipher of the tree's crypto API as an operation of a load (`tree/stream.c`).

use std::ffi::{c_void, CStr, CString};

use kiln_kernel::cpu::{self, GateFn};
use kiln_kernel::load::{OpCrypt, Operation};
use kiln_kernel::script::RequestOps;

use crate::{raw, Error, Host};

/// An open cipher with its key, and requests to have in flight.
pub struct Stream {
    raw: *mut c_void,
    crypt: OpCrypt,
    close: GateFn,
    slots: u32,
    driver: String,
}

impl Stream {
    /// Opens a driver, or the best one of an algorithm. Requests of a task sleep and may be backlogged, those of a
    /// softirq do neither.
    ///
    /// # Errors
    /// The tree has none, or it refuses the key.
    pub fn open(
        host: &mut Host,
        driver: &str,
        key: &[u8],
        slots: u32,
        sleeps: bool,
    ) -> Result<Stream, Error> {
        let name = CString::new(driver)?;
        let mut open = raw::StreamOpen {
            driver: name.as_ptr(),
            key: key.as_ptr(),
            key_len: key.len() as u32,
            slots,
            sleeps: u32::from(sleeps),
            ..Default::default()
        };
        // SAFETY: the function takes this structure; the others have these types.
        let (result, crypt, close) = unsafe {
            (
                host.call("kiln_glue_stream_open", (&raw mut open).cast())?,
                host.image.function("kiln_glue_stream_crypt")?,
                host.image.function("kiln_glue_stream_close")?,
            )
        };
        if result != 0 {
            return Err(Error::Refused {
                driver: driver.to_owned(),
                source: std::io::Error::from_raw_os_error(-(result as i64) as i32),
            });
        }
        // SAFETY: a C string, of which the tree's copy always has an end.
        let driver = unsafe { CStr::from_ptr(open.name.as_ptr()) };
        Ok(Stream {
            raw: open.stream.cast(),
            crypt,
            close,
            slots,
            driver: driver.to_string_lossy().into_owned(),
        })
    }

    /// The driver's name.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// The transform, for [`Stream::requests`].
    pub fn handle(&self) -> *mut c_void {
        self.raw
    }

    /// The functions by which a script makes requests to streams of this image.
    ///
    /// # Errors
    /// The image is of another version.
    pub fn requests(host: &Host) -> Result<RequestOps, Error> {
        // SAFETY: `tree/stream.c` declares them with the types of `struct kiln_request_ops`.
        unsafe {
            Ok(RequestOps {
                request_alloc: Some(host.image.function("kiln_glue_request_alloc")?),
                request_free: Some(host.image.function("kiln_glue_request_free")?),
                submit: Some(host.image.function("kiln_glue_request_submit")?),
                tfm_free: Some(host.image.function("kiln_glue_request_tfm_free")?),
            })
        }
    }

    /// The stream as an operation of a load, which must not outlive it.
    pub fn operation(&self) -> Operation {
        // SAFETY: what `struct kiln_op` asks for, by the tree's own code.
        unsafe { Operation::new(self.crypt, self.raw, self.slots) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: open, nothing in flight; closed once, on the CPU that opened it.
        unsafe { cpu::gate(self.close, self.raw) };
    }
}
