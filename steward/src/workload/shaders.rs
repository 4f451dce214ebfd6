//! The compiled shaders. Their sources lie beside them in `shaders/`; a test compiles them again and compares.

#![forbid(unsafe_code)]

pub(super) const HASH_COMP: Code = Code(include_bytes!("../../shaders/hash.comp.spv"));
pub(super) const DRAW_VERT: Code = Code(include_bytes!("../../shaders/draw.vert.spv"));
pub(super) const DRAW_FRAG: Code = Code(include_bytes!("../../shaders/draw.frag.spv"));

/// A module as its file has it: words, least significant byte first.
pub(super) struct Code(&'static [u8]);

impl Code {
    pub(super) fn words(&self) -> Vec<u32> {
        self.0.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_begins_with_the_number_of_spir_v() {
        for code in [HASH_COMP, DRAW_VERT, DRAW_FRAG] {
            assert_eq!(code.0.len() % 4, 0);
            assert_eq!(code.words().first(), Some(&0x0723_0203));
        }
    }
}
