//! Runs the fidelity questions on Kiln's emulated CPU and returns its answers.

use std::collections::BTreeMap;

use kiln_kernel::cipher::{Context, Impl, Op, BLOCK};
use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::crypto::{Model, Skcipher};
use kiln_kernel::fpu::Policy;
use kiln_kernel::load::best_impl;
use kiln_kernel::script::{self, Step};
use kiln_kernel::Tier;

use super::answer::describe_outcome;
use super::question::TIMES;
use super::question::{Asked, Question};

/// Length in bytes of the message in every request. `linux/fidelity/requests.c` uses the same
/// length.
const LEN: u8 = 48;
const RAW_KEY: [u8; 64] = {
    let mut key = [0x5e; 64];
    key[0] = 1;
    key
};
const IV: [u8; BLOCK] = [9; BLOCK];

/// The calling thread's emulated CPU, along with the message that every request encrypts and the
/// expected ciphertext.
pub struct Emulated {
    cpu: Cpu,
    src: Vec<u8>,
    want: Vec<u8>,
}

impl Emulated {
    /// Turns this thread into an emulated CPU with this FPU policy.
    ///
    /// # Errors
    /// Fails if the policy does not exist, the emulated CPU cannot boot on this host, or the
    /// expected ciphertext cannot be computed.
    pub fn boot(policy: &str) -> Result<Emulated, String> {
        let policy: Policy = policy.parse()?;
        let mut cpu = Cpu::boot(&Config::default()).map_err(|e| e.to_string())?;
        policy.set(&mut cpu);
        Model::Helper.set();
        let src: Vec<u8> = (0..LEN).collect();
        let mut want = vec![0; src.len()];
        let judge =
            Impl::find("xts-aes-fixed-time").ok_or("xts-aes-fixed-time is not available")?;
        let ctx = Context::new(judge, &RAW_KEY).map_err(|_| "the key is rejected")?;
        judge.crypt(Op::Encrypt, &ctx, &IV, &src, &mut want);
        Ok(Emulated { cpu, src, want })
    }

    /// Returns the ciphertext that every request must produce, in hexadecimal.
    pub fn right(&self) -> String {
        self.want.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// Asks the question several times and returns the most frequent answer, because a tick or the
    /// host's scheduler may disturb a few of the answers, as on the real kernel. Returns `None` for
    /// a script of requests if only generic code is usable: scripts test requests that wait for the
    /// FPU, and generic code never waits for it.
    pub fn answer(&mut self, question: &Question) -> Option<String> {
        let mut counts = BTreeMap::new();
        for _ in 0..TIMES {
            *counts.entry(self.answer_once(question)?).or_insert(0) += 1;
        }
        counts.into_iter().max_by_key(|c| c.1).map(|c| c.0)
    }

    fn answer_once(&mut self, question: &Question) -> Option<String> {
        match &question.asked {
            Asked::Scene(scene) => Some(scene.play(&mut self.cpu)),
            Asked::Requests(..) if best_impl().tier() == Tier::Generic => None,
            Asked::Requests(transforms, steps) => Some(self.requests(*transforms, steps)),
        }
    }

    fn requests(&mut self, transforms: usize, steps: &[Step]) -> String {
        let tfms: Vec<Skcipher> = (0..transforms)
            .map(|_| {
                let mut tfm = Skcipher::open("xts(aes)", 0, 0).expect("the algorithm exists");
                tfm.set_key(&RAW_KEY).expect("64 bytes");
                tfm
            })
            .collect();
        let borrowed: Vec<&Skcipher> = tfms.iter().collect();
        let message = (&self.src[..], &self.want[..], &IV);
        let outcome = script::run(&mut self.cpu, &borrowed, steps, message);
        for (i, tfm) in tfms.into_iter().enumerate() {
            if steps.contains(&Step::Free(i)) {
                script::give_up(tfm);
            }
        }
        describe_outcome(&outcome)
    }
}
