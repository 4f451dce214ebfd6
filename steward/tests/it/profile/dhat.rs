//! DHAT's format, in the viewer that it is for.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::parts::text_of;
use serde_json::Value;
use testkit::{Child, skip};

use super::{number, of_driver, of_trace, sum_of_sites};

/// Valgrind's viewer with the profile in it, in a browser; its text.
pub(crate) fn viewed(test: &str, profile: &str) -> Option<String> {
    let files = Path::new("/usr/libexec/valgrind");
    if !files.join("dh_view.html").is_file() {
        skip("dh_view", test, "there is no dh_view.html of valgrind");
        return None;
    }
    let has_browser = Command::new("chromium").arg("--version").output();
    if !has_browser.is_ok_and(|done| done.status.success()) {
        skip("chromium", test, "there is no chromium");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for name in ["dh_view.js", "dh_view.css"] {
        fs::copy(files.join(name), folder.join(name)).expect("a copy");
    }
    // What its button does once the user has chosen a file.
    let load = format!(
        "<script>function show() {{ tryFunc(() => {{ gFilename = 'profile'; gData = {}; buildTree(); displayTree(0, 0, 0); }}) }}</script></head>",
        profile.replace("</", "<\\/")
    );
    let page = fs::read_to_string(files.join("dh_view.html")).expect("the viewer");
    let begin = "onload=\"onLoad()\"";
    assert!(page.contains("</head>") && page.contains(begin));
    let page = page.replace(begin, "onload=\"onLoad(); show()\"");
    let file = folder.join("view.html");
    fs::write(&file, page.replace("</head>", &load)).expect("a file");
    let done = Child::new("chromium")
        .limit(Duration::from_secs(120))
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .args([
            format!("--user-data-dir={}", folder.join("browser").display()),
            format!("file://{}", file.display()),
        ])
        .run();
    done.assert_code(0);
    // The script above is no text of the page's.
    let (_, body) = done.stdout.split_once("</head>").expect("a body");
    Some(text_of(body))
}

/// As the viewer writes numbers.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().collect();
    let groups: Vec<_> = groups
        .iter()
        .map(|group| String::from_utf8_lossy(group))
        .collect();
    groups.join(",")
}

#[test]
fn valgrinds_viewer_shows_the_sums_of_the_report() {
    for (name, run) in [
        ("replay", of_trace("a.dhat")),
        ("drive", of_driver("a.dhat.json")),
    ] {
        let file: Value = serde_json::from_str(&run.text).expect("JSON");
        assert_eq!(file["mode"], "steward");
        let Some(shown) = viewed("valgrinds_viewer_shows_the_sums_of_the_report", &run.text) else {
            return;
        };
        for (of, sum) in [
            ("Total", "total"),
            ("At t-gmax", "at_peak"),
            ("At t-end", "left"),
        ] {
            let bytes = with_commas(sum_of_sites(&run.report, sum));
            assert!(
                shown.contains(&format!("{of}: {bytes} bytes")),
                "{name}: {of} {bytes}: {shown}"
            );
        }
        // The viewer unfolds what is most of it, by blocks.
        let mut blocks: BTreeMap<[String; 2], u64> = BTreeMap::new();
        for site in run.report["call_sites"]["sites"]
            .as_array()
            .expect("a list")
        {
            let [context, scope, command] =
                ["context", "scope", "command"].map(|name| site[name].as_str().expect("text"));
            let labels = [format!("{context}, {scope}"), command.to_owned()];
            *blocks.entry(labels).or_default() += number(&site["total"]["blocks"]);
        }
        let (most, _) = blocks
            .iter()
            .max_by_key(|(_, blocks)| **blocks)
            .expect("a site");
        for said in [&most[0], &most[1], "Allocated at {"] {
            assert!(shown.contains(said), "{name}: {said}: {shown}");
        }
        assert!(
            !shown.contains("Error:") && !shown.contains("missing a field"),
            "{shown}"
        );
    }
    // The viewer would have said that.
    let broken = of_trace("a.dhat").text.replace("\"bklt\"", "\"other\"");
    if let Some(shown) = viewed("valgrinds_viewer_shows_the_sums_of_the_report", &broken) {
        assert!(
            shown.contains("data file is missing a field: bklt"),
            "{shown}"
        );
    }
}
