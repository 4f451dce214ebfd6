//! T39: what the kernel does on a program's behalf stops no instruction.

use crate::common::{Lab, On, each, loads, note};

/// A limit: where a page that cannot be touched follows, the kernel answers EFAULT, and nobody is told. In the other
/// place its bytes land in what is checked when the block comes back.
#[test]
fn t39_the_kernel_copies_past_the_end() {
    const SENT: usize = 80;
    fn note_answer(name: &str, answer: isize) {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        note(name, if answer == -1 { errno as usize } else { 0 });
    }
    fn case(lab: &Lab) {
        let block = lab.block(64, 16);
        let mut ends = [0; 2];
        // SAFETY: two descriptors' room.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // Behind the block unlike what is there, where that can be read.
        let readable = !(lab.config.has_pages() && lab.config.is_right());
        let byte = |i| {
            if i >= 64 && readable { !loads(block.wrapping_add(i)) } else { 0x41 }
        };
        let bytes: [u8; SENT] = std::array::from_fn(byte);
        assert_eq!(
            // SAFETY: so many bytes there are.
            unsafe { libc::write(ends[1], bytes.as_ptr().cast(), SENT) },
            SENT as isize
        );
        // SAFETY: broken on purpose: 16 bytes more than the block has.
        let got = unsafe { libc::read(ends[0], block.cast(), SENT) };
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        note("got", got.max(0) as usize);
        note("errno", if got < 0 { errno as usize } else { 0 });
        // SAFETY: broken on purpose: 16 bytes more than the block has.
        let sent = unsafe { libc::write(ends[1], block.cast(), SENT) };
        note("sent", sent.max(0) as usize);
        if !readable {
            // Not one byte of the page behind it.
            // SAFETY: broken on purpose.
            note_answer("read", unsafe { libc::read(ends[0], block.wrapping_add(64).cast(), 1) });
            // SAFETY: broken on purpose.
            note_answer("write", unsafe { libc::write(ends[1], block.wrapping_add(64).cast(), 1) });
        }
        lab.give(block, 64, 16);
    }
    each(On::ALL, case, |seen| {
        if seen.config.has_pages() && seen.config.is_right() {
            // Less than was asked for, or nothing at all: the kernel's choice.
            let (got, errno, sent) = (seen.note("got"), seen.note("errno"), seen.note("sent"));
            assert!(got <= 64 && sent <= 64, "{got} {sent}");
            assert!(errno == libc::EFAULT as usize || got > 0, "{errno}");
            assert_eq!((seen.note("read"), seen.note("write")), (libc::EFAULT as usize, libc::EFAULT as usize));
            seen.quiet(1);
        } else {
            assert_eq!((seen.note("got"), seen.note("sent")), (SENT, SENT));
            let block = seen.note("block");
            seen.aborted().kind("overflow").block(block, 64, 16).taken_in_case().flipped(block + 64, SENT - 64);
        }
    });
}
