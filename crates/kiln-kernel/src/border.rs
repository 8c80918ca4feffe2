//! Functions of `kernel/` that a hosted tree's services call, by name: general registers only, in kernel mode, on the
//! calling thread's CPU.

use crate::sys;

macro_rules! functions {
    ($($name:ident)*) => {
        &[$((stringify!($name), sys::$name as *const () as usize)),*]
    };
}

/// The address of a function, if it is one of these.
pub fn address(name: &str) -> Option<usize> {
    let all: &[(&str, usize)] = functions!(kiln_irq_self);
    all.iter().find(|(n, _)| *n == name).map(|(_, at)| *at)
}

/// Whether there is one of that name.
pub fn has(name: &str) -> bool {
    address(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_name() {
        assert_eq!(
            address("kiln_irq_self"),
            Some(sys::kiln_irq_self as *const () as usize)
        );
        assert!(!has("kiln_no_such_function"));
    }
}
