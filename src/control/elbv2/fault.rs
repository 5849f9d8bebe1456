//! Why a request was refused, as AWS's clients know it: a status, a code, a sentence.

use std::fmt;

use hyper::StatusCode;

use crate::control::socket::rpc::{self, RpcError};

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The HTTP status.
    pub status: StatusCode,
    /// AWS's code: clients make an exception of that name of it.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// Whether the connection cannot be used any further.
    pub closes: bool,
}

impl Fault {
    /// A refusal with status 400.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Fault { status: StatusCode::BAD_REQUEST, code: code.into(), message: message.into(), closes: false }
    }

    /// A parameter that cannot be taken.
    pub fn invalid(message: impl Into<String>) -> Self {
        Fault::new("ValidationError", message)
    }

    /// The same refusal with another status.
    #[must_use]
    pub fn status(self, status: StatusCode) -> Self {
        Fault { status, ..self }
    }

    /// The same refusal, after which the connection is closed: it is not sure where the next request begins.
    #[must_use]
    pub fn closing(self) -> Self {
        Fault { closes: true, ..self }
    }

    /// Whose fault it is.
    pub fn side(&self) -> &'static str {
        if self.status.is_server_error() { "Receiver" } else { "Sender" }
    }
}

impl From<RpcError> for Fault {
    /// The socket's codes are AWS's already. What breaks a rule of the model has AWS's sentence; of what
    /// cannot even be read, the place is told too.
    fn from(error: RpcError) -> Self {
        let RpcError { code, message, data } = error;
        match code {
            rpc::REFUSED => {
                let status = match data.kind.as_str() {
                    "AccessDenied" => StatusCode::FORBIDDEN,
                    "HealthUnavailable" => StatusCode::INTERNAL_SERVER_ERROR,
                    _ => StatusCode::BAD_REQUEST,
                };
                Fault::new(data.kind, message).status(status)
            }
            rpc::INTERNAL_ERROR => {
                let status = match data.kind.as_str() {
                    "ServiceUnavailable" => StatusCode::SERVICE_UNAVAILABLE,
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                };
                let hint = data.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                Fault::new(data.kind, format!("{message}{hint}")).status(status)
            }
            rpc::METHOD_NOT_FOUND => Fault::new("InvalidAction", message),
            _ => Fault::new(
                data.kind,
                // Of a number that is out of range AWS's sentence tells it already.
                match data
                    .path
                    .filter(|path| path != "params" && !message.starts_with(&format!("'{path}' value")))
                {
                    Some(path) => format!("{path}: {message}"),
                    None => message,
                },
            ),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}
