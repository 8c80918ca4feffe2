//! Runs Kiln's own device, `kiln serve`, in a process that is killed when the [`Device`] is
//! dropped.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kiln_tree::child::end_with_parent;

use crate::boot::Scratch;
use crate::Error;

/// Maximum time that the device may take to create its socket.
const READY: Duration = Duration::from_secs(10);
/// Maximum time that the device may take to drain its queues and exit.
const DRAINED: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(10);

pub struct Device {
    child: Child,
    socket: Scratch,
    log: Scratch,
}

impl Device {
    /// Runs `program serve` with a new socket and the additional `arguments`.
    ///
    /// # Errors
    /// Fails if the process does not create its socket. The message contains the process's output.
    pub fn start(program: &Path, arguments: &[String]) -> Result<Device, Error> {
        let (socket, log) = (Scratch::new("virtio.sock")?, Scratch::new("serve.log")?);
        let to = fs::File::create(&log.path).map_err(|e| Error::cache(&log.path, e))?;
        let mut command = Command::new(program);
        command
            .arg("serve")
            .arg("--socket")
            .arg(&socket.path)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(to);
        end_with_parent(&mut command);
        let child = command.spawn().map_err(|source| Error::NoServe {
            program: program.to_owned(),
            source,
        })?;
        let mut device = Device { child, socket, log };
        let start = Instant::now();
        while !device.socket.path.exists() {
            if let Ok(Some(status)) = device.child.try_wait() {
                return Err(device.fault(&format!("ended ({status}) before it had its socket")));
            }
            if start.elapsed() > READY {
                return Err(device.fault("has no socket"));
            }
            std::thread::sleep(LOOK);
        }
        Ok(device)
    }

    pub fn socket(&self) -> &Path {
        &self.socket.path
    }

    /// Returns the output that the process has printed so far.
    pub fn read_log(&self) -> String {
        fs::read_to_string(&self.log.path).unwrap_or_default()
    }

    /// Ends the process with SIGTERM, as a user would.
    ///
    /// # Errors
    /// Fails if the process reports a failure or does not exit in time. The message contains the
    /// process's output.
    pub fn stop(mut self) -> Result<(), Error> {
        self.signal(libc::SIGTERM);
        let start = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(self.fault(&format!("ended with {status}"))),
                _ if start.elapsed() > DRAINED => return Err(self.fault("does not end")),
                _ => std::thread::sleep(LOOK),
            }
        }
    }

    fn signal(&self, signal: libc::c_int) {
        let id = libc::pid_t::try_from(self.child.id()).expect("a process id");
        // SAFETY: the system call takes no pointers. The child has not been waited for, so its PID
        // cannot have been reused.
        unsafe { libc::kill(id, signal) };
    }

    fn fault(&self, how: &str) -> Error {
        let said = self.read_log();
        let lines: Vec<&str> = said.lines().collect();
        let tail = lines[lines.len().saturating_sub(10)..].join("\n  ");
        Error::Serve {
            how: how.to_owned(),
            tail,
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
