//! Lists the libraries that `kiln libraries install` can install.

use super::build;
use super::job::{Built, Fault, Job};

/// A library that `kiln libraries install` can build or unpack.
pub(super) struct Library {
    /// The library's name, as accepted by `--peers`.
    pub name: &'static str,
    /// File name of the shared object in the library's directory.
    pub file: &'static str,
    /// Where the library comes from and how it is installed, as shown to the user.
    pub source: &'static str,
    /// Programs that the build needs, each followed by the Debian package that contains it.
    pub tools: &'static [(&'static str, &'static str)],
    /// Function that builds or unpacks the library in the job's empty directory.
    pub build: fn(&Job) -> Result<Built, Fault>,
}

const CARGO: (&str, &str) = ("cargo", "cargo");
const CC: (&str, &str) = ("cc", "gcc");
const MAKE: (&str, &str) = ("make", "make");
const APT: (&str, &str) = ("apt-get", "apt");

/// All libraries, in the order in which they are installed.
pub(super) const ALL: [Library; 4] = [
    Library {
        name: "openssl",
        file: "libcrypto.so",
        source: "crate openssl-src, built here",
        tools: &[CARGO, ("perl", "perl"), MAKE, CC],
        build: build::build_openssl,
    },
    Library {
        name: "ipsec-mb",
        file: "libIPSec_MB.so",
        source: "Debian sid's packages, unpacked",
        tools: &[APT, ("dpkg-deb", "dpkg")],
        build: build::unpack_ipsec_mb,
    },
    Library {
        name: "libgcrypt",
        file: "libgcrypt.so",
        source: "Debian sid's sources of libgpg-error and libgcrypt, built here",
        tools: &[APT, ("tar", "tar"), ("bzip2", "bzip2"), MAKE, CC],
        build: build::build_libgcrypt,
    },
    Library {
        name: "aws-lc",
        file: "libcrypto.so",
        source: "crate aws-lc-sys, built here",
        tools: &[CARGO, ("cmake", "cmake"), MAKE, CC],
        build: build::build_aws_lc,
    },
];
