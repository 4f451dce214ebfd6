//! Any bytes as a trace: read, written again, read again, judged. The fuzz target `trace_reader` runs this too.

use std::alloc::System;

use alloc_core::{FromGlobalAlloc, Scope, Scoped};
use testkit::programs::Ran;
use testkit::{HookedAllocator, host_trace};
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::trace::TraceWriter;
use vk_callbacks::{CallbackError, CheckOptions, Judge, TraceEvent, TraceReader};

/// Runs the hook of a test at each request, where there is one.
static SYSTEM: HookedAllocator<FromGlobalAlloc<System>> = HookedAllocator::new(FromGlobalAlloc::SYSTEM);

/// Bytes that begin with `#` are the trace; any others are a recipe for one that is well formed.
///
/// # Panics
/// When a promise of the reader, the writer or the judge is broken.
pub(crate) fn trace_reader(data: &[u8]) -> Ran {
    if data.first() == Some(&b'#') { read(data) } else { read(host_trace(data).0.as_bytes()) }
}

fn read(bytes: &[u8]) -> Ran {
    let mut ran = Ran { operations: 1, ..Ran::default() };
    let Ok(reader) = TraceReader::from_bytes(bytes) else {
        return ran;
    };
    let driver = one_line(reader.driver());
    let mut events = Vec::new();
    let (mut reader, mut broken) = (reader, None);
    for line in reader.by_ref() {
        ran.operations += 1;
        match line {
            Ok((number, event)) => events.push((number, event)),
            Err(error) => broken = Some(error),
        }
    }
    assert!(reader.next().is_none(), "the iterator has ended");
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    assert!(events.iter().all(|(line, _)| (2..=lines + 1).contains(line)));
    assert!(events.is_sorted_by_key(|(line, _)| *line));
    assert!(broken.is_none_or(|error| (1..=lines + 2).contains(&error.line)), "{broken:?}");
    ran.succeeded = events.len() as u64 + u64::from(broken.is_none());
    assert_eq!(judged(bytes), judged(bytes), "a judge says the same each time");
    assert_eq!(judged(bytes).1, broken.map(CallbackError::Trace), "and stops where the reader does");
    if broken.is_none() {
        written_again(&driver, &events);
        ran.compared = 1 + events.len() as u64;
    }
    ran
}

/// What a judge says, and why it stopped.
fn judged(bytes: &[u8]) -> (Vec<String>, Option<CallbackError>) {
    let reader = TraceReader::from_bytes(bytes).expect("it began well before");
    let mut judge =
        Judge::new(&SYSTEM, CheckOptions { coverage: BracketCoverage::Complete, ..CheckOptions::default() });
    let error = judge.run(reader).err();
    let findings = judge.findings(Scoped::new(&SYSTEM, Scope::Object)).expect("memory");
    let mut said: Vec<String> = findings.iter().map(|found| format!("{found} {found:?}")).collect();
    said.extend(judge.limits().map(str::to_owned));
    said.push(format!("{} lost", judge.lost()));
    (said, error)
}

/// What was read, written and read again, is the same, but for control characters in names, which become spaces.
fn written_again(driver: &str, events: &[(u64, TraceEvent<'_>)]) {
    let first = written(driver, events.iter().map(|(_, event)| *event));
    let again = TraceReader::new(&first).expect("what was written can be read");
    assert_eq!(again.driver(), driver);
    let mut read = Vec::new();
    for line in again {
        read.push(line.expect("what was written can be read").1);
    }
    assert_eq!(read.len(), events.len());
    for ((line, event), read) in events.iter().zip(&read) {
        assert_eq!(shown(event), shown(read), "line {line}");
    }
    assert_eq!(written(driver, read.into_iter()), first, "the second copy is the first");
}

fn written<'e>(driver: &str, events: impl Iterator<Item = TraceEvent<'e>>) -> String {
    let mut text = String::new();
    let mut writer = TraceWriter::new(&mut text, driver).expect("a String takes all");
    for event in events {
        writer.event(&event).expect("a String takes all");
    }
    let lines = writer.finish().expect("a String takes all");
    assert_eq!(text.matches('\n').count() as u64, lines);
    text
}

/// The event in words, the name in it on one line.
fn shown(event: &TraceEvent<'_>) -> String {
    match *event {
        TraceEvent::Owner { owner, parent, kind } => format!("owner {owner} {parent} {}", one_line(kind)),
        TraceEvent::Phase { name } => format!("phase {}", one_line(name)),
        TraceEvent::Enter { by, command } => format!("enter {by:?} {}", one_line(command)),
        TraceEvent::Created { by, handle, kind } => {
            format!("created {by:?} {handle} {}", one_line(kind))
        }
        TraceEvent::Destroyed { by, handle, kind } => {
            format!("destroyed {by:?} {handle} {}", one_line(kind))
        }
        other => format!("{other:?}"),
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
