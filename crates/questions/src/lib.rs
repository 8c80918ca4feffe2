//! The commands of Kiln. Each command has a folder that contains its arguments, plan, run, rows,
//! tables, and part of the survey.
//!
//! The list below is the only place outside a command's folder that names the command. Each entry
//! becomes a command with help, completions and a manual page. The command's row types are added to
//! the records' schema, and the command's contribution, if any, is added to the survey.
//!
//! Commands share these modules, which do not depend on any command:
//!
//! | module | contents |
//! |---|---|
//! | `limits/` | measured limits of the hardware |
//! | `device.rs` | a virtio-crypto device in a separate process |

mod device;
mod limits;
#[cfg(test)]
mod testing;

use kiln_question::survey::{self, Answer, Contribution, Topic};
use kiln_question::{Error, Exit, Question, RowType, Session, Shard};
use kiln_record::Description;
use kiln_timing::peer::Wanted;

/// Expands the list of questions into modules, commands, row types and survey contributions.
macro_rules! questions {
    ($($visibility:vis $module:ident: $command:ident($args:ident) $(+ $survey:ident)?;)*) => {
        $($visibility mod $module;)*

        /// The commands. The help text lists them in this order.
        #[derive(clap::Subcommand)]
        // The help texts come from the doc comments of the argument structures.
        #[allow(missing_docs)]
        pub enum Command {
            $($command(Box<$module::$args>),)*
        }

        impl Command {
            /// Runs the selected command and returns its exit status.
            ///
            /// # Errors
            /// Fails if the command rejects its arguments or lacks something that it needs.
            pub fn run(&self, session: &Session) -> Result<Exit, Error> {
                match self {
                    $(Command::$command(args) => args.run(session),)*
                }
            }

            /// Returns the shard that the command line selects, if any.
            pub fn shard(&self) -> Option<Shard> {
                match self {
                    $(Command::$command(args) => args.shard(),)*
                }
            }

            /// Returns whether `--out` may name a file.
            pub fn writes_a_file(&self) -> bool {
                match self {
                    $(Command::$command(_) => <$module::$args as Question>::WRITES_A_FILE,)*
                }
            }

            /// Returns whether the command writes records.
            pub fn writes_records(&self) -> bool {
                match self {
                    $(Command::$command(_) => !<$module::$args as Question>::row_types().is_empty(),)*
                }
            }
        }

        fn all_row_types() -> Vec<RowType> {
            let mut all = Vec::new();
            $(all.extend(<$module::$args as Question>::row_types());)*
            all
        }

        /// Returns the contributions of all questions, in the order in which the survey runs them.
        pub fn survey() -> Vec<&'static Contribution> {
            let mut all: Vec<&'static Contribution> = Vec::new();
            $($(all.extend($module::$survey);)?)*
            all
        }
    };
}

questions! {
    here: Here(HereArgs);
    pub list: List(ListArgs);
    libraries: Libraries(LibrariesArgs);
    pub speed: Speed(SpeedArgs) + SURVEY;
    fpu: Fpu(FpuArgs) + SURVEY;
    ipsec: Ipsec(IpsecArgs) + SURVEY;
    budget: Budget(BudgetArgs) + SURVEY;
    pub test: Test(TestArgs);
    crypt: Crypt(CryptArgs);
    compare: Compare(CompareArgs);
    pub report: Report(ReportArgs);
    pub compilers: Compilers(CompilersArgs) + SURVEY;
    tree: Tree(TreeArgs);
    serve: Serve(ServeArgs);
    virtio_check: VirtioCheck(VirtioCheckArgs);
    ctrlq: Ctrlq(CtrlqArgs) + SURVEY;
    linux: Linux(LinuxArgs);
    self_check: SelfCheck(SelfCheckArgs);
    schema: Schema(SchemaArgs);
}

/// Returns all row types, in the order in which reports show them.
pub fn row_types() -> Vec<Description> {
    let mut all = all_row_types();
    all.push(RowType::at::<survey::Row>(10));
    all.sort_by_key(|row_type| row_type.place);
    all.into_iter().map(|r| r.description).collect()
}

/// Checks names of libraries in the same way as the flag `--peers`.
///
/// # Errors
/// Fails if a name is unknown, or if `auto` or `none` is combined with other names.
pub fn check_libraries(names: &[String]) -> Result<(), Error> {
    Wanted::parse(names).map(drop)
}

/// Derives a topic's headlines from the answers so far.
pub fn headlines(topic: &Topic, answers: &[Answer]) -> Vec<survey::Row> {
    let contributions = survey().into_iter().filter(|c| c.topic == topic);
    contributions.flat_map(|c| (c.rows)(answers)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_records_no_headlines() {
        let parts = || survey().into_iter().flat_map(|c| c.parts.iter().copied());
        assert_eq!(parts().count(), 11);
        for contribution in survey() {
            assert_eq!((contribution.rows)(&[]), []);
            let empty = |part| testing::answer(part, json!([{"policy": "legacy"}, {}]));
            let empty: Vec<Answer> = parts().map(empty).collect();
            let topic = contribution.topic.name;
            assert_eq!((contribution.rows)(&empty), [], "{topic}");
        }
    }

    #[test]
    fn parts_and_types_of_rows_have_names_and_places_of_their_own() {
        let mut names: Vec<&str> = survey()
            .iter()
            .flat_map(|c| c.parts.iter().map(|p| p.name))
            .collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        let mut places: Vec<u32> = all_row_types().iter().map(|r| r.place).collect();
        places.sort_unstable();
        assert!(
            places.windows(2).all(|pair| pair[0] != pair[1]),
            "{places:?}"
        );
        assert!(places[0] > 10, "the survey comes first");
    }
}
