//! Lines as a reader of standard error has them.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

use super::limit::{A_SECOND, AT_ONCE, Limit, TOLD_EVERY};
use super::paper::logged;
use super::writer::Writer;
use super::*;

#[test]
fn a_json_line_is_one_object_with_its_name_and_ids() {
    let lines = logged(Look::Json, "info", |_| {
        let none: Option<u64> = None;
        tracing::warn!(
            name: "something_happened", target_group = "fw", target = %"10.0.0.1", flows = 7_u64, up = true, none,
            level = "a field that every line has", said = "a \"b\"\nc\u{1b}[31m", "it\nhappened"
        );
    });
    let [line] = &lines[..] else { panic!("{lines:?}") };
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["event"], "something_happened");
    assert_eq!((&line["level"], &line["message"]), (&"warn".into(), &"it\nhappened".into()));
    assert_eq!(line["module"], "flowgate::control::logging::tests");
    assert_eq!((&line["target"], &line["flows"], &line["up"]), (&"10.0.0.1".into(), &7.into(), &true.into()));
    assert_eq!(line["level_"], "a field that every line has");
    assert_eq!(line["said"], "a \"b\"\nc\u{1b}[31m");
    assert_eq!(line.get("none"), None);
    // RFC 3339, to the millisecond.
    assert_eq!(line["time"].as_str().unwrap().len(), "2026-11-29T20:47:37.123Z".len());
}

#[test]
fn a_line_for_people_has_no_byte_that_a_terminal_obeys() {
    let look = Look::Text { colours: false };
    let lines = logged(look, "info", |_| {
        tracing::info!(name: "x", target = %"10.0.0.1", why = "no answer", empty = "", "evil\u{1b}[2J\nmessage\u{7}");
        tracing::error!(name: "y", said = "\u{1b}]0;evil\u{7}", "z");
    });
    assert_eq!(lines.len(), 2);
    let (time, rest) = lines[0].split_at("2026-11-29T20:47:37.123Z".len());
    assert!(time.ends_with('Z'), "{time}");
    assert_eq!(rest, "  INFO evil [2J message  target=10.0.0.1 why=\"no answer\" empty=\"\"");
    assert!(lines[1].ends_with(" ERROR z said=\"\\u001b]0;evil\\u0007\""), "{}", lines[1]);
    let coloured = logged(Look::Text { colours: true }, "info", |_| tracing::info!(name: "x", "y"));
    assert!(coloured[0].contains("\u{1b}[32m INFO\u{1b}[0m y"), "{coloured:?}");
}

#[test]
fn the_level_is_changed_while_it_runs_and_comes_back() {
    let lines = logged(Look::Json, "warn", |control| {
        let told = |what: &str| tracing::debug!(name: "told", what, "told");
        told("before");
        let view = control.set("error,flowgate::control::logging=debug", Revert::OnDemand).unwrap();
        assert_eq!(
            (view.filter.as_str(), view.configured.as_str()),
            ("error,flowgate::control::logging=debug", "warn")
        );
        told("during");
        assert!(control.set("verbose", Revert::OnDemand).is_err());
        told("after a refusal");
        assert_eq!(control.revert().filter, "warn");
        told("after");
        control.set("debug", Revert::After(Duration::from_millis(10))).unwrap();
        assert!(control.view().reverts_at.is_some());
        control.tend(Instant::now());
        told("in time");
        control.tend(Instant::now() + Duration::from_millis(20));
        told("too late");
        assert_eq!((control.view().filter.as_str(), control.view().reverts_at), ("warn", None));
    });
    let told: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = told.iter().filter(|line| line["event"] == "told").map(|line| &line["what"]).collect();
    assert_eq!(told, ["during", "after a refusal", "in time"]);
}

#[test]
fn a_place_that_makes_too_many_lines_is_held_to_a_number_and_the_rest_is_told() {
    let lines = logged(Look::Json, "info", |control| {
        for n in 0..1000 {
            tracing::info!(name: "flood", n, "again");
        }
        tracing::info!(name: "other", "another place is not held up");
        control.tend(Instant::now() + 2 * TOLD_EVERY);
        control.tend(Instant::now() + 4 * TOLD_EVERY);
    });
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| lines.iter().filter(|line| line["event"] == name).collect::<Vec<_>>();
    let floods = of("flood").len() as u64;
    // Some milliseconds pass meanwhile.
    assert!((u64::from(AT_ONCE)..u64::from(AT_ONCE + A_SECOND)).contains(&floods), "{floods}");
    assert_eq!(of("other").len(), 1);
    let [suppressed] = &of("lines_suppressed")[..] else { panic!("{lines:?}") };
    assert_eq!((&suppressed["of"], &suppressed["lines"]), (&"flood".into(), &(1000 - floods).into()));
}

#[test]
fn lines_come_again_as_time_passes() {
    fn place() -> &'static tracing::Metadata<'static> {
        let mut of = None;
        let subscriber = Registry::default().with(Catch(std::sync::Mutex::default()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(name: "place", "x");
            tracing::dispatcher::get_default(|dispatch| {
                of = *dispatch.downcast_ref::<Catch>().unwrap().0.lock().unwrap();
            });
        });
        of.unwrap()
    }
    struct Catch(std::sync::Mutex<Option<&'static tracing::Metadata<'static>>>);
    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Catch {
        fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
            *self.0.lock().unwrap() = Some(event.metadata());
        }
    }
    let (limit, of, start) = (Limit::default(), place(), Instant::now());
    let admitted = |at: Duration, n: u32| (0..n).filter(|_| limit.admits(of, start + at)).count();
    assert_eq!(admitted(Duration::ZERO, 500), AT_ONCE as usize);
    assert_eq!(admitted(Duration::from_millis(49), 5), 0);
    assert_eq!(admitted(Duration::from_millis(50), 5), 1, "twenty a second");
    assert_eq!(admitted(Duration::from_secs(1), 500), A_SECOND as usize - 1);
    assert_eq!(admitted(Duration::from_secs(1000), 500), AT_ONCE as usize, "no more than at first");
}

/// A reader that reads when it is told to.
struct Pipe {
    written: Sender<Vec<u8>>,
    go_on: Receiver<()>,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.go_on.recv().ok();
        self.written.send(bytes.to_vec()).ok();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_has_stopped_holds_nobody_up_and_what_is_lost_is_counted() {
    let ((written, read), (go, go_on)) = (channel(), channel());
    let writer = Writer::to(Box::new(Pipe { written, go_on }));
    writer.start_thread().unwrap();
    let began = Instant::now();
    for n in 0..10_000 {
        writer.write(format!("{n}\n"));
    }
    assert!(began.elapsed() < Duration::from_secs(5));
    let lost = writer.take_lost();
    // The queue, and the one that is being written.
    assert!((10_000 - 4098..=10_000 - 4096).contains(&lost), "{lost}");
    assert_eq!(writer.take_lost(), 0, "told once");
    writer.flush();
    assert!(began.elapsed() >= Duration::from_secs(1), "the end waits for a second");
    drop(go);
    writer.flush();
    let lines: Vec<_> = read.try_iter().collect();
    assert_eq!(lines.len() as u64, 10_000 - lost);
    assert_eq!(lines[0], b"0\n");
}

/// A full disk, or a pipe that nobody reads any more, until there is room again.
#[derive(Clone, Default)]
struct Full(std::sync::Arc<std::sync::Mutex<(bool, Vec<u8>)>>);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let (has_room, written) = &mut *self.0.lock().unwrap();
        if !*has_room {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        written.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_that_a_full_disk_does_not_take_are_counted_and_told_when_one_comes_out_again() {
    let full = Full::default();
    let writer = Writer::to(Box::new(full.clone()));
    writer.write("at the start\n".to_owned());
    writer.start_thread().unwrap();
    for n in 0..10 {
        writer.write(format!("{n}\n"));
    }
    writer.flush();
    assert_eq!(writer.lost(), 11);
    assert_eq!(writer.take_lost(), 0, "to tell it would be one more");
    full.0.lock().unwrap().0 = true;
    writer.write("there is room\n".to_owned());
    writer.flush();
    assert_eq!((writer.take_lost(), writer.take_lost()), (11, 0));
    assert_eq!(full.0.lock().unwrap().1, b"there is room\n");
}

/// Panics over some lines.
#[derive(Clone, Default)]
struct Delicate(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Write for Delicate {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        assert_ne!(bytes, b"what it cannot bear\n");
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_line_over_which_the_thread_panics_is_lost_and_counted_and_those_after_it_come_out() {
    let delicate = Delicate::default();
    let writer = Writer::to(Box::new(delicate.clone()));
    writer.start_thread().unwrap();
    for line in ["before\n", "what it cannot bear\n", "after\n"] {
        writer.write(line.to_owned());
    }
    writer.flush();
    assert_eq!(delicate.0.lock().unwrap().as_slice(), b"before\nafter\n");
    assert_eq!((writer.lost(), writer.take_lost(), writer.take_lost()), (1, 1, 0));
}

/// Panics over every line, and counts them.
#[derive(Clone, Default)]
struct Unbearable(Arc<AtomicUsize>);

impl Write for Unbearable {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("it cannot bear any");
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_thread_that_panics_over_every_line_gives_up_and_what_it_was_given_is_counted() {
    let unbearable = Unbearable::default();
    let writer = Writer::to(Box::new(unbearable.clone()));
    writer.start_thread().unwrap();
    for _ in 0..100 {
        writer.write("a line\n".to_owned());
    }
    writer.flush();
    assert_eq!(unbearable.0.load(Ordering::Relaxed), 8);
    assert_eq!((writer.lost(), writer.take_lost()), (100, 0), "nobody would read how many there were");
}
