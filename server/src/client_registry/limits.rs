//! What the registry holds at most, and how it says that something doesn't fit. Checks come before the first change.

use std::{fmt, time::Duration};

use protocol::body::ConsumerData;

use super::{ClientRegistry, Role, Sender};

/// Bounds of a [`ClientRegistry`]: together they bound its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientRegistryLimits {
    /// Groups with members, for each role.
    pub group_count_max: usize,
    /// Client ids in one group.
    pub client_count_per_group_max: usize,
    /// Client ids in all groups, counted once per group and role.
    pub membership_count_max: usize,
    /// The same, over one connection: nobody takes all of it.
    pub membership_count_per_connection_max: usize,
    /// Longest name of a group, and longest client id, in bytes (RocketMQ's longest group name is 255).
    pub name_bytes_max: usize,
    /// Topics that one group subscribes to.
    pub subscription_count_per_group_max: usize,
    /// What the subscriptions of all groups take, in bytes.
    pub subscription_bytes_max: usize,
    /// What the filters take that pulls brought along, in bytes.
    pub pull_subscription_bytes_max: usize,
    /// How long the filter is remembered that a pull brought along.
    pub pull_subscription_age_max: Duration,
}

impl ClientRegistryLimits {
    /// Far above any use we know of, and some 100 MiB when all is taken.
    pub const DEFAULT: ClientRegistryLimits = ClientRegistryLimits {
        group_count_max: 20_000,
        client_count_per_group_max: 20_000,
        membership_count_max: 100_000,
        membership_count_per_connection_max: 4_096,
        name_bytes_max: 255,
        subscription_count_per_group_max: 4_096,
        subscription_bytes_max: 64 * 1024 * 1024,
        pull_subscription_bytes_max: 4 * 1024 * 1024,
        // As long as RocketMQ remembers them.
        pull_subscription_age_max: Duration::from_secs(600),
    };
}

impl Default for ClientRegistryLimits {
    fn default() -> ClientRegistryLimits {
        ClientRegistryLimits::DEFAULT
    }
}

/// A group that a heartbeat named and that wasn't taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// As what the client wanted to join.
    pub role: Role,
    /// The group, cut to a length that can be shown.
    pub group: String,
    /// Why it can't.
    pub reason: RefusalReason,
}

impl Refused {
    pub(super) fn new(role: Role, group: &str, reason: RefusalReason) -> Refused {
        Refused { role, group: group.chars().take(GROUP_SHOWN_CHARS_MAX).collect(), reason }
    }
}

/// How much of a group's name a refusal repeats.
const GROUP_SHOWN_CHARS_MAX: usize = 64;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Consumer => "consumer",
            Role::Producer => "producer",
        };
        write!(f, "{role} group {:?}: {}", self.group, self.reason)
    }
}

impl std::error::Error for Refused {}

/// Why a client can't join a group, or can't subscribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The client id is empty or too long.
    ClientIdLength {
        /// Its bytes.
        bytes: usize,
        /// How many there may be.
        bytes_max: usize,
    },
    /// The group's name is empty or too long.
    GroupNameLength {
        /// Its bytes.
        bytes: usize,
        /// How many there may be.
        bytes_max: usize,
    },
    /// A subscription names no topic.
    NoTopic,
    /// There are as many groups as there may be.
    TooManyGroups {
        /// How many.
        count_max: usize,
    },
    /// The group has as many clients as it may have.
    TooManyClients {
        /// How many.
        count_max: usize,
    },
    /// All groups together have as many clients as they may have.
    TooManyMemberships {
        /// How many.
        count_max: usize,
    },
    /// This connection speaks for as many as it may.
    TooManyMembershipsOfConnection {
        /// How many.
        count_max: usize,
    },
    /// More subscriptions than a group may have.
    TooManySubscriptions {
        /// How many the heartbeat brings.
        count: usize,
        /// How many there may be.
        count_max: usize,
    },
    /// All subscriptions together would take too much.
    TooManySubscriptionBytes {
        /// What there may be.
        bytes_max: usize,
    },
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientIdLength { bytes, bytes_max } => {
                write!(f, "the client id has {bytes} bytes, it must have 1 to {bytes_max}")
            }
            Self::GroupNameLength { bytes, bytes_max } => {
                write!(f, "the group's name has {bytes} bytes, it must have 1 to {bytes_max}")
            }
            Self::NoTopic => f.write_str("a subscription has no topic"),
            Self::TooManyGroups { count_max } => write!(f, "the broker has {count_max} groups, the maximum"),
            Self::TooManyClients { count_max } => write!(f, "the group has {count_max} clients, the maximum"),
            Self::TooManyMemberships { count_max } => {
                write!(f, "the broker's groups have {count_max} clients together, the maximum")
            }
            Self::TooManyMembershipsOfConnection { count_max } => {
                write!(f, "the connection is in {count_max} groups, the maximum")
            }
            Self::TooManySubscriptions { count, count_max } => {
                write!(f, "{count} subscriptions, the maximum is {count_max}")
            }
            Self::TooManySubscriptionBytes { bytes_max } => {
                write!(f, "the broker's subscriptions take {bytes_max} bytes, the maximum")
            }
        }
    }
}

impl std::error::Error for RefusalReason {}

impl ClientRegistry {
    /// Whether the sender is in this group over this connection, or can be.
    pub(super) fn check_room(
        &self,
        role: Role,
        group: &str,
        sender: Sender<'_>,
    ) -> Result<(), RefusalReason> {
        let limits = &self.limits;
        let bytes_max = limits.name_bytes_max;
        let is_name = |name: &str| (1..=bytes_max).contains(&name.len());
        if !is_name(sender.client_id) {
            return Err(RefusalReason::ClientIdLength { bytes: sender.client_id.len(), bytes_max });
        }
        if !is_name(group) {
            return Err(RefusalReason::GroupNameLength { bytes: group.len(), bytes_max });
        }
        let members = self.members(role, group);
        let connection = sender.member.connection;
        let known = members.and_then(|members| members.get(sender.client_id));
        if known.is_some_and(|member| member.connection == connection) {
            return Ok(());
        }

        let count_max = limits.membership_count_per_connection_max;
        if self.index.count_of(connection) >= count_max {
            return Err(RefusalReason::TooManyMembershipsOfConnection { count_max });
        }
        if known.is_some() {
            return Ok(());
        }
        let count_max = limits.membership_count_max;
        if self.index.len() >= count_max {
            return Err(RefusalReason::TooManyMemberships { count_max });
        }
        let count_max = limits.group_count_max;
        if members.is_none() && self.group_count(role) >= count_max {
            return Err(RefusalReason::TooManyGroups { count_max });
        }
        let count_max = limits.client_count_per_group_max;
        if members.map_or(0, |members| members.len()) >= count_max {
            return Err(RefusalReason::TooManyClients { count_max });
        }
        Ok(())
    }

    /// Whether the group's subscriptions can be what this heartbeat says. Returns the most that they will take, in bytes.
    pub(super) fn check_subscriptions(
        &self,
        sender: Sender<'_>,
        data: &ConsumerData,
    ) -> Result<usize, RefusalReason> {
        let subscriptions = self.consumers.get(&data.group_name).map(|group| &group.subscriptions);
        let bytes = subscriptions.map_or(0, |subscriptions| subscriptions.bytes());
        if sender.without_sub {
            return Ok(bytes);
        }
        let (count, count_max) = (data.subscriptions.len(), self.limits.subscription_count_per_group_max);
        if count > count_max {
            return Err(RefusalReason::TooManySubscriptions { count, count_max });
        }
        if data.subscriptions.iter().any(|subscription| subscription.topic.is_empty()) {
            return Err(RefusalReason::NoTopic);
        }
        let bytes_after = match subscriptions {
            Some(subscriptions) => subscriptions.bytes_after(&data.subscriptions),
            None => super::subscriptions::bytes_of_all(&data.subscriptions),
        };
        let bytes_max = self.limits.subscription_bytes_max;
        // What doesn't grow always fits, so that a full registry keeps those it has.
        if bytes_after > bytes && self.subscription_bytes - bytes + bytes_after > bytes_max {
            return Err(RefusalReason::TooManySubscriptionBytes { bytes_max });
        }
        Ok(bytes_after)
    }
}
