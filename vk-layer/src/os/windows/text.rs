use alloc_core::{HostError, TryString, TryVec};

use crate::record::{Own, own};

/// `None` for what is no text.
pub(super) fn from_wide(units: &[u16]) -> Result<Option<TryString<Own>>, HostError> {
    let mut text = TryString::new_in(own());
    for character in char::decode_utf16(units.iter().copied()) {
        let Ok(character) = character else {
            return Ok(None);
        };
        text.try_push(character)?;
    }
    Ok(Some(text))
}

/// A 0 ends it.
pub(super) fn to_wide(text: &str) -> Result<TryVec<u16, Own>, HostError> {
    let mut units = TryVec::new_in(own());
    for unit in text.encode_utf16().chain([0]) {
        units.try_push(unit).map_err(|refused| refused.error)?;
    }
    Ok(units)
}
