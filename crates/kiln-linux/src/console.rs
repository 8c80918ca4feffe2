//! Parses a booted kernel's console output. Lines that Kiln's init prints (`linux/init/init.c`) are
//! distinguished from all others.

/// Prefix of every line that init prints.
const PREFIX: &str = "kiln:";

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A program's exit status.
    Exit(i32),
    /// The call succeeded (0), or failed with this errno.
    Errno(i32),
    /// Number of the signal that killed the program.
    Signal(i32),
    /// Init does not support this kind of command.
    Unknown,
}

impl End {
    /// Returns whether the command succeeded.
    pub fn well(self) -> bool {
        matches!(self, End::Exit(0) | End::Errno(0))
    }
}

/// A line of a booted kernel's console, classified by its source.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// Init has started.
    Start {
        /// Kernel release that `uname -r` prints.
        release: String,
        /// Machine type that `uname -m` prints.
        machine: String,
    },
    /// Init begins to execute a command.
    Begin {
        /// Line number of the command in the command file, counted from 1.
        order: u32,
        /// The command, as it is written in the file.
        text: String,
    },
    /// A line of output from the current command's program, or a line of the file that the command
    /// prints.
    Out(String),
    /// A line that the current command's program wrote to standard error.
    Err(String),
    /// A message from the kernel's log.
    Log {
        /// Log level, from 0 (emergency) to 7 (debug).
        level: u8,
        /// Time since boot in seconds.
        seconds: f64,
        text: String,
    },
    /// Init could not read some kernel messages, because newer messages had overwritten them.
    Lost,
    /// Init has finished a command.
    End { order: u32, how: End },
    /// Init has finished, and the machine is powering off. The value is 0 if all commands
    /// succeeded, and 1 if a command failed.
    Exit(i32),
    /// A line that init did not print, such as a boot message, firmware output or a panic.
    Noise(String),
}

/// Parses a line without its newline. A line that cannot be parsed is returned as noise.
pub fn line(bytes: &[u8]) -> Line {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches(['\r', '\n']);
    // Look for the prefix anywhere in the line, because init's text may follow a boot message
    // without a newline.
    let own = text
        .find(PREFIX)
        .and_then(|at| parse(&text[at + PREFIX.len()..]));
    own.unwrap_or_else(|| Line::Noise(text.to_owned()))
}

fn parse(text: &str) -> Option<Line> {
    let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some(match kind {
        "start" => {
            let (release, machine) = rest.split_once(' ')?;
            Line::Start {
                release: release.to_owned(),
                machine: machine.to_owned(),
            }
        }
        "begin" => {
            let (order, text) = rest.split_once(' ')?;
            Line::Begin {
                order: order.parse().ok()?,
                text: text.to_owned(),
            }
        }
        "out" => Line::Out(rest.to_owned()),
        "err" => Line::Err(rest.to_owned()),
        "log" => {
            let mut words = rest.splitn(3, ' ');
            let level = words.next()?.parse().ok().filter(|l| *l < 8)?;
            let seconds = words.next()?.parse().ok().filter(|s: &f64| s.is_finite())?;
            Line::Log {
                level,
                seconds,
                text: words.next()?.to_owned(),
            }
        }
        "lost" => Line::Lost,
        "end" => {
            let mut words = rest.split(' ');
            let order = words.next()?.parse().ok()?;
            let how = words.next()?;
            let number = words.next()?.parse().ok()?;
            let how = match how {
                "exit" => End::Exit(number),
                "errno" => End::Errno(number),
                "signal" => End::Signal(number),
                "unknown" => End::Unknown,
                _ => return None,
            };
            words.next().is_none().then_some(Line::End { order, how })?
        }
        "exit" => Line::Exit(rest.parse().ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_is_read() {
        for (bytes, want) in [
            (
                "kiln:start 6.12.1+deb x86_64\r",
                Line::Start {
                    release: "6.12.1+deb".into(),
                    machine: "x86_64".into(),
                },
            ),
            (
                "kiln:begin 3 module\t/m.ko\tx=1",
                Line::Begin {
                    order: 3,
                    text: "module\t/m.ko\tx=1".into(),
                },
            ),
            ("kiln:out   two blanks ", Line::Out("  two blanks ".into())),
            ("kiln:out", Line::Out(String::new())),
            ("kiln:err no", Line::Err("no".into())),
            (
                "kiln:log 6 12.000345 alg: self-tests passed",
                Line::Log {
                    level: 6,
                    seconds: 12.000_345,
                    text: "alg: self-tests passed".into(),
                },
            ),
            ("kiln:lost messages", Line::Lost),
            (
                "kiln:end 3 errno 11",
                Line::End {
                    order: 3,
                    how: End::Errno(11),
                },
            ),
            (
                "kiln:end 4 signal 9",
                Line::End {
                    order: 4,
                    how: End::Signal(9),
                },
            ),
            ("kiln:exit 1", Line::Exit(1)),
            ("[    0.1] Run /init\x1b[0mkiln:exit 0", Line::Exit(0)),
        ] {
            assert_eq!(line(bytes.as_bytes()), want, "{bytes}");
        }
    }

    #[test]
    fn what_is_torn_or_forged_is_noise() {
        for bad in [
            "",
            "kiln",
            "kiln:",
            "kiln:end 3 errno",
            "kiln:end 3 errno eleven",
            "kiln:end 3 errno 1 2",
            "kiln:end 99999999999 exit 0",
            "kiln:end -1 exit 0",
            "kiln:log 9 1.0 level",
            "kiln:log 6 inf text",
            "kiln:log 6 1.0",
            "kiln:exit",
            "kiln:exit 0x1",
            "kiln:start onlyone",
            "kiln:reboot now",
        ] {
            assert_eq!(line(bad.as_bytes()), Line::Noise(bad.into()));
        }
        let Line::Noise(_) = line(b"\xff\xfe\x00 kiln\xff:exit 0") else {
            panic!("bytes that are no text");
        };
    }

    #[test]
    fn only_success_is_success() {
        assert!(End::Exit(0).well() && End::Errno(0).well());
        assert!(!End::Exit(1).well() && !End::Signal(0).well() && !End::Unknown.well());
    }
}
