//! Several CPUs in one process.

use kiln_kernel::cipher::Op;
use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::crypto::{Aead, Model, Skcipher};
use kiln_kernel::fpu::Policy;
use kiln_kernel::irq::{Arrivals, Timer};
use kiln_kernel::load::{best_impl, Load, Plan, TaskWork};

use crate::corruption::{config, interrupt, Rate, SPINS_10_US};
use crate::machine::{alone, assert_clean, boot, cores, correct, judge, messages, pin, two_cores};

/// Two CPUs at once, each with its thread, core, timer and state.
#[test]
fn two_cpus_do_not_disturb_each_other() {
    alone("parallel::two_cpus_do_not_disturb_each_other", |seed| {
        let cores = cores();
        if two_cores("two CPUs take turns on it").is_none() {
            println!("(which they do: the test goes on)");
        }
        for p in correct() {
            let run = |number: usize| {
                pin(cores[number % cores.len()]);
                let mut cpu = Cpu::boot(&Config {
                    number: number as u32,
                    ..config(true)
                })
                .expect("a CPU boots");
                two_cpu_load(&mut cpu, p, seed + number as u64)
            };
            // The policy is everybody's: set before they start.
            p.set(&mut boot());
            let rates = std::thread::scope(|s| {
                let threads = [0, 1].map(|n| s.spawn(move || run(n)));
                threads.map(|t| t.join().expect("no panic"))
            });
            for (n, rate) in rates.iter().enumerate() {
                rate.print(&format!("CPU {n} of two, Poisson timer, {p}"));
            }
        }
    });
}

fn two_cpu_load(cpu: &mut Cpu, p: Policy, seed: u64) -> Rate {
    let mut rate = Rate::default();
    let task = TaskWork::Keep {
        seed,
        spins: SPINS_10_US,
    };
    let plan = Plan {
        task,
        softirq: (best_impl().into(), messages(!seed, Op::Encrypt, 512, 8)),
        fallback: judge(),
        second: Some((best_impl(), messages(seed ^ 5, Op::Encrypt, 512, 8))),
        hardirq_fpu: true,
    };
    let mut load = Load::attach(cpu, plan).expect("tiers are there");
    let timer = Timer::start(load.cpu(), Arrivals::Poisson(33_000.0, seed)).expect("a timer");
    interrupt(&mut load, 20, 5_000, &mut rate, || ());
    drop(timer);
    assert_clean(&format!("{p}"), &load.counts());
    rate
}

/// Whoever of two CPUs makes an instance of a template, both get it, however soon the other lets it go.
#[test]
fn two_cpus_make_and_drop_one_instance() {
    alone("parallel::two_cpus_make_and_drop_one_instance", |_| {
        let cores = cores();
        let run = |number: usize| {
            pin(cores[number % cores.len()]);
            let _cpu = Cpu::boot(&Config {
                number: number as u32,
                ..Config::default()
            })
            .expect("a CPU boots");
            for _ in 0..200_000 {
                let tfm = Skcipher::open("cryptd(xts-aes-generic)", 0, 0);
                assert!(tfm.is_ok(), "{:?}", tfm.err());
            }
        };
        std::thread::scope(|s| {
            let threads = [0, 1].map(|n| s.spawn(move || run(n)));
            for thread in threads {
                thread.join().expect("no panic");
            }
        });
    });
}

/// The same where an instance is made of another, which the other CPU may let go at any moment.
#[test]
fn two_cpus_make_and_drop_nested_instances() {
    alone(
        "parallel::two_cpus_make_and_drop_nested_instances",
        |seed| {
            let cores = cores();
            Model::Direct.set();
            let run = |number: usize| {
                pin(cores[number % cores.len()]);
                let _cpu = Cpu::boot(&Config {
                    number: number as u32,
                    ..Config::default()
                })
                .expect("a CPU boots");
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
            };
            std::thread::scope(|s| {
                let threads = [0, 1].map(|n| s.spawn(move || run(n)));
                for thread in threads {
                    thread.join().expect("no panic");
                }
            });
        },
    );
}
