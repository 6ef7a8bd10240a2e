#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ixion_fuzz_bodies::kafka_fetch(bytes));
