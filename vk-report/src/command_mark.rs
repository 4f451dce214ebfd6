//! The running command of a thread, in the form that debug-guard, which knows no Vulkan, stores with stacks.

#![forbid(unsafe_code)]

use debug_guard::CommandMark;
use vk_callbacks::command::current_command;

/// The mark of the innermost command; `None` outside of commands.
pub(crate) fn command_mark() -> Option<CommandMark> {
    current_command().map(|command| CommandMark { name: command.name, serial: command.serial, stack: command.stack })
}
