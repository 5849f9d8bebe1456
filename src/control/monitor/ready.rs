//! `/healthz` and `/readyz`: for whoever has to decide by a status code, and a line of text for each reason.
//!
//! *Healthy* is a daemon that does its work: its control core answers, and every worker goes round. One that is not is to
//! be restarted. *Ready* is a node that is to be given traffic: healthy, every worker goes by the present
//! configuration, and nobody has taken the node out. An upstream balancer's, or a router's, health check asks for that.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::{Response, StatusCode};

use super::answer::{self, AnswerBody};
use crate::control::troubles::limits::WORKER_STILL;

/// And for so long it is dead: whatever held it up, a debugger or a suspended machine, is not over in a moment.
const LIVES_WITHIN: Duration = Duration::from_secs(10);

/// How long a worker may take to go by the present configuration before the node is not ready for it. A change
/// takes it a round.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(1);

/// How long a look for the file that takes the node out may take. Whoever asks `/readyz` waits a second or more.
const LOOKS_WITHIN: Duration = Duration::from_millis(300);

/// So many looks that the disk holds up have a thread each at most.
const MOST_LOOKS: usize = 8;

/// Bytes of a reason that are shown at most.
const LONGEST_REASON: u64 = 200;

/// How the node stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// For how long each worker has gone no round. Of a node without ports there are none.
    pub silent_for: Vec<Duration>,
    /// The workers that have ended by a panic: they go no round any more.
    pub panicked: Vec<usize>,
    /// The present configuration.
    pub generation: u64,
    /// The workers that do not go by it, and for how long it has been in force; `None` for one that never
    /// went by any.
    pub behind: Vec<(usize, Option<Duration>)>,
    /// The node's configuration has no ports: there is nothing to forward, and nobody to do it.
    pub is_idle: bool,
    /// Why the node is to be given no traffic though it could take some.
    pub taken_out: Option<String>,
}

/// Something that has to be so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What, in a word.
    pub name: &'static str,
    /// Whether it is so.
    pub holds: bool,
    /// How it is, in words.
    pub words: String,
}

impl Readiness {
    /// What a daemon that works has.
    pub fn of_health(&self) -> Vec<Condition> {
        vec![self.workers(LIVES_WITHIN, true)]
    }

    /// What a node that is to be given traffic has.
    pub fn of_readiness(&self) -> Vec<Condition> {
        vec![self.workers(WORKER_STILL, false), self.configuration(), self.in_service()]
    }

    /// The workers that should long go by the present configuration, and do not.
    pub fn late_workers(&self) -> impl Iterator<Item = usize> {
        let late = |age: &Option<Duration>| age.is_none_or(|age| age > FOLLOWS_WITHIN);
        self.behind.iter().filter(move |(_, age)| late(age)).map(|(worker, _)| *worker)
    }

    /// Whether the daemon works.
    pub fn is_healthy(&self) -> bool {
        self.of_health().iter().all(|condition| condition.holds)
    }

    /// Whether the node is to be given traffic.
    pub fn is_ready(&self) -> bool {
        self.of_readiness().iter().all(|condition| condition.holds)
    }

    /// Of workers that are not to be there, `is_enough` says whether that will do.
    fn workers(&self, within: Duration, is_enough: bool) -> Condition {
        if self.is_idle {
            let words = "the node is idle, as its configuration has no ports".to_owned();
            return Condition { name: "workers", holds: is_enough, words };
        }
        let stuck = self.silent_for.iter().enumerate().filter_map(|(worker, silent)| {
            if self.panicked.contains(&worker) {
                return Some(format!("worker {worker} ended by a panic"));
            }
            let words = || format!("worker {worker} went no round for {:.1} s", silent.as_secs_f64());
            (*silent >= within).then(words)
        });
        let stuck: Vec<String> = stuck.collect();
        let words = if stuck.is_empty() {
            format!("{} of {} go round", self.silent_for.len(), self.silent_for.len())
        } else {
            stuck.join(", ")
        };
        Condition { name: "workers", holds: stuck.is_empty() && !self.silent_for.is_empty(), words }
    }

    fn configuration(&self) -> Condition {
        let behind: Vec<String> =
            self.late_workers().map(|worker| format!("worker {worker} does not go by it")).collect();
        let holds = behind.is_empty();
        let words = if holds { "is in force".to_owned() } else { behind.join(", ") };
        Condition { name: "configuration", holds, words: format!("generation {} {words}", self.generation) }
    }

    /// Whether every worker goes round at this moment, if there are to be any.
    pub fn goes_round(&self) -> bool {
        self.workers(WORKER_STILL, true).holds
    }

    /// Whether packets are forwarded by the present configuration, or none are to be.
    pub fn forwards(&self) -> bool {
        self.goes_round() && self.behind.is_empty()
    }

    /// Why packets are not forwarded as they should be; `None` if they are.
    pub fn fault(&self) -> Option<String> {
        let conditions = [self.workers(WORKER_STILL, true), self.configuration()];
        conditions.into_iter().find(|condition| !condition.holds).map(|condition| condition.words)
    }

    fn in_service(&self) -> Condition {
        let words = self.taken_out.clone().unwrap_or_else(|| "nobody has taken the node out".to_owned());
        Condition { name: "service", holds: self.taken_out.is_none(), words }
    }
}

/// The file that takes the node out of service while it is there. Other threads look for it: the disk may hang, and
/// the control core's has targets to check.
pub struct NotReadyFile {
    /// Held once more by each look that is under way.
    path: Arc<Path>,
    /// What the last look that ended has found.
    last: RefCell<Option<String>>,
}

impl NotReadyFile {
    /// The file at `path`.
    pub fn new(path: &Path) -> NotReadyFile {
        NotReadyFile { path: path.into(), last: RefCell::new(None) }
    }

    /// Why the node is taken out, if it was when somebody last looked.
    pub fn known(&self) -> Option<String> {
        self.last.borrow().clone()
    }

    /// Why the node is taken out, if it is; as long as the disk says nothing, it is as it was.
    pub async fn taken_out(&self) -> Option<String> {
        self.ask(taken_out).await
    }

    async fn ask(&self, look: impl FnOnce(&Path) -> Option<String> + Send + 'static) -> Option<String> {
        if Arc::strong_count(&self.path) <= MOST_LOOKS {
            let path = Arc::clone(&self.path);
            let look = tokio::task::spawn_blocking(move || look(&path));
            if let Ok(Ok(found)) = tokio::time::timeout(LOOKS_WITHIN, look).await {
                self.last.replace(found);
            }
        }
        self.known()
    }
}

/// Why the node is taken out, if the file at `path` is there: its first line, or that it is there.
fn taken_out(path: &Path) -> Option<String> {
    let mut begin = String::new();
    match File::open(path) {
        // More of it is no reason that anybody reads; what is not text is as good as none.
        Ok(file) => file.take(LONGEST_REASON).read_to_string(&mut begin).ok(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        // It is there, whatever it is.
        Err(_) => None,
    };
    let line = begin.lines().next().map(str::trim).unwrap_or_default();
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    let file = path.display();
    Some(if line.is_empty() { format!("{file} is there") } else { format!("{line} ({file})") })
}

/// The answer at `/healthz`.
pub fn health(readiness: &Readiness) -> Response<AnswerBody> {
    answer_by(&readiness.of_health(), "healthy")
}

/// The answer at `/readyz`.
pub fn readiness(readiness: &Readiness) -> Response<AnswerBody> {
    answer_by(&readiness.of_readiness(), "ready")
}

fn answer_by(conditions: &[Condition], word: &str) -> Response<AnswerBody> {
    let holds = conditions.iter().all(|condition| condition.holds);
    let status = if holds { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut text = format!("{}{word}\n", if holds { "" } else { "not " });
    for Condition { name, holds, words } in conditions {
        let mark = if *holds { "ok" } else { "no" };
        // Writing into a String does not fail.
        writeln!(text, "{mark}  {name}: {words}").ok();
    }
    answer::whole(status, answer::TEXT, text)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    const QUICK: Duration = Duration::from_millis(1);

    fn sound() -> Readiness {
        Readiness { silent_for: vec![QUICK, QUICK], generation: 7, ..Readiness::default() }
    }

    async fn text(answer: Response<AnswerBody>) -> (u16, String) {
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_sound_node_is_healthy_and_ready_and_says_why() {
        let expected = "ready\nok  workers: 2 of 2 go round\nok  configuration: generation 7 is in force\n\
                        ok  service: nobody has taken the node out\n";
        assert_eq!(text(readiness(&sound())).await, (200, expected.to_owned()));
        assert_eq!(text(health(&sound())).await, (200, "healthy\nok  workers: 2 of 2 go round\n".to_owned()));
    }

    #[tokio::test]
    async fn a_worker_that_is_held_up_takes_the_node_out_and_a_dead_one_is_told_as_that() {
        let held_up = Readiness { silent_for: vec![QUICK, Duration::from_millis(1200)], ..sound() };
        assert!(held_up.is_healthy() && !held_up.is_ready());
        let (status, words) = text(readiness(&held_up)).await;
        assert_eq!(status, 503);
        assert!(
            words.starts_with("not ready\nno  workers: worker 1 went no round for 1.2 s\nok  "),
            "{words}"
        );
        let dead = Readiness { silent_for: vec![QUICK, Duration::from_secs(11)], ..sound() };
        assert!(!dead.is_healthy() && !dead.is_ready());
        assert_eq!(text(health(&dead)).await.0, 503);
        assert!(!Readiness::default().is_healthy(), "a node without workers forwards nothing");
    }

    #[test]
    fn a_worker_that_panicked_never_goes_round_however_short_ago_that_was() {
        let panicked = Readiness { panicked: vec![1], ..sound() };
        assert!(!panicked.goes_round() && !panicked.forwards());
        assert!(!panicked.is_healthy() && !panicked.is_ready());
        assert_eq!(panicked.fault().as_deref(), Some("worker 1 ended by a panic"));
    }

    #[test]
    fn a_worker_that_goes_by_no_configuration_is_not_ready_and_one_that_follows_a_change_is() {
        let never = Readiness { behind: vec![(1, None)], ..sound() };
        assert!(!never.is_ready() && never.is_healthy());
        let follows = Readiness { behind: vec![(1, Some(Duration::from_millis(5)))], ..sound() };
        assert!(follows.is_ready());
        let late = Readiness { behind: vec![(1, Some(Duration::from_millis(1500)))], ..sound() };
        assert!(!late.is_ready());
    }

    #[test]
    fn a_node_without_ports_is_healthy_and_not_ready() {
        let idle = Readiness { is_idle: true, ..Readiness::default() };
        assert!(idle.is_healthy() && !idle.is_ready());
        assert_eq!(idle.of_readiness()[0].words, "the node is idle, as its configuration has no ports");
    }

    #[test]
    fn a_file_takes_the_node_out_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("not-ready");
        let shown = path.display();
        assert_eq!(taken_out(&path), None);
        for (text, expected) in [
            ("", format!("{shown} is there")),
            ("standby\n", format!("standby ({shown})")),
            ("  new kernel\x1b[2J\nand more", format!("new kernel[2J ({shown})")),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(taken_out(&path), Some(expected));
        }
        std::fs::write(&path, "x".repeat(10_000)).unwrap();
        assert_eq!(taken_out(&path).unwrap().len(), 200 + 3 + path.to_str().unwrap().len());
        std::fs::write(&path, [0xff; 10]).unwrap();
        assert_eq!(taken_out(&path), Some(format!("{shown} is there")));
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(taken_out(&path), Some(format!("{shown} is there")));
    }

    #[tokio::test]
    #[expect(clippy::await_holding_lock, reason = "that is the disk which hangs")]
    async fn a_disk_that_hangs_leaves_the_node_as_it_was_and_takes_no_more_than_a_few_threads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("not-ready");
        let file = NotReadyFile::new(&path);
        assert_eq!(file.taken_out().await, None);
        std::fs::write(&path, "standby").unwrap();
        let out = Some(format!("standby ({})", path.display()));
        assert_eq!(file.taken_out().await, out);
        let disk = Arc::new(std::sync::Mutex::new(0));
        let hangs = disk.lock().unwrap();
        let hung = || {
            let disk = Arc::clone(&disk);
            file.ask(move |_| {
                *disk.lock().unwrap() += 1;
                None
            })
        };
        for number in 0..MOST_LOOKS + 3 {
            let asked = std::time::Instant::now();
            assert_eq!(hung().await, out, "as it was");
            assert!(number < MOST_LOOKS || asked.elapsed() < LOOKS_WITHIN, "the last ones do not wait");
        }
        drop(hangs);
        while Arc::strong_count(&file.path) > 1 {
            tokio::time::sleep(QUICK).await;
        }
        assert_eq!(*disk.lock().unwrap(), MOST_LOOKS);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.taken_out().await, None);
    }

    #[test]
    fn a_node_that_was_taken_out_is_healthy_and_not_ready() {
        let out = Readiness { taken_out: Some("drained by an operator".to_owned()), ..sound() };
        assert!(out.is_healthy() && !out.is_ready());
        assert_eq!(out.of_readiness()[2].words, "drained by an operator");
    }
}
