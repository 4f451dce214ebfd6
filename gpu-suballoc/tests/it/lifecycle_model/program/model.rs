//! The list: devices, contexts, what each has, and what goes with whom.

use super::*;

/// At a time.
pub const CONTEXTS: usize = 6;
pub const PIECES: usize = 24;
pub const HOLDS: usize = 8;

pub struct Device {
    pub number: u64,
    pub handles: HandleValues,
    pub lost: bool,
    pub contexts: u32,
}

#[derive(Clone, Copy)]
pub struct Life {
    pub serial: u64,
    pub device: usize,
    pub handles: HandleValues,
    pub numbered: bool,
}

#[derive(Clone, Copy)]
pub struct Piece {
    /// Whose; of none once that is gone.
    pub life: Option<u64>,
    pub of: Option<usize>,
    pub maps: u32,
}

pub struct ContextShader {
    pub device: usize,
    pub key: u64,
    pub owner: u64,
    pub holds: u32,
    pub live: bool,
}

pub struct LifecycleModel {
    pub devices: Vec<Device>,
    pub lives: [Option<Life>; CONTEXTS],
    pub pieces: [Option<Piece>; PIECES],
    pub shaders: BTreeMap<u64, ContextShader>,
    pub holds: [Option<u64>; HOLDS],
    pub default: Option<usize>,
    pub handlers: bool,
    pub gone: usize,
    pub next: u64,
    pub tried: Tried,
}

pub fn same(mine: HandleValues, theirs: HandleValues) -> Result<(), Denied> {
    not_null(theirs)?;
    let other = (0..3).find(|which| mine[*which] != theirs[*which]);
    other.map_or(Ok(()), |which| Err(Denied::Other(which)))
}

pub fn not_null(handles: HandleValues) -> Result<(), Denied> {
    handles.iter().position(|handle| *handle == 0).map_or(Ok(()), |which| Err(Denied::Null(which)))
}

impl LifecycleModel {
    pub fn known(&self, handle: u64) -> Option<usize> {
        self.devices.iter().position(|device| !device.lost && device.contexts > 0 && device.handles[2] == handle)
    }

    pub fn crops_of(&self, piece: usize) -> usize {
        self.pieces.iter().flatten().filter(|there| there.life.is_some() && there.of == Some(piece)).count()
    }

    pub fn remains(&self, life: Life) -> ContextRemains {
        let pieces = |crop: bool| {
            let mine = |piece: &&Piece| piece.life == Some(life.serial) && piece.of.is_some() == crop;
            self.pieces.iter().flatten().filter(mine).count() as u64
        };
        let held =
            self.shaders.values().filter(|shader| shader.owner == life.serial && shader.holds > 0).count() as u64;
        ContextRemains { regions: pieces(false), crops: pieces(true), shaders: held }
    }

    /// Takes those out of which `which` says so: how many were destroyed.
    pub fn remove_where(&mut self, which: impl Fn(&ContextShader) -> bool) -> u64 {
        let before = self.shaders.len();
        self.shaders.retain(|_, shader| {
            shader.live &= !which(shader);
            shader.live || shader.holds > 0
        });
        (before - self.shaders.len()) as u64
    }

    /// The context goes, and is told what with.
    pub fn end(&mut self, context: usize) -> ReleaseOutcome {
        let life = self.lives[context].take().expect("it lives");
        let left = self.remains(life);
        let shaders = self.remove_where(|shader| shader.owner == life.serial);
        let device = &mut self.devices[life.device];
        device.contexts -= 1;
        for piece in self.pieces.iter_mut().flatten().filter(|piece| piece.life == Some(life.serial)) {
            piece.life = None;
        }
        self.gone += usize::from(life.numbered);
        if self.default == Some(context) {
            self.default = None;
        }
        ReleaseOutcome { shaders, held: left.shaders, lost: device.lost, remains: left }
    }

    pub fn release_shader(&mut self, hold: usize) {
        let number = self.holds[hold].take().expect("the program lets go what it holds");
        let shader = self.shaders.get_mut(&number).expect("what is held is there");
        shader.holds -= 1;
        if !shader.live && shader.holds == 0 {
            self.shaders.remove(&number);
        }
    }
}
