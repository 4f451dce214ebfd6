//! A released runtime over its adapter, where `STEWARD_CLIENTS` names a virtual environment that has it (`pip install
//! numpy halide`).

use std::path::Path;
use std::process::Command;

use crate::installed::{installed, package, succeed};

#[test]
fn ca39_ca41_a_pipeline_of_halide_is_counted_and_right() {
    const NAME: &str = "ca39_ca41_a_pipeline_of_halide_is_counted_and_right";
    let Some(installed) = installed(NAME) else {
        return;
    };
    let Some(environment) = std::env::var_os("STEWARD_CLIENTS") else {
        return testkit::skip("clients", NAME, "STEWARD_CLIENTS names no virtual environment");
    };
    let python = Path::new(&environment).join("bin/python");
    let folder = tempfile::tempdir().expect("a folder");
    let compiled = Command::new(&python).arg(package("tests/clients/halide_aot.py")).arg(folder.path()).output();
    succeed(&compiled.expect("python"), "halide_aot.py");
    let asked =
        Command::new(&python).args(["-c", "import halide, os; print(os.path.dirname(halide.__file__))"]).output();
    let halide = String::from_utf8(asked.expect("python").stdout).expect("text");
    let include = format!("{}/include", halide.trim());
    let beside = format!("-I{}", folder.path().display());
    let library = folder.path().join("pipeline.a").display().to_string();
    let library = format!("-Wl,--push-state,--whole-archive,{library},--pop-state");
    let options = ["-std=c++17", "-isystem", &include, &beside, &library, "-Wl,--no-as-needed", "-ldl", "-lvulkan"];
    for source in ["halide_pipeline", "halide_own_device"] {
        let program = installed.compile(&format!("tests/c/{source}.cpp"), &options, "steward");
        let output = Command::new(program).output().expect("it starts");
        succeed(&output, source);
        println!("{}", String::from_utf8_lossy(&output.stdout));
    }
}
