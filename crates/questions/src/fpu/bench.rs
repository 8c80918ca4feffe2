//! The emulated CPU on which all measurements run, and the ciphers that they use: Kiln's own
//! ciphers, or those of a hosted kernel tree.

use std::rc::Rc;

use kiln_kernel::cipher::Impl;
use kiln_kernel::cpu::Cpu;
use kiln_kernel::crypto::{Asked, Model, Skcipher};
use kiln_kernel::fpu::Policy;
use kiln_kernel::load::{self, Messages, TaskWork, Worker};
use kiln_question::Error;
use kiln_tree::stream::Stream;
use kiln_tree::Host;

use super::plan::{Plan, TreeName};
use super::workload::{load_plan, messages, scalar, softirq_messages, Workload};

/// Maximum number of requests that softirqs may have in flight. It exceeds the length of cryptd's
/// queue, so that only cryptd rejects requests.
const SLOTS: u32 = 1280;
/// The algorithm name for which a tree's crypto API returns the best driver.
const ALGORITHM: &str = "xts(aes)";

/// The calling thread as an emulated CPU.
pub(crate) enum Bench {
    /// A CPU for Kiln's own policies.
    Own(Cpu),
    /// A CPU that hosts a tree. The tree's policy is active while its code runs.
    Tree(Box<Host>),
}

impl Bench {
    /// Boots a CPU for Kiln's own policies.
    pub(crate) fn boot_own(plan: &Plan) -> Result<Bench, Error> {
        Cpu::boot(&plan.config()).map(Bench::Own).map_err(|e| {
            Error::lacks(format!(
                "cannot make an emulated CPU: {e}: free some memory, and allow arch_prctl"
            ))
        })
    }

    pub(crate) fn cpu(&mut self) -> &mut Cpu {
        match self {
            Bench::Own(cpu) => cpu,
            Bench::Tree(host) => &mut host.cpu,
        }
    }

    /// Restores the policy that later code in this process expects: the default policy, or the
    /// hosted tree's policy.
    pub(crate) fn put_back(&mut self) {
        let policy = match self {
            Bench::Own(_) => Policy::all()[0],
            Bench::Tree(host) => host.policy,
        };
        policy.set(self.cpu());
    }

    /// Opens a cipher of the hosted tree and sets the key that belongs to `messages`.
    fn stream(
        &mut self,
        plan: &Plan,
        tree: &TreeName,
        messages: &Messages,
        slots: u32,
        sleeps: bool,
    ) -> Result<Rc<Stream>, Error> {
        let Bench::Tree(host) = self else {
            return Err(Error::lacks("there is no tree in this process"));
        };
        let mut open = |name| Stream::open(host, name, messages.raw_key(), slots, sleeps);
        let opened = match tree.driver.as_deref() {
            None => open(ALGORITHM),
            // Opening fails if the name belongs to one of Kiln's implementations. If Kiln's own
            // policies are also measured, the tree uses its best driver instead.
            Some(name) => open(name).or_else(|e| match plan.policies.len() {
                1 => Err(e),
                _ => open(ALGORITHM),
            }),
        };
        opened.map(Rc::new).map_err(|e| Error::input(e.to_string()))
    }

    /// Opens a stream for softirqs that process messages of `packet` bytes.
    pub(crate) fn softirq_stream(
        &mut self,
        plan: &Plan,
        tree: &TreeName,
        packet: usize,
    ) -> Result<Rc<Stream>, Error> {
        self.stream(
            plan,
            tree,
            &*softirq_messages(plan.seed, packet)?,
            SLOTS,
            false,
        )
    }

    /// Opens a stream for a task that waits for the result of each request.
    pub(crate) fn task_stream(
        &mut self,
        plan: &Plan,
        tree: &TreeName,
        messages: &Messages,
    ) -> Result<Rc<Stream>, Error> {
        self.stream(plan, tree, messages, 1, true)
    }

    /// Creates the work of the task and the softirqs for calls to the tree's cipher. The returned
    /// streams must outlive the returned work.
    pub(crate) fn tree_sides(
        &mut self,
        plan: &Plan,
        tree: &TreeName,
        work: Workload,
        packet: usize,
    ) -> Result<(load::Sides, TreeStreams), Error> {
        let softirq = self.softirq_stream(plan, tree, packet)?;
        let mut streams = TreeStreams {
            softirq,
            task: None,
        };
        let task = match work.task_messages(plan.seed)? {
            None => work.keep(plan.seed),
            Some(messages) => {
                let stream = self.task_stream(plan, tree, &messages)?;
                let task = TaskWork::Ask(stream.operation(), messages, 1);
                streams.task = Some(stream);
                task
            }
        };
        let worker = Worker::Op(streams.softirq.operation());
        let sides = load::Sides::new(task, (worker, softirq_messages(plan.seed, packet)?))
            .map_err(|e| Error::lacks(e.to_string()))?;
        Ok((sides, streams))
    }

    /// Creates the work of the task and the softirqs for calls through the simd helper of Kiln's
    /// own crypto API. The transforms must outlive the returned work.
    pub(crate) fn asking_sides(
        &mut self,
        plan: &Plan,
        imp: Impl,
        work: Workload,
        packet: usize,
    ) -> Result<(load::Sides, Vec<Asked>), Error> {
        Model::Helper.set();
        let open = |messages: &Messages, slots| {
            let mut tfm = Skcipher::open(imp.driver(), 0, 0)?;
            tfm.set_key(messages.raw_key())?;
            Asked::new(tfm, slots)
        };
        let refused = |e| Error::lacks(format!("{}: the crypto API says {e}", imp.driver()));
        let messages = softirq_messages(plan.seed, packet)?;
        let mut softirq = open(&messages, SLOTS).map_err(refused)?;
        let worker = Worker::Op(softirq.operation());
        let mut asked = vec![softirq];
        let task = match work.task_messages(plan.seed)? {
            None => work.keep(plan.seed),
            Some(messages) => {
                let mut of_task = open(&messages, 1).map_err(refused)?;
                let task = TaskWork::Ask(of_task.operation(), messages, 1);
                asked.push(of_task);
                task
            }
        };
        let sides = load::Sides::new(task, (worker, messages));
        Ok((sides.map_err(|e| Error::lacks(e.to_string()))?, asked))
    }
}

/// A tree's open ciphers: one for the softirqs and one for the task.
pub(crate) struct TreeStreams {
    pub softirq: Rc<Stream>,
    pub task: Option<Rc<Stream>>,
}

impl TreeStreams {
    pub(crate) fn driver(&self) -> String {
        self.softirq.driver().to_string()
    }
}

/// Creates a load with minimal work. Every run replaces this work with its own.
pub(crate) fn idle_load(plan: &Plan) -> Result<load::Plan, Error> {
    load_plan(
        plan.seed,
        TaskWork::Crypt(
            scalar()?,
            messages(plan.seed, 1, kiln_kernel::cipher::Op::Encrypt, 16, 1)?,
        ),
        scalar()?.into(),
        16,
        false,
    )
}
