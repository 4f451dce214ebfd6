//! Device memory, block by block.

use super::page;
use crate::support::full_report::full;
use crate::support::parts::{part, text_of};
use vk_accounts::report::Report;
use vk_steward::replay::bundled::TRACES;

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
        "not for any request, 256 bytes",
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
fn df12_a_defragmentation_is_told_before_and_after_in_text_and_on_the_page() {
    let report = full(&TRACES[0]);
    let text = report.to_string();
    for told in [
        "defragmentation: 5 moves of 120 KiB in 2 passes freed 2 blocks of 2.00 MiB\n",
        "  before  3.00 MiB in 3 blocks, 4764 % of what is live; 959 KiB free in blocks in use, no hole above 955 KiB\n",
        "  after   1.00 MiB in 1 block, 1588 % of what is live;",
    ] {
        assert!(text.contains(told), "{told}{text}");
    }
    let none = Report {
        defragmentation: None,
        ..report.clone()
    };
    assert!(!page(&none).contains("Defragmentation"));
    assert!(!none.to_string().contains("defragmentation:"));
    let page = page(&report);
    let section = part(&page, "defragmentation");
    let (before, after) = section.split_once("<h3>After</h3>").expect("both states");
    for (state, blocks) in [(before, 3), (after, 1)] {
        assert_eq!(state.matches("<figure>").count(), blocks, "{state}");
    }
    assert!(
        before.contains("<h3>Before</h3>") && before.contains("3.00 MiB in 3 blocks"),
        "{before}"
    );
}
