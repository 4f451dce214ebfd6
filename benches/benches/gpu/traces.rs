//! The four traces, from a seeded splitmix64: the same operations on every machine and for every allocator of a bench.

/// One step of a trace. A slot holds one region at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceOp {
    /// Allocates a region for an empty slot.
    Allocate {
        /// Below [`MemoryTrace::slots`].
        slot: u32,
        /// Bytes, above 0.
        size: u64,
    },
    /// Frees the region of a slot.
    Free {
        /// A slot with a region.
        slot: u32,
    },
}

/// The rounding of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeEnding {
    /// Not rounded.
    ByteOdd,
    /// To the next multiple of 256, as the requirements of Vulkan drivers mostly are.
    Rounded,
}

/// A trace. All its regions are freed at its end.
#[derive(Clone, Debug)]
pub struct MemoryTrace {
    /// `churn`, `frames`, `streaming` or `adversarial`.
    pub name: String,
    /// In order.
    pub ops: Vec<TraceOp>,
    /// How many slots there are.
    pub slots: usize,
    /// The alignment of every region, in bytes.
    pub align: u64,
    /// How many of the operations allocate.
    pub allocations: usize,
    /// The most bytes that are live at once.
    pub peak: u64,
    /// The operation after which `peak` is live.
    pub peak_at: usize,
    /// The number of live regions then.
    pub peak_live: usize,
    /// The most regions that are live at once.
    pub most_live: usize,
}

struct SplitMix(u64);

impl SplitMix {
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

struct TraceBuilder {
    random: SplitMix,
    sizes: SizeEnding,
    trace: MemoryTrace,
    /// Bytes in each slot; 0 for an empty slot.
    live_sizes: Vec<u64>,
    free_slots: Vec<u32>,
    live: u64,
    count: usize,
}

impl TraceBuilder {
    fn new(name: impl Into<String>, sizes: SizeEnding, align: u64) -> Self {
        let trace = MemoryTrace {
            name: name.into(),
            ops: Vec::new(),
            slots: 0,
            align,
            allocations: 0,
            peak: 0,
            peak_at: 0,
            peak_live: 0,
            most_live: 0,
        };
        Self { random: SplitMix(1), sizes, trace, live_sizes: Vec::new(), free_slots: Vec::new(), live: 0, count: 0 }
    }

    fn allocate(&mut self, size: u64) -> u32 {
        let size = match self.sizes {
            SizeEnding::ByteOdd => size,
            SizeEnding::Rounded => size.next_multiple_of(256),
        };
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.live_sizes.push(0);
            self.live_sizes.len() as u32 - 1
        });
        self.live_sizes[slot as usize] = size;
        self.live += size;
        self.count += 1;
        self.trace.allocations += 1;
        self.trace.most_live = self.trace.most_live.max(self.count);
        if self.live > self.trace.peak {
            (self.trace.peak, self.trace.peak_at, self.trace.peak_live) = (self.live, self.trace.ops.len(), self.count);
        }
        self.trace.ops.push(TraceOp::Allocate { slot, size });
        slot
    }

    fn free(&mut self, slot: u32) {
        self.live -= std::mem::take(&mut self.live_sizes[slot as usize]);
        self.count -= 1;
        self.free_slots.push(slot);
        self.trace.ops.push(TraceOp::Free { slot });
    }

    fn end(mut self) -> MemoryTrace {
        for slot in 0..self.live_sizes.len() {
            if self.live_sizes[slot] > 0 {
                self.free(slot as u32);
            }
        }
        self.trace.slots = self.live_sizes.len();
        self.trace
    }
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// The scale of the traces, in bytes. Frames and the adversarial trace always have the same sizes: 150 MiB and 220 MiB
/// live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceScale {
    /// The largest region of the churn, which has 10 000 live.
    pub churn: u64,
    /// The largest of the streaming, which has 580.
    pub texture: u64,
}

impl TraceScale {
    /// As the figures of `benches/README.md` are measured: 4.3 GiB and 5.3 GiB live.
    pub const FULL: Self = Self { churn: 4 * MIB, texture: 64 * MIB };
    /// Fits the 2 GiB heap of a software driver: 1.2 GiB and 1.6 GiB live.
    pub const SMALL: Self = Self { churn: MIB, texture: 16 * MIB };
}

/// All four traces; `amount` may reduce the number of rounds of each.
#[must_use]
pub fn all_traces(sizes: SizeEnding, scale: TraceScale, amount: impl Fn(usize) -> usize) -> [MemoryTrace; 4] {
    [
        churn("churn", sizes, 10_000, amount(200_000), scale.churn),
        frames(sizes, amount(150).max(10)),
        streaming(sizes, amount(60).max(6), scale.texture),
        adversarial(sizes),
    ]
}

/// `live` regions; `turns` times a random one is freed and another allocated.
#[must_use]
pub fn churn(name: impl Into<String>, sizes: SizeEnding, live: usize, turns: usize, largest: u64) -> MemoryTrace {
    let mut builder = TraceBuilder::new(name, sizes, 256);
    let mut slots: Vec<u32> = Vec::with_capacity(live);
    for _ in 0..live {
        let size = builder.random.log_uniform(256, largest);
        slots.push(builder.allocate(size));
    }
    for _ in 0..turns {
        let at = builder.random.below(live);
        builder.free(slots[at]);
        let size = builder.random.log_uniform(256, largest);
        slots[at] = builder.allocate(size);
    }
    builder.end()
}

/// 2000 regions a frame, each of which is freed two frames later.
fn frames(sizes: SizeEnding, frames: usize) -> MemoryTrace {
    let mut builder = TraceBuilder::new("frames", sizes, 256);
    let mut past: [Vec<u32>; 2] = [Vec::new(), Vec::new()];
    for frame in 0..frames {
        for slot in std::mem::take(&mut past[frame % 2]) {
            builder.free(slot);
        }
        for _ in 0..2000 {
            let size = builder.random.log_uniform(256, 256 * KIB);
            let slot = builder.allocate(size);
            past[frame % 2].push(slot);
        }
    }
    builder.end()
}

/// Textures, aligned to 64 KiB: repeatedly 580 are live, then half of them are freed.
fn streaming(sizes: SizeEnding, waves: usize, largest: u64) -> MemoryTrace {
    let mut builder = TraceBuilder::new("streaming", sizes, 64 * KIB);
    let mut slots: Vec<u32> = Vec::new();
    for _ in 0..waves {
        while slots.len() < 580 {
            let size = builder.random.log_uniform(64 * KIB, largest);
            slots.push(builder.allocate(size));
        }
        while slots.len() > 290 {
            let at = builder.random.below(slots.len());
            builder.free(slots.swap_remove(at));
        }
    }
    builder.end()
}

/// Regions of 256 bytes between holes of 64 KiB; then sizes that double, of which every other region is freed.
fn adversarial(sizes: SizeEnding) -> MemoryTrace {
    let mut builder = TraceBuilder::new("adversarial", sizes, 256);
    let mut holes = Vec::new();
    for _ in 0..2000 {
        let less = builder.random.below(256) as u64;
        holes.push(builder.allocate(64 * KIB - less));
        builder.allocate(256);
    }
    for slot in holes {
        builder.free(slot);
    }
    for shift in 8..22 {
        let size = 1_u64 << shift;
        let regions: Vec<u32> = (0..((48 * MIB) >> shift).min(2048))
            .map(|_| {
                let less = builder.random.below(256) as u64;
                builder.allocate(size - less)
            })
            .collect();
        for slot in regions.into_iter().step_by(2) {
            builder.free(slot);
        }
    }
    builder.end()
}
