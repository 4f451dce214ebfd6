//! GV26: pages that the kernel, or a fork, holds on to.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use super::common::{Lab, On, each, gives, loads, note, note_pointer, stores, takes};

/// What `minImportedHostPointerAlignment` is nearly everywhere.
const ALIGN: usize = 4096;

/// Has the kernel keep the page, as a driver has it for a device: io_uring's registered buffers are pinned until the
/// descriptor goes.
fn pins(page: *mut u8, len: usize) -> Option<OwnedFd> {
    let mut parameters = [0_u64; 16];
    // SAFETY: room for the 120 bytes of `struct io_uring_params`.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    // SAFETY: a descriptor that is nobody's yet.
    let ring = (ring >= 0).then(|| unsafe { OwnedFd::from_raw_fd(ring as i32) })?;
    let buffer = libc::iovec { iov_base: page.cast(), iov_len: len };
    // SAFETY: one live buffer; 0 is IORING_REGISTER_BUFFERS.
    let answer = unsafe { libc::syscall(libc::SYS_io_uring_register, ring.as_raw_fd(), 0, ptr::from_ref(&buffer), 1) };
    (answer == 0).then_some(ring)
}

#[test]
fn gv26_a_host_pointer_that_a_device_imports() {
    fn aligned(lab: &Lab) {
        for align in [ALIGN, 64 << 10] {
            let block = takes(&lab.guard, 3 * ALIGN, align);
            stores(block, 0x41);
            stores(block.wrapping_add(3 * ALIGN - 1), 0x41);
            gives(&lab.guard, block, 3 * ALIGN, align);
        }
        assert_eq!(lab.guard.check_all(), 0);
    }
    each(On::ALL, aligned, |seen| {
        seen.quiet(2);
    });

    // A page that the kernel keeps for a device cannot be moved: it goes another way, and its block is out of reach all
    // the same.
    fn pinned(lab: &Lab) {
        let block = takes(&lab.guard, ALIGN, ALIGN);
        note_pointer("block", block);
        (0..ALIGN).for_each(|i| stores(block.wrapping_add(i), i as u8));
        let ring = pins(block, ALIGN);
        note("pinned", usize::from(ring.is_some()));
        gives(&lab.guard, block, ALIGN, ALIGN);
        // Others come and go meanwhile, so that the page would be in use again.
        let others: Vec<_> = (0..100).map(|_| takes(&lab.guard, ALIGN, ALIGN)).collect();
        others.iter().for_each(|other| stores(*other, 0x42));
        others.iter().for_each(|other| gives(&lab.guard, *other, ALIGN, ALIGN));
        assert_eq!(lab.guard.check_all(), 0);
        note("reports then", lab.guard.stats().reports as usize);
        loads(block);
        note("passed", 1);
        drop(ring);
    }
    each(On::STRICT_RIGHT, pinned, |seen| {
        if seen.note("pinned") == 0 {
            return testkit::skip("io_uring", "gv26", "a pinned page: no io_uring here");
        }
        assert_eq!(seen.note("reports then"), 0);
        assert!(!seen.noted("passed"));
        seen.aborted()
            .kind("use-after-free")
            .block(seen.note("block"), ALIGN, ALIGN)
            .stopped("read", seen.note("block"));
    });

    // A page that a forked child shares cannot be moved either.
    fn shared(lab: &Lab) {
        let block = takes(&lab.guard, 64, 16);
        note_pointer("block", block);
        stores(block, 0x41);
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: one thread; the child calls nothing but the kernel.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut byte = 0_u8;
            // SAFETY: one byte, which never comes: the end of the pipe does.
            unsafe { libc::close(ends[1]) };
            // SAFETY: one byte of this frame to write to, and an open pipe.
            unsafe { libc::read(ends[0], (&raw mut byte).cast(), 1) };
            let fine = loads(block) == 0x41;
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!fine)) };
        }
        gives(&lab.guard, block, 64, 16);
        (0..100).for_each(|_| gives(&lab.guard, takes(&lab.guard, 64, 16), 64, 16));
        // SAFETY: ours.
        unsafe { libc::close(ends[1]) };
        let mut status = 0;
        // SAFETY: a child of ours.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        note("child", status as usize);
        assert_eq!(lab.guard.check_all(), 0);
        note("reports then", lab.guard.stats().reports as usize);
        loads(block);
    }
    each(On::STRICT_RIGHT, shared, |seen| {
        assert_eq!((seen.note("child"), seen.note("reports then")), (0, 0));
        seen.aborted().kind("use-after-free").block(seen.note("block"), 64, 16).stopped("read", seen.note("block"));
    });
}
