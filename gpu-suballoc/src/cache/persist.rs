//! Files of compiled shaders.
//!
//! ```text
//!   "STEWSHAD" | version u32 | header bytes u32 | identity of the device 48 |            all numbers are little-endian
//!   entry:  kind u64 | low u64 | high u64 | binary bytes u64 | binary
//!   ..
//!   count u64 | length of the file u64 | BLAKE3 of all before it, 32 bytes
//! ```
//! The file is untrusted: nothing in it is used before the version, the hash of the whole file and the device are
//! verified. The hash detects damage; it is no signature.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::{ContextHandle, HostError, TryVec};

use super::key::{CacheDevice, ContentHash, ShaderKey};
use crate::flags::debug_fields;

const MAGIC: [u8; 8] = *b"STEWSHAD";
const VERSION: u32 = 2;
const HEADER: usize = 64;
const TRAILER: usize = 48;
const ENTRY: usize = 32;

/// The device and driver that binaries are for, from `VkPhysicalDeviceProperties` and `VkPhysicalDeviceIDProperties`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreIdentity {
    /// `vendorID`.
    pub vendor: u32,
    /// `deviceID`.
    pub device: u32,
    /// `driverVersion`.
    pub driver_version: u32,
    /// The program's number for its format of binaries; files with another number are rejected.
    pub format: u32,
    /// `pipelineCacheUUID`.
    pub pipeline_cache_uuid: [u8; 16],
    /// `deviceUUID`; zeros if unknown.
    pub device_uuid: [u8; 16],
}

impl StoreIdentity {
    fn bytes(&self) -> impl Iterator<Item = u8> {
        let words = [self.vendor, self.device, self.driver_version, self.format];
        words.into_iter().flat_map(u32::to_le_bytes).chain(self.pipeline_cache_uuid).chain(self.device_uuid)
    }
}

/// Receives a file, piece by piece.
pub trait StoreSink {
    /// Why a write failed.
    type Error;

    /// Writes the next bytes.
    ///
    /// # Errors
    /// The sink's error; nothing more is written then.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
}

/// Writes a file of shaders. After an error of the sink the file must not be used.
pub struct StoreWriter<'s, S: StoreSink> {
    sink: &'s mut S,
    hash: blake3::Hasher,
    count: u64,
    length: u64,
}

debug_fields!(
    [S: StoreSink] StoreWriter<'_, S>, "StoreWriter",
    |this| count = this.count, length = this.length
);

impl<'s, S: StoreSink> StoreWriter<'s, S> {
    /// Begins a file for this device.
    pub fn new(sink: &'s mut S, identity: &StoreIdentity) -> Result<Self, S::Error> {
        let mut writer = Self { sink, hash: blake3::Hasher::new(), count: 0, length: 0 };
        let mut header = [0; HEADER];
        let parts =
            MAGIC.into_iter().chain(VERSION.to_le_bytes()).chain((HEADER as u32).to_le_bytes()).chain(identity.bytes());
        header.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        writer.put(&header)?;
        Ok(writer)
    }

    /// Adds a shader: its key and its binary.
    pub fn add(&mut self, key: ShaderKey, binary: &[u8]) -> Result<(), S::Error> {
        let mut entry = [0; ENTRY];
        let words = [u64::from(key.is_hashed()), key.low, key.high, binary.len() as u64];
        let words = words.into_iter().flat_map(u64::to_le_bytes);
        entry.iter_mut().zip(words).for_each(|(to, from)| *to = from);
        self.put(&entry)?;
        self.put(binary)?;
        self.count += 1;
        Ok(())
    }

    /// Ends the file; returns its numbers of shaders and of bytes.
    pub fn finish(mut self) -> Result<(u64, u64), S::Error> {
        let (count, length) = (self.count, self.length.saturating_add(TRAILER as u64));
        self.put(&count.to_le_bytes())?;
        self.put(&length.to_le_bytes())?;
        let hash = self.hash.finalize();
        self.sink.write(hash.as_bytes())?;
        Ok((count, length))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), S::Error> {
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
        self.sink.write(bytes)
    }
}

/// A file that is complete, of this version, and for this device.
#[derive(Clone, Copy, Debug)]
pub struct StoredShaders<'b> {
    entries: &'b [u8],
    count: u64,
}

/// A shader of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredShader<'b> {
    /// The shader's key, on the device that reads the file.
    pub key: ShaderKey,
    /// The binary.
    pub binary: &'b [u8],
}

impl<'b> StoredShaders<'b> {
    /// Verifies a whole file, and allocates nothing.
    ///
    /// # Errors
    /// [`StoreError`]. Nothing of such a file may be used.
    pub fn open(file: &'b [u8], identity: &StoreIdentity) -> Result<Self, StoreError> {
        let (head, _) = file.split_first_chunk::<8>().ok_or(StoreError::Truncated)?;
        if *head != MAGIC {
            return Err(StoreError::NotAStore);
        }
        let version = number(file, 8, 4).ok_or(StoreError::Truncated)?;
        if version != u64::from(VERSION) {
            return Err(StoreError::OtherVersion { version: version as u32 });
        }
        let body = file.len().checked_sub(TRAILER).filter(|body| *body >= HEADER).ok_or(StoreError::Truncated)?;
        let (before, hash) = file.split_at_checked(file.len().saturating_sub(32)).ok_or(StoreError::Truncated)?;
        if number(file, body + 8, 8) != Some(file.len() as u64) {
            return Err(StoreError::Truncated);
        }
        if blake3::hash(before).as_bytes() != hash {
            return Err(StoreError::Damaged);
        }
        let header = file.get(16..HEADER).ok_or(StoreError::Truncated)?;
        if !identity.bytes().eq(header.iter().copied()) || number(file, 12, 4) != Some(HEADER as u64) {
            return Err(StoreError::OtherDevice);
        }
        let entries = file.get(HEADER..body).ok_or(StoreError::Truncated)?;
        Ok(Self { entries, count: number(file, body, 8).ok_or(StoreError::Truncated)? })
    }

    /// The number of shaders.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The shaders in the order of writing, with keys of this device.
    pub fn iter(&self, device: CacheDevice) -> impl Iterator<Item = StoredShader<'b>> + use<'b> {
        let mut rest = self.entries;
        let mut left = self.count;
        core::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let (shader, after) = shader(rest, device)?;
            rest = after;
            Some(shader)
        })
    }
}

fn shader(bytes: &[u8], device: CacheDevice) -> Option<(StoredShader<'_>, &[u8])> {
    let (low, high) = (number(bytes, 8, 8)?, number(bytes, 16, 8)?);
    let binary = usize::try_from(number(bytes, 24, 8)?).ok()?;
    let (binary, rest) = bytes.get(ENTRY..)?.split_at_checked(binary)?;
    let key = match number(bytes, 0, 8)? {
        0 => ShaderKey::kernel(device, low),
        _ => ShaderKey::content(device, ContentHash::from_raw(u128::from(high) << 64 | u128::from(low))),
    };
    Some((StoredShader { key, binary }, rest))
}

fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let part = bytes.get(at..at.checked_add(width)?)?;
    Some(part.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Why a file is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// Not a file of shaders.
    NotAStore,
    /// Another version of this format.
    OtherVersion {
        /// The file's version.
        version: u32,
    },
    /// The file is shorter or longer than it should be.
    Truncated,
    /// A bit differs.
    Damaged,
    /// Another device, driver, or format of binaries.
    OtherDevice,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAStore => f.write_str("this is no file of compiled shaders")?,
            Self::OtherVersion { version } => {
                write!(f, "the file of shaders has version {version}, and {VERSION} can be read")?
            }
            Self::Truncated => f.write_str("the file of shaders is not whole")?,
            Self::Damaged => f.write_str("the file of shaders is damaged")?,
            Self::OtherDevice => f.write_str("the file of shaders is another device's, or driver's")?,
        }
        f.write_str(": compile again, and write it anew")
    }
}

impl core::error::Error for StoreError {}

impl StoreSink for TryVec<u8, ContextHandle> {
    type Error = HostError;

    fn write(&mut self, bytes: &[u8]) -> Result<(), HostError> {
        self.try_extend_from_slice(bytes)
    }
}
