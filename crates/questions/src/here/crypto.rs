//! `/proc/crypto`: which driver serves an algorithm, and whether the simd helper wraps it.

/// An entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Driver {
    /// The algorithm, such as `xts(aes)`.
    pub name: String,
    /// Such as `xts-aes-aesni`.
    pub driver: String,
    /// The module that registered it, or `kernel`.
    pub module: String,
    pub priority: i64,
    /// Only other drivers may use it.
    pub internal: bool,
    /// `skcipher`, `aead`, `shash`, ...
    pub kind: String,
    /// None where the entry has no such line: of hashes and single blocks.
    pub asynchronous: Option<bool>,
}

/// How requests reach the SIMD code of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// Through the simd helper, which defers requests to cryptd where SIMD is not usable.
    Helper,
    /// Called directly in every context.
    Direct,
}

/// Reads the entries. One without a name, a driver, a type or a priority is not whole and left out.
pub(super) fn parse_drivers(lines: &[String]) -> Vec<Driver> {
    let mut drivers = Vec::new();
    for entry in lines.split(|l| l.trim().is_empty()) {
        let field = |name: &str| {
            entry.iter().find_map(|l| {
                let (key, value) = l.split_once(':')?;
                (key.trim() == name).then(|| value.trim().to_owned())
            })
        };
        let yes = |name: &str| field(name).map(|v| v == "yes");
        let read = || -> Option<Driver> {
            Some(Driver {
                name: field("name")?,
                driver: field("driver")?,
                module: field("module").unwrap_or_default(),
                priority: field("priority")?.parse().ok()?,
                internal: yes("internal")?,
                kind: field("type")?,
                asynchronous: yes("async"),
            })
        };
        drivers.extend(read());
    }
    drivers
}

/// The driver that callers of an algorithm get: of those that are not internal the one of highest priority.
pub(super) fn find_served<'a>(drivers: &'a [Driver], name: &str) -> Option<&'a Driver> {
    let public = drivers.iter().filter(|d| d.name == name && !d.internal);
    public.max_by_key(|d| d.priority)
}

impl Driver {
    /// How its SIMD code is reached; None if this driver has none for AES, or that cannot be told from its entry.
    ///
    /// The helper registers an asynchronous driver, and keeps the synchronous one that it wraps as internal under the
    /// same name with `__` before it.
    pub(super) fn path(&self, all: &[Driver]) -> Option<Path> {
        let aes = self.driver.contains("-aesni") || self.driver.contains("-vaes");
        // A template's name has what it is made of in parentheses: it is no driver of SIMD code itself.
        let own = aes && !self.driver.contains('(') && !self.internal;
        if !own || !matches!(self.kind.as_str(), "skcipher" | "aead") {
            return None;
        }
        let inner = format!("__{}", self.driver);
        let wrapped = all.iter().any(|d| d.internal && d.driver == inner);
        match (self.asynchronous?, wrapped) {
            (true, true) => Some(Path::Helper),
            (false, false) => Some(Path::Direct),
            // Neither the helper nor its absence looks so.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: &str = "\
name         : xts(aes)
driver       : xts-aes-aesni
module       : aesni_intel
priority     : 401
refcnt       : 1
selftest     : passed
internal     : no
type         : skcipher
async        : yes

name         : __xts(aes)
driver       : __xts-aes-aesni
module       : aesni_intel
priority     : 401
internal     : yes
type         : skcipher
async        : no

name         : xts(aes)
driver       : xts(ecb(aes-generic))
module       : kernel
priority     : 100
internal     : no
type         : skcipher
async        : no

name         : torn
driver       : torn-aesni
";

    fn drivers(text: &str) -> Vec<Driver> {
        parse_drivers(&text.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_wrapped_driver_is_asynchronous_and_has_an_internal_twin() {
        let all = drivers(ENTRIES);
        assert_eq!(all.len(), 3, "the torn entry is left out");
        let served = find_served(&all, "xts(aes)").unwrap();
        assert_eq!(
            (served.driver.as_str(), served.priority),
            ("xts-aes-aesni", 401)
        );
        assert_eq!(served.path(&all), Some(Path::Helper));
        assert_eq!(all[1].path(&all), None);
        assert_eq!(all[2].path(&all), None);
        assert!(find_served(&all, "gcm(aes)").is_none());
    }

    #[test]
    fn half_of_a_wrapper_proves_nothing() {
        let (first, _) = ENTRIES.split_once("name         : __xts").unwrap();
        let all = drivers(first);
        assert_eq!(all[0].path(&all), None, "asynchronous without its twin");
        let direct = drivers(&first.replace("async        : yes", "async        : no"));
        assert_eq!(direct[0].path(&direct), Some(Path::Direct));
        let silent = drivers(&first.replace("async        : yes", ""));
        assert_eq!(silent[0].path(&silent), None);
    }
}
