//! Rounds flush ranges to `nonCoherentAtomSize`.

#![forbid(unsafe_code)]

/// `offset .. offset + size`, absolute within a memory object of `memory_size` bytes, as whole atoms: multiples of `atom`, or to the
/// end of the memory object (`VkMappedMemoryRange`). `None` where the range is empty or not within the memory.
///
/// Regions of our own blocks begin and end at granules, which are whole atoms, so their ranges never name a neighbour's byte.
/// Wrapped memory may begin anywhere: its first and last atom may be shared with its neighbours.
pub(crate) fn whole_atoms(
    offset: u64,
    size: u64,
    atom: u64,
    memory_size: u64,
) -> Option<(u64, u64)> {
    let end = offset.checked_add(size)?;
    if size == 0 || end > memory_size || !atom.is_power_of_two() {
        return None;
    }
    let first = offset & !(atom - 1);
    let last = end
        .checked_next_multiple_of(atom)
        .unwrap_or(memory_size)
        .min(memory_size);
    Some((first, last - first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h109_a_range_is_whole_atoms_or_ends_with_the_memory() {
        assert_eq!(whole_atoms(0, 1, 64, 1000), Some((0, 64)));
        assert_eq!(whole_atoms(63, 2, 64, 1000), Some((0, 128)));
        assert_eq!(whole_atoms(64, 64, 64, 1000), Some((64, 64)));
        assert_eq!(
            whole_atoms(990, 10, 64, 1000),
            Some((960, 40)),
            "the last atom is cut"
        );
        assert_eq!(whole_atoms(990, 11, 64, 1000), None);
        assert_eq!(whole_atoms(5, 0, 64, 1000), None);
        assert_eq!(whole_atoms(u64::MAX, 2, 64, u64::MAX), None);
        assert_eq!(
            whole_atoms(u64::MAX - 2, 2, 256, u64::MAX),
            Some((u64::MAX - 255, 255))
        );
        assert_eq!(whole_atoms(7, 3, 1, 1000), Some((7, 3)));
    }

    #[test]
    fn every_small_range_is_covered_and_nothing_beyond_its_atoms_is() {
        for atom in [1u64, 2, 4, 16] {
            for memory in 1..40u64 {
                for offset in 0..memory {
                    for size in 1..=memory - offset {
                        let (first, bytes) = whole_atoms(offset, size, atom, memory).unwrap();
                        assert!(
                            first <= offset
                                && first + bytes >= offset + size
                                && first + bytes <= memory
                        );
                        assert_eq!(first % atom, 0);
                        assert!(bytes % atom == 0 || first + bytes == memory);
                        assert!(offset - first < atom && first + bytes - (offset + size) < atom);
                    }
                }
            }
        }
    }
}
