//! A kernel tree that a command measures: built here, held and measured by a child.

use std::ffi::OsString;
use std::path::PathBuf;

use kiln_kbuild::Compiler;
use kiln_kernel::cpu;
use kiln_lab::speed::Tree;
use kiln_lab::Error;
use kiln_tree::child::{self, Label, Order, Watch};
use kiln_tree::{Built, Config, Host, Plan, Source};
use serde::de::DeserializeOwned;
use serde::Deserialize;

use super::tree::fault;
use crate::progress::Progress;
use crate::session::{Exit, Session};

/// After so many crashes the rest is not tried.
const CRASHES: usize = 16;

/// A tree as an image.
pub struct Hosted {
    /// Version and compiler, for people.
    pub title: String,
    /// Objects that do not compile, each with the compiler's first error.
    pub failures: Vec<String>,
    version: String,
    built: Built,
}

/// What a child measured.
pub struct Measured<R> {
    pub rows: Vec<R>,
    pub notes: Vec<String>,
    pub exit: Exit,
}

/// The child's document, as far as it is read.
#[derive(Deserialize)]
struct Document<R> {
    rows: Vec<R>,
    notes: Vec<String>,
}

impl Hosted {
    /// Builds and links a tree, with a bar; nothing if interrupted.
    pub fn build(
        (source, compiler, config): (Source, Compiler, Config),
        session: &Session,
    ) -> Result<Option<Hosted>, Error> {
        let title = format!("Linux {}, built by {compiler}", source.version);
        let version = source.version.to_string();
        let progress = Progress::start();
        let built = kiln_tree::build(&Plan {
            source,
            compiler,
            config,
            seed: session.seed,
            stop: &session.stop,
            progress: &|done, what| progress.report(done, what),
        });
        match built {
            Ok(built) => Ok(Some(Hosted {
                title,
                failures: failures(&built),
                version,
                built,
            })),
            Err(kiln_tree::Error::Interrupted) => Ok(None),
            Err(e) => Err(fault(e)),
        }
    }

    /// Where its objects are, each beside the command that made it.
    pub fn objects(&self) -> PathBuf {
        self.built.cache.join("build")
    }

    /// Such as `linux-6.12.1`.
    pub fn name(&self) -> String {
        format!("linux-{}", self.version)
    }

    fn place(&self) -> String {
        format!("built in {}", self.built.cache.display())
    }

    /// Runs this program with these arguments in a child, which measures. What crashes is named and left out of the next
    /// child. `name`: of the tree in rows, where they have one besides its version and configuration.
    pub fn measure<R: DeserializeOwned>(
        &self,
        name: &str,
        arguments: &[OsString],
        session: &Session,
    ) -> Result<Result<Measured<R>, Exit>, Error> {
        let mut order = Order::new(&self.built.image, session.seed);
        order.label = Label {
            name: name.to_string(),
            version: self.version.clone(),
            config: self.built.config.clone(),
        };
        let mut crashes: Vec<String> = Vec::new();
        loop {
            let mut watch = Watch {
                stop: &session.stop,
                silence: None,
                event: &mut |_| (),
            };
            let ended = child::run(&order, arguments, &mut watch).map_err(fault)?;
            if let Some(crash) = &ended.fault {
                let line = crash.line(&self.built.image);
                let again = !crash.driver.is_empty()
                    && !order.skipped.contains(&crash.driver)
                    && order.skipped.len() < CRASHES
                    && !session.stopped();
                if !again {
                    return Err(Error::Failed(format!("the tree's code crashed: {line}")));
                }
                crashes.push(format!("CRASH: {}: {line}: no figures", crash.driver));
                order.skipped.push(crash.driver.clone());
                continue;
            }
            let document = serde_json::from_slice::<Document<R>>(&ended.output);
            let status = ended.status.code().and_then(|c| u8::try_from(c).ok());
            let (Ok(document), Some(status)) = (document, status) else {
                // It has told why on stderr.
                return match ended.status.code() {
                    Some(code @ (1..=3 | 130)) => {
                        // What it misses may be what does not build.
                        for failure in &self.failures {
                            eprintln!("kiln: {failure}");
                        }
                        Ok(Err(Exit::Refused(code as u8)))
                    }
                    _ => Err(Error::Failed(format!(
                        "the tree's process ended early: {}",
                        ended.status
                    ))),
                };
            };
            let exit = match status {
                0 if crashes.is_empty() && self.failures.is_empty() => Exit::Done,
                0 | 1 => Exit::Failed,
                130 => Exit::Interrupted,
                other => Exit::Refused(other),
            };
            return Ok(Ok(Measured {
                rows: document.rows,
                notes: [
                    crashes,
                    self.failures.clone(),
                    document.notes,
                    vec![self.place()],
                ]
                .concat(),
                exit,
            }));
        }
    }
}

pub fn failures(built: &Built) -> Vec<String> {
    let failed = built.rows.iter().filter(|r| r.status == "failed");
    failed
        .map(|r| format!("{} does not build: {}", r.name, r.reason))
        .collect()
}

/// The child's side: boots the tree as a source of candidates for the algorithms asked for.
pub fn boot(order: &Order, asked: &[String]) -> Result<Tree, Error> {
    let host = Host::boot(order, &cpu::Config::default()).map_err(fault)?;
    Tree::new(
        host,
        format!("linux-{}", order.label.version),
        order.label.config.clone(),
        &order.skipped,
        asked,
        order.seed,
    )
}
