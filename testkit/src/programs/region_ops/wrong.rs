//! Bad input: each gets its own error, and nothing changes.

use super::model::Kind;
use super::program::RegionProgram;
use super::{Class, FreeMethod, Life, Memory, RegionRefusal, RegionRequest, Regions, Resource};

impl<S: Regions> RegionProgram<'_, S> {
    pub(super) fn bad_request(&mut self) -> Option<bool> {
        let (which, ask) = (self.bytes.next()?, self.request()?);
        let side = self.side();
        let ask = RegionRequest {
            resource: Resource::Linear,
            memory: Memory::Any,
            ..ask
        };
        let bad = match which % 10 {
            0 => RegionRequest { size: 0, ..ask },
            1 => RegionRequest {
                size: u64::MAX - 15,
                ..ask
            },
            2 => RegionRequest {
                size: side.model.device.too_much,
                ..ask
            },
            3 => RegionRequest {
                alignment: 0,
                ..ask
            },
            4 => RegionRequest {
                alignment: 3,
                ..ask
            },
            5 => RegionRequest {
                alignment: (1 << 20) + 1,
                ..ask
            },
            6 => RegionRequest {
                alignment: 1 << 63,
                ..ask
            },
            7 => RegionRequest { bits: 0, ..ask },
            8 => RegionRequest {
                size: 1 << 63,
                alignment: 1 << 62,
                lifetime: Life::Transient,
                ..ask
            },
            _ => RegionRequest {
                size: u64::MAX,
                resource: Resource::Buffer,
                ..ask
            },
        };
        let answer = side.subject.allocate(&bad).map(drop);
        assert_eq!(answer, Err(RegionRefusal::Misuse), "{bad:x?}");
        let batch = side
            .subject
            .allocate_batch(
                &RegionRequest {
                    resource: Resource::Linear,
                    ..bad
                },
                2,
            )
            .map(|_| ());
        assert_eq!(batch, Err(RegionRefusal::Misuse), "two of {bad:x?}");
        self.tried.note("bad request");
        Some(true)
    }

    pub(super) fn bad_crop(&mut self) -> Option<bool> {
        let (picked, which) = (self.pick()?, self.bytes.next()?);
        let Some(index) = picked else {
            return Some(false);
        };
        let side = self.side();
        let entry = &side.model.entries[index];
        let whole = entry.facts.size;
        let (offset, size, element) = match which % 8 {
            0 => (whole, 1, 1),
            1 => (0, whole + 1, 1),
            2 => (u64::MAX - 15, 16, 16),
            3 => (1, u64::MAX, 1),
            4 => (0, 0, 1),
            5 => (2, 4, 4),
            6 => (1 << 63, 1 << 63, 1),
            _ => (0, 1, 0),
        };
        let answer = side
            .subject
            .crop(&entry.region, offset, size, element)
            .map(drop);
        assert_eq!(
            answer,
            Err(RegionRefusal::Misuse),
            "a crop {offset:#x}+{size:#x} by {element} of {:x?}",
            entry.facts
        );
        self.tried.note("bad crop");
        Some(true)
    }

    /// Names of what was given back, long ago or just now.
    pub(super) fn stale(&mut self) -> Option<bool> {
        let which = self.bytes.below(128)?;
        let side = self.side();
        let Some(index) = which.checked_rem(side.model.dead.len()) else {
            return Some(false);
        };
        let id = side.model.dead[index];
        assert_eq!(
            side.subject.free_id(id),
            Err(RegionRefusal::Stale),
            "{id:?} was given back before"
        );
        assert_eq!(
            side.subject.facts_by_id(id),
            Err(RegionRefusal::Stale),
            "{id:?} was given back before"
        );
        self.tried.note("stale id");
        Some(true)
    }

    /// Names and regions of the other allocator.
    pub(super) fn foreign(&mut self) -> Option<bool> {
        let which = self.bytes.below(256)?;
        let (mine, theirs) = (self.at, 1 - self.at);
        let Some(index) = which.checked_rem(self.sides[theirs].model.entries.len()) else {
            return Some(false);
        };
        let id = self.sides[theirs].model.entries[index].id;
        let subject = &self.sides[mine].subject;
        assert_eq!(
            subject.free_id(id),
            Err(RegionRefusal::Foreign),
            "{id:?} is the other's"
        );
        assert_eq!(
            subject.facts_by_id(id),
            Err(RegionRefusal::Foreign),
            "{id:?} is the other's"
        );
        let crop = subject
            .crop(&self.sides[theirs].model.entries[index].region, 0, 1, 1)
            .map(drop);
        assert_eq!(crop, Err(RegionRefusal::Foreign), "{id:?} is the other's");
        let mut entry = self.sides[theirs].model.remove(index);
        let Err((no, region)) = self.sides[mine]
            .subject
            .free(entry.region, FreeMethod::Free)
        else {
            panic!("{id:?} is the other's, and was taken");
        };
        assert_eq!(no, RegionRefusal::Foreign, "{id:?} is the other's");
        entry.region = region;
        self.sides[theirs].model.restore(entry);
        self.tried.note("foreign id");
        Some(true)
    }

    /// A root under living crops, or a mapped region: kept, and still as it was.
    pub(super) fn free_held(&mut self) -> Option<bool> {
        let (which, how) = (self.bytes.below(64)?, self.bytes.next()?);
        let side = self.side();
        let held = side
            .model
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.crops > 0 || entry.maps > 0);
        let held: Vec<usize> = held.map(|(index, _)| index).collect();
        let Some(which) = which.checked_rem(held.len()) else {
            return Some(false);
        };
        let entry = &side.model.entries[held[which]];
        let (id, facts, why) = (entry.id, entry.facts, (entry.crops > 0, entry.maps > 0));
        let right = |no| {
            (no == RegionRefusal::Held && why.0)
                || (no == RegionRefusal::Mapped && why.1)
                // Of a linear pool that it is another one's turn may be said first.
                || (no == RegionRefusal::Order && facts.class == Class::Linear)
        };
        assert!(
            side.subject.free_id(id).is_err_and(right),
            "{facts:x?}, held by (crops, maps) {why:?}, is given back by its id"
        );
        // Its crops are other entries: it goes out of the model and comes back.
        let key = entry.key;
        let way = if how % 3 == 2 {
            FreeMethod::Release
        } else {
            FreeMethod::Free
        };
        let mut entry = side.model.entries.swap_remove(held[which]);
        match side.subject.free(entry.region, way) {
            Err((no, region)) if right(no) => entry.region = region,
            other => panic!(
                "{facts:x?}, held by (crops, maps) {why:?}, is given back: {:?}",
                other.map_err(|(no, _)| no)
            ),
        }
        side.model.entries.push(entry);
        let index = side.model.by_key(key);
        let entry = &side.model.entries[index];
        assert!(
            !matches!(entry.kind, Kind::Crop { .. }) || entry.crops == 0,
            "a crop counts at its root"
        );
        assert_eq!(
            side.subject.facts(&entry.region),
            facts,
            "what could not be given back is as it was"
        );
        self.tried.note(if why.0 {
            "release under crops refused"
        } else {
            "release while mapped refused"
        });
        Some(true)
    }
}
