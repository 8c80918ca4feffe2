//! Lets a thread sleep until its device raises an interrupt.

use std::io::{ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::time::Duration;

use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::EventFd;

/// An edge-triggered epoll instance that watches two eventfds, the device's and the driver's own.
/// The eventfds are never read. Reading one would cost another system call. It could also block,
/// because the device shares the eventfd's O_NONBLOCK flag and may clear it.
pub(crate) struct Bell(Epoll);

impl Bell {
    pub(crate) fn new(call: &EventFd, wake: &EventFd) -> Result<Bell> {
        let epoll = Epoll::new()?;
        let edges = EpollEvent::new(EventSet::IN | EventSet::EDGE_TRIGGERED, 0);
        for event in [call, wake] {
            epoll.ctl(ControlOperation::Add, event.as_raw_fd(), edges)?;
        }
        Ok(Bell(epoll))
    }

    /// Waits until an event is signalled or `time` has passed. Events signalled since the last call
    /// also count, and the call may return spuriously.
    pub(crate) fn wait(&self, time: Option<Duration>) -> Result<()> {
        // Round up, so that a wait of less than a millisecond does not become zero.
        let ms = time.map_or(-1, |t| i32::try_from(t.as_millis() + 1).unwrap_or(i32::MAX));
        match self.0.wait(ms, &mut [EpollEvent::default()]) {
            Err(e) if e.kind() != ErrorKind::Interrupted => Err(e),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_once_for_what_was_before_and_again_for_what_is_new() {
        for flags in [0, libc::EFD_NONBLOCK] {
            let [event, wake] = [0; 2].map(|_| EventFd::new(flags).unwrap());
            let bell = Bell::new(&event, &wake).unwrap();
            let rung = || bell.0.wait(0, &mut [EpollEvent::default()]).unwrap();
            assert_eq!(rung(), 0);
            event.write(1).unwrap();
            assert_eq!((rung(), rung()), (1, 0));
            event.write(1).unwrap();
            bell.wait(None).unwrap();
            assert_eq!(rung(), 0);
            // If the device fills its eventfd's counter, the driver's eventfd must still work.
            event.write(u64::MAX - 3).unwrap();
            assert_eq!(rung(), 1);
            wake.write(1).unwrap();
            assert_eq!((rung(), rung()), (1, 0));
        }
    }
}
