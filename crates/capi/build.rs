//! Gives the shared library its name for the dynamic linker, with the number of the ABI, so that
//! a program never runs with a library of another ABI.

/// The number in the library's name. `TANTALUM_ABI_VERSION` is the same: a test compares them.
const ABI: u32 = 1;

#[allow(clippy::disallowed_methods, reason = "cargo speaks to build scripts in this way")]
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CARGO_CFG_TARGET_OS");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtantalum.so.{ABI}");
    }
}
