//! Arguments of `kiln speed --via virtio`.

use std::path::PathBuf;

use clap::Args;
use kiln_question::lens::Lens;
use kiln_question::{Error, Exit, Question, Session};

use super::plan::Plan;
use super::{run, view};
use crate::device::socket_path;

/// How messages reach the cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Via {
    /// A virtio-crypto device in another process.
    Virtio,
}

#[derive(Args)]
#[command(next_help_heading = "Through a device")]
pub(crate) struct ViaArgs {
    /// Measure ciphers through a device in another process, and by direct calls
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["tree", "impls", "baseline", "level", "latency"])]
    via: Option<Via>,
    /// With --via virtio: numbers of data queues; each queue has one driver thread and one device
    /// thread [default: 1,2]
    #[arg(long, value_delimiter = ',', value_name = "N,…", requires = "via")]
    queues: Vec<usize>,
    /// With --via virtio: messages in flight on each queue [default: 1,64]
    #[arg(long, value_delimiter = ',', value_name = "N,…", requires = "via")]
    depth: Vec<usize>,
    /// With --via virtio: use the device at this vhost-user socket [default: start one]
    #[arg(long, value_name = "PATH", value_parser = socket_path(), requires = "via")]
    socket: Option<PathBuf>,
}

impl ViaArgs {
    /// Returns whether `--via` was given.
    pub(crate) fn given(&self) -> bool {
        self.via.is_some()
    }
}

/// Measures the given ciphers, key sizes and lengths. Each queue has its own thread, and threads
/// are not confined to one core.
pub(crate) fn ask<Q: Question>(
    args: &ViaArgs,
    algs: &[String],
    key_bits: &[u32],
    len: Option<&str>,
    session: &Session,
) -> Result<Exit, Error> {
    let mut plan = Plan::new(session.seed, session.global.quick);
    let given = |list: &[usize], usual: &mut Vec<usize>| {
        if !list.is_empty() {
            *usual = list.to_vec();
        }
    };
    given(&args.queues, &mut plan.queues);
    given(&args.depth, &mut plan.depths);
    if !algs.is_empty() {
        plan.algs = algs.to_vec();
    }
    if !key_bits.is_empty() {
        plan.key_bits = key_bits.to_vec();
    }
    if let Some(len) = len {
        plan.lens = len.parse::<Lens>()?.0;
    }
    plan.socket = args.socket.clone();
    session.answer::<Q, _>(
        |_, progress| run::run(&plan, &session.stop, progress),
        view::format_tables,
    )
}
