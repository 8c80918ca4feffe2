//! Prints how small a difference this machine can resolve. Usage: `self_check [--quick] [CORES]`,
//! where CORES is a list such as `0` or `0,2-3`.

use std::sync::atomic::AtomicBool;

use kiln_measure::{pin, self_check, Machine};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut quick = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quick" => quick = true,
            cores => pin(&cores.parse()?)?,
        }
    }
    let machine = Machine::read();
    println!("{}, Linux {}", machine.model, machine.kernel);
    println!(
        "TSC {:.4} GHz, core {:.3} GHz",
        machine.tsc_hz / 1e9,
        machine.core_hz / 1e9
    );
    let trust = self_check(quick, &AtomicBool::new(false), &mut |_, _| {});
    for row in &trust.rows {
        println!(
            "{:<27} {:>9.3} {:<3} {:<4} {}",
            row.check, row.value, row.unit, row.verdict, row.meaning
        );
    }
    println!("{}", trust.sentence);
    Ok(())
}
