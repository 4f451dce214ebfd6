//! Options as text, and where defaults come from.

use super::*;

fn parse(text: &str) -> Result<AllocatorOptions, OptionsParseError> {
    text.parse()
}

#[test]
fn h115_options_are_read_strictly() {
    let all = parse("4096:2:64:100:4096").unwrap();
    assert_eq!(all.memory.max_bytes, 4096 << 20, "Halide made 4096 MB of it \"no limit\"");
    assert_eq!((all.memory.first_block, all.memory.max_block), (Some(2 << 20), Some(64 << 20)));
    assert_eq!((all.memory.max_allocations, all.memory.nearest_multiple), (100, 4096));
    assert_eq!(parse("2048").unwrap().memory.max_bytes, 2048 << 20, "nor does this turn negative");
    assert_eq!(parse("17592186044415").unwrap().memory.max_bytes, 17_592_186_044_415 << 20);

    use OptionField::*;
    let large = |field| OptionsParseError::TooLarge { field };
    let no_number = |field| OptionsParseError::NotANumber { field };
    let bad = |text| parse(text).unwrap_err();
    for (text, error) in [
        ("17592186044416", large(Pool)),
        ("18446744073709551616", large(Pool)),
        ("1:1:1:4294967296", large(MaxBlocks)),
        ("1:", no_number(MinBlock)),
        ("1::1", no_number(MinBlock)),
        ("1:1:1:1:", no_number(NearestMultiple)),
        ("1:1:1:1:1:1", OptionsParseError::TooManyFields),
        ("1;2", no_number(Pool)),
        ("0:3:2", OptionsParseError::MinAboveMax),
        // No block of 64 MiB fits into 1.
        ("1:64", OptionsParseError::MinAbovePool),
    ] {
        assert_eq!(bad(text), error, "{text:?}");
    }
    for text in ["", "x", " 1", "1 ", "+1", "-1", "0x10", "1.5", "12MB", "\u{661}"] {
        assert_eq!(bad(text), no_number(Pool), "{text:?}");
    }
    assert!(parse("64:64").is_ok());
    assert!(bad("0:x").to_string().contains("min_block_MB"), "the field is named");
}

#[test]
fn h116_what_is_not_said_is_the_default() {
    let default = AllocatorOptions::default();
    assert_eq!(parse("0"), Ok(default));
    assert_eq!(parse("0:0:0:0:0"), Ok(default));
    let mut one = default;
    one.memory.max_bytes = 7 << 20;
    assert_eq!(parse("7"), Ok(one));
    assert_eq!(default.memory, MemoryOptions::default(), "one source");
}

#[test]
fn options_out_of_range_give_device_and_memory_back() {
    let mock = Mock::new(Nvidia);
    let mut bad = [AllocatorOptions::default(); 4];
    bad[0].max_reusable_buffers = 1025;
    bad[1].memory.granule = 100;
    bad[2].memory.first_block = Some(0);
    bad[3].memory.margin = 4097;
    for options in bad {
        // SAFETY: as in `scene`.
        let refused = unsafe { GpuAllocator::new(&mock, RecordingAllocator::system(), options) }.unwrap_err();
        assert_eq!(refused.error, BadOptions.into());
        let (device, memory) = refused.value;
        memory.assert_empty("by a refused allocator");
        assert_eq!(device.all_calls(), 0);
    }
}
