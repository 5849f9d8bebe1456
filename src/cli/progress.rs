//! The bar that shows how far something has come: on standard error, and only if that is a terminal.

#![forbid(unsafe_code)]

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar, seen from the first time that there is something to show. It is wiped off when it is dropped.
#[derive(Default)]
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    /// Shows that `done` of `all` is done, and what is going on.
    pub(super) fn show(&mut self, done: u64, all: u64, said: String) {
        let bar = self.0.get_or_insert_with(|| {
            // A target that is no terminal is never drawn on.
            let target = ProgressDrawTarget::stderr();
            let bar = ProgressBar::with_draw_target(Some(all), target).with_message(said.clone());
            match ProgressStyle::with_template("[{bar:24}] {wide_msg}") {
                Ok(style) => bar.with_style(style.progress_chars("=> ")),
                // A bar as the crate has it is one too.
                Err(_) => bar,
            }
        });
        bar.set_message(said);
        bar.set_length(all);
        bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
