//! Skips that say so, and that a continuous build can forbid.

/// Names, separated by commas, of what must be there: a test that would skip for the lack of one of them fails instead.
const REQUIRE: &str = "STEWARD_REQUIRE";

/// Prints `SKIPPED <test>: <reason>`. The caller then returns.
///
/// # Panics
/// When the environment variable `STEWARD_REQUIRE` lists `what` (`lavapipe`, `swiftshader`, `uffd`, ..).
pub fn skip(what: &str, test: &str, reason: &str) {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    assert!(!lists(&required, what), "{test} may not be skipped, {REQUIRE} lists {what}: {reason}");
    println!("SKIPPED {test}: {reason}");
}

fn lists(required: &str, what: &str) -> bool {
    required.split(',').any(|name| name.trim().eq_ignore_ascii_case(what))
}

#[cfg(test)]
mod tests {
    use super::lists;

    #[test]
    fn whole_names_count() {
        assert!(lists("swiftshader, Lavapipe", "lavapipe"));
        assert!(!lists("lavapipe2,uffd", "lavapipe"));
        assert!(!lists("", "lavapipe"));
    }
}
