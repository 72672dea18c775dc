//! The two offsets of a log, as types that cannot be mixed.
//!
//! RocketMQ's sources use four names for these two numbers; here a [`LogOffset`] is always a byte position
//! in a shard's commit log (RocketMQ's physical offset) and a [`QueueOffset`] is always the ordinal of a
//! message in its topic and queue (RocketMQ's consume-queue offset). Both are signed 64-bit numbers on wire
//! and disk and never negative here.

use std::fmt;

macro_rules! offset {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(u64);

        impl $name {
            /// The first position.
            pub const ZERO: $name = $name(0);

            /// The position `value`, which must fit a non-negative `i64`: that is how it is stored and sent.
            ///
            /// # Panics
            /// When `value` exceeds `i64::MAX`; a log of 8 EiB is out of reach.
            #[must_use]
            pub const fn new(value: u64) -> $name {
                assert!(value <= i64::MAX as u64, "an offset fits a non-negative i64");
                $name(value)
            }

            /// The position in a field read from wire or disk; `None` when negative.
            #[must_use]
            pub const fn from_i64(value: i64) -> Option<$name> {
                if value < 0 { None } else { Some($name(value.cast_unsigned())) }
            }

            /// The number itself.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The number as wire and disk have it.
            #[must_use]
            pub const fn as_i64(self) -> i64 {
                self.0.cast_signed()
            }

            /// The position `distance` further on.
            #[must_use]
            pub const fn plus(self, distance: u64) -> $name {
                $name::new(self.0 + distance)
            }

            /// How far `self` lies behind `earlier`.
            ///
            /// # Panics
            /// When `earlier` is later than `self`.
            #[must_use]
            pub const fn since(self, earlier: $name) -> u64 {
                assert!(earlier.0 <= self.0, "the distance is taken from the earlier position");
                self.0 - earlier.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

offset!(
    /// A byte position in a shard's commit log.
    LogOffset
);
offset!(
    /// The ordinal of a message in its topic and queue; also a position to consume from.
    QueueOffset
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_fields_are_no_offsets() {
        assert_eq!(LogOffset::from_i64(-1), None);
        assert_eq!(QueueOffset::from_i64(7), Some(QueueOffset::new(7)));
    }

    #[test]
    #[should_panic(expected = "earlier position")]
    fn a_distance_is_never_negative() {
        let _ = LogOffset::new(1).since(LogOffset::new(2));
    }
}
