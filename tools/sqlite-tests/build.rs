//! Links the Tcl library, and tells where the fixture's SQLite comes from.

fn main() {
    println!("cargo:rerun-if-env-changed=SQLITE_TESTS_LINK");
    println!("cargo:rerun-if-env-changed=SQLITE3_LIB_DIR");
    if let Ok(dir) = std::env::var("SQLITE3_LIB_DIR") {
        println!("cargo:rerun-if-changed={dir}/libsqlite3.a");
    }
    for word in std::env::var("SQLITE_TESTS_LINK").unwrap_or_default().split_whitespace() {
        println!("cargo:rustc-link-arg={word}");
    }
}
