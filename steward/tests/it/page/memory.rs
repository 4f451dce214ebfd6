//! Device memory.

use super::page;
use crate::support::full_report::full;
use crate::support::parts::{part, text_of};
use vk_report::report::Report;
use vk_steward::replay::bundled::TRACES;

#[test]
fn a_programs_device_memory_is_on_its_page() {
    let page = page(&full(&TRACES[0]));
    let text = text_of(part(&page, "vulkan"));
    for said in ["instance 1, device 1; 1 blocks are counted nowhere", "heap 1 4\u{202f}096", "type 1", "8\u{202f}192"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn what_the_sub_allocator_says_is_in_text_and_on_the_page() {
    let report = full(&TRACES[0]);
    let (text, page) = (report.to_string(), page(&report));
    let (all, regions) = (
        "evice memory, sub-allocated, when the last round had all of it in use: 1.00 MiB in 1 block",
        "2 regions of 64.5 KiB; 1 wrapped, 1 crop; 4.45 KiB of host memory",
    );
    assert!(text.contains(&format!("\nd{all}\n  {regions}\n")), "{text}");
    let section = text_of(part(&page, "memory"));
    assert!(section.contains(&format!("D{all}.")) && section.contains(&format!("{regions}.")), "{section}");
    let without = Report { device_memory: None, ..report };
    assert!(!self::page(&without).contains("id=\"memory\""));
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
    let none = Report { defragmentation: None, ..report.clone() };
    assert!(!page(&none).contains("Defragmentation"));
    assert!(!none.to_string().contains("defragmentation:"));
    let page = page(&report);
    let section = text_of(part(&page, "memory"));
    for told in [
        "Defragmentation: 5 moves of 120 KiB in 2 passes freed 2 blocks of 2.00 MiB.",
        "Before: 3.00 MiB in 3 blocks, 4764 % of what is live;",
        "After: 1.00 MiB in 1 block, 1588 % of what is live;",
    ] {
        assert!(section.contains(told), "{told}: {section}");
    }
}
