//! The gateway on the emulated CPU. Its drivers forward packets under each policy, and these
//! packets interrupt a task that encrypts sectors.

use kiln_kernel::cipher::Op;
use kiln_kernel::crypto::{self, Model};
use kiln_kernel::esp::{self, Esp, Flow};
use kiln_kernel::fpu::Policy;
use kiln_kernel::load::Counts;
use kiln_measure::SplitMix64;
use kiln_question::Error;

use super::plan::Settings;
use super::traffic::{self, EspLoad, Source, Traffic};
use crate::fpu::bench::Bench;
use crate::fpu::plan::{Entry, Fallback, Plan};
use crate::fpu::tally::Tally;
use crate::fpu::workload::{messages, Workload};

/// Size of a sector in bytes.
pub(super) const SECTOR: usize = 4096;
/// Number of different sectors that the task encrypts.
const SECTORS: usize = 16;
/// Number of sectors that the task encrypts per kernel entry.
pub(super) const ENTRY: u64 = 16;
/// Default number of sectors after which the task itself sends a packet, in loads with phases and
/// in captures.
pub(super) const OWN_EVERY: u32 = 64;
/// Number of packets processed before the first round, to measure the time per packet.
const PRICED: u64 = 20_000;

/// The task's load, and the name under which rows show it.
pub(super) const WORK: Workload = Workload {
    len: SECTOR,
    packet: 0,
    name: "esp",
    entry: ENTRY,
};

/// A load, opened once for each driver model that the plan's policies need.
pub(super) struct Gateway(Vec<(Model, Esp)>);

impl Gateway {
    pub(super) fn open(plan: &Plan, load: &esp::Plan) -> Result<Gateway, Error> {
        let mut esps: Vec<(Model, Esp)> = Vec::new();
        for m in plan.policies.iter().map(|&policy| model(policy)) {
            if esps.iter().all(|(have, _)| *have != m) {
                esps.push((m, open(plan, load, m)?));
            }
        }
        Ok(Gateway(esps))
    }

    /// Returns the load with the drivers that `policy` uses.
    pub(super) fn esp(&mut self, policy: Policy) -> &mut Esp {
        let mut esps = self.0.iter_mut();
        let found = esps.find(|(m, _)| *m == model(policy));
        &mut found.expect("a policy of the plan").1
    }

    pub(super) fn driver(&self, policy: Policy) -> &str {
        let found = self.0.iter().find(|(m, _)| *m == model(policy));
        found.map_or("", |(_, esp)| esp.driver())
    }

    /// Runs the load once under a policy, and adds the counts to `tally`. If `quiet` is true, runs
    /// the control instead, which has no packets.
    pub(super) fn run(
        &mut self,
        plan: &Plan,
        bench: &mut Bench,
        policy: Policy,
        quiet: bool,
        tally: &mut Tally,
    ) -> Result<esp::Outcome, Error> {
        let (cpu, esp) = (bench.cpu(), self.esp(policy));
        policy.set(cpu);
        model(policy).set();
        cpu.reset_stats();
        let source = plan.inject.start(cpu, plan.irq_rate, plan.seed)?;
        let o = esp.run(cpu, ENTRY, quiet);
        drop(source);
        tally.take(cpu, counts_of(&o), o.seconds);
        Ok(o)
    }
}

/// Returns the driver model that a policy uses. Requests go through the simd helper only under
/// legacy, the only policy under which a softirq can find the FPU in use.
fn model(policy: Policy) -> Model {
    match policy.name() {
        "legacy" => Model::Helper,
        _ => Model::Direct,
    }
}

pub(super) fn entries(plan: &Plan) -> Vec<Entry> {
    let of = |&policy: &Policy| Entry {
        policy,
        fallback: match model(policy) {
            Model::Helper => Fallback::Cryptd,
            Model::Direct => Fallback::Scalar,
        },
    };
    plan.policies.iter().map(of).collect()
}

pub(super) fn esp_plan(
    plan: &Plan,
    settings: &Settings,
    load: &EspLoad,
    traffic: &Traffic,
) -> esp::Plan {
    esp::Plan {
        transform: load.transform,
        sizes: traffic.sizes.clone(),
        arrivals: traffic.arrivals.clone(),
        phase_end: traffic.phase_end,
        window: settings.window,
        own_every: settings.own_every.unwrap_or(match settings.rates.len() {
            // A search counts only forwarded packets, so by default the task does not send any.
            0 | 1 if load.source == Source::Imix => 0,
            _ => OWN_EVERY,
        }),
        stack_ns: settings.stack_ns,
        irq_ns: (1e9 / plan.irq_rate) as u64,
        log: 0,
    }
}

/// Opens a load with the drivers of a model. Keys and packets depend only on the seed.
fn open(plan: &Plan, load: &esp::Plan, model: Model) -> Result<Esp, Error> {
    model.set();
    crypto::seed(plan.seed);
    let sectors = messages(plan.seed, 3, Op::Encrypt, SECTOR, SECTORS)?;
    let mut rng = SplitMix64(plan.seed ^ 0x6573_7000);
    Esp::new(load, sectors, &mut |bytes| rng.fill(bytes)).map_err(|e| {
        Error::lacks(format!(
            "{}: the crypto API says {e}: allow the tiers it needs in KILN_TIERS",
            load.transform.alg()
        ))
    })
}

/// Measures the time per packet in nanoseconds, without interrupts and with the FPU not in use.
pub(super) fn direct_price_ns(
    plan: &Plan,
    settings: &Settings,
    load: &EspLoad,
    bench: &mut Bench,
) -> Result<f64, Error> {
    let few = traffic::constant(plan.seed, 1000.0, true);
    let sample = esp_plan(plan, settings, load, &few);
    let bh_off = Policy::all().into_iter().find(|p| p.name() == "bh-off");
    bh_off.unwrap_or(plan.policies[0]).set(bench.cpu());
    let mut esp = open(plan, &sample, Model::Direct)?;
    esp.price_ns(bench.cpu(), PRICED / 10);
    // Make many short runs and use the shortest one, which the host is unlikely to have
    // interrupted.
    let prices = (0..40).map(|_| esp.price_ns(bench.cpu(), PRICED / 40));
    Ok(prices.fold(f64::INFINITY, f64::min))
}

/// Converts the counts of a run to the type that tallies use.
fn counts_of(o: &esp::Outcome) -> Counts {
    let flows = |f: fn(&Flow) -> u64| o.flows.iter().map(f).sum::<u64>();
    Counts {
        task_ops: o.sectors,
        task_corrupted: o.sectors_corrupted,
        softirq_ops: flows(|f| f.done),
        softirq_corrupted: flows(|f| f.corrupted),
        user_corrupted: o.user_corrupted,
        async_punts: flows(|f| f.async_punts),
        dropped: flows(|f| f.dropped),
        reordered: flows(|f| f.reordered),
        errors: flows(|f| f.errors),
        ..Counts::default()
    }
}
