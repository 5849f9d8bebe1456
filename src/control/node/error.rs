//! Why a node's configuration was refused.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::control::one_line;

/// A refusal. Displays as one sentence, `file: path: message`, without the parts that are not
/// known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file, where there is one.
    pub file: Option<PathBuf>,
    /// Where in it, such as `endpoints[0].ports[1]`.
    pub path: Option<String>,
    /// What was seen and what was expected.
    pub message: String,
}

impl ConfigError {
    pub(super) fn new(path: Option<String>, message: impl Into<String>) -> ConfigError {
        ConfigError { file: None, path, message: message.into() }
    }

    pub(super) fn at(path: impl Into<String>, message: impl Into<String>) -> ConfigError {
        ConfigError::new(Some(path.into()), message)
    }

    #[must_use]
    pub(super) fn in_file(self, file: &Path) -> ConfigError {
        ConfigError { file: Some(file.to_owned()), ..self }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if let Some(path) = &self.path {
            write!(f, "{path}: ")?;
        }
        one_line::write(f, &self.message)
    }
}
