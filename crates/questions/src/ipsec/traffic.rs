//! Creates traffic: IMIX in phases of low, high and low load, IMIX at a constant rate, or the
//! packets of a capture at their recorded times.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use kiln_kernel::esp::{Arrival, Transform, IN, MAX_PAYLOAD, OUT};
use kiln_measure::SplitMix64;
use kiln_question::Error;

use super::capture::{self, Packet};

/// IMIX, a packet mix that is common in router benchmarks. Each entry is a pair of a count and a
/// size. Out of every twelve packets, that many have this size in bytes, including the IP header.
const IMIX: [(usize, u32); 3] = [(7, 40), (4, 576), (1, 1500)];
/// Mean packet size of the IMIX in bytes.
pub(super) const IMIX_BYTES: f64 = (7.0 * 40.0 + 4.0 * 576.0 + 1500.0) / 12.0;
/// Number of different packets per flow. It is a multiple of twelve, so that the proportions of the
/// mix are exact.
const RING: usize = 21 * 12;
/// Idle time after a capture, in which queues can drain.
const TAIL: Duration = Duration::from_millis(60);

#[derive(Clone, Debug, PartialEq)]
pub(super) struct EspLoad {
    /// Name of the load: `esp`, `esp-cbc`, `pcap:FILE` or `pcap-cbc:FILE`.
    pub name: String,
    /// How packets are encrypted and authenticated.
    pub transform: Transform,
    /// Where packet sizes and times come from.
    pub source: Source,
}

/// Origin of a load's packet sizes and times.
#[derive(Clone, PartialEq)]
pub(super) enum Source {
    /// The IMIX, at rates that the settings specify.
    Imix,
    /// The packets in a capture file.
    Capture(Arc<[Packet]>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Imix => f.write_str("Imix"),
            Source::Capture(packets) => write!(f, "Capture of {} packets", packets.len()),
        }
    }
}

impl FromStr for EspLoad {
    type Err = Error;

    fn from_str(name: &str) -> Result<EspLoad, Error> {
        let (kind, file) = match name.split_once(':') {
            Some((kind, file)) => (kind, Some(file)),
            None => (name, None),
        };
        let transform = match kind {
            "esp" | "pcap" => Transform::Rfc4106,
            "esp-cbc" | "pcap-cbc" => Transform::CbcHmac,
            _ => {
                let known = ["esp", "esp-cbc", "pcap:FILE", "pcap-cbc:FILE"];
                return Err(kiln_question::unknown("load", name, &known));
            }
        };
        let source = match (kind.starts_with("pcap"), file) {
            (false, None) => Source::Imix,
            (true, Some(file)) if !file.is_empty() => {
                Source::Capture(capture::read(&PathBuf::from(file))?.into())
            }
            (true, _) => {
                return Err(Error::input(format!(
                    "--load {name}: name the capture file: {kind}:FILE"
                )))
            }
            (false, Some(_)) => {
                return Err(Error::input(format!(
                    "--load {name}: {kind} takes no file: pcap:FILE does"
                )))
            }
        };
        Ok(EspLoad {
            name: name.to_string(),
            transform,
            source,
        })
    }
}

/// The traffic of one run.
#[derive(Clone, Debug)]
pub(super) struct Traffic {
    /// Payload sizes in bytes. Each arrival refers to one of them.
    pub sizes: Vec<u32>,
    /// Packet arrivals, sorted by time.
    pub arrivals: Arc<[Arrival]>,
    /// End times in nanoseconds of the first low phase, the high phase and the second low phase.
    pub phase_end: [u64; 3],
    /// A note about this traffic for the reader of the results.
    pub note: String,
}

/// Packets per second in the low and in the high phase.
pub(super) type Rates = (f64, f64);

/// Idle time in nanoseconds after the packets of a trial. A core that has not caught up by the end
/// of this time is overloaded.
pub(super) const DRAIN_NS: u64 = 10_000_000;

/// Creates IMIX traffic at a constant rate, followed by idle time in which the core can process the
/// remaining packets.
pub(super) fn constant(seed: u64, rate: f64, quick: bool) -> Traffic {
    let mut rng = SplitMix64(seed ^ 0x0069_6d69_7800);
    let end = if quick { 50_000_000 } else { 100_000_000 };
    let sizes = imix_sizes(&mut rng);
    let mut arrivals = Vec::new();
    fill(&mut arrivals, &mut rng, (0, end), rate);
    Traffic {
        sizes,
        note: String::new(),
        arrivals: arrivals.into(),
        phase_end: [0, end, end + DRAIN_NS],
    }
}

/// Creates IMIX traffic in three phases: low, high and low load. The high phase lasts for at least
/// ten time slices of the task.
pub(super) fn imix(seed: u64, (low, high): Rates, slice_us: u64, quick: bool) -> Traffic {
    let mut rng = SplitMix64(seed ^ 0x0069_6d69_7800);
    let unit = if quick { 1 } else { 2 };
    let slices = Duration::from_micros(10 * slice_us);
    let high_for = slices.max(Duration::from_millis(60 * unit));
    let phases = [
        (low, Duration::from_millis(30 * unit)),
        (high, high_for),
        (low, high_for),
    ];
    let sizes = imix_sizes(&mut rng);
    let mut arrivals = Vec::new();
    let mut phase_end = [0; 3];
    let mut start = 0;
    for (i, (rate, time)) in phases.into_iter().enumerate() {
        let end = start + time.as_nanos() as u64;
        fill(&mut arrivals, &mut rng, (start, end), rate);
        phase_end[i] = end;
        start = end;
    }
    let ms = phases.map(|(_, time)| time.as_secs_f64() * 1e3);
    Traffic {
        sizes,
        note: format!(
            "three phases with {:.0}, {:.0} and {:.0} packets per second, which last {:.0}, {:.0} and {:.0} ms. Packets have 40, 576 and \
             1500 B, exactly in the ratio 7:4:1, and arrive at random (Poisson) times. They alternately come from the tunnel (and are \
             decrypted) and go into it (and are encrypted)",
            low, high, low, ms[0], ms[1], ms[2]
        ),
        arrivals: arrivals.into(),
        phase_end,
    }
}

/// Adds arrivals whose average rate is exactly `rate` packets per second. Their times are
/// distributed like those of a Poisson process. Each flow cycles through the sizes.
fn fill(arrivals: &mut Vec<Arrival>, rng: &mut SplitMix64, (start, end): (u64, u64), rate: f64) {
    let time = (end - start) as f64;
    let count = (rate * time / 1e9).round() as usize;
    let gaps: Vec<f64> = (0..=count).map(|_| -uniform(rng).ln()).collect();
    let whole: f64 = gaps.iter().sum();
    let mut at = 0.0;
    for gap in &gaps[..count] {
        at += gap * time / whole;
        let n = arrivals.len();
        let when = start + (at as u64).min(end - start - 1);
        arrivals.push(arrival(when, (n / 2 % RING) as u32, n));
    }
}

/// Returns the traffic in a capture, up to the time `longest`.
pub(super) fn replay(packets: &[Packet], longest: Duration) -> Traffic {
    let until = longest.as_nanos() as u64;
    let taken = packets.iter().take_while(|p| p.at <= until).count();
    let all = packets.last().map_or(0, |p| p.at);
    let (mut sizes, mut clamped): (Vec<u32>, usize) = (Vec::new(), 0);
    let mut place = std::collections::HashMap::new();
    let arrivals: Vec<Arrival> = packets[..taken]
        .iter()
        .enumerate()
        .map(|(n, p)| {
            clamped += usize::from(p.len > MAX_PAYLOAD as u32);
            let len = p.len.min(MAX_PAYLOAD as u32);
            let packet = *place.entry(len).or_insert_with(|| {
                sizes.push(len);
                sizes.len() as u32 - 1
            });
            arrival(p.at, packet, n)
        })
        .collect();
    let end = arrivals.last().map_or(0, |a| a.at) + 1;
    let part = match taken == packets.len() {
        true => "all".to_string(),
        false => format!(
            "the first {:.0} ms of {:.0}",
            longest.as_secs_f64() * 1e3,
            all as f64 / 1e6
        ),
    };
    let cut = match clamped {
        0 => String::new(),
        n => format!("; {n} longer than {MAX_PAYLOAD} B were taken as that"),
    };
    Traffic {
        sizes,
        note: format!(
            "{taken} packets with the times and sizes of the capture ({part}){cut}. They alternately come from the tunnel and go into it. \
             Then, {} ms pass without packets",
            TAIL.as_millis()
        ),
        arrivals: arrivals.into(),
        phase_end: [0, end, end + TAIL.as_nanos() as u64],
    }
}

fn arrival(at: u64, packet: u32, n: usize) -> Arrival {
    Arrival {
        at,
        packet,
        flow: [IN, OUT][n % 2] as u32,
    }
}

fn uniform(rng: &mut SplitMix64) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Returns the packet sizes of the IMIX in a random order that depends only on the seed.
fn imix_sizes(rng: &mut SplitMix64) -> Vec<u32> {
    let mixes = RING / 12;
    let each = |&(parts, size): &(usize, u32)| std::iter::repeat_n(size, parts * mixes);
    let mut sizes: Vec<u32> = IMIX.iter().flat_map(each).collect();
    for i in (1..sizes.len()).rev() {
        sizes.swap(i, (rng.next_u64() % (i as u64 + 1)) as usize);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let load: EspLoad = "esp-cbc".parse().unwrap();
        assert_eq!(load.transform, Transform::CbcHmac);
        for (name, want) in [
            ("esp:x", "takes no file"),
            ("pcap", "name the capture file"),
            ("pcap:", "name the capture file"),
            ("pcap:/no/such", "cannot read"),
            ("esp-cbd", "did you mean"),
        ] {
            let e = name.parse::<EspLoad>().unwrap_err();
            assert!(e.to_string().contains(want), "{name}: {e}");
            assert_eq!(e.exit_code(), 2);
        }
    }

    #[test]
    fn imix_is_what_it_says() {
        let t = imix(7, (10_000.0, 400_000.0), 3000, true);
        let n = |i: usize| {
            let from = if i == 0 { 0 } else { t.phase_end[i - 1] };
            let within = |a: &&Arrival| (from..t.phase_end[i]).contains(&a.at);
            t.arrivals.iter().filter(within).count()
        };
        assert_eq!((n(0), n(1)), (300, 24_000));
        assert!(t.arrivals.is_sorted_by_key(|a| a.at));
        for (parts, size) in IMIX {
            let have = t.sizes.iter().filter(|s| **s == size).count();
            assert_eq!(have, parts * RING / 12);
        }
        assert_eq!(
            t.arrivals.iter().filter(|a| a.flow == 0).count(),
            t.arrivals.len().div_ceil(2)
        );
        assert_eq!(imix(7, (1e4, 4e5), 3000, true).arrivals, t.arrivals);
    }

    #[test]
    fn another_seed_offers_as_many_packets_and_bytes() {
        let offered = |seed| {
            let t = constant(seed, 252_000.0, true);
            let bytes: u64 = t
                .arrivals
                .iter()
                .map(|a| u64::from(t.sizes[a.packet as usize]))
                .sum();
            (t.arrivals.len(), bytes)
        };
        assert_eq!(offered(1), offered(2));
        assert_eq!(offered(1).1 as f64, 12_600.0 * IMIX_BYTES);
        assert_ne!(
            constant(1, 1e5, true).arrivals,
            constant(2, 1e5, true).arrivals
        );
    }

    #[test]
    fn a_capture_is_cut_to_the_time_there_is() {
        let packets: Vec<Packet> = (0..100u64)
            .map(|i| Packet {
                at: i * 10_000_000,
                len: if i % 2 == 0 { 40 } else { 20_000 },
            })
            .collect();
        let t = replay(&packets, Duration::from_millis(495));
        assert_eq!(t.arrivals.len(), 50);
        assert_eq!(t.sizes, [40, MAX_PAYLOAD as u32]);
        assert!(t.note.contains("the first 495 ms of 990"), "{}", t.note);
        assert_eq!(replay(&packets, Duration::from_secs(9)).arrivals.len(), 100);
    }
}
