//! A scenario of Halide's own tests of its block allocator.

use super::*;

/// One rule for both: never a block that is too small for the region it was made for, and then another one.
#[test]
fn h101_the_block_made_for_a_request_holds_its_region() {
    for (granule, multiple) in [(16, 32), (32, 64), (64, 32), (256, 1), (256, 96), (4096, 32)] {
        let mut options = AllocatorOptions::default();
        options.memory.granule = granule;
        options.memory.nearest_multiple = multiple;
        // Each block is made for its request.
        options.memory.first_block = Some(u64::from(granule));
        everywhere(options, |s| {
            for (size, alignment) in
                [(15_630_480, 16), (15_630_480, 64), (9_338_976, 64), (96, 64), (1, 1), (4097, 4096)]
            {
                let before = (s.made(), s.objects());
                let never = shared();
                let region = s.must_allocate(&ResourceRequirements::new(size, alignment), &never);
                let made = (s.made() - before.0, s.objects() - before.1);
                assert_eq!(made, (1, 1), "{size} at {alignment} in granules of {granule}, blocks of {multiple}");
                let block = s.request_of(&region).size;
                assert!(region.size() >= size && region.offset() + region.size() <= block);
                s.free(region);
                s.trim(u64::MAX);
            }
        });
    }
}
