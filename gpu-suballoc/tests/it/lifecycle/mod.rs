//! Contexts on an application's device, rows H1 to H31, over a driver in this process that notes what it is asked.

use crate::*;
use fake::*;
use scene::*;

/// An application's memory, a driver, a home for contexts.
macro_rules! application {
    ($memory:ident, $driver:ident, $home:ident $(, $context:ident)?) => {
        let $memory = SceneMemory::new();
        let $driver = LifecycleDriver::new();
        let $home = $memory.home();
        $(let $context = acquire(&$home, &$memory, &$driver);)?
    };
}

mod acquire;
mod dispatch;
mod fake;
mod kernels;
mod meanwhile;
mod release;
mod scene;
mod sharing;
mod sweeps;
