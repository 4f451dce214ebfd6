//! Crops, crops of crops, wrapped buffers.

use super::*;

impl RegionProgram<'_> {
    /// A part of a region: where in its root it must lie is added up here.
    pub fn crop(&mut self) -> Option<bool> {
        let picked = self.pick()?;
        let [from, len, deep] = [self.bytes.next()?, self.bytes.next()?, self.bytes.next()?];
        let Some(mut index) = picked.filter(|_| !self.is_full(1)) else {
            return Some(false);
        };
        let side = self.side();
        // Mostly a crop of the newest crop, so that chains become long.
        let is_crop = |kind: Kind| matches!(kind, Kind::Crop { .. });
        if deep >= 64 {
            index = side.model.entries.iter().rposition(|entry| is_crop(entry.kind)).unwrap_or(index);
        }
        let parent = &side.model.entries[index];
        let its = parent.facts;
        let element = [1, 2, 4, 16][usize::from(deep % 4)];
        let whole = its.size / element;
        if whole == 0 {
            return Some(false);
        }
        // Little is cut off in front, and enough is left to cut again.
        let offset = u64::from(from) % (whole / 4 + 1);
        let count = ((whole - offset) - u64::from(len) % ((whole - offset) / 4 + 1)).max(1);
        let (offset, size) = (offset * element, count * element);
        let region = side.subject.crop(&parent.region, offset, size, element);
        let region = region.unwrap_or_else(|no| panic!("a crop {offset:#x}+{size:#x} of {its:x?}: {no:?}"));
        let depth = if let Kind::Crop { depth, .. } = parent.kind { depth + 1 } else { 1 };
        let root = side.model.root(index);
        // Of a wrapped buffer whose memory is not known, neither is where it lies.
        let at = if its.memory == 0 { 0 } else { its.offset + offset };
        let expected = RegionFacts { class: Class::Crop, offset: at, base: its.base + offset, size, ..its };
        let id = region.id();
        assert_eq!(side.subject.facts(&region), expected, "a crop {offset:#x}+{size:#x} of {its:x?}");
        assert_eq!(side.subject.facts_by_id(id), Ok(expected), "by its name");
        assert!(!side.model.dead.contains(&id), "{id:?} is given out again");
        side.model.cropped(region, expected, root, depth);
        self.tried.note("crop");
        self.tried.note(["crop of depth 1", "crop of depth 2", "crop of depth 3 or more"][depth.min(3) as usize - 1]);
        Some(true)
    }

    pub fn wrap(&mut self) -> Option<bool> {
        let [which, how, from] = [self.bytes.next()?, self.bytes.next()?, self.bytes.next()?];
        if self.is_full(1) {
            return Some(false);
        }
        let side = self.side();
        let near = u64::from(from) % WRAPPED;
        let size = ((WRAPPED - near) / (1 + u64::from(how >> 4))).max(1);
        // Where nothing is known of the buffer, it is believed to be larger than 32 bits say.
        let offset = if how & 3 == 0 { near + (1 << 33) } else { near };
        let wrap = Wrap {
            buffer: Some(usize::from(which) % 2),
            offset,
            size,
            is_size_known: how & 1 == 1,
            is_backed: how & 2 == 2,
        };
        let outside = Outside;
        let bad = match how & 12 {
            12 => Some((Wrap { buffer: None, ..wrap }, NullHandle)),
            8 if from & 1 == 0 => {
                Some((Wrap { offset: near, size: WRAPPED - near + 1, is_size_known: true, ..wrap }, outside))
            }
            8 => Some((Wrap { offset: u64::MAX - 15, size: 64, ..wrap }, outside)),
            _ => None,
        };
        if let Some((bad, rule)) = bad {
            let answer = side.subject.wrap(&bad).map(drop);
            assert_eq!(answer, Err(rule.into()), "{bad:x?}");
            self.tried.note("bad wrap");
            return Some(true);
        }
        let region = side.subject.wrap(&wrap).unwrap_or_else(|no| panic!("{wrap:x?}: {no:?}"));
        let facts = side.subject.facts(&region);
        assert_eq!(side.subject.facts_by_id(region.id()), Ok(facts), "by its name");
        let told = (facts.class, facts.base, facts.size, facts.memory != 0, facts.buffer);
        let buffer = Some(side.subject.buffers[usize::from(which) % 2]);
        assert_eq!(told, (Class::Wrapped, offset, size, wrap.is_backed, buffer), "{facts:x?} for {wrap:x?}");
        side.model.wrapped(region, facts, wrap.is_backed);
        self.tried.note("wrapped");
        Some(true)
    }

    /// Of a wrapped buffer or a crop of one it is right, of what the allocator owns it is not.
    pub fn detach(&mut self) -> Option<bool> {
        let Some(index) = self.pick()? else {
            return Some(false);
        };
        let side = self.side();
        let wrapped = matches!(side.model.entries[side.model.root(index)].kind, Kind::Wrapped { .. });
        let entry = &side.model.entries[index];
        let is_idle = entry.crops == 0 && entry.maps == 0;
        let mut entry = side.model.remove(index);
        match side.subject.detach(entry.region) {
            Ok(()) => {
                assert!(wrapped && is_idle, "{:x?} may not be detached", entry.facts);
                side.model.bury(entry.id);
                self.tried.note("detached");
            }
            Err((no, region)) => {
                let is_held = matches!(no, GpuError::Misuse(HasCrops | Mapped));
                let fits = if wrapped { is_held && !is_idle } else { is_held || no == NotWrapped.into() };
                assert!(fits, "{:x?} is detached: {no:?}", entry.facts);
                entry.region = region;
                side.model.restore(entry);
                self.tried.note("detach refused");
            }
        }
        Some(true)
    }
}
