//! Guides: how the library thinks, and how a program is built on it.
//!
//! Each is a page with examples that are run as tests, on the simulated kernel.
//!
//! 1. [`ownership`]: which chains are yours, and what they require.
//! 2. [`stubs`]: what stands in for a chain that isn't there.
//! 3. [`restart`]: a new process takes over without a gap.
//! 4. [`errors`]: what can fail, what is tried again, and what to do with the rest.
//! 5. [`batches`]: many requests, many threads, one commit.
//! 6. [`neighbours`]: living with Docker, kube-proxy and firewalld.
//! 7. [`testing`]: your program's tests, without root.
//! 8. [`performance`]: what things cost, and how that was measured.
//! 9. [`migrating`]: from the `iptables` crate, from Felix, from kube-proxy.

#[doc = include_str!("guide/batches.md")]
pub mod batches {}
#[doc = include_str!("guide/errors.md")]
pub mod errors {}
#[doc = include_str!("guide/migrating.md")]
pub mod migrating {}
#[doc = include_str!("guide/neighbours.md")]
pub mod neighbours {}
#[doc = include_str!("guide/ownership.md")]
pub mod ownership {}
#[doc = include_str!("guide/performance.md")]
pub mod performance {}
#[doc = include_str!("guide/restart.md")]
pub mod restart {}
#[doc = include_str!("guide/stubs.md")]
pub mod stubs {}
#[doc = include_str!("guide/testing.md")]
pub mod testing {}
