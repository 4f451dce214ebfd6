//! Mesa's own tests over the library, where `STEWARD_MESA` names a source tree of Mesa, as a distribution's source
//! package unpacks it. The tree is read only; what is configured is a copy. Takes minutes, and needs what Mesa needs:
//! meson, ninja, Python with mako, gtest.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::installed::{Installed, installed, succeed};

/// Suites of meson whose programs use ralloc: utilities, NIR, SPIR-V, GLSL.
const SUITES: [&str; 4] = [":util", ":nir", ":spirv", ":glsl"];

/// A copy of the tree in which `ralloc.c` is left out, and the library is what its users link.
fn copy_without_ralloc(mesa: &Path, copy: &Path) {
    let output = Command::new("cp").arg("-r").arg(mesa).arg(copy).output();
    succeed(&output.expect("cp"), "cp");
    let build = copy.join("src/util/meson.build");
    let text = std::fs::read_to_string(&build).expect("src/util/meson.build");
    let file = "'ralloc.c',";
    let dependencies = "deps_for_libmesa_util = [";
    assert!(text.contains(file) && text.contains(dependencies), "another layout");
    let library = format!("{dependencies} dependency('steward-ralloc'),");
    let text = text.replacen(file, "", 1).replacen(dependencies, &library, 1);
    std::fs::write(&build, text).expect("written");
}

fn configure(installed: &Installed, copy: &Path) -> PathBuf {
    let build = copy.join("build-over-steward");
    let output = Command::new("meson")
        .arg("setup")
        .arg(&build)
        .args([
            "-Dplatforms=",
            "-Dvulkan-drivers=",
            "-Dgallium-drivers=swrast", // without one, the tests of GLSL are left out
            "-Dllvm=disabled",
        ])
        .args(["-Dglx=disabled", "-Degl=disabled", "-Dgbm=disabled", "-Dvalgrind=disabled"])
        .args(["-Dlibunwind=disabled", "-Dlmsensors=disabled", "-Dbuild-tests=true"])
        .args(["-Doptimization=1", "-Ddebug=false"])
        .env("PKG_CONFIG_PATH", installed.path("lib/pkgconfig"))
        .current_dir(copy)
        .output();
    succeed(&output.expect("meson"), "meson setup");
    build
}

/// A program of Mesa's, and the environment that its test gives it.
struct Program {
    path: PathBuf,
    env: Vec<(String, String)>,
}

/// The programs of [`SUITES`], as meson lists them.
fn programs(build: &Path) -> Vec<Program> {
    let output = Command::new("meson").args(["introspect", "--tests"]).arg(build).output();
    let output = output.expect("meson");
    succeed(&output, "meson introspect");
    let tests: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut programs = Vec::new();
    for test in tests.as_array().expect("a list") {
        let suites = test["suite"].as_array().expect("a list");
        let is_ours = suites.iter().filter_map(|suite| suite.as_str());
        let is_ours = is_ours.into_iter().any(|suite| SUITES.iter().any(|ours| suite.ends_with(ours)));
        let command = test["cmd"].as_array().expect("a list");
        let program = Path::new(command[0].as_str().expect("a path"));
        if is_ours && command.len() == 1 && program.starts_with(build) {
            let env = test["env"].as_object().into_iter().flatten();
            let env = env.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
            programs.push(Program { path: program.to_owned(), env: env.collect() });
        }
    }
    programs.sort_by(|one, other| one.path.cmp(&other.path));
    programs.dedup_by(|one, other| one.path == other.path);
    programs
}

#[test]
fn ca7_mesas_own_tests_pass_over_the_library() {
    const NAME: &str = "ca7_mesas_own_tests_pass_over_the_library";
    let Some(mesa) = std::env::var_os("STEWARD_MESA") else {
        testkit::skip("mesa", NAME, "STEWARD_MESA names no source tree of Mesa");
        return;
    };
    let Some(installed) = installed(NAME) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("mesa");
    copy_without_ralloc(Path::new(&mesa), &copy);
    let build = configure(installed, &copy);
    let programs = programs(&build);
    let targets = programs.iter().map(|program| program.path.strip_prefix(&build).expect("below it"));
    let output = Command::new("ninja").arg("-C").arg(&build).args(targets).output();
    succeed(&output.expect("ninja"), "ninja");
    let (mut report, mut counted, mut over_us) = (String::new(), 0, 0);
    for Program { path: program, env } in &programs {
        let output = Command::new(program)
            .envs(env.iter().map(|(key, value)| (key, value)))
            .env("LD_LIBRARY_PATH", installed.path("lib"))
            .current_dir(&build)
            .output()
            .expect("it starts");
        succeed(&output, &program.display().to_string());
        let text = String::from_utf8_lossy(&output.stdout);
        let passed = text.lines().find_map(|line| line.strip_prefix("[  PASSED  ] "));
        let passed: u64 = passed.map_or(1, |line| {
            let count = line.split_whitespace().next().expect("a count");
            count.parse().expect("a number")
        });
        counted += passed;
        let symbols = Command::new("nm").args(["-D", "--undefined-only"]).arg(program).output();
        let symbols = String::from_utf8(symbols.expect("nm").stdout).expect("text");
        over_us += u64::from(symbols.contains("ralloc_free@STEWARD_RALLOC_0"));
        let stem = program.file_stem().expect("a name").to_string_lossy();
        writeln!(report, "  {stem}: {passed}").expect("text");
    }
    println!("{counted} of Mesa's tests passed over libsteward-ralloc\n{report}");
    assert!(counted > 100 && over_us > 5, "{over_us} of {} programs use ralloc:\n{report}", programs.len());
}
