use vk_callbacks::{Defect, FakeProgram};

use crate::heap::Heap;
use crate::stage::{Allocators, Interrupted, Meeting, Stage, Unwatched};

fn run(defect: Option<Defect>, rounds: usize, habits: bool) -> (Result<(), i32>, Heap) {
    let (heap, meeting) = (Heap::default(), Meeting::default());
    let interrupted = Interrupted { watch: &Unwatched, meeting: &meeting };
    let answer = {
        // SAFETY: the heap outlives the allocators, which outlive the run.
        let allocators = unsafe { Allocators::new(heap.raw(), defect, &interrupted) };
        let stage = Stage::new(&Unwatched, &allocators, &meeting);
        FakeProgram { defect, rounds, habits }.run(&stage)
    };
    (answer, heap)
}

#[test]
fn a_correct_driver_gives_everything_back() {
    for habits in [false, true] {
        let (answer, heap) = run(None, 3, habits);
        assert_eq!(answer, Ok(()));
        assert_eq!(heap.live_blocks(), 0);
        println!("{} calls", heap.calls());
    }
}
#[test]
fn every_planted_defect_is_survived() {
    for defect in Defect::ALL.iter().copied().filter(|d| !matches!(d, Defect::UnknownUserData)) {
        println!("{defect}");
        let (answer, heap) = run(Some(defect), 2, false);
        println!("  {answer:?} {} left", heap.live_blocks());
        assert_eq!(answer, Ok(()), "{defect}");
    }
}
