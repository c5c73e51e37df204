//! Any sequence of requests on the simulated kernel.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iptables_updater_fuzz::bodies::requests(data));
