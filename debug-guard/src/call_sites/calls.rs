//! Recognises return addresses.
//!
//! Code that keeps something else in the register leads a chain of frame pointers astray. So each address on a new stack must follow a
//! call instruction; the bytes are read without a fault.

use crate::os;

/// How many of the addresses, from the first on, follow calls.
pub(super) fn count(frames: &[usize]) -> usize {
    frames.iter().take_while(|back| returns_to(**back)).count()
}

/// True when the instruction in front of `back` is a call, as far as its bytes tell.
fn returns_to(back: usize) -> bool {
    let Some(before) = back.checked_sub(8) else {
        return false;
    };
    os::read_u64_by_kernel(before).is_some_and(|bytes| follows_call(bytes.to_le_bytes()))
}

/// x86-64: `call rel32` (E8 and four bytes), or `call r/m64` (FF, whose second byte has 2 in its middle, and none to five bytes more).
#[cfg(target_arch = "x86_64")]
fn follows_call(bytes: [u8; 8]) -> bool {
    let [_, b7, b6, b5, b4, b3, b2, b1] = bytes;
    let indirect = |first: u8, second: u8| first == 0xff && second & 0x38 == 0x10;
    b5 == 0xe8
        || indirect(b2, b1)
        || indirect(b3, b2)
        || indirect(b4, b3)
        || indirect(b6, b5)
        || indirect(b7, b6)
}

/// AArch64: `bl`, or `blr` with or without authentication.
#[cfg(not(target_arch = "x86_64"))]
fn follows_call(bytes: [u8; 8]) -> bool {
    let [_, _, _, _, code @ ..] = bytes;
    let code = u32::from_le_bytes(code);
    code >> 26 == 0b10_0101 || code & 0xfeff_f000 == 0xd63f_0000
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_from_other_code() {
        let ends = |code: &[u8]| {
            let mut bytes = [0x90; 8];
            bytes[8 - code.len()..].copy_from_slice(code);
            follows_call(bytes)
        };
        for call in [
            &[0xe8, 1, 2, 3, 4][..],         // call f
            &[0xff, 0xd0],                   // call rax
            &[0x41, 0xff, 0xd3],             // call r11
            &[0xff, 0x10],                   // call [rax]
            &[0xff, 0x50, 0x18],             // call [rax+24]
            &[0xff, 0x54, 0x24, 0x08],       // call [rsp+8]
            &[0xff, 0x15, 1, 2, 3, 4],       // call [rip+x]
            &[0xff, 0x94, 0xc8, 1, 2, 3, 4], // call [rax+rcx*8+x]
        ] {
            assert!(ends(call), "{call:x?}");
        }
        for other in [
            &[0xe9, 1, 2, 3, 4][..],
            &[0xff, 0xe0],
            &[0xff, 0x25, 1, 2, 3, 4],
            &[0x48, 0x89, 0xe5],
            &[0xc3],
            &[],
        ] {
            assert!(!ends(other), "{other:x?}");
        }
    }

    #[test]
    fn no_address_is_too_strange_to_ask_of() {
        for address in [
            0,
            1,
            7,
            8,
            4096,
            usize::MAX,
            usize::MAX - 7,
            isize::MAX as usize,
            1 << 47,
        ] {
            assert!(!returns_to(address), "{address:#x}");
        }
    }
}
