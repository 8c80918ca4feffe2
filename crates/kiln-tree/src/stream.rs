//! Makes the ciphers in the tree's crypto API available as load operations (`tree/stream.c`).

use std::ffi::{c_void, CStr, CString};

use kiln_kernel::cpu::{self, GateFn};
use kiln_kernel::load::{OpCrypt, Operation};
use kiln_kernel::script::RequestOps;

use crate::{raw, Error, Host};

/// An open cipher with a key and a fixed number of requests.
pub struct Stream {
    raw: *mut c_void,
    crypt: OpCrypt,
    close: GateFn,
    slots: u32,
    driver: String,
}

impl Stream {
    /// Opens a driver, or an algorithm's highest-priority driver. If `sleeps` is set, the requests
    /// are made by a task and may sleep or be backlogged; otherwise, a softirq makes them.
    ///
    /// # Errors
    /// Fails if the tree has no such driver, or the driver rejects the key.
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
        // SAFETY: the argument points to the structure that kiln_glue_stream_open() takes, and
        // `stream.c` defines the two other functions with these types.
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
        // SAFETY: the tree has written a NUL-terminated string to the array.
        let driver = unsafe { CStr::from_ptr(open.name.as_ptr()) };
        Ok(Stream {
            raw: open.stream.cast(),
            crypt,
            close,
            slots,
            driver: driver.to_string_lossy().into_owned(),
        })
    }

    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Returns the stream's handle, which the caller passes to the functions that
    /// [`Stream::requests`] returns.
    pub fn handle(&self) -> *mut c_void {
        self.raw
    }

    /// Returns the functions that a script calls to make requests to this image's streams.
    ///
    /// # Errors
    /// Fails if the image is from another version of Kiln.
    pub fn requests(host: &Host) -> Result<RequestOps, Error> {
        // SAFETY: `tree/stream.c` declares these functions with the types in `struct
        // kiln_request_ops`.
        unsafe {
            Ok(RequestOps {
                request_alloc: Some(host.image.function("kiln_glue_request_alloc")?),
                request_free: Some(host.image.function("kiln_glue_request_free")?),
                submit: Some(host.image.function("kiln_glue_request_submit")?),
                tfm_free: Some(host.image.function("kiln_glue_request_tfm_free")?),
            })
        }
    }

    /// Returns a load operation that uses the stream, which must outlive the operation.
    pub fn operation(&self) -> Operation {
        // SAFETY: the tree's code fulfils the contract of `struct kiln_op`.
        unsafe { Operation::new(self.crypt, self.raw, self.slots) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is open and has no request in flight. It is closed only here, on the
        // CPU that opened it.
        unsafe { cpu::gate(self.close, self.raw) };
    }
}
