//! Caches the memory type that was selected for the same request before.

#![forbid(unsafe_code)]

use core::sync::atomic::fence;

use crate::memory_type::MemoryPreference;
use crate::property_flags::PropertyFlags;
use crate::sync::{AtomicU32, Ordering};

const LINES: usize = 16;

/// A direct-mapped cache: a program has few distinct requests, and each allocation looks one up. Reading takes no lock.
pub(super) struct TypeCache([TypeCacheLine; LINES]);

/// One line, a sequence lock: `version` is odd while the line is written. A reader that sees an odd version, or another one afterwards, misses.
struct TypeCacheLine {
    version: AtomicU32,
    question: [AtomicU32; 4],
    answer: AtomicU32,
}

impl TypeCache {
    pub(super) const fn new() -> Self {
        Self(
            [const {
                TypeCacheLine {
                    version: AtomicU32::new(0),
                    question: [const { AtomicU32::new(0) }; 4],
                    answer: AtomicU32::new(0),
                }
            }; LINES],
        )
    }

    #[inline]
    fn line(&self, question: [u32; 4]) -> Option<&TypeCacheLine> {
        let [bits, required, preferred, avoided] = question;
        let mixed =
            (bits ^ required.rotate_left(20) ^ preferred.rotate_left(10) ^ avoided.rotate_left(15))
                .wrapping_mul(0x9e37_79b9);
        self.0
            .get((mixed >> (u32::BITS - LINES.trailing_zeros())) as usize)
    }

    /// The cached memory type.
    #[inline]
    pub(super) fn get(&self, memory_type_bits: u32, preference: MemoryPreference) -> Option<u32> {
        let question = question(memory_type_bits, preference);
        let line = self.line(question)?;
        let version = line.version.load(Ordering::Acquire);
        let same = line
            .question
            .iter()
            .zip(question)
            .all(|(kept, asked)| kept.load(Ordering::Relaxed) == asked);
        let answer = line.answer.load(Ordering::Relaxed);
        // Orders the loads above before the second load of the version.
        fence(Ordering::Acquire);
        let whole =
            version != 0 && version & 1 == 0 && line.version.load(Ordering::Relaxed) == version;
        (same && whole).then_some(answer)
    }

    /// Replaces a line, unless another thread is writing it.
    pub(super) fn insert(&self, memory_type_bits: u32, preference: MemoryPreference, answer: u32) {
        let question = question(memory_type_bits, preference);
        let Some(line) = self.line(question) else {
            return;
        };
        let version = line.version.load(Ordering::Relaxed) & !1;
        let odd = version.wrapping_add(1);
        if line
            .version
            .compare_exchange(version, odd, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return;
        }
        // A reader that sees any of the following stores sees the odd version.
        fence(Ordering::Release);
        for (kept, asked) in line.question.iter().zip(question) {
            kept.store(asked, Ordering::Relaxed);
        }
        line.answer.store(answer, Ordering::Relaxed);
        // Version 0 means that the line was never written.
        line.version
            .store(version.wrapping_add(2).max(2), Ordering::Release);
    }
}

#[inline]
fn question(memory_type_bits: u32, preference: MemoryPreference) -> [u32; 4] {
    let [required, preferred, avoided] = preference.parts().map(PropertyFlags::as_raw);
    [memory_type_bits, required, preferred, avoided]
}

#[cfg(test)]
mod tests {
    use super::*;
    use PropertyFlags as P;

    #[test]
    fn an_answer_is_remembered_for_its_question_alone() {
        let choices = TypeCache::new();
        let preference = MemoryPreference::requiring(P::HOST_VISIBLE);
        assert_eq!(
            choices.get(0, MemoryPreference::default()),
            None,
            "an empty line is no answer to the empty question"
        );
        choices.insert(3, preference, 1);
        assert_eq!(choices.get(3, preference), Some(1));
        assert_eq!(choices.get(7, preference), None);
        assert_eq!(choices.get(3, preference.preferring(P::HOST_CACHED)), None);
        for bits in 0..1000 {
            choices.insert(bits, preference, bits);
            assert_eq!(choices.get(bits, preference), Some(bits));
        }
    }

    #[test]
    fn a_reader_never_sees_half_an_answer() {
        let choices = TypeCache::new();
        let writes = if cfg!(miri) { 300 } else { 200_000_u32 };
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                (0..writes)
                    .for_each(|n| choices.insert(n % 64, MemoryPreference::default(), n % 64))
            });
            let mut seen = 0u32;
            while !writer.is_finished() || seen == 0 {
                for bits in 0..64 {
                    if let Some(answer) = choices.get(bits, MemoryPreference::default()) {
                        assert_eq!(answer, bits);
                        seen += 1;
                    }
                }
            }
        });
    }
}
