//! Builds the module that generates traffic in a guest (`linux/virtio/`), and parses the result
//! line that the module prints.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kiln_kbuild::Compiler;
use kiln_tree::{key, root, update, Make, WITHOUT_BTF};

use super::guest::Guest;
use crate::Error;

/// Names of the algorithms that the traffic uses, each with the name of the driver that Linux's
/// virtio_crypto registers for it.
pub(super) const DRIVERS: [(&str, &str); 2] = [
    ("cbc(aes)", "virtio_crypto_aes_cbc"),
    ("rsa", "virtio-crypto-rsa"),
];

/// Names and contents of the files in the module's directory.
const SOURCES: [(&str, &str); 5] = [
    ("Kbuild", include_str!("../../../../linux/virtio/Kbuild")),
    ("data.c", include_str!("../../../../linux/virtio/data.c")),
    (
        "sessions.c",
        include_str!("../../../../linux/virtio/sessions.c"),
    ),
    (
        "traffic.c",
        include_str!("../../../../linux/virtio/traffic.c"),
    ),
    (
        "traffic.h",
        include_str!("../../../../linux/virtio/traffic.h"),
    ),
];

pub(super) const NAME: &str = "kiln_traffic";

/// Prefix of the line that the module prints.
pub(super) const PREFIX: &str = "kiln_traffic: ";

/// The kind of traffic that a guest's threads generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The threads set cipher keys. Each time a key is set, two sessions are destroyed and two are
    /// created.
    CipherSessions,
    /// The threads set RSA keys. Each time a key is set, one session is destroyed and one is
    /// created.
    AkcipherSessions,
    /// The threads encrypt messages and check the results.
    CipherData,
}

impl Kind {
    /// All kinds, in the order they are measured.
    pub const ALL: [Kind; 3] = [
        Kind::CipherSessions,
        Kind::AkcipherSessions,
        Kind::CipherData,
    ];

    /// Returns the name that rows use for this kind.
    pub fn name(self) -> &'static str {
        match self {
            Kind::CipherSessions => "cipher-sessions",
            Kind::AkcipherSessions => "akcipher-sessions",
            Kind::CipherData => "cipher-data",
        }
    }

    /// Returns Linux's names for the algorithm and the driver that this kind uses.
    pub(super) fn driver(self) -> (&'static str, &'static str) {
        DRIVERS[usize::from(self == Kind::AkcipherSessions)]
    }

    pub(super) fn has_len(self) -> bool {
        self == Kind::CipherData
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) kind: Kind,
    pub(super) workers: u32,
    pub(super) each: Duration,
    pub(super) len: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) ms: u64,
    pub(super) operations: u64,
    pub(super) errors: u64,
    pub(super) wrong: u64,
    pub(super) max_ns: u64,
}

impl Load {
    pub(super) fn parameters(&self) -> String {
        format!(
            "kind={} driver={} workers={} ms={} len={}",
            self.kind.name(),
            self.kind.driver().1,
            self.workers,
            self.each.as_millis().max(1),
            self.len
        )
    }

    /// Parses the module's result line, given without its prefix. Returns `None` if the line does
    /// not belong to this measurement.
    pub(super) fn parse_result(&self, line: &str) -> Option<Told> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize, name: &str| -> Option<u64> {
            (*words.get(at)? == name).then_some(())?;
            words.get(at + 1)?.parse().ok()
        };
        let whose = [self.kind.name(), self.kind.driver().1];
        if words.get(..2)? != whose || number(2, "workers")? != u64::from(self.workers) {
            return None;
        }
        Some(Told {
            ms: number(4, "ms").filter(|ms| *ms > 0)?,
            operations: number(6, "operations")?,
            errors: number(8, "errors")?,
            wrong: number(10, "wrong")?,
            max_ns: number(12, "max_ns")?,
        })
    }
}

/// Builds the traffic module for this guest's kernel.
pub(super) fn build(
    guest: &Guest,
    compiler: &Compiler,
    stop: &AtomicBool,
) -> Result<Vec<u8>, Error> {
    let dir = place(guest, compiler)?;
    for (name, text) in SOURCES {
        update(&dir.join(name), text)?;
    }
    let log = dir.join("log");
    let _ = fs::remove_file(&log);
    let (directory, more) = match guest {
        Guest::User { built } => (
            built.cache.source.as_path(),
            vec![
                format!("O={}", built.cache.objects.display()),
                "ARCH=um".into(),
            ],
        ),
        Guest::Qemu { kernel, .. } => (kernel.headers.as_path(), Vec::new()),
    };
    let external = format!("M={}", dir.display());
    let mut arguments: Vec<&str> = more.iter().map(String::as_str).collect();
    arguments.extend([external.as_str(), WITHOUT_BTF, "modules"]);
    let make = Make {
        directory,
        compiler,
        log: &log,
        stop,
    };
    let said = make.run(&arguments, &mut |_| ())?;
    let path = dir.join(format!("{NAME}.ko"));
    if !said.success || !path.is_file() {
        return Err(Error::Module {
            which: "the module that makes traffic",
            against: directory.display().to_string(),
            cause: said.cause(),
            log,
        });
    }
    fs::read(&path).map_err(|e| Error::cache(&path, e))
}

fn place(guest: &Guest, compiler: &Compiler) -> Result<PathBuf, Error> {
    let compiled = format!("{} {}", compiler.path.display(), compiler.version);
    let of = |headers: &Path| -> Result<PathBuf, Error> {
        if !headers.join("Makefile").is_file() {
            return Err(Error::NoHeaders {
                dir: headers.to_owned(),
                release: guest.release(),
            });
        }
        Ok(root()?
            .join("kiln/linux/virtio")
            .join(key(headers, &compiled, 0)))
    };
    match guest {
        Guest::User { built } => Ok(built.cache.dir.join("virtio")),
        Guest::Qemu { kernel, .. } => of(&kernel.headers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Load = Load {
        kind: Kind::CipherSessions,
        workers: 8,
        each: Duration::from_millis(500),
        len: 4096,
    };

    #[test]
    fn a_line_is_read_and_another_measurements_is_not() {
        let line =
            "cipher-sessions virtio_crypto_aes_cbc workers 8 ms 501 operations 40000 errors 1 \
                    wrong 0 max_ns 83000";
        let wanted = Told {
            ms: 501,
            operations: 40000,
            errors: 1,
            wrong: 0,
            max_ns: 83000,
        };
        assert_eq!(LOAD.parse_result(line), Some(wanted));
        for (from, to) in [
            ("workers 8", "workers 1"),
            ("cipher-sessions", "cipher-data"),
            ("ms 501", "ms 0"),
            ("errors", "error"),
            (" max_ns 83000", ""),
            ("40000", "-1"),
        ] {
            assert_eq!(LOAD.parse_result(&line.replace(from, to)), None, "{from}");
        }
    }

    #[test]
    fn every_kind_has_a_driver_and_is_one_of_the_modules() {
        let traffic = SOURCES.map(|(_, text)| text).concat();
        for kind in Kind::ALL {
            assert!(traffic.contains(&format!(".kind = \"{}\"", kind.name())));
        }
        assert_eq!(Kind::AkcipherSessions.driver().0, "rsa");
        assert!(LOAD
            .parameters()
            .starts_with("kind=cipher-sessions driver=virtio_crypto_aes_cbc workers=8 ms=500"));
    }
}
