//! The rows of commands without a row of their own: by the beginning of their names.

#![forbid(unsafe_code)]

use super::row::{CommandRow, create, destroy, plain, record, unknown};

/// The row of the longest beginning of `name`.
pub(super) const fn row_of(name: &str) -> &'static CommandRow {
    let mut rows = BEGINNINGS;
    while let [row, more @ ..] = rows {
        if begins(name.as_bytes(), row.name.as_bytes()) {
            return row;
        }
        rows = more;
    }
    &UNKNOWN
}

/// Whether `name` is the row's up to a `*`.
const fn begins(mut name: &[u8], mut row: &[u8]) -> bool {
    loop {
        match (name, row) {
            (_, [b'*']) | ([], []) => return true,
            ([x, more @ ..], [y, others @ ..]) if *x == *y => (name, row) = (more, others),
            _ => return false,
        }
    }
}

/// A longer beginning comes before a shorter one of the same.
const BEGINNINGS: &[CommandRow] = &[
    record("vkCmd*"),
    plain("vkQueue*"),
    // On an instance or a physical device.
    plain("vkGetPhysicalDevice*").on_instance(),
    plain("vkGetInstance*").on_instance(),
    plain("vkGetDisplay*").on_instance(),
    plain("vkGetDrmDisplay*").on_instance(),
    plain("vkGetRandROutputDisplay*").on_instance(),
    plain("vkGetWinrtDisplay*").on_instance(),
    plain("vkAcquireDrmDisplay*").on_instance(),
    plain("vkAcquireWinrtDisplay*").on_instance(),
    plain("vkAcquireXlibDisplay*").on_instance(),
    plain("vkReleaseDisplay*").on_instance(),
    plain("vkSubmitDebugUtils*").on_instance(),
    plain("vkDebugReport*").on_instance(),
    plain("vkEnumerateInstance*").without_instance(),
    plain("vkEnumerate*").on_instance(),
    // On a device.
    plain("vkAcquire*"),
    plain("vkAntiLag*"),
    plain("vkBind*"),
    plain("vkClear*"),
    plain("vkCompile*"),
    plain("vkConvert*"),
    plain("vkCopy*"),
    plain("vkDebugMarker*"),
    plain("vkDeviceWaitIdle*"),
    plain("vkDisplayPower*"),
    plain("vkExport*"),
    plain("vkFlush*"),
    plain("vkGet*"),
    plain("vkImport*"),
    plain("vkInitialize*"),
    plain("vkInvalidate*"),
    plain("vkLatency*"),
    plain("vkMap*"),
    plain("vkRegister*"),
    plain("vkRelease*"),
    plain("vkReset*"),
    plain("vkSet*"),
    plain("vkShutdown*"),
    plain("vkSignal*"),
    plain("vkTransition*"),
    plain("vkUninitialize*"),
    plain("vkUnmap*"),
    plain("vkUnregister*"),
    plain("vkUpdate*"),
    plain("vkWait*"),
    plain("vkWrite*"),
    // Objects of later extensions.
    create("vkCreate*", ""),
    destroy("vkDestroy*", ""),
];

static UNKNOWN: CommandRow = unknown("*");
