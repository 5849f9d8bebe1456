//! How a change comes into force: the next state is worked out, stored by a thread that may wait for the disk, gone by, and told.
//! Changes take turns; everything else goes on meanwhile.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinHandle};

use super::{Core, Inner};
use crate::control::events::{Event, Timestamp, What};
use crate::control::health::TargetKey;
use crate::control::model::{Change, ChangeRecord, Drain, Outcome, Registration, State, TargetChange};
use crate::control::socket::{Applied, ChangeError, Turn};
use crate::control::store::{Store, StoreError};
use crate::control::telling::Teller;

/// A change that waits for the disk so long is told in the log: a disk that works takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long after ends of drains that could not be stored they are tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// A state to be stored and gone by, and what led to it.
pub(super) struct Stored {
    pub(super) next: State,
    /// None: it is no change of an operator's.
    pub(super) record: Option<ChangeRecord>,
    pub(super) outcomes: Vec<Outcome>,
}

/// What led to a state, for the log.
pub(super) struct Led {
    by: Option<String>,
    what: String,
    is_operators: bool,
}

impl Led {
    pub(super) fn by(record: Option<&ChangeRecord>) -> Led {
        match record {
            Some(record) => Led { by: record.by.clone(), what: record.what.join("; "), is_operators: true },
            None => Led { by: None, what: "a drain is over".to_owned(), is_operators: false },
        }
    }

    /// Waits for the thread that stores it, and tells if that takes long.
    async fn watch<T>(&self, mut done: JoinHandle<T>) -> Result<T, JoinError> {
        if let Ok(done) = tokio::time::timeout(PATIENCE, &mut done).await {
            return done;
        }
        tracing::warn!(
            name: "change_waits_for_disk", by = self.by, what = self.what,
            "a change waits for the disk; those after it wait, too"
        );
        done.await
    }

    /// Tells that it, in which so much happens, could not be stored.
    fn tell_failure(&self, outcomes: usize, error: &str) {
        let Led { by, what, is_operators } = self;
        if *is_operators {
            tracing::error!(name: "change_not_stored", by, what, error, "a change was refused, as it could not be stored");
        } else {
            tracing::error!(
                name: "drains_not_stored", drains = outcomes, error,
                "the end of drains could not be stored; it is tried again"
            );
        }
    }
}

/// A save leaves the store's fields whole at every step, so that those of a poisoned lock are.
pub(super) fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    /// Makes a change on behalf of `by`, if that is known: it is stored, and on its way to the workers, when this
    /// returns. Everything waits for the disk meanwhile.
    ///
    /// # Errors
    /// If it breaks a rule or cannot be stored; nothing has changed then.
    pub fn change(&self, change: &Change, by: Option<&str>) -> Result<Applied, ChangeError> {
        // Nobody comes between a state that is being stored and its turn.
        let busy = |_| ChangeError::NotStored("another change is being stored".to_owned());
        let _turn = self.changing.try_lock().map_err(busy)?;
        let mut inner = self.inner.borrow_mut();
        let (next, outcome) = inner.state.apply(change)?;
        if outcome.is_change() {
            let outcomes = std::slice::from_ref(&outcome);
            let record = ChangeRecord::new(&inner.state, &next, inner.unix_ms(), by);
            inner
                .accept(next, Some(record), outcomes, &self.events)
                .map_err(|error| ChangeError::NotStored(error.to_string()))?;
        }
        Ok(Applied { generation: inner.state.generation(), outcome })
    }

    /// Waits until nobody changes the objects.
    pub(super) async fn turn(&self) -> Turn {
        Turn::of(Arc::clone(&self.changing).lock_owned().await)
    }

    /// Has a state stored, and its tables built, by a thread of its own, and goes by it once that is done. The task ends
    /// whether or not anybody waits for it, so that what is stored and what is gone by are one.
    pub(super) fn store(&self, turn: Turn, drafted: Stored) -> JoinHandle<Result<(), String>> {
        let core = self.me.clone();
        let Stored { next, record, outcomes } = drafted;
        let (store, mut ahead) = {
            let mut inner = self.inner.borrow_mut();
            inner.storing_since = Some(Instant::now());
            let Inner { store, compiler, slots, .. } = &mut *inner;
            (Arc::clone(store), compiler.begin_ahead(&next, slots))
        };
        let led = Led::by(record.as_ref());
        tokio::task::spawn_local(async move {
            let state = next.clone();
            let done = tokio::task::spawn_blocking(move || {
                let began = Instant::now();
                let saved = lock(&store).save(&state, record);
                let took = began.elapsed();
                if saved.is_ok() {
                    ahead.build();
                }
                (ahead, saved.map(|()| took))
            });
            let (ahead, saved) = match led.watch(done).await {
                Ok((ahead, saved)) => (Some(ahead), saved.map_err(|error| error.to_string())),
                Err(error) => (None, Err(error.to_string())),
            };
            if let Some(core) = core.upgrade() {
                let mut inner = core.inner.borrow_mut();
                inner.storing_since = None;
                inner.compiler.end_ahead(ahead);
                match &saved {
                    Ok(took) => {
                        inner.stored.observe(*took);
                        inner.adopt(next, &led, &outcomes, &core.events);
                    }
                    Err(error) => {
                        inner.not_stored += 1;
                        led.tell_failure(outcomes.len(), error);
                    }
                }
            }
            drop(turn);
            saved.map(|_| ())
        })
    }

    /// Ends the drains whose delay is over (T-4), all at once, in its turn among the changes. The task that does it; none if
    /// there is nothing to end, or one is at it.
    pub(super) fn end_drains(&self) -> Option<JoinHandle<()>> {
        {
            let inner = self.inner.borrow();
            if !inner.drains.any_due(inner.now()) || Rc::strong_count(&self.ending_drains) > 1 {
                return None;
            }
        }
        let (core, at_it) = (self.me.clone(), Rc::clone(&self.ending_drains));
        let changing = Arc::clone(&self.changing);
        Some(tokio::task::spawn_local(async move {
            let turn = Turn::of(changing.lock_owned().await);
            let Some(stored) = core.upgrade().and_then(|core| core.store_ends(turn)) else { return };
            let stored = stored.await.unwrap_or_else(|error| Err(error.to_string()));
            if stored.is_err() {
                tokio::time::sleep(AGAIN).await;
            }
            drop(at_it);
        }))
    }

    /// Has the ends of the drains that are due by now stored; none if none can be ended.
    fn store_ends(&self, turn: Turn) -> Option<JoinHandle<Result<(), String>>> {
        let mut inner = self.inner.borrow_mut();
        let due = inner.drains.due(inner.now());
        // All at once: a fleet that was deregistered in one request is stored and compiled once.
        let mut next = inner.state.clone();
        let mut outcomes = Vec::new();
        for key in &due {
            let group = next.target_group(&key.group).ok();
            let target = group.and_then(|group| group.targets.get(&key.address));
            let Some(Registration::Draining { since_unix_ms }) = target.map(|target| target.registration)
            else {
                continue;
            };
            let change = Change::FinishDraining {
                target_group: key.group.to_string(),
                address: key.address,
                since_unix_ms,
            };
            match next.apply(&change) {
                Ok((state, outcome)) => {
                    next = state;
                    outcomes.push(outcome);
                }
                Err(error) => tracing::error!(
                    name: "drain_not_ended", target_group = %key.group, target = %key.address, %error,
                    "a drain could not be ended"
                ),
            }
        }
        if !outcomes.iter().any(Outcome::is_change) {
            // Else they would be asked for again at once, and for ever.
            for key in &due {
                inner.drains.remove(key);
            }
            return None;
        }
        drop(inner);
        // No change of an operator's, so none for the history.
        Some(self.store(turn, Stored { next, record: None, outcomes }))
    }
}

impl Inner {
    /// Stores a state and only then goes by it, and tells what led to it.
    pub(super) fn accept(
        &mut self,
        next: State,
        record: Option<ChangeRecord>,
        outcomes: &[Outcome],
        events: &Teller,
    ) -> Result<(), StoreError> {
        let began = Instant::now();
        let led = Led::by(record.as_ref());
        let saved = lock(&self.store).save(&next, record);
        self.not_stored += u64::from(saved.is_err());
        saved?;
        self.stored.observe(began.elapsed());
        self.adopt(next, &led, outcomes, events);
        Ok(())
    }

    /// Goes by a state that is stored, and tells what led to it.
    pub(super) fn adopt(&mut self, next: State, led: &Led, outcomes: &[Outcome], events: &Teller) {
        let before = std::mem::replace(&mut self.state, next);
        self.take_over();
        let (generation, Led { by, what, .. }) = (self.state.generation(), led);
        tracing::info!(name: "configuration_changed", generation, by, what, "the configuration changed");
        self.announce(&before, outcomes, events);
    }

    /// Tells the subscribers what changes did that came into force together, and notes what that is to drains.
    pub(super) fn announce(&mut self, before: &State, outcomes: &[Outcome], events: &Teller) {
        let generation = self.state.generation();
        let mut told = vec![What::ConfigChanged { generation }];
        for outcome in outcomes {
            for (group, address, change) in outcome.targets() {
                let key = TargetKey::new(group.as_str(), address);
                let (target_group, target, flows) = (group.to_string(), address, self.flows_of(&key));
                match change {
                    TargetChange::Draining => {
                        let ends = self.drains.ends(&key, self.now()).unwrap_or_else(Timestamp::now);
                        tracing::info!(
                            name: "drain_started", load_balancer = self.balancer_of(&target_group), target_group,
                            target = %target, flows, %ends, generation, "a target drains"
                        );
                        told.push(What::DrainStarted { target_group, target, flows, ends });
                        self.record_drain(&key, ends);
                    }
                    TargetChange::Reregistered | TargetChange::Removed => {
                        self.record_drained(&key, change == TargetChange::Reregistered);
                        tracing::info!(
                            name: "drain_ended", load_balancer = self.balancer_of(&target_group), target_group,
                            target = %target, flows_left = flows, generation, "a target's drain is over"
                        );
                        told.push(What::DrainEnded { target_group, target, flows_left: flows });
                    }
                    TargetChange::Registered | TargetChange::Updated => {}
                }
            }
        }
        // A group that is deleted takes its targets with it, those that drain too.
        let gone = |drain: &Drain<'_>| self.state.target_group(drain.target_group.name.as_str()).is_err();
        let gone: Vec<TargetKey> = before
            .drains()
            .filter(gone)
            .map(|drain| TargetKey::new(drain.target_group.name.as_str(), drain.address))
            .collect();
        for key in gone {
            let (target_group, flows_left) = (key.group.to_string(), self.flows_of(&key));
            told.push(What::DrainEnded { target_group, target: key.address, flows_left });
            self.record_drained(&key, false);
        }
        for what in told {
            events.tell(Event::now(what));
        }
    }
}
