use crate::spirv::{Answer, MAX_IDS, Unsupported};

/// Code, operands, and the start of the next instruction.
pub(crate) fn instruction(words: &[u32], at: usize) -> Answer<Option<(u32, &[u32], usize)>> {
    let Some(first) = words.get(at) else {
        return Ok(None);
    };
    let next = at + (first >> 16) as usize;
    let operands = words.get(at + 1..next).ok_or(Unsupported)?;
    Ok(Some((first & 0xFFFF, operands, next)))
}

pub(crate) fn operand(operands: &[u32], index: usize) -> Answer<u32> {
    operands.get(index).copied().ok_or(Unsupported)
}

pub(crate) fn id(operands: &[u32], index: usize) -> Answer<usize> {
    let id = operand(operands, index)? as usize;
    (id > 0 && id < MAX_IDS).then_some(id).ok_or(Unsupported)
}

/// Calls `visit` with the position of each specialisation constant's word, and its number.
pub(crate) fn each_specialization(words: &[u32], mut visit: impl FnMut(usize, u32)) -> Answer<()> {
    let mut at = 5;
    while let Some((code, operands, next)) = instruction(words, at)? {
        if let (50, &[_, result, _]) = (code, operands) {
            let mut look = 5;
            while let Some((code, operands, after)) = instruction(words, look)? {
                if let (71, &[target, 1, number]) = (code, operands)
                    && target == result
                {
                    visit(at + 3, number);
                }
                look = after;
            }
        }
        at = next;
    }
    Ok(())
}

pub(crate) const fn is_executable(code: u32) -> bool {
    matches!(
        code,
        55..=57
            | 59
            | 61
            | 62
            | 65
            | 79..=81
            | 87
            | 95
            | 100
            | 109..=112
            | 124
            | 127..=133
            | 136
            | 142
            | 194..=200
            | 248
            | 253
            | 254
    )
}

/// A NUL must follow the name.
pub(crate) fn is_named(words: &[u32], name: &[u8]) -> bool {
    let mut bytes = words.iter().flat_map(|word| word.to_le_bytes());
    name.iter().all(|byte| bytes.next() == Some(*byte)) && bytes.next() == Some(0)
}
