//! Two threads that stay alive and do things in turn, so that a test decides who counts what and when.

use std::ptr::NonNull;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;

use alloc_core::{Context, Scope};

use super::layout;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that runs one job after the other.
pub(crate) struct Worker {
    jobs: mpsc::Sender<Job>,
    done: mpsc::Receiver<()>,
    blocks: Arc<Mutex<Vec<(usize, usize)>>>,
    context: Arc<Context>,
}

/// Two workers on one context, which share their blocks.
pub(crate) fn two(context: &Arc<Context>) -> (Worker, Worker) {
    let blocks = Arc::new(Mutex::new(Vec::new()));
    let worker = || {
        let (jobs, todo) = mpsc::channel::<Job>();
        let (finished, done) = mpsc::channel();
        thread::spawn(move || {
            for job in todo {
                job();
                if finished.send(()).is_err() {
                    return;
                }
            }
        });
        Worker { jobs, done, blocks: Arc::clone(&blocks), context: Arc::clone(context) }
    };
    (worker(), worker())
}

impl Worker {
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.jobs.send(Box::new(job)).expect("the worker lives");
        self.done.recv().expect("the worker answers");
    }

    /// Takes a block of scope Object and puts it on the common pile.
    pub(crate) fn take(&self, bytes: usize) {
        let (blocks, context) = (Arc::clone(&self.blocks), Arc::clone(&self.context));
        self.run(move || {
            let block = context.try_allocate(layout(bytes), Scope::Object).expect("a block");
            blocks.lock().expect("no panic").push((block.as_ptr().expose_provenance(), bytes));
        });
    }

    /// Frees the newest block of that size from the common pile, whoever took it.
    pub(crate) fn free(&self, bytes: usize) {
        let (blocks, context) = (Arc::clone(&self.blocks), Arc::clone(&self.context));
        self.run(move || {
            let mut blocks = blocks.lock().expect("no panic");
            let at = blocks.iter().rposition(|(_, size)| *size == bytes).expect("such a block");
            let (address, _) = blocks.remove(at);
            let block = NonNull::new(std::ptr::with_exposed_provenance_mut(address)).expect("not null");
            // SAFETY: a live block of this context, of this size and scope.
            unsafe { context.free(block, layout(bytes), Scope::Object) };
        });
    }

    /// Frees what is left on the common pile.
    pub(crate) fn free_all(&self) {
        let sizes: Vec<usize> = self.blocks.lock().expect("no panic").iter().map(|(_, bytes)| *bytes).collect();
        sizes.into_iter().for_each(|bytes| self.free(bytes));
    }

    pub(crate) fn settle(&self) {
        self.run(alloc_core::fold_thread);
    }
}
