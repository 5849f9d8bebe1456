//! The daemon as a service: says how it stands, feeds the watchdog as long as everything moves, and reads its
//! configuration anew when it is told to.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use flowgate::control::core::Core;
use flowgate::control::heartbeat::Heartbeat;
use flowgate::control::monitor::Source as _;
use flowgate::control::socket::Service as _;
use flowgate::datapath::counters::WorkerCounters;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::notify::Notify;
use super::reload::Reload;
use super::stops::Hangups;

/// How often it is looked whether the daemon is ready, until it is.
const UNTIL_READY: Duration = Duration::from_millis(20);

/// How often it is looked how it stands, from then on.
const LOOKS: Duration = Duration::from_secs(1);

/// How often that is told: there are numbers in it, which are never the same twice.
const TELLS: Duration = Duration::from_secs(2);

/// How often workers are looked at for the watchdog. It is fed at a quarter of its time, and no less often than [`LOOKS`].
const LOOKS_AT_WORKERS: Duration = Duration::from_millis(10);

/// Feeds the service manager's watchdog as long as every worker goes round.
///
/// It has nothing of a control core's: a disk that hangs holds up a new control core, or what reads the configuration anew,
/// and the workers forward meanwhile. It runs on the control core's thread, so that nothing is fed for one that is stuck.
pub struct Feeder<'a> {
    notify: &'a Notify,
    workers: Vec<(Arc<WorkerCounters>, Heartbeat)>,
}

impl Feeder<'_> {
    /// Feeds the watchdog of `notify` for these workers.
    pub fn new(notify: &Notify, workers: Vec<Arc<WorkerCounters>>) -> Feeder<'_> {
        let now = std::time::Instant::now();
        let workers = workers.into_iter().map(|counters| (counters, Heartbeat::new(now))).collect();
        Feeder { notify, workers }
    }

    /// Feeds it for ever, if there is one.
    pub async fn run(&mut self) -> Infallible {
        let Some(watchdog) = self.notify.watchdog() else { return std::future::pending().await };
        let every = (watchdog / 4).clamp(LOOKS_AT_WORKERS, LOOKS);
        let mut looks = interval(LOOKS_AT_WORKERS);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut fed: Option<Instant> = None;
        loop {
            looks.tick().await;
            let all_go_round = self.look(std::time::Instant::now());
            if all_go_round && fed.is_none_or(|fed| fed.elapsed() >= every) {
                self.notify.alive();
                fed = Some(Instant::now());
            }
        }
    }

    /// Looks at the workers; whether every one goes round, if there are any.
    fn look(&mut self, now: std::time::Instant) -> bool {
        let mut all = true;
        for (counters, heart) in &mut self.workers {
            // The control core tells what is news.
            heart.look(counters.rounds.get(), counters.panicked.get() != 0, now);
            all &= heart.is_alive();
        }
        all
    }
}

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
        let mut looks = interval(LOOKS);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = (Instant::now(), status);
        loop {
            tokio::select! {
                _ = looks.tick() => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_is_fed_for_workers_that_go_round_and_for_none_that_stands_still_or_panicked() {
        let notify = Notify::from_environment().expect("nobody is to be told");
        let workers: Vec<Arc<WorkerCounters>> = vec![Arc::default(), Arc::default()];
        let mut feeder = Feeder::new(&notify, workers.clone());
        let mut now = std::time::Instant::now();
        let mut looks = |feeder: &mut Feeder<'_>, go_round: &[Arc<WorkerCounters>]| {
            let mut all = true;
            for _ in 0..100 {
                now += LOOKS_AT_WORKERS;
                go_round.iter().for_each(|worker| worker.rounds.add(1));
                all = feeder.look(now);
            }
            all
        };
        assert!(looks(&mut feeder, &workers));
        assert!(!looks(&mut feeder, &workers[..1]), "the other stands still");
        assert!(looks(&mut feeder, &workers), "it goes on");
        workers[1].panicked.set(1);
        assert!(!looks(&mut feeder, &workers), "it has ended, whatever it counts");
        assert!(looks(&mut Feeder::new(&notify, Vec::new()), &[]), "an idle node has none");
    }
}
