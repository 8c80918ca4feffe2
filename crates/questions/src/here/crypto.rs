//! Parses `/proc/crypto`, which shows which driver serves an algorithm and whether the simd helper
//! wraps that driver.

/// An entry in `/proc/crypto`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Driver {
    /// The algorithm, such as `xts(aes)`.
    pub name: String,
    /// The driver's name, such as `xts-aes-aesni`.
    pub driver: String,
    /// The module that registered the driver, or `kernel`.
    pub module: String,
    pub priority: i64,
    /// Whether the driver is internal, which means that it may be used only by other drivers.
    pub internal: bool,
    /// The type: `skcipher`, `aead`, `shash`, ...
    pub kind: String,
    /// Whether the driver is asynchronous; `None` if the entry does not state this, as is the case
    /// for hashes and single-block ciphers.
    pub asynchronous: Option<bool>,
}

/// How a request reaches a driver's SIMD code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// Through the simd helper, which defers requests to cryptd if SIMD is not usable.
    Helper,
    /// Through a direct call to the driver, in every context.
    Direct,
}

/// Parses the entries in the file. Entries without a name, driver, type or priority are skipped.
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

/// Returns the driver that serves an algorithm, which is the non-internal driver with the highest
/// priority.
pub(super) fn find_served<'a>(drivers: &'a [Driver], name: &str) -> Option<&'a Driver> {
    let public = drivers.iter().filter(|d| d.name == name && !d.internal);
    public.max_by_key(|d| d.priority)
}

impl Driver {
    /// Returns how requests reach this driver's SIMD code for AES; `None` if the driver has no such
    /// code, or if its entry does not show the path.
    ///
    /// The simd helper registers an asynchronous driver. The synchronous driver that it wraps is
    /// internal and has the same name with the prefix `__`.
    pub(super) fn path(&self, all: &[Driver]) -> Option<Path> {
        let aes = self.driver.contains("-aesni") || self.driver.contains("-vaes");
        // A template's driver name contains the names of other drivers in parentheses. The template
        // itself has no SIMD code.
        let own = aes && !self.driver.contains('(') && !self.internal;
        if !own || !matches!(self.kind.as_str(), "skcipher" | "aead") {
            return None;
        }
        let inner = format!("__{}", self.driver);
        let wrapped = all.iter().any(|d| d.internal && d.driver == inner);
        match (self.asynchronous?, wrapped) {
            (true, true) => Some(Path::Helper),
            (false, false) => Some(Path::Direct),
            // Neither the simd helper nor a direct driver produces this combination, so the path is
            // unknown.
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
