//! Judges and replays whose memory calls others.

use super::*;

#[test]
fn a_judge_and_a_replay_whose_memory_reenters_others_say_the_same() {
    let mut text = "# steward host trace 2\no,1,0,VkBuffer\ne,1,1,vkCreateBuffer\n".to_owned();
    (1..=200).for_each(|id| text += &format!("a,1,1,{id},{id},8,1\n"));
    (1..=100).for_each(|id| text += &format!("f,1,1,{id}\n"));
    text += "l,1,0\nf,2,1,150\nz,305\n";
    let run = || {
        let mut judge = Judge::new(&HOST, COMPLETE);
        judge
            .run(TraceReader::new(&text).expect("a header"))
            .expect("memory");
        let found = judge
            .findings(Scoped::new(&HOST, Scope::Object))
            .expect("memory");
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        let mut replay = Replay::new(Scoped::new(&HOST, Scope::Object));
        let totals = replay
            .run(
                TraceReader::new(&text).expect("a header"),
                &mut OneSink(&HOST),
            )
            .expect("memory");
        (found, totals)
    };
    let expected = run();
    assert!(
        expected.0.len() >= 2 && expected.1.all().live_blocks == 99,
        "{expected:?}"
    );
    let times = Cell::new(0_usize);
    let hook = |_| {
        times.set(times.get() + 1);
        if times.get().is_multiple_of(50) {
            assert!(run() == expected);
        }
    };
    assert!(with_hook(1, &hook, run) == expected);
    assert!(times.get() > 500, "{times:?}");
}
