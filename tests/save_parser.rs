//! The save parser on files, on the real kernel, and on dumps from elsewhere where they are at hand.

mod common;
#[path = "save_parser/dumps.rs"]
mod dumps;
#[path = "save_parser/files.rs"]
mod files;
#[path = "save_parser/kernel.rs"]
mod kernel;
#[path = "save_parser/nft.rs"]
mod nft;
