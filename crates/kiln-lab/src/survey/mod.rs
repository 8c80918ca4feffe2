//! All questions at once, for this machine, in the time there is.
//!
//! Each part of the survey is this program's own command in a process of its own, with bounds on what it may take. What
//! becomes a headline runs in five processes, spread over the survey: pass 1 runs every part once, then pass 2 begins. So what the survey shows is what the command would show, its record is the command's own record, there is one
//! emulated CPU to a process as everywhere else, and a part that dies or hangs is a note and not the survey's end. What
//! that costs is the start of a process for each, 0.2 s with finding its clock.
//!
//! | file | its noun |
//! |---|---|
//! | `question.rs` | a question, who asked it, and what was published |
//! | `plan.rs` | which part gets how much time, and what is left out |
//! | `part.rs` | a part of the survey: its command's arguments in so many seconds |
//! | `child.rs` | a command of this program as a process of its own |
//! | `answer.rs` | what came of a part |
//! | `headline/` | records in plain language |
//! | `row.rs` | a row: a headline with its figure |
//! | `runs.rs` | the records of several processes of one part, and their estimate |

mod answer;
pub mod child;
mod headline;
mod part;
mod plan;
mod question;
mod row;
mod runs;

pub use answer::{Answer, Ended};
pub use headline::{is_blind, rows};
pub use part::Part;
pub use plan::{LeftOut, Plan, Step, Wanted};
pub use question::Question;
pub use row::Row;
pub use runs::{Against, Estimate, Runs, PROCESSES};
