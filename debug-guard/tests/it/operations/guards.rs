//! Making and ending guards, and asking them.

use debug_guard::{CommandMark, Guard, GuardOptions, LeakMark, Mode, Module, ModuleFinder, StackDepot};
use testkit::{MemoryUse, Stage};

use super::{GuardOperation, give, guard, memory, options, take};

pub(super) fn table<S: Stage>() -> Vec<GuardOperation<S>> {
    vec![
        GuardOperation {
            names: &["StackDepot::new"],
            how: "",
            takes: memory,
            body: |stage, _| {
                drop(stage.attempt(|| (), || StackDepot::new(stage.host())));
            },
        },
        GuardOperation {
            names: &[
                "StackDepot::capture",
                "StackDepot::get",
                "ModuleFinder::new",
                "ModuleFinder::find",
                "Module::at",
                "Module::path",
                "Module::addresses",
                "Module::bias",
                "Module::build_id",
                "Stack::module",
            ],
            how: "",
            takes: |_| MemoryUse::Nothing("what is stored is read where it lies"),
            body: |stage, _| {
                let depot = StackDepot::new(stage.host()).expect("memory");
                // Not refused here: after a refusal the next new stack may be lost as well.
                let id = depot.capture("vkCreateBuffer").expect("room");
                stage.attempt_plainly(|| {
                    let (command, stack) = depot.get(id).expect("just stored");
                    assert_eq!(command, "vkCreateBuffer");
                    let mut modules = ModuleFinder::new();
                    for frame in stack.frames {
                        modules.find(*frame);
                        let mut name = [0; 4096];
                        if let Some(module) = Module::at(*frame, &mut name) {
                            assert!(module.addresses().contains(frame), "{}", module.path());
                            assert!(module.bias() <= *frame && module.build_id().len() <= 32);
                            let noted = stack.module(*frame).expect("noted with the stack");
                            assert_eq!(noted.path(), module.path());
                        }
                    }
                });
            },
        },
        GuardOperation {
            names: &["StackDepot::capture_within"],
            how: "",
            takes: |_| MemoryUse::Nothing("what is stored is read where it lies"),
            body: |stage, _| {
                let depot = StackDepot::new(stage.host()).expect("memory");
                let here = 0_u8;
                let [whole, within] = [0, core::ptr::from_ref(&here).addr()].map(|stack| {
                    let command = CommandMark { name: "vkCreateImage", serial: 1, stack };
                    depot.capture_within(command).expect("room")
                });
                stage.attempt_plainly(|| {
                    let frames = |id| depot.get(id).expect("just stored").1.frames.len();
                    assert!(frames(within) < frames(whole), "it ends at the frame");
                });
            },
        },
        GuardOperation {
            names: &["Guard::new", "Guard::inner"],
            how: "",
            takes: memory,
            body: |stage, mode| {
                let guard =
                    stage.attempt(|| (), || Guard::new(stage.host(), options(mode)).map_err(|refused| refused.error));
                let _: &&S::Host = guard.inner();
            },
        },
        GuardOperation {
            names: &["Guard::new"],
            how: "with a list at exit",
            takes: memory,
            body: |stage, mode| {
                let kept = |mode| {
                    if mode < Mode::Cookie { GuardOptions::new(Mode::Cookie) } else { options(mode) }
                };
                let options = kept(mode).quarantine(8, 4096).exit_leaks(0);
                drop(stage.attempt(|| (), || Guard::new(stage.host(), options).map_err(|refused| refused.error)));
            },
        },
        GuardOperation {
            names: &["Guard::close"],
            how: "busy, and not",
            takes: |_| MemoryUse::Nothing("what there is goes back"),
            body: |stage, mode| {
                let guard = guard(stage, mode);
                let block = take(&guard, 40);
                let recorded = mode >= Mode::Cookie || guard.stats().live_guarded > 0;
                stage.attempt_plainly(move || ());
                let guard = match guard.close() {
                    Err(busy) if recorded => busy.value,
                    Err(_) => panic!("{mode}: a block that passed keeps nobody busy"),
                    Ok(behind) => {
                        assert!(!recorded, "{mode}");
                        return give(&behind, block, 40);
                    }
                };
                give(&guard, block, 40);
                guard.close().map(drop).expect("nothing is live");
            },
        },
        GuardOperation {
            names: &[
                "GuardState::stats",
                "GuardState::mark",
                "GuardState::leaks",
                "GuardState::exit_leaks_from",
                "GuardState::live",
                "GuardState::check_all",
                "GuardState::usable_size",
            ],
            how: "with blocks live and freed",
            takes: |_| MemoryUse::Nothing("what is asked is written down already"),
            body: |stage, mode| {
                let guard = guard(stage, mode);
                let (block, gone) = (take(&guard, 40), take(&guard, 50));
                give(&guard, gone, 50);
                stage.attempt_plainly(|| {
                    let mark = guard.mark();
                    guard.exit_leaks_from(mark);
                    let mut seen = 0;
                    guard.live(&mut |info| seen += info.size);
                    let sum = guard.leaks(LeakMark::default(), mark, &mut |leak| seen += leak.blocks as usize);
                    assert_eq!(guard.check_all(), 0);
                    assert_eq!(guard.stats().live_blocks, 1);
                    let recorded = guard.usable_size(block) == Some(40);
                    assert_eq!((seen, sum.bytes), if recorded { (41, 40) } else { (0, 0) }, "{mode}");
                });
                give(&guard, block, 40);
            },
        },
    ]
}
