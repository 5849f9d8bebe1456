//! A control core behind a face of it, and what holds for its objects whatever was asked.

use crate::fake::Fake;
use flowgate::control::model::{Change, State, difference};
use flowgate::control::socket::{Dispatcher, Service, methods};
use std::future::Future;
use std::rc::Rc;
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

/// What is made once a thread and serves every input.
pub struct World {
    runtime: Runtime,
    pub methods: Rc<Dispatcher>,
    /// The objects that every input finds.
    pub seed: State,
}

thread_local! {
    static WORLD: World = World {
        runtime: Builder::new_current_thread().enable_all().build().unwrap(),
        methods: Rc::new(methods::debug_dispatcher()),
        seed: Fake::new().state(),
    };
}

impl World {
    /// Lets `run` be this thread's one world.
    pub fn with<R>(run: impl FnOnce(&World) -> R) -> R {
        WORLD.with(run)
    }

    /// A control core that nobody has asked anything yet.
    pub fn fresh(&self) -> Rc<Fake> {
        Rc::new(Fake::with(self.seed.clone()))
    }

    /// Carries out `work` and all tasks that it leaves.
    pub fn block_on<F: Future>(&self, work: F) -> F::Output {
        LocalSet::new().block_on(&self.runtime, work)
    }
}

/// Checks what holds for every state that the control core gets into: that it outlives a restart unchanged, that what
/// is exported of it changes nothing when it is applied, and that a state of this number is this state.
pub fn is_sound(state: &State, seed: &State) {
    survives(state);
    let document = serde_json::to_value(state.export()).unwrap();
    let (again, _) = state.apply(&Change::ApplyDocument { document, now_unix_ms: 1 }).unwrap();
    assert_eq!(difference(state, &again), [], "an export that differs from its state");
    assert!(state.generation() >= seed.generation());
    if state.generation() == seed.generation() {
        assert_eq!(state, seed, "a change under the old generation");
    }
}

/// Checks that a state is read back as it is stored.
pub fn survives(state: &State) {
    let stored = state.to_document();
    let again = State::from_stored(&stored).unwrap_or_else(|fault| panic!("{fault} in {stored}"));
    assert_eq!(again, *state);
    assert_eq!(again.to_document(), stored);
}
