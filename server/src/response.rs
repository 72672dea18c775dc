//! Errors -> RocketMQ's response codes, where the error itself doesn't know it.

use protocol::code::response;

use crate::subscription::SubscriptionError;

/// The code for a pull whose filter can't be found or read.
#[must_use]
pub fn subscription_code(error: &SubscriptionError) -> i32 {
    match error {
        SubscriptionError::GroupNotOnline | SubscriptionError::NotSubscribed => {
            response::SUBSCRIPTION_NOT_EXIST
        }
        SubscriptionError::NotLatest => response::SUBSCRIPTION_NOT_LATEST,
        SubscriptionError::ParseFailed | SubscriptionError::ExpressionTooLong { .. } => {
            response::SUBSCRIPTION_PARSE_FAILED
        }
        SubscriptionError::TypeNotSupported { .. } => response::SYSTEM_ERROR,
    }
}
