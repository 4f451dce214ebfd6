use crate::interpreter::{Invocation, Value, World};
use crate::spirv::{Answer, MAX_IDS, Module, Unsupported};
use crate::words::id;

impl<W: World> Invocation<'_, '_, W> {
    pub(crate) fn shuffle(&self, operands: &[u32]) -> Answer<[u32; 4]> {
        let [first, second] = [self.words(operands, 2)?, self.words(operands, 3)?];
        let of = self.type_of.get(id(operands, 2)?).ok_or(Unsupported)?;
        let width = self.module.width(*of)?;
        let picks = operands.get(4..).ok_or(Unsupported)?;
        let mut words = [0; 4];
        if picks.len() > words.len() {
            return Err(Unsupported);
        }
        for (word, pick) in words.iter_mut().zip(picks) {
            let pick = *pick as usize;
            let picked = if pick < width { first.get(pick) } else { second.get(pick - width) };
            *word = *picked.ok_or(Unsupported)?;
        }
        Ok(words)
    }
}

pub(crate) fn concat(
    module: &Module<'_>,
    type_of: &[usize; MAX_IDS],
    values: &[Value; MAX_IDS],
    parts: &[u32],
) -> Answer<[u32; 4]> {
    let mut words = [0; 4];
    let mut places = words.iter_mut();
    for index in 0..parts.len() {
        let part = id(parts, index)?;
        let width = module.width(*type_of.get(part).ok_or(Unsupported)?)?;
        let value = values.get(part).ok_or(Unsupported)?.words()?;
        for word in value.into_iter().take(width) {
            *places.next().ok_or(Unsupported)? = word;
        }
    }
    Ok(words)
}

/// For two numbers, or for each pair of components of two vectors.
pub(crate) fn binary(code: u32, a: [u32; 4], b: [u32; 4]) -> Answer<[u32; 4]> {
    let floats = |make: fn(f32, f32) -> f32, a, b| make(f32::from_bits(a), f32::from_bits(b)).to_bits();
    let one = |a: u32, b: u32| {
        Ok(match code {
            128 => a.wrapping_add(b),
            130 => a.wrapping_sub(b),
            132 => a.wrapping_mul(b),
            129 => floats(|a, b| a + b, a, b),
            131 => floats(|a, b| a - b, a, b),
            133 => floats(|a, b| a * b, a, b),
            136 => floats(|a, b| a / b, a, b),
            194 => a.checked_shr(b).unwrap_or(0),
            195 => a.cast_signed().checked_shr(b).unwrap_or(0).cast_unsigned(),
            196 => a.checked_shl(b).unwrap_or(0),
            197 => a | b,
            198 => a ^ b,
            199 => a & b,
            _ => return Err(Unsupported),
        })
    };
    let mut words = [0; 4];
    for (word, (a, b)) in words.iter_mut().zip(a.into_iter().zip(b)) {
        *word = one(a, b)?;
    }
    Ok(words)
}
