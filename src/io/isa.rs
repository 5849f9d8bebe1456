//! Which instructions the machine's CPU has beyond those that every x86-64 has, found at run time: the
//! stages that see every packet are compiled twice from the same lines, once for any CPU and once for those of the
//! x86-64-v3 level (Haswell, Zen and later), where big-endian loads, products of 64 bits and copies of a
//! cache line's half are one instruction each.

/// Work that is compiled once for each set of instructions.
pub trait Stage {
    /// What comes of it.
    type Output;

    /// Does it. To be `inline(always)`, as must be what it calls that shall be compiled so too.
    fn run(self) -> Self::Output;
}

/// A set of instructions. Only [`best`](Isa::best) gives more than every CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Level);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// What every CPU has that this is compiled for.
    Portable,
    #[cfg(target_arch = "x86_64")]
    V3,
}

impl Isa {
    /// What every CPU has.
    pub const PORTABLE: Isa = Isa(Level::Portable);

    /// The most that this CPU has, of what can be used.
    pub fn best() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            let v3 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("movbe")
                && is_x86_feature_detected!("popcnt");
            if v3 {
                return Isa(Level::V3);
            }
        }
        Isa::PORTABLE
    }

    /// Runs a stage with these instructions.
    #[inline(always)]
    pub fn run<S: Stage>(self, stage: S) -> S::Output {
        match self.0 {
            Level::Portable => portable(stage),
            // SAFETY: `best` has seen that the CPU has every one of the features.
            #[cfg(target_arch = "x86_64")]
            Level::V3 => unsafe { v3(stage) },
        }
    }
}

#[inline(never)]
fn portable<S: Stage>(stage: S) -> S::Output {
    stage.run()
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,popcnt")]
fn v3<S: Stage>(stage: S) -> S::Output {
    stage.run()
}
