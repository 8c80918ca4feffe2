//! Somebody who can be called with messages: an implementation of Kiln's, or a peer's.

use std::borrow::Cow;

use kiln_kernel::xts::{Impl, Key, Series};
use kiln_kernel::Tier;

use super::messages::Messages;

/// Makes `calls` calls on the messages in turn, after the last the first again.
pub type Run<'a> = Box<dyn Fn(&mut Messages, u64) -> Result<(), String> + 'a>;

/// One of those compared.
pub struct Candidate<'a> {
    /// Driver name, or what the peer calls it.
    pub name: Cow<'static, str>,
    /// `kiln`, or the peer with its version.
    pub provider: String,
    /// Its tier, where known: a peer chooses for itself.
    pub tier: Option<Tier>,
    /// The calls.
    pub run: Run<'a>,
}

/// Provider of Kiln's own.
pub const KILN: &str = "kiln";

impl<'a> Candidate<'a> {
    /// An implementation of AES-XTS, its calls in one FPU section.
    pub fn xts(imp: Impl, key: &'a Key) -> Candidate<'a> {
        Candidate {
            name: imp.driver().into(),
            provider: KILN.to_string(),
            tier: Some(imp.tier()),
            run: Box::new(move |messages, calls| run_xts(imp, key, messages, calls)),
        }
    }
}

/// The calls of an implementation of AES-XTS.
pub fn run_xts(imp: Impl, key: &Key, messages: &mut Messages, calls: u64) -> Result<(), String> {
    let (op, len, stride, chained) = (messages.op, messages.len, messages.stride, messages.chained);
    let (ivs, src, dst) = messages.parts();
    let mut series =
        Series::new(key, op, src, dst, ivs, len, stride, chained).map_err(|e| e.to_string())?;
    imp.run(&mut series, calls).map_err(|e| e.to_string())
}
