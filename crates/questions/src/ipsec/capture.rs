//! Reads the sizes and times of packets from a capture file (classic pcap or pcapng), and skips
//! everything else.
//!
//! The formats are specified in draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use kiln_question::Error;
use pcap_parser::pcap::{parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header};
use pcap_parser::pcapng::{parse_block_be, parse_block_le, Block};
use pcap_parser::{Linktype, PcapHeader};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Arrival time in nanoseconds since the first packet.
    pub at: u64,
    /// Length in bytes, without the link-layer header.
    pub len: u32,
}

const NS: u64 = 1_000_000_000;
/// The first four bytes of every section of a pcapng file, and therefore of the file.
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Maximum number of bytes to read from a file. This is enough for hours of traffic.
const LARGEST: u64 = 1 << 30;

/// An error in a file: its position and description.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    offset: usize,
    why: String,
}

fn fault<T>(offset: usize, why: impl Into<String>) -> Result<T, Fault> {
    Err(Fault {
        offset,
        why: why.into(),
    })
}

/// Reads all packets in a file and sorts them by time.
pub(super) fn read(path: &Path) -> Result<Vec<Packet>, Error> {
    let name = path.display();
    let cannot = |why: String| {
        Error::input(format!(
            "--load pcap: cannot read '{name}': {why}: name a pcap or pcapng file"
        ))
    };
    let found = std::fs::metadata(path).map_err(|e| cannot(e.to_string()))?;
    if found.is_dir() {
        return Err(cannot("it is a directory".into()));
    }
    let file = File::open(path).map_err(|e| cannot(e.to_string()))?;
    let bytes = read_at_most(LARGEST, file, found.len()).map_err(|e| cannot(e.to_string()))?;
    parse(&bytes).map_err(|f| {
        Error::input(format!(
            "--load pcap: '{name}' at offset {}: {}: capture packets with tcpdump -i any -w FILE",
            f.offset, f.why
        ))
    })
}

/// Reads a file to its end.
///
/// # Errors
/// Fails if the file has more than `most` bytes. The file size `len` is checked first, but it is 0
/// for devices and pipes, which may be endless, so the number of bytes read is limited as well.
fn read_at_most(most: u64, file: impl Read, len: u64) -> io::Result<Vec<u8>> {
    let too_long = || {
        io::Error::other(format!(
            "it has more than {most} bytes, the limit; cut it with editcap -c"
        ))
    };
    if len > most {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_long());
    }
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Result<Vec<Packet>, Fault> {
    let mut packets = match parse_pcap_header(bytes) {
        _ if bytes.starts_with(&SECTION) => blocks(bytes)?,
        Ok((records, header)) if !header.is_modified_format() => classic(bytes, records, &header)?,
        Err(e) if e.is_incomplete() => return fault(bytes.len(), "the file ends in its header"),
        _ => return fault(0, "it begins neither a pcap nor a pcapng file"),
    };
    if packets.is_empty() {
        return fault(bytes.len(), "the file ends without a packet");
    }
    if packets.len() == 1 {
        return fault(
            bytes.len(),
            "the file ends after one packet, which has no rate",
        );
    }
    packets.sort_by_key(|p| p.at);
    let first = packets[0].at;
    for p in &mut packets {
        p.at -= first;
    }
    Ok(packets)
}

/// Returns the length in bytes of the header that a link type uses.
fn link_header(at: usize, kind: Linktype) -> Result<u32, Fault> {
    match kind.0 & 0xffff {
        // The link types are, in this order: BSD loopback (NULL and LOOP), Ethernet, raw IP (which
        // has several numbers), and Linux cooked captures (versions 1 and 2).
        0 | 108 => Ok(4),
        1 => Ok(14),
        12 | 14 | 101 | 228 | 229 => Ok(0),
        113 => Ok(16),
        276 => Ok(20),
        kind => fault(
            at,
            format!(
                "link type {kind}: Ethernet, raw IP, loopback and Linux cooked captures are known"
            ),
        ),
    }
}

/// Longest plausible record in bytes. All common tools limit captured packets to this length.
const LONGEST_RECORD: u32 = 262_144;

fn classic(bytes: &[u8], mut rest: &[u8], header: &PcapHeader) -> Result<Vec<Packet>, Fault> {
    let link = link_header(20, header.network)?;
    let unit_ns = if header.is_nanosecond_precision() {
        1
    } else {
        1000
    };
    let frame = match header.is_bigendian() {
        true => parse_pcap_frame_be,
        false => parse_pcap_frame,
    };
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let Ok((after, record)) = frame(rest) else {
            return fault(
                at,
                "the file ends in a record, or the record has a false length",
            );
        };
        let part = u64::from(record.ts_usec) * unit_ns;
        if part >= NS {
            return fault(
                at + 4,
                "a time with more than a second of parts of a second",
            );
        }
        let (kept, len) = (record.caplen, record.origlen);
        if kept > LONGEST_RECORD || kept > len {
            return fault(
                at + 8,
                format!("a record of {kept} bytes, of a packet of {len}"),
            );
        }
        packets.push(Packet {
            at: u64::from(record.ts_sec) * NS + part,
            len: len.saturating_sub(link).max(1),
        });
        rest = after;
    }
    Ok(packets)
}

fn blocks(bytes: &[u8]) -> Result<Vec<Packet>, Fault> {
    let mut packets = Vec::new();
    // For each interface, the length in bytes of its link-layer header, and the number of its time
    // units per second.
    let mut interfaces: Vec<(u32, u64)> = Vec::new();
    let mut big = false;
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let parsed = match big && !rest.starts_with(&SECTION) {
            true => parse_block_be(rest),
            false => parse_block_le(rest),
        };
        let block = match parsed {
            Ok((after, block)) => {
                rest = after;
                block
            }
            Err(e) if e.is_incomplete() => {
                return fault(
                    at,
                    "the file ends in a block, or the block has a false length",
                )
            }
            Err(_) => return fault(at, "a block that is not as its type demands"),
        };
        match block {
            Block::SectionHeader(section) => {
                big = section.big_endian();
                interfaces.clear();
            }
            Block::InterfaceDescription(interface) => {
                let Some(units) = interface.ts_resolution().filter(|units| *units > 0) else {
                    return fault(at, "a unit of time that no clock has");
                };
                interfaces.push((link_header(at + 8, interface.linktype)?, units));
            }
            Block::EnhancedPacket(packet) => {
                let Some((link, units)) = interfaces.get(packet.if_id as usize) else {
                    let id = packet.if_id;
                    return fault(
                        at + 8,
                        format!("a packet of interface {id}, which was not described"),
                    );
                };
                let time = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
                packets.push(Packet {
                    at: (time * u128::from(NS) / u128::from(*units)) as u64,
                    len: packet.origlen.saturating_sub(*link).max(1),
                });
            }
            // Reject packets without times, because they cannot be sorted.
            Block::SimplePacket(_) => return fault(at, "a simple packet block, which has no time"),
            _ => {}
        }
    }
    Ok(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(bytes: &mut Vec<u8>, big: bool, words: &[u32]) {
        for w in words {
            bytes.extend(if big {
                w.to_be_bytes()
            } else {
                w.to_le_bytes()
            });
        }
    }

    fn pcap(big: bool, magic: u32) -> Vec<u8> {
        let mut b = Vec::new();
        put(&mut b, big, &[magic, 0x0004_0002, 0, 0, 65535, 1]);
        // The second packet has an earlier timestamp than the first, as happens in captures from
        // several interfaces.
        put(&mut b, big, &[10, 500, 20, 1514]);
        b.extend([7; 20]);
        put(&mut b, big, &[10, 100, 0, 54]);
        b
    }

    fn pcapng(big: bool) -> Vec<u8> {
        let mut b = Vec::new();
        put(&mut b, big, &[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, !0, !0, 28]);
        let (link, option) = match big {
            true => (101 << 16, 9 << 16 | 1),
            false => (101, 1 << 16 | 9),
        };
        let nanoseconds = if big { 9 << 24 } else { 9 };
        put(&mut b, big, &[1, 32, link, 0, option, nanoseconds, 0, 32]);
        put(&mut b, big, &[0x99, 12, 12]);
        for (time, len) in [(1_000, 40), (251_000, 1500)] {
            put(&mut b, big, &[6, 36, 0, 0, time, 4, len, 0xabcd, 36]);
        }
        b
    }

    #[test]
    fn files_in_all_forms() {
        for big in [false, true] {
            for (magic, unit) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
                let got = parse(&pcap(big, magic)).unwrap();
                let want = [(0, 40), (400 * unit, 1500)].map(|(at, len)| Packet { at, len });
                assert_eq!(got, want, "{big} {magic:x}");
            }
            let want = [(0, 40), (250_000, 1500)].map(|(at, len)| Packet { at, len });
            assert_eq!(parse(&pcapng(big)).unwrap(), want, "{big}");
        }
    }

    /// A reader that counts the bytes that are read from it.
    struct Counted<R>(R, u64);

    impl<R: Read> Read for Counted<R> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let n = self.0.read(to)?;
            self.1 += n as u64;
            Ok(n)
        }
    }

    #[test]
    fn a_file_that_does_not_end_is_not_read_to_its_end() {
        const MOST: u64 = 1000;
        let mut endless = Counted(File::open("/dev/zero").unwrap(), 0);
        let error = read_at_most(MOST, &mut endless, 0).unwrap_err().to_string();
        assert!(error.contains("more than 1000 bytes"), "{error}");
        assert_eq!(endless.1, MOST + 1);
        // A pipe whose other end stays open never reaches the end of the file.
        let (pipe, mut other) = io::pipe().unwrap();
        io::Write::write_all(&mut other, &[0; 2000]).unwrap();
        assert!(read_at_most(MOST, pipe, 0).is_err());
        // A regular file that is too long is not read at all.
        let mut long = Counted(io::repeat(0), 0);
        assert!(read_at_most(MOST, &mut long, MOST + 1).is_err());
        assert_eq!(long.1, 0);
        // Control: a file of exactly the maximum length is read, even if it grew after its size was
        // determined.
        let all = [7; MOST as usize];
        for len in [MOST, 0] {
            assert_eq!(read_at_most(MOST, &all[..], len).unwrap(), all);
        }
    }

    #[test]
    fn a_cut_file_is_refused_where_it_ends() {
        for file in [pcap(false, 0xa1b2_c3d4), pcapng(false), pcapng(true)] {
            let mut whole = 0;
            for n in 0..file.len() {
                match parse(&file[..n]) {
                    // A file that is cut off between two records is still valid.
                    Ok(_) => whole += 1,
                    Err(f) => assert!(f.offset <= n, "{n}: {f:?}"),
                }
            }
            assert!(whole <= 1, "{whole}");
            assert!(parse(&file).is_ok());
        }
    }

    #[test]
    fn no_bytes_bring_it_down() {
        let mut x = 1u64;
        for file in [pcap(false, 0xa1b2_c3d4), pcapng(false), pcapng(true)] {
            for _ in 0..20_000 {
                let mut bad = file.clone();
                for _ in 0..3 {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let at = (x >> 33) as usize % bad.len();
                    bad[at] = (x >> 20) as u8;
                }
                if let Err(f) = parse(&bad) {
                    assert!(f.offset <= bad.len() && !f.why.is_empty());
                }
            }
        }
    }

    #[test]
    fn faults_say_what_and_where() {
        let f = |bytes: &[u8]| parse(bytes).unwrap_err();
        assert_eq!(f(b"GIF89a..").offset, 0);
        assert!(f(b"").why.contains("ends in"));
        let mut bad = pcap(false, 0xa1b2_c3d4);
        bad[20] = 147;
        assert_eq!(f(&bad).offset, 20);
        assert!(f(&bad).why.contains("link type 147"));
        let mut bad = pcap(false, 0xa1b2_c3d4);
        bad[35] = 0x7f;
        assert_eq!(f(&bad).offset, 24);
        let mut bad = pcap(false, 0xa1b2_c3d4);
        bad[36..38].copy_from_slice(&[19, 0]);
        assert!(f(&bad).offset == 32 && f(&bad).why.contains("a packet of 19"));
        let mut bad = pcapng(false);
        let end = bad.len() - 4;
        bad[end] = 40;
        assert_eq!(f(&bad).offset, end - 32);
        let only_header = &pcap(false, 0xa1b2_c3d4)[..24];
        assert!(f(only_header).why.contains("without a packet"));
    }
}
