//! The example does what its first lines promise. `cargo test` builds it; a run of this file alone may not have.

#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]

use testkit::{Child, skip};

#[test]
fn the_example_shows_a_report_in_words_and_ends_by_its_own_code() {
    let this = std::env::current_exe().expect("a path");
    let example = this.ancestors().nth(2).expect("deps, in a folder").join("examples/guarded_program");
    if !example.exists() {
        return skip("examples", "the_example_shows_a_report_in_words_and_ends_by_its_own_code", "it was not built");
    }
    for (mistake, code, said) in [
        (None, 0, None),
        (Some("overflow"), 1, Some("overflow: write 0 bytes past the end of block ")),
        (Some("late"), 1, Some("use-after-free: write at offset 0 into freed block ")),
        (Some("twice"), 1, Some("double-free: second free of freed block ")),
        (Some("leak"), 2, Some("leak: 1 block, 100 bytes, not given back: block ")),
    ] {
        let done = Child::new(&example).args(mistake).run();
        done.assert_code(code);
        assert!(done.stdout.starts_with("10 different words\n"), "{done}");
        let reports: Vec<&str> = done
            .stderr
            .lines()
            .filter_map(|line| line.strip_prefix("debug-guard: "))
            .filter(|line| !line.starts_with("notice:"))
            .collect();
        assert_eq!(reports.len(), usize::from(said.is_some()), "{done}");
        assert!(
            said.is_none_or(|said| reports[0].starts_with(said) && reports[0].contains("(100 bytes, align 1")),
            "{done}"
        );
        assert!(!done.stderr.contains("{\"debug_guard\""), "for people alone: {done}");
    }
}
