//! The rows of `docs/contracts` and the tree agree; and each kind of disagreement is found in a tree that is made up.
//!
//! A test proves row M7 when its name begins with `m7_`, or with the names of several rows, M7 among them. A row without a test has
//! its reason in ARCHITECTURE.md, under the heading "Rows without a test".

use testkit::check_contracts;

use crate::common::files;

#[test]
fn every_row_has_a_test_or_a_reason_and_every_cited_row_is_defined() {
    let report = check_contracts(&files());
    println!(
        "{} rows: {} with a test, {} not built yet",
        report.rows, report.tested, report.not_built
    );
    assert!(report.faults.is_empty(), "{:#?}", report.faults);
    assert!(
        report.tested > 100,
        "the rows and the tests were found: {report:?}"
    );
}

const README: &str = "docs/contracts/README.md";
const FIRST: &str = "docs/contracts/first.md";
const SECOND: &str = "docs/contracts/second.md";
const EXCUSES: &str = "ARCHITECTURE.md";
const TESTS: &str = "a/tests/t.rs";

/// A tree in which everything is right: two built rows, one with a test and one excused, and one that is not built yet.
const TREE: [(&str, &str); 7] = [
    (
        README,
        "# Rows\n\n## Prefixes\n\n| prefix | file | about | state |\n|-|-|-|-|\n| `A` | first.md | one | built |\n\
         | `B` | second.md, third.md | two | not built yet |\n\n## Words that are no rows\n\n| word | meaning |\n|-|-|\n| `A200` | a machine |\n",
    ),
    (
        FIRST,
        "| row | must | fails | state |\n|-|-|-|-|\n| A1 | it holds | nobody | built |\n| A02 | it holds | nobody | limit |\n",
    ),
    (SECOND, "| B1 | it holds | nobody | not built yet |\n"),
    ("docs/contracts/third.md", "No rows of its own.\n"),
    ("docs/contracts/laws.md", "| 1 | a law | `a/tests/t.rs` |\n"),
    (
        EXCUSES,
        "## Rows without a test\n\n| row | reason |\n|-|-|\n| A02 | nothing can be seen of it from here |\n\n## More\n",
    ),
    (TESTS, "#[test]\nfn a1_holds() {}\n"),
];

/// The faults of [`TREE`] after the first `old` in `path` became `new`. An empty `old` puts `new` in front.
fn faults(path: &str, old: &str, new: &str) -> Vec<String> {
    let mut files = TREE
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .to_vec();
    if let Some((_, text)) = files.iter_mut().find(|(name, _)| name == path) {
        assert!(text.contains(old), "{path} has no {old:?}");
        *text = text.replacen(old, new, 1);
    } else {
        files.push((path.to_owned(), new.to_owned()));
    }
    check_contracts(&files).faults
}

#[test]
fn a_tree_without_faults_has_none() {
    let files = TREE.map(|(path, text)| (path.to_owned(), text.to_owned()));
    let report = check_contracts(&files);
    assert_eq!(
        (report.rows, report.tested, report.not_built, report.faults),
        (3, 1, 1, Vec::new())
    );
}

#[test]
fn a_row_without_a_test_is_found() {
    assert_eq!(
        faults(TESTS, "a1", "holds"),
        ["A1 has neither a test nor a reason in ARCHITECTURE.md"]
    );
    assert_eq!(
        faults(TESTS, "#[test]\n", ""),
        ["A1 has neither a test nor a reason in ARCHITECTURE.md"]
    );
    assert_eq!(
        faults(EXCUSES, "| A02 |", "| A2x |"),
        ["A02 has neither a test nor a reason in ARCHITECTURE.md"]
    );
    assert_eq!(
        faults(SECOND, "not built yet", "built"),
        ["B1 has neither a test nor a reason in ARCHITECTURE.md"]
    );
    // A file with its own `main` needs no attribute, and a test may prove several rows.
    assert_eq!(faults(TESTS, "#[test]\n", "fn main() {}\n"), [""; 0]);
    assert_eq!(
        faults(TESTS, "a1", "a1_b1"),
        ["B1 has a test, and its state is \"not built yet\""]
    );
}

#[test]
fn a_row_that_is_excused_and_tested_is_found() {
    let said = ["A02 has a test, and ARCHITECTURE.md says that it has none"];
    assert_eq!(
        faults(EXCUSES, "| A02 |", "| A02, A1 |"),
        ["A1 has a test, and ARCHITECTURE.md says that it has none"],
        "one reason for two rows"
    );
    assert_eq!(
        faults(TESTS, "", "fn a02_helps() {}\n"),
        [""; 0],
        "not under #[test]"
    );
    assert_eq!(
        faults(
            TESTS,
            "",
            "#[test]\n#[should_panic]\n// why\nfn a02_() {}\n"
        ),
        said
    );
    assert_eq!(
        faults(EXCUSES, "| A02", "| A3 | no such row is defined |\n| A02"),
        [
            "ARCHITECTURE.md:5 cites A3, which no contract defines",
            "ARCHITECTURE.md excuses A3, which no contract defines",
        ]
    );
    assert_eq!(
        faults(EXCUSES, "nothing can be seen of it from here", "why"),
        ["ARCHITECTURE.md gives no reason for A02: \"why\""]
    );
}

#[test]
fn a_citation_of_no_row_is_found() {
    let cited = |path: &str, line: u32, row: &str| {
        [format!(
            "{path}:{line} cites {row}, which no contract defines"
        )]
    };
    assert_eq!(
        faults("README.md", "", "as A1 says\nand A2.\n"),
        cited("README.md", 2, "A2")
    );
    assert_eq!(
        faults(FIRST, "it holds", "as B2 does"),
        cited(FIRST, 3, "B2")
    );
    assert_eq!(faults("b.rs", "", "//! A1 to A3\n"), cited("b.rs", 1, "A3"));
    assert_eq!(
        faults("b.rs", "", "let x = 1; // (A1/A3)\n"),
        cited("b.rs", 1, "A3")
    );
    assert_eq!(
        faults("b.rs", "", "/* A1\n /* A1 */ A3 */ let A4 = 4;\n"),
        cited("b.rs", 2, "A3")
    );
    assert_eq!(
        faults(
            "b.rs",
            "",
            "let c = ['\"', '\\'', '\\\\']; let s = \"\\\"\"; // A3\n"
        ),
        cited("b.rs", 1, "A3")
    );
    assert_eq!(
        faults("b.rs", "", "let c = '\"'; // A3\n"),
        cited("b.rs", 1, "A3")
    );
    assert_eq!(
        faults("b.rs", "", "fn f<'a>(x: &'a str) {} // A3\n"),
        cited("b.rs", 1, "A3")
    );
    let named = |row: &str| {
        [format!(
            "b.rs:3 is a test named after {row}, which no contract defines"
        )]
    };
    assert_eq!(
        faults("b.rs", "", "\n#[test]\nfn a1_a3_holds() {}\n"),
        named("A3")
    );
    assert_eq!(
        faults("b.rs", "", "\n#[test]\nfn cd7_is_of_no_prefix() {}\n"),
        named("CD7")
    );
    assert_eq!(
        faults(
            "b.rs",
            "",
            "\n#[test]\nfn a200_is_a_word() {}\n#[test]\nfn suite24_too() {}\n"
        ),
        [""; 0]
    );
    assert_eq!(
        faults("README.md", "", "by law 1, not by Law 2\n"),
        cited("README.md", 1, "law 2")
    );
    assert_eq!(
        faults(TESTS, "", "// A1\n// law 7\n"),
        cited(TESTS, 2, "law 7")
    );
}

#[test]
fn what_looks_like_a_row_and_is_none_is_let_be() {
    for text in [
        "an A200",
        "C3 and 0xA3",
        "A3x, xA3, A_3 and AA3",
        "lawful 7, A1.",
    ] {
        assert_eq!(faults("README.md", "", text), [""; 0], "{text}");
        assert_eq!(
            faults("b.rs", "", &format!("// {text}\n")),
            [""; 0],
            "{text}"
        );
    }
    for source in [
        "let s = \"// A3\";",
        "let s = r#\"\" // A3\"#;",
        "let s = br\"\\\" ; let A3 = \"// A3\";",
        "fn a3_helper() {}",
    ] {
        assert_eq!(faults("b.rs", "", source), [""; 0], "{source}");
    }
    assert_eq!(faults("b.txt", "", "A3"), [""; 0]);
    assert_eq!(
        faults(README, "`A200`", "`A1`").len(),
        1,
        "a row is no such word"
    );
}

#[test]
fn a_table_that_is_no_contract_is_found() {
    let row = |fault: &str| [format!("{FIRST}: A1 {fault}")];
    let four = "needs four cells: row, what must hold, who fails it today, state and proof";
    assert_eq!(
        faults(FIRST, "| it holds | nobody", "| it holds"),
        row(four)
    );
    assert_eq!(
        faults(FIRST, "| it holds | nobody", "| | nobody"),
        row(four)
    );
    assert_eq!(
        faults(FIRST, "| A02", "| A1 | it holds | nobody | built |\n| A02"),
        row("is defined twice")
    );
    assert_eq!(
        faults(FIRST, "built", "not built yet")[0],
        row("is not built yet, and README.md says that its prefix is")[0]
    );
    let elsewhere = "docs/contracts/second.md: A02 belongs in another file, says README.md";
    assert_eq!(
        faults(SECOND, "| B1", "| A02 | it holds | nobody | built |\n| B1")[0],
        elsewhere
    );
    assert_eq!(
        faults(FIRST, "| A02", "| C1 | it holds | nobody | built |\n| A02")[0],
        format!("{FIRST}: C1 has a prefix that README.md does not list")
    );
    assert_eq!(
        faults(README, "third.md", "fourth.md"),
        ["B has its rows in fourth.md, which is not there"]
    );
    assert_eq!(
        faults("docs/contracts/laws.md", "t.rs", "u.rs"),
        ["docs/contracts/laws.md names a/tests/u.rs, which is not in the tree"]
    );
}
