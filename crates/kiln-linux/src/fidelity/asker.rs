//! Builds the module that answers questions about a real kernel (`linux/fidelity/`), and boots a
//! kernel that loads it.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kiln_kbuild::Compiler;
use kiln_tree::{key, root, update, Make, WITHOUT_BTF};

use crate::console::{End, Line};
use crate::debian::Kernel;
use crate::init::{initramfs, Order};
use crate::modinfo::Modules;
use crate::module;
use crate::qemu::{choose, Accel, Qemu};
use crate::Error;

macro_rules! sources {
    ($($name:literal)*) => {
        &[
            $(($name, include_str!(concat!("../../../../linux/fidelity/", $name))),)*
            ("play.c", include_str!("../../../../kernel/load/scene.c")),
        ]
    };
}

/// Names and contents of the files in the module directory.
const SOURCES: &[(&str, &str)] =
    sources!("Kbuild" "ask.c" "costs.c" "fidelity.h" "nested.c" "requests.c" "scene.c" "where.c");

/// Files shared with Kiln's module for Linux: headers, and the code that saves registers, which is
/// included so that its cost can be measured.
const SHARED: [&str; 7] = [
    "state.",
    "live.",
    "include/",
    "kernel/include/",
    "kernel/load/",
    "kernel/cpu/",
    "kernel/tiers.def",
];

const NAME: &str = "kiln_fidelity";

/// The file to which questions are written and from which answers are read.
const FILE: &str = "/proc/kiln";

/// Linux's own drivers that the questions use.
const DRIVERS: [&str; 3] = ["aesni_intel", "xts", "chacha_x86_64"];

/// How to execute the guest's instructions: `Auto` uses hardware virtualisation if the kernel boots
/// with it, and software emulation otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Auto,
    Only(Accel),
}

/// Options for the boot that answers the questions.
pub struct Plan<'a> {
    pub kernel: &'a Kernel,
    pub compiler: &'a Compiler,
    pub accel: Wanted,
    /// Time after which the boot is killed.
    pub limit: Duration,
    /// Set when the user presses Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Callback that receives the completed fraction and a description of the current activity.
    pub progress: &'a dyn Fn(f64, &str),
}

/// A question, or an action between questions.
pub enum Step<'a> {
    /// A question to write to the module's file. The answer is returned.
    Ask(String),
    /// The path of another file, whose content is returned.
    Read(&'a str),
    /// The path of another file, and the text to write to it.
    Write(&'a str, &'a str),
}

/// The lines that answer a step, or the reason why the answer is missing.
pub type Told = Result<Vec<String>, String>;

/// The results of the boot.
#[derive(Debug)]
pub struct Answers {
    /// One answer for each [`Step::Ask`] and [`Step::Read`], in the order of the steps.
    pub told: Vec<Told>,
    /// CPU model, as the guest's `/proc/cpuinfo` shows it.
    pub cpu: String,
    /// How the guest's instructions were executed.
    pub accel: Accel,
    /// Why hardware virtualisation was not used; empty if it was used, or if the plan did not allow
    /// it.
    pub why: String,
    /// Warnings and faults in the kernel's log.
    pub warnings: Vec<String>,
}

impl Plan<'_> {
    /// Boots the kernel, executes the steps in order, and powers off. `besides` is the name and the
    /// content of an additional module, which is loaded first.
    ///
    /// # Errors
    /// Fails if QEMU is missing, the module does not build, or the boot fails.
    pub fn ask(&self, steps: &[Step], besides: Option<(&str, &[u8])>) -> Result<Answers, Error> {
        (self.progress)(0.1, "building the module that asks");
        let asker = self.build()?;
        let modules = Modules::find(&self.kernel.modules)?;
        let mut load = modules.with_needed(&DRIVERS)?;
        if let Some((name, content)) = besides {
            for (needed, content) in modules.needed(content)? {
                if !load.iter().any(|(n, _)| *n == needed) {
                    load.push((needed, content));
                }
            }
            load.push((name.to_owned(), content.to_vec()));
        }
        load.push((NAME.to_owned(), asker));

        let mut orders: Vec<Order> = load
            .iter()
            .map(|(name, _)| {
                let own = besides.is_some_and(|b| b.0 == name);
                let order = Order::module(&format!("/{name}.ko"), if own { "all=1" } else { "" });
                // Allow Linux's own drivers to fail to load, because the CPU may lack a feature
                // that they need.
                match own || name == NAME {
                    true => order,
                    false => order.may_fail(),
                }
            })
            .collect();
        orders.push(Order::print("/proc/cpuinfo"));
        let cpuinfo = orders.len() as u32;
        let mut wants = Vec::new();
        for step in steps {
            match step {
                Step::Ask(question) => {
                    orders.push(Order::write(FILE, question).may_fail());
                    orders.push(Order::print(FILE));
                    wants.push((Some(orders.len() as u32 - 1), orders.len() as u32));
                }
                Step::Read(path) => {
                    orders.push(Order::print(path));
                    wants.push((None, orders.len() as u32));
                }
                Step::Write(path, text) => orders.push(Order::write(path, text)),
            }
        }

        let archive = |orders: &[Order]| -> Result<Vec<u8>, Error> {
            let mut archive = initramfs(self.compiler, orders)?;
            for (name, content) in &load {
                archive.file(&format!("{name}.ko"), content);
            }
            Ok(archive.finish())
        };
        (self.progress)(0.3, "trying hardware virtualisation");
        let (accel, why) = match self.accel {
            Wanted::Only(accel) => (accel, String::new()),
            Wanted::Auto => choose(&self.kernel.image, &archive(&[])?, self.stop)?,
        };
        (self.progress)(
            0.4,
            &format!("asking Linux {} ({})", self.kernel.release, accel.name()),
        );
        let mut heard = Heard::default();
        let last = orders.len().max(1);
        let outcome = Qemu {
            image: &self.kernel.image,
            initramfs: &archive(&orders)?,
            accel,
            arguments: &[],
            limit: self.limit,
            stop: self.stop,
        }
        .run(&mut |line| {
            heard.line(line);
            let share = heard.order as f64 / last as f64;
            (self.progress)(
                0.4 + 0.6 * share,
                &format!("asking Linux {}", self.kernel.release),
            );
        })?;
        if outcome.exit != Some(0) {
            let release = &self.kernel.release;
            return Err(Error::Console {
                what: format!("what was to be done in Linux {release} failed"),
                tail: outcome.tail,
            });
        }
        let told = wants
            .iter()
            .map(|&(written, read)| heard.answer(written, read));
        Ok(Answers {
            told: told.collect(),
            cpu: model(heard.lines(cpuinfo)),
            accel,
            why,
            warnings: heard.warnings,
        })
    }

    fn build(&self) -> Result<Vec<u8>, Error> {
        let headers = &self.kernel.headers;
        if !headers.join("Makefile").is_file() {
            return Err(Error::NoHeaders {
                dir: headers.clone(),
                release: self.kernel.release.clone(),
            });
        }
        let compiled = format!("{} {}", self.compiler.path.display(), self.compiler.version);
        let dir = root()?
            .join("kiln/linux/fidelity")
            .join(key(headers, &compiled, 0));
        let mut kbuild = String::new();
        for (name, text) in SOURCES {
            match *name {
                "Kbuild" => kbuild.push_str(text),
                _ => update(&dir.join(name), text).map(|_| ())?,
            }
        }
        let shared = |name: &str| SHARED.iter().any(|s| name.starts_with(s));
        for (name, text) in module::SOURCES.iter().filter(|(name, _)| shared(name)) {
            update(&dir.join(name), text)?;
            if let Some(stem) = name.strip_prefix("kernel/").and(name.strip_suffix(".c")) {
                kbuild.push_str(&format!("kiln_fidelity-y += {stem}.o\n"));
            }
            kbuild.push_str(&module::flags(name));
        }
        update(&dir.join("Kbuild"), &kbuild)?;
        let log = dir.join("log");
        let _ = fs::remove_file(&log);
        let make = Make {
            directory: headers,
            compiler: self.compiler,
            log: &log,
            stop: self.stop,
        };
        let external = format!("M={}", dir.display());
        let said = make.run(&[&external, WITHOUT_BTF, "modules"], &mut |_| ())?;
        let path = dir.join(format!("{NAME}.ko"));
        if !said.success || !path.is_file() {
            return Err(Error::Module {
                which: "the module",
                against: headers.display().to_string(),
                cause: said.cause(),
                log,
            });
        }
        read(&path)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|e| Error::cache(path, e))
}

fn model(cpuinfo: &[String]) -> String {
    let line = cpuinfo.iter().find_map(|l| l.strip_prefix("model name"));
    let name = line.and_then(|l| l.split_once(": ")).map(|(_, name)| name);
    name.unwrap_or("unknown").trim().to_owned()
}

/// The console output, grouped by the command that caused it.
#[derive(Default)]
struct Heard {
    order: u32,
    open: bool,
    out: Vec<(u32, Vec<String>)>,
    ends: Vec<(u32, End)>,
    warnings: Vec<String>,
}

impl Heard {
    fn line(&mut self, line: &Line) {
        match line {
            Line::Begin { order, .. } => {
                (self.order, self.open) = (*order, true);
                self.out.push((*order, Vec::new()));
            }
            Line::Out(text) if self.open => {
                if let Some((_, lines)) = self.out.last_mut() {
                    lines.push(text.clone());
                }
            }
            Line::End { order, how } => {
                self.open = false;
                self.ends.push((*order, *how));
            }
            Line::Log { text, .. } if text.contains("WARNING:") || text.contains("BUG:") => {
                self.warnings.push(text.clone());
            }
            Line::Lost => self
                .warnings
                .push("messages of the kernel were lost".into()),
            _ => {}
        }
    }

    fn lines(&self, order: u32) -> &[String] {
        let of = self.out.iter().find(|(n, _)| *n == order);
        of.map_or(&[], |(_, lines)| lines.as_slice())
    }

    fn answer(&self, written: Option<u32>, read: u32) -> Told {
        for order in written.into_iter().chain([read]) {
            match self.ends.iter().find(|(n, _)| *n == order) {
                Some((_, how)) if how.well() => {}
                Some((_, End::Errno(n))) => {
                    return Err(format!("it could not be asked: errno {n}"))
                }
                Some((_, how)) => return Err(format!("it could not be asked: {how:?}")),
                None => return Err("the console does not mention it".into()),
            }
        }
        Ok(self.lines(read).to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console;

    fn heard(console_text: &str) -> Heard {
        let mut heard = Heard::default();
        for line in console_text.lines() {
            heard.line(&console::line(line.as_bytes()));
        }
        heard
    }

    #[test]
    fn answers_are_those_between_their_begin_and_end() {
        let heard = heard(
            "boot\nkiln:out early\nkiln:begin 1 write\nkiln:end 1 errno 0\nkiln:begin 2 print\nkiln:out a\n\
             kiln:log 4 1.0 WARNING: CPU: 0\nnoise kiln-out x\nkiln:out b\nkiln:end 2 errno 0\nkiln:out late\n",
        );
        assert_eq!(heard.answer(Some(1), 2).unwrap(), ["a", "b"]);
        assert_eq!(heard.warnings.len(), 1);
    }

    #[test]
    fn what_did_not_end_well_is_no_answer() {
        for text in [
            "",
            "kiln:begin 1 w\nkiln:end 1 errno 22\nkiln:begin 2 p\nkiln:out old\nkiln:end 2 errno 0",
            "kiln:begin 1 w\nkiln:end 1 errno 0\nkiln:begin 2 p\nkiln:out half",
            "kiln:begin 1 w\nkiln:end 1 errno 0\nkiln:begin 2 p\nkiln:out x\nkiln:end 2 signal 9",
            "kiln:end 2 errno 0",
        ] {
            assert!(heard(text).answer(Some(1), 2).is_err(), "{text}");
        }
    }

    #[test]
    fn no_source_is_forgotten() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../linux/fidelity");
        let mut there: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        there.sort();
        let listed: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).collect();
        assert_eq!(there[..], listed[..listed.len() - 1]);
    }
}
