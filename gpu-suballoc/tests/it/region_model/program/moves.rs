//! Defragmentations: every outcome of a move.

use super::*;

/// Buffers above this size are not copied: nothing is written to them.
const COPIED: u64 = 1 << 20;

/// What is done about a move: its outcome, and whether a second resource is made. What must come of it.
type Play = (MoveOutcome, bool, MoveResult);

impl RegionProgram<'_> {
    pub fn defragment(&mut self) -> Option<bool> {
        let (how, trouble) = (self.bytes.next()?, self.bytes.next()?);
        let Side { subject, model, .. } = &mut self.sides[self.at];
        let (subject, is_armed) = (&*subject, how % 8 == 7);
        if is_armed {
            let nth = u64::from(how >> 3 & 7);
            subject.refuse(Some(nth), Some(nth).filter(|_| how >> 6 == 0));
        }
        let max_moves = [usize::MAX, 1, 5, 20][usize::from(how >> 4 & 3)];
        // What the device keeps for itself lies where it lay.
        let again = subject.again;
        let may_move = |id, _| !again.is_some_and(|again| again.has(id));
        let options = DefragmentationOptions::new().max_moves_per_pass(max_moves).move_bare_regions().filter(&may_move);
        let before = subject.allocator().stats().total;
        let (mut moved, mut refused) = (HashSet::new(), 0);
        let mut refuse = |error: GpuError| {
            assert!(is_armed && matches!(error, GpuError::Host(_)), "a defragmentation: {error}");
            refused += 1;
        };
        match subject.allocator().defragment(options) {
            Err(error) => refuse(error),
            Ok(mut run) => {
                loop {
                    match run.next_pass() {
                        Err(error) => refuse(error),
                        Ok(pass) if pass.is_empty() => break,
                        Ok(pass) => {
                            assert!(pass.moves().len() <= max_moves.max(1));
                            let moves: Vec<RegionMove> = pass.moves().to_vec();
                            for one in &moves {
                                assert!(moved.insert(one.region()), "{one:x?} moves again");
                            }
                            let choose = |one: &RegionMove| choose(subject, model, &mut self.bytes, trouble, one);
                            let plays: Vec<Play> = moves.iter().map(choose).collect();
                            let ends = finish(subject, pass, &plays);
                            for (one, (.., expected)) in moves.iter().zip(plays) {
                                check_end(one, expected, &ends, is_armed, &mut self.tried);
                            }
                            model.follow(subject, &moves, &ends);
                        }
                    }
                }
                let totals = run.totals();
                assert!(totals.freed_blocks <= totals.planned_blocks, "{totals:?}");
                assert!(totals.moved_bytes <= before.region_bytes, "{totals:?}");
                assert!(totals.freed_bytes <= before.block_bytes, "{totals:?}");
            }
        }
        if is_armed {
            subject.refuse(None, None);
        }
        assert!(refused <= 1, "one is refused, and no other");
        if refused > 0 {
            self.tried.note("defragmentation refused");
        }
        model.compare_walk(subject);
        Some(true)
    }
}

/// What is done about a move; most are copied.
fn choose(subject: &RegionSubject, model: &RegionModel, bytes: &mut Bytes<'_>, trouble: u8, one: &RegionMove) -> Play {
    let copied = (MoveOutcome::Copied, true, MoveResult::Moved);
    let entry = model.entries.iter().find(|entry| entry.id == one.region());
    let entry = entry.unwrap_or_else(|| panic!("{one:x?} is no region of the model's"));
    assert_eq!((entry.facts.memory, entry.facts.offset), (one.from().memory.as_raw(), one.from().offset));
    assert_eq!(entry.maps, 0, "{one:x?} is mapped");
    // Of so many moves seven are in trouble.
    let of = match trouble % 4 {
        0 => return copied,
        1 => 128,
        2 => 48,
        _ => 16,
    };
    let is_used = entry.crops > 0;
    // A program that is over copies the rest.
    match bytes.next().unwrap_or(0) % of {
        1 => (MoveOutcome::Ignored, false, MoveResult::Stayed),
        2 | 6 => {
            let expected = if is_used { MoveResult::Stayed } else { MoveResult::Destroyed };
            (MoveOutcome::Destroyed, false, expected)
        }
        3 | 7 if !is_used => {
            assert_eq!(subject.free_id(one.region()), Ok(()), "{one:x?}");
            assert_eq!(subject.free_id(one.region()), Err(Stale.into()), "{one:x?} is freed at once");
            (MoveOutcome::Copied, true, MoveResult::Freed)
        }
        // A crop that is gone again: it was used meanwhile. The host may refuse it.
        4 => match subject.crop(&entry.region, 0, 1, 1) {
            Ok(crop) => {
                assert!(subject.free(crop, FreeMethod::Free).is_ok(), "a crop is freed");
                (MoveOutcome::Copied, true, MoveResult::Stayed)
            }
            Err(GpuError::Host(_)) => copied,
            Err(no) => panic!("a crop of {one:x?}: {no:?}"),
        },
        5 => {
            let is_buffer = entry.kind == Kind::Owned(Resource::Buffer);
            let expected = if is_buffer { MoveResult::Stayed } else { MoveResult::Moved };
            (MoveOutcome::Copied, false, expected)
        }
        _ => copied,
    }
}

/// Does what was chosen about each move. What became of each, in another order.
fn finish(
    subject: &RegionSubject,
    mut pass: DefragmentationPass<'_, '_, &'static Device, &'static Host>,
    plays: &[Play],
) -> Vec<(RegionId, MoveResult)> {
    for (index, (outcome, has_resource, _)) in plays.iter().enumerate() {
        let (old, size) = (pass.moves()[index].old_buffer(), pass.moves()[index].size());
        if *has_resource
            && let Some(old) = old
            && let Ok(new) = pass.make_buffer(index)
            && size <= COPIED
        {
            assert!(subject.mock().copy_buffer(old, 0, new, 0, size));
        }
        pass.set_outcome(index, *outcome).expect("there is such a move");
    }
    let mut ends = Vec::new();
    pass.finish(|one, end| ends.push((one.region(), end)));
    assert_eq!(plays.len(), ends.len());
    ends
}

fn check_end(
    one: &RegionMove,
    expected: MoveResult,
    ends: &[(RegionId, MoveResult)],
    is_armed: bool,
    tried: &mut Tried,
) {
    let end = ends.iter().find(|(id, _)| *id == one.region()).expect("each move has an end").1;
    // Its second resource may have been refused.
    let is_refused = is_armed && end == MoveResult::Stayed && expected == MoveResult::Moved;
    assert!(is_refused || end == expected, "{end:?}, not {expected:?}: {one:x?}");
    tried.note(match end {
        MoveResult::Moved => "move of a region",
        MoveResult::Stayed => "region that stays",
        MoveResult::Freed | MoveResult::Destroyed => "nothing left to move",
    });
}

impl RegionModel {
    /// What moved lies elsewhere, with its crops; what was freed is gone.
    fn follow(&mut self, subject: &RegionSubject, moves: &[RegionMove], ends: &[(RegionId, MoveResult)]) {
        let mut moved = Vec::new();
        for (id, end) in ends {
            let index = self.entries.iter().position(|entry| entry.id == *id);
            let index = index.expect("it was found when the pass began");
            match end {
                MoveResult::Stayed => {}
                MoveResult::Moved => {
                    self.lift(index);
                    moved.push(self.entries[index].key);
                }
                MoveResult::Destroyed | MoveResult::Freed => {
                    let entry = self.remove(index);
                    self.bury(entry.id);
                    let freed = subject.free(entry.region, FreeMethod::Free).map_err(|(no, _)| no);
                    assert_eq!(freed, Err(Stale.into()), "{id:?} is gone");
                }
            }
        }
        for key in moved {
            let index = self.by_key(key);
            let (id, old) = (self.entries[index].id, self.entries[index].facts);
            let to = moves.iter().find(|one| one.region() == id).expect("it is of the pass").to();
            let buffer = subject.allocator().info(id).unwrap().buffer;
            for entry in &mut self.entries {
                let is_crop = matches!(entry.kind, Kind::Crop { root, .. } if root == key);
                if entry.key != key && !is_crop {
                    continue;
                }
                (entry.facts.memory, entry.facts.buffer) = (to.memory.as_raw(), buffer);
                entry.facts.offset = to.offset + (entry.facts.offset - old.offset);
                let (gpu, moved) = (subject.allocator(), &mut entry.region);
                let asked = [
                    gpu.crop(moved, 0, 1, 1).map(drop),
                    gpu.map(moved).map(drop),
                    gpu.flush(moved, 0, 1),
                    gpu.invalidate(moved, 0, 1),
                ];
                assert_eq!(asked, [Err(Moved.into()); 4], "before it is refreshed");
                let refused = moved.buffer().map_or(NoBuffer, |_| Moved);
                assert_eq!(gpu.descriptor(moved, 4, DescriptorUse::Storage).err(), Some(refused));
                gpu.refresh(moved).unwrap();
                assert_eq!(subject.facts(&entry.region), entry.facts, "after a move");
                assert_eq!(subject.facts_by_id(entry.id), Ok(entry.facts), "after a move");
                // Of what is no buffer the contents are the user's to copy.
                let is_copied = old.class != Class::Crop && entry.kind == Kind::Owned(Resource::Buffer);
                entry.mark = entry.mark.filter(|_| is_copied);
            }
            self.settle(index);
        }
    }
}
