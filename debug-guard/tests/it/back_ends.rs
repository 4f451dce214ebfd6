//! What the kernel lends, and what a guard does where it lends less: filters deny calls in a process of its own.

#![cfg(target_os = "linux")]

use std::alloc::Layout;

use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};
use debug_guard::{BackEnd, BackEnds, Guard, GuardOptions, Mode, OsRefusal};
use testkit::{Child, skip};

/// A system call that a filter denies: its number, and the value of one of its arguments if not all calls are meant.
#[derive(Clone, Copy)]
struct Denied {
    call: libc::c_long,
    argument: Option<(u32, u32)>,
    errno: i32,
}

const USERFAULTFD: Denied = Denied { call: libc::SYS_userfaultfd, argument: None, errno: libc::EPERM };
/// `UFFDIO_MOVE`, as a kernel before 6.8 answers it.
const MOVE: Denied = Denied { call: libc::SYS_ioctl, argument: Some((1, 0xC028_AA05)), errno: libc::EINVAL };
/// `MADV_GUARD_INSTALL`, as a kernel before 6.13 answers it.
const MARKERS: Denied = Denied { call: libc::SYS_madvise, argument: Some((2, 102)), errno: libc::EINVAL };

/// Installs a seccomp filter on this thread and those it will start.
fn deny(denied: &[Denied]) {
    let code = |code: u32| u16::try_from(code).expect("codes are small");
    let load =
        |offset| libc::sock_filter { code: code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS), jt: 0, jf: 0, k: offset };
    let answer = |k| libc::sock_filter { code: code(libc::BPF_RET | libc::BPF_K), jt: 0, jf: 0, k };
    let unless = |k, jf| libc::sock_filter { code: code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K), jt: 0, jf, k };
    let mut program = Vec::new();
    for denied in denied {
        let call = u32::try_from(denied.call).expect("a number of a call");
        program.extend([load(0), unless(call, if denied.argument.is_some() { 3 } else { 1 })]);
        if let Some((argument, value)) = denied.argument {
            // The lower half of the argument, on little-endian machines.
            program.extend([load(16 + 8 * argument), unless(value, 1)]);
        }
        program.push(answer(libc::SECCOMP_RET_ERRNO | denied.errno.cast_unsigned()));
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: u16::try_from(program.len()).expect("short"), filter: program.as_mut_ptr() };
    assert_eq!(
        // SAFETY: gives up what this process will not ask for.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) },
        0
    );
    assert_eq!(
        // SAFETY: a program that ends in an answer on every path; the kernel checks it and makes a copy.
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter, 0, 0,) },
        0
    );
    for denied in denied {
        // SAFETY: a call that is answered by the filter.
        let answer = unsafe { libc::syscall(denied.call, 0, denied.argument.map_or(0, |(_, value)| value), 102, 0) };
        assert_eq!(
            (answer, std::io::Error::last_os_error().raw_os_error()),
            (-1, Some(denied.errno)),
            "the filter stands"
        );
    }
}

#[test]
fn what_the_kernel_offers_is_said() {
    let found = BackEnds::probe();
    for &back_end in BackEnd::ALL {
        match found.refusal(back_end) {
            None => println!("{back_end}: offered"),
            Some(refusal) => println!("NOT OFFERED {back_end}: {refusal}"),
        }
    }
    let of = |back_end, name| {
        if let Some(refusal) = found.refusal(back_end) {
            skip(name, "what_the_kernel_offers_is_said", &format!("{back_end}: {refusal}"));
        }
    };
    of(BackEnd::UserfaultfdMove, "uffd");
    of(BackEnd::UserfaultfdCopy, "uffd");
    of(BackEnd::GuardMarkers, "guard-markers");
    assert!(found.offers(BackEnd::Mprotect) && found.offers(BackEnd::Cookies));
    let budget = OsRefusal::MapBudget.to_string();
    assert!(budget.contains("vm.max_map_count"), "{budget}");
}

#[test]
fn without_move_pages_are_copied() {
    Child::alone("without_move_pages_are_copied", || {
        deny(&[MOVE]);
        let found = BackEnds::probe();
        assert!(found.refusal(BackEnd::UserfaultfdMove).is_some());
        match found.refusal(BackEnd::UserfaultfdCopy) {
            None => assert_eq!(found.best(), BackEnd::UserfaultfdCopy),
            Some(refusal) => skip("uffd", "without_move_pages_are_copied", &refusal.to_string()),
        }
    });
}

#[test]
fn a_denied_userfaultfd_leaves_markers() {
    Child::alone("a_denied_userfaultfd_leaves_markers", || {
        deny(&[USERFAULTFD]);
        let found = BackEnds::probe();
        for back_end in [BackEnd::UserfaultfdMove, BackEnd::UserfaultfdCopy] {
            let refusal = found.refusal(back_end).expect("denied");
            assert_eq!(refusal, OsRefusal::Call { call: "userfaultfd", errno: libc::EPERM });
            let text = refusal.to_string();
            assert!(text.contains("userfaultfd") && text.contains("EPERM") && text.contains("seccomp"), "{text}");
        }
        match found.refusal(BackEnd::GuardMarkers) {
            None => assert_eq!(found.best(), BackEnd::GuardMarkers),
            Some(refusal) => skip("guard-markers", "a_denied_userfaultfd_leaves_markers", &refusal.to_string()),
        }
    });
}

#[test]
fn without_either_there_is_mprotect() {
    Child::alone("without_either_there_is_mprotect", || {
        deny(&[USERFAULTFD, MARKERS]);
        let found = BackEnds::probe();
        assert_eq!(found.best(), BackEnd::Mprotect);
        let refusal = found.refusal(BackEnd::GuardMarkers).expect("denied");
        assert_eq!(refusal.errno(), libc::EINVAL, "{refusal}");
    });
}

/// In a process that is denied these calls, a strict guard takes `served` and stops a read after the free, or a write
/// behind the block.
fn still_stops(test: &str, denied: &[Denied], served: BackEnd) {
    if Child::is_child(test) {
        deny(denied);
        let guard =
            Guard::new(FromGlobalAlloc::SYSTEM, GuardOptions::new(Mode::Strict).name("denied")).expect("a guard");
        println!("served by {}", guard.stats().back_end);
        let layout = Layout::from_size_align(64, 16).expect("small");
        let block = guard.allocate(layout, Scope::Object).expect("memory");
        // SAFETY: a live block of 64 bytes.
        unsafe { block.as_ptr().write_bytes(7, 64) };
        // SAFETY: taken above with this layout and scope.
        unsafe { guard.deallocate(block, layout, Scope::Object) };
        println!("guarded {}", guard.stats().guarded);
        // SAFETY: none: the block is freed, and that is what is to be found.
        let read = unsafe { block.as_ptr().wrapping_add(8).read_volatile() };
        println!("not reached: {read}");
        return;
    }
    if let Some(refusal) = BackEnds::probe().refusal(served) {
        let name = if served == BackEnd::GuardMarkers { "guard-markers" } else { "uffd" };
        return skip(name, test, &format!("{served}: {refusal}"));
    }
    let ended = Child::this_test(test).run();
    ended.assert_signal(libc::SIGABRT);
    assert!(ended.stdout.contains(&format!("served by {served}\nguarded 1\n")), "{ended}");
    assert!(!ended.stdout.contains("not reached"), "{ended}");
    let line =
        ended.stderr.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("no line of JSON\n{ended}"));
    for part in [
        "\"kind\":\"use-after-free\"",
        "\"access\":\"read\"",
        "\"guard\":\"denied\"",
        &format!("\"back_end\":\"{served}\""),
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
}

#[test]
fn a_guard_without_move_still_stops() {
    still_stops("a_guard_without_move_still_stops", &[MOVE], BackEnd::UserfaultfdCopy);
}

#[test]
fn a_guard_without_userfaultfd_still_stops() {
    still_stops("a_guard_without_userfaultfd_still_stops", &[USERFAULTFD], BackEnd::GuardMarkers);
}

#[test]
fn a_guard_without_either_still_stops() {
    still_stops("a_guard_without_either_still_stops", &[USERFAULTFD, MARKERS], BackEnd::Mprotect);
}
