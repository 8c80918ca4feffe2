//! Measures a kernel tree: builds the tree in this process, then loads and measures it in a child
//! process.

use std::ffi::OsString;
use std::path::PathBuf;

use kiln_kbuild::Compiler;
use kiln_record::Part;
use kiln_tree::child::{self, Label, Order, Watch};
use kiln_tree::{Built, Config, Plan, Source};
use serde::de::DeserializeOwned;
use serde::Deserialize;

use crate::{Error, Exit, Progress, Session};

/// Maximum number of items that are skipped because they crashed. If another item crashes, the
/// measurement fails.
const CRASHES: usize = 16;

/// A kernel tree that has been built as a loadable image.
pub struct Hosted {
    /// Kernel version and compiler, for display.
    pub title: String,
    /// Objects that do not compile, each with its first compiler error.
    pub failures: Vec<String>,
    pub version: String,
    pub built: Built,
}

/// The results of a child process.
pub struct Measured<R> {
    /// Rows that the child printed.
    pub rows: Vec<R>,
    /// Notes about crashes and about objects that do not compile, the child's own notes, and a note
    /// about where the tree was built.
    pub notes: Vec<String>,
    /// How the child process ended.
    pub exit: Exit,
}

/// The fields that the parent reads from the child's JSON document.
#[derive(Deserialize)]
struct Document<R> {
    rows: Vec<R>,
    notes: Vec<String>,
    shard: Option<Part>,
}

/// Builds and links a tree while showing a progress bar.
///
/// # Errors
/// Returns the errors of [`kiln_tree::build`].
pub fn build(
    (source, compiler, config): (Source, Compiler, Config),
    session: &Session,
) -> Result<Built, kiln_tree::Error> {
    let progress = Progress::start();
    kiln_tree::build(&Plan {
        source,
        compiler,
        config,
        seed: session.seed,
        stop: &session.stop,
        progress: &|done, what| progress.report(done, what),
    })
}

impl Hosted {
    /// Builds and links a tree; returns `None` if interrupted.
    pub fn build(
        what: (Source, Compiler, Config),
        session: &Session,
    ) -> Result<Option<Hosted>, Error> {
        let title = format!("{}, built by {}", what.0.title(), what.1);
        let version = what.0.version.to_string();
        let built = build(what, session);
        match built {
            Ok(built) => Ok(Some(Hosted {
                title,
                failures: failures(&built),
                version,
                built,
            })),
            Err(kiln_tree::Error::Interrupted) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Returns the directory that contains the tree's objects. The command that built an object is
    /// stored next to it.
    pub fn objects(&self) -> PathBuf {
        self.built.cache.join("build")
    }

    /// Returns the name of the tree, such as `linux-6.12.1`.
    pub fn name(&self) -> String {
        format!("linux-{}", self.version)
    }

    /// Creates the order that tells a child process to measure the tree.
    pub fn order(&self, name: &str, session: &Session) -> Order {
        let mut order = Order::new(&self.built.image, session.seed);
        order.label = Label {
            name: name.to_string(),
            version: self.version.clone(),
            config: self.built.config.clone(),
        };
        order
    }

    fn place(&self) -> String {
        format!("built in {}", self.built.cache.display())
    }

    /// Measures the tree in child processes, which run this same program. If an item crashes the
    /// child, the crash is reported and the next child skips that item. In rows that have
    /// a field for the tree's name, that field is set to `name`.
    pub fn measure<R: DeserializeOwned>(
        &self,
        name: &str,
        arguments: &[OsString],
        session: &Session,
    ) -> Result<Result<Measured<R>, Exit>, Error> {
        let mut order = self.order(name, session);
        let mut crashes: Vec<String> = Vec::new();
        loop {
            let mut watch = Watch {
                stop: &session.stop,
                silence: None,
                event: &mut |_| (),
            };
            let ended = child::run(&order, arguments, &mut watch)?;
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
                // The child has already printed the reason on stderr.
                return match ended.status.code() {
                    Some(code @ (1..=3 | 130)) => {
                        // Print which objects do not compile, because that may explain what the
                        // child lacks.
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
            session.share.adopt(document.shard);
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

/// Describes the tree's objects that do not compile, each with its first compiler error.
fn failures(built: &Built) -> Vec<String> {
    let failed = built.rows.iter().filter(|r| r.status == "failed");
    failed
        .map(|r| format!("{} does not build: {}", r.name, r.reason))
        .collect()
}
