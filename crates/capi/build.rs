//! Gives the shared library its SONAME: programs ask for `libmultigrain.so.0`, the interface, and
//! not for a version of it. Rust exports `#[no_mangle]` functions alone, so no version script is
//! needed; `tests/library.rs` checks that.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmultigrain.so.0");
}
