//! Collections whose memory belongs to a context: they say why they could not grow, and the context says what they
//! hold.
//!
//! `cargo run -p alloc-core --example collections`

use std::error::Error;

use alloc_core::{
    Arena, ByteCount, Context, ContextHandle, ContextOptions, FromGlobalAlloc, Scope, TryBox, TryMap, TryString, TryVec,
};

static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;

/// Lives as long as its owner likes: a `ContextHandle` does not borrow the context.
struct Shader {
    name: TryString<ContextHandle>,
    words: TryVec<u32, ContextHandle>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let root = Context::root_static(&SYSTEM, ContextOptions::new("renderer"))?;
    let cache = root.child_with(ContextOptions::new("shaders").scope(Scope::Cache))?;
    let frame = root.child_with(ContextOptions::new("frame").scope(Scope::Command))?;

    // A map of boxed values, all of them in the cache's memory.
    let mut shaders = TryMap::<u64, TryBox<Shader, ContextHandle>, ContextHandle>::new_in(cache.handle());
    for (id, name) in [(1, "shadow"), (2, "light"), (3, "post")] {
        let mut words = TryVec::new_in(cache.handle());
        words.try_resize(500 * id as usize, 0x0723_0203)?;
        let name = TryString::try_from_str_in(name, cache.handle())?;
        let shader = TryBox::try_new_in(Shader { name, words }, cache.handle()).map_err(|rejected| rejected.error)?; // a value that has no room comes back
        shaders.try_insert(id, shader).map_err(|rejected| rejected.error)?;
    }

    // Many small things that end together lie in an arena: few blocks, one end.
    let mut arena = Arena::new_in(&frame);
    for number in 0..1_000_u32 {
        arena.try_alloc_slice_copy(&[number; 8])?;
    }
    let used = frame.usage().total();
    println!("the frame: 1000 lists in {} blocks, {}", used.live_blocks, ByteCount(used.live_bytes));
    arena.reset();

    for (id, shader) in shaders.iter() {
        println!("shader {id}, {}: {} words", shader.name.as_str(), shader.words.len());
    }
    println!("\n{}", root.snapshot()?);

    let removed = shaders.remove(&2).ok_or("it was inserted")?;
    let before = cache.usage().total().live_bytes;
    drop(removed);
    let freed = before - cache.usage().total().live_bytes;
    println!("one shader less: {} freed", ByteCount(freed));

    drop((arena, shaders));
    drop((frame, cache));
    root.close_root()?; // an error, with the root, while anything is allocated
    println!("nothing is left");
    Ok(())
}
