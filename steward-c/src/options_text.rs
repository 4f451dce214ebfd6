//! The options of an allocator as text, as Halide's users write them.

use std::fmt;

use gpu_suballoc::AllocatorOptions;

/// Five numbers separated by colons, the last ones optional, in the format of Halide:
/// `pool_MB:min_block_MB:max_block_MB:max_blocks:nearest_multiple`.
///
/// Sizes are MiB, `nearest_multiple` is bytes; 0 is "no limit", or "the default" for block sizes and the multiple. The block sizes are
/// those of shared blocks, of all memory: a larger region is dedicated. Fields are decimal digits: no sign, no space, no empty field,
/// no sixth field.
pub(crate) fn parse(text: &str) -> Result<AllocatorOptions, OptionsParseError> {
    let mut fields = [0u64; 5];
    let mut places = OptionField::ALL.into_iter().zip(&mut fields);
    for part in text.split(':') {
        let (field, value) = places.next().ok_or(OptionsParseError::TooManyFields)?;
        *value = number(part, field)?;
    }
    let [pool, min_block, max_block, max_blocks, multiple] = fields;
    let mut options = AllocatorOptions::default();
    let memory = &mut options.memory;
    if pool > 0 {
        memory.max_bytes = bytes(pool, OptionField::Pool)?;
    }
    if min_block > 0 {
        if pool > 0 && pool < min_block {
            return Err(OptionsParseError::MinAbovePool);
        }
        memory.first_block = Some(bytes(min_block, OptionField::MinBlock)?);
    }
    if max_block > 0 {
        if max_block < min_block {
            return Err(OptionsParseError::MinAboveMax);
        }
        memory.max_block = Some(bytes(max_block, OptionField::MaxBlock)?);
    }
    if max_blocks > 0 {
        memory.max_allocations =
            u32::try_from(max_blocks).map_err(|_| OptionsParseError::TooLarge {
                field: OptionField::MaxBlocks,
            })?;
    }
    if multiple > 0 {
        memory.nearest_multiple = multiple;
    }
    Ok(options)
}

fn number(part: &str, field: OptionField) -> Result<u64, OptionsParseError> {
    if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(OptionsParseError::NotANumber { field });
    }
    part.parse()
        .map_err(|_| OptionsParseError::TooLarge { field })
}

/// From MiB.
fn bytes(mebibytes: u64, field: OptionField) -> Result<u64, OptionsParseError> {
    mebibytes
        .checked_mul(1 << 20)
        .ok_or(OptionsParseError::TooLarge { field })
}

/// A field of the text form of [`AllocatorOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionField {
    /// All blocks together, MiB.
    Pool,
    /// The smallest block, MiB.
    MinBlock,
    /// The largest block, MiB.
    MaxBlock,
    /// How many blocks.
    MaxBlocks,
    /// What block sizes are multiples of, bytes.
    NearestMultiple,
}

impl OptionField {
    const ALL: [Self; 5] = [
        Self::Pool,
        Self::MinBlock,
        Self::MaxBlock,
        Self::MaxBlocks,
        Self::NearestMultiple,
    ];
}

/// Why a text is no [`AllocatorOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionsParseError {
    /// A field is empty, or is not all decimal digits.
    NotANumber {
        /// Which.
        field: OptionField,
    },
    /// A number that does not fit: 64 bits of bytes, 32 bits of blocks.
    TooLarge {
        /// Which.
        field: OptionField,
    },
    /// A sixth field.
    TooManyFields,
    /// The smallest block is larger than the largest.
    MinAboveMax,
    /// The smallest block is larger than all together may be.
    MinAbovePool,
}

impl fmt::Display for OptionField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pool => "pool_MB",
            Self::MinBlock => "min_block_MB",
            Self::MaxBlock => "max_block_MB",
            Self::MaxBlocks => "max_blocks",
            Self::NearestMultiple => "nearest_multiple",
        })
    }
}

impl fmt::Display for OptionsParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber { field } => write!(f, "{field} is not a number: write decimal digits, or 0"),
            Self::TooLarge { field } => write!(f, "{field} is too large: write a smaller number, or 0"),
            Self::TooManyFields => f.write_str(
                "there are more than five fields: write pool_MB:min_block_MB:max_block_MB:max_blocks:nearest_multiple",
            ),
            Self::MinAboveMax => f.write_str("min_block_MB is above max_block_MB: exchange them, or write 0 for one"),
            Self::MinAbovePool => f.write_str("min_block_MB is above pool_MB: exchange them, or write 0 for one"),
        }
    }
}

impl std::error::Error for OptionsParseError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h115_options_are_read_strictly() {
        let all = parse("4096:2:64:100:4096").unwrap();
        assert_eq!(
            all.memory.max_bytes,
            4096 << 20,
            "Halide made 4096 MB of it \"no limit\""
        );
        assert_eq!(
            (all.memory.first_block, all.memory.max_block),
            (Some(2 << 20), Some(64 << 20))
        );
        assert_eq!(
            (all.memory.max_allocations, all.memory.nearest_multiple),
            (100, 4096)
        );
        assert_eq!(
            parse("2048").unwrap().memory.max_bytes,
            2048 << 20,
            "nor does this turn negative"
        );
        assert_eq!(
            parse("17592186044415").unwrap().memory.max_bytes,
            17_592_186_044_415 << 20
        );

        let bad = |text| parse(text).unwrap_err();
        assert_eq!(
            bad("17592186044416"),
            OptionsParseError::TooLarge {
                field: OptionField::Pool
            }
        );
        assert_eq!(
            bad("18446744073709551616"),
            OptionsParseError::TooLarge {
                field: OptionField::Pool
            }
        );
        assert_eq!(
            bad("1:1:1:4294967296"),
            OptionsParseError::TooLarge {
                field: OptionField::MaxBlocks
            }
        );
        for text in [
            "", "x", " 1", "1 ", "+1", "-1", "0x10", "1.5", "12MB", "\u{661}",
        ] {
            assert_eq!(
                bad(text),
                OptionsParseError::NotANumber {
                    field: OptionField::Pool
                },
                "{text:?}"
            );
        }
        assert_eq!(
            bad("1:"),
            OptionsParseError::NotANumber {
                field: OptionField::MinBlock
            }
        );
        assert_eq!(
            bad("1::1"),
            OptionsParseError::NotANumber {
                field: OptionField::MinBlock
            }
        );
        assert_eq!(
            bad("1:1:1:1:"),
            OptionsParseError::NotANumber {
                field: OptionField::NearestMultiple
            }
        );
        assert_eq!(bad("1:1:1:1:1:1"), OptionsParseError::TooManyFields);
        assert_eq!(
            bad("1;2"),
            OptionsParseError::NotANumber {
                field: OptionField::Pool
            }
        );
        assert_eq!(bad("0:3:2"), OptionsParseError::MinAboveMax);
        assert_eq!(
            bad("1:64"),
            OptionsParseError::MinAbovePool,
            "no block of 64 MiB fits into 1"
        );
        assert!(parse("64:64").is_ok());
        assert!(
            bad("0:x").to_string().contains("min_block_MB"),
            "the field is named"
        );
    }

    #[test]
    fn h116_what_is_not_said_is_the_default() {
        let default = AllocatorOptions::default();
        assert_eq!(parse("0"), Ok(default));
        assert_eq!(parse("0:0:0:0:0"), Ok(default));
        let mut one = default;
        one.memory.max_bytes = 7 << 20;
        assert_eq!(parse("7"), Ok(one));
        assert_eq!(
            default.memory,
            gpu_suballoc::pool::MemoryOptions::default(),
            "one source"
        );
    }
}
