//! What becomes of each move.

use super::*;

#[test]
fn df3_every_mix_of_outcomes_ends_as_it_says() {
    small(|scene| {
        let mut left = scene.sparse(4, 4);
        let mut run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
        let mut pass = run.next_pass().unwrap();
        copy(scene.mock, &mut pass);
        let outcomes = [
            MoveOutcome::Copied,
            MoveOutcome::Ignored,
            MoveOutcome::Destroyed,
        ];
        let ids: Vec<_> = pass.moves().iter().map(|one| one.region()).collect();
        for index in 0..ids.len() {
            pass.set_outcome(index, outcomes[index % 3]).unwrap();
        }
        assert!(pass.set_outcome(ids.len(), MoveOutcome::Copied).is_err());
        let mut results = Vec::new();
        pass.finish(|one, result| results.push((one.region(), result)));
        for (index, id) in ids.iter().enumerate() {
            let (_, result) = results.iter().find(|(region, _)| region == id).unwrap();
            let expected = [MoveResult::Moved, MoveResult::Stayed, MoveResult::Destroyed];
            assert_eq!(*result, expected[index % 3]);
            assert_eq!(scene.gpu.info(*id).is_err(), index % 3 == 2);
        }
        assert!(run.next_pass().unwrap().is_empty());
        drop(run);
        left.retain(|(_, region)| scene.gpu.info(region.id()).is_ok());
        assert_eq!(left.len(), 14);
        assert_eq!(scene.mock.live_counts().buffers, 14);
        scene.check(&mut left);
        scene.free_all(left);
    });
}

#[test]
fn df3_a_copy_without_a_second_buffer_and_a_dropped_pass_move_nothing() {
    small(|scene| {
        let mut left = scene.sparse(4, 4);
        let mut run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
        let mut pass = run.next_pass().unwrap();
        pass.set_outcomes(MoveOutcome::Copied);
        pass.finish(|_, result| assert_eq!(result, MoveResult::Stayed));
        drop(run);
        let mut run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
        let mut pass = run.next_pass().unwrap();
        copy(scene.mock, &mut pass);
        drop(pass);
        assert_eq!(run.totals().moves, 0);
        // A pass that is forgotten is ended by what comes next.
        drop(run);
        let mut run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
        let mut pass = run.next_pass().unwrap();
        copy(scene.mock, &mut pass);
        std::mem::forget(pass);
        assert!(run.next_pass().unwrap().is_empty());
        drop(run);
        assert_eq!(scene.mock.live_counts().buffers, 16);
        scene.check(&mut left);
        scene.free_all(left);
    });
}
