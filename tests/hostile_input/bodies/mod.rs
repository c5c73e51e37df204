//! What has to hold whatever bytes come in: one function for each way in. The fuzz targets and
//! `tests/hostile_input.rs` call the same ones; each panics where something doesn't hold.

// Each user uses its own part of this.
#![allow(dead_code, missing_docs, clippy::missing_panics_doc)]

mod bytes;
mod canned;
mod classifier;
mod requests;
mod rule;
mod save;

pub use classifier::classifier;
pub use requests::requests;
pub use rule::rule;
pub use save::save;

/// A function that takes any bytes.
pub type Body = fn(&[u8]);

/// All of them, by the name of their fuzz target and folder of seeds.
pub const BODIES: [(&str, Body); 4] = [
    ("rule", rule),
    ("save", save),
    ("classifier", classifier),
    ("requests", requests),
];

/// An error's text goes to terminals and logs: it is one line, of no great length, without control characters.
#[track_caller]
fn presentable(error: &impl std::fmt::Display) {
    let text = error.to_string();
    assert!(!text.contains(char::is_control), "{text:?}");
    assert!(text.len() < 12_000, "{} bytes: {text}", text.len());
}
