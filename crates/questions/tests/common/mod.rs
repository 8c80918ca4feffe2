//! Builds and loads copies of `kernel/`, in addition to the one linked into the test.

use std::ffi::c_void;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_kbuild::Kbuild;
use kiln_kernel::cipher::Impl;
use kiln_kernel::crypto::Api;
use libloading::Library;

/// Returns the repository's root directory.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Copies a directory recursively.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// Builds the sources in `dir/kernel` as a shared library, and returns its path.
pub(crate) fn build_library(dir: &Path) -> PathBuf {
    let built = Kbuild::new(dir.join("kernel"), dir.join("out")).build();
    let built = built.unwrap_or_else(|e| panic!("{e}"));
    let library = dir.join("kernel.so");
    let linked = Command::new(&built.compiler.path)
        .args(["-shared", "-nostdlib", "-Wl,-Bsymbolic", "-o"])
        .arg(&library)
        .args(built.objects.iter().map(|o| &o.path))
        .output()
        .unwrap();
    assert!(
        linked.status.success(),
        "{}",
        String::from_utf8_lossy(&linked.stderr)
    );
    library
}

/// Loads a library made by `build_library`, and returns its implementations and its crypto API.
pub(crate) fn load(library: &Path) -> (Vec<Impl>, &'static Api) {
    // SAFETY: the library has no constructors and stays loaded. Its functions have the types
    // declared in `kernel/include/kiln/abi/`.
    unsafe {
        let library = Box::leak(Box::new(Library::new(library).unwrap()));
        let symbol = |name: &str| *library.get::<*const c_void>(name.as_bytes()).unwrap();
        let count = library
            .get::<extern "C" fn() -> usize>(b"kiln_impls")
            .unwrap();
        let get = library
            .get::<extern "C" fn(usize) -> *const c_void>(b"kiln_impl")
            .unwrap();
        let impls = (0..count()).map(|i| Impl::foreign(get(i))).collect();
        (impls, Api::foreign(&symbol))
    }
}
