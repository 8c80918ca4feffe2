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

/// The packet rate at which IPsec starts to lose packets, by FPU policy
///
/// Softirqs on an emulated CPU encrypt and decrypt ESP packets, as Linux's xfrm does. A task on the
/// same CPU encrypts disk sectors. This task represents any user of the FPU, such as dm-crypt or
/// WireGuard. An FPU policy decides what happens to packets that arrive while the task uses the
/// FPU. Under the policy 'legacy' (Linux up to 6.14), such packets wait for cryptd, which drops
/// packets when its queue is full. Under the other policies, the softirq processes such packets
/// itself.
#[derive(Args)]
#[command(after_long_help = "\
Loads (--load):
  esp                   AES-GCM (rfc4106), IMIX packet sizes
  esp-cbc               AES-CBC and HMAC-SHA256, IMIX packet sizes
  pcap:FILE             AES-GCM, packet sizes and times from a capture file
  pcap-cbc:FILE         AES-CBC and HMAC-SHA256, sizes and times from FILE
IMIX is a mix of packet sizes: of 12 packets, 7 have 40 bytes, 4 have 576
and 1 has 1500. For other sizes, use pcap:FILE or pcap-cbc:FILE.

Exit status:
  1 if results were wrong or user-mode registers were lost under a policy
    other than \"none\". The policy \"none\" is a control: it saves no
    registers, to show that Kiln finds such errors

Environment:
  KILN_TIERS=generic,aesni   use only these ISA tiers; 'kiln list' shows all

Examples:
  kiln ipsec --out DIR        the rate at which packets start to be lost
  kiln ipsec --policy legacy,bh-off --packet-rate 220000 --scheduler 6.1
  kiln ipsec --packet-rate 20000,300000    phases: low, high, low
  kiln ipsec --load pcap:traffic.pcap
  kiln ipsec --stack-ns 3000    with 3 µs per packet for the rest of the stack

Only one CPU is emulated. A real kernel can spread IPsec over several CPUs:
it can distribute received packets by SPI, use security associations per CPU
(since Linux 6.13), or use pcrypt. See docs/tutorials/network.md.

See also:
  docs/EMULATION.md, docs/tutorials/network.md")]
pub struct IpsecArgs {
    /// FPU policies, explained by kiln fpu --help: legacy, bh-off, nested, nested-v1, preemptible,
    /// none [default: all six]
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
    /// Packets that arrive per second: one rate, or LOW,HIGH for three phases (low, high, low)
    /// [default: search for the rate at which losses begin]
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
    /// Add N ns per packet for the rest of the network stack, which Kiln does not run
    #[arg(long, value_name = "N", default_value_t = 0)]
    stack_ns: u64,
    /// Let the task that encrypts disk sectors also send a packet after every N sectors; 0 means
    /// never [default: 64 with --packet-rate LOW,HIGH or a pcap load, else 0]
    #[arg(long, value_name = "N")]
    own_every: Option<u32>,
    /// Interrupts per second on the emulated CPU
    #[arg(
        long,
        value_name = "HZ",
        allow_hyphen_values = true,
        default_value_t = IRQ_RATE
    )]
    irq_rate: f64,
    /// What causes the interrupts: timer (even intervals), poisson (random intervals) or signal
    /// (sent by another core)
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
