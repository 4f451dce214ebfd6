//! Every example of the folder runs, as a person would run it.

use crate::*;

/// Names of the examples: files of the folder.
fn examples() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("there are examples")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension() == Some(OsStr::new("rs")))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort_unstable();
    names
}

/// What an example prints, with the loader's own choice of drivers or with those of one manifest.
fn run(name: &str, manifest: Option<&OsStr>) -> Option<String> {
    let mut example = testkit::example(name)?;
    if let Some(manifest) = manifest {
        // The second is the older name.
        for variable in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
            example = example.env(variable, manifest);
        }
    }
    let done = example.run();
    done.assert_code(0);
    assert!(!done.stderr.contains("was dropped"), "{done}");
    Some(done.stdout)
}

/// What the first lines of an example promise.
fn promised(name: &str) -> &'static [&'static str] {
    match name {
        "tracked_application" => &["application", "instance", "gpu-suballoc", "vertices", "staging", "nothing is left"],
        "two_contexts" => &[
            "first: 4 kernels compiled, 4 found in the cache\nsecond: 4 kernels compiled, 4 found in the cache\n",
            "\nfirst released: 4 kernels, 1 memory objects of ",
            "\nsecond goes on: its own kernels are found, 4 of first's compiled anew\n",
            "\nnothing is left\n",
        ],
        _ => &[],
    }
}

/// Runs all of them on a driver; `None` where there is none.
fn run_all(manifest: Option<&OsStr>) -> Option<String> {
    let names = examples();
    assert!(names.len() >= 3, "{names:?}");
    let mut device = None;
    for name in &names {
        let text = run(name, manifest)?;
        let first = text.lines().next().unwrap_or_default();
        if let Some(reason) = text.lines().find_map(|line| line.strip_prefix("SKIPPED: ")) {
            println!("{name}: {reason}");
            return None;
        }
        if let Some(on) = first.strip_prefix("on ") {
            device = Some(on.to_owned());
        }
        assert!(text.lines().count() > 2, "{name} shows something: {text}");
        for said in promised(name) {
            assert!(text.contains(said), "{name}: {said}: {text}");
        }
        println!("{name} {first}");
    }
    device
}

#[test]
fn h26_every_example_runs_on_the_first_device() {
    if run_all(None).is_none() {
        testkit::skip("lavapipe", "h26_every_example_runs_on_the_first_device", "no driver");
    }
}

#[test]
fn every_example_runs_on_swiftshader() {
    let name = "every_example_runs_on_swiftshader";
    match std::env::var_os("STEWARD_SWIFTSHADER") {
        None => testkit::skip("swiftshader", name, "STEWARD_SWIFTSHADER names no manifest"),
        Some(manifest) => {
            let device = run_all(Some(&manifest)).unwrap_or_default();
            assert!(device.contains("SwiftShader"), "{device}");
        }
    }
}

#[test]
fn every_example_says_that_it_is_skipped_without_a_driver() {
    for name in examples() {
        if let Some(text) = run(&name, Some(OsStr::new("/nonexistent/icd.json"))) {
            assert!(text.contains("SKIPPED: "), "{name}: {text}");
        }
    }
}
