//! Opens shared libraries at run time, either from Kiln's cache or from the system.

use std::env;
use std::path::Path;
use std::sync::Arc;

use libloading::os::unix::Library;

use super::installed::{compare_versions, directory, find_installed};

/// Where to look for a library.
pub(super) struct Find {
    pub peer: &'static str,
    /// Environment variable that holds the path of a custom build. If it is set, only that file is
    /// tried.
    pub variable: &'static str,
    /// File names to look for in the system's library directories, newest version first.
    pub names: &'static [&'static str],
    /// File name of the library in Kiln's cache; `None` if `kiln libraries install` does not
    /// support the library.
    pub cached: Option<&'static str>,
    /// The command that installs the library.
    pub remedy: &'static str,
}

#[derive(Clone)]
pub(super) struct Opened {
    library: Arc<Library>,
    /// Name of the library's file, as it was passed to dlopen().
    pub file: String,
    /// Where the file was found: `cache`, `system` or `named`.
    pub place: &'static str,
}

impl Find {
    /// Opens the library and calls `load` to resolve its functions. Compares the newest loadable
    /// version in the cache with the newest one on the system, and uses the one with the greater
    /// `version`. If `only` is given or the environment variable is set, tries only that file.
    ///
    /// # Errors
    /// Returns one line that states the reason and a remedy.
    pub(super) fn load<T>(
        &self,
        only: Option<&Path>,
        load: impl Fn(&Opened) -> Result<T, String>,
        version: impl Fn(&T) -> &str,
    ) -> Result<T, String> {
        let named = env::var(self.variable).ok().filter(|name| !name.is_empty());
        let named = match only {
            Some(file) => Some(file.to_string_lossy().into_owned()),
            None => named,
        };
        let mut faults = Vec::new();
        let mut first = |names: &[String], place| {
            names.iter().find_map(|name| {
                let loaded = Opened::open(name, place).and_then(|o| load(&o));
                loaded.map_err(|why| faults.push(why)).ok()
            })
        };
        let found = match &named {
            Some(name) => first(std::slice::from_ref(name), "named"),
            None => {
                let cached = first(&self.list_cached(), "cache");
                let names: Vec<String> = self.names.iter().map(|n| n.to_string()).collect();
                match (cached, first(&names, "system")) {
                    (Some(a), Some(b)) if compare_versions(version(&a), version(&b)).is_lt() => {
                        Some(b)
                    }
                    (Some(a), _) => Some(a),
                    (None, b) => b,
                }
            }
        };
        let help = match (only, named) {
            (Some(_), _) => "report it, with the output of kiln --version".to_string(),
            (None, Some(_)) => format!("check {}", self.variable),
            (None, None) => self.remedy.to_string(),
        };
        found.ok_or_else(|| {
            if faults.is_empty() {
                faults.push("not installed".to_string());
            }
            format!(
                "peer {} is not here: {}. What to do: {help}",
                self.peer,
                faults.join("; ")
            )
        })
    }

    /// Returns the library's files in Kiln's cache, newest first.
    fn list_cached(&self) -> Vec<String> {
        let (Some(file), Some(all)) = (self.cached, directory()) else {
            return Vec::new();
        };
        find_installed(&all, self.peer, file)
            .into_iter()
            .map(|i| i.file.to_string_lossy().into_owned())
            .collect()
    }
}

impl Opened {
    /// Opens the library whose file name or path is `name`.
    pub(super) fn open(name: &str, place: &'static str) -> Result<Opened, String> {
        // Never unload the library: AWS-LC registers a function that is called whenever a thread
        // exits, and unloading would remove that function's code.
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;
        // SAFETY: the constructors of these libraries set up only their own memory. A user who
        // names another file is responsible for that file's constructors.
        let library = unsafe { Library::open(Some(name), flags) }.map_err(|e| one_line(&e))?;
        Ok(Opened {
            library: Arc::new(library),
            file: name.to_string(),
            place,
        })
    }

    /// Returns the address of a symbol as a value of the pointer type `T`.
    ///
    /// # Safety
    /// `T` must be the symbol's type in the library's headers. The value must not be used after the
    /// last `Opened` of this library has been dropped.
    ///
    /// # Errors
    /// Fails if the library lacks the symbol.
    pub(super) unsafe fn get<T: Copy>(&self, symbol: &str) -> Result<T, String> {
        // SAFETY: the caller promises that `T` is the symbol's type.
        let found = unsafe { self.library.get::<T>(symbol.as_bytes()) };
        found.map(|s| *s).map_err(|_| {
            format!(
                "{} lacks the symbol {symbol}, so it is another library or too old",
                self.file
            )
        })
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
        cached: None,
        remedy: "apt-get install nothing",
    };

    #[test]
    fn faults_name_the_file_and_what_would_help() {
        let get = |o: &Opened| {
            // SAFETY: the caller never calls the returned function.
            unsafe { o.get::<unsafe extern "C" fn()>("no_such_symbol") }
        };
        let why = FIND.load(None, get, |_| "1").err().unwrap();
        for part in ["/no/such/file.so", "too old", "no_such_symbol", "apt-get"] {
            assert!(why.contains(part), "{why}");
        }
        assert!(!why.contains('\n'));
    }

    #[test]
    fn the_first_that_will_do_is_taken() {
        let get = |o: &Opened| {
            // SAFETY: the returned function is never called.
            unsafe { o.get::<unsafe extern "C" fn()>("malloc") }.map(|_| o.file.clone())
        };
        assert_eq!(FIND.load(None, get, |_| "1").unwrap(), "libc.so.6");
    }
}
