//! The arguments of `kiln ctrlq`, and the function that runs the command.

use std::path::PathBuf;

use clap::Args;
use kiln_measure::CoreList;
use kiln_question::{Error, Exit, Question, RowType, Session};

use super::plan::{parse_ctrls, parse_kinds, parse_modes, Plan, Way};
use super::row::Row;
use super::{run, view};
use crate::device::socket_path;

/// Compare ways of waiting on a virtio-crypto control queue
///
/// For authors of virtio-crypto drivers and devices. Kiln's driver and Kiln's device (kiln serve)
/// run in two processes. The driver's threads, called workers, repeatedly create a session and
/// close it; a session created and closed counts as one pair. A row of the table is one combination
/// of --mode, --workers, --session and --ctrl. Each round measures every row once, each time over a
/// new connection to the device.
#[derive(Args)]
#[command(after_long_help = "\
Ways of waiting (--mode):
  poll    a worker holds the queue's lock while it submits a request and
          polls the used ring for the answer (Linux before 5.19)
  wait    a worker holds the lock only to submit a request, and sleeps until
          the request completes
  async   --depth requests are in flight; a callback handles each answer

Examples:
  kiln ctrlq --quick
  kiln ctrlq --mode wait --workers 8 --session cipher --seconds 10
  kiln ctrlq --mode poll --session akcipher --ctrl thread --seconds 5
  kiln ctrlq --cpu 0 --device-cpu 1     driver and device on separate cores
  kiln ctrlq --socket /run/kiln.sock    a device that is running already

See also:
  docs/CTRLQ.md")]
pub struct CtrlqArgs {
    /// How the driver waits for the device's answer: poll, wait, async [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    mode: Vec<String>,
    /// Numbers of worker threads, each measured separately; mode async always uses one thread
    /// [default: 1,2,8]
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    workers: Vec<usize>,
    /// Kinds of sessions: cipher (AES-128-CBC), akcipher (RSA-2048) [default: both]
    #[arg(long, value_delimiter = ',', value_name = "KIND,…")]
    session: Vec<String>,
    /// Where the device serves requests: on the queue's own thread (inline), or on a second thread
    /// (thread) [default: both]
    #[arg(long, value_delimiter = ',', value_name = "HOW,…")]
    ctrl: Vec<String>,
    /// With --mode async: number of requests in flight [default: 128]
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// Total time in seconds to measure each row, divided among all rounds [default: 2; with
    /// --quick: 0.4]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seconds: Option<f64>,
    /// Number of rounds, at least 6; each round measures every row of the table once [default: 9;
    /// with --quick: 6]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Measure the device that already listens on this socket, instead of starting Kiln's device
    #[arg(long, value_name = "PATH", value_parser = socket_path(), conflicts_with_all = ["ctrl", "poll_us", "device_cpu"])]
    socket: Option<PathBuf>,
    /// Microseconds that the device polls for further requests before it sleeps [default: 50, as in
    /// kiln serve]
    #[arg(long, value_name = "US")]
    poll_us: Option<u64>,
    /// Run the device on these cores, such as 1 or 2-3, and the driver on the remaining cores that
    /// Kiln may use (see --cpu) [default: both run on all cores that Kiln may use]
    #[arg(long, value_name = "LIST")]
    device_cpu: Option<String>,
    /// With --mode poll: number of times that a worker tries to take the queue's lock before it
    /// yields its core [default: 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    spins: Option<u32>,
}

impl CtrlqArgs {
    fn plan(&self, session: &Session) -> Result<Plan, Error> {
        let usual = Plan::new(session.seed, session.global.quick);
        let plan = Plan {
            ways: parse_modes(&self.mode)?,
            workers: match self.workers.as_slice() {
                [] => usual.workers,
                workers => workers.to_vec(),
            },
            ctrls: parse_ctrls(&self.ctrl)?,
            kinds: parse_kinds(&self.session)?,
            depth: self.depth.unwrap_or(usual.depth),
            seconds: self.seconds.unwrap_or(usual.seconds),
            rounds: self.rounds.unwrap_or(usual.rounds),
            socket: self.socket.clone(),
            poll_us: self.poll_us,
            device_cpu: parse_device_cpu(self.device_cpu.as_deref())?,
            spins: self.spins,
            seed: session.seed,
        };
        plan.check()?;
        if !self.workers.is_empty() && plan.ways == [Way::Async] {
            return Err(Error::input(
                "--workers: --mode async has one thread and --depth requests in flight: use --depth, or add another mode",
            ));
        }
        if self.spins.is_some() && !plan.ways.contains(&Way::Poll) {
            return Err(Error::input(
                "--spins: only --mode poll spins on the lock: add it, or leave --spins out",
            ));
        }
        if self.depth.is_some() && !plan.ways.contains(&Way::Async) {
            return Err(Error::input(
                "--depth: only --mode async has several requests in flight: add it, or leave --depth out",
            ));
        }
        Ok(plan)
    }
}

fn parse_device_cpu(list: Option<&str>) -> Result<Option<CoreList>, Error> {
    let fault = |e| Error::input(format!("--device-cpu: {e}"));
    let cores: Option<CoreList> = list.map(str::parse).transpose().map_err(fault)?;
    if let Some(cores) = &cores {
        let allowed = CoreList::allowed().map_err(fault)?;
        if allowed.without(cores).cores().is_empty() {
            return Err(Error::input(format!(
                "--device-cpu {cores}: no core is left for the driver, which may use {allowed}: name fewer \
                 cores, or allow the driver another one (--cpu, taskset)"
            )));
        }
    }
    Ok(cores)
}

impl Question for CtrlqArgs {
    const NAME: &'static str = "ctrlq";
    const TIMED: bool = true;

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<Row>(60)]
    }

    /// Runs the command. This process is not pinned to a core, because driver and device have
    /// several threads.
    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let plan = self.plan(session)?;
        session.answer::<Self, _>(
            |_, progress| run::run(&plan, &session.stop, progress),
            view::format_tables,
        )
    }
}
