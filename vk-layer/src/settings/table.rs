//! A new setting is a row here and a field of [`Settings`]. Documents, help and errors come from the table.

#![forbid(unsafe_code)]

use vk_report::guard_run::parse_back_end;

use super::{Brackets, Settings, Target, pattern};
use crate::file_name;
use crate::leaks::Frame;
use crate::request::Signal;

/// The prefix of a setting's name in the environment, where the name is in capitals.
pub const ENVIRONMENT_PREFIX: &str = "VK_STEWARD_MEMORY_";
/// The prefix of a setting's name in `vk_layer_settings.txt`.
pub const FILE_PREFIX: &str = "steward_memory.";

/// One setting of the layer.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name, in small letters.
    pub name: &'static str,
    /// Its values, for documents and errors.
    pub values: &'static str,
    /// The value when nothing sets it.
    pub default: &'static str,
    /// Its effect, in one sentence.
    pub about: &'static str,
    /// Stores a value.
    pub(super) set: fn(&mut Settings, &str) -> Result<(), InvalidValue>,
}

/// An invalid value, or no memory for it.
pub(crate) struct InvalidValue;

/// All settings.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "text",
        values: "a file, `-` for the error output, or `none`",
        default: "`-` where `json` is not set",
        about: "Where the report goes; in the name of a file `%p` is the number of the process, `%t` a time that tells processes of one number apart (exec, containers), `%e` the name of its executable, `%n` the report's number, from 1.",
        set: |settings, value| store(&mut settings.text, Target::new(value).map(Some)),
    },
    Setting {
        name: "json",
        values: "a file, `-` for the error output, or `none`",
        default: "none",
        about: "Where the same goes as JSON.",
        set: |settings, value| store(&mut settings.json, Target::new(value).map(Some)),
    },
    Setting {
        name: "state",
        values: "a file",
        default: "none",
        about: "The file that keeps the last numbers however the process ends, named in the same way; `steward top` reads it. Put `%p` in the name, so that processes do not overwrite each other's file.",
        set: |settings, value| store(&mut settings.state, file_name::pattern(value).map(Some)),
    },
    Setting {
        name: "check",
        values: "true or false",
        default: "true",
        about: "Whether callbacks are judged by Vulkan's rules.",
        set: |settings, value| store(&mut settings.check, value.parse()),
    },
    Setting {
        name: "brackets",
        values: "`none`, `some` or `all`",
        default: "`some`",
        about: "Which commands without a `pAllocator` are judged: none, all but those that record into a command buffer, or those too.",
        set: |settings, value| {
            settings.brackets = match value {
                "none" => Brackets::None,
                "some" => Brackets::Some,
                "all" => Brackets::All,
                _ => return Err(InvalidValue),
            };
            Ok(())
        },
    },
    Setting {
        name: "guard",
        values: "`fence`, `strict`, `cookie` or `sampled[=N]`",
        default: "none",
        about: "How each block that the driver gets through callbacks that replaced NULL is guarded.",
        set: |settings, value| store(&mut settings.guarding.guard, value.parse().map(Some)),
    },
    Setting {
        name: "back_end",
        values: "the name of a back end",
        default: "the best there is",
        about: "With a guard: the one back end to use.",
        set: |settings, value| store(&mut settings.guarding.back_end, parse_back_end(value).map(Some)),
    },
    Setting {
        name: "fail",
        values: "a plan, as of `steward --fail`",
        default: "none",
        about: "Which requests of the driver are refused on purpose.",
        set: |settings, value| store(&mut settings.guarding.fail, value.parse().map(Some)),
    },
    Setting {
        name: "fail_application",
        values: "true or false",
        default: "false",
        about: "With `fail` and `check`: whether the plan counts and refuses what the driver requests of the program's own callbacks, too.",
        set: |settings, value| store(&mut settings.fail_application, value.parse()),
    },
    Setting {
        name: "memory_report",
        values: "true or false",
        default: "false",
        about: "Whether device memory that the driver itself allocates is counted, by the kind of object: enables VK_EXT_device_memory_report where the device offers it.",
        set: |settings, value| store(&mut settings.memory_report, value.parse()),
    },
    Setting {
        name: "refusals",
        values: "a file",
        default: "none",
        about: "With `fail`: the file, named in the same way, to which the first refusals are added as they happen, a line of JSON each; it tells them of a process that ends without a report.",
        set: |settings, value| store(&mut settings.refusals, file_name::pattern(value).map(Some)),
    },
    Setting {
        name: "record",
        values: "a file",
        default: "none",
        about: "The file, named in the same way, to which every call of callbacks that replaced NULL is written as a trace, with each report; `steward replay` and `steward check --trace` read it. Until then it is in memory: about 100 bytes a call. Use it with `brackets` = `all`.",
        set: |settings, value| store(&mut settings.record, file_name::pattern(value).map(Some)),
    },
    Setting {
        name: "stacks",
        values: "true or false",
        default: "false",
        about: "Whether what is alive has the program's call stack.",
        set: |settings, value| store(&mut settings.stacks, value.parse()),
    },
    Setting {
        name: "frame",
        values: "`auto`, `present` or `submit`, each with `:N` for every N-th, or `none`",
        default: "`auto`: submits until something is presented",
        about: "With stacks: what ends a frame; growth is counted between frames.",
        set: |settings, value| store(&mut settings.frame, Frame::parse(value).ok_or(InvalidValue)),
    },
    Setting {
        name: "mark_signal",
        values: "`USR1` or `USR2`",
        default: "none",
        about: "With stacks: the signal that requests a mark, between which growth is counted instead. A program's own handler stays.",
        set: |settings, value| store(&mut settings.mark_signal, Signal::of(value).map(Some).ok_or(InvalidValue)),
    },
    Setting {
        name: "meter",
        values: "true or false",
        default: "false",
        about: "Whether the report has callback coverage: how much of what the driver allocates goes through callbacks. The meter's library has to be preloaded, as `steward run --meter` does. With `check`, what callbacks gave and the driver frees by the C library is reported, and not freed.",
        set: |settings, value| store(&mut settings.meter, value.parse()),
    },
    Setting {
        name: "signal",
        values: "`USR1` or `USR2`",
        default: "none",
        about: "The signal that requests a report: the next command with callbacks, or the next submit, writes it. A program's own handler stays.",
        set: |settings, value| store(&mut settings.signal, Signal::of(value).map(Some).ok_or(InvalidValue)),
    },
    Setting {
        name: "match",
        values: "a pattern with `*` and `?`",
        default: "`*`",
        about: "Only processes whose executable's name fits are counted; in all others every command passes through unchanged.",
        set: |settings, value| {
            settings.passes_through |= !pattern::fits_executable(value);
            Ok(())
        },
    },
    Setting {
        name: "arguments",
        values: "true or false",
        default: "false",
        about: "Whether the report has the arguments of the process.",
        set: |settings, value| store(&mut settings.arguments, value.parse()),
    },
    Setting {
        name: "interval",
        values: "a whole number of seconds, 0 for none",
        default: "0",
        about: "How often a report is written while the program runs: by the first hooked command after that time.",
        set: |settings, value| store(&mut settings.interval, value.parse()),
    },
];

fn store<T, E>(setting: &mut T, value: Result<T, E>) -> Result<(), InvalidValue> {
    *setting = value.map_err(|_| InvalidValue)?;
    Ok(())
}
