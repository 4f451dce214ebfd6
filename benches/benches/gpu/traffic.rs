//! The four traces, from a seeded splitmix64: the same operations for everybody.

/// One step of a trace; a slot holds one piece at a time.
#[derive(Clone, Copy)]
pub enum Op {
    Take { slot: u32, size: u64 },
    Give { slot: u32 },
}

/// How sizes end: as they fall, or at the next multiple of 256 as a Vulkan driver's requirements mostly do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    ByteOdd,
    Rounded,
}

pub const SIZES: [(&str, Sizes); 2] = [("odd", Sizes::ByteOdd), ("rounded", Sizes::Rounded)];

/// A trace ready to be played. Everything is given back at its end.
pub struct Trace {
    pub name: String,
    pub ops: Vec<Op>,
    pub slots: usize,
    pub align: u64,
    pub takes: usize,
    /// Most bytes live at once, after which operation, and in how many pieces.
    pub peak: u64,
    pub peak_at: usize,
    pub peak_live: usize,
    /// Most pieces live at once.
    pub most: usize,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// Each power of two is as likely as the next.
    fn log_uniform(&mut self, low: u64, high: u64) -> u64 {
        let part = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (low as f64 * (high as f64 / low as f64).powf(part)) as u64
    }
}

struct Maker {
    random: Random,
    sizes: Sizes,
    trace: Trace,
    /// Bytes in each slot; 0 is none.
    held: Vec<u64>,
    spare: Vec<u32>,
    live: u64,
    count: usize,
}

impl Maker {
    fn new(name: impl Into<String>, sizes: Sizes, align: u64) -> Self {
        let trace = Trace {
            name: name.into(),
            ops: Vec::new(),
            slots: 0,
            align,
            takes: 0,
            peak: 0,
            peak_at: 0,
            peak_live: 0,
            most: 0,
        };
        Self {
            random: Random(1),
            sizes,
            trace,
            held: Vec::new(),
            spare: Vec::new(),
            live: 0,
            count: 0,
        }
    }

    fn take(&mut self, size: u64) -> u32 {
        let size = match self.sizes {
            Sizes::ByteOdd => size,
            Sizes::Rounded => size.next_multiple_of(256),
        };
        let slot = self.spare.pop().unwrap_or_else(|| {
            self.held.push(0);
            self.held.len() as u32 - 1
        });
        self.held[slot as usize] = size;
        self.live += size;
        self.count += 1;
        self.trace.takes += 1;
        self.trace.most = self.trace.most.max(self.count);
        if self.live > self.trace.peak {
            (self.trace.peak, self.trace.peak_at, self.trace.peak_live) =
                (self.live, self.trace.ops.len(), self.count);
        }
        self.trace.ops.push(Op::Take { slot, size });
        slot
    }

    fn give(&mut self, slot: u32) {
        self.live -= std::mem::take(&mut self.held[slot as usize]);
        self.count -= 1;
        self.spare.push(slot);
        self.trace.ops.push(Op::Give { slot });
    }

    fn end(mut self) -> Trace {
        for slot in 0..self.held.len() {
            if self.held[slot] > 0 {
                self.give(slot as u32);
            }
        }
        self.trace.slots = self.held.len();
        self.trace
    }
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// What a trace is scaled to: the most that one piece of the churn may be, and of the streaming.
#[derive(Clone, Copy)]
pub struct Scale {
    pub churn: u64,
    pub texture: u64,
}

/// As the figures that exist were measured: 4.3 GiB and 5.3 GiB live.
pub const FULL: Scale = Scale {
    churn: 4 * MIB,
    texture: 64 * MIB,
};
/// What fits the 2 GiB heap of a software driver.
pub const SMALL: Scale = Scale {
    churn: MIB,
    texture: 16 * MIB,
};

/// All four.
pub fn all(sizes: Sizes, scale: Scale, amount: impl Fn(usize) -> usize) -> [Trace; 4] {
    [
        churn("churn", sizes, 10_000, amount(200_000), scale.churn),
        frames(sizes, amount(150).max(10)),
        streaming(sizes, amount(60).max(6), scale.texture),
        adversarial(sizes),
    ]
}

/// `live` pieces; `turns` times one of them, in no order, goes and another comes.
pub fn churn(name: impl Into<String>, sizes: Sizes, live: usize, turns: usize, most: u64) -> Trace {
    let mut maker = Maker::new(name, sizes, 256);
    let mut slots: Vec<u32> = Vec::with_capacity(live);
    for _ in 0..live {
        let size = maker.random.log_uniform(256, most);
        slots.push(maker.take(size));
    }
    for _ in 0..turns {
        let at = maker.random.below(live);
        maker.give(slots[at]);
        let size = maker.random.log_uniform(256, most);
        slots[at] = maker.take(size);
    }
    maker.end()
}

/// 2000 pieces a frame, each of which goes two frames later.
pub fn frames(sizes: Sizes, frames: usize) -> Trace {
    let mut maker = Maker::new("frames", sizes, 256);
    let mut past: [Vec<u32>; 2] = [Vec::new(), Vec::new()];
    for frame in 0..frames {
        for slot in std::mem::take(&mut past[frame % 2]) {
            maker.give(slot);
        }
        for _ in 0..2000 {
            let size = maker.random.log_uniform(256, 256 * KIB);
            let slot = maker.take(size);
            past[frame % 2].push(slot);
        }
    }
    maker.end()
}

/// Textures, aligned to 64 KiB: 580 come, half of them go, again and again.
fn streaming(sizes: Sizes, waves: usize, most: u64) -> Trace {
    let mut maker = Maker::new("streaming", sizes, 64 * KIB);
    let mut slots: Vec<u32> = Vec::new();
    for _ in 0..waves {
        while slots.len() < 580 {
            let size = maker.random.log_uniform(64 * KIB, most);
            slots.push(maker.take(size));
        }
        while slots.len() > 290 {
            let at = maker.random.below(slots.len());
            maker.give(slots.swap_remove(at));
        }
    }
    maker.end()
}

/// Pinned pieces of 256 bytes between holes of 64 KiB; then sizes that double while every other piece goes.
fn adversarial(sizes: Sizes) -> Trace {
    let mut maker = Maker::new("adversarial", sizes, 256);
    let mut holes = Vec::new();
    for _ in 0..2000 {
        let less = maker.random.below(256) as u64;
        holes.push(maker.take(64 * KIB - less));
        maker.take(256);
    }
    for slot in holes {
        maker.give(slot);
    }
    for shift in 8..22 {
        let size = 1_u64 << shift;
        let pieces: Vec<u32> = (0..((48 * MIB) >> shift).min(2048))
            .map(|_| {
                let less = maker.random.below(256) as u64;
                maker.take(size - less)
            })
            .collect();
        for slot in pieces.into_iter().step_by(2) {
            maker.give(slot);
        }
    }
    maker.end()
}
