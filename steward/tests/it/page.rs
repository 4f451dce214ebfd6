//! The page as text: all parts, nothing from outside, nothing of what drivers say as markup, every number as in the
//! report.

mod limits;
mod memory;
mod names;
mod several;

use crate::support::full_report::{empty, full, of_program, of_trace};
use crate::support::parts::{PARTS, part, text_of};
use vk_report::report::{
    ByScope, Growth, KnownFindings, LeakCount, LeakFrame, LeakObject, LeakStack, Leaks, Phase, Report, Source,
    VulkanMemory, VulkanMemoryRow,
};
use vk_steward::replay::bundled::TRACES;
use vk_steward::report::{ReportOrList, html};

fn page(report: &Report) -> String {
    html(&[ReportOrList::Report(Box::new(report.clone()))]).expect("a page")
}

#[test]
fn all_five_parts_are_there_and_say_something() {
    let mut reports: Vec<_> = TRACES.iter().map(of_trace).collect();
    reports.extend([full(&TRACES[0]), empty()]);
    for report in reports {
        let page = page(&report);
        for (id, heading) in PARTS {
            let part = part(&page, id);
            assert!(part.contains(&format!("<h2>{heading}</h2>")), "{part}");
            let text = text_of(part);
            assert!(text.len() > heading.len() + 15, "{id} is empty: {text}");
        }
        let drawn = !report.phases.is_empty();
        assert_eq!(part(&page, "contexts").contains("<table"), drawn);
        assert_eq!(part(&page, "timeline").contains("<polygon"), drawn);
        assert_eq!(text_of(part(&page, "contexts")).contains("nothing to list"), !drawn);
    }
}

/// A name that does not fit is in the table by its number.
#[test]
fn the_numbers_of_many_phases_do_not_run_into_each_other() {
    let mut report = full(&TRACES[0]);
    let phase = Phase { live_bytes: 0, live_by_scope: ByScope::default(), ..report.phases[0].clone() };
    report.phases = (0..60).map(|nth| Phase { name: format!("a long name {nth}"), ..phase.clone() }).collect();
    report.timeline.clear();
    let page = page(&report);
    let places = part(&page, "timeline").split("<text class=\"number\" x=\"").skip(1);
    let places: Vec<f64> = places.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect();
    assert!(places.len() > 20 && places.windows(2).all(|two| two[1] - two[0] >= 16.9), "{places:?}");
    assert!(text_of(part(&page, "contexts")).contains("No context held anything at the end of any phase"));
}

#[test]
fn a_page_is_one_file_and_small() {
    for report in TRACES.iter().map(of_trace).chain([full(&TRACES[0])]) {
        let page = page(&report);
        assert!(page.len() < 1_000_000, "{} bytes", page.len());
        for outside in [
            "http:",
            "https:",
            "src=",
            "url(",
            "@import",
            "<script",
            "<link",
            "<img",
            "<iframe",
            "javascript:",
            "onload",
        ] {
            assert!(!page.contains(outside), "{outside}");
        }
        let links = page.match_indices("href=\"").map(|(at, _)| &page[at + 6..at + 7]);
        assert!(links.clone().count() >= 5 && links.into_iter().all(|first| first == "#"), "links stay on the page");
        assert!(page.contains("default-src 'none'"), "and the page says so itself");
    }
}

#[test]
fn tables_hold_the_exact_numbers() {
    let report = full(&TRACES[0]);
    let page = page(&report);
    let grouped = |number: u64| {
        let digits: Vec<char> = number.to_string().chars().collect();
        digits.rchunks(3).rev().map(|three| three.iter().collect::<String>()).collect::<Vec<_>>().join("\u{202f}")
    };
    let contexts = text_of(part(&page, "contexts"));
    for row in report.contexts.iter().filter(|row| row.total_blocks > 0) {
        for number in
            [row.live_bytes, row.peak_bytes, row.total_blocks, row.total_bytes].into_iter().filter(|number| *number > 0)
        {
            assert!(contexts.contains(&grouped(number)), "{} of {}", number, row.name);
        }
    }
    let phases = text_of(part(&page, "timeline"));
    for phase in &report.phases {
        assert!(phases.contains(&phase.name) && phases.contains(&grouped(phase.peak_bytes)), "{}", phase.name);
    }
    let findings = text_of(part(&page, "findings"));
    let places: Vec<_> =
        ["violation", "suspect", "note"].map(|level| findings.rfind(&format!("{level} V")).expect(level)).into();
    assert!(places.is_sorted(), "the worst first: {findings}");
    for said in
        ["V22", "what V22 is about", "VkFence", "vkQueueSubmit", "object", &grouped(12_345), &grouped(1_234_500)]
    {
        assert!(findings.contains(said), "{said}: {findings}");
    }
    let coverage = text_of(part(&page, "coverage"));
    for said in
        ["20.0 %", "10.0 %", "3.90 KiB through callbacks", "15.6 KiB past them", &grouped(12_000), &grouped(32_000)]
    {
        assert!(coverage.contains(said), "{said}: {coverage}");
    }
    assert!(text_of(part(&page, "leftovers")).contains("VkBuffer"), "leftovers");
    let guard = text_of(part(&page, "guard"));
    for said in [
        "fence, with guard-markers",
        "guarded = callback blocks = 654321",
        "an overflow",
        "of a block",
        "nth=3",
        "vkCreateImage",
    ] {
        assert!(guard.contains(said), "{said}: {guard}");
    }
}

/// What a reader looks for first comes first, and says why.
#[test]
fn causes_come_before_the_tree_and_say_rule_place_and_reason() {
    let mut report = full(&TRACES[0]);
    let Source::Driver { name, version, .. } = &mut report.source else { panic!("of a driver") };
    (*name, *version) = ("llvmpipe".into(), "Mesa 22.3.6".into());
    report.known_findings = None;
    report.findings[1].kind = "CacheAsObject".into();
    report.findings[1].rule = "V29".into();
    report.findings[1].owner = "VkPipelineCache".into();
    report.findings[1].command = "vkCreatePipelineCache".into();
    report.leaks = Some(Leaks {
        mark: "vkQueueSubmit".into(),
        frames_a_mark: 1,
        intervals: 10,
        stacks: vec![LeakStack {
            command: "vkCreateBuffer".into(),
            kind: "VkBuffer".into(),
            objects: LeakCount {
                live: 1000,
                bytes: 4_096_000,
                total: 1000,
                growth: Growth { count: 10, bytes: 40_960, grew: 10, shrank: 0 },
            },
            oldest: vec![LeakObject { handle: "0x2a".into(), bytes: 4096, name: "vertices of frame 0".into() }],
            frames: vec![LeakFrame { functions: vec!["leaky::draw".into()], ..LeakFrame::default() }],
            ..LeakStack::default()
        }],
        ..Leaks::default()
    });
    let page = page(&report);
    let places: Vec<_> = ["leftovers", "findings", "guard", "contexts", "timeline"]
        .map(|id| page.find(&format!("<section id=\"{id}\">")).expect(id))
        .into();
    assert!(places.is_sorted(), "{places:?}");
    let leaks = text_of(part(&page, "leftovers"));
    for said in [
        "vkCreateBuffer: 1000 of 1000 VkBuffer alive (3.90 MiB)",
        "Grows: +1 VkBuffer (4.00 KiB) a frame, in 10 of 10",
        "0x2a \"vertices of frame 0\"",
        "leaky::draw",
    ] {
        assert!(leaks.contains(said), "{said}: {leaks}");
    }
    let findings = text_of(part(&page, "findings"));
    let rule = vk_callbacks::Rule::of(29).expect("a rule");
    for said in [
        rule.text,
        rule.reference,
        "Known cause. lvp_pipeline_cache.c, lvp_CreatePipelineCache",
        "Not known of this driver.",
        "1 of 2 are not known of lavapipe-22.3.",
        "1 note",
    ] {
        assert!(findings.contains(said), "{said}: {findings}");
    }
    // A saved report may have the numbers, and no cause at its rows.
    report.known_findings = Some(KnownFindings { expectations: "lavapipe-22.3".into(), known: 1, unknown: 1 });
    let saved = self::page(&report);
    assert_eq!(text_of(part(&saved, "findings")), findings);
    // Nothing is claimed of a driver that no file is about.
    let mut other = full(&TRACES[0]);
    other.known_findings = None;
    let other = self::page(&other);
    let other = text_of(part(&other, "findings"));
    assert!(!other.contains("known"), "{other}");
}

#[test]
fn rounds_are_folded() {
    let mut report = full(&TRACES[0]);
    let phase = |name: &str, object| Phase {
        name: name.into(),
        commands: 1,
        live_bytes: object,
        live_by_scope: ByScope { object, ..ByScope::default() },
        ..Phase::default()
    };
    report.phases = vec![phase("device", 0)];
    for round in 1..=200 {
        report.phases.push(phase("use", 1 << 20));
        let left = if round < 200 { 112 * round } else { 0 };
        report.phases.push(phase("teardown", left));
    }
    report.timeline.clear();
    let page = page(&report);
    let timeline = part(&page, "timeline");
    assert_eq!(timeline.matches("<rect class=\"over\"").count(), 8, "later rounds are one phase of the drawing");
    let text = text_of(timeline);
    for said in ["8 #4 to #200", "The phases of each round", "101 more are left out here"] {
        assert!(text.contains(said), "{said}");
    }
    assert_eq!(timeline.matches("class=\"name\"").count(), 8, "each has its name below the drawing");
}

/// A colour that means a scope means nothing else.
#[test]
fn scopes_have_their_colours_for_themselves() {
    let css = include_str!("../../templates/page.css");
    let value = |name: &str| {
        let behind = css.split(&format!("--{name}: ")).nth(1).expect(name);
        behind.split(';').next().expect("an end").to_owned()
    };
    for scope in ["instance", "device", "cache", "object", "command"] {
        let colour = value(scope);
        assert!(colour.starts_with('#') && colour.len() == 7, "{colour}");
        assert_eq!(css.matches(&colour).count(), 1, "{scope}: {colour}");
        let used = css.matches(&format!("var(--{scope})")).count();
        assert_eq!(used, 1, "{scope} colours its own class alone");
    }
}

/// The tiles at the head of the page.
fn tile(page: &str, name: &str) -> Option<(bool, String)> {
    let (before, behind) = page.split_once(&format!("><dt>{name}</dt>"))?;
    let is_bad = before.ends_with("<div class=\"bad\"");
    let (tile, _) = behind.split_once("</div>").expect("its end");
    Some((is_bad, text_of(tile)))
}

#[test]
fn the_head_has_the_device_memory_that_a_program_left_behind() {
    let name = "Device memory left behind";
    let mut report = of_program();
    report.vulkan_memory = Some(Vec::new());
    let (is_bad, text) = tile(&page(&report), name).expect("a tile");
    assert!(!is_bad && text.contains("nothing"), "{text}");
    let row = |index, live_blocks, live_bytes| VulkanMemoryRow {
        index,
        live_blocks,
        live_bytes,
        ..VulkanMemoryRow::default()
    };
    let device = VulkanMemory {
        device: "instance 1, device 1".into(),
        heaps: vec![row(0, 2, 5 << 20), row(1, 0, 0), row(2, 1, 1 << 20)],
        types: vec![row(0, 2, 5 << 20), row(7, 1, 1 << 20)],
        ..VulkanMemory::default()
    };
    // Of a type whose heap is not known.
    let other = VulkanMemory {
        device: "instance 1, device 2".into(),
        types: vec![row(0, 1, 2 << 20)],
        ..VulkanMemory::default()
    };
    report.vulkan_memory = Some(vec![device, other]);
    let (is_bad, text) = tile(&page(&report), name).expect("a tile");
    assert!(is_bad, "in red");
    assert!(text.contains("8.00 MiB") && text.contains("4 blocks"), "{text}");
    // Only a program's report knows it.
    assert_eq!(tile(&page(&empty()), name), None);
}

#[test]
fn the_head_has_each_heap_of_device_memory_with_its_peak_and_size() {
    let name = "Device memory";
    let mut report = of_program();
    report.vulkan_memory = Some(Vec::new());
    assert_eq!(tile(&page(&report), name), None, "nothing was allocated");
    let heap = |index, peak_bytes, size| VulkanMemoryRow { index, peak_bytes, size, ..VulkanMemoryRow::default() };
    let device = VulkanMemory {
        device: "instance 1, device 1".into(),
        heaps: vec![heap(0, 3 << 20, 0), heap(2, 5 << 20, 1 << 30)],
        ..VulkanMemory::default()
    };
    report.vulkan_memory = Some(vec![device.clone()]);
    let (is_bad, text) = tile(&page(&report), name).expect("a tile");
    assert!(!is_bad);
    assert_eq!(text, "5.00 MiB heap 2: at most 5.00 MiB of 1.00 GiB heap 0: at most 3.00 MiB");
    let other = VulkanMemory {
        device: "instance 1, device 2".into(),
        heaps: vec![heap(0, 9 << 20, 0)],
        ..VulkanMemory::default()
    };
    report.vulkan_memory = Some(vec![device, other]);
    let (_, text) = tile(&page(&report), name).expect("a tile");
    let first = "9.00 MiB heap 0 of instance 1, device 2: at most 9.00 MiB";
    assert!(text.starts_with(first), "{text}");
    report.vulkan_memory.as_mut().expect("two")[0].heaps[1].budget = 800 << 20;
    let (_, text) = tile(&page(&report), name).expect("a tile");
    let budget = "at most 5.00 MiB of 1.00 GiB, budget 800 MiB heap";
    assert!(text.contains(budget), "{text}");
}

/// Each by its own scale, heaps first.
#[test]
fn kinds_and_heaps_are_drawn_over_time() {
    let mut report = of_program();
    report.phases = full(&TRACES[0]).phases;
    let page = page(&report);
    let timeline = part(&page, "timeline");
    let (_, small) = timeline.split_once("class=\"small\"").expect("drawings");
    let heap = "heap 0: at most 1.00 MiB";
    let kind = "VkBuffer: at most 4.00 KiB";
    assert!(small.find(heap) < small.find(kind), "{small}");
    for points in ["0,60 0,0 75,60 300,60 300,60", "0,60 0,60 75,0 300,45 300,60"] {
        assert!(small.contains(&format!("points=\"{points}\"")), "{small}");
    }
    let program = report.program.as_mut().expect("a program");
    program.courses.rows.clear();
    assert!(!self::page(&report).contains("class=\"small\""));
}

/// A leak in a frame of two submits, which falls into either half of the intervals.
#[test]
fn growth_is_marked_by_one_rule_and_both_forms_list_the_same() {
    let count = |live, bytes, grew| LeakCount {
        live,
        bytes,
        total: live,
        growth: Growth { count: i64::try_from(live).expect("few"), grew, ..Growth::default() },
    };
    let stack = |command: &str, kind: &str, objects, blocks| LeakStack {
        command: command.into(),
        kind: kind.into(),
        objects,
        blocks,
        ..LeakStack::default()
    };
    let mut report = of_program();
    let mut leaks = Leaks {
        mark: "vkQueueSubmit".into(),
        frames_a_mark: 1,
        intervals: 189,
        stacks: vec![
            stack("vkCreateImage", "VkImage", count(94, 0, 94), count(94, 9400, 94)),
            stack("vkCreateBuffer", "VkBuffer", count(95, 950, 95), LeakCount::default()),
            stack("vkCreateFence", "VkFence", count(3, 0, 1), LeakCount::default()),
        ],
        ..Leaks::default()
    };
    leaks.sort();
    let text = leaks.to_string();
    report.leaks = Some(leaks);
    let page = page(&report);
    let left = part(&page, "leftovers");
    let marked = "class=\"cause bad\"><strong>Grows:";
    assert_eq!(left.matches(marked).count(), 2, "{left}");
    let left = text_of(left);
    for (command, rest) in [
        ("vkCreateImage", "94 of 94 VkImage alive, 94 block"),
        ("vkCreateBuffer", "95 of 95 VkBuffer alive (950 B)"),
        ("vkCreateFence", "3 of 3 VkFence alive"),
    ] {
        let said = format!("{command}: {rest}");
        assert!(left.contains(&said) && text.contains(&said), "{said}: {left} {text}");
    }
    assert!(!left.contains("(0 B)") && !text.contains("(0 B)"), "{left} {text}");
}
