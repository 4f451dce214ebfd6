//! DI8: buffers and optimal images share the blocks of a memory type. Where they meet, one begins on the next page of
//! `bufferImageGranularity`. The mock finds each page that has both.

use super::*;

/// Four bytes a texel.
const RGBA8: u32 = 37;
const PAGES: [u64; 5] = [1, 1024, 4096, 65_536, 131_072];

/// A device whose images may begin within a page.
fn with_pages(granularity: u64, body: impl FnOnce(Scene<'_>)) {
    let mut config = Nvidia.config();
    config.limits.buffer_image_granularity = granularity;
    config.rules.optimal_alignment = 256;
    let mock = Mock::with_config(config);
    on_mock(&mock, body);
}

fn image_info(kib: u32) -> ImageInfo {
    let usage = ImageUsage::TRANSFER_SRC.as_raw() | ImageUsage::TRANSFER_DST.as_raw();
    ImageInfo::new_2d(RGBA8, 256, kib, ImageUsage::from_raw(usage))
}

impl Scene<'_> {
    /// An image of `kib` KiB.
    fn image(&self, kib: u32) -> Region {
        self.gpu.create_image(&image_info(kib), &any()).unwrap()
    }

    fn reserved(&self) -> u64 {
        self.gpu.stats().total.block_bytes
    }
}

/// What wgpu makes, on a device like SwiftShader: one memory type, pages of 4096 bytes, and gpu-allocator's blocks of
/// 64 MiB, with which it had 67 MB after the textures and 201 MB at the peak. With a pool for each kind we had 134 and
/// 268. As many blocks as the bytes fill is the least that any allocator can have.
#[test]
fn di8_wgpus_textures_take_no_more_blocks_than_their_bytes_fill() {
    const BLOCK: u64 = 64 * MIB;
    let mut config = Lavapipe.config();
    config.limits.buffer_image_granularity = 4096;
    config.rules.optimal_alignment = 256;
    let mock = Mock::with_config(config);
    scene_on(&mock, with_memory(blocks_of(BLOCK)), |s| {
        let blocks = |bytes: u64| bytes.div_ceil(BLOCK) * BLOCK;
        let used = || s.total().region_bytes;
        let mut rng = Rng::new(3);
        let texture = |turn: u64| {
            let side = 16 << (turn % 5);
            s.image(side as u32)
        };
        let uniforms = Vec::from_iter((0..200).map(|turn| s.buffer(256 + turn * 60)));
        let textures = Vec::from_iter((0..400).map(texture));
        let staging = Vec::from_iter((0..100).map(|turn| s.buffer(KIB << (turn % 6))));
        assert!(used() < BLOCK, "{}", used());
        assert_eq!(s.reserved(), BLOCK, "after the textures");
        let mut live: Vec<Option<Region>> = [uniforms, textures, staging].into_iter().flatten().map(Some).collect();
        live.resize_with(2100, || None);
        let (mut peak, mut most) = (used(), s.reserved());
        for _ in 0..4000 {
            let at = rng.below(live.len() as u64) as usize;
            if let Some(region) = live[at].take() {
                s.free(region);
            }
            live[at] = Some(match rng.below(7) {
                0..4 => texture(rng.next() >> 8),
                _ => s.buffer(256 + rng.below(64 * KIB)),
            });
            (peak, most) = (peak.max(used()), most.max(s.reserved()));
        }
        assert!(peak > 2 * BLOCK && most <= blocks(peak), "{most} for {peak}");
        s.free_each(live.into_iter().flatten());
        assert_eq!(s.reserved(), BLOCK, "of all that was freed");
    });
}

/// Churn of both kinds: what the seams cost. That moves keep them is in `region_model`.
#[test]
fn di8_a_churn_of_both_kinds_needs_little_more() {
    let mut alone = 0;
    for page in PAGES {
        with_pages(page, |s| {
            let mut rng = Rng::new(3);
            let mut live: Vec<Option<Region>> = (0..1000).map(|_| None).collect();
            for turn in 0..3000 {
                let at = if turn < live.len() { turn } else { rng.below(live.len() as u64) as usize };
                if let Some(region) = live[at].take() {
                    s.free(region);
                }
                let kib = 1 << rng.below(8);
                live[at] = Some(match rng.below(2) {
                    0 => s.buffer(kib * KIB - rng.below(KIB)),
                    _ => s.image(kib as u32),
                });
            }
            let reserved = s.reserved();
            println!("pages of {page}: {} KiB reserved", reserved >> 10);
            if page == 1 {
                alone = reserved;
            }
            let most = alone + alone / 8;
            assert!(reserved <= most, "{reserved} of {most}, pages of {page}");
            for region in live.into_iter().flatten() {
                s.free(region);
            }
        });
    }
}
