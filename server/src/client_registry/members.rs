//! Who is in one group, and which memberships hang on one connection. Two views of the same facts: whoever changes one
//! changes the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    time::Duration,
};

use protocol::Language;

use crate::connection::table::ConnectionKey;

/// As what a client is in a group. Producer and consumer groups of one name are different groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It sends messages.
    Producer,
    /// It gets them.
    Consumer,
}

/// One client in one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Over which connection it was heard last: where it is told things.
    pub connection: ConnectionKey,
    /// Its version, as in its requests' headers.
    pub version: i32,
    /// Its language.
    pub language: Language,
    /// When it last named this group, since start.
    pub last_heartbeat: Duration,
}

/// The members of one group by client id, ascending.
#[derive(Debug, Default)]
pub struct Members {
    by_client_id: BTreeMap<String, Member>,
    /// Whose turn it was at [`Members::next_connection`].
    served: String,
}

/// What a heartbeat is to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// From somebody new.
    New,
    /// From a member, but over another connection than before.
    Moved {
        /// The one before.
        from: ConnectionKey,
    },
    /// Nothing new.
    Again,
}

impl Members {
    /// A member.
    #[must_use]
    pub fn get(&self, client_id: &str) -> Option<&Member> {
        self.by_client_id.get(client_id)
    }

    /// All, by client id.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Member)> {
        self.by_client_id.iter().map(|(client_id, member)| (client_id.as_str(), member))
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_client_id.len()
    }

    /// Whether there are none; never the case of a group that the registry shows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_client_id.is_empty()
    }

    pub(super) fn hear(&mut self, client_id: &str, member: Member) -> Heard {
        let Some(known) = self.by_client_id.get_mut(client_id) else {
            self.by_client_id.insert(client_id.to_owned(), member);
            return Heard::New;
        };
        let from = std::mem::replace(known, member).connection;
        if from == member.connection { Heard::Again } else { Heard::Moved { from } }
    }

    pub(super) fn remove(&mut self, client_id: &str) {
        let removed = self.by_client_id.remove(client_id);
        assert!(removed.is_some(), "client {client_id:?} leaves a group that it isn't in");
    }

    /// The connection of the member after the one that had its turn last.
    pub(super) fn next_connection(&mut self) -> ConnectionKey {
        let after = (Bound::Excluded(self.served.as_str()), Bound::Unbounded);
        let next = self.by_client_id.range::<str, _>(after).next();
        let (client_id, member) =
            next.or_else(|| self.by_client_id.first_key_value()).expect("a group has members");
        self.served.clone_from(client_id);
        member.connection
    }

    /// Those of whom `is_wanted` holds, with their connections.
    pub(super) fn memberships_where(
        &self,
        role: Role,
        group: &str,
        is_wanted: impl Fn(&Member) -> bool,
    ) -> impl Iterator<Item = (ConnectionKey, Membership)> {
        let wanted = self.iter().filter(move |(_, member)| is_wanted(member));
        wanted.map(move |(client_id, member)| (member.connection, Membership::new(role, group, client_id)))
    }
}

/// That a client is in a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Membership {
    pub(super) role: Role,
    pub(super) group: String,
    pub(super) client_id: String,
}

impl Membership {
    pub(super) fn new(role: Role, group: &str, client_id: &str) -> Membership {
        Membership { role, group: group.to_owned(), client_id: client_id.to_owned() }
    }
}

/// Memberships by connection. No connection without one is kept.
#[derive(Debug, Default)]
pub(super) struct ConnectionIndex {
    by_connection: BTreeMap<ConnectionKey, BTreeSet<Membership>>,
    len: usize,
}

impl ConnectionIndex {
    pub(super) fn insert(&mut self, connection: ConnectionKey, membership: Membership) {
        let memberships = self.by_connection.entry(connection).or_default();
        let is_new = memberships.insert(membership);
        assert!(is_new, "{connection:?} is given a membership that it has");
        self.len += 1;
    }

    pub(super) fn remove(&mut self, connection: ConnectionKey, membership: &Membership) {
        let memberships = self.by_connection.get_mut(&connection).expect("members are indexed");
        let was_there = memberships.remove(membership);
        assert!(was_there, "{membership:?} isn't indexed under {connection:?}");
        if memberships.is_empty() {
            self.by_connection.remove(&connection);
        }
        self.len -= 1;
    }

    pub(super) fn remove_connection(&mut self, connection: ConnectionKey) -> BTreeSet<Membership> {
        let memberships = self.by_connection.remove(&connection).unwrap_or_default();
        self.len -= memberships.len();
        memberships
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (ConnectionKey, Membership)> {
        let pair = |(connection, memberships): (&ConnectionKey, &BTreeSet<Membership>)| {
            memberships.iter().map(|membership| (*connection, membership.clone())).collect::<Vec<_>>()
        };
        self.by_connection.iter().flat_map(pair)
    }

    pub(super) fn count_of(&self, connection: ConnectionKey) -> usize {
        self.by_connection.get(&connection).map_or(0, BTreeSet::len)
    }

    /// All memberships.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}
