//! What a node's tables say of themselves: the first thing in the file `node`, written when all of them are made.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use super::Plan;
use crate::control::resume::{Doubled, Keeper};
use crate::flow::LAYOUT;

/// Changes with what is in `node`, and with what any of it means.
const FORMAT: u32 = 1;

/// Room for it: 4,096 endpoints and all ports, with the longest names.
const ROOM: usize = 512 << 10;

/// The file's name.
pub(super) const NAME: &str = "node";

/// Bytes of the file.
pub const LENGTH: u64 = Doubled::size(ROOM) + Keeper::size();

/// What the tables are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) format: u32,
    /// Of the tables themselves.
    pub(super) layout: u32,
    /// Tells all files of one making from others.
    pub(super) making: u64,
    /// The kernel's name for the time since the machine was started.
    pub(super) boot: String,
    pub(super) owner: u32,
    pub(super) workers: u8,
    pub(super) capacity: u32,
    /// What flows are hashed under.
    pub(super) seed: [u64; 8],
    /// Where the tables are, if not beside this file.
    pub(super) folder: Option<PathBuf>,
    /// Whether the kernel was to make huge pages of ordinary ones.
    pub(super) transparent: bool,
    pub(super) endpoints: Vec<String>,
    pub(super) ports: Vec<String>,
    /// Until when packets of no flow begin one, as flows were lost, in milliseconds since the machine was started: a start
    /// in the meantime ends it for nobody.
    #[serde(default)]
    pub(super) adopt_until_boot_ms: Option<u64>,
}

/// The layout of the flow tables. A build for tests of upgrades can be told to have another.
fn layout() -> u32 {
    #[cfg(any(debug_assertions, feature = "faults"))]
    if let Some(layout) = std::env::var("FLOWGATE_DEBUG_LAYOUT").ok().and_then(|layout| layout.parse().ok()) {
        return layout;
    }
    LAYOUT
}

/// What every format says in the same way.
#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
}

impl Identity {
    /// That of a plan, but for what is decided with its making.
    pub(super) fn of(plan: &Plan<'_>) -> Identity {
        Identity {
            format: FORMAT,
            layout: layout(),
            making: 0,
            boot: boot(),
            owner: plan.owner.uid,
            workers: plan.workers,
            capacity: plan.capacity,
            seed: [0; 8],
            folder: None,
            transparent: false,
            endpoints: plan.endpoints.clone(),
            ports: plan.ports.clone(),
            adopt_until_boot_ms: None,
        }
    }

    /// Reads it; why not, in a sentence.
    pub(super) fn read(file: File) -> io::Result<Result<Identity, String>> {
        let (_, data) = Doubled::open(file, 0, ROOM)?;
        let Some(data) = data else {
            return Ok(Err("what they are was not written to its end, or is damaged".to_owned()));
        };
        Ok(match serde_json::from_slice::<AnyFormat>(&data) {
            Ok(AnyFormat { format: FORMAT }) => serde_json::from_slice(&data)
                .map_err(|error| format!("what they are cannot be read: {error}")),
            Ok(AnyFormat { format }) => {
                Err(format!("they are in format {format}, and this version's is {FORMAT}"))
            }
            Err(error) => Err(format!("what they are cannot be read: {error}")),
        })
    }

    /// Writes it.
    pub(super) fn write(&self, file: File) -> io::Result<()> {
        let (mut place, _) = Doubled::open(file, 0, ROOM)?;
        place.write(&serde_json::to_vec(self)?)
    }

    /// The keeper in its file.
    pub(super) fn keeper(file: File) -> io::Result<Keeper> {
        Keeper::in_file(file, Doubled::size(ROOM))
    }

    /// Whether they were made since the machine was started, and are the daemon's user's.
    pub(super) fn is_of_here(&self, plan: &Plan<'_>) -> bool {
        self.boot == boot() && self.is_the_users(plan)
    }

    /// Whether they are the daemon's user's, or were root's: those are given to the user with the folder, which was root's alone.
    fn is_the_users(&self, plan: &Plan<'_>) -> bool {
        self.owner == plan.owner.uid || self.owner == geteuid().as_raw()
    }

    /// Why a plan cannot go on with these tables, if it cannot.
    pub(super) fn differs(&self, plan: &Plan<'_>) -> Option<String> {
        let now = Identity::of(plan);
        let counted = |n: u8| if n == 1 { "1 worker".to_owned() } else { format!("{n} workers") };
        if self.boot != now.boot {
            return Some("the machine was started anew since, or they are of another".to_owned());
        }
        if !self.is_the_users(plan) {
            return Some(format!("they are user {}'s, and the daemon is user {}", self.owner, now.owner));
        }
        if self.layout != now.layout {
            return Some(format!("they are of layout {}, and this version's is {}", self.layout, now.layout));
        }
        if self.workers != now.workers {
            return Some(format!(
                "they are of {}, and now it is {}",
                counted(self.workers),
                counted(now.workers)
            ));
        }
        if self.capacity != now.capacity {
            return Some(format!(
                "they are for {} flows a worker, and there is to be room for {}",
                self.capacity, now.capacity
            ));
        }
        None
    }

    /// Whether each of the names that the plan has by number is the one that was there before.
    pub(super) fn same(before: &[String], now: &[String]) -> Vec<bool> {
        now.iter().enumerate().map(|(number, name)| before.get(number) == Some(name)).collect()
    }
}

/// The boot of the machine that this is, by the kernel's number of it; nothing if it tells none.
pub fn boot() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim().to_owned()
}
