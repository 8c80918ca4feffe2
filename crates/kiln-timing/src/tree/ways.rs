//! Finds the call paths to a cipher in a tree: the drivers that the crypto API may give to a
//! caller, and the function that does the work.

use kiln_question::{unknown, Error};
use kiln_tree::engine::{self, Engine, Listed};

use super::{generic, measured, plain, Tree};

/// Names of an algorithm's drivers, and of the function that does the work. For an algorithm
/// without a simd helper, `helper` and `cryptd` are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// The function that the driver `direct` calls to do the work.
    pub primitive: Option<String>,
    /// The driver that calls `primitive` in the context in which the request was made.
    pub direct: String,
    /// The simd helper in front of `direct`, which checks whether SIMD may be used.
    pub helper: Option<String>,
    /// The driver that passes requests to a kworker.
    pub cryptd: Option<String>,
    /// The driver that consists only of generic C code.
    pub scalar: Option<String>,
    /// The driver that the crypto API selects if a caller requests a synchronous driver.
    pub synchronous: Option<String>,
}

impl Tree {
    /// Finds the call paths to `driver`, or to the algorithm's best driver if `driver` is `None`.
    /// Instantiates drivers that are not registered yet.
    ///
    /// # Errors
    /// Fails if the tree has no such driver.
    pub fn ways(&mut self, alg: &str, driver: Option<&str>) -> Result<Ways, Error> {
        let kind = engine::Kind::Skcipher;
        let public = |l: &&Listed| !l.internal && l.name == alg && measured(l);
        let best = match driver {
            Some(name) => self
                .listed
                .iter()
                .filter(public)
                .find(|l| l.driver == name)
                .ok_or_else(|| {
                    let known = self.listed.iter().filter(public);
                    let known: Vec<&str> = known.map(|l| l.driver.as_str()).collect();
                    unknown("driver", name, &known)
                })?,
            None => self
                .listed
                .iter()
                .filter(public)
                .max_by_key(|l| l.priority)
                .ok_or_else(|| Error::input(format!("{} has no {alg}", self.provider)))?,
        }
        .driver
        .clone();
        let inner = format!("__{best}");
        let mut ways = Ways {
            primitive: self
                .primitives
                .iter()
                .filter(|p| p.alg == alg && p.op == "encrypt")
                .find(|p| p.needs.as_deref() == Some(&best))
                .map(|p| p.symbol.clone()),
            ..Ways::default()
        };
        match self.listed.iter().any(|l| l.driver == inner) {
            true => {
                let later = format!("cryptd({inner})");
                ways.cryptd = self.open(&later, kind, true).map(|_| later);
                ways.direct = inner;
                ways.helper = Some(best);
            }
            false => ways.direct = best,
        }
        // Request the synchronous driver before the generic one is instantiated; otherwise the
        // crypto API might select the generic one. The result is the driver that a caller would get
        // at this point.
        if Engine::open_synchronous(&self.calls, alg, kind).is_ok() {
            let listed = self.calls.list();
            let synchronous = listed
                .iter()
                .filter(|l| !l.internal && !l.is_async && plain(&l.name) == alg)
                .max_by_key(|l| l.priority);
            ways.synchronous = synchronous.map(|l| l.driver.clone());
        }
        let mut generic = generic::names(alg).into_iter();
        ways.scalar = generic.find(|n| self.open(n, kind, false).is_some());
        self.listed = self.calls.list();
        self.cryptd = true;
        Ok(ways)
    }
}
