//! Creates subjects from `kernel/ciphers`: Kiln's own AES, and any implementation by its driver
//! name.

use std::fs;
use std::path::{Path, PathBuf};

use kiln_kbuild::recipe;
use kiln_kernel::cipher::Impl;
use kiln_kernel::Tier;
use kiln_question::Error;
use kiln_tree::hash;

use super::store::{fault, Store};
use super::subject::{Convention, Flags, Judge, Source, Subject};

/// Path and text of each source file under `kernel/`.
const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// Subject name of the table-based AES in C, which encrypts single blocks.
pub(super) const GENERIC: &str = "aes-generic";
/// Subject name of the table-based AES in assembly, which is the reference for all timings.
pub(super) const ASSEMBLY: &str = "aes-asm";

/// The cache directory that contains the sources and an archive of all objects.
pub(super) struct Kernel {
    dir: PathBuf,
}

impl Kernel {
    /// Writes the sources to the cache.
    pub(super) fn open(store: &Store) -> Result<Kernel, Error> {
        let parts = SOURCES
            .iter()
            .flat_map(|(n, t)| [n.as_bytes(), t.as_bytes()]);
        let parts: Vec<&[u8]> = parts.chain([kiln_kernel::ARCHIVE]).collect();
        let dir = store.entry(hash(&parts), |dir| {
            let put = |name: &str, bytes: &[u8]| {
                let path = dir.join(name);
                let parent = path.parent().unwrap_or(dir);
                fs::create_dir_all(parent).map_err(|e| fault(parent, &e))?;
                fs::write(&path, bytes).map_err(|e| fault(&path, &e))
            };
            for (name, text) in SOURCES {
                put(name, text.as_bytes())?;
            }
            put("kernel.a", kiln_kernel::ARCHIVE)
        })?;
        Ok(Kernel { dir })
    }

    /// Creates the subject called `name`; `None` if `kernel/ciphers` has no such implementation.
    pub(super) fn subject(&self, name: &str) -> Option<Result<Subject, Error>> {
        let of_aes = |function: &str, file: &str| Subject {
            name: name.to_string(),
            alg: "cbc(aes)".to_string(),
            key_bits: Some(256),
            sources: vec![self.source(file)],
            convention: Convention {
                name: "block",
                file: "block.c",
                defines: vec![
                    "SUBJECT_SETKEY=aes_expandkey".to_string(),
                    format!("SUBJECT_FUNCTION={function}"),
                ],
                function: function.to_string(),
                key: 32,
                iv: 16,
            },
            support: vec![self.source("ciphers/aes/key.c")],
            objects: Vec::new(),
            judge: Judge::Algorithm {
                alg: "cbc(aes)",
                but: "cbc-aes-generic",
            },
            narrow: file.ends_with(".c"),
            assembly: file.ends_with(".S"),
        };
        match name {
            GENERIC => Some(Ok(of_aes("aes_encrypt_generic", "ciphers/aes/generic.c"))),
            ASSEMBLY => Some(Ok(of_aes("aes_encrypt_x86_64", "ciphers/aes/x86_64.S"))),
            driver => {
                let imp = Impl::all().into_iter().find(|i| i.driver() == driver)?;
                Some(self.driver(imp))
            }
        }
    }

    /// Returns the names of all subjects that this CPU can run.
    pub(super) fn names(&self) -> Vec<String> {
        let drivers = Impl::all().into_iter().filter(|i| i.tier().usable());
        let drivers = drivers.filter(|i| !files(*i).is_empty());
        [GENERIC, ASSEMBLY]
            .into_iter()
            .chain(drivers.map(Impl::driver))
            .map(str::to_string)
            .collect()
    }

    fn driver(&self, imp: Impl) -> Result<Subject, Error> {
        let driver = imp.driver();
        if let Some(lacks) = imp.tier().lacks() {
            return Err(Error::lacks(format!(
                "{driver}: this CPU lacks {lacks}: leave it out"
            )));
        }
        let files = files(imp);
        let Some(folder) = imp.folder().filter(|_| !files.is_empty()) else {
            return Err(Error::input(format!(
                "{driver} has no function of its own: name one of {}",
                self.names().join(", ")
            )));
        };
        let key = key_bytes(imp);
        let xts = imp.alg().starts_with("xts(");
        let bits = key * 8 / if xts { 2 } else { 1 };
        Ok(Subject {
            name: driver.to_string(),
            alg: imp.alg().to_string(),
            key_bits: (key > 0).then_some(bits as u32),
            sources: files.iter().map(|f| self.source(f)).collect(),
            convention: Convention {
                name: "kiln",
                file: "kiln.c",
                defines: vec![
                    format!("SUBJECT_IMPLS={folder}_impls"),
                    format!("SUBJECT_DRIVER=\"{driver}\""),
                    format!("SUBJECT_KEY={key}"),
                ],
                function: driver.to_string(),
                key,
                iv: imp.iv_size(),
            },
            support: Vec::new(),
            objects: vec![self.dir.join("kernel.a")],
            judge: Judge::Algorithm {
                alg: imp.alg(),
                but: driver,
            },
            narrow: false,
            assembly: false,
        })
    }

    fn source(&self, name: &str) -> Source {
        Source {
            path: self.dir.join(name),
            flags: Flags::Kernel {
                dir: self.dir.clone(),
            },
        }
    }
}

/// Returns the files from which an implementation is compiled: its tier's files in its own folder
/// and in the folders from which its sources include headers. The result is empty if the folder has
/// no file for any tier; such an implementation only calls other ciphers' functions.
fn files(imp: Impl) -> Vec<String> {
    let Some(own) = imp.folder() else {
        return Vec::new();
    };
    let in_folder = |imp: Impl, folder: &str| -> Vec<String> {
        let all = SOURCES.iter().map(|(name, _)| *name);
        let here = all.filter(|name| folder_of(name) == Some(folder) && is_for(imp, name));
        here.map(str::to_string).collect()
    };
    let siblings = Impl::all().into_iter().filter(|i| i.folder() == Some(own));
    if siblings.flat_map(|i| in_folder(i, own)).next().is_none() {
        return Vec::new();
    }
    let mut folders = vec![own];
    folders.extend(included_folders(own));
    folders.iter().flat_map(|f| in_folder(imp, f)).collect()
}

/// Returns whether a file belongs to an implementation. If the file name ends in a tier, that tier
/// must be the implementation's, and the rest must match the start of the driver name:
/// `sha256_avx2.c` belongs to `sha256-avx2`. Any other file belongs to the generic implementation
/// whose driver name ends in the file name: `fixed_time.c` belongs to `cbc-aes-fixed-time`.
fn is_for(imp: Impl, file: &str) -> bool {
    let path = Path::new(file);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    if !file.ends_with(".c") {
        return false;
    }
    match (recipe::tier_of(path), imp.tier()) {
        (None, Tier::Generic) => {
            let stem = stem.replace('_', "-");
            imp.driver() == stem || imp.driver().ends_with(&format!("-{stem}"))
        }
        (Some(tier), own) => {
            let algorithm = stem[..stem.len() - tier.suffix.len()].replace('_', "-");
            tier.name() == own.name() && imp.driver().starts_with(&algorithm)
        }
        (None, _) => false,
    }
}

/// Returns the folder that contains a cipher's source, such as `modes` for `ciphers/modes/aesni.c`.
fn folder_of(file: &str) -> Option<&str> {
    let (folder, _) = file.strip_prefix("ciphers/")?.split_once('/')?;
    Some(folder)
}

/// Returns the folders from which the sources in `folder` include headers, directly or indirectly.
/// `simd` is left out because it contains only headers.
fn included_folders(folder: &str) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    let mut unread = vec![folder];
    while let Some(folder) = unread.pop() {
        let here = SOURCES
            .iter()
            .filter(|(name, _)| folder_of(name) == Some(folder));
        let lines = here.flat_map(|(_, text)| text.lines());
        let other = lines.filter_map(|l| l.strip_prefix("#include \"../")?.split_once('/'));
        for (other, _) in other {
            if other != "simd" && !found.contains(&other) {
                found.push(other);
                unread.push(other);
            }
        }
    }
    found
}

/// Returns the length in bytes of the longest key that the implementation accepts. If that is more
/// than 64 bytes, returns a typical key length instead.
pub(super) fn key_bytes(imp: Impl) -> usize {
    const USUAL: usize = 32;
    let sizes = imp.key_sizes();
    match sizes.as_slice() {
        [] => 0,
        [one] => *one,
        several => {
            let longest = several[several.len() - 1];
            let usual = several.iter().copied().find(|s| *s >= USUAL);
            match longest {
                0..=64 => longest,
                _ => usual.unwrap_or(longest),
            }
        }
    }
}

/// Returns the implementation that computes the expected results, preferably a generic one. The
/// implementation under test, `but`, is returned only if no other is usable.
pub(super) fn judge_of(alg: &str, but: &str) -> Option<Impl> {
    let mut usable: Vec<Impl> = Impl::find_all(alg)
        .into_iter()
        .filter(|i| i.tier().usable())
        .collect();
    usable.sort_by_key(|i| (i.driver() == but, i.tier() != Tier::Generic));
    usable.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_has_its_files_or_is_made_of_others() {
        let mut without = Vec::new();
        for imp in Impl::all() {
            match files(imp).len() {
                0 => without.push(imp.driver()),
                n => assert!(n <= 4, "{}: {:?}", imp.driver(), files(imp)),
            }
        }
        // The drivers without files are HMACs and the ChaCha20-Poly1305 AEAD, which only call other
        // ciphers' functions.
        for driver in &without {
            let of_others = driver.starts_with("hmac-") || driver.starts_with("rfc7539-");
            assert!(of_others, "{driver} has no file");
        }
        let of = |driver: &str| files(Impl::find(driver).unwrap());
        assert_eq!(
            of("cbc-aes-generic"),
            ["ciphers/modes/generic.c", "ciphers/aes/generic.c"]
        );
        assert_eq!(
            of("gcm-aes-vaes-avx2"),
            [
                "ciphers/gcm/vaes_avx2.c",
                "ciphers/modes/vaes_avx2.c",
                "ciphers/polyval/vaes_avx2.c"
            ]
        );
        assert_eq!(
            of("ccm-aes-generic"),
            ["ciphers/modes/generic.c", "ciphers/aes/generic.c"]
        );
        assert_eq!(of("sha256-avx2"), ["ciphers/sha2/sha256_avx2.c"]);
        assert_eq!(of("crc32c-sse42-aesni"), ["ciphers/crc/crc32c_aesni.c"]);
        assert_eq!(of("poly1305-sse2"), ["ciphers/poly1305/aesni.c"]);
    }

    #[test]
    fn another_implementation_is_the_judge() {
        assert_eq!(
            judge_of("cbc(aes)", "cbc-aes-generic").unwrap().driver(),
            "cbc-aes-fixed-time"
        );
        assert!(judge_of("no(such)", "x").is_none());
    }
}
