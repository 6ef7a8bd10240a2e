//! Why a step was not made, or no server was found to make it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Why a step was not made, or whether it was is not known; or why there is no connection.
///
/// It names the server by its address, and never says the password.
#[derive(Clone, Debug)]
pub struct RedisError {
    address: Option<Arc<str>>,
    fault: Fault,
}

#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// What the client or the server says.
    Refused(redis::RedisError),
    /// The step was sent, and this came instead of an answer.
    Unanswered(redis::RedisError),
    /// What this store does not accept.
    Unfit(String),
}

impl RedisError {
    pub(super) fn new(address: Option<&str>, fault: Fault) -> Self {
        RedisError { address: address.map(Arc::from), fault }
    }

    /// Whether the step was sent and not answered: it may have been made.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        matches!(self.fault, Fault::Unanswered(_))
    }

    /// What the client says, if it is the client that does.
    pub(super) fn client(&self) -> Option<&redis::RedisError> {
        match &self.fault {
            Fault::Refused(error) | Fault::Unanswered(error) => Some(error),
            Fault::Unfit(_) => None,
        }
    }
}

impl fmt::Display for RedisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Some(address) => write!(f, "redis at {address}: ")?,
            None => f.write_str("redis: ")?,
        }
        if self.is_unanswered() {
            f.write_str("the step was sent, and may have been made: ")?;
        }
        match &self.fault {
            Fault::Unfit(why) => f.write_str(why),
            Fault::Refused(error) | Fault::Unanswered(error) if error.is_timeout() => {
                f.write_str("no answer in time")
            }
            Fault::Refused(error) if error.kind() == redis::ErrorKind::Parse => {
                write!(f, "what answers there is no Redis server: {error}")
            }
            Fault::Refused(error) | Fault::Unanswered(error) => error.fmt(f),
        }
    }
}

impl Error for RedisError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // What it says itself is said already.
        self.client().and_then(Error::source)
    }
}
