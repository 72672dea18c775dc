//! What to do with what a scan found: a table of labelled cases, each with its reason.
//!
//! The scan gives [`Facts`]; exactly one case matches any of them (a test walks all combinations). Adding a case
//! means adding a line here, not an `if` elsewhere.

/// How the store was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// No `abort`: everything was synced.
    Clean,
    /// `abort` was there: the process, or the machine, ended at any point.
    Killed,
}

/// What stands behind the last valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Nothing: the last segment is complete, and no other follows.
    Nothing,
    /// Zeros.
    Zeros,
    /// Something, but no valid record newer than those before.
    Rubbish,
    /// A valid record that is newer than those before.
    Records,
}

/// What the decision rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How the store was left.
    pub exit: Exit,
    /// What stands behind the last valid record.
    pub behind: Behind,
    /// A queue names a record that ends behind the last valid one.
    pub queues_ahead: bool,
    /// The valid records behind are ones that the checkpoint says are durable (or it says nothing): then what
    /// stood before them was durable, too.
    pub durable_behind: bool,
    /// Where the record is missing whole sectors are zero, as when a write didn't arrive; segments are zeroed
    /// before they are used.
    pub sectors_missing: bool,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The log ends at the last valid record and nothing stands behind.
    Open,
    /// What stands behind the last valid record is zeroed.
    Cut,
    /// Nothing is changed, the store isn't opened: the log is damaged.
    RefuseDamage,
    /// Nothing is changed, the store isn't opened: segments are missing.
    RefuseMissing,
}

/// One line of the table; `None` matches anything.
#[derive(Debug)]
pub struct Case {
    /// Its name, in messages and tests.
    pub label: &'static str,
    /// Why this is right.
    pub reason: &'static str,
    /// What happens.
    pub action: Action,
    exit: Option<Exit>,
    behind: Behind,
    queues_ahead: Option<bool>,
    durable_behind: Option<bool>,
    sectors_missing: Option<bool>,
}

const fn case(
    label: &'static str,
    action: Action,
    exit: Option<Exit>,
    behind: Behind,
    reason: &'static str,
) -> Case {
    Case {
        label,
        reason,
        action,
        exit,
        behind,
        queues_ahead: None,
        durable_behind: None,
        sectors_missing: None,
    }
}

/// The table.
pub const CASES: [Case; 11] = [
    Case {
        queues_ahead: Some(false),
        ..case(
            "log_ends_with_segment",
            Action::Open,
            None,
            Behind::Nothing,
            "the last record filled its segment; a new store is one without segments",
        )
    },
    Case {
        queues_ahead: Some(true),
        ..case(
            "segments_missing",
            Action::RefuseMissing,
            None,
            Behind::Nothing,
            "a segment has its name durably before a queue can name a record in it: it was removed",
        )
    },
    Case {
        queues_ahead: Some(false),
        ..case("clean_end", Action::Open, Some(Exit::Clean), Behind::Zeros, "nothing to do")
    },
    Case {
        queues_ahead: Some(true),
        ..case(
            "clean_end_lost",
            Action::Cut,
            Some(Exit::Clean),
            Behind::Zeros,
            "the disk lost the log's end, nothing intact would be discarded; the queues follow the log",
        )
    },
    case(
        "killed_at_end",
        Action::Open,
        Some(Exit::Killed),
        Behind::Zeros,
        "no write was under way; queues ahead of the log were written before records that the machine lost",
    ),
    case(
        "clean_tail_damaged",
        Action::Cut,
        Some(Exit::Clean),
        Behind::Rubbish,
        "the last record is damaged, or an old end wasn't zeroed; nothing intact would be discarded",
    ),
    case(
        "torn_tail",
        Action::Cut,
        Some(Exit::Killed),
        Behind::Rubbish,
        "the write that was under way didn't arrive whole; it was not acknowledged",
    ),
    case(
        "damage_after_clean_stop",
        Action::RefuseDamage,
        Some(Exit::Clean),
        Behind::Records,
        "a clean stop leaves nothing unwritten: a record that was there is damaged",
    ),
    Case {
        durable_behind: Some(true),
        ..case(
            "damage_in_durable_part",
            Action::RefuseDamage,
            Some(Exit::Killed),
            Behind::Records,
            "the record was durable, so it isn't the end of a write that was under way",
        )
    },
    Case {
        durable_behind: Some(false),
        sectors_missing: Some(false),
        ..case(
            "damage_before_end",
            Action::RefuseDamage,
            Some(Exit::Killed),
            Behind::Records,
            "a write that didn't arrive leaves zeros; other bytes are damage",
        )
    },
    Case {
        durable_behind: Some(false),
        sectors_missing: Some(true),
        ..case(
            "write_with_hole",
            Action::Cut,
            Some(Exit::Killed),
            Behind::Records,
            "a power cut kept later parts of unsynced writes and lost earlier ones; none was acknowledged",
        )
    },
];

impl Case {
    /// The case that `facts` are.
    #[must_use]
    pub fn of(facts: &Facts) -> &'static Case {
        CASES.iter().find(|case| case.matches(facts)).expect("the table covers all facts, as a test shows")
    }

    fn matches(&self, facts: &Facts) -> bool {
        self.exit.is_none_or(|exit| exit == facts.exit)
            && self.behind == facts.behind
            && self.queues_ahead.is_none_or(|ahead| ahead == facts.queues_ahead)
            && self.durable_behind.is_none_or(|durable| durable == facts.durable_behind)
            && self.sectors_missing.is_none_or(|missing| missing == facts.sectors_missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_facts() -> Vec<Facts> {
        let mut all = Vec::new();
        for exit in [Exit::Clean, Exit::Killed] {
            for behind in [Behind::Nothing, Behind::Zeros, Behind::Rubbish, Behind::Records] {
                for bits in 0..8 {
                    all.push(Facts {
                        exit,
                        behind,
                        queues_ahead: bits & 1 != 0,
                        durable_behind: bits & 2 != 0,
                        sectors_missing: bits & 4 != 0,
                    });
                }
            }
        }
        all
    }

    #[test]
    fn every_combination_of_facts_is_exactly_one_case() {
        let all = all_facts();
        assert_eq!(all.len(), 64);
        for facts in &all {
            let labels: Vec<_> =
                CASES.iter().filter(|case| case.matches(facts)).map(|case| case.label).collect();
            assert_eq!(labels.len(), 1, "{facts:?} is {labels:?}");
        }
    }

    #[test]
    fn every_case_is_reached_and_named_once() {
        let all = all_facts();
        for (place, case) in CASES.iter().enumerate() {
            assert!(all.iter().any(|facts| case.matches(facts)), "{} is never reached", case.label);
            assert!(CASES[..place].iter().all(|other| other.label != case.label), "{} is twice", case.label);
            assert!(!case.reason.is_empty());
        }
    }

    #[test]
    fn valid_records_go_only_when_a_power_cut_explains_the_hole() {
        for facts in all_facts() {
            let case = Case::of(&facts);
            let explained = facts.exit == Exit::Killed && facts.sectors_missing && !facts.durable_behind;
            if facts.behind == Behind::Records && !explained {
                assert_eq!(case.action, Action::RefuseDamage, "{facts:?} is {}", case.label);
            }
        }
    }
}
