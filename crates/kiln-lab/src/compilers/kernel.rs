//! The subjects of `kernel/ciphers`: its own AES, and every implementation by its driver's name.

use std::fs;
use std::path::PathBuf;

use kiln_kernel::cipher::Impl;
use kiln_kernel::Tier;
use kiln_tree::cache::hash;

use super::store::{fault, Store};
use super::subject::{Convention, Flags, Judge, Source, Subject};
use crate::Error;

/// The sources, by their names under `kernel/`.
const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// The table-based AES, block by block.
pub const GENERIC: &str = "aes-generic";
/// The same in assembly, which is the reference of all timing.
pub const ASSEMBLY: &str = "aes-asm";

/// Drivers by the beginning of their names: the table they are in, their directory, the beginning of its files'
/// names, and further directories whose file of the same tier they are made of.
const FAMILIES: [(&str, &str, &str, &[&str]); 21] = [
    ("ecb-aes-", "aes_modes_impls", "modes/", &["aes/"]),
    ("cbc-aes-", "aes_modes_impls", "modes/", &["aes/"]),
    ("ctr-aes-", "aes_modes_impls", "modes/", &["aes/"]),
    ("xts-aes-", "xts_impls", "xts/", &["aes/"]),
    ("ccm-aes-", "ccm_impls", "ccm/", &["aes/", "modes/"]),
    ("cmac-aes-", "cmac_impls", "cmac/", &["aes/", "modes/"]),
    ("gcm-aes-", "gcm_impls", "gcm/", &["aes/", "modes/"]),
    ("rfc4106-gcm-aes-", "gcm_impls", "gcm/", &["aes/", "modes/"]),
    ("ghash-", "polyval_impls", "gcm/", &[]),
    ("polyval-", "polyval_impls", "gcm/", &[]),
    ("sha1-", "sha1_impls", "sha1/", &[]),
    ("blake2s-256-", "blake2s_impls", "blake2s/", &[]),
    ("blake2smac-", "blake2s_impls", "blake2s/", &[]),
    ("chacha20-", "chacha_impls", "chacha/", &[]),
    ("nhpoly1305-", "nhpoly1305_impls", "nhpoly1305/", &[]),
    ("poly1305-", "poly1305_impls", "poly1305/", &[]),
    ("sha256-", "sha2_impls", "sha2/sha256_", &[]),
    ("sha512-", "sha2_impls", "sha2/sha512_", &[]),
    ("crc32c-", "crc_impls", "crc/crc32c_", &[]),
    ("crct10dif-", "crc_impls", "crc/crct10dif_", &[]),
    ("sm3-", "sm3_impls", "sm3/", &[]),
];

/// Where the sources lie, and the archive of all objects.
pub struct Kernel {
    dir: PathBuf,
}

impl Kernel {
    /// Writes them to the cache.
    pub fn open(store: &Store) -> Result<Kernel, Error> {
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

    /// What has this name; none if it is nothing of `kernel/ciphers`.
    pub fn subject(&self, name: &str) -> Option<Result<Subject, Error>> {
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

    /// Names of all subjects, those that this CPU cannot run left out.
    pub fn names(&self) -> Vec<String> {
        let drivers = Impl::all().into_iter().filter(|i| i.tier().usable());
        let drivers = drivers.filter(|i| self.files(*i).is_some());
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
        let Some((table, files)) = self.files(imp) else {
            return Err(Error::input(format!(
                "{driver} is made of others' functions: name one of {}",
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
                    format!("SUBJECT_IMPLS={table}"),
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

    /// The table that an implementation is in, and the files it is made of.
    fn files(&self, imp: Impl) -> Option<(&'static str, Vec<String>)> {
        let driver = imp.driver();
        let (prefix, table, own, others) = FAMILIES
            .iter()
            .filter(|f| driver.starts_with(f.0))
            .max_by_key(|f| f.0.len())?;
        // A file is named for its tier, one in general registers as its driver.
        let stem = match imp.tier() {
            Tier::Generic => &driver[prefix.len()..],
            tier => tier.name(),
        };
        let stem = stem.replace('-', "_");
        let rooms = [own].into_iter().chain(*others);
        let mut files: Vec<String> = rooms.map(|r| format!("ciphers/{r}{stem}.c")).collect();
        files.retain(|file| SOURCES.iter().any(|(name, _)| name == file));
        (!files.is_empty()).then_some((*table, files))
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

/// The longest key, unless it may be as long as one likes.
pub fn key_bytes(imp: Impl) -> usize {
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

/// An implementation of the algorithm that may answer for `but`: another one, of the lowest tier there is.
pub fn judge_of(alg: &str, but: &str) -> Option<Impl> {
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
        let kernel = Kernel {
            dir: PathBuf::from("k"),
        };
        let mut without = Vec::new();
        for imp in Impl::all() {
            match kernel.files(imp) {
                Some((_, files)) => assert!(files.len() <= 3, "{}: {files:?}", imp.driver()),
                None => without.push(imp.driver()),
            }
        }
        // HMACs and the AEAD of ChaCha20 and Poly1305 call the functions of others.
        for driver in &without {
            let of_others = driver.starts_with("hmac-") || driver.starts_with("rfc7539-");
            assert!(of_others, "{driver} has no file");
        }
        let generic = |i: &Impl| i.driver() == "cbc-aes-generic";
        let (table, files) = kernel
            .files(Impl::all().into_iter().find(generic).unwrap())
            .unwrap();
        assert_eq!(table, "aes_modes_impls");
        assert_eq!(files, ["ciphers/modes/generic.c", "ciphers/aes/generic.c"]);
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
