//! The judge's own memory: its size, and that a refused line can be repeated.

use debug_guard::{FailingAllocator, Fault};

use super::*;

type Failing = FailingAllocator<&'static FromGlobalAlloc<System>>;

fn failing() -> Failing {
    FailingAllocator::new(&SYSTEM, Fault::Never)
}

/// Judges all lines but the last `refused` ones; those with memory refused, and once more where that is an error.
/// Answers with what was found, and how many were tried again.
fn tried_again(text: &str, refused: usize) -> (Vec<(FindingKind, u64)>, usize) {
    let memory = failing();
    let mut judge = Judge::new(&memory, COMPLETE);
    let events: Vec<_> = TraceReader::new(text).expect("a header").map(|item| item.expect("whole")).collect();
    let mut again = 0;
    for (index, (line, event)) in events.iter().enumerate() {
        if index + refused == events.len() {
            memory.arm(Fault::From(0));
        }
        if judge.step(*line, *event).is_err() {
            again += 1;
            memory.arm(Fault::Never);
            judge.step(*line, *event).expect("there is memory");
        }
    }
    memory.arm(Fault::Never);
    judge.finish();
    // What is found with memory refused is lost, and counted.
    assert!(judge.lost() == 0 || again == 0, "tried again, it was found");
    let found = judge.findings(Scoped::new(&SYSTEM, Scope::Object)).expect("memory");
    (found.iter().map(|found| (found.kind, found.count)).collect(), again)
}

#[test]
fn a_line_whose_memory_was_refused_can_be_judged_again() {
    // A reallocation to size 0 that is answered with a block. The one before has slots laid out in every shard of the
    // table; whichever shards the blocks go to, none has more of them than it has room for.
    let text = |more: u64, new: u64| {
        let mut lines = "e,1,3,vkCreateBuffer r,1,3,0,1,64,8,1 ".to_owned();
        (2..=17).for_each(|block| lines += &format!("a,1,3,{block},64,8,1 "));
        lines += "e,2,3,vkCreateBuffer b,1,3,1 ";
        (18..18 + more).for_each(|block| lines += &format!("a,2,3,{block},64,8,1 "));
        trace(&format!("{lines} r,1,3,1,{new},0,8,1"))
    };
    // Where there is no room left, something is refused.
    assert!(tried_again(&text(400, 0), 401).1 > 0);
    // The promise that its first step makes holds to the end: nothing is refused half-way.
    for more in 0..6 {
        for new in 5000..5032 {
            assert_eq!(tried_again(&text(more, new), more as usize + 1).1, 0, "{more} {new}");
        }
    }
    // A reallocation whose begin was recorded, and not its end.
    let text = trace("e,1,3,vkCreateBuffer a,1,3,1,64,8,1 a,1,3,2,64,8,1 b,1,3,1 r,1,3,2,3,128,8,1");
    assert_eq!(tried_again(&text, 1), (vec![(FindingKind::LiveAtEnd, 2)], 1));
}

#[test]
fn the_judge_takes_about_100_bytes_a_block() {
    for blocks in [5000_u64, 20_000] {
        let mut lines = String::new();
        for block in 1..=blocks {
            lines += &format!("a,1,3,{block},64,8,1 f,1,3,{block} ");
        }
        let text = trace(&lines);
        let memory = failing();
        let mut judge = Judge::new(&memory, CheckOptions::default());
        assert_eq!(memory.live_bytes(), 0, "none yet");
        judge.run(TraceReader::new(&text).expect("a header")).expect("whole");
        let each = memory.live_bytes() / blocks;
        println!("{blocks} blocks: {each} bytes each");
        assert!((64..=160).contains(&each), "{each}");
    }
}
