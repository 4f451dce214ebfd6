//! Judges whose memory calls others.

use super::*;

#[test]
fn a_judge_whose_memory_reenters_others_says_the_same() {
    let mut text = "# steward host trace 2\no,1,0,VkBuffer\ne,1,1,vkCreateBuffer\n".to_owned();
    (1..=200).for_each(|id| text += &format!("a,1,1,{id},{id},8,1\n"));
    (1..=100).for_each(|id| text += &format!("f,1,1,{id}\n"));
    text += "l,1,0\nf,2,1,150\nz,305\n";
    let run = || {
        let mut judge = Judge::new(&HOST, COMPLETE);
        judge.run(TraceReader::new(&text).expect("a header")).expect("memory");
        let found = judge.findings(Scoped::new(&HOST, Scope::Object)).expect("memory");
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let expected = run();
    assert!(expected.len() >= 2, "{expected:?}");
    let times = Cell::new(0_usize);
    let hook = |_| {
        times.set(times.get() + 1);
        if times.get().is_multiple_of(50) {
            assert!(run() == expected);
        }
    };
    assert!(with_hook(1, &hook, run) == expected);
    assert!(times.get() > 50, "{times:?}");
}
