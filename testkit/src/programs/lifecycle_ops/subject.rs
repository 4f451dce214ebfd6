//! What the program asks of contexts, and what they may answer.

/// `VkInstance`, `VkPhysicalDevice`, `VkDevice`.
pub type HandleValues = [u64; 3];

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The handle of this number is null.
    Null(usize),
    /// The handle of this number is another one.
    Other(usize),
    /// The driver lacks a command.
    Missing,
    /// No host memory.
    Host,
    /// The driver refused.
    Device,
    /// The device is lost.
    Lost,
    /// There is no such context any more.
    Released,
    /// The context is being used.
    InUse,
    /// This is left.
    Outstanding(ContextRemains),
    /// No context for a dispatch.
    NoContext,
    /// Between an acquire and its release.
    HandlersInUse,
    /// What the handler answered.
    Handler,
    /// The region is another context's.
    Foreign,
    /// The region has crops.
    HasCrops,
    /// The region is mapped.
    Mapped,
    /// The region is not mapped.
    NotMapped,
}

/// What a context is left with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextRemains {
    /// Regions.
    pub regions: u64,
    /// Crops.
    pub crops: u64,
    /// Shaders that are held.
    pub shaders: u64,
}

/// What went with a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseOutcome {
    /// Shaders that were destroyed.
    pub shaders: u64,
    /// Those that are held.
    pub held: u64,
    /// Whether its device was lost.
    pub lost: bool,
    /// What was left behind.
    pub remains: ContextRemains,
}

/// How a context goes whatever is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Released by force.
    Force,
    /// Dropped; only where no region is left.
    Drop,
}

/// What is refused once, from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The n-th request of host memory, counted from 0.
    Host(u64),
    /// The n-th call of a driver that can fail, counted from 1.
    Device(u64),
    /// The loading of the driver's commands.
    Load,
}

/// What the handler answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectAnswer {
    /// This context, which has a number.
    Context(usize),
    /// The number of none.
    Stale,
    /// That there is none.
    Nothing,
    /// An error.
    Refuses,
}

/// What came of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatched {
    /// The context that it ran with.
    pub with: Result<Option<usize>, Denied>,
    /// If it ran: what came of setting handlers and default meanwhile, and of releasing the context that it ran with.
    pub inside: Option<[Result<(), Denied>; 3]>,
}

/// What a context says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextSeen {
    /// Its device's number.
    pub device: u64,
    /// Whether that is lost.
    pub lost: bool,
    /// Shaders of it that are found, and those that only their holds keep.
    pub shaders: [u64; 2],
}

/// A home of contexts and a table of them, as the program sees them.
pub trait Lifecycles {
    /// Acquires a context, which the table knows if it is to be `numbered`. Answers the device's number.
    fn acquire(
        &mut self,
        context: usize,
        handles: HandleValues,
        numbered: bool,
    ) -> Result<u64, Denied>;

    /// Acquires it again.
    fn acquire_again(&mut self, context: usize, handles: HandleValues) -> Result<(), Denied>;

    /// What the table makes of a number that was released, the n-th of them: acquire, use, release, default. Empty if there is none.
    fn stale(&mut self, nth: usize, handles: HandleValues) -> Vec<Result<(), Denied>>;

    /// Releases it; the handles matter to the table alone.
    fn release(&mut self, context: usize, handles: HandleValues) -> Result<ReleaseOutcome, Denied>;

    /// Ends one that the table does not know. Dropped, it says nothing.
    fn end(&mut self, context: usize, ending: Ending) -> Option<ReleaseOutcome>;

    /// Says that its device is lost.
    fn lose(&mut self, context: usize);

    /// A region with a buffer.
    fn allocate(&mut self, context: usize, piece: usize) -> Result<(), Denied>;

    /// A crop of one.
    fn crop(&mut self, context: usize, of: usize, piece: usize) -> Result<(), Denied>;

    /// Maps it once more, and writes to it if the device is there.
    fn map(&mut self, context: usize, piece: usize) -> Result<(), Denied>;

    /// Unmaps it once.
    fn unmap(&mut self, context: usize, piece: usize) -> Result<(), Denied>;

    /// Gives it back; refused, it stays.
    fn free(&mut self, context: usize, piece: usize) -> Result<(), Denied>;

    /// It is forgotten.
    fn forget(&mut self, piece: usize);

    /// Asks for a shader; compiled, it is the shader `number`. `hold`: and keeps it. Answers which it is.
    fn get_or_compile(
        &mut self,
        context: usize,
        key: u64,
        number: u64,
        hold: Option<usize>,
    ) -> Result<u64, Denied>;

    /// Lets it go.
    fn release_shader(&mut self, hold: usize);

    /// Sets a pair of handlers, or none: whether there was one.
    fn set_handlers(&mut self, own: bool) -> Result<bool, Denied>;

    /// Sets the default: which it was.
    fn set_default(&mut self, context: Option<usize>) -> Result<Option<usize>, Denied>;

    /// A dispatch.
    fn dispatch(&mut self, answer: SubjectAnswer, create: bool) -> Dispatched;

    /// Plants a refusal, or takes it away.
    fn refuse(&mut self, refusal: Option<Refusal>);

    /// What a context says of itself.
    fn describe(&self, context: usize) -> ContextSeen;

    /// Buffers and memory objects of a device that is not lost.
    fn driver(&self, device: u64) -> [u64; 2];

    /// The shaders that exist.
    fn exist(&self) -> Vec<u64>;
}
