use core::ffi::c_void;
use core::ptr::NonNull;

use crate::os::Access;

pub(super) struct Context(Option<NonNull<libc::ucontext_t>>);

impl Context {
    /// # Safety
    /// The third argument of a handler with `SA_SIGINFO`; used until that handler returns.
    pub(super) unsafe fn new(context: *mut c_void) -> Self {
        Self(NonNull::new(context.cast()))
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
impl Context {
    #[cfg(target_arch = "x86_64")]
    const NUMBERS: [i32; 4] = [libc::REG_RIP, libc::REG_RBP, libc::REG_RSP, libc::REG_ERR];
    #[cfg(target_arch = "x86")]
    const NUMBERS: [i32; 4] = [libc::REG_EIP, libc::REG_EBP, libc::REG_ESP, libc::REG_ERR];

    fn register(&self, which: usize) -> usize {
        let number = Self::NUMBERS.get(which).and_then(|&number| usize::try_from(number).ok());
        let Some((context, number)) = self.0.zip(number) else {
            return 0;
        };
        // SAFETY: `new`'s contract.
        let registers = unsafe { &(*context.as_ptr()).uc_mcontext.gregs };
        registers.get(number).map_or(0, |&value| value as usize)
    }

    pub(super) fn pc(&self) -> usize {
        self.register(0)
    }

    pub(super) fn frame(&self) -> usize {
        self.register(1)
    }

    pub(super) fn stack(&self) -> usize {
        self.register(2)
    }

    /// By the page fault's error code: bit 1 a write, bit 4 an instruction fetch.
    pub(super) fn access(&self) -> Option<Access> {
        let code = self.register(3);
        Some(if code & 0x10 != 0 {
            Access::Execute
        } else if code & 2 != 0 {
            Access::Write
        } else {
            Access::Read
        })
    }

    #[cfg(target_arch = "x86_64")]
    pub(super) fn go_on_at(&self, pc: usize) {
        let number = Self::NUMBERS.first().and_then(|&number| usize::try_from(number).ok());
        let Some((context, number)) = self.0.zip(number) else {
            return;
        };
        // SAFETY: `new`'s contract.
        let registers = unsafe { &mut (*context.as_ptr()).uc_mcontext.gregs };
        if let Some(place) = registers.get_mut(number) {
            *place = pc as i64;
        }
    }
}

#[cfg(target_arch = "aarch64")]
impl Context {
    fn machine(&self) -> Option<&libc::mcontext_t> {
        // SAFETY: `new`'s contract.
        self.0.map(|context| unsafe { &(*context.as_ptr()).uc_mcontext })
    }

    pub(super) fn pc(&self) -> usize {
        self.machine().map_or(0, |machine| machine.pc as usize)
    }

    pub(super) fn frame(&self) -> usize {
        self.machine().and_then(|machine| machine.regs.get(29)).map_or(0, |&value| value as usize)
    }

    pub(super) fn stack(&self) -> usize {
        self.machine().map_or(0, |machine| machine.sp as usize)
    }

    /// The kernel puts the exception syndrome among its records: class in bits 26 to 31, bit 6 a write.
    pub(super) fn access(&self) -> Option<Access> {
        const SYNDROME: u32 = 0x4553_5201;
        let machine = core::ptr::from_ref(self.machine()?);
        let mut at = core::mem::offset_of!(libc::mcontext_t, pstate) + 8;
        at = at.next_multiple_of(16);
        let end = at + 4096;
        while at + 16 <= end {
            // SAFETY: within the 4096 bytes of records that follow the registers.
            let record = unsafe { machine.cast::<u8>().add(at) };
            // SAFETY: a record begins with its kind and its size, 16-byte aligned.
            let [kind, size] = unsafe { record.cast::<[u32; 2]>().read() };
            if kind == SYNDROME {
                // SAFETY: the syndrome follows.
                let syndrome = unsafe { record.add(8).cast::<u64>().read() };
                return match (syndrome >> 26) & 0x3F {
                    0x20 | 0x21 => Some(Access::Execute),
                    0x24 | 0x25 if syndrome & 0x40 != 0 => Some(Access::Write),
                    0x24 | 0x25 => Some(Access::Read),
                    _ => None,
                };
            }
            if kind == 0 || size < 16 {
                return None;
            }
            at += (size as usize).next_multiple_of(16);
        }
        None
    }

    pub(super) fn go_on_at(&self, pc: usize) {
        if let Some(context) = self.0 {
            // SAFETY: `new`'s contract.
            unsafe { (*context.as_ptr()).uc_mcontext.pc = pc as u64 };
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
impl Context {
    pub(super) fn pc(&self) -> usize {
        0
    }
    pub(super) fn frame(&self) -> usize {
        0
    }
    pub(super) fn stack(&self) -> usize {
        0
    }
    pub(super) fn access(&self) -> Option<Access> {
        None
    }
}
