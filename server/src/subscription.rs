//! Filter expressions of subscriptions: what a consumer wrote becomes the hashes its pulls are filtered by.
//!
//! Owns the TAG expression (`A || B`) and the refusals around subscriptions. Knows no queue and no message: the engine
//! compares hashes, the consumer sorts out collisions by comparing tags. SQL92 isn't understood, and is refused as a
//! broker refuses it whose property filter is off.

use std::fmt;

use protocol::{
    body::{SubscriptionData, heartbeat::EXPRESSION_TYPE_TAG},
    properties::java_string_hash,
};

/// The expression that stands for every message.
pub const EXPRESSION_ALL: &str = "*";

/// Longest TAG expression in bytes. RocketMQ has no bound but the frame; a held pull keeps the hashes.
pub const EXPRESSION_BYTES_MAX: usize = 64 * 1024;

/// Between two tags.
const TAG_SEPARATOR: &str = "||";

/// Which messages a subscription wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagFilter {
    /// All of them.
    All,
    /// Those whose tag hashes, by Java's `String.hashCode`, to one of these: ascending, none twice. None at all is
    /// possible (the expression `" "`), and then nothing passes.
    Codes(Vec<i32>),
}

impl TagFilter {
    /// Reads what a pull carries: expression and type as in its header, `None` where the header has no such field.
    ///
    /// # Errors
    /// [`SubscriptionError::ParseFailed`], [`SubscriptionError::TypeNotSupported`] or
    /// [`SubscriptionError::ExpressionTooLong`].
    pub fn parse(
        expression: Option<&str>,
        expression_type: Option<&str>,
    ) -> Result<TagFilter, SubscriptionError> {
        let expression = expression.unwrap_or_default();
        match expression_type {
            Some(other) if !is_tag_type(other) => {
                // RocketMQ looks for a text before it looks at the type.
                if expression.is_empty() {
                    return Err(SubscriptionError::ParseFailed);
                }
                Err(SubscriptionError::TypeNotSupported { expression_type: other.to_owned() })
            }
            _ => TagFilter::parse_tags(expression),
        }
    }

    /// The filter of a subscription as a heartbeat describes it. The hashes that the client computed count, unless it
    /// left them out.
    ///
    /// # Errors
    /// As [`TagFilter::parse`].
    pub fn of_subscription(data: &SubscriptionData) -> Result<TagFilter, SubscriptionError> {
        if !is_tag_type(&data.expression_type) {
            return Err(SubscriptionError::TypeNotSupported {
                expression_type: data.expression_type.clone(),
            });
        }
        if data.class_filter_mode {
            return Ok(TagFilter::All);
        }
        if data.code_set.is_empty() || is_all(&data.sub_string) {
            return TagFilter::parse_tags(&data.sub_string);
        }
        Ok(TagFilter::of_codes(data.code_set.clone()))
    }

    fn parse_tags(expression: &str) -> Result<TagFilter, SubscriptionError> {
        if expression.len() > EXPRESSION_BYTES_MAX {
            return Err(SubscriptionError::ExpressionTooLong { bytes: expression.len() });
        }
        if is_all(expression) {
            return Ok(TagFilter::All);
        }
        if expression.split(TAG_SEPARATOR).all(str::is_empty) {
            return Err(SubscriptionError::ParseFailed);
        }
        Ok(TagFilter::of_codes(tags(expression).map(java_string_hash).collect()))
    }

    fn of_codes(mut codes: Vec<i32>) -> TagFilter {
        codes.sort_unstable();
        codes.dedup();
        TagFilter::Codes(codes)
    }
}

/// The tags that an expression names, in its order. Blanks around them are those of Java's `String.trim`.
pub fn tags(expression: &str) -> impl Iterator<Item = &str> {
    let is_blank = |character: char| character <= ' ';
    expression.split(TAG_SEPARATOR).map(move |tag| tag.trim_matches(is_blank)).filter(|tag| !tag.is_empty())
}

/// Whether an expression type means tags; saying nothing does.
#[must_use]
pub fn is_tag_type(expression_type: &str) -> bool {
    expression_type.is_empty() || expression_type == EXPRESSION_TYPE_TAG
}

fn is_all(expression: &str) -> bool {
    expression.is_empty() || expression == EXPRESSION_ALL
}

/// Why a pull finds no filter to work with. The text is the remark a RocketMQ broker gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionError {
    /// No live member of the group is known (24).
    GroupNotOnline,
    /// The group doesn't subscribe to the topic (24).
    NotSubscribed,
    /// The client has a newer subscription than its last heartbeat told of (25).
    NotLatest,
    /// The expression says nothing: only `||`, or none where the type needs one (23).
    ParseFailed,
    /// The expression is longer than [`EXPRESSION_BYTES_MAX`] (23).
    ExpressionTooLong {
        /// Its bytes.
        bytes: usize,
    },
    /// Filtering by this type of expression is off; SQL92 too (1).
    TypeNotSupported {
        /// What the client asked for.
        expression_type: String,
    },
}

impl fmt::Display for SubscriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GroupNotOnline => f.write_str("the consumer's group info not exist"),
            Self::NotSubscribed => f.write_str("the consumer's subscription not exist"),
            Self::NotLatest => f.write_str("the consumer's subscription not latest"),
            Self::ParseFailed => f.write_str("parse the consumer's subscription failed"),
            Self::ExpressionTooLong { bytes } => {
                write!(f, "parse the consumer's subscription failed: {bytes} bytes")?;
                write!(f, ", the maximum is {EXPRESSION_BYTES_MAX}")
            }
            Self::TypeNotSupported { expression_type } => {
                write!(f, "The broker does not support consumer to filter message by {expression_type}")
            }
        }
    }
}

impl std::error::Error for SubscriptionError {}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG_A: i32 = 2_598_919;
    const TAG_B: i32 = 2_598_920;

    fn check(expression: &str, expected: Result<TagFilter, SubscriptionError>) {
        assert_eq!(TagFilter::parse(Some(expression), Some("TAG")), expected, "{expression:?}");
        assert_eq!(TagFilter::parse(Some(expression), None), expected, "{expression:?}");
        assert_eq!(TagFilter::parse(Some(expression), Some("")), expected, "{expression:?}");
    }

    fn codes(codes: &[i32]) -> Result<TagFilter, SubscriptionError> {
        Ok(TagFilter::Codes(codes.to_vec()))
    }

    #[test]
    fn star_empty_and_absent_mean_all() {
        check("*", Ok(TagFilter::All));
        check("", Ok(TagFilter::All));
        assert_eq!(TagFilter::parse(None, None), Ok(TagFilter::All));
    }

    #[test]
    fn tags_are_split_trimmed_hashed_and_made_a_set() {
        check("TagA", codes(&[TAG_A]));
        check("TagB || TagA||TagB", codes(&[TAG_A, TAG_B]));
        check("||\tTagA ||  || TagB||", codes(&[TAG_A, TAG_B]));
        // A star among tags is a tag, a single bar belongs to its tag, and hashes are signed.
        check("* || TagA", codes(&[42, TAG_A]));
        check("|||", codes(&[i32::from(b'|')]));
        check("a|b", codes(&[java_string_hash("a|b")]));
        check("polygenelubricants", codes(&[i32::MIN]));
        check("订单", codes(&[1_129_459]));
        // Java trims what isn't above a blank, and nothing else.
        check("\u{a0}", codes(&[0xa0]));
    }

    #[test]
    fn only_bars_is_an_error_and_only_blanks_pass_nothing() {
        check("||", Err(SubscriptionError::ParseFailed));
        check("||||", Err(SubscriptionError::ParseFailed));
        check(" ", codes(&[]));
        check(" || ", codes(&[]));
        check("|| ", codes(&[]));
    }

    #[test]
    fn long_expression_is_refused() {
        check(
            &"a".repeat(EXPRESSION_BYTES_MAX),
            codes(&[java_string_hash(&"a".repeat(EXPRESSION_BYTES_MAX))]),
        );
        let bytes = EXPRESSION_BYTES_MAX + 1;
        check(&"a".repeat(bytes), Err(SubscriptionError::ExpressionTooLong { bytes }));
    }

    #[test]
    fn sql_is_refused_as_when_the_property_filter_is_off() {
        let error = TagFilter::parse(Some("a > 1"), Some("SQL92")).unwrap_err();
        assert_eq!(error, SubscriptionError::TypeNotSupported { expression_type: "SQL92".to_owned() });
        assert_eq!(error.to_string(), "The broker does not support consumer to filter message by SQL92");
        assert!(matches!(
            TagFilter::parse(Some("*"), Some("tag")),
            Err(SubscriptionError::TypeNotSupported { .. })
        ));
        assert_eq!(TagFilter::parse(Some(""), Some("SQL92")), Err(SubscriptionError::ParseFailed));
        assert_eq!(TagFilter::parse(None, Some("SQL92")), Err(SubscriptionError::ParseFailed));
    }

    #[test]
    fn heartbeat_hashes_count_unless_left_out() {
        let data = |sub_string: &str, code_set: &[i32]| SubscriptionData {
            sub_string: sub_string.to_owned(),
            code_set: code_set.to_vec(),
            ..SubscriptionData::default()
        };
        let filter = |data: &SubscriptionData| TagFilter::of_subscription(data);
        assert_eq!(filter(&data("*", &[])), Ok(TagFilter::All));
        assert_eq!(filter(&data("", &[])), Ok(TagFilter::All));
        assert_eq!(filter(&data("*", &[7])), Ok(TagFilter::All));
        assert_eq!(filter(&data("TagA || TagB", &[TAG_B, TAG_A, TAG_B])), codes(&[TAG_A, TAG_B]));
        assert_eq!(filter(&data("TagA || TagB", &[])), codes(&[TAG_A, TAG_B]));
        assert_eq!(filter(&data("||", &[])), Err(SubscriptionError::ParseFailed));
        let class_filter = SubscriptionData { class_filter_mode: true, ..data("TagA", &[TAG_A]) };
        assert_eq!(filter(&class_filter), Ok(TagFilter::All));
        let sql = SubscriptionData { expression_type: "SQL92".to_owned(), ..data("a > 1", &[]) };
        assert_eq!(
            filter(&sql),
            Err(SubscriptionError::TypeNotSupported { expression_type: "SQL92".to_owned() })
        );
    }
}
