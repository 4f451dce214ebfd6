#![forbid(unsafe_code)]

use core::fmt;

use crate::pool::MemoryOptions;

/// The options of an allocator.
#[doc(alias("VmaAllocatorCreateInfo", "AllocatorCreateDesc"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocatorOptions {
    /// Blocks, pools and limits.
    pub memory: MemoryOptions,
    /// [`GpuAllocator::release`](crate::GpuAllocator::release) keeps buffers for the next exact fit.
    pub reuse: bool,
    /// Most buffers that are kept, up to 1024; the oldest is replaced.
    pub max_reusable_buffers: u32,
    /// Most bytes of kept buffers.
    pub max_reusable_bytes: u64,
}

impl AllocatorOptions {
    /// Each creation of a buffer searches all kept ones.
    pub(crate) const MAX_REUSABLE_BUFFERS: u32 = 1024;
}

impl Default for AllocatorOptions {
    fn default() -> Self {
        Self { memory: MemoryOptions::default(), reuse: true, max_reusable_buffers: 64, max_reusable_bytes: 64 << 20 }
    }
}

/// Five numbers separated by colons, the last ones optional, as in Halide:
/// `pool_MB:min_block_MB:max_block_MB:max_blocks:nearest_multiple`.
///
/// Sizes are MiB, `nearest_multiple` is bytes; 0 is "no limit", or the default. Fields are decimal digits.
impl core::str::FromStr for AllocatorOptions {
    type Err = OptionsParseError;

    fn from_str(text: &str) -> Result<Self, OptionsParseError> {
        let mut fields = [0u64; 5];
        let mut places = OptionField::ALL.into_iter().zip(&mut fields);
        for part in text.split(':') {
            let (field, value) = places.next().ok_or(OptionsParseError::TooManyFields)?;
            *value = number(part, field)?;
        }
        let [pool, min_block, max_block, max_blocks, multiple] = fields;
        let mut options = Self::default();
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
                u32::try_from(max_blocks).map_err(|_| OptionsParseError::TooLarge { field: OptionField::MaxBlocks })?;
        }
        if multiple > 0 {
            memory.nearest_multiple = multiple;
        }
        Ok(options)
    }
}

fn number(part: &str, field: OptionField) -> Result<u64, OptionsParseError> {
    if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(OptionsParseError::NotANumber { field });
    }
    part.parse().map_err(|_| OptionsParseError::TooLarge { field })
}

fn bytes(mebibytes: u64, field: OptionField) -> Result<u64, OptionsParseError> {
    mebibytes.checked_mul(1 << 20).ok_or(OptionsParseError::TooLarge { field })
}

/// A field of the text form of [`AllocatorOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionField {
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
    const ALL: [Self; 5] = [Self::Pool, Self::MinBlock, Self::MaxBlock, Self::MaxBlocks, Self::NearestMultiple];
}

/// Why a text is no [`AllocatorOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionsParseError {
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

impl core::error::Error for OptionsParseError {}
