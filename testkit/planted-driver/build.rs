//! Builds the reference driver with planted defects.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=planted");
}
