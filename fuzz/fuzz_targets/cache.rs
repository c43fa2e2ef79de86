#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tantalum_fuzz::cache::media(input));
