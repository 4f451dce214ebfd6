//! Recorded traces against a parser that shares no code with the replay.

use super::*;

fn recorded(name: &str) -> String {
    let path = format!("{}/../steward/traces/{name}", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("gzip of text");
    text
}

/// Calls, bytes, peak and the end's live bytes, by the shortest way that shares nothing with the replay.
fn naive(text: &str) -> (u64, u64, u64, u64, u64) {
    let (mut calls, mut bytes, mut frees, mut live, mut peak) = (0, 0, 0, 0, 0);
    let mut sizes = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let c: Vec<&str> = line.split(',').collect();
        // The old block, the new one, its size.
        let (old, new) = match c[0] {
            "a" => (None, Some((c[3], c[4]))),
            "r" => (Some(c[3]), Some((c[4], c[5]))),
            "f" => (Some(c[3]), None),
            _ => continue,
        };
        if let Some(old) = old {
            live -= sizes
                .remove(old)
                .expect("the recorded traces free only what they took");
        }
        let Some((block, size)) = new else {
            frees += 1;
            continue;
        };
        let size: u64 = size.parse().expect("a size");
        sizes.insert(block, size);
        (calls, bytes, live) = (calls + 1, bytes + size, live + size);
        peak = peak.max(live);
    }
    (calls, bytes, frees, live, peak)
}

#[test]
fn the_recorded_traces_replay_to_the_totals_of_a_naive_parser() {
    for name in ["lavapipe-22.3.trace.gz", "nvidia-580-h200.trace.gz"] {
        let text = recorded(name);
        let mut ears = ListeningTarget::new();
        let totals = Replay::new(memory())
            .run(TraceReader::new(&text).expect("a header"), &mut ears)
            .expect("whole");
        let (calls, bytes) = (
            totals.allocations + totals.reallocations,
            totals.allocate_bytes + totals.reallocate_bytes,
        );
        let all = totals.all();
        assert_eq!(
            (calls, bytes, totals.frees, all.live_bytes, all.peak_bytes),
            naive(&text),
            "{name}"
        );
        assert_eq!((all.blocks, all.bytes), (calls, bytes));
        assert_eq!(ears.findings, [], "{name}");
        assert_eq!(ears.phases.len(), 16);
        ears.sink.assert_empty(name);
        assert_eq!(ears.sink.total().peak_bytes, all.peak_bytes);
    }
}

#[test]
fn one_sink_for_all_is_enough_for_a_bench() {
    let text = recorded("nvidia-580-h200.trace.gz");
    let system = FromGlobalAlloc::SYSTEM;
    let totals = Replay::new(memory())
        .run(
            TraceReader::new(&text).expect("a header"),
            &mut OneSink(&system),
        )
        .expect("whole");
    assert_eq!(totals.all().live_blocks, 0);
    let dynamic: &dyn HostAllocator = &system;
    let again = Replay::new(memory())
        .run(
            TraceReader::new(&text).expect("a header"),
            &mut OneSink(dynamic),
        )
        .expect("whole");
    assert_eq!(again, totals);
}
