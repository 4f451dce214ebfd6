//! Crops, crops of crops, wrapped buffers.

use super::model::Kind;
use super::program::{LIVE, RegionProgram};
use super::{Class, RegionFacts, RegionRefusal, Regions, Wrap};

impl<S: Regions> RegionProgram<'_, S> {
    /// A part of a region: where in its root it must lie is added up here.
    pub(super) fn crop(&mut self) -> Option<bool> {
        let picked = self.pick()?;
        let [from, len, deep] = [self.bytes.next()?, self.bytes.next()?, self.bytes.next()?];
        let Some(mut index) = picked.filter(|_| self.side().model.entries.len() < LIVE) else {
            return Some(false);
        };
        let side = self.side();
        // Mostly a crop of the newest crop, so that chains become long.
        if deep >= 64
            && let Some(newest) = side
                .model
                .entries
                .iter()
                .rposition(|entry| matches!(entry.kind, Kind::Crop { .. }))
        {
            index = newest;
        }
        let parent = &side.model.entries[index];
        let element = [1, 2, 4, 16][usize::from(deep % 4)];
        let whole = parent.facts.size / element;
        if whole == 0 {
            return Some(false);
        }
        // Little is cut off in front, and enough is left to cut again.
        let offset = u64::from(from) % (whole / 4 + 1);
        let count = ((whole - offset) - u64::from(len) % ((whole - offset) / 4 + 1)).max(1);
        let (offset, size) = (offset * element, count * element);
        let answer = side
            .subject
            .crop(&parent.region, offset, size, element as u32);
        let region = answer.unwrap_or_else(|no| {
            panic!(
                "a crop {offset:#x}+{size:#x} of {:x?}: {no:?}",
                parent.facts
            )
        });
        let root = side.model.root(index);
        let parent = &side.model.entries[index];
        let depth = if let Kind::Crop { depth, .. } = parent.kind {
            depth + 1
        } else {
            1
        };
        let its = parent.facts;
        let id = side.subject.id(&region);
        // Of a wrapped buffer whose memory is not known, neither is where it lies.
        let at = if its.memory == 0 {
            0
        } else {
            its.offset + offset
        };
        let expected = RegionFacts {
            class: Class::Crop,
            offset: at,
            base: its.base + offset,
            size,
            ..its
        };
        assert_eq!(
            side.subject.facts(&region),
            expected,
            "a crop {offset:#x}+{size:#x} of {its:x?}"
        );
        assert_eq!(side.subject.facts_by_id(id), Ok(expected), "by its name");
        assert!(!side.model.dead.contains(&id), "{id:?} is given out again");
        side.model.cropped(region, id, expected, root, depth);
        self.tried.note("crop");
        self.tried.note(match depth {
            1 => "crop of depth 1",
            2 => "crop of depth 2",
            _ => "crop of depth 3 or more",
        });
        Some(true)
    }

    pub(super) fn wrap(&mut self) -> Option<bool> {
        let [which, how, from] = [self.bytes.next()?, self.bytes.next()?, self.bytes.next()?];
        if self.side().model.entries.len() >= LIVE {
            return Some(false);
        }
        let buffers = self.side().subject.buffers();
        let (buffer, whole) = buffers[usize::from(which) % buffers.len()];
        let offset = u64::from(from) % whole;
        let size = (whole - offset) / (1 + u64::from(how >> 4));
        let size = size.max(1);
        let wrap = Wrap {
            buffer,
            offset,
            size,
            buffer_size: (how & 1 == 1).then_some(whole),
            backed: how & 2 == 2,
        };
        let bad = match how & 12 {
            12 => Some(Wrap { buffer: 0, ..wrap }),
            8 if from & 1 == 0 => Some(Wrap {
                size: whole - offset + 1,
                buffer_size: Some(whole),
                ..wrap
            }),
            8 => Some(Wrap {
                offset: u64::MAX - 15,
                size: 64,
                ..wrap
            }),
            _ => None,
        };
        let side = self.side();
        if let Some(bad) = bad {
            let answer = side.subject.wrap(&bad).map(drop);
            assert_eq!(answer, Err(RegionRefusal::Misuse), "{bad:x?}");
            self.tried.note("bad wrap");
            return Some(true);
        }
        let region = side
            .subject
            .wrap(&wrap)
            .unwrap_or_else(|no| panic!("{wrap:x?}: {no:?}"));
        let id = side.subject.id(&region);
        let facts = side.subject.facts(&region);
        assert_eq!(side.subject.facts_by_id(id), Ok(facts), "by its name");
        let told = (facts.class, facts.base, facts.size, facts.memory != 0);
        assert_eq!(
            told,
            (Class::Wrapped, wrap.offset, wrap.size, wrap.backed),
            "{facts:x?} for {wrap:x?}"
        );
        side.model.wrapped(region, id, facts, wrap.backed);
        self.tried.note("wrapped");
        Some(true)
    }

    /// Of a wrapped buffer or a crop of one it is right, of what the allocator owns it is not.
    pub(super) fn detach(&mut self) -> Option<bool> {
        let Some(index) = self.pick()? else {
            return Some(false);
        };
        let side = self.side();
        let root = side.model.root(index);
        let wrapped = matches!(side.model.entries[root].kind, Kind::Wrapped { .. });
        let entry = &side.model.entries[index];
        let why = match (wrapped, entry.crops, entry.maps) {
            (false, ..) => Some(
                &[
                    RegionRefusal::Misuse,
                    RegionRefusal::Held,
                    RegionRefusal::Mapped,
                ][..],
            ),
            (true, 0, 0) => None,
            _ => Some(&[RegionRefusal::Held, RegionRefusal::Mapped][..]),
        };
        let mut entry = side.model.remove(index);
        match side.subject.detach(entry.region) {
            Ok(()) => {
                assert!(why.is_none(), "{:x?} may not be detached", entry.facts);
                side.model.bury(entry.id);
                self.tried.note("detached");
            }
            Err((no, region)) => {
                assert!(
                    why.is_some_and(|why| why.contains(&no)),
                    "{:x?} is detached: {no:?}, not one of {why:?}",
                    entry.facts
                );
                entry.region = region;
                side.model.restore(entry);
                self.tried.note("detach refused");
            }
        }
        Some(true)
    }
}
