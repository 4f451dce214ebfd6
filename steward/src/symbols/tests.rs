//! This program's own functions, found in its own file.

use super::*;

/// The program, and the address of `function` in its tables.
#[cfg(target_os = "linux")]
fn place(function: fn()) -> (String, u64) {
    let program = std::env::current_exe().expect("a path").display().to_string();
    let list = std::fs::read_to_string("/proc/self/maps").expect("a process can read its own list");
    // A position-independent program is linked at 0.
    let first = list.lines().find(|line| line.ends_with(&program)).expect("the program is mapped");
    let base =
        first.split_once('-').and_then(|(start, _)| u64::from_str_radix(start, 16).ok()).expect("a line begins so");
    (program, function as usize as u64 - base)
}

#[cfg(target_os = "linux")]
#[inline(never)]
fn found_by_its_name() {
    std::hint::black_box(found_by_its_name as fn());
}

#[cfg(target_os = "linux")]
fn named(told: &str) -> bool {
    told.contains("found_by_its_name")
}

#[test]
#[cfg(target_os = "linux")]
fn frames_of_text_get_names_and_lines() {
    let (program, offset) = place(found_by_its_name);
    let frame = |offset| format!("    #0  0x55d5475f6f22 {program}+{offset:#x}\n");
    let text = |head: &str, offset| format!("{head}\n{}    #1  0x8\nother", frame(offset));
    let mut symbols = Symbols::default();
    let told = symbols.annotate(&text("  stack of the access:", offset));
    let line = told.lines().nth(2).expect("a line below the frame");
    assert!(named(line) && line.contains("tests.rs:"), "{told}");
    assert_eq!(told.replace(&format!("{line}\n"), ""), text("  stack of the access:", offset), "the rest is as it was");
    // A return address follows its call, so a function's first byte may belong to the last call of the function before.
    assert!(!named(&symbols.annotate(&text("  stack of the free:", offset))));
    assert!(named(&symbols.annotate(&text("  stack of the free:", offset + 1))));
    assert_eq!(
        symbols.annotate("    #0  0x10 /no/such/file+0x10\n    # what"),
        "    #0  0x10 /no/such/file+0x10\n    # what"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn frames_of_json_get_names_and_stay_json() {
    let (program, offset) = place(found_by_its_name);
    let module = serde_json::to_string(&program).expect("a string");
    let frame = format!(r#"{{"address":"0x1","module":{module},"offset":"{offset:#x}"}}"#);
    let line = |detected_at: &str| {
        format!(
            r#"{{"debug_guard":1,"kind":"overflow","detected_at":"{detected_at}","label":"\",\"module\":\"x\"","block":{{"frames":[{frame}]}},"by":{{"frames":[{frame},{frame}]}},"end":0}}"#
        )
    };
    let mut symbols = Symbols::default();
    let functions = |told: &str| -> Vec<bool> {
        let report = Symbols::report(told).unwrap_or_else(|| panic!("no report: {told}"));
        assert_eq!((&report["end"], &report["label"]), (&0.into(), &r#"","module":"x""#.into()));
        let frames = [&report["block"]["frames"][0], &report["by"]["frames"][0], &report["by"]["frames"][1]];
        frames.iter().map(|frame| frame["functions"][0]["name"].as_str().is_some_and(named)).collect()
    };
    assert_eq!(functions(&symbols.annotate(&line("instruction"))), [false, true, false]);
    assert_eq!(functions(&symbols.annotate(&line("free"))), [false, false, false]);
    assert_eq!(Symbols::report("{\"other\":1}"), None);
}

#[test]
fn long_names_lose_what_is_in_brackets() {
    assert_eq!(short("take<Guard<System>>"), "take<Guard<System>>");
    let long = "a::very::long::path::that::goes::on::and::on".to_owned();
    let name = format!("<{long}::Type<A, {long}> as {long}::Trait>::call::<fn(A) -> B, C<D>>::{{closure#0}}<E>");
    assert_eq!(short(&name), format!("<{long}::Type<..> as {long}::Trait>::call::<..>::{{closure#0}}<E>"));
    let odd = format!("{}>>->operator", "x".repeat(100));
    assert_eq!(short(&odd), odd);
}

#[test]
fn what_is_not_a_report_s_stays_as_it_is() {
    for text in [
        "",
        "\n",
        "    #0",
        "    #x 0x1 a+0x1",
        "{\"debug_guard\":1,\"module\":",
        "{\"debug_guard\":1,\"module\":\"a\",\"offset\":7}",
    ] {
        assert_eq!(Symbols::default().annotate(text), text);
    }
}
