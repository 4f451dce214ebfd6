/// What is no character becomes the mark for that.
pub(super) fn characters(units: impl Iterator<Item = u16>) -> impl Iterator<Item = char> {
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
}

/// Stops where `text` has no room.
pub(super) fn write(characters: impl Iterator<Item = char>, text: &mut [u8]) -> &str {
    let mut written = 0;
    for character in characters {
        let mut bytes = [0; 4];
        let bytes = character.encode_utf8(&mut bytes).as_bytes();
        let Some(room) = text.get_mut(written..written + bytes.len()) else {
            break;
        };
        room.copy_from_slice(bytes);
        written += bytes.len();
    }
    core::str::from_utf8(text.get(..written).unwrap_or_default()).unwrap_or_default()
}
