//! The layer stays loaded: programs unload the Vulkan loader while threads of a driver, or a handler that runs at exit,
//! still call it. (On Windows it sees to that itself.)

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_CFG_UNIX").is_some() {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
    // By which the program knows its layer after a package has stripped it. Not every linker makes one unasked.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--build-id=sha1");
}
