//! The daemon as a service: says how it stands, feeds the watchdog as long as everything moves, and reads its
//! configuration anew when it is told to.

use std::time::Duration;

use flowgate::control::core::Core;
use flowgate::control::monitor::Source as _;
use flowgate::control::socket::Service as _;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::notify::Notify;
use super::reload::Reload;
use super::stops::Hangups;

/// How often it is looked whether the daemon is ready, until it is.
const UNTIL_READY: Duration = Duration::from_millis(20);

/// How often it is looked how it stands, from then on. A watchdog is fed at a quarter of its time if that is less.
const LOOKS: Duration = Duration::from_secs(1);

/// How often that is told: there are numbers in it, which are never the same twice.
const TELLS: Duration = Duration::from_secs(2);

/// What the service manager hears, and what is done on its word.
pub struct Told<'a> {
    pub notify: &'a Notify,
    pub reload: Reload,
}

impl Told<'_> {
    /// Keeps the service manager told until the daemon ends.
    pub async fn run(&self, core: &Core, hangups: &mut Hangups) {
        let status = self.until_ready(core).await;
        self.notify.ready(&status);
        let every = self.notify.watchdog().map_or(LOOKS, |watchdog| (watchdog / 4).clamp(UNTIL_READY, LOOKS));
        let mut looks = interval(every);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = (Instant::now(), status);
        loop {
            tokio::select! {
                _ = looks.tick() => {
                    if core.readiness().goes_round() {
                        self.notify.alive();
                    }
                    if told.0.elapsed() >= TELLS {
                        let status = sentence(core);
                        if status != told.1 {
                            self.notify.status(&status);
                        }
                        told = (Instant::now(), status);
                    }
                }
                () = hangups.next() => {
                    self.notify.reloading();
                    let outcome = self.reload.run().await;
                    let status = format!("{}; {outcome}", sentence(core));
                    self.notify.ready(&status);
                    // What came of it stays for a while.
                    told = (Instant::now() + TELLS, status);
                }
            }
        }
    }

    /// Waits until every worker goes by the present configuration; an idle node's daemon has only to answer.
    async fn until_ready(&self, core: &Core) -> String {
        let mut looks = interval(UNTIL_READY);
        loop {
            looks.tick().await;
            if core.readiness().forwards() {
                return sentence(core);
            }
        }
    }
}

/// How the daemon stands.
fn sentence(core: &Core) -> String {
    let readiness = core.readiness();
    match readiness.fault() {
        Some(fault) => format!("Not ready: {fault}"),
        None => core.overview(Duration::from_secs(1)).sentence(),
    }
}
