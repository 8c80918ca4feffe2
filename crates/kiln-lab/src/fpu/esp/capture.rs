//! Sizes and times from a capture file: classic pcap and pcapng, as far as these two need it.
//!
//! Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

use std::path::Path;

use crate::Error;

/// A packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Nanoseconds after the first one.
    pub at: u64,
    /// Bytes without the link layer's header.
    pub len: u32,
}

/// Larger files are read no further: that is hours of packets.
const LARGEST: u64 = 1 << 30;

/// What is wrong, and where in the file.
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

/// All packets of a file, in order of time.
pub fn read(path: &Path) -> Result<Vec<Packet>, Error> {
    let name = path.display();
    let cannot = |why: String| {
        Error::input(format!(
            "--load pcap: cannot read '{name}': {why}: name a pcap or pcapng file"
        ))
    };
    let size = std::fs::metadata(path).map_err(|e| cannot(e.to_string()))?;
    if size.is_dir() {
        return Err(cannot("it is a directory".into()));
    }
    if size.len() > LARGEST {
        return Err(cannot(format!(
            "it has {} bytes, and 2^30 are the most; cut it with editcap -c",
            size.len()
        )));
    }
    let bytes = std::fs::read(path).map_err(|e| cannot(e.to_string()))?;
    parse(&bytes).map_err(|f| {
        Error::input(format!(
            "--load pcap: '{name}' at offset {}: {}: capture it again, or mend it with tcpdump -r … -w …",
            f.offset, f.why
        ))
    })
}

fn parse(bytes: &[u8]) -> Result<Vec<Packet>, Fault> {
    let file = Bytes { bytes, big: false };
    let mut packets = match file.u32(0, "the file's magic number")? {
        0xa1b2_c3d4 => classic(file, 1000)?,
        0xa1b2_3c4d => classic(file, 1)?,
        0xd4c3_b2a1 => classic(Bytes { bytes, big: true }, 1000)?,
        0x4d3c_b2a1 => classic(Bytes { bytes, big: true }, 1)?,
        0x0a0d_0d0a => blocks(bytes)?,
        magic => {
            return fault(
                0,
                format!("{magic:#010x} begins neither a pcap nor a pcapng file"),
            )
        }
    };
    if packets.is_empty() {
        return fault(bytes.len(), "the file ends without a packet");
    }
    packets.sort_by_key(|p| p.at);
    let first = packets[0].at;
    for p in &mut packets {
        p.at -= first;
    }
    Ok(packets)
}

/// Bytes in one of the two orders.
#[derive(Clone, Copy)]
struct Bytes<'a> {
    bytes: &'a [u8],
    big: bool,
}

impl Bytes<'_> {
    fn take<const N: usize>(&self, at: usize, what: &str) -> Result<[u8; N], Fault> {
        let field = self.bytes.get(at..).and_then(|b| b.first_chunk::<N>());
        match field {
            Some(&field) => Ok(field),
            None => fault(at.min(self.bytes.len()), format!("the file ends in {what}")),
        }
    }

    fn u32(&self, at: usize, what: &str) -> Result<u32, Fault> {
        let field = self.take(at, what)?;
        Ok(match self.big {
            true => u32::from_be_bytes(field),
            false => u32::from_le_bytes(field),
        })
    }

    fn u16(&self, at: usize, what: &str) -> Result<u16, Fault> {
        let field = self.take(at, what)?;
        Ok(match self.big {
            true => u16::from_be_bytes(field),
            false => u16::from_le_bytes(field),
        })
    }

    /// That so many bytes are there.
    fn holds(&self, at: usize, len: usize, what: &str) -> Result<(), Fault> {
        match at.checked_add(len) {
            Some(end) if end <= self.bytes.len() => Ok(()),
            _ => fault(
                at,
                format!(
                    "{what} has {len} bytes and the file only {} more",
                    self.bytes.len().saturating_sub(at)
                ),
            ),
        }
    }
}

/// Bytes of a link layer's header.
fn link_header(at: usize, kind: u32) -> Result<u32, Fault> {
    match kind & 0xffff {
        // NULL, Ethernet, raw IP by its various numbers, Linux's cooked ones.
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

/// The longest record that is believed: a snapshot's limit in all tools.
const LONGEST_RECORD: u32 = 262_144;

fn classic(file: Bytes<'_>, unit_ns: u64) -> Result<Vec<Packet>, Fault> {
    const HEADER: usize = 24;
    let link = link_header(20, file.u32(20, "the file's header")?)?;
    let mut packets = Vec::new();
    let mut at = HEADER;
    while at < file.bytes.len() {
        let what = "a record's header";
        let field = |i: usize| file.u32(at + 4 * i, what);
        let (seconds, part, kept, len) = (field(0)?, field(1)?, field(2)?, field(3)?);
        let part = u64::from(part) * unit_ns;
        if part >= 1_000_000_000 {
            return fault(
                at + 4,
                "a time with more than a second of parts of a second",
            );
        }
        if kept > LONGEST_RECORD || kept > len {
            return fault(
                at + 8,
                format!("a record of {kept} bytes, of a packet of {len}"),
            );
        }
        file.holds(at + 16, kept as usize, "a record")?;
        packets.push(Packet {
            at: u64::from(seconds) * 1_000_000_000 + part,
            len: len.saturating_sub(link).max(1),
        });
        at += 16 + kept as usize;
    }
    Ok(packets)
}

/// An interface of a pcapng section.
struct Interface {
    link: u32,
    /// Units of time in a second.
    units: u128,
}

fn blocks(bytes: &[u8]) -> Result<Vec<Packet>, Fault> {
    let mut packets = Vec::new();
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut file = Bytes { bytes, big: false };
    let mut at = 0;
    while at < bytes.len() {
        let kind = file.u32(at, "a block's header")?;
        if kind == 0x0a0d_0d0a {
            let order: [u8; 4] = file.take(at + 8, "a section's header")?;
            file.big = match order {
                [0x1a, 0x2b, 0x3c, 0x4d] => true,
                [0x4d, 0x3c, 0x2b, 0x1a] => false,
                _ => return fault(at + 8, "a section without its byte order"),
            };
            interfaces.clear();
        }
        let len = file.u32(at + 4, "a block's header")? as usize;
        if len < 12 || len % 4 != 0 {
            return fault(at + 4, format!("a block of {len} bytes"));
        }
        file.holds(at, len, "a block")?;
        if file.u32(at + len - 4, "a block's end")? as usize != len {
            return fault(at + len - 4, "a block whose two lengths differ");
        }
        let end = at + len - 4;
        match kind {
            1 => interfaces.push(interface(file, at, end)?),
            6 => packets.push(enhanced(file, at, end, &interfaces)?),
            // Without times they cannot be put on a line.
            3 => return fault(at, "a simple packet block, which has no time"),
            _ => {}
        }
        at += len;
    }
    Ok(packets)
}

fn interface(file: Bytes<'_>, at: usize, end: usize) -> Result<Interface, Fault> {
    if end - at < 16 {
        return fault(at + 4, "an interface's block is too short");
    }
    let link = link_header(at + 8, u32::from(file.u16(at + 8, "an interface")?))?;
    let mut units = 1_000_000;
    let mut option = at + 16;
    while option + 4 <= end {
        let code = file.u16(option, "an option")?;
        let len = file.u16(option + 2, "an option")? as usize;
        if code == 0 {
            break;
        }
        if option + 4 + len > end {
            return fault(option, "an option that is longer than its block");
        }
        // if_tsresol: a power of ten, or of two.
        if code == 9 && len == 1 {
            let [power]: [u8; 1] = file.take(option + 4, "an option")?;
            units = match power & 0x7f {
                p if power & 0x80 != 0 && p <= 63 => 1 << p,
                p if power & 0x80 == 0 && p <= 19 => 10u128.pow(u32::from(p)),
                _ => return fault(option + 4, "a unit of time that no clock has"),
            };
        }
        option += 4 + len.next_multiple_of(4);
    }
    Ok(Interface { link, units })
}

fn enhanced(
    file: Bytes<'_>,
    at: usize,
    end: usize,
    interfaces: &[Interface],
) -> Result<Packet, Fault> {
    if end - at < 28 {
        return fault(at + 4, "a packet's block is too short");
    }
    let field = |i: usize| file.u32(at + 8 + 4 * i, "a packet's header");
    let id = field(0)?;
    let Some(interface) = interfaces.get(id as usize) else {
        return fault(
            at + 8,
            format!("a packet of interface {id}, which was not described"),
        );
    };
    let (kept, len) = (field(3)?, field(4)?);
    if at + 28 + kept as usize > end {
        return fault(
            at + 20,
            format!("a packet of {kept} bytes is longer than its block"),
        );
    }
    let time = u128::from(field(1)?) << 32 | u128::from(field(2)?);
    Ok(Packet {
        at: (time * 1_000_000_000 / interface.units) as u64,
        len: len.saturating_sub(interface.link).max(1),
    })
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
        // The second is earlier: files of several interfaces are like that.
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

    #[test]
    fn a_cut_file_is_refused_where_it_ends() {
        for file in [pcap(false, 0xa1b2_c3d4), pcapng(false), pcapng(true)] {
            let mut whole = 0;
            for n in 0..file.len() {
                match parse(&file[..n]) {
                    // Between two records nothing is missing.
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
        assert_eq!(f(&bad).offset, 32);
        let mut bad = pcapng(false);
        let end = bad.len() - 4;
        bad[end] = 40;
        assert_eq!(f(&bad).offset, end);
        let only_header = &pcap(false, 0xa1b2_c3d4)[..24];
        assert!(f(only_header).why.contains("without a packet"));
    }
}
