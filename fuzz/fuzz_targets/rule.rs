//! Any text as a rule, a chain's name, a prefix.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iptables_updater_fuzz::bodies::rule(data));
