//! The command that a thread is in, as stacks know it: debug-guard knows nothing of Vulkan.

#![forbid(unsafe_code)]

use debug_guard::CommandMark;
use vk_callbacks::command::current_command;

/// Of the innermost command; `None` outside of any.
pub(crate) fn command_mark() -> Option<CommandMark> {
    current_command().map(|command| CommandMark {
        name: command.name,
        serial: command.serial,
        stack: command.stack,
    })
}
