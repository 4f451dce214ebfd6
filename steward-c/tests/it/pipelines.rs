//! A driver's compiler over domains, as the checker sees it: tables that live as long as the process, and the scope of
//! pipelines. The compiler is a model of Mesa's: it makes a table of types when the first compile asks for one, with a
//! NULL parent, and never frees it.

use std::alloc::System;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

use alloc_core::{Context, ContextOptions, FromGlobalAlloc, Scope, Scoped};
use steward_c::context::steward_root_from_callbacks;
use steward_c::ralloc::{
    StewardDomain, steward_domain_close, steward_domain_new, steward_ralloc_enter, steward_ralloc_free,
    steward_ralloc_leave, steward_ralloc_root, steward_ralloc_size, steward_ralloc_steal, steward_rzalloc_size,
};
use vk_callbacks::check::{Checked, CheckedOwner, FindingKind, Opened};
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::{Bridge, CheckOptions, Checker, Command, Owners};

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
/// Types that one shader asks for.
const TYPES: usize = 17;

/// What a process keeps between compiles.
struct Types {
    table: *mut c_void,
    /// Whether the maker of the table enters no domain.
    is_kept_out: bool,
}

impl Types {
    const fn new(is_kept_out: bool) -> Self {
        Self { table: null_mut(), is_kept_out }
    }

    /// The first shader that asks makes them.
    fn get(&mut self) -> *mut c_void {
        if self.table.is_null() {
            // SAFETY: the process's own domain lives as long as the process.
            let before = self.is_kept_out.then(|| unsafe { steward_ralloc_enter(null_mut()) });
            // SAFETY: no parent, so it is the current domain's.
            self.table = unsafe { steward_ralloc_size(null(), 0) };
            for bytes in 1..=TYPES {
                // SAFETY: the table lives, and is this thread's.
                let one = unsafe { steward_rzalloc_size(self.table, 16 * bytes) };
                assert!(!one.is_null());
            }
            if let Some(before) = before {
                // SAFETY: the domain that was current before is still open.
                unsafe { steward_ralloc_leave(before) };
            }
        }
        self.table
    }

    /// What the end of a process does.
    fn free(&mut self) {
        // SAFETY: nobody uses the table after this.
        unsafe { steward_ralloc_free(std::mem::replace(&mut self.table, null_mut())) };
    }
}

struct Pipeline {
    handle: u64,
    domain: *mut StewardDomain,
    /// What was compiled.
    root: *mut c_void,
}

/// An application whose callbacks for pipelines pass the checker, and a driver that gets them.
struct CompilingDriver<'b> {
    bridge: &'b Bridge,
    checker: &'b Checker<'static>,
    checked: Checked,
    scope: Scope,
}

impl<'b> CompilingDriver<'b> {
    fn new(bridge: &'b Bridge, checker: &'b Checker<'static>, scope: Scope) -> Self {
        let owner = CheckedOwner::new(bridge.owner(), "VkPipeline");
        // SAFETY: the bridge outlives the checker's use.
        let checked = unsafe { checker.wrap(bridge.raw(), owner) }.expect("there is memory");
        Self { bridge, checker, checked, scope }
    }

    fn run<R>(&self, name: &'static str, body: impl FnOnce() -> R) -> R {
        let owners = Owners { object: Some(self.bridge.owner()), ..Owners::default() };
        let command = Command::new(name, owners, BracketCoverage::Complete);
        self.checker.run(command, |_| body())
    }

    fn create(&self, types: &mut Types, handle: u64) -> Pipeline {
        let pipeline = self.run("vkCreateComputePipelines", || {
            let (mut context, mut domain) = (null_mut(), null_mut());
            let scope = self.scope.as_raw().cast_signed();
            let callbacks = &raw const *self.checked.raw();
            // SAFETY: the callbacks live until the checker is closed; the name is a string of C.
            let result =
                unsafe { steward_root_from_callbacks(callbacks, scope, c"pipeline".as_ptr(), &raw mut context) };
            assert_eq!(result, 0);
            // SAFETY: the context just made, which is the domain's from here on.
            let result = unsafe { steward_domain_new(context, null(), &raw mut domain) };
            assert_eq!(result, 0);
            // SAFETY: the domain is closed when the pipeline is destroyed, after the thread has left it.
            let before = unsafe { steward_ralloc_enter(domain) };
            // SAFETY: no parent: the shader is the current domain's.
            let shader = unsafe { steward_rzalloc_size(null(), 256) };
            // SAFETY: the shader lives, and is this thread's.
            let code = unsafe { steward_ralloc_size(shader, 4096) };
            assert!(!code.is_null() && !types.get().is_null());
            // SAFETY: the domain lives.
            let root = unsafe { steward_ralloc_root(domain) };
            // SAFETY: both live, and are this thread's.
            unsafe { steward_ralloc_steal(root, shader) };
            // SAFETY: the domain that was current before is still open.
            unsafe { steward_ralloc_leave(before) };
            Pipeline { handle, domain, root }
        });
        let owner = Some(self.bridge.owner());
        self.checker.created("VkPipeline", handle, owner);
        pipeline
    }

    fn destroy(&self, pipeline: &Pipeline) {
        self.run("vkDestroyPipeline", || {
            // SAFETY: the pipeline's own blocks, not used after this.
            unsafe { steward_ralloc_free(pipeline.root) };
            // SAFETY: the pipeline's own, and current on no thread.
            unsafe { steward_domain_close(pipeline.domain) };
        });
        let owner = Some(self.bridge.owner());
        let command = "vkDestroyPipeline";
        self.checker.destroyed("VkPipeline", pipeline.handle, owner, command);
    }
}

/// What the checker finds while three pipelines come and go, and how many blocks the application's callbacks had left
/// then.
fn three_pipelines(mut types: Types, scope: Scope) -> (Vec<FindingKind>, u64) {
    let options = ContextOptions::new("application");
    let root = Context::root_static(&SYSTEM, options).expect("there is memory");
    let context = root.child("pipelines").expect("there is memory");
    let seen = context.handle();
    let bridge = Bridge::new(context).expect("there is memory");
    let options = CheckOptions { coverage: BracketCoverage::Complete, opened: Opened::ThroughLoader };
    let checker = Checker::new(&SYSTEM, options).expect("there is memory");
    let driver = CompilingDriver::new(&bridge, &checker, scope);
    let before = seen.usage().total().live_blocks;
    let pipelines = [1, 2, 3].map(|handle| driver.create(&mut types, handle));
    pipelines.iter().for_each(|pipeline| driver.destroy(pipeline));
    let left = seen.usage().total().live_blocks - before;
    let found = checker.findings(Scoped::new(&SYSTEM, Scope::Object));
    let found: Vec<_> = found.expect("there is memory").iter().map(|found| found.kind).collect();
    // The domain that was closed with blocks in it ends with the last of them.
    types.free();
    assert_eq!(seen.usage().total().live_blocks, before);
    drop(seen);
    checker.close().expect("nothing is live");
    let context = bridge.close().expect("nothing is live");
    assert!(context.close().is_empty());
    root.close_root().expect("nothing is live");
    (found, left)
}

/// Without it the first pipeline's memory is never complete again: the table with its types, the record of the domain,
/// and the root's node with its name.
#[test]
fn ca24_tables_of_the_process_stay_out_of_domains_where_their_maker_enters_none() {
    let (found, left) = three_pipelines(Types::new(false), Scope::Object);
    assert_eq!(found, [FindingKind::LiveAfterDestroy]);
    assert_eq!(left, 1 + TYPES as u64 + 3);
    let (found, left) = three_pipelines(Types::new(true), Scope::Object);
    assert_eq!((found, left), (Vec::new(), 0));
}

#[test]
fn ca26_a_pipelines_domain_has_scope_object_since_its_blocks_outlive_the_command() {
    let (found, left) = three_pipelines(Types::new(true), Scope::Object);
    assert_eq!((found, left), (Vec::new(), 0));
    let (found, left) = three_pipelines(Types::new(true), Scope::Command);
    assert!(found.contains(&FindingKind::CommandBlockLeft), "{found:?}");
    assert_eq!(left, 0);
}
