//! Defragmentations: every outcome of a move.

use super::model::{Kind, RegionModel};
use super::program::RegionProgram;
use super::{Class, MoveEnd, MovePlay, PassStep, PlannedMove, RegionRefusal, Regions, Resource};
use crate::programs::{Bytes, Tried};

/// What is expected of a move, by what was done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedEnd {
    /// It moves.
    Moves,
    Stays,
    Destroyed,
    Freed,
}

/// A move of the pass under way.
struct Played<I> {
    planned: PlannedMove<I>,
    expected: ExpectedEnd,
}

impl<S: Regions> RegionProgram<'_, S> {
    pub(super) fn defragment(&mut self) -> Option<bool> {
        let (how, trouble) = (self.bytes.next()?, self.bytes.next()?);
        let side = &mut self.sides[self.at];
        let (subject, model, tried) = (&side.subject, &mut side.model, &mut self.tried);
        let is_armed = how % 8 == 7;
        if is_armed {
            let nth = u64::from(how >> 3 & 7);
            subject.refuse(Some(nth), Some(nth).filter(|_| how >> 6 == 0));
        }
        let max_moves = [usize::MAX, 1, 5, 20][usize::from(how >> 4 & 3)];
        let (bytes, mut pass) = (&mut self.bytes, Vec::new());
        let done = subject.defragment(max_moves, &mut |step| match step {
            PassStep::Begun(moves) => {
                assert!(moves.len() <= max_moves.max(1));
                let mut plays = Vec::new();
                for one in moves {
                    let (play, expected) = choose(subject, model, bytes, trouble, one);
                    plays.push(play);
                    pass.push(Played {
                        planned: *one,
                        expected,
                    });
                }
                plays
            }
            PassStep::Ended(ends) => {
                check_ends(&pass, ends, is_armed, tried);
                model.follow(subject, &pass, ends);
                pass.clear();
                Vec::new()
            }
        });
        if is_armed {
            subject.refuse(None, None);
        }
        match done {
            Ok(()) => {}
            Err(RegionRefusal::Host) if is_armed => tried.note("defragmentation refused"),
            Err(no) => panic!("a defragmentation: {no:?}"),
        }
        model.compare_walk(subject);
        Some(true)
    }
}

/// What is done about a move; most are copied.
fn choose<S: Regions>(
    subject: &S,
    model: &RegionModel<S>,
    bytes: &mut Bytes<'_>,
    trouble: u8,
    one: &PlannedMove<S::Id>,
) -> (MovePlay, ExpectedEnd) {
    let copied = (MovePlay::Copy, ExpectedEnd::Moves);
    let entry = model.entries.iter().find(|entry| entry.id == one.id);
    let entry = entry.unwrap_or_else(|| panic!("{one:x?} is no region of the model's"));
    assert_eq!(
        (entry.facts.memory, entry.facts.offset),
        one.from,
        "{one:x?}"
    );
    assert_eq!(entry.maps, 0, "{one:x?} is mapped");
    // Of so many moves seven are in trouble.
    let of = match trouble % 4 {
        0 => return copied,
        1 => 128,
        2 => 48,
        _ => 16,
    };
    // A program that is over copies the rest.
    let what = bytes.next().unwrap_or(0);
    let is_used = entry.crops > 0;
    match what % of {
        1 => (MovePlay::Ignore, ExpectedEnd::Stays),
        2 | 6 => {
            let expected = if is_used {
                ExpectedEnd::Stays
            } else {
                ExpectedEnd::Destroyed
            };
            (MovePlay::Destroy, expected)
        }
        3 | 7 if !is_used => {
            subject
                .free_id(one.id)
                .unwrap_or_else(|no| panic!("{one:x?}: {no:?}"));
            let again = subject.free_id(one.id);
            assert_eq!(
                again,
                Err(RegionRefusal::Stale),
                "{one:x?} is freed at once"
            );
            (MovePlay::Copy, ExpectedEnd::Freed)
        }
        4 => {
            // A crop that is gone again: it was used meanwhile. The host may refuse it.
            match subject.crop(&entry.region, 0, 1, 1) {
                Ok(crop) => {
                    let freed = subject.free(crop, super::FreeMethod::Free);
                    assert!(freed.is_ok(), "a crop is freed");
                    (MovePlay::Copy, ExpectedEnd::Stays)
                }
                Err(RegionRefusal::Host) => copied,
                Err(no) => panic!("a crop of {one:x?}: {no:?}"),
            }
        }
        5 => {
            let expected = if entry.kind == Kind::Owned(Resource::Buffer) {
                ExpectedEnd::Stays
            } else {
                ExpectedEnd::Moves
            };
            (MovePlay::CopyWithoutResource, expected)
        }
        _ => copied,
    }
}

fn check_ends<I: Copy + PartialEq + std::fmt::Debug>(
    pass: &[Played<I>],
    ends: &[(I, MoveEnd)],
    is_armed: bool,
    tried: &mut Tried,
) {
    assert_eq!(pass.len(), ends.len());
    let end_of = |one: &Played<I>| {
        let end = ends.iter().find(|(id, _)| *id == one.planned.id);
        end.expect("each move has an end").1
    };
    for one in pass {
        let end = end_of(one);
        let expected = match one.expected {
            ExpectedEnd::Freed => MoveEnd::Freed,
            ExpectedEnd::Destroyed => MoveEnd::Destroyed,
            ExpectedEnd::Moves => MoveEnd::Moved,
            ExpectedEnd::Stays => MoveEnd::Stayed,
        };
        // Its second resource may have been refused.
        let is_refused = is_armed && end == MoveEnd::Stayed && expected == MoveEnd::Moved;
        assert!(
            is_refused || end == expected,
            "{end:?}, not {expected:?}: {:x?}",
            one.planned
        );
        tried.note(match end {
            MoveEnd::Moved => "move of a region",
            MoveEnd::Stayed => "region that stays",
            MoveEnd::Freed | MoveEnd::Destroyed => "nothing left to move",
        });
    }
}

impl<S: Regions> RegionModel<S> {
    /// What moved lies elsewhere, with its crops; what was freed is gone.
    fn follow(&mut self, subject: &S, pass: &[Played<S::Id>], ends: &[(S::Id, MoveEnd)]) {
        let mut moved = Vec::new();
        for (id, end) in ends {
            let index = self.entries.iter().position(|entry| entry.id == *id);
            let index = index.expect("it was found when the pass began");
            match end {
                MoveEnd::Stayed => {}
                MoveEnd::Moved => {
                    self.lift(index);
                    moved.push(self.entries[index].key);
                }
                MoveEnd::Destroyed | MoveEnd::Freed => {
                    let entry = self.remove(index);
                    self.bury(entry.id);
                    let freed = subject.free(entry.region, super::FreeMethod::Free);
                    let freed = freed.map_err(|(no, _)| no);
                    assert_eq!(freed, Err(RegionRefusal::Stale), "{id:?} is gone");
                }
            }
        }
        for key in moved {
            let index = self.by_key(key);
            let id = self.entries[index].id;
            let planned = pass.iter().find(|one| one.planned.id == id);
            let (memory, offset) = planned.expect("it is of the pass").planned.to;
            let old = self.entries[index].facts;
            for entry in &mut self.entries {
                let is_crop = matches!(entry.kind, Kind::Crop { root, .. } if root == key);
                if entry.key != key && !is_crop {
                    continue;
                }
                entry.facts.memory = memory;
                entry.facts.offset = offset + (entry.facts.offset - old.offset);
                subject.refresh(&mut entry.region);
                assert_eq!(subject.facts(&entry.region), entry.facts, "after a move");
                assert_eq!(
                    subject.facts_by_id(entry.id),
                    Ok(entry.facts),
                    "after a move"
                );
                // Of what is no buffer the contents are the user's to copy.
                let is_copied =
                    old.class != Class::Crop && entry.kind == Kind::Owned(Resource::Buffer);
                entry.mark = entry.mark.filter(|_| is_copied);
            }
            self.settle(index);
        }
    }
}
