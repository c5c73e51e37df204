//! The agent's parts: [`model`] and [`compile`] are pure; [`etcd`] and [`agent`] touch the world.

pub mod agent;
pub mod compile;
pub mod etcd;
pub mod model;
