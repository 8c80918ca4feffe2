//! Addresses in the hosted program become names.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program's functions by address; read when the first is asked for.
pub struct Symbols {
    program: PathBuf,
    sorted: OnceCell<Vec<(u64, String)>>,
}

impl Symbols {
    /// Of this program.
    pub fn lazily(program: &Path) -> Symbols {
        Symbols {
            program: program.to_owned(),
            sorted: OnceCell::new(),
        }
    }

    /// From the output of `nm -n`.
    pub fn parse(text: &str) -> Symbols {
        let symbols = Symbols::lazily(Path::new(""));
        let _ = symbols.sorted.set(parse(text));
        symbols
    }

    /// `function+0x12`, or the bare address outside the program.
    pub fn name(&self, address: u64) -> String {
        let sorted = self.sorted.get_or_init(|| {
            let output = Command::new("nm").arg("-n").arg(&self.program).output();
            output.map_or_else(
                |_| Vec::new(),
                |o| parse(&String::from_utf8_lossy(&o.stdout)),
            )
        });
        let after = sorted.partition_point(|(start, _)| *start <= address);
        match after.checked_sub(1).map(|i| &sorted[i]) {
            // The last symbol has no end: what is far behind it is another library's.
            Some((start, name)) if after < sorted.len() => format!("{name}+{:#x}", address - start),
            _ => format!("{address:#x}"),
        }
    }

    /// One line: what happened, where, in whose test.
    pub fn fault(&self, what: &str, address: u64) -> String {
        format!("{what}, in {}", self.name(address))
    }
}

fn parse(text: &str) -> Vec<(u64, String)> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let letter = words.next()?;
            // Absolute symbols are per-CPU offsets.
            (letter != "A" && letter != "a").then_some((address, words.next()?.to_string()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_name_the_function() {
        let symbols = Symbols::parse(
            "0000000000000000 A pcpu_hot\n0000000000401000 t aes_enc\n0000000000401080 T _xts\n\
             0000000000402000 B _end\n",
        );
        assert_eq!(symbols.name(0x401000), "aes_enc+0x0");
        assert_eq!(symbols.name(0x401085), "_xts+0x5");
        assert_eq!(symbols.name(0x7f00_0000_0000), "0x7f0000000000");
        assert_eq!(symbols.name(0x10), "0x10");
        assert_eq!(
            symbols.fault("Segmentation fault at (nil)", 0x401012),
            "Segmentation fault at (nil), in aes_enc+0x12"
        );
    }
}
