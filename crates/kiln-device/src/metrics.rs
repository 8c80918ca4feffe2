//! Metrics in the OpenMetrics text format on a Unix socket, with one HTTP 1.0 response per connection.

use std::fmt;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::cpu::cpu_time;
use crate::tally::{Count, Counters, Gauge, CLASSES, STATUSES};

/// Maximum time to serve a client, from the moment it begins to send its request until the response
/// is sent.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Maximum number of bytes read from a client.
const MAX_ASKED: usize = 4096;

/// Prometheus labels of the request statuses (5.9.7).
const STATUS: [&str; STATUSES] = [
    "ok", "err", "badmsg", "notsupp", "invsess", "nospc", "other",
];

/// A device's measurements.
pub(crate) struct Meter {
    /// Counts per queue, summed over all guests that have left.
    gone: Vec<Count>,
    guests: Vec<Measured>,
    /// Number of front ends accepted as guests.
    pub connections: u64,
    /// Number of rejected front ends.
    pub refused: u64,
    /// Number of guests whose process was killed.
    pub killed: u64,
}

/// A connected guest whose resource use is measured.
struct Measured {
    number: u64,
    counters: Arc<Counters>,
    /// ID of the guest process, or `None` if threads of the main process serve the guest. The guest
    /// is removed once its process has exited, long before the ID is reused.
    process: Option<u32>,
}

impl Meter {
    /// Creates the meter for a device with `data` data queues and a control queue.
    pub(crate) fn new(data: u16) -> Meter {
        Meter {
            gone: (0..=data).map(|_| Count::default()).collect(),
            guests: Vec::new(),
            connections: 0,
            refused: 0,
            killed: 0,
        }
    }

    /// Counts a connection, and measures its guest until [`Meter::left`] is called.
    pub(crate) fn joined(&mut self, number: u64, counters: Arc<Counters>, process: Option<u32>) {
        self.connections += 1;
        self.guests.push(Measured {
            number,
            counters,
            process,
        });
    }

    /// When a guest has left, adds its counts to the totals and stops measuring it.
    pub(crate) fn left(&mut self, number: u64) {
        let Some(at) = self.guests.iter().position(|g| g.number == number) else {
            return;
        };
        let guest = self.guests.swap_remove(at);
        for (sum, tally) in self.gone.iter_mut().zip(guest.counters.tallies()) {
            let count = tally.read();
            sum.merge(&Count { depth: 0, ..count });
        }
    }

    /// Returns the counts per queue, summed over all guests. The control queue is last.
    pub(crate) fn queues(&self) -> Vec<Count> {
        let mut queues = self.gone.clone();
        for guest in &self.guests {
            for (sum, tally) in queues.iter_mut().zip(guest.counters.tallies()) {
                sum.merge(&tally.read());
            }
        }
        queues
    }

    /// Formats all metrics in the OpenMetrics text format.
    pub(crate) fn text(&self) -> String {
        let control = self.gone.len() - 1;
        let name = |i| match i == control {
            true => "control".to_string(),
            false => format!("data{i}"),
        };
        let queues = self.queues().into_iter().enumerate();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Snapshot {
            queues: queues.map(|(i, count)| (name(i), count)).collect(),
            guests: self.guests.iter().map(Measured::read).collect(),
            connections: self.connections,
            refused: self.refused,
            killed: self.killed,
        }));
        let mut text = String::new();
        // Writing to a string cannot fail, and gauges are limited to what can be encoded.
        let _ = encode(&mut text, &registry);
        text
    }
}

impl Measured {
    fn read(&self) -> GuestCount {
        let tallies = self.counters.tallies();
        let requests = tallies.iter().map(|t| t.read().requests());
        GuestCount {
            number: self.number,
            requests: requests.fold(0, u64::wrapping_add),
            cpu: self.process.and_then(cpu_time),
            sessions: self.counters.get(Gauge::Sessions),
            memory: self.counters.get(Gauge::Memory),
            regions: self.counters.get(Gauge::Regions),
        }
    }
}

/// The resources that one guest uses.
#[derive(Debug)]
struct GuestCount {
    number: u64,
    requests: u64,
    cpu: Option<Duration>,
    sessions: u64,
    memory: u64,
    regions: u64,
}

/// Values of all metrics at one moment.
#[derive(Debug)]
struct Snapshot {
    queues: Vec<(String, Count)>,
    guests: Vec<GuestCount>,
    connections: u64,
    refused: u64,
    killed: u64,
}

type OfQueue = (&'static str, &'static str, fn(&Count) -> u64);

const OF_QUEUE: [OfQueue; 7] = [
    ("kiln_read_bytes", "Bytes read from guests", |c| c.bytes_in),
    ("kiln_written_bytes", "Bytes written to guests", |c| {
        c.bytes_out
    }),
    (
        "kiln_malformed",
        "Descriptor chains that could not be followed",
        |c| c.malformed,
    ),
    (
        "kiln_interrupts",
        "Times a driver was notified of answers",
        |c| c.interrupts,
    ),
    ("kiln_sleeps", "Times a queue's thread slept", |c| c.sleeps),
    ("kiln_held", "Times a guest was delayed to its rate", |c| {
        c.held
    }),
    (
        "kiln_session_messages",
        "Messages of QEMU's cryptodev about sessions",
        |c| c.messages,
    ),
];

impl Collector for Snapshot {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let none = None::<&prometheus_client::metrics::exemplar::Exemplar<NoLabelSet, f64>>;
        let queues = &self.queues;
        let mut family = to.encode_descriptor(
            "kiln_requests",
            "Requests answered, by queue and status",
            None,
            MetricType::Counter,
        )?;
        for (queue, count) in queues {
            for (status, n) in STATUS.iter().zip(count.status) {
                family
                    .encode_family(&[("queue", queue.as_str()), ("status", status)])?
                    .encode_counter(&n, none)?;
            }
        }
        for (name, help, value) in OF_QUEUE {
            let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (queue, count) in queues {
                family
                    .encode_family(&[("queue", queue.as_str())])?
                    .encode_counter(&value(count), none)?;
            }
        }
        let mut family = to.encode_descriptor(
            "kiln_queue_depth",
            "Requests available when the queue was last looked at",
            None,
            MetricType::Gauge,
        )?;
        for (queue, count) in queues {
            family
                .encode_family(&[("queue", queue.as_str())])?
                .encode_gauge(&clamp(count.depth))?;
        }
        let mut family = to.encode_descriptor(
            "kiln_service_seconds",
            "From taking a request to handing it back",
            None,
            MetricType::Histogram,
        )?;
        for (queue, count) in queues {
            // The encoder adds up the classes, and their sum must not overflow.
            let most = u64::MAX / CLASSES as u64;
            let buckets: Vec<(f64, u64)> = (0..CLASSES)
                .map(|class| (bound(class), count.class[class].min(most)))
                .collect();
            family
                .encode_family(&[("queue", queue.as_str())])?
                .encode_histogram::<NoLabelSet>(
                    count.nanos as f64 / 1e9,
                    count.requests(),
                    &buckets,
                    None,
                )?;
        }
        for (name, help, value) in [
            (
                "kiln_connections",
                "Front ends that have connected",
                self.connections,
            ),
            (
                "kiln_refused",
                "Front ends that were rejected",
                self.refused,
            ),
            (
                "kiln_killed",
                "Guests whose process was killed",
                self.killed,
            ),
        ] {
            to.encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter(&value, none)?;
        }
        let mut family = to.encode_descriptor(
            "kiln_guest_requests",
            "Requests answered to each connected guest",
            None,
            MetricType::Counter,
        )?;
        for guest in &self.guests {
            family
                .encode_family(&[("guest", guest.number.to_string().as_str())])?
                .encode_counter(&guest.requests, none)?;
        }
        let mut family = to.encode_descriptor(
            "kiln_guest_cpu_seconds",
            "CPU time of each guest's process",
            None,
            MetricType::Counter,
        )?;
        for guest in &self.guests {
            if let Some(cpu) = guest.cpu {
                family
                    .encode_family(&[("guest", guest.number.to_string().as_str())])?
                    .encode_counter(&cpu.as_secs_f64(), none)?;
            }
        }
        for (name, help, value) in OF_GUEST {
            let mut family = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for guest in &self.guests {
                family
                    .encode_family(&[("guest", guest.number.to_string().as_str())])?
                    .encode_gauge(&clamp(value(guest)))?;
            }
        }
        Ok(())
    }
}

type OfGuest = (&'static str, &'static str, fn(&GuestCount) -> u64);

const OF_GUEST: [OfGuest; 3] = [
    ("kiln_sessions", "Sessions of each guest", |g| g.sessions),
    (
        "kiln_guest_memory_bytes",
        "Memory that each guest's front end shares",
        |g| g.memory,
    ),
    ("kiln_guest_memory_regions", "Regions of that memory", |g| {
        g.regions
    }),
];

/// Limits a gauge to the largest value that can be encoded. Only a compromised process writes a
/// larger value. The encoder would stop there and omit all further metrics, including those of
/// other guests.
fn clamp(gauge: u64) -> i64 {
    gauge.try_into().unwrap_or(i64::MAX)
}

/// Returns the upper bound of latency class `class`, in seconds.
fn bound(class: usize) -> f64 {
    match class + 1 == CLASSES {
        true => f64::MAX,
        false => (1u64 << class) as f64 / 1e9,
    }
}

/// Answers a client, regardless of the request. Takes at most about [`PATIENCE`].
pub(crate) fn serve(stream: &UnixStream, answer: &[u8]) {
    let until = Instant::now() + PATIENCE;
    let limits = [
        stream.set_read_timeout(Some(PATIENCE)),
        stream.set_write_timeout(Some(PATIENCE)),
    ];
    if limits.iter().any(Result::is_err) {
        return;
    }
    // Receive the request first: a response sent before that could be lost when the connection is
    // closed.
    let (mut asked, mut len) = ([0; MAX_ASKED], 0);
    while len < MAX_ASKED && !asked.windows(4).any(|w| w == b"\r\n\r\n") {
        match (&mut &*stream).read(&mut asked[len..]) {
            Ok(0) => break,
            Ok(n) if Instant::now() < until => len += n,
            _ => return,
        }
    }
    let _ = (&mut &*stream).write_all(answer);
}

/// Builds a response with all metrics.
pub(crate) fn answer(meter: &Meter) -> Vec<u8> {
    let text = meter.text();
    format!(
        "HTTP/1.0 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n\
         Content-Length: {}\r\n\r\n{text}",
        text.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Unclamped;

    impl Collector for Unclamped {
        fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
            to.encode_descriptor("gauge", "", None, MetricType::Gauge)?
                .encode_gauge(&u64::MAX)
        }
    }

    /// Returns the metrics of two guests. All counters of the first guest are set to `value`, as a
    /// compromised guest process could do.
    fn metrics(value: u64) -> String {
        let mut meter = Meter::new(1);
        for number in [1, 2] {
            let counters = Counters::new(1).unwrap();
            if number == 1 {
                counters.fill(value);
            }
            meter.joined(number, counters, None);
        }
        meter.text()
    }

    #[test]
    fn no_value_of_a_guest_ends_the_metrics_of_the_others() {
        // Control: the number of lines when all values can be encoded.
        let lines = metrics(1).lines().count();
        for value in [i64::MAX as u64, 1 << 63, u64::MAX / 2 + 7, u64::MAX] {
            let text = metrics(value);
            assert_eq!(text.lines().count(), lines, "{value}");
            assert!(text.ends_with("# EOF\n"), "{value}");
            assert!(text.contains("kiln_guest_memory_regions{guest=\"2\"} 0\n"));
            let most = format!("kiln_guest_memory_regions{{guest=\"1\"}} {}\n", i64::MAX);
            assert!(text.contains(&most), "{value}");
        }
        // Control: the encoder itself refuses such a value.
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Unclamped));
        assert!(encode(&mut String::new(), &registry).is_err());
    }
}
