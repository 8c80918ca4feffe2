//! A hosted kernel tree as a source of candidates. Its drivers are called through the tree's own
//! crypto API, and its functions are called directly.

mod answers;
mod crc;
mod direct;
mod generic;
mod known;
mod library;
mod reference;
mod ways;

use std::cell::RefCell;
use std::rc::Rc;

use kiln_kernel::cpu;
use kiln_measure::SplitMix64;
use kiln_question::Error;
use kiln_tree::child::Order;
use kiln_tree::engine::{self, Calls, Engine, Listed};
use kiln_tree::library::Library;
use kiln_tree::primitive::Primitive;
use kiln_tree::Host;

use super::candidate::{Candidate, Judge, Run, Takes};
use super::level::Level;
use super::messages::cipher_messages;
use super::own::Own;
use super::shape::{Kind, Op};
use super::source::{key_bytes, Choice, Source, Spec, Work};

/// Key sizes in bits to try with each driver. The last one is the key size of NHPoly1305.
const KEY_BITS: [u32; 9] = [64, 128, 160, 192, 256, 320, 384, 448, 8704];
/// Algorithms to instantiate from templates, because an instance is registered only when it is
/// requested. The list contains algorithms that other parts of the kernel request.
const TEMPLATES: [&str; 14] = [
    "ccm(aes)",
    "rfc4309(ccm(aes))",
    "rfc4543(gcm(aes))",
    "rfc7539(chacha20,poly1305)",
    "rfc7539esp(chacha20,poly1305)",
    "adiantum(xchacha12,aes)",
    "hctr2(aes)",
    "essiv(cbc(aes),sha256)",
    "lrw(aes)",
    "xts(camellia)",
    "xts(serpent)",
    "xts(twofish)",
    "cmac(aes)",
    "hmac(sha256)",
];
/// Size of the associated data in bytes, as in IPsec.
const AAD: usize = 16;
/// Length of a tag in bytes.
const TAG: usize = 16;

/// A kernel tree booted in this process, with its drivers and functions.
pub struct Tree {
    host: RefCell<Host>,
    calls: Rc<Calls>,
    listed: Vec<Listed>,
    primitives: Vec<Primitive>,
    /// The functions of the tree's library; `None` if the tree could not compile
    /// `tree/library/library.c`.
    library: Option<Rc<Library>>,
    specs: Vec<Spec>,
    provider: String,
    config: String,
    skipped: Vec<String>,
    /// Whether to measure cryptd instances, which complete requests in another context.
    cryptd: bool,
    seed: u64,
}

impl Tree {
    /// Boots the tree on this thread, from the image that `order` specifies. Then instantiates the
    /// algorithms in `asked`, or those in `TEMPLATES` if `asked` is empty, unless they are already
    /// registered.
    pub fn boot(order: &Order, asked: &[String]) -> Result<Tree, Error> {
        let host = Host::boot(order, &cpu::Config::default())?;
        let calls = Calls::find(&host).map_err(|e| Error::input(e.to_string()))?;
        let mut tree = Tree {
            listed: calls.list(),
            primitives: Primitive::all(),
            library: Library::find(&calls, &host),
            specs: Vec::new(),
            host: RefCell::new(host),
            calls,
            provider: format!("linux-{}", order.label.version),
            config: order.label.config.clone(),
            skipped: order.skipped.clone(),
            cryptd: false,
            seed: order.seed,
        };
        match asked.is_empty() {
            true => TEMPLATES.iter().for_each(|name| tree.make(name)),
            false => asked.iter().for_each(|name| tree.make(name)),
        }
        tree.listed = tree.calls.list();
        tree.specs = tree.describe();
        Ok(tree)
    }

    /// Makes the crypto API instantiate an algorithm from its templates if the algorithm is not
    /// registered yet. Failures are ignored.
    fn make(&self, name: &str) {
        use engine::Kind::{Aead, Ahash, Shash, Skcipher};
        if name.contains('(') && self.drivers(name).next().is_none() {
            let kinds = [Skcipher, Aead, Shash, Ahash];
            kinds
                .into_iter()
                .find(|&kind| self.open(name, kind, false).is_some());
        }
    }

    /// Describes every algorithm whose driver can be opened and accepts a key of a known size,
    /// followed by the algorithms that the tree implements only as functions.
    fn describe(&self) -> Vec<Spec> {
        let mut specs: Vec<Spec> = Vec::new();
        for listed in self.listed.iter().filter(|l| measured(l)) {
            let name = plain(&listed.name);
            if specs.iter().all(|s| s.name != name) {
                specs.extend(self.spec(name));
            }
        }
        self.describe_functions(&mut specs);
        self.describe_library(&mut specs);
        specs
    }

    /// Describes an algorithm. The sizes come from the first driver that can be opened; the key
    /// sizes are found by trial.
    fn spec(&self, name: &str) -> Option<Spec> {
        let drivers = self.drivers(name);
        let (listed, engine) = drivers
            .filter_map(|l| Some((l, self.open(&l.driver, l.kind, l.internal)?)))
            .next()?;
        let sizes = engine.sizes;
        let takes = |bits: &u32| {
            let key = self.key(key_bytes(name, *bits));
            engine.set_key(&key, 0).is_ok()
        };
        let mut key_bits = vec![0];
        if sizes.keyed {
            key_bits = KEY_BITS.into_iter().filter(takes).collect();
            // The null cipher takes an empty key.
            if key_bits.is_empty() && engine.set_key(&[], 0).is_ok() {
                key_bits.push(0);
            }
        }
        // Leave out algorithms that accept none of the random keys: some, such as authenc, require
        // keys in a special format.
        if key_bits.is_empty() {
            return None;
        }
        let kind = match listed.kind {
            engine::Kind::Skcipher => Kind::Skcipher,
            engine::Kind::Aead => Kind::Aead,
            engine::Kind::Shash | engine::Kind::Ahash => Kind::Hash,
        };
        Some(Spec {
            name: name.to_string().into(),
            kind,
            key_bits,
            iv: sizes.iv,
            // Poly1305's one-time key is at the beginning of the message.
            prefix: match (kind, name) {
                (Kind::Aead, _) => AAD,
                (_, "poly1305") => 32,
                _ => 0,
            },
            tag: sizes.tag.min(TAG),
            digest: sizes.digest,
            takes: Takes::default(),
            more: Vec::new(),
        })
    }

    /// Returns the tree's description of the algorithm, or `None` if the work requires another form
    /// of the algorithm. Poly1305 has two forms: one in which the key is set once, and one in which
    /// each message begins with its key.
    fn shaped(&self, work: &Work) -> Option<&Spec> {
        let same = |s: &&Spec| s.name == work.spec.name && s.prefix == work.spec.prefix;
        self.specs.iter().find(same)
    }

    fn drivers<'a>(&'a self, alg: &'a str) -> impl Iterator<Item = &'a Listed> {
        let all = self.listed.iter();
        let wanted = |l: &Listed| measured(l) || self.cryptd && cryptd(l);
        all.filter(move |l| wanted(l) && plain(&l.name) == alg && !self.skips(&l.driver))
    }

    /// Returns whether the algorithm or driver is skipped because it crashes.
    fn skips(&self, name: &str) -> bool {
        self.skipped.iter().any(|s| s == name)
    }

    fn key(&self, bytes: usize) -> Vec<u8> {
        let mut key = vec![0; bytes];
        SplitMix64(self.seed ^ 0x6b65_7973).fill(&mut key);
        key
    }

    fn open(&self, driver: &str, kind: engine::Kind, internal: bool) -> Option<Engine> {
        Engine::open(&self.calls, driver, kind, internal).ok()
    }

    /// Finds a driver by its name. If there is an internal driver whose name is `__` followed by
    /// this name, returns the internal driver, because it does the actual work.
    fn find(&self, driver: &str) -> Option<&Listed> {
        let internal = format!("__{driver}");
        let by = |name: &str| self.listed.iter().find(|l| l.driver == name);
        by(&internal).or_else(|| by(driver))
    }

    /// Opens a driver and sets the key of `work`.
    fn keyed(
        &self,
        driver: &str,
        kind: engine::Kind,
        internal: bool,
        work: &Work,
    ) -> Result<Engine, String> {
        let engine = Engine::open(&self.calls, driver, kind, internal)
            .map_err(|e| format!("cannot be opened: {e}"))?;
        if work.key_bits > 0 {
            engine
                .set_key(&work.key, work.spec.tag)
                .map_err(|e| format!("refuses the key: {e}"))?;
        }
        Ok(engine)
    }

    /// Returns the name of the tree's generic driver for an algorithm, and the open driver with its
    /// key set.
    fn generic(&self, work: &Work) -> Option<(String, Engine)> {
        let alg: &str = &work.spec.name;
        let kinds: &[engine::Kind] = match work.spec.kind {
            Kind::Skcipher => &[engine::Kind::Skcipher],
            Kind::Aead => &[engine::Kind::Aead],
            Kind::Hash => &[engine::Kind::Shash, engine::Kind::Ahash],
            Kind::Kpp | Kind::Parity => &[],
        };
        let listed = self
            .listed
            .iter()
            .filter(|l| l.name == alg && !l.internal && measured(l));
        let least = listed.min_by_key(|l| l.priority).map(|l| l.driver.clone());
        for name in generic::names(alg).into_iter().chain(least) {
            for &kind in kinds {
                if let Ok(engine) = self.keyed(&name, kind, false, work) {
                    return Some((name, engine));
                }
            }
        }
        None
    }

    fn api(&self, name: String, engine: Engine, work: &Work) -> Candidate<'_> {
        Candidate {
            level: Level::Api,
            config: Some(self.config.clone()),
            takes: takes(&work.spec, engine.sizes.block),
            ..Candidate::primitive(name, self.provider.clone(), None, requests(engine, work.op))
        }
    }
}

/// Returns whether the driver should be measured. Instances of cryptd and pcrypt that wrap other
/// drivers are excluded.
fn measured(listed: &Listed) -> bool {
    !listed.driver.contains("cryptd(") && !listed.driver.starts_with("pcrypt(")
}

/// Returns whether the driver is a cryptd instance, which passes requests to another driver in a
/// kworker.
fn cryptd(listed: &Listed) -> bool {
    listed.driver.starts_with("cryptd(")
}

/// Returns the name of an algorithm without the prefix that marks internal algorithms.
fn plain(name: &str) -> &str {
    name.strip_prefix("__").unwrap_or(name)
}

/// Returns the lengths that a driver accepts. Ciphers require whole blocks, unless the mode uses
/// ciphertext stealing. AEADs and hashes accept any length.
fn takes(spec: &Spec, block: usize) -> Takes {
    let stealing = ["xts(", "cts(", "adiantum(", "hctr2("];
    match spec.kind {
        Kind::Skcipher if stealing.iter().any(|t| spec.name.starts_with(t)) => Takes {
            least: block.max(16),
            ..Takes::default()
        },
        Kind::Skcipher => Takes {
            least: block,
            multiple: block.max(1),
            ..Takes::default()
        },
        _ => Takes::default(),
    }
}

/// Returns a closure that makes requests through the crypto API.
fn requests(engine: Engine, op: Op) -> Run<'static> {
    let iv_room = RefCell::new(Vec::new());
    Box::new(move |messages, calls| {
        engine
            .run(
                &mut cipher_messages(op, &mut iv_room.borrow_mut(), messages),
                calls,
            )
            .map_err(|e| format!("a request fails: {e}"))
    })
}

impl Source for Tree {
    fn algorithms(&self) -> Vec<Spec> {
        self.specs.clone()
    }

    fn names(&self, alg: &str) -> Vec<(String, Level)> {
        let drivers = self.drivers(alg);
        let mut names: Vec<_> = drivers.map(|l| (l.driver.clone(), Level::Api)).collect();
        let generic = generic::names(alg).into_iter().next();
        names.extend(generic.map(|name| (name, Level::Api)));
        names.dedup();
        let exported = self.exported().iter().filter(|f| f.alg == alg && !f.judges);
        names.extend(exported.map(|f| (f.name.clone(), Level::Library)));
        let functions = self.primitives.iter().filter(|p| p.alg == alg);
        let there = functions.filter(|p| self.host.borrow().image.symbol(&p.symbol).is_some());
        names.extend(there.map(|p| (p.symbol.clone(), Level::Primitive)));
        // Drivers that are skipped because they crashed can still be requested by name.
        names.extend(self.skipped.iter().map(|name| (name.clone(), Level::Api)));
        names
    }

    fn candidates(
        &self,
        work: &Work,
        choice: Choice,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Candidate<'_>>, Error> {
        let alg: &str = &work.spec.name;
        let Some(own) = self.shaped(work) else {
            return Ok(Vec::new());
        };
        let mut found = match choice.latency {
            true => Vec::new(),
            false => self.library_functions(work, choice, notes),
        };
        if !own.is_like(&work.spec) {
            notes.push(format!(
                "{}: {alg} takes its key or IV in another way than is measured: no rows of its drivers",
                self.provider
            ));
            return Ok(found);
        }
        if choice.latency {
            notes.push(format!("{}: no figures with --latency", self.provider));
            return Ok(Vec::new());
        }
        found.extend(self.functions(work, choice, notes));
        let drivers = self.drivers(alg);
        for listed in drivers.filter(|l| choice.wants(&l.driver, Level::Api)) {
            match self.keyed(&listed.driver, listed.kind, listed.internal, work) {
                Ok(engine) => found.push(self.api(listed.driver.clone(), engine, work)),
                Err(why) => notes.push(format!("{} {}: {why}", self.provider, listed.driver)),
            }
        }
        // The list above may lack the generic driver, because a template instance is registered
        // only when it is requested.
        let wanted = |name: &str| choice.wants(name, Level::Api);
        if let Some((name, engine)) = self.generic(work).filter(|(name, _)| wanted(name)) {
            if found.iter().all(|c| c.name != name) {
                found.push(self.api(name, engine, work));
            }
        }
        Ok(found)
    }

    fn judge(&self, work: &Work) -> Result<Option<Judge<'_>>, Error> {
        let alike = |s: &&Spec| s.name == work.spec.name && s.is_like(&work.spec);
        if !self.specs.iter().any(|s| alike(&s)) {
            return Ok(None);
        }
        if self.shaped(work).is_none() {
            return Ok(None);
        }
        let Some((name, engine)) = self.generic(work) else {
            return Ok(self.library_judge(work));
        };
        // A driver whose name contains `-lib` runs the assembly under test itself, so it is the
        // judge only if Kiln does not implement the algorithm.
        if name.contains("-lib") {
            if let Some(kiln) = Own::Functions.judge(work)? {
                return Ok(Some(kiln));
            }
        }
        Ok(Some(Judge {
            name: format!("{} {name}", self.provider),
            run: requests(engine, work.op),
        }))
    }
}
