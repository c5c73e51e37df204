//! Any exit and any text on standard error.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iptables_updater_fuzz::bodies::classifier(data));
