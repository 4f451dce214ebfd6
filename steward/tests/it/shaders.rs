//! The committed SPIR-V is what the sources beside it compile to.

use std::path::Path;
use std::process::Command;

/// The version that compiled what is committed; others may order or decorate instructions in another way.
const COMPILER: &str = "Glslang Version: 11:12.0.0";

#[test]
fn committed_modules_are_what_the_sources_compile_to() -> Result<(), Box<dyn std::error::Error>> {
    const NAME: &str = "committed_modules_are_what_the_sources_compile_to";
    let version = match Command::new("glslangValidator").arg("--version").output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => return skip(NAME, &format!("glslangValidator cannot be run ({error})")),
    };
    if version.lines().next() != Some(COMPILER) {
        return skip(NAME, &format!("glslangValidator is not {COMPILER}"));
    }
    let shaders = Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let directory = tempfile::tempdir()?;
    let mut compared = 0;
    for entry in std::fs::read_dir(&shaders)? {
        let source = entry?.path();
        if source.extension().is_some_and(|extension| extension == "spv") {
            continue;
        }
        let name = source.file_name().ok_or("a file has a name")?.to_string_lossy().into_owned();
        let compiled = directory.path().join("compiled.spv");
        let output = Command::new("glslangValidator")
            .args(["-V", "--target-env", "vulkan1.1", "-o"])
            .args([&compiled, &source])
            .output()?;
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
        let committed = std::fs::read(shaders.join(format!("{name}.spv")))?;
        assert!(std::fs::read(&compiled)? == committed, "{name}.spv is stale: compile it again with {COMPILER}");
        compared += 1;
    }
    assert_eq!(compared, 3);
    Ok(())
}

fn skip(test: &str, reason: &str) -> Result<(), Box<dyn std::error::Error>> {
    println!("SKIPPED {test}: {reason}");
    let required = std::env::var("STEWARD_REQUIRE").unwrap_or_default();
    if required.split(',').any(|each| each.trim() == "glslang") { Err("glslang is required".into()) } else { Ok(()) }
}
