//! The arguments of `kiln ipsec`, and the function that runs the command.

use clap::{Args, ValueEnum};
use kiln_question::{parse_seconds, Error, Exit, Outcome, Question, RowType, Session};
use kiln_record::Facts;
use kiln_report::picture::draw_rows;

use super::plan::{Settings, IRQ_RATE};
use super::row::EspRow;
use super::run::run;
use super::traffic::EspLoad;
use super::view;
use crate::fpu::bench::Bench;
use crate::fpu::inject::Inject;
use crate::fpu::plan::{policies, Plan};
use crate::fpu::CpuArgs;

/// IPsec: at which packet rate each FPU policy loses packets
///
/// Softirqs on an emulated CPU encrypt and decrypt ESP packets, as Linux's xfrm does, while a task
/// encrypts disk sectors. The task represents dm-crypt, WireGuard or any other user of the FPU on
/// that CPU. Under legacy, packets that find the FPU in use wait for cryptd, which drops packets if
/// its queue is full; under other policies, softirqs call the cipher directly.
#[derive(Args)]
#[command(after_long_help = "\
Loads (--load):
  esp                   AES-GCM (rfc4106), IMIX packet sizes
  esp-cbc               the same with AES-CBC and HMAC-SHA256
  pcap:FILE             AES-GCM, sizes and times from a capture file
  pcap-cbc:FILE         the same with AES-CBC and HMAC-SHA256
The IMIX has 7 packets of 40 bytes, 4 of 576 bytes and 1 of 1500 bytes. For
other sizes, use pcap:FILE or pcap-cbc:FILE.

Exit status:
  1 if state was lost under any policy other than \"none\" (the control, which
  saves nothing)

Environment:
  KILN_TIERS=generic,aesni   use only these tiers

Examples:
  kiln ipsec --out DIR        the rate at which packets start to be lost
  kiln ipsec --policy legacy,bh-off --packet-rate 220000 --scheduler 6.1
  kiln ipsec --packet-rate 20000,300000    phases: low, high, low
  kiln ipsec --load pcap:traffic.pcap
  kiln ipsec --stack-ns 3000    with 3 µs per packet for the rest of the stack

One CPU is emulated. docs/tutorials/network.md says how Linux spreads IPsec over
CPUs: by SPI on receive, per-CPU associations (6.13), pcrypt.

See also:
  docs/EMULATION.md, docs/tutorials/network.md")]
pub struct IpsecArgs {
    /// FPU policies: legacy, bh-off, nested, nested-v1, preemptible, none [default: all of these]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    policy: Vec<String>,
    /// Packet loads: esp, esp-cbc, pcap:FILE, pcap-cbc:FILE
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,…",
        default_value = "esp"
    )]
    load: Vec<String>,
    /// Packets per second: one rate, or LOW,HIGH for three phases (low, high, low) [default: search
    /// for the rate at which losses begin]
    #[arg(
        long,
        value_delimiter = ',',
        num_args = 1,
        value_name = "N[,HIGH]",
        allow_hyphen_values = true
    )]
    packet_rate: Vec<f64>,
    /// Size of the anti-replay window, in packets
    #[arg(long, value_name = "N", default_value_t = 64)]
    replay_window: u32,
    /// Nanoseconds to add to each packet for the rest of the network stack
    #[arg(long, value_name = "N", default_value_t = 0)]
    stack_ns: u64,
    /// The task also sends a packet after every N disk sectors; 0: never [default: 0; 64 with two
    /// rates or a capture]
    #[arg(long, value_name = "N")]
    own_every: Option<u32>,
    /// Interrupts per second
    #[arg(
        long,
        value_name = "HZ",
        allow_hyphen_values = true,
        default_value_t = IRQ_RATE
    )]
    irq_rate: f64,
    /// Source of the interrupts; with signal, another core sends them
    #[arg(long, value_enum, default_value_t, value_name = "SOURCE")]
    inject: Source,
    /// Total measuring time in seconds, for all policies, loads and rates together [default: 48,
    /// with --quick 12]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seconds: Option<f64>,
    #[command(flatten)]
    cpu: CpuArgs,
}

/// Interrupt sources that this command accepts. Packets arrive independently of these interrupts.
#[derive(Clone, Copy, Default, ValueEnum)]
enum Source {
    #[default]
    Timer,
    Poisson,
    Signal,
}

impl IpsecArgs {
    fn plan(&self, session: &Session) -> Result<(Plan, Settings), Error> {
        let usual = self.cpu.plan(session)?;
        let plan = Plan {
            policies: policies(&self.policy)?,
            inject: match self.inject {
                Source::Timer => Inject::Timer,
                Source::Poisson => Inject::Poisson,
                Source::Signal => Inject::Signal,
            },
            irq_rate: self.irq_rate,
            budget: parse_seconds(self.seconds, 0.1)?.unwrap_or(usual.budget),
            ..usual
        };
        let loads = self.load.iter().map(|name| name.parse());
        let settings = Settings {
            loads: loads.collect::<Result<Vec<EspLoad>, _>>()?,
            rates: self.packet_rate.clone(),
            stack_ns: self.stack_ns,
            own_every: self.own_every,
            window: self.replay_window,
        };
        let plan = plan.checked()?;
        let settings = settings.checked(&plan)?;
        Ok((plan, settings))
    }
}

impl Question for IpsecArgs {
    const NAME: &'static str = "ipsec";
    const TIMED: bool = true;
    const OF_TIERS: bool = true;

    fn row_types() -> Vec<RowType> {
        vec![RowType::at::<EspRow>(32)]
    }

    /// Runs the loads, draws charts of the results if `--out` is given, and prints the rows.
    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let (plan, settings) = self.plan(session)?;
        session.settle().answer::<Self, _>(
            |facts, progress| {
                let mut bench = Bench::boot_own(&plan)?;
                let found = run(&plan, &settings, &mut bench, &session.stop, progress)?;
                let mut outcome = Outcome {
                    rows: found.rows.into_iter().map(EspRow).collect(),
                    notes: found.notes,
                    failed: found.failed,
                    interrupted: found.interrupted,
                };
                draw(&mut outcome, facts, session)?;
                Ok(outcome)
            },
            view::tables,
        )
    }
}

/// Draws a chart of each load in `DIR/ipsec-LOAD.svg` if `--out` is given.
fn draw(outcome: &mut Outcome<EspRow>, facts: &Facts, session: &Session) -> Result<(), Error> {
    let scheduler = outcome.rows.iter().find_map(|r| r.0.sweep.as_ref());
    let scheduler = scheduler.map_or(String::new(), |s| format!("{}, ", s.scheduler));
    let note = format!("{}, {scheduler}seed {}", facts.machine.model, session.seed);
    let mut loads: Vec<&str> = outcome.rows.iter().map(|r| &*r.0.load).collect();
    loads.dedup();
    let kinds: Vec<&str> = loads.iter().filter_map(|l| l.split(':').next()).collect();
    for (n, (load, kind)) in loads.iter().zip(&kinds).enumerate() {
        // If there are several captures, number the charts to make their file names unique.
        let number = match kinds[..n].contains(kind) {
            true => format!("-{}", n + 1),
            false => String::new(),
        };
        let rows = outcome.rows.iter().filter(|r| r.0.load == *load);
        let rows: Vec<&EspRow> = rows.collect();
        let file = format!("ipsec-{kind}{number}.svg");
        if let Some(path) = session.draw(&file, &draw_rows("fpu-esp", &rows), &note)? {
            let line = format!("{load}: picture in {}", path.display());
            outcome.notes.push(line);
        }
    }
    Ok(())
}
