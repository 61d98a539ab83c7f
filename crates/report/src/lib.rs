//! Findings become a table for people, JSON for programs, and a yes or no for a gate.
//!
//! Everything is rendered into a [`Write`](std::io::Write): nothing here prints, reads the environment or decides
//! anything about sharing. docs/report.md explains each value.

#![forbid(unsafe_code)]

mod causes;
mod check;
mod comparison;
mod diff;
mod error;
mod gate;
mod history;
mod json;
mod layout;
mod measured;
mod page;
mod programs;
mod refusals;
mod scale;
mod shake;
mod table;
mod words;

pub use check::{
    CHECK_JSON_VERSION, CheckFailOn, CheckTableOptions, SourceTree, cannot_check, check_gate,
    check_json, check_json_schema, check_table, github, sarif,
};
pub use comparison::{
    COMPARISON_JSON_VERSION, comparison_json, comparison_json_schema, comparison_table,
};
pub use diff::{DIFF_JSON_VERSION, DiffTableOptions, diff_json, diff_json_schema, diff_table};
pub use error::Error;
pub use gate::{FailOn, LeastShare, cannot_judge, gate};
pub use history::{
    HISTORY_JSON_VERSION, HistoryTableOptions, history_json, history_json_schema, history_table,
};
pub use json::{JSON_VERSION, json, json_schema};
pub use layout::{
    LAYOUT_JSON_VERSION, LayoutTableOptions, layout_json, layout_json_schema, layout_table,
    type_summary,
};
pub use page::PageOptions;
pub use scale::{SCALE_JSON_VERSION, scale_json, scale_json_schema, scale_svg, scale_table};
pub use shake::{SHAKE_JSON_VERSION, shake_json, shake_json_schema, shake_table};
pub use table::{TableOptions, table};
