//! The text of host traces: what is written reads back, and what is damaged says where.

use alloc_core::NoticeEvent;
use proptest::prelude::*;
use vk_callbacks::trace::{Caller, Pointer, Request, Sighting, TraceError, TraceFault, TraceWriter};
use vk_callbacks::{TraceEvent, TraceReader};

/// An event that owns its text.
#[derive(Clone, Debug)]
enum Owned {
    Named(u8, u64, u64, String),
    Plain(TraceEvent<'static>),
}

impl Owned {
    fn event(&self) -> TraceEvent<'_> {
        match self {
            Self::Named(0, owner, parent, kind) => TraceEvent::Owner { owner: *owner, parent: *parent, kind },
            Self::Named(2, owner, handle, kind) => {
                TraceEvent::Created { by: Caller { thread: *handle, owner: *owner }, handle: *handle, kind }
            }
            Self::Named(3, owner, handle, kind) => {
                TraceEvent::Destroyed { by: Caller { thread: *handle, owner: *owner }, handle: *handle, kind }
            }
            Self::Named(1, _, _, name) => TraceEvent::Phase { name },
            Self::Named(_, thread, owner, command) => {
                TraceEvent::Enter { by: Caller { thread: *thread, owner: *owner }, command }
            }
            Self::Plain(event) => *event,
        }
    }
}

fn pointer() -> impl Strategy<Value = Pointer> {
    prop_oneof![Just(Pointer::Null), (1..=u64::MAX).prop_map(Pointer::Block), any::<u64>().prop_map(Pointer::Unknown)]
}

fn event() -> impl Strategy<Value = Owned> {
    let by = || (any::<u64>(), any::<u64>()).prop_map(|(thread, owner)| Caller { thread, owner });
    let asked =
        || (any::<u64>(), any::<u64>(), any::<i32>()).prop_map(|(size, align, scope)| Request { size, align, scope });
    let side = prop_oneof![Just(NoticeEvent::Allocated), Just(NoticeEvent::Freed)];
    prop_oneof![
        (0..5_u8, any::<u64>(), any::<u64>(), "[^\\p{Cc}]{0,12}")
            .prop_map(|(what, a, b, name)| Owned::Named(what, a, b, name)),
        (any::<u64>(), any::<i32>())
            .prop_map(|(thread, result)| Owned::Plain(TraceEvent::Leave { by: Caller { thread, owner: 0 }, result })),
        (by(), pointer(), asked()).prop_map(|(by, block, asked)| Owned::Plain(TraceEvent::Allocate {
            by,
            block,
            asked
        })),
        (by(), pointer()).prop_map(|(by, old)| Owned::Plain(TraceEvent::ReallocateBegin { by, old })),
        (by(), pointer(), pointer(), asked()).prop_map(|(by, old, new, asked)| Owned::Plain(TraceEvent::Reallocate {
            by,
            old,
            new,
            asked
        })),
        (by(), pointer()).prop_map(|(by, block)| Owned::Plain(TraceEvent::Free { by, block })),
        (by(), side, any::<u64>(), any::<i32>(), any::<i32>()).prop_map(|(by, event, size, kind, scope)| Owned::Plain(
            TraceEvent::Notice { by, event, size, kind, scope }
        )),
        any::<u64>().prop_map(|events| Owned::Plain(TraceEvent::Lost { events })),
        (by(), pointer(), prop::sample::select(Sighting::ALL.to_vec()))
            .prop_map(|(by, block, what)| Owned::Plain(TraceEvent::Seen { by, block, what })),
    ]
}

fn written(driver: &str, events: &[Owned]) -> String {
    let mut text = String::new();
    let mut writer = TraceWriter::new(&mut text, driver).expect("a String takes all");
    for event in events {
        writer.event(&event.event()).expect("a String takes all");
    }
    let lines = writer.finish().expect("a String takes all");
    assert_eq!(lines, text.matches('\n').count() as u64);
    text
}

/// Reads to the end or to the first error; answers with the last event's line.
fn read(text: &str) -> Result<u64, TraceError> {
    let mut last = 0;
    for item in TraceReader::new(text)? {
        last = item?.0;
    }
    Ok(last)
}

proptest! {
    #[test]
    fn what_is_written_reads_back(driver in "[^\\p{Cc}]{0,20}", events in prop::collection::vec(event(), 0..60)) {
        let text = written(&driver, &events);
        let reader = TraceReader::new(&text).expect("own header");
        prop_assert_eq!(reader.driver(), driver.as_str());
        let read: Vec<_> = reader.map(|item| item.expect("own lines")).collect();
        let expected: Vec<_> = events.iter().zip(3_u64..).map(|(event, line)| (line, event.event())).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn a_trace_cut_anywhere_names_the_line(events in prop::collection::vec(event(), 1..30), cut in any::<prop::sample::Index>()) {
        let text = written("any", &events);
        let mut at = cut.index(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let cut = &text[..at];
        let feeds = cut.matches('\n').count() as u64;
        match read(cut) {
            Ok(_) => prop_assert_eq!(at, text.len() - 1, "only the last line feed may be missed"),
            Err(error) => prop_assert_eq!(error.line, feeds + 1, "{}", error),
        }
    }

}

#[test]
fn damage_is_named_by_line_and_kind() {
    let cases: &[(&str, u64, TraceFault)] = &[
        ("", 1, TraceFault::NotATrace),
        ("\n", 1, TraceFault::NotATrace),
        ("# steward host trace 3\nz,1\n", 1, TraceFault::UnknownVersion),
        ("# steward host trace 2", 1, TraceFault::CutOff),
        ("# steward host trace 2\nq,1\n", 2, TraceFault::UnknownOperation),
        ("# steward host trace 2\n\nz,2\n", 2, TraceFault::UnknownOperation),
        ("# steward host trace 2\na,1,1,1,16,8\n", 2, TraceFault::MissingField("scope")),
        ("# steward host trace 2\na,1,1,1,16,8,1,9\n", 2, TraceFault::ExtraField),
        ("# steward host trace 2\na,1,1,1,18446744073709551616,8,1\n", 2, TraceFault::BadNumber("size")),
        ("# steward host trace 2\na,1,1,1,+16,8,1\n", 2, TraceFault::BadNumber("size")),
        ("# steward host trace 2\nl,1,2147483648\n", 2, TraceFault::BadNumber("result")),
        ("# steward host trace 2\nl,1,--1\n", 2, TraceFault::BadNumber("result")),
        ("# steward host trace 2\nf,1,1,?\n", 2, TraceFault::BadNumber("block")),
        ("# steward host trace 2\np,x\n", 3, TraceFault::NoEnd),
        ("# steward host trace 2\np,x\nz,9\n", 3, TraceFault::WrongCount { said: 9 }),
        ("# steward host trace 2\nz,18446744073709551615\n", 2, TraceFault::WrongCount { said: u64::MAX }),
        ("# steward host trace 2\nz,1\np,x\n", 3, TraceFault::BehindEnd),
        // Version 1, which is not read any more.
        ("# host-allocation trace\n", 1, TraceFault::NotATrace),
    ];
    for (text, line, fault) in cases {
        let error = read(text).expect_err(text);
        assert_eq!((error.line, error.fault), (*line, *fault), "{text:?}");
        assert!(error.to_string().starts_with(&format!("line {line}: expected ")), "{error}");
    }
    let error = TraceReader::from_bytes(b"# steward host trace 2\np,x\n\xff\n").map(|_| ()).expect_err("not text");
    assert_eq!((error.line, error.fault), (3, TraceFault::NotText));
}

#[test]
fn line_breaks_in_names_become_spaces() {
    let text = written("a\r\nb", &[Owned::Named(1, 0, 0, "two\nlines".into())]);
    assert_eq!(text, "# steward host trace 2\n# driver: a  b\np,two lines\nz,3\n");
}

#[test]
fn carriage_returns_and_comments_are_no_part_of_a_trace() {
    let text = "# steward host trace 2\r\n# made by: hand\r\n# driver: x\r\np,one\r\n# between\r\nz,5\r\n";
    let reader = TraceReader::new(text).expect("a header");
    assert_eq!(reader.driver(), "x");
    let events: Vec<_> = reader.map(|item| item.expect("whole lines")).collect();
    assert_eq!(events, [(4, TraceEvent::Phase { name: "one" })]);
}

#[test]
fn a_name_that_is_too_long_is_written_as_far_as_it_can_be_read() {
    // Two bytes a letter, behind one of one: no letter ends at the limit.
    let name = format!("v{}", "\u{e9}".repeat(3000));
    let by = Caller { thread: 1, owner: 1 };
    let events = [
        TraceEvent::Owner { owner: 1, parent: 0, kind: &name },
        TraceEvent::Enter { by, command: &name },
        TraceEvent::Created { by, handle: 1, kind: &name },
        TraceEvent::Destroyed { by, handle: 1, kind: &name },
    ];
    let mut text = String::new();
    let mut writer = TraceWriter::new(&mut text, "d").expect("a String takes all");
    events.iter().for_each(|event| writer.event(event).expect("a String takes all"));
    writer.finish().expect("a String takes all");
    for item in TraceReader::new(&text).expect("a header") {
        let (_, event) = item.expect("what was written can be read");
        let (TraceEvent::Owner { kind: read, .. }
        | TraceEvent::Enter { command: read, .. }
        | TraceEvent::Created { kind: read, .. }
        | TraceEvent::Destroyed { kind: read, .. }) = event
        else {
            panic!("{event:?}")
        };
        assert!(read.len() == TraceReader::MAX_NAME - 1 && name.starts_with(read), "{}", read.len());
    }
}
