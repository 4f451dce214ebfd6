//! Bad input and failures on purpose: each gets its own error, and nothing changes.

use super::*;

impl RegionProgram<'_> {
    /// The n-th host request fails, the n-th device command, or both; then the same again without.
    pub fn refused(&mut self) -> Option<bool> {
        let (how, ask) = (self.bytes.next()?, self.request()?);
        if self.is_full(1) {
            return Some(false);
        }
        let (host, device) = (Some(u64::from(how & 3)), Some(u64::from(how >> 2 & 3)));
        let side = self.side();
        let (is_host, is_device) = (how >> 4 & 3 != 1, how >> 4 & 3 != 0);
        side.subject.refuse(host.filter(|_| is_host), device.filter(|_| is_device));
        let first = side.subject.allocate(&ask);
        side.subject.refuse(None, None);
        match first {
            Err(GpuError::Host(_)) => self.tried.note("refused by the host"),
            Err(error) if is_short(error) => self.tried.note("refused by the device"),
            other => return Some(self.check_answer(&ask, other, true)),
        }
        let side = self.side();
        side.model.compare_walk(&side.subject);
        let again = side.subject.allocate(&ask);
        Some(self.check_answer(&ask, again, false))
    }

    pub fn bad_request(&mut self) -> Option<bool> {
        let (which, ask) = (self.bytes.next()?, self.request()?);
        let side = self.side();
        let ask = RegionRequest { resource: Resource::Linear, memory: PropertyFlags::NONE, ..ask };
        let (size, alignment) = (ask.size, ask.alignment);
        let (size, alignment) = match which % 10 {
            0 => (0, alignment),
            1 => (u64::MAX - 15, alignment),
            // More than any heap has.
            2 => (1 << 48, alignment),
            3 => (size, 0),
            4 => (size, 3),
            5 => (size, (1 << 20) + 1),
            6 => (size, 1 << 63),
            7 => (size, alignment),
            8 => (1 << 63, 1 << 62),
            _ => (u64::MAX, alignment),
        };
        let bits = if which % 10 == 7 { 0 } else { ask.bits };
        let lifetime = if which % 10 == 8 { Lifetime::Transient } else { ask.lifetime };
        let resource = if which % 10 == 9 { Resource::Buffer } else { ask.resource };
        let bad = RegionRequest { size, alignment, bits, lifetime, resource, ..ask };
        let is_right = |error: GpuError| match (error, which % 10) {
            // A pool may find something else first.
            (GpuError::Misuse(WrongPool), _) => bad.pool.is_some(),
            (GpuError::Misuse(rule), 0) => rule == ZeroSize,
            (GpuError::Misuse(rule), 3..=5) => rule == BadAlignment,
            (GpuError::Misuse(rule), 6 | 8) => rule == AlignmentTooLarge,
            (GpuError::MemoryType(_), 7) => true,
            (GpuError::TooLarge { bytes, .. }, 1 | 2 | 6 | 8 | 9) => bytes >= size,
            _ => false,
        };
        let calls = side.subject.mock().all_calls();
        let answer = side.subject.allocate(&bad).map(drop);
        assert!(answer.is_err_and(is_right), "{answer:?} for {bad:x?}");
        let bad = RegionRequest { resource: Resource::Linear, ..bad };
        let answer = side.subject.allocate_batch(&bad, 2).map(drop);
        assert!(answer.is_err_and(is_right), "{answer:?} for two of {bad:x?}");
        let asked = side.subject.mock().all_calls() - calls;
        assert_eq!(asked, 0, "the driver is asked: {bad:x?}");
        self.tried.note("bad request");
        Some(true)
    }

    pub fn bad_crop(&mut self) -> Option<bool> {
        let (picked, which) = (self.pick()?, self.bytes.next()?);
        let Some(index) = picked else {
            return Some(false);
        };
        let side = self.side();
        let entry = &side.model.entries[index];
        let whole = entry.facts.size;
        let outside = Outside;
        let (offset, size, element, rule) = match which % 9 {
            0 => (whole, 1, 1, outside),
            1 => (0, whole + 1, 1, outside),
            2 => (u64::MAX - 15, 16, 16, outside),
            3 => (1, u64::MAX, 1, outside),
            4 => (0, 0, 1, ZeroSize),
            5 => (2, 4, 4, Misaligned),
            6 => (1 << 63, 1 << 63, 1, outside),
            7 => (4, 6, 4, Misaligned),
            _ => (0, 1, 0, ZeroElement),
        };
        let answer = side.subject.crop(&entry.region, offset, size, element).map(drop);
        let answer = answer.expect_err("it is no part");
        let is_right = answer == rule.into() || whole < 10 && answer == outside.into();
        assert!(is_right, "{answer:?} for {offset:#x}+{size:#x} by {element} of {:x?}", entry.facts);
        self.tried.note("bad crop");
        Some(true)
    }

    /// Names of what was freed, long ago or just now.
    pub fn stale(&mut self) -> Option<bool> {
        let which = self.bytes.below(128)?;
        let side = self.side();
        let Some(index) = which.checked_rem(side.model.dead.len()) else {
            return Some(false);
        };
        let id = side.model.dead[index];
        assert_eq!(side.subject.free_id(id), Err(Stale.into()), "{id:?} was freed before");
        assert_eq!(side.subject.facts_by_id(id), Err(Stale.into()), "{id:?} was freed before");
        self.tried.note("stale id");
        Some(true)
    }

    /// Names and regions of the other allocator.
    pub fn foreign(&mut self) -> Option<bool> {
        let which = self.bytes.below(256)?;
        let (mine, theirs) = (self.at, 1 - self.at);
        let Some(index) = which.checked_rem(self.sides[theirs].model.entries.len()) else {
            return Some(false);
        };
        let mut entry = self.sides[theirs].model.remove(index);
        let (subject, id) = (&self.sides[mine].subject, entry.id);
        let freed = subject.free(entry.region, FreeMethod::Free);
        let Err((no, mut region)) = freed else { panic!("{id:?} is the other's, and was taken") };
        let gpu = subject.allocator();
        let answers = [
            Err(no),
            subject.free_id(id),
            subject.facts_by_id(id).map(drop),
            subject.crop(&region, 0, 1, 1).map(drop),
            gpu.crop_id(id, 0, 1, 1).map(drop),
            gpu.refresh(&mut region),
            gpu.map(&region).map(drop),
            gpu.map_id(id).map(drop),
            gpu.flush(&region, 0, 1),
        ];
        let taken = "it is the other's";
        let detached = gpu.detach(region).expect_err(taken);
        let waits = gpu.free_when_unused(detached.value).expect_err(taken);
        let answers = answers.into_iter().chain([Err(detached.error), Err(waits.error)]);
        answers.for_each(|answer| assert_eq!(answer, Err(OtherAllocator.into()), "{id:?} is the other's"));
        entry.region = waits.value;
        self.sides[theirs].model.restore(entry);
        self.tried.note("foreign id");
        Some(true)
    }

    /// A root under living crops, or a mapped region: kept, and still as it was.
    pub fn free_held(&mut self) -> Option<bool> {
        let (which, how) = (self.bytes.below(64)?, self.bytes.next()?);
        let side = self.side();
        let entries = &side.model.entries;
        let is_held = |index: &usize| entries[*index].crops > 0 || entries[*index].maps > 0;
        let held: Vec<usize> = (0..entries.len()).filter(is_held).collect();
        let Some(which) = which.checked_rem(held.len()) else {
            return Some(false);
        };
        // Its crops are other entries: it goes out of the model and comes back.
        let mut entry = side.model.entries.swap_remove(held[which]);
        let (facts, why) = (entry.facts, (entry.crops > 0, entry.maps > 0));
        assert!(!matches!(entry.kind, Kind::Crop { .. }) || entry.crops == 0, "a crop counts at its root");
        let right = |no| {
            (no == HasCrops.into() && why.0)
                || (no == Mapped.into() && why.1)
                // Of a linear pool that it is another one's turn may be said first.
                || (no == OutOfOrder.into() && facts.class == Class::Linear)
        };
        let by_id = side.subject.free_id(entry.id);
        assert!(by_id.is_err_and(right), "{facts:x?}, held by (crops, maps) {why:?}, by its id: {by_id:?}");
        let way = if how % 3 == 2 { FreeMethod::Release } else { FreeMethod::Free };
        match side.subject.free(entry.region, way) {
            Err((no, region)) if right(no) => entry.region = region,
            other => panic!("{facts:x?}, held by (crops, maps) {why:?}: {:?}", other.map_err(|(no, _)| no)),
        }
        assert_eq!(side.subject.facts(&entry.region), facts, "what could not be freed is as it was");
        side.model.entries.push(entry);
        self.tried.note(if why.0 { "release under crops refused" } else { "release while mapped refused" });
        Some(true)
    }
}
