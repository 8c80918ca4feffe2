//! Shared libraries, opened at run time.

use std::env;
use std::sync::Arc;

use libloading::Library;

/// How to find a library.
pub(super) struct Find {
    pub peer: &'static str,
    /// Environment variable that overrides the names below, for a custom build.
    pub variable: &'static str,
    /// File names, tried in this order.
    pub names: &'static [&'static str],
    /// The package that provides the library.
    pub package: &'static str,
}

#[derive(Clone)]
pub(super) struct Opened {
    library: Arc<Library>,
    /// Its file name, as it was requested.
    pub file: String,
}

impl Find {
    /// Opens the library and calls `load` to resolve functions, for one name after the other until it succeeds.
    ///
    /// # Errors
    /// One line with the reason and a remedy.
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
    /// Opens the library of this name.
    pub(super) fn open(name: &str) -> Result<Opened, String> {
        // SAFETY: the constructors of these libraries set up their own memory only; a user who names another file is
        // responsible for it.
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
    /// The symbol is missing, because the library is too old.
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
