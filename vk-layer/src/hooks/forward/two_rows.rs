//! System V on x86-64, and AArch64: integers and pointers are in one row of registers and then on the stack, 8 bytes
//! each, and floats in a row of registers of their own.

use std::mem::transmute;

use super::{Arguments, run};
use crate::chain::VoidFunction;

macro_rules! forwarding {
    (($($word:ident)*) ($($float:ident)*)) => {
        type Forward = unsafe extern "system" fn($($word: usize,)* $($float: f64),*) -> usize;

        /// A few instructions: the slot goes on as one more float, in a register of its own, so that no word moves, and
        /// the compiler makes a jump of the call.
        unsafe extern "system" fn forward<const SLOT: usize>($($word: usize,)* $($float: f64),*) -> usize {
            let slot = f64::from_bits(SLOT as u64);
            // SAFETY: the slot's arguments, as its caller passed them.
            unsafe { forward_to($($word,)* $($float,)* slot) }
        }

        /// 768 copies of this were a twelfth of the library.
        #[inline(never)]
        unsafe extern "system" fn forward_to($($word: usize,)* $($float: f64,)* slot: f64) -> usize {
            let arguments = Arguments {
                words: [$($word),*],
                floats: [$($float),*],
            };
            // SAFETY: the slot's arguments, as its caller passed them.
            unsafe { run(slot.to_bits() as usize, &arguments) }
        }

        /// # Safety
        /// The function may be called with these arguments.
        pub(super) unsafe fn call(function: VoidFunction, arguments: &Arguments) -> usize {
            // SAFETY: see `forward`: a command with fewer parameters ignores the others.
            let function = unsafe { transmute::<VoidFunction, Forward>(function) };
            let ([$($word),*], [$($float),*]) = (arguments.words, arguments.floats);
            // SAFETY: the function may be called with these arguments.
            unsafe { function($($word,)* $($float),*) }
        }
    };
}

forwarding! { (w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15) (f0 f1 f2 f3) }

pub(super) const fn hook_at<const SLOT: usize>() -> VoidFunction {
    let function: Forward = forward::<SLOT>;
    // SAFETY: a function's address; its caller casts it.
    unsafe { transmute::<Forward, VoidFunction>(function) }
}
