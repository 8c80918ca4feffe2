//! Tests with several CPUs in one process.

use kiln_kernel::cipher::Op;
use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::crypto::{Aead, Model, Skcipher};
use kiln_kernel::fpu::Policy;
use kiln_kernel::irq::Arrivals;
use kiln_kernel::load::{best_impl, Plan};

use crate::corruption::{interrupt, keep, Rate};
use crate::machine::{
    assert_clean, boot, config, cores, correct_policies, interrupted, messages, pin, plan,
    run_alone, two_cores,
};

/// Runs `body` on two CPUs at the same time. Each CPU has its own thread and, if the host has two
/// cores, its own core.
fn on_two_cpus<T: Send>(
    config: impl Fn() -> Config + Sync,
    body: impl Fn(&mut Cpu, usize) -> T + Sync,
) -> [T; 2] {
    let cores = cores();
    let run = |number: usize| {
        pin(cores[number % cores.len()]);
        let mut cpu = Cpu::boot(&Config {
            number: number as u32,
            ..config()
        })
        .expect("a CPU boots");
        body(&mut cpu, number)
    };
    let run = &run;
    std::thread::scope(|s| {
        let threads = [0, 1].map(|n| s.spawn(move || run(n)));
        threads.map(|t| t.join().expect("no panic"))
    })
}

/// Two CPUs run at the same time, each with its own thread, core, timer and state.
#[test]
fn two_cpus_do_not_disturb_each_other() {
    run_alone(|seed| {
        if two_cores("two CPUs take turns on it").is_none() {
            println!("(which they do: the test goes on)");
        }
        for p in correct_policies() {
            // All CPUs share the policy, so set it before they start.
            p.set(&mut boot());
            let rates = on_two_cpus(
                || config(true, 100),
                |cpu, number| two_cpu_load(cpu, p, seed + number as u64),
            );
            for (n, rate) in rates.iter().enumerate() {
                rate.print(&format!("CPU {n} of two, Poisson timer, {p}"));
            }
        }
    });
}

fn two_cpu_load(cpu: &mut Cpu, p: Policy, seed: u64) -> Rate {
    let mut rate = Rate::default();
    let plan = Plan {
        second: Some((best_impl(), messages(seed ^ 5, Op::Encrypt, 512, 8))),
        hardirq_fpu: true,
        ..plan(keep(seed), seed)
    };
    let counts = interrupted(cpu, plan, Arrivals::Poisson(33_000.0, seed), |load| {
        interrupt(load, 20, 5_000, &mut rate, || ());
    });
    assert_clean(&format!("{p}"), &counts);
    rate
}

/// Two CPUs repeatedly open and free an instance of the same template. Opening must always succeed,
/// no matter which CPU created the instance or when the other CPU frees it.
#[test]
fn two_cpus_make_and_drop_one_instance() {
    run_alone(|_| {
        on_two_cpus(Config::default, |_, _| {
            for _ in 0..200_000 {
                let tfm = Skcipher::open("cryptd(xts-aes-generic)", 0, 0);
                assert!(tfm.is_ok(), "{:?}", tfm.err());
            }
        });
    });
}

/// Opening an instance that wraps another instance must succeed on both CPUs, although the other
/// CPU may free the inner instance at any time.
#[test]
fn two_cpus_make_and_drop_nested_instances() {
    run_alone(|seed| {
        Model::Direct.set();
        on_two_cpus(Config::default, |_, _| {
            let open = |name| match Aead::open(name, 0, 0) {
                Ok(tfm) => tfm,
                Err(e) => panic!("{name}: {e}"),
            };
            for i in 0..30_000 {
                let inner = open("seqiv(rfc4106(gcm(aes)))");
                let outer = open("cryptd(seqiv(rfc4106(gcm(aes))))");
                if seed >> (i % 64) & 1 == 0 {
                    drop(inner);
                    drop(outer);
                } else {
                    drop(outer);
                    drop(inner);
                }
                drop(open("authenc(hmac(sha256),cryptd(cbc(aes)))"));
            }
        });
    });
}
