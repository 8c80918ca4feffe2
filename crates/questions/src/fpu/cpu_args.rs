//! Flags for the emulated CPU: preemption and scheduler.

use clap::{Args, ValueEnum};
use kiln_question::{Error, Session};

use super::plan::{scheduler, Plan};

#[derive(Args)]
#[command(next_help_heading = "Emulated CPU")]
pub(crate) struct CpuArgs {
    /// Preemption model of the emulated kernel
    #[arg(long, value_enum, default_value_t)]
    preempt: Preempt,
    /// Scheduler to emulate: cfs-6.1, eevdf-6.12 or eevdf-7.3. The number is the Linux version
    /// whose rules and parameters are used; the number alone, such as 6.1, is enough
    #[arg(long, default_value = "eevdf-6.12", value_name = "NAME")]
    scheduler: String,
    /// Scale time slices as Linux does on a machine with N CPUs; Kiln still emulates only one CPU
    #[arg(long, value_name = "N", default_value_t = 1)]
    scheduler_cpus: u32,
    /// Microseconds that a task may run while another task waits [default: set by --scheduler]
    #[arg(long, value_name = "N")]
    slice_us: Option<u64>,
    /// Microseconds between two scheduler ticks [default: 4000, which is 250 Hz]
    #[arg(long, value_name = "N")]
    tick_us: Option<u64>,
}

#[derive(Clone, Copy, Default, PartialEq, ValueEnum)]
enum Preempt {
    #[default]
    Voluntary,
    Full,
}

impl CpuArgs {
    /// Creates the default plan for the CPU that the flags describe.
    pub(crate) fn plan(&self, session: &Session) -> Result<Plan, Error> {
        Ok(Plan {
            preempt_full: self.preempt == Preempt::Full,
            scheduler: scheduler(&self.scheduler)?,
            scheduler_cpus: self.scheduler_cpus,
            slice_us: self.slice_us,
            tick_us: self.tick_us,
            ..Plan::new(session.seed, session.global.quick)
        })
    }
}
