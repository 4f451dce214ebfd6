//! The page as text: all parts, nothing from outside, nothing of what drivers say as markup, every number as in the report.

use crate::support::full_report::{empty, full, of_trace};
use crate::support::parts::{PARTS, part, text_of};
use vk_accounts::report::{
    ByScope, Growth, LeakCount, LeakFrame, LeakObject, LeakStack, Leaks, Phase, Report, Sample,
    Source,
};
use vk_steward::bundled::TRACES;
use vk_steward::report::{Failed, ReportOrList, html};

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
        assert_eq!(part(&page, "treemap").contains("<svg"), drawn);
        assert_eq!(part(&page, "timeline").contains("<polygon"), drawn);
        assert_eq!(
            text_of(part(&page, "treemap")).contains("nothing to draw"),
            !drawn
        );
    }
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
        let links = page
            .match_indices("href=\"")
            .map(|(at, _)| &page[at + 6..at + 7]);
        assert!(
            links.clone().count() >= 5 && links.into_iter().all(|first| first == "#"),
            "links stay on the page"
        );
        assert!(
            page.contains("default-src 'none'"),
            "and the page says so itself"
        );
    }
}

/// Everything that a driver or a file can name.
fn with_names(mut report: Report, name: &str) -> Report {
    report.source = Source::Driver {
        name: name.into(),
        version: name.into(),
        device: name.into(),
        seed: 1,
        rounds: 1,
        commands: 1,
        comparisons: 1,
        objects: Vec::new(),
    };
    report
        .contexts
        .iter_mut()
        .for_each(|row| row.name = name.into());
    report
        .phases
        .iter_mut()
        .for_each(|row| row.name = name.into());
    report
        .leftovers
        .iter_mut()
        .for_each(|row| row.context = name.into());
    for row in &mut report.findings {
        for text in [
            &mut row.rule,
            &mut row.kind,
            &mut row.level,
            &mut row.sentence,
            &mut row.owner,
            &mut row.command,
            &mut row.scope,
        ] {
            *text = name.into();
        }
    }
    if let Some(guard) = &mut report.guard {
        (guard.mode, guard.back_end, guard.not_offered) =
            (name.into(), name.into(), vec![name.into()]);
        for told in &mut guard.told {
            (told.kind, told.text) = (name.into(), format!("{name}\n{name}"));
        }
    }
    for block in report
        .device_memory
        .iter_mut()
        .flat_map(|memory| &mut memory.blocks)
    {
        (block.properties, block.content) = (name.into(), name.into());
        for range in &mut block.ranges {
            (range.name, range.placement) = (name.into(), name.into());
            range
                .crops
                .iter_mut()
                .for_each(|crop| crop.name = name.into());
        }
    }
    if let Some(fail) = &mut report.fail {
        (fail.plan, fail.ended) = (name.into(), Some(name.into()));
        for first in &mut fail.first {
            (first.command, first.owner, first.scope) = (name.into(), name.into(), name.into());
        }
    }
    report.limits = vec![name.into()];
    report.fullest_phase = name.into();
    report.peak_phase = name.into();
    report
}

#[test]
fn names_are_no_markup() {
    let bad = "</title></style><script>alert(1)</script><b onclick='x' id=\"y\">&amp;\u{202e}\u{7}";
    let mut hostile = with_names(full(&TRACES[0]), bad);
    let shown = page(&hostile);
    hostile.honour.as_mut().expect("there is one").absent = Some(bad.into());
    let absent = page(&hostile);
    let failed = Failed {
        format: Report::FORMAT.into(),
        driver: bad.into(),
        error: bad.into(),
    };
    let failed = html(&[
        ReportOrList::Failed(failed.clone()),
        ReportOrList::Failed(failed),
    ])
    .expect("a page");
    hostile.source = Source::Trace {
        file: bad.into(),
        driver: bad.into(),
        no_driver: Some(bad.into()),
        lines: 1,
    };
    for page in [shown, absent, failed, page(&hostile)] {
        for markup in [
            "<script",
            "<b ",
            "</b>",
            "onclick='",
            "id=\"y\"",
            "&amp;amp;amp;",
            "\u{202e}",
            "\u{7}",
        ] {
            assert!(!page.contains(markup), "{markup:?}");
        }
        assert_eq!(
            (
                page.matches("</style>").count(),
                page.matches("</title>").count() - page.matches("<title>").count()
            ),
            (1, 0)
        );
        assert!(
            text_of(&page)
                .contains("</title></style><script>alert(1)</script><b onclick='x' id=\"y\">&amp;"),
            "shown as it is"
        );
    }
}

#[test]
fn tables_hold_the_exact_numbers() {
    let report = full(&TRACES[0]);
    let page = page(&report);
    let grouped = |number: u64| {
        let digits: Vec<char> = number.to_string().chars().collect();
        digits
            .rchunks(3)
            .rev()
            .map(|three| three.iter().collect::<String>())
            .collect::<Vec<_>>()
            .join("\u{202f}")
    };
    let contexts = text_of(part(&page, "treemap"));
    for row in report.contexts.iter().filter(|row| row.total_blocks > 0) {
        for number in [
            row.live_bytes,
            row.peak_bytes,
            row.total_blocks,
            row.total_bytes,
        ]
        .into_iter()
        .filter(|number| *number > 0)
        {
            assert!(
                contexts.contains(&grouped(number)),
                "{} of {}",
                number,
                row.name
            );
        }
    }
    let phases = text_of(part(&page, "timeline"));
    for phase in &report.phases {
        assert!(
            phases.contains(&phase.name) && phases.contains(&grouped(phase.peak_bytes)),
            "{}",
            phase.name
        );
    }
    let findings = text_of(part(&page, "findings"));
    let places: Vec<_> = ["violation", "suspect", "note"]
        .map(|level| findings.rfind(&format!("{level} V")).expect(level))
        .into();
    assert!(places.is_sorted(), "the worst first: {findings}");
    for said in [
        "V22",
        "what V22 is about",
        "VkFence",
        "vkQueueSubmit",
        "object",
        &grouped(12_345),
        &grouped(1_234_500),
    ] {
        assert!(findings.contains(said), "{said}: {findings}");
    }
    let honour = text_of(part(&page, "honour"));
    for said in [
        "20.0 %",
        "10.0 %",
        "3.90 KiB through callbacks",
        "15.6 KiB past them",
        &grouped(12_000),
        &grouped(32_000),
    ] {
        assert!(honour.contains(said), "{said}: {honour}");
    }
    assert!(
        text_of(part(&page, "leftovers")).contains("VkBuffer"),
        "leftovers"
    );
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
    let Source::Driver { name, version, .. } = &mut report.source else {
        panic!("of a driver")
    };
    (*name, *version) = ("llvmpipe".into(), "Mesa 22.3.6".into());
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
                growth: Growth {
                    count: 10,
                    bytes: 40_960,
                    grew: 10,
                    shrank: 0,
                },
            },
            oldest: vec![LeakObject {
                handle: "0x2a".into(),
                bytes: 4096,
                name: "vertices of frame 0".into(),
            }],
            frames: vec![LeakFrame {
                functions: vec!["leaky::draw".into()],
                ..LeakFrame::default()
            }],
            ..LeakStack::default()
        }],
        ..Leaks::default()
    });
    let page = page(&report);
    let places: Vec<_> = ["leftovers", "findings", "guard", "treemap", "timeline"]
        .map(|id| page.find(&format!("<section id=\"{id}\">")).expect(id))
        .into();
    assert!(places.is_sorted(), "{places:?}");
    let leaks = text_of(part(&page, "leftovers"));
    for said in [
        "vkCreateBuffer: 1\u{202f}000 of 1\u{202f}000 VkBuffer alive (3.90 MiB)",
        "Grows: +1 VkBuffer (4.00 KiB) a frame, in 10 of 10",
        "0x2a \u{201c}vertices of frame 0\u{201d}",
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
    // Nothing is claimed of a driver that no file is about.
    let other = self::page(&full(&TRACES[0]));
    let other = text_of(part(&other, "findings"));
    assert!(!other.contains("known"), "{other}");
}

#[test]
fn rounds_are_folded_and_small_growth_is_a_row() {
    let mut report = full(&TRACES[0]);
    let phase = |name: &str, object| Phase {
        name: name.into(),
        commands: 1,
        live_bytes: object,
        live_by_scope: ByScope {
            object,
            ..ByScope::default()
        },
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
    assert_eq!(
        timeline.matches("<rect class=\"over\"").count(),
        201,
        "a round is one phase of the drawing"
    );
    let text = text_of(timeline);
    for said in [
        "201 round 200",
        "+22\u{202f}176, 112 a round",
        "The phases of each round",
        "101 more are left out here",
    ] {
        assert!(text.contains(said), "{said}");
    }
    let named = timeline.matches("class=\"slanted\"").count();
    assert!(
        (20..=60).contains(&named),
        "{named} names fit below the drawing"
    );
}

#[test]
fn several_drivers_stand_side_by_side() {
    let mut one = full(&TRACES[0]);
    one.peak_bytes = 3 << 20;
    let two = with_names(full(&TRACES[0]), "another");
    let all = [one, two].map(|report| ReportOrList::Report(Box::new(report)));
    let page = html(&all).expect("a page");
    let matrix = text_of(part(&page, "matrix"));
    for said in [
        "a driver 1.2 another another",
        "Peak 3.00 MiB",
        "violations 1 \u{2013}",
        "VkCommandPool",
    ] {
        assert!(matrix.contains(said), "{said}: {matrix}");
    }
    let alone = html(&all[..1]).expect("a page");
    assert!(
        !alone.contains("id=\"matrix\""),
        "one driver has nothing beside it"
    );
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

#[test]
fn a_programs_device_memory_is_on_its_page() {
    let page = page(&full(&TRACES[0]));
    let text = text_of(part(&page, "vulkan"));
    for said in [
        "instance 1, device 1; 1 blocks are counted nowhere",
        "heap 1 4\u{202f}096",
        "type 1",
        "8\u{202f}192",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn every_block_is_drawn_with_free_owned_wrapped_crops_and_padding() {
    let report = full(&TRACES[0]);
    let page = page(&report);
    let memory = part(&page, "memory");
    let blocks = &report.device_memory.as_ref().expect("there is some").blocks;
    assert_eq!(memory.matches("<figure>").count(), blocks.len());
    // The first block once more, larger: what it has lies in a fifteenth of it.
    assert_eq!(memory.matches("<svg").count(), blocks.len() + 1);
    for class in ["free", "owned", "wrapped", "crop", "padding", "spent"] {
        assert!(
            memory.contains(&format!("<g class=\"{class}\">"))
                && memory.contains(&format!("class=\"key {class}\"")),
            "{class}"
        );
    }
    let text = text_of(memory);
    for said in [
        "vertices: owned, 65\u{202f}440 bytes at 4\u{202f}096, general",
        "padding, 96 bytes at 69\u{202f}536",
        "a crop of it: crop, 1\u{202f}001 bytes at 12\u{202f}345 of its region",
        "the application's: wrapped, 9\u{202f}892 bytes at 12, wrapped",
        "left of a page or slab, 256 bytes",
        "block 2.1: type 0 DEVICE_LOCAL | HOST_VISIBLE, linear, 1.00 MiB",
        "2 regions of 64.3 KiB asked for and 192 B of padding; 1 wrapped, 1 crop; 4.45 KiB of host memory.",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    // Names and offsets are text as well: a drawing's are lost in print and on a phone.
    for row in [
        "vertices 4\u{202f}096 65\u{202f}440 96 general",
        "a crop of it +12\u{202f}345 1\u{202f}001",
    ] {
        assert!(text.contains(row), "{row}: {text}");
    }
    // Shapes of a strip lie side by side: their widths are its own.
    let strip = memory
        .split("<svg")
        .nth(1)
        .expect("a strip")
        .split("</svg>")
        .next()
        .expect("its end");
    let number = |of: &str, name: &str| {
        of.split(&format!("{name}=\""))
            .nth(1)?
            .split('"')
            .next()?
            .parse::<f64>()
            .ok()
    };
    let sides = strip
        .split("<g class=")
        .filter(|group| !group.starts_with("\"crop"))
        .filter_map(|group| number(group, " width"));
    let sum: f64 = sides.sum();
    assert!((sum - 1000.0).abs() < 5.0, "{sum}");
    let without = Report {
        device_memory: None,
        ..report
    };
    assert!(
        !self::page(&without).contains("id=\"memory\""),
        "nothing to draw, no part"
    );
}

#[test]
fn several_drivers_have_a_section_each() {
    let one = |name: &str| ReportOrList::Report(Box::new(with_names(full(&TRACES[0]), name)));
    let failed = Failed {
        format: Report::FORMAT.into(),
        driver: "third".into(),
        error: "it crashed".into(),
    };
    let page = html(&[one("first"), one("second"), ReportOrList::Failed(failed)]).expect("a page");
    let ids: Vec<&str> = page
        .match_indices(" id=\"")
        .filter_map(|(at, _)| page[at + 5..].split('"').next())
        .collect();
    let all = ids.len();
    assert_eq!(
        ids.into_iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        all,
        "an id is there once"
    );
    for (id, _) in PARTS {
        assert!(
            text_of(part(&page, id)).len() > 30
                && text_of(part(&page, &format!("driver-2-{id}"))).len() > 30
        );
    }
    assert!(text_of(&page).contains("There is no report: it crashed"));
    for (at, _) in page.match_indices("href=\"#") {
        let target = page[at + 7..].split('"').next().expect("a target");
        assert!(page.contains(&format!(" id=\"{target}\"")), "{target}");
    }
    assert!(text_of(&html(&[]).expect("a page")).contains("No driver was run"));
}

#[test]
fn many_phases_and_contexts_keep_the_page_small_and_what_is_left_out_is_said() {
    let mut report = full(&TRACES[0]);
    let context = report
        .contexts
        .iter()
        .find(|row| !row.group && row.live_bytes > 0)
        .expect("one that holds something")
        .clone();
    let phase = report.phases[1].clone();
    report.phases = vec![phase; 5_000];
    report.contexts = vec![context; 2_000];
    report.timeline = (0..10_000)
        .map(|at| Sample {
            at,
            phase: at as usize / 2,
            ..report.timeline[1]
        })
        .collect();
    let page = page(&report);
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    assert!(text_of(part(&page, "timeline")).contains("4700 more are left out here"));
    assert!(text_of(part(&page, "treemap")).contains("1700 more are left out here"));
}

/// Reports may be made up: phases without samples, samples without phases, contexts at any depth, numbers at their limits.
#[test]
fn odd_reports_are_drawn_all_the_same() {
    let plain = full(&TRACES[0]);
    let mut odd = vec![plain.clone(); 4];
    odd[0].timeline.clear();
    odd[1].timeline = vec![Sample {
        at: u64::MAX,
        phase: usize::MAX,
        ..Sample::default()
    }];
    for (index, row) in odd[2].contexts.iter_mut().enumerate() {
        row.depth = usize::MAX - index;
        row.live_by_scope.object = u64::MAX;
        row.live_bytes = u64::MAX;
    }
    odd[3].phases = (0..300)
        .map(|index| Phase {
            name: format!("p{index}"),
            peak_bytes: u64::MAX,
            ..Phase::default()
        })
        .collect();
    for report in odd {
        let page = page(&report);
        assert!(
            !page.contains("NaN") && !page.contains("\"inf") && !page.contains("\"-inf"),
            "numbers only"
        );
        assert!(
            part(&page, "timeline").contains("<svg") && part(&page, "treemap").contains("<svg")
        );
    }
}

#[test]
fn a_report_comes_back_from_json_as_it_was() {
    for report in TRACES
        .iter()
        .map(of_trace)
        .chain([full(&TRACES[0]), empty()])
    {
        let entries = ReportOrList::parse(
            "a file",
            serde_json::to_string(&report).expect("JSON").as_bytes(),
        )
        .expect("a report");
        assert_eq!(entries, [ReportOrList::Report(Box::new(report))]);
    }
    let failed = ReportOrList::Failed(Failed {
        format: Report::FORMAT.into(),
        driver: "a".into(),
        error: "b".into(),
    });
    let list = serde_json::to_string(&[&failed, &failed]).expect("JSON");
    assert_eq!(
        ReportOrList::parse("a file", list.as_bytes()).expect("reports"),
        [failed.clone(), failed]
    );
}

#[test]
fn kinds_that_have_no_line_side_by_side_are_counted_and_summed() {
    let mut report = full(&TRACES[0]);
    let one = report
        .contexts
        .iter()
        .find(|row| !row.group && row.live_bytes > 0)
        .expect("a context that holds something")
        .clone();
    report.contexts.retain(|row| row.group);
    for number in 0..20 {
        let mut row = one.clone();
        row.name = format!("VkKind{number}x");
        row.live_bytes = 1024 * (100 - number);
        report.contexts.push(row);
    }
    let entry = || ReportOrList::Report(Box::new(report.clone()));
    let page = html(&[entry(), entry()]).expect("a page");
    let side = page.split("id=\"matrix\"").nth(1).expect("side by side");
    let side = side.split("</section>").next().expect("its end");
    assert!(side.contains("VkKind15x") && !side.contains("VkKind16x"));
    // 84 + 83 + 82 + 81 times 1024.
    assert!(
        side.contains("<th scope=\"row\">4 more kinds</th><td class=\"n\">337\u{202f}920</td>"),
        "{side}"
    );
}
