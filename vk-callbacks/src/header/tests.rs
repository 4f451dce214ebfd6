//! The header's arithmetic against what the drawing promises.

use super::*;
use proptest::prelude::*;

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Own), Just(Mode::Exact)]
}

fn scopes() -> impl Strategy<Value = Scope> {
    (0..Scope::COUNT).prop_map(|i| Scope::ALL[i])
}

/// The most bytes that a size here has: below the limit, and on a machine of 32 bits with room for an alignment of 2^31
/// beside it.
const LARGEST: u64 = if usize::BITS == 64 { SIZE_LIMIT - 1 } else { 1 << 29 };
/// A base address above all small ones.
const BASE: usize = 1 << if usize::BITS == 64 { 33 } else { 31 };

/// Sizes near every power of two, where off-by-one errors live.
fn sizes() -> impl Strategy<Value = usize> {
    (0_u32..48, -17_i64..18).prop_map(|(bit, off)| (1_i64 << bit).saturating_add(off).clamp(0, LARGEST as i64) as usize)
}

/// A plan, or none where the machine has no layout of that size.
fn plan_of(size: usize, align: usize, mode: Mode) -> Option<HeaderPlan> {
    let plan = HeaderPlan::new(size, align, mode);
    assert!(plan.is_ok() || usize::BITS < 64, "{size} bytes at {align}");
    plan.ok()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 8 } else { 256 }, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_plan_holds_header_and_payload_and_never_passes_size_zero(
        size in sizes(), log in 0_u32..=31, mode in modes(), scope in scopes(), slot in 0_usize..10_000
    ) {
        let align = 1_usize << log;
        let Some(plan) = plan_of(size, align, mode) else { return Ok(()) };
        prop_assert!(plan.layout.size() >= HEADER);
        let least = if mode == Mode::Exact { align.min(8) } else { 8 };
        prop_assert!(plan.layout.align() >= least);
        let base = BASE.wrapping_add(slot.wrapping_mul(plan.layout.align()));
        let pad = plan.pad_at(base);
        prop_assert!(pad >= HEADER && pad.is_multiple_of(8));
        prop_assert_eq!(base.wrapping_add(pad) % align, 0, "payload misaligned");
        prop_assert!(pad + size <= plan.layout.size(), "payload leaves the block");
        prop_assert!(plan.layout.size() <= size + align.max(HEADER), "more than aligned allocation would take");
        if mode == Mode::Exact || align <= SMALL_ALIGN || align > OWN_ALIGN {
            prop_assert_eq!(pad + size, plan.layout.size(), "slack behind the payload");
        }
        let word = Word0::new(size, align, scope, &plan, pad);
        prop_assert_eq!(word.size(), size);
        prop_assert_eq!(word.align(), align);
        prop_assert_eq!(word.scope(), Some(scope));
        prop_assert_eq!(HeaderPlan::new(word.size(), word.align(), mode).unwrap(), plan, "freed with another layout");
        prop_assert_eq!(word.pad(&plan), pad);
    }

    #[test]
    fn a_seal_is_bound_to_address_header_owner_and_secret(
        secret: u64, owner: u32, payload in (1_usize..1 << (usize::BITS - 20)).prop_map(|p| p * 8), size in 0..(LARGEST >> 7) as usize, log in 0_u32..5, scope in scopes()
    ) {
        let plan = HeaderPlan::new(size, 1 << log, Mode::Own).unwrap();
        let word = Word0::new(size, 1 << log, scope, &plan, HEADER);
        let seal = CookieKey { secret, owner };
        let live = seal.live(payload, word);
        prop_assert_eq!(seal.judge(payload, word, live), Mark::Live);
        prop_assert_eq!(seal.judge(payload, word, seal.freed(payload, word)), Mark::Freed);
        prop_assert_eq!(CookieKey { secret, owner: owner ^ 1 }.judge(payload, word, live), Mark::Unknown);
        prop_assert_eq!(seal.judge(payload, word, 0), if live == 0 { Mark::Live } else { Mark::Unknown });
    }
}

#[test]
fn one_flipped_bit_in_a_header_is_noticed() {
    let seal = CookieKey { secret: 0x1234_5678_9abc_def0, owner: 7 };
    let plan = HeaderPlan::new(64, 8, Mode::Own).unwrap();
    let word = Word0::new(64, 8, Scope::Object, &plan, HEADER);
    let payload = 0x7f00_0000_1010_u64 as usize;
    let live = seal.live(payload, word);
    let noticed = (0..64).filter(|bit| seal.live(payload, Word0(word.0 ^ 1 << bit)) != live).count();
    // A multiplication's high half does not feel every low bit on its own; the size bits that an overrun of a byte, a
    // word or two words hits must be felt.
    assert!(noticed >= 62, "only {noticed} of 64 bits matter");
}

#[test]
fn every_residue_of_a_base_fits_the_pad_field() {
    for log in 5..=12 {
        let align = 1_usize << log;
        let plan = HeaderPlan::new(100, align, Mode::Own).unwrap();
        for base in (1 << 20..(1 << 20) + 2 * align).step_by(HEADER) {
            let pad = plan.pad_at(base);
            assert!((HEADER..=align).contains(&pad) && pad.is_multiple_of(HEADER));
            assert_eq!(Word0::new(100, align, Scope::Command, &plan, pad).pad(&plan), pad);
        }
    }
}
