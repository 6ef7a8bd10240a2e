//! The errors that only groups have.

use ixion::kafka::ErrorCode;

pub(crate) const OFFSET_METADATA_TOO_LARGE: ErrorCode = ErrorCode::new(12);
pub(crate) const NOT_COORDINATOR: ErrorCode = ErrorCode::new(16);
pub(crate) const ILLEGAL_GENERATION: ErrorCode = ErrorCode::new(22);
pub(crate) const INCONSISTENT_GROUP_PROTOCOL: ErrorCode = ErrorCode::new(23);
pub(crate) const INVALID_GROUP_ID: ErrorCode = ErrorCode::new(24);
pub(crate) const UNKNOWN_MEMBER_ID: ErrorCode = ErrorCode::new(25);
pub(crate) const INVALID_SESSION_TIMEOUT: ErrorCode = ErrorCode::new(26);
pub(crate) const REBALANCE_IN_PROGRESS: ErrorCode = ErrorCode::new(27);
pub(crate) const MEMBER_ID_REQUIRED: ErrorCode = ErrorCode::new(79);
pub(crate) const GROUP_MAX_SIZE_REACHED: ErrorCode = ErrorCode::new(81);
pub(crate) const FENCED_INSTANCE_ID: ErrorCode = ErrorCode::new(82);
