//! Compiles the meter (`meter.rs`, one file without dependencies) into a library that the program embeds, because an
//! installed program has no library beside it. If that fails the program is built without it, and explains this when
//! asked for callback coverage.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

// A published package lacks the folders of other packages, so the file is not in `meter/`.
const SOURCE: &str = "meter.rs";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let library = out.join("meter.so");
    let found = match compile(&library) {
        Ok(()) => format!("Ok(include_bytes!({library:?}))"),
        Err(reason) => format!("Err({reason:?})"),
    };
    // `preload.rs` declares the constant with this type.
    fs::write(out.join("meter.rs"), found)?;
    Ok(())
}

/// Returns the library, or why there is none, as the end of a sentence.
fn compile(library: &Path) -> Result<(), String> {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let of_target = |name: &str| variable(&format!("CARGO_CFG_TARGET_{name}"));
    let possible = of_target("OS") == "linux" && of_target("ENV") == "gnu";
    if of_target("OS") == "windows" {
        return Err("not on Windows, where nothing is preloaded into a program".into());
    }
    if !possible || !["x86_64", "aarch64"].contains(&of_target("ARCH").as_str()) {
        return Err("the meter is for Linux with the GNU C library on x86-64 and AArch64".into());
    }
    if of_target("FEATURE").split(',').any(|feature| feature == "crt-static") {
        return Err("the program was linked statically, so nothing can be preloaded".into());
    }
    if !Path::new(SOURCE).is_file() {
        return Err("the program was built without the file `steward/meter.rs`".into());
    }
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--edition", "2024", "--crate-name", "steward_meter", "--crate-type", "cdylib", "--cap-lints", "warn"]);
    rustc.args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "codegen-units=1", "-C", "strip=symbols"]);
    rustc.arg("--target").arg(variable("TARGET"));
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    let done = rustc.arg("-o").arg(library).arg(SOURCE).output();
    let said = match &done {
        Ok(done) if done.status.success() => return Ok(()),
        Ok(done) => String::from_utf8_lossy(&done.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    let line = said.lines().find(|line| line.starts_with("error")).or(said.lines().next()).unwrap_or("without a word");
    println!("cargo::warning=the meter of callback coverage could not be compiled, so it will not be measured: {line}");
    Err(format!("the meter could not be compiled when the program was built ({line})"))
}
