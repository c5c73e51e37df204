//! The bodies of the fuzz targets: the same that `tests/hostile_input.rs` runs for a moment each.

#[path = "../../tests/hostile_input/bodies/mod.rs"]
pub mod bodies;
