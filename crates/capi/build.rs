//! Sets the shared library's name for the dynamic linker, which has the version of the ABI: a
//! program never runs with a library of another ABI.

/// The number in the library's name. A test compares it with `TANTALUM_ABI_VERSION`.
const ABI: u32 = 1;

#[allow(clippy::disallowed_methods, reason = "cargo speaks to build scripts in this way")]
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CARGO_CFG_TARGET_OS");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtantalum.so.{ABI}");
    }
}
