//! The gate runs programs of Windows (`docs/contracts/windows.md`).

use crate::common::{LIBRARIES, text};

/// The body of a function of `.ci/run`.
fn step(gate: &str, name: &str) -> String {
    let begin = format!("\n{name}() (\n");
    let (_, body) = gate.split_once(&begin).expect("there is such a step");
    let (body, _) = body.split_once("\n)\n").expect("it ends");
    body.replace("\\\n", " ")
}

#[test]
fn wn1_the_gate_runs_whole_suites_under_wine() {
    let gate = text(".ci/run");
    let (_, lane) = gate.split_once("steps_beside=(").expect("a second lane");
    let (lane, _) = lane.split_once(')').expect("it ends");
    assert!(lane.split_whitespace().any(|step| step == "windows"));
    let body = step(&gate, "windows");
    let one_space = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let commands: Vec<String> = body.lines().map(one_space).filter(|line| line.contains("cargo test ")).collect();
    // `packages` are the libraries. Whoever adds a filter has to say so here.
    let all = "cargo test -q --target \"$target\" $(packages) -p vk-report -p reference-driver \
               -p steward-c";
    let left_out = "--skip is_linear --skip linear_time --skip owned_large:: --skip region_model:: \
                    --skip lifecycle_model:: --skip cache_model:: --skip topology_model::";
    assert_eq!(
        commands,
        [
            format!("{all} -p vk-layer --lib --test it -- {left_out}"),
            format!("{all} --test matrix --test global_guard"),
            "STEWARD_WINDOWS=\"$folder/$target/debug/deps\" STEWARD_REQUIRE=wine,cmake \
             cargo test -q -p steward-c --test it -- windows::"
                .to_owned(),
            "cargo test -q --target \"$target\" -p vk-steward --test windows".to_owned(),
        ]
    );
    // The loader's source comes from another release of Debian, which not every machine reaches: who asks for it gets a
    // failure.
    assert!(body.contains("*,windows-loader,*) echo"), "{body}");
    let libraries = format!("libraries=({})", LIBRARIES.join(" "));
    assert!(gate.contains(&libraries), "{libraries}");
}

#[test]
fn wn16_platforms_says_what_wine_proves_and_what_never_ran() {
    let page = text("docs/PLATFORMS.md");
    let (_, wine) = page.split_once("\n## What Wine proves, and what it cannot\n").expect("a chapter");
    for said in ["Wine says nothing of", "Never run:", "PDB", "AArch64"] {
        assert!(wine.contains(said), "{said}");
    }
}
