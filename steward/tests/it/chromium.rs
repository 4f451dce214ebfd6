//! The page in a browser: what is in the DOM, and what is painted.
//!
//! Skipped where there is no `chromium`; `STEWARD_REQUIRE=chromium` forbids that. The pictures stay in the target
//! folder's `tmp`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::full_report::{empty, full};
use crate::support::parts::{PARTS, part, text_of};
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Child, skip};
use vk_report::report::Report;
use vk_steward::replay::bundled::TRACES;
use vk_steward::report::{ReportOrList, html};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");

/// Settings of blink.
const LIGHT: &str = "preferredColorScheme=1";
const DARK: &str = "preferredColorScheme=0";
/// A picture of nothing is smaller than that, in bytes.
const BLANK: usize = 30_000;

/// What forbids scripts.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// A browser with a folder of its own, or a skip.
struct Browser {
    folder: TempDir,
}

impl Browser {
    fn new(test: &str) -> Option<Self> {
        if !Command::new("chromium").arg("--version").output().is_ok_and(|done| done.status.success()) {
            skip("chromium", test, "there is no chromium");
            return None;
        }
        Some(Self { folder: tempfile::tempdir().expect("a folder") })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, page: &Path, options: &[&str]) -> String {
        let profile = format!("--user-data-dir={}", self.file("profile").display());
        let page = format!("file://{}", page.display());
        let fixed = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", &profile];
        let done = Child::new("chromium").limit(Duration::from_secs(120)).args(fixed).args(options).args([&page]).run();
        done.assert_code(0);
        done.stdout
    }

    fn dom(&self, page: &Path) -> String {
        let dom = self.run(page, &["--dump-dom"]);
        assert!(dom.contains("</html>"), "{dom}");
        dom
    }

    fn dom_of(&self, text: &str) -> String {
        let file = self.file("changed.html");
        fs::write(&file, text).expect("a file");
        self.dom(&file)
    }

    /// A picture, by the name of the page and its kind. `settings` are blink's.
    fn picture(&self, page: &Path, kind: &str, width: u32, settings: &str) -> Vec<u8> {
        let name = format!("page-{}-{kind}.png", page.file_stem().expect("a name").display());
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // One of an earlier run would pass as well.
        let _ = fs::remove_file(&file);
        let [shot, size, settings] = [
            format!("--screenshot={}", file.display()),
            format!("--window-size={width},3400"),
            format!("--blink-settings={settings}"),
        ];
        self.run(page, &[&shot, &size, &settings]);
        fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    /// Nothing of a page stands out of it at any of the widths.
    fn nothing_is_cut_off(&self, page: &Path, widths: &[u32]) {
        let probe = "const wide = document.documentElement.clientWidth, out = [];\
            for (const e of document.querySelectorAll('main *')) {\
              if (e.closest('figure, caption, thead, svg')) continue;\
              const box = e.getBoundingClientRect();\
              if (box.width > 0 && (box.right > wide + 1 || box.left < -1)) out.push(e.tagName + ' ' + e.className);\
            }\
            parent.postMessage(wide + ' ' + document.documentElement.scrollWidth + ' boxes outside: ' + out.join(', '), '*');";
        let expected: Vec<_> = widths.iter().map(|width| format!("{width} {width} boxes outside:")).collect();
        assert_eq!(self.said(page, widths, probe), expected, "{}", page.display());
    }

    /// What a script in a page posts to its parent, for each width. Narrower than a window can be: in frames.
    fn said(&self, page: &Path, widths: &[u32], script: &str) -> Vec<String> {
        let probe = format!("<script>{script}</script></body>");
        let text = fs::read_to_string(page).expect("a page");
        fs::write(self.file("probe.html"), text.replace(POLICY, "").replace("</body>", &probe)).expect("a file");
        let frames: String = widths
            .iter()
            .map(|width| format!("<iframe src=\"probe.html\" width=\"{width}\" height=\"800\"></iframe>"))
            .collect();
        let both = format!(
            "<!doctype html><body><script>const said = []; onmessage = e => {{\
               said[Array.from(frames).indexOf(e.source)] = e.data;\
               if (Object.keys(said).length == {}) document.body.textContent = 'said: ' + said.join('; then ')\
             }}</script>{frames}",
            widths.len()
        );
        let said = text_of(&self.dom_of(&both));
        let said = said.trim().strip_prefix("said: ").unwrap_or_else(|| panic!("no frame has answered: {said}"));
        said.split("; then ").map(|one| one.trim().to_owned()).collect()
    }

    /// The page forbids scripts, its own as well: what is read and painted here is without them.
    fn runs_no_script(&self, page: &Path) {
        let text = fs::read_to_string(page).expect("a page");
        let script = "<script>document.body.textContent = 'a script ran'</script></body>";
        let [with_script, allowed] =
            [text.replace("</body>", script), text.replace("</body>", script).replace(POLICY, "")];
        let still = self.dom_of(&with_script);
        assert!(text_of(&self.dom_of(&allowed)).ends_with("a script ran"), "a script would have shown");
        let dom = self.dom(page);
        for (id, _) in PARTS {
            let [text, still] = [&dom, &still].map(|dom| text_of(part(dom, id)));
            assert_eq!(text, still, "a script ran");
        }
    }

    /// Each picture shows something, and none what another shows.
    fn pictures(&self, page: &Path, kinds: &[(&str, u32, &str)]) {
        let pictures: Vec<_> =
            kinds.iter().map(|(kind, width, settings)| self.picture(page, kind, *width, settings)).collect();
        for (index, picture) in pictures.iter().enumerate() {
            assert!(
                picture.starts_with(b"\x89PNG") && picture.len() > BLANK,
                "nothing is painted: {} bytes",
                picture.len()
            );
            assert!(!pictures[..index].contains(picture), "picture {index} looks like another");
        }
    }

    /// All that holds for every page.
    fn check(&self, page: &Path) -> String {
        let text = fs::read_to_string(page).expect("a page");
        assert!(text.contains(POLICY));
        let dom = self.dom(page);
        for (id, heading) in PARTS {
            let text = text_of(part(&dom, id));
            assert!(text.starts_with(heading) && text.len() > heading.len() + 15, "{id}: {text}");
        }
        self.nothing_is_cut_off(page, &[360, 390, 1400]);
        self.pictures(page, &[("wide", 1400, LIGHT), ("narrow-dark", 500, DARK)]);
        dom
    }
}

fn write(browser: &Browser, name: &str, report: Report) -> PathBuf {
    let file = browser.file(name);
    fs::write(&file, html(&[ReportOrList::Report(Box::new(report))]).expect("a page")).expect("a file");
    file
}

/// What `check` asks for could be missing.
#[test]
fn a_blank_page_has_a_small_picture() {
    let Some(browser) = Browser::new("a_blank_page_has_a_small_picture") else {
        return;
    };
    let file = browser.file("blank.html");
    fs::write(&file, "<!doctype html><title>blank</title>").expect("a file");
    let blank = browser.picture(&file, "wide", 1200, LIGHT);
    assert!(blank.starts_with(b"\x89PNG") && blank.len() < BLANK, "{} bytes", blank.len());
}

#[test]
fn a_replay_is_drawn() {
    let Some(browser) = Browser::new("a_replay_is_drawn") else {
        return;
    };
    let page = browser.file("replay.html");
    let done =
        Child::new(STEWARD).args([Path::new("replay"), Path::new(TRACES[0].name), Path::new("--html"), &page]).run();
    done.assert_code(0);
    let dom = browser.check(&page);
    let contexts = part(&dom, "contexts");
    assert!(contexts.matches("<tr").count() > 15 && contexts.contains("VkCommandPool"), "{contexts}");
    assert!(part(&dom, "timeline").matches("<polygon").count() >= 3);
    assert!(text_of(part(&dom, "timeline")).contains("1 instance"), "phases are numbered as in the drawing");
    assert!(text_of(part(&dom, "coverage")).contains("A trace holds callbacks only"));
    assert!(text_of(part(&dom, "leftovers")).contains("every block was freed"));
}

#[test]
fn an_empty_report_says_so_in_every_part() {
    let Some(browser) = Browser::new("an_empty_report_says_so_in_every_part") else {
        return;
    };
    let page = write(&browser, "empty.html", empty());
    let dom = browser.check(&page);
    for (id, said) in [
        ("contexts", "nothing to list: no phase ran"),
        ("timeline", "no phase ran"),
        ("coverage", "A trace holds callbacks only"),
        ("leftovers", "every block was freed"),
    ] {
        assert!(text_of(part(&dom, id)).contains(said), "{id}: {}", text_of(part(&dom, id)));
    }
    assert!(!dom.contains("<svg"));
}

#[test]
fn findings_coverage_and_leftovers_are_drawn_and_names_stay_text() {
    let Some(browser) = Browser::new("findings_coverage_and_leftovers_are_drawn_and_names_stay_text") else {
        return;
    };
    let mut report = full(&TRACES[0]);
    let name = "</svg><script>document.title = 'taken'</script><img src=x>";
    report.contexts.iter_mut().for_each(|row| row.name = name.into());
    report.findings[0].sentence = name.into();
    let page = write(&browser, "full.html", report);
    let dom = browser.check(&page);
    browser.runs_no_script(&page);
    browser.pictures(
        &page,
        &[("wide", 1400, LIGHT), ("narrow", 500, LIGHT), ("dark", 1400, DARK), ("narrow-dark", 500, DARK)],
    );
    assert!(!dom.contains("<script") && !dom.contains("<img") && !dom.contains("<title>taken"), "{dom}");
    assert!(text_of(part(&dom, "contexts")).contains(name), "shown as it is");
    assert_eq!(part(&dom, "coverage").matches("<rect").count(), 6, "three terms with the loader, three without");
    for (id, said) in [("findings", "12\u{202f}345"), ("coverage", "20.0 %"), ("leftovers", "VkBuffer")] {
        assert!(text_of(part(&dom, id)).contains(said), "{id}: {}", text_of(part(&dom, id)));
    }
}

#[test]
fn a_live_run_is_drawn() {
    let Some(browser) = Browser::new("a_live_run_is_drawn") else {
        return;
    };
    let page = browser.file("live.html");
    let arguments = [Path::new("drive"), Path::new("--driver"), Path::new("lavapipe"), Path::new("--html"), &page];
    let done = Child::new(STEWARD).args(arguments).run();
    if done.code == Some(2) {
        return skip("lavapipe", "a_live_run_is_drawn", done.stderr.lines().next().unwrap_or_default());
    }
    done.assert_code(0);
    let dom = browser.check(&page);
    assert!(dom.contains("<h1>llvmpipe "), "the driver is named");
    let contexts = part(&dom, "contexts");
    assert!(contexts.contains("VkInstance") && contexts.matches("<tr").count() > 15, "{contexts}");
    assert!(part(&dom, "timeline").matches("<polygon").count() >= 3);
    assert!(text_of(part(&dom, "findings")).contains("vkQueueSubmit"), "what lavapipe does wrong");
}

/// SwiftShader never frees the block of a descriptor update template: the page of a check says that first, with where
/// it comes from.
#[test]
fn the_page_of_a_check_leads_with_swiftshaders_leak_its_stack_growth_and_rule() {
    let test = "the_page_of_a_check_leads_with_swiftshaders_leak_its_stack_growth_and_rule";
    let Some(browser) = Browser::new(test) else {
        return;
    };
    let Some(manifest) = testkit::swiftshader() else {
        return skip("swiftshader", test, "STEWARD_SWIFTSHADER names none");
    };
    let page = browser.file("check.html");
    let done = Child::new(STEWARD)
        .args(["check", "--driver", "swiftshader", "--rounds", "3"])
        .args([Path::new("--html"), &page])
        .env("VK_ADD_DRIVER_FILES", manifest)
        .limit(Duration::from_secs(120))
        .run();
    if done.code == Some(2) {
        return skip("swiftshader", test, done.stderr.lines().next().unwrap_or_default());
    }
    let dom = browser.check(&page);
    let first = dom.find("<section ").expect("a part");
    assert!(dom[first..].starts_with("<section id=\"leftovers\">"), "leaks come first");
    let leftovers = text_of(part(&dom, "leftovers"));
    for said in [
        "V41 vkCreateDescriptorUpdateTemplate: 3 blocks of VkDescriptorUpdateTemplate",
        "Grows: +1 block (",
        ") a round, in 2 of 2",
        "Oldest: ",
        " bytes for 0x",
        "libvk_swiftshader.so",
    ] {
        assert!(leftovers.contains(said), "{said}: {leftovers}");
    }
    assert!(part(&dom, "leftovers").contains("<details open=\"\"><summary>Call stack"), "the stack is shown unfolded");
    let check = text_of(part(&dom, "check"));
    let expected = if done.code == Some(0) { "Everything is as expected." } else { "Not as expected." };
    assert!(check.contains(expected), "{check}");
    assert!(text_of(&dom).contains("Check as expected") == (done.code == Some(0)));
}

/// Below each context: what is folded is there, and a reader without a mouse reaches it.
#[test]
fn what_lies_below_a_context_unfolds_to_its_call_stacks() {
    let test = "what_lies_below_a_context_unfolds_to_its_call_stacks";
    let Some(browser) = Browser::new(test) else {
        return;
    };
    let page = browser.file("drill.html");
    let done = Child::new(STEWARD)
        .args(["drive", "--driver", "reference", "--no-coverage"])
        .args([Path::new("--html"), &page])
        .run();
    done.assert_code(0);
    let dom = browser.check(&page);
    let contexts = part(&dom, "contexts");
    let drill = &contexts[contexts.find("class=\"drill\"").expect("a list")..];
    let text = text_of(drill);
    for said in ["VkDevice", "vkCreateDevice", "blocks up to ", "reference_driver::"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(drill.matches("<summary").count() > 30, "{drill}");
    // Folded parts need no room; all unfolded, nothing stands out of the page either.
    let unfolded = browser.file("unfolded.html");
    let text = fs::read_to_string(&page).expect("a page");
    fs::write(&unfolded, text.replace("<details>", "<details open>")).expect("a file");
    browser.nothing_is_cut_off(&unfolded, &[360, 1400]);
    let scopes = ["instance", "device", "cache", "object", "command"];
    for scope in scopes {
        assert!(!drill.contains(&format!("class=\"key {scope}")), "colours mean scopes");
    }
}

/// The numbers of a point of a drawing, `x,y`.
fn point(text: &str) -> (f64, f64) {
    let (x, y) = text.split_once(',').expect("two numbers");
    (x.parse().expect("x"), y.parse().expect("y"))
}

/// The lowest of all `y` of the polygons in a part of a page.
fn highest(part: &str) -> f64 {
    let polygons = part.split("points=\"").skip(1);
    let points = polygons.flat_map(|rest| rest.split('"').next().unwrap_or_default().split(' '));
    points.map(|text| point(text).1).fold(f64::INFINITY, f64::min)
}

#[test]
fn a_programs_device_memory_and_courses_are_drawn_with_the_reports_numbers() {
    let test = "a_programs_device_memory_and_courses_are_drawn_with_the_reports_numbers";
    let Some(browser) = Browser::new(test) else {
        return;
    };
    let Some(client) = crate::ended::client(test) else {
        return;
    };
    let [page, json] = ["program.html", "program.json"].map(|name| browser.file(name));
    let client = client.to_str().expect("a name");
    let script = format!("{client} serve memory & sleep 1; kill $!; wait");
    let options = [Path::new("--html"), &page, Path::new("--json"), &json];
    let done = crate::run::steward(&["run"]).args(options).args(["--", "sh", "-c", &script]).run();
    done.assert_code(0);
    let report = crate::run::json(&json);
    let report = match &report {
        Value::Array(several) => &several[0],
        one => one,
    };
    let dom = browser.check(&page);

    let heap = &report["vulkan_memory"][0]["heaps"][0];
    let number = |of: &Value| of.as_u64().expect("a number");
    assert_eq!(number(&heap["peak_bytes"]), 5 << 20, "{heap}");
    let size = vk_report::units::bytes(number(&heap["size"]));
    let script = "const tiles = [...document.querySelectorAll('.figures div')];\
        const tile = tiles.find(tile => tile.querySelector('dt').textContent == 'Device memory');\
        const box = tile.getBoundingClientRect();\
        const small = [...document.querySelectorAll('svg text')]\
            .filter(text => text.getBoundingClientRect().height < 10).map(text => text.textContent);\
        parent.postMessage(tile.innerText.replace(/\\s+/g, ' ') + '; in sight: ' + (box.width > 100 && box.right <= innerWidth)\
            + '; small letters: ' + small, '*');";
    let expected = format!("Device memory 5.00 MiB heap 0: at most 5.00 MiB of {size}; in sight: true; small letters:");
    assert_eq!(browser.said(&page, &[390, 1400], script), [&*expected, &*expected]);

    let timeline = part(&dom, "timeline");
    let (large, small) = timeline.split_once("class=\"small\"").expect("drawings");
    let by_scope = |sample: &Value| -> u64 {
        let scopes = sample["live_by_scope"].as_object().expect("scopes");
        scopes.values().map(number).sum()
    };
    let samples = report["timeline"].as_array().expect("samples");
    let most = samples.iter().map(by_scope).max().expect("samples") as f64;
    let phases = report["phases"].as_array().expect("phases").iter();
    let peak = phases.map(|phase| number(&phase["peak_bytes"])).max();
    // The plot's height is 300 below 22, and the highest peak leaves 8 % above.
    let expected = 22.0 + 300.0 * (1.0 - most / (peak.expect("phases") as f64 * 1.08));
    assert!((highest(large) - expected).abs() < 0.01, "{expected}: {large}");
    let courses = &report["program"]["courses"];
    let rows = courses["rows"].as_array().expect("rows");
    assert!(courses["at"].as_array().is_some_and(|at| at.len() > 30), "{courses}");
    let drawn: Vec<_> = small.split("<figure").skip(1).collect();
    assert_eq!(drawn.len(), rows.len().min(12), "{small}");
    for one in &drawn {
        let (caption, _) = one.split_once("</figcaption>").expect("its end");
        let caption = text_of(&caption[caption.find('>').expect("its end") + 1..]);
        let (name, bytes) = caption.split_once(": at most ").expect("its peak");
        let row = rows.iter().find(|row| row["name"] == name).expect("a row");
        let live = row["live_bytes"].as_array().expect("numbers");
        let peak = live.iter().map(number).max().expect("numbers");
        assert_eq!(bytes.trim(), vk_report::units::bytes(peak), "{name}");
        assert!(highest(one).abs() < 0.01, "{name} reaches the top: {one}");
    }
    assert!(drawn[0].contains("heap 0: at most 5.00 MiB"), "{small}");
}
