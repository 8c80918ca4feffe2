//! Somebody who can be called with messages: an implementation of Kiln's, a peer's, a kernel tree's.

use std::borrow::Cow;
use std::rc::Rc;

use kiln_record::family;

use super::level::Level;
use super::messages::Messages;

/// Makes `calls` calls on the messages in turn, after the last the first again.
pub(crate) type Run<'a> = Box<dyn Fn(&mut Messages, u64) -> Result<(), String> + 'a>;

/// Another benchmark of the same function: throughput in 10^6 bytes per second by length, in one run.
pub(crate) type Beside<'a> = Box<dyn Fn() -> Result<Vec<(usize, f64)>, String> + 'a>;

/// Provider of Kiln's own.
pub(crate) const KILN: &str = "kiln";

/// One of those compared.
pub(crate) struct Candidate<'a> {
    /// Driver name, or what the peer calls it, or a function's symbol.
    pub name: Cow<'static, str>,
    /// `kiln`, or the peer or the tree with its version.
    pub provider: String,
    /// Its tier, where known: a peer chooses for itself.
    pub tier: Option<Cow<'static, str>>,
    /// How it is called.
    pub level: Level,
    /// Of a tree: the configuration it was built with.
    pub config: Option<String>,
    /// Lengths it takes.
    pub takes: Takes,
    /// Whether it works on several messages at a time, so that one alone would take longer.
    pub together: bool,
    /// Bytes of its result, where they are not the algorithm's digest: a state, for a function that ends before that.
    pub digest: Option<usize>,
    /// Who has the answers for it, if not those who have them for all.
    pub judge: Option<Rc<Judge<'a>>>,
    /// The calls.
    pub run: Run<'a>,
    /// What else measures it.
    pub beside: Option<Beside<'a>>,
}

impl<'a> Candidate<'a> {
    /// A function of Kiln's or a peer's that takes any length.
    pub(crate) fn primitive(
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
            beside: None,
        }
    }

    /// The provider without its version.
    pub(crate) fn family(&self) -> &str {
        family(&self.provider)
    }
}

/// Who has the answers.
pub(crate) struct Judge<'a> {
    /// As messages name it.
    pub name: String,
    /// The calls.
    pub run: Run<'a>,
}

/// Which lengths somebody takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Takes {
    /// The least.
    pub least: usize,
    /// The most.
    pub most: usize,
    /// All are multiples of this.
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
    /// Whether it takes this one.
    pub(crate) fn len(&self, len: usize) -> bool {
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
