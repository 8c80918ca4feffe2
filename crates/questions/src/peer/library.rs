//! A shared library, opened when Kiln runs.

use std::env;
use std::sync::Arc;

use libloading::Library;

/// How a library is found.
pub(super) struct Find {
    /// The peer's name.
    pub peer: &'static str,
    /// Names the library instead of those below; for a build of one's own.
    pub variable: &'static str,
    /// Tried in this order.
    pub names: &'static [&'static str],
    /// What provides it.
    pub package: &'static str,
}

/// An open library.
#[derive(Clone)]
pub(super) struct Opened {
    library: Arc<Library>,
    /// Its file, as it was asked for.
    pub file: String,
}

impl Find {
    /// Opens it and has `load` look up what it needs, name by name until one will do.
    ///
    /// # Errors
    /// A line that says why not, and what would help.
    pub(super) fn load<T>(&self, load: impl Fn(&Opened) -> Result<T, String>) -> Result<T, String> {
        let named = env::var(self.variable).ok().filter(|name| !name.is_empty());
        let names = match &named {
            Some(name) => vec![name.as_str()],
            None => self.names.to_vec(),
        };
        let mut faults = Vec::new();
        for name in names {
            match Opened::open(name).and_then(|o| load(&o)) {
                Ok(loaded) => return Ok(loaded),
                Err(why) => faults.push(why),
            }
        }
        let help = match named {
            Some(_) => format!("check {}", self.variable),
            None => format!("apt-get install {}", self.package),
        };
        Err(format!(
            "peer {} is not here: {}: {help}",
            self.peer,
            faults.join("; ")
        ))
    }
}

impl Opened {
    /// The library of this name.
    pub(super) fn open(name: &str) -> Result<Opened, String> {
        // SAFETY: the constructors of these libraries set up their own memory only; whoever names another file answers
        // for it.
        let library = unsafe { Library::new(name) }.map_err(|e| one_line(&e))?;
        Ok(Opened {
            library: Arc::new(library),
            file: name.to_string(),
        })
    }

    /// The address of a symbol as a value of type `T`, a pointer.
    ///
    /// # Safety
    /// `T` is the symbol's type in the library's headers, and the value is not used after the last `Opened` of this
    /// library is gone.
    ///
    /// # Errors
    /// If it is not there: the library is too old.
    pub(super) unsafe fn get<T: Copy>(&self, symbol: &str) -> Result<T, String> {
        // SAFETY: the caller's promise.
        let found = unsafe { self.library.get::<T>(symbol.as_bytes()) };
        found
            .map(|s| *s)
            .map_err(|e| format!("{} is too old: {}", self.file, one_line(&e)))
    }
}

fn one_line(e: &libloading::Error) -> String {
    e.to_string().lines().next().unwrap_or("?").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIND: Find = Find {
        peer: "nobody",
        variable: "KILN_TEST_NOBODY",
        names: &["/no/such/file.so", "libc.so.6"],
        package: "nothing",
    };

    #[test]
    fn faults_name_the_file_and_what_would_help() {
        let get = |o: &Opened| {
            // SAFETY: never called.
            unsafe { o.get::<unsafe extern "C" fn()>("no_such_symbol") }
        };
        let why = FIND.load(get).err().unwrap();
        for part in ["/no/such/file.so", "too old", "no_such_symbol", "apt-get"] {
            assert!(why.contains(part), "{why}");
        }
        assert!(!why.contains('\n'));
    }

    #[test]
    fn the_first_that_will_do_is_taken() {
        let get = |o: &Opened| {
            // SAFETY: never called.
            unsafe { o.get::<unsafe extern "C" fn()>("malloc") }.map(|_| o.file.clone())
        };
        assert_eq!(FIND.load(get).unwrap(), "libc.so.6");
    }
}
