//! What a recorded driver requested.

use std::alloc::Layout;
use std::fs::File;
use std::io::Read;

use flate2::read::GzDecoder;
use vk_callbacks::{TraceEvent, TraceReader};

/// The sizes and alignments that lavapipe requested, in their order. Requests of 0 bytes are left out: the allocator
/// behind gets none.
pub fn requests() -> Vec<Layout> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../steward/traces/lavapipe-22.3.trace.gz");
    let mut text = String::new();
    GzDecoder::new(File::open(file).expect("a trace")).read_to_string(&mut text).expect("text");
    let events = TraceReader::new(&text).expect("a trace");
    let layouts = events.filter_map(|event| match event.expect("a well-formed trace").1 {
        TraceEvent::Allocate { asked, .. } => Layout::from_size_align(asked.size as usize, asked.align as usize).ok(),
        _ => None,
    });
    layouts.filter(|layout| layout.size() > 0).collect()
}
