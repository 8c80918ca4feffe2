//! Candidates: implementations from Kiln, a library or a kernel tree that can be run on messages
//! and timed.

use std::borrow::Cow;
use std::rc::Rc;

use kiln_kernel::Evictor;
use kiln_record::family;

use super::level::Level;
use super::messages::Messages;

/// A function that makes the given number of calls, each for the next message. After the last
/// message, it continues with the first.
pub type Run<'a> = Box<dyn Fn(&mut Messages, u64) -> Result<(), String> + 'a>;

/// A function that runs a benchmark. It returns pairs of a message length in bytes and the
/// throughput in 10^6 bytes per second.
type Benchmark<'a> = Box<dyn Fn() -> Result<Vec<(usize, f64)>, String> + 'a>;

/// A function that makes calls like [`Run`], and returns their duration in nanoseconds.
type Timed<'a> = Box<dyn Fn(&mut Messages, u64) -> Result<u64, String> + 'a>;

/// An independent benchmark of the candidate's function, such as the benchmark in a kernel tree's
/// KUnit suite.
pub struct Beside<'a> {
    pub benchmark: Benchmark<'a>,
    /// Makes calls with the given messages, and times them in the same way as the benchmark does.
    pub time: Timed<'a>,
}

/// A function that empties the caches and then makes one call, for the message with the given
/// index. It returns the duration of the call in TSC ticks.
pub(crate) type Cold<'a> = Box<dyn Fn(&mut Messages, usize, &Evictor) -> Result<u64, String> + 'a>;

/// Provider name of Kiln's own implementations.
pub const KILN: &str = "kiln";

/// An implementation that can be run on messages, checked and timed.
pub struct Candidate<'a> {
    /// The driver's name, the library's name for the function, or the function's symbol.
    pub name: Cow<'static, str>,
    /// Name of the provider: `kiln`, or the name and version of the library or tree.
    pub provider: String,
    /// The ISA tier; `None` if it is unknown, as for libraries that select their code internally.
    pub tier: Option<Cow<'static, str>>,
    /// Level at which the implementation is called.
    pub level: Level,
    /// The kernel tree's configuration; `None` for Kiln and for libraries.
    pub config: Option<String>,
    /// Lengths that the implementation accepts.
    pub takes: Takes,
    /// Whether each call processes several messages at once. If so, the time per message is a
    /// throughput figure: a message processed alone takes longer.
    pub together: bool,
    /// Size of the result in bytes, for functions that return a hash's internal state instead of
    /// the algorithm's digest.
    pub digest: Option<usize>,
    /// A judge for this candidate alone; `None` if it shares the other candidates' judge.
    pub judge: Option<Rc<Judge<'a>>>,
    /// Function that makes the requested number of calls.
    pub run: Run<'a>,
    /// Function that makes a single call with cold caches; `None` if the candidate does not support
    /// this.
    pub cold: Option<Cold<'a>>,
    /// An independent benchmark of the same function; `None` if the function has none.
    pub beside: Option<Beside<'a>>,
}

impl<'a> Candidate<'a> {
    /// Creates a candidate for a function that belongs to Kiln or to a library and accepts any
    /// length.
    pub fn primitive(
        name: impl Into<Cow<'static, str>>,
        provider: impl Into<String>,
        tier: Option<&'static str>,
        run: Run<'a>,
    ) -> Candidate<'a> {
        Candidate {
            name: name.into(),
            provider: provider.into(),
            tier: tier.map(Cow::Borrowed),
            level: Level::Primitive,
            config: None,
            takes: Takes::default(),
            together: false,
            digest: None,
            judge: None,
            run,
            cold: None,
            beside: None,
        }
    }

    /// Returns the name of the provider without the version.
    pub fn family(&self) -> &str {
        family(&self.provider)
    }
}

/// A trusted implementation that computes the expected results.
pub struct Judge<'a> {
    /// Name of the trusted implementation, for use in messages to the user.
    pub name: String,
    /// Function that calls the trusted implementation.
    pub run: Run<'a>,
}

/// The lengths that an implementation accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takes {
    /// Minimum length in bytes.
    pub least: usize,
    /// Maximum length in bytes.
    pub most: usize,
    /// Every length must be a multiple of this number of bytes.
    pub multiple: usize,
}

impl Default for Takes {
    fn default() -> Takes {
        Takes {
            least: 0,
            most: usize::MAX,
            multiple: 1,
        }
    }
}

impl Takes {
    /// Returns whether the implementation accepts messages of `len` bytes.
    pub fn len(&self, len: usize) -> bool {
        (self.least..=self.most).contains(&len) && len % self.multiple.max(1) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_taken() {
        let all = Takes::default();
        assert!(all.len(0) && all.len(1420));
        let some = Takes {
            least: 16,
            most: 512,
            multiple: 16,
        };
        assert!(some.len(16) && some.len(512));
        assert!(!some.len(0) && !some.len(24) && !some.len(528));
    }

    #[test]
    fn families() {
        assert_eq!(family("openssl-3.0.17"), "openssl");
        assert_eq!(family("linux-6.12.117"), "linux");
        assert_eq!(family("linux-6.13.0-rc1"), "linux");
        assert_eq!(family("ipsec-mb-1.3.0"), "ipsec-mb");
        assert_eq!(family("ipsec-mb"), "ipsec-mb");
        assert_eq!(family(KILN), KILN);
    }
}
