//! Command brackets.

use alloc_core::Scope;
use testkit::{Sink, Stage};
use vk_callbacks::command::{BracketCoverage, current_command, current_thread, in_callback};
use vk_callbacks::{Command, CommandRow, Owners};

use super::{Ground, Operation, nothing};
use crate::common::Driver;

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![nothing(
        &[
            "Command::new",
            "Command::of",
            "Command::run",
            "CommandFrame::info",
            "CommandFrame::null_answers",
            "current_command",
            "current_thread",
            "in_callback",
        ],
        "a frame lies on the stack",
        bracketed::<S>,
    )]
}

fn bracketed<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let driver = Driver(ground.raw);
    stage.attempt_plainly(|| {
        assert_eq!((current_command(), in_callback()), (None, false));
        let row = CommandRow::of("vkMapMemory");
        let known = Command::of(row, "vkMapMemory", Owners::default(), BracketCoverage::Complete);
        assert_eq!(known.run(|frame| frame.info().name), "vkMapMemory");
        let owners = Owners { device: Some(ground.bridge.owner()), ..Owners::default() };
        Command::new("vkCreateBuffer", owners, BracketCoverage::Complete).run(|frame| {
            assert_eq!((current_command(), frame.info().thread), (Some(frame.info()), current_thread()));
            // Refused without a call of the backing.
            assert!(driver.alloc(usize::MAX, 8, Scope::Object).is_null());
            assert_eq!(frame.null_answers(), 1);
            assert!(Sink::debug(frame) > 0);
        });
    });
}
