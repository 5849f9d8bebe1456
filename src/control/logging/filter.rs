//! Which lines are written: a level for all, and others for parts of the program.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// The longest filter.
const MAX_LEN: usize = 1024;

/// What [`Filter`] is read from: `LEVEL`, `MODULE=LEVEL`, or several of these with commas between them. A part without
/// a level of its own has that of the longest module that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    level: LevelFilter,
    modules: Vec<(String, LevelFilter)>,
}

/// A text that is no filter.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadFilter {
    /// There is no such level.
    #[error("'{0}' is no level: must be one of off, error, warn, info, debug, trace")]
    Level(String),
    /// The name before the `=` cannot be a module's.
    #[error("'{0}' is no module: must be a path such as flowgate::control::health")]
    Module(String),
    /// There is nothing.
    #[error("an empty filter: must be a level, or MODULE=LEVEL, or several with commas between them")]
    Empty,
    /// There is too much.
    #[error("the filter is longer than {MAX_LEN} bytes")]
    Long,
}

impl Filter {
    /// Everything of this level and those that are more severe.
    #[must_use]
    pub fn of(level: LevelFilter) -> Filter {
        Filter { level, modules: Vec::new() }
    }

    /// Reads a filter; where it names modules alone, the level of everything else is `default`'s.
    ///
    /// # Errors
    /// [`BadFilter`].
    pub fn read(text: &str, default: &Filter) -> Result<Filter, BadFilter> {
        if text.len() > MAX_LEN {
            return Err(BadFilter::Long);
        }
        if text.trim().is_empty() {
            return Err(BadFilter::Empty);
        }
        let mut filter = Filter::of(default.level);
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                None => filter.level = level(part)?,
                Some((module, text)) => {
                    let is_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
                    if module.is_empty() || !module.chars().all(is_path) {
                        return Err(BadFilter::Module(module.to_owned()));
                    }
                    filter.modules.push((module.to_owned(), level(text)?));
                }
            }
        }
        Ok(filter)
    }

    /// As `tracing` has it.
    pub(super) fn targets(&self) -> Targets {
        Targets::new().with_default(self.level).with_targets(self.modules.iter().cloned())
    }
}

fn level(text: &str) -> Result<LevelFilter, BadFilter> {
    // Numbers, which `LevelFilter` takes too, would be one more thing to know.
    let known =
        ["off", "error", "warn", "info", "debug", "trace"].contains(&text.to_ascii_lowercase().as_str());
    let level = known.then(|| LevelFilter::from_str(text).ok()).flatten();
    level.ok_or_else(|| BadFilter::Level(text.to_owned()))
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.level)?;
        self.modules.iter().try_for_each(|(module, level)| write!(f, ",{module}={level}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        let default = Filter::of(LevelFilter::WARN);
        Filter::read(text, &default).map(|filter| filter.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_filter_is_a_level_and_levels_of_modules() {
        assert_eq!(read("debug").as_deref(), Ok("debug"));
        assert_eq!(
            read(" INFO ,flowgate::control::health=trace").as_deref(),
            Ok("info,flowgate::control::health=trace")
        );
        assert_eq!(read("hyper=off").as_deref(), Ok("warn,hyper=off"));
    }

    #[test]
    fn what_would_silently_log_nothing_or_everything_is_refused() {
        // `tracing`'s own filters take the first two for modules.
        for (text, said) in [
            ("verbose", "'verbose' is no level: must be one of off, error, warn, info, debug, trace"),
            ("health", "'health' is no level: must be one of off, error, warn, info, debug, trace"),
            ("3", "'3' is no level: must be one of off, error, warn, info, debug, trace"),
            ("info,", "'' is no level: must be one of off, error, warn, info, debug, trace"),
            ("a b=info", "'a b' is no module: must be a path such as flowgate::control::health"),
            ("", "an empty filter: must be a level, or MODULE=LEVEL, or several with commas between them"),
            (&"a".repeat(2000), "the filter is longer than 1024 bytes"),
        ] {
            assert_eq!(read(text), Err(said.to_owned()));
        }
    }
}
