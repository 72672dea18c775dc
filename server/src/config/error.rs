//! Why settings are refused: one clear message each, with where the value came from and what to do.

use std::fmt;

use super::Origin;

/// A refusal to start because of the settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// The file can't be read or isn't a settings file.
    File {
        /// As given.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// `--set` without `=`.
    SetSyntax {
        /// As given.
        argument: String,
    },
    /// Neither we nor RocketMQ know this name.
    Unknown {
        /// As given.
        key: String,
        /// Where it stands.
        origin: Origin,
        /// The most similar name, when one is similar.
        nearest: Option<&'static str>,
    },
    /// The text isn't a value of this setting, or is out of bounds.
    Value {
        /// The setting.
        key: String,
        /// As given.
        value: String,
        /// Where it stands.
        origin: Origin,
        /// What is accepted.
        accepted: String,
    },
    /// Ignoring this one would break a promise or a role.
    Unbuilt {
        /// The setting.
        key: String,
        /// As given.
        value: String,
        /// Where it stands.
        origin: Origin,
        /// What to do instead.
        remedy: String,
    },
    /// Two settings that can't both hold.
    Contradiction {
        /// What contradicts what, and the remedy.
        explanation: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::File { path, problem } => write!(f, "settings file {path}: {problem}"),
            ConfigError::SetSyntax { argument } => {
                write!(f, "--set {argument}: must be key=value, for example --set flushDiskType=SYNC_FLUSH")
            }
            ConfigError::Unknown { key, origin, nearest } => {
                write!(f, "{origin}: there is no setting `{key}`")?;
                match nearest {
                    Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
                    None => write!(f, "; `ringmq serve --check` prints all that exist"),
                }
            }
            ConfigError::Value { key, value, origin, accepted } => {
                write!(f, "{origin}: {key} = `{value}`: {accepted}")
            }
            ConfigError::Unbuilt { key, value, origin, remedy } => {
                write!(f, "{origin}: {key} = `{value}` is refused: {remedy}")
            }
            ConfigError::Contradiction { explanation } => write!(f, "settings contradict: {explanation}"),
        }
    }
}

impl std::error::Error for ConfigError {}
