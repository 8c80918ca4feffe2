//! An IPsec gateway on an emulated CPU: softirqs process ESP packets while a task encrypts disk
//! sectors.
//!
//! Packets of flow 0 come from the tunnel and are decrypted; packets of flow 1 are sent into the
//! tunnel and are encrypted. The task also sends packets on flow 1. Each flow ends at a receiver
//! with an anti-replay window.

mod packet;
pub mod replay;

use packet::ICV;
pub use packet::{Sealer, Transform, HEADER, MAX_PAYLOAD};

use std::ptr;
use std::sync::Arc;

use crate::cipher::{Op, BLOCK};
use crate::cpu::{self, kiln_tsc_hz, Cpu, UserProgram};
use crate::crypto::{Aead, Errno, Skcipher};
use crate::fpu::Context;
use crate::load::Messages;
use crate::sys;

/// Maximum number of requests in flight per flow. This exceeds the capacity of cryptd's queue, so
/// packets are dropped only if that queue is full.
const SLOTS: usize = 1280;
const SAMPLES: usize = 4096;
/// Index of the flow that arrives from the tunnel.
pub const IN: usize = 0;
/// Index of the flow that is sent into the tunnel.
pub const OUT: usize = 1;

/// The arrival of a packet at the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time of arrival, in nanoseconds on the load's clock.
    pub at: u64,
    /// Size of the packet, as an index into [`Plan::sizes`].
    pub packet: u32,
    /// The packet's flow: [`IN`] or [`OUT`].
    pub flow: u32,
}

/// Settings of an ESP load.
#[derive(Clone)]
pub struct Plan {
    /// Algorithms that encrypt and authenticate the packets.
    pub transform: Transform,
    /// Payload sizes in bytes. An [`Arrival`] refers to a size by its index.
    pub sizes: Vec<u32>,
    /// Arrivals of packets, sorted by time.
    pub arrivals: Arc<[Arrival]>,
    /// Ends of the three phases (low, high, low load), in nanoseconds on the load's clock.
    pub phase_end: [u64; 3],
    /// Size of a receiver's anti-replay window, in sequence numbers.
    pub window: u32,
    /// The task sends one packet each time it has encrypted this many sectors. If this is 0, it
    /// sends none.
    pub own_every: u32,
    /// Nominal interval between interrupts, in nanoseconds. If an actual interval is more than
    /// three times as long, the difference between the two counts as time that the host took away.
    pub irq_ns: u64,
    /// Time in nanoseconds to spin before making the request for each packet from the card. The
    /// delay stands in for the network stack, which is not modelled.
    pub stack_ns: u64,
    /// Maximum number of entries in [`Outcome::log`].
    pub log: usize,
}

/// Packet and request counts for one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Number of packets that were assigned a sequence number.
    pub sent: u64,
    /// Number of completed requests.
    pub done: u64,
    /// Payload bytes that the receiver accepted in each phase, excluding packets from the task.
    pub bytes: [u64; 3],
    /// Requests that failed or completed with a wrong result.
    pub corrupted: u64,
    pub errors: u64,
    /// Requests that completed asynchronously.
    pub async_punts: u64,
    /// Packets dropped because cryptd's queue was full.
    pub dropped: u64,
    /// Requests that completed after the request for a packet with a higher sequence number.
    pub reordered: u64,
    /// Packets that the receiver rejected because they were older than its window.
    pub replay_lost: u64,
}

/// Results of an ESP load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub flows: [Flow; 2],
    /// Packets lost because the card's ring was full.
    pub missed: u64,
    /// Number of packets that arrived.
    pub arrived: u64,
    /// Number of sectors that the task encrypted.
    pub sectors: u64,
    pub sectors_corrupted: u64,
    /// Number of packets that the task sent.
    pub own_packets: u64,
    /// Kernel entries that changed the user program's FPU state.
    pub user_corrupted: u64,
    /// Duration in seconds, excluding the time that the host took away.
    pub seconds: f64,
    /// Microseconds from the end of the high load until no packet was waiting or in flight. `None`
    /// if this never happened.
    pub recovery_us: Option<f64>,
    pub samples: Vec<Sample>,
    /// Sequence numbers of flow 1, in the order in which their requests completed.
    pub log: Vec<u32>,
}

/// A snapshot of a load's progress.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Time in milliseconds, on the load's clock.
    pub ms: f64,
    /// Payload bytes accepted so far.
    pub bytes: u64,
    /// Packets that have arrived so far.
    pub arrived: u64,
    /// Sum of [`Flow::dropped`] over both flows so far.
    pub dropped: u64,
    /// Packets rejected by the receiver so far.
    pub lost: u64,
    /// Sectors encrypted so far.
    pub sectors: u64,
    /// Requests in cryptd's queue.
    pub queued: u32,
    /// Packets in the card's ring.
    pub waiting: u32,
}

/// A flow's packets and their expected results. The load cycles through the packets.
struct Ring {
    raw: Vec<sys::EspPacket>,
    _bytes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A gateway load, with its transforms and buffers.
pub struct Esp {
    /// Boxed, because `kernel/` stores the structure's address.
    raw: Box<sys::EspLoad>,
    driver: String,
    user: UserProgram,
    ticks_per_us: f64,
    _tfms: ([Aead; 2], Skcipher),
    _rings: [Ring; 2],
    _slots: [Vec<sys::EspSlot>; 2],
    _buffers: [Vec<u8>; 2],
    arrivals: Vec<sys::EspArrival>,
    samples: Vec<sys::EspSample>,
    log: Vec<u32>,
    _sectors: (Arc<Messages>, Vec<u8>),
}

/// Returns the salt that `seqiv` XORs with sequence numbers. The salt equals the IV that `seqiv`
/// generates for sequence number 0.
fn salt(tfm: &mut Aead) -> Result<[u8; 8], Errno> {
    let mut iv = [0; BLOCK];
    let mut bytes = [0u8; HEADER + 8 + ICV];
    let list = [(bytes.as_mut_ptr(), bytes.len())];
    // SAFETY: the only piece is the whole array, which is writable.
    let (_, result) =
        unsafe { tfm.request(Op::Encrypt, &mut iv, HEADER, 8, &list, &list, Context::Task) };
    match result {
        Errno(0) => Ok(iv[..8].try_into().expect("eight bytes")),
        e => Err(e),
    }
}

impl Ring {
    fn new(
        plan: &Plan,
        sealer: &Sealer,
        flow: usize,
        salt: [u8; 8],
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Ring {
        let spi = 0x1000 + flow as u32;
        let mut bytes = Vec::with_capacity(plan.sizes.len());
        let mut raw = Vec::with_capacity(plan.sizes.len());
        for (i, &size) in plan.sizes.iter().enumerate() {
            let seq = i as u32 + 1;
            let mut payload = vec![0; size as usize];
            random(&mut payload);
            let (mut request_iv, mut iv) = ([0; 16], [0; 16]);
            match (plan.transform, flow) {
                (Transform::Rfc4106, OUT) => {
                    request_iv[..8].copy_from_slice(&u64::from(seq).to_be_bytes());
                    for (i, byte) in iv[..8].iter_mut().enumerate() {
                        *byte = request_iv[i] ^ salt[i];
                    }
                }
                _ => {
                    random(&mut iv);
                    request_iv = iv;
                }
            }
            let plain = sealer.plain(spi, seq, &iv, &payload);
            let sealed = sealer.seal(&plain);
            let (input, want) = match flow {
                IN => (sealed, plain),
                _ => (plain, sealed),
            };
            raw.push(sys::EspPacket {
                in_: input.as_ptr(),
                want: want.as_ptr(),
                in_len: input.len() as u32,
                want_len: want.len() as u32,
                payload: size,
                iv: request_iv,
            });
            bytes.push((input, want));
        }
        Ring { raw, _bytes: bytes }
    }
}

fn flow(plan: &Plan, which: usize) -> sys::EspFlow {
    sys::EspFlow {
        decrypt: which == IN,
        assoclen: plan.transform.assoc_len() as u32,
        packets: plan.sizes.len() as u32,
        slots: SLOTS as u32,
        window: sys::Replay {
            size: plan.window,
            ..Default::default()
        },
        ..Default::default()
    }
}

fn ticks(ns: u64) -> u64 {
    (ns as f64 * kiln_tsc_hz() / 1e9) as u64
}

fn sample_every(phase_end: [u64; 3]) -> u64 {
    ticks((phase_end[2] / SAMPLES as u64).max(1_000_000))
}

fn raw_arrivals(arrivals: &[Arrival]) -> Vec<sys::EspArrival> {
    let raw = |a: &Arrival| sys::EspArrival {
        when: ticks(a.at),
        packet: a.packet,
        flow: a.flow,
    };
    arrivals.iter().map(raw).collect()
}

impl Esp {
    /// Creates a load that uses the preferred drivers of the current model. The task encrypts
    /// `sectors`.
    ///
    /// # Errors
    /// Fails if the crypto API rejects a transform or its key.
    ///
    /// # Panics
    /// If an arrival refers to a size that does not exist, or a size exceeds [`MAX_PAYLOAD`].
    pub fn new(
        plan: &Plan,
        sectors: Arc<Messages>,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<Esp, Errno> {
        let named = |a: &Arrival| (a.packet as usize) < plan.sizes.len() && a.flow < 2;
        assert!(!plan.sizes.is_empty() && plan.arrivals.iter().all(named));
        let longest = plan.sizes.iter().copied().max().unwrap_or(0) as usize;
        assert!(longest <= MAX_PAYLOAD);

        let sealers = [0, 1].map(|_| Sealer::new(plan.transform, random));
        let open = |sealer: &Sealer| {
            let mut tfm = Aead::open(plan.transform.alg(), 0, 0)?;
            tfm.set_key(sealer.key())?;
            tfm.set_tag_size(ICV)?;
            Ok(tfm)
        };
        let mut tfms = [open(&sealers[IN])?, open(&sealers[OUT])?];
        let salt = match plan.transform {
            Transform::Rfc4106 => salt(&mut tfms[OUT])?,
            Transform::CbcHmac => [0; 8],
        };
        let mut disk = Skcipher::open("xts(aes)", 0, 0)?;
        disk.set_key(sectors.raw_key())?;
        let rings = [IN, OUT].map(|i| Ring::new(plan, &sealers[i], i, salt, random));
        let stride = plan.transform.packet_len(longest).next_multiple_of(64);
        let mut buffers = [0, 1].map(|_| vec![0u8; stride * SLOTS]);
        let mut slots: [Vec<sys::EspSlot>; 2] = [IN, OUT].map(|i| {
            let base = buffers[i].as_mut_ptr();
            let mut slots = vec![sys::EspSlot::default(); SLOTS];
            for (n, slot) in slots.iter_mut().enumerate() {
                slot.sg.last = true;
                slot.buffer = base.wrapping_add(n * stride);
            }
            slots
        });
        let arrivals = raw_arrivals(&plan.arrivals);
        let mut samples = vec![sys::EspSample::default(); SAMPLES];
        let mut log = vec![0u32; plan.log];
        assert_eq!(sectors.len, sectors.stride, "sectors without gaps");
        let mut dst = vec![0u8; sectors.src.len()];
        let mut raw = Box::new(sys::EspLoad {
            flow: [flow(plan, IN), flow(plan, OUT)],
            arrival: arrivals.as_ptr(),
            arrivals: arrivals.len() as u32,
            phase_end: plan.phase_end.map(ticks),
            stack: ticks(plan.stack_ns),
            steal_limit: ticks(3 * plan.irq_ns),
            steal_usual: ticks(plan.irq_ns),
            sectors_tfm: disk.raw.tfm,
            src: sectors.src.as_ptr(),
            want: sectors.want.as_ptr(),
            dst: dst.as_mut_ptr(),
            iv: sectors.ivs.as_ptr().cast(),
            sector_len: sectors.len as u32,
            sector_count: sectors.ivs.len() as u32,
            own_every: plan.own_every,
            sample: samples.as_mut_ptr(),
            max_samples: SAMPLES as u32,
            sample_every: sample_every(plan.phase_end),
            log: match plan.log {
                0 => ptr::null_mut(),
                _ => log.as_mut_ptr(),
            },
            max_log: plan.log as u32,
            ..Default::default()
        });
        for i in [IN, OUT] {
            raw.flow[i].tfm = tfms[i].raw.tfm;
            raw.flow[i].packet = rings[i].raw.as_ptr();
            raw.flow[i].slot = slots[i].as_mut_ptr();
        }
        // SAFETY: `kiln_esp_open` takes a pointer to this structure, and everything that it points
        // to lives in this `Esp`.
        if unsafe { cpu::gate(sys::kiln_esp_open, (&raw mut *raw).cast()) } != 0 {
            return Err(Errno(-12));
        }
        Ok(Esp {
            raw,
            driver: tfms[OUT].driver().to_string(),
            user: UserProgram::new(1),
            ticks_per_us: kiln_tsc_hz() / 1e6,
            _tfms: (tfms, disk),
            _rings: rings,
            _slots: slots,
            _buffers: buffers,
            arrivals,
            samples,
            log,
            _sectors: (sectors, dst),
        })
    }

    /// Replaces the arrivals and the times at which the phases end. The packets stay the same.
    ///
    /// # Panics
    /// If an arrival refers to a size that does not exist.
    pub fn set_arrivals(&mut self, arrivals: &[Arrival], phase_end: [u64; 3]) {
        let packets = self.raw.flow[IN].packets;
        assert!(arrivals.iter().all(|a| a.packet < packets && a.flow < 2));
        self.arrivals = raw_arrivals(arrivals);
        self.raw.arrival = self.arrivals.as_ptr();
        self.raw.arrivals = self.arrivals.len() as u32;
        self.raw.phase_end = phase_end.map(ticks);
        self.raw.sample_every = sample_every(phase_end);
    }

    /// Returns the name of the driver that encrypts the packets.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Processes `packets` packets with softirqs disabled. Returns the mean time per packet in
    /// nanoseconds.
    pub fn price_ns(&mut self, _: &mut Cpu, packets: u64) -> f64 {
        self.raw.ops = packets;
        // SAFETY: `kiln_esp_price` takes a pointer to this structure, which outlives the call.
        let ticks = unsafe { cpu::gate(sys::kiln_esp_price, (&raw mut *self.raw).cast()) };
        1e3 * ticks as f64 / self.ticks_per_us / packets.max(1) as f64
    }

    /// Runs the load once, starting at the first interrupt, so an interrupt source must be running.
    /// The task encrypts `entry` sectors per kernel entry. `quiet` selects the control run, in
    /// which the same interrupts occur but no packets arrive.
    pub fn run(&mut self, _: &mut Cpu, entry: u64, quiet: bool) -> Outcome {
        self.raw.ops = entry;
        let (arrivals, own_every) = (self.raw.arrivals, self.raw.own_every);
        if quiet {
            (self.raw.arrivals, self.raw.own_every) = (0, 0);
        }
        self.user.corrupted = 0;
        let raw: *mut sys::EspLoad = &raw mut *self.raw;
        // SAFETY: the functions take a pointer to this structure, which stays attached only until
        // this method returns. Interrupts write the flag, so it needs a volatile read.
        unsafe {
            cpu::gate(sys::kiln_esp_attach, raw.cast());
            while !ptr::read_volatile(&raw const (*raw).over) {
                self.user.enter(sys::kiln_esp_run, raw.cast());
            }
            cpu::gate(sys::kiln_esp_detach, raw.cast());
        }
        (self.raw.arrivals, self.raw.own_every) = (arrivals, own_every);
        self.outcome()
    }

    fn outcome(&self) -> Outcome {
        let raw = &self.raw;
        let flows = [IN, OUT].map(|i| {
            let f = &raw.flow[i];
            Flow {
                sent: f.put,
                done: f.done,
                bytes: f.bytes,
                corrupted: f.corrupted,
                errors: f.errors,
                async_punts: f.async_punts,
                dropped: f.dropped,
                reordered: f.reordered,
                replay_lost: f.window.lost,
            }
        });
        let us = |ticks: u64| ticks as f64 / self.ticks_per_us;
        let sample = |s: &sys::EspSample| Sample {
            ms: us(s.when) / 1e3,
            bytes: s.bytes,
            arrived: s.arrived,
            dropped: s.dropped,
            lost: s.lost,
            sectors: s.sectors,
            queued: s.queued,
            waiting: s.waiting,
        };
        Outcome {
            flows,
            missed: raw.missed,
            arrived: u64::from(raw.next_arrival),
            sectors: raw.sectors,
            sectors_corrupted: raw.sectors_corrupted,
            own_packets: raw.own_packets,
            user_corrupted: self.user.corrupted,
            seconds: us(raw.last_irq - raw.start - raw.stolen) / 1e6,
            recovery_us: (raw.recovered > 0).then(|| us(raw.recovered - 1)),
            samples: self.samples[..raw.samples as usize]
                .iter()
                .map(sample)
                .collect(),
            log: self.log[..raw.logged as usize].to_vec(),
        }
    }
}

impl Drop for Esp {
    fn drop(&mut self) {
        // SAFETY: `kiln_esp_close` takes a pointer to this structure, and no request is in flight.
        unsafe { cpu::gate(sys::kiln_esp_close, (&raw mut *self.raw).cast()) };
    }
}
