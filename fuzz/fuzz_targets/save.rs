//! Any bytes as what iptables-save printed.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iptables_updater_fuzz::bodies::save(data));
