//! What is to happen to operations: each has a name and a number, rules hold, delay, fail or shorten it, or stop
//! the world at it. Owns the operations in flight and the log of those done; what they do is the disk's business.

use std::{cell::RefCell, collections::BTreeMap, path::Path, path::PathBuf, rc::Rc, time::Duration};

use super::{World, disk::Effect};

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the Runtime or File operation of the same name")]
pub enum Kind {
    Open,
    Create,
    WriteFile,
    ReadFile,
    Rename,
    HardLink,
    Remove,
    CreateDirectory,
    List,
    SyncDirectory,
    Lock,
    Map,
    DiskSpace,
    /// Both `write_buffer` and `write_bytes`.
    Write,
    Read,
    SyncData,
}

/// One operation on the disk, from its submission (the first poll of its future) on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Counts the operations of this world, from 1.
    pub sequence: u64,
    /// What it is.
    pub kind: Kind,
    /// The file or directory, absolute. For operations on an open file its name at submission, also after a rename.
    pub path: PathBuf,
    /// The new name, of a rename or hard link.
    pub target: Option<PathBuf>,
    /// Where it starts in the file, of reads and writes.
    pub position: u64,
    /// Bytes it reads, writes or creates.
    pub len: u64,
}

/// An operation that has completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// What it was.
    pub operation: Operation,
    /// How it ended: well, or with this errno.
    pub result: Result<(), i32>,
}

/// What becomes of the bytes that a failed sync was to make durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dirty {
    /// As Linux does: they count as written, no later sync writes them, only the page cache has them.
    Dropped,
    /// They stay dirty, and a later sync makes them durable.
    Kept,
}

/// What happens to the operations that match.
///
/// Rules are looked at in the order they were added; an operation takes the first that says when it completes
/// (hold, delay, stop) and the first that says how (fail, shorten).
pub struct Rule {
    matches: Box<dyn Fn(&Operation) -> bool>,
    /// The matching operations it is for, counted from 1; inclusive.
    first: u64,
    last: u64,
    seen: u64,
    action: Action,
}

#[derive(Clone, Copy)]
enum Action {
    Hold,
    Delay(Duration),
    Stop,
    Fail { errno: i32, dirty: Dirty },
    FailDone(i32),
    Shorten(usize),
}

impl Rule {
    /// A rule for the operations that `matches`; without more it holds them.
    pub fn on(matches: impl Fn(&Operation) -> bool + 'static) -> Rule {
        Rule { matches: Box::new(matches), first: 1, last: u64::MAX, seen: 0, action: Action::Hold }
    }

    /// A rule for the operations of one kind.
    #[must_use]
    pub fn of(kind: Kind) -> Rule {
        Rule::on(move |operation| operation.kind == kind)
    }

    /// Only those whose path, or new name, lies under a directory called `name`, at any depth.
    #[must_use]
    pub fn under(self, name: &str) -> Rule {
        let name = name.to_owned();
        let lies_under = move |path: &Path| path.components().any(|part| part.as_os_str() == name.as_str());
        let matches = self.matches;
        let both = move |operation: &Operation| {
            matches(operation)
                && (lies_under(&operation.path) || operation.target.as_deref().is_some_and(&lies_under))
        };
        Rule { matches: Box::new(both), ..self }
    }

    /// Only the `nth` that matches, counted from 1.
    #[must_use]
    pub fn nth(self, nth: u64) -> Rule {
        assert!(nth > 0, "matches are counted from 1");
        Rule { first: nth, last: nth, ..self }
    }

    /// The `nth` that matches, counted from 1, and all later ones.
    #[must_use]
    pub fn from(self, nth: u64) -> Rule {
        assert!(nth > 0, "matches are counted from 1");
        Rule { first: nth, last: u64::MAX, ..self }
    }

    /// They complete when the test releases them.
    #[must_use]
    pub fn hold(self) -> Rule {
        Rule { action: Action::Hold, ..self }
    }

    /// They complete after `duration` of virtual time.
    #[must_use]
    pub fn delay(self, duration: Duration) -> Rule {
        Rule { action: Action::Delay(duration), ..self }
    }

    /// The world stops when one is submitted: it stays in flight, nothing completes and no task runs any more.
    #[must_use]
    pub fn stop(self) -> Rule {
        Rule { action: Action::Stop, ..self }
    }

    /// They fail with `errno` and change nothing; for a sync this is `fail_sync(errno, Dirty::Dropped)`.
    #[must_use]
    pub fn fail(self, errno: i32) -> Rule {
        self.fail_sync(errno, Dirty::Dropped)
    }

    /// They fail with `errno`; says what becomes of what a failed sync was to make durable.
    #[must_use]
    pub fn fail_sync(self, errno: i32, dirty: Dirty) -> Rule {
        Rule { action: Action::Fail { errno, dirty }, ..self }
    }

    /// They happen, and yet fail with `errno`: an error does not say that nothing was done.
    #[must_use]
    pub fn fail_though_done(self, errno: i32) -> Rule {
        Rule { action: Action::FailDone(errno), ..self }
    }

    /// Writes write at most `len` bytes and say so; `write_bytes` goes on from there. Panics at anything else.
    #[must_use]
    pub fn shorten(self, len: usize) -> Rule {
        Rule { action: Action::Shorten(len), ..self }
    }
}

/// Names a rule that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(u64);

/// How an operation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Success,
    Shorten(usize),
    Fail { errno: i32, dirty: Dirty },
    FailDone(i32),
}

/// When an operation completes.
#[derive(Clone, Copy)]
pub(super) enum When {
    Soon,
    After(Duration),
    Held,
}

/// Makes an operation's effect and hands its result to who waits.
pub(super) type Work = Box<dyn FnOnce(&Rc<World>, Outcome) -> Result<(), i32>>;

pub(super) struct InFlight {
    pub(super) operation: Operation,
    /// What it changes on the disk, when it changes anything.
    pub(super) effect: Option<Rc<Effect>>,
    pub(super) outcome: Outcome,
    pub(super) work: Work,
    /// Held by this rule.
    held: Option<RuleId>,
}

#[derive(Default)]
pub(super) struct PlanState {
    rules: BTreeMap<RuleId, Rule>,
    rule_next: u64,
    pub(super) submitted: u64,
    pub(super) in_flight: BTreeMap<u64, InFlight>,
    stop_at: Option<u64>,
    pub(super) stopped: bool,
    pub(super) log: Vec<Done>,
}

impl PlanState {
    /// Numbers the operation, decides its fate and takes it in flight.
    pub(super) fn submit(&mut self, operation: Operation, effect: Option<Rc<Effect>>, work: Work) -> When {
        assert_eq!(operation.sequence, self.submitted + 1, "operations are numbered without gaps");
        self.submitted = operation.sequence;
        let mut when = None;
        let mut held = None;
        let mut outcome = None;
        for (id, rule) in &mut self.rules {
            if !(rule.matches)(&operation) {
                continue;
            }
            rule.seen += 1;
            if !(rule.first..=rule.last).contains(&rule.seen) {
                continue;
            }
            match rule.action {
                Action::Hold if when.is_none() => {
                    when = Some(When::Held);
                    held = Some(*id);
                }
                Action::Delay(duration) if when.is_none() => when = Some(When::After(duration)),
                Action::Stop => self.stopped = true,
                Action::Fail { errno, dirty } if outcome.is_none() => {
                    outcome = Some(Outcome::Fail { errno, dirty });
                }
                Action::FailDone(errno) if outcome.is_none() => outcome = Some(Outcome::FailDone(errno)),
                Action::Shorten(len) if outcome.is_none() => outcome = Some(Outcome::Shorten(len)),
                _ => {}
            }
        }
        if self.stop_at == Some(operation.sequence) {
            self.stopped = true;
        }
        let outcome = outcome.unwrap_or(Outcome::Success);
        self.in_flight.insert(operation.sequence, InFlight { operation, effect, outcome, work, held });
        when.unwrap_or(When::Soon)
    }

    fn held(&self) -> impl Iterator<Item = (&InFlight, RuleId)> {
        self.in_flight.values().filter_map(|flight| flight.held.map(|rule| (flight, rule)))
    }
}

/// The plan of a world, for its test.
#[derive(Clone)]
pub struct ScriptPlan {
    pub(super) world: Rc<World>,
}

impl ScriptPlan {
    fn state(&self) -> &RefCell<PlanState> {
        &self.world.plan
    }

    /// Adds a rule for operations submitted from now on.
    pub fn add(&self, rule: Rule) -> RuleId {
        let mut state = self.state().borrow_mut();
        let id = RuleId(state.rule_next);
        state.rule_next += 1;
        state.rules.insert(id, rule);
        id
    }

    /// Removes a rule; what it holds stays held, what it decided stays decided.
    pub fn remove(&self, rule: RuleId) {
        self.state().borrow_mut().rules.remove(&rule).expect("a rule that was added and not removed");
    }

    /// Removes a rule and releases what it holds, in the order of submission.
    pub fn lift(&self, rule: RuleId) {
        self.remove(rule);
        let held: Vec<u64> = {
            let state = self.state().borrow();
            state.held().filter(|held| held.1 == rule).map(|held| held.0.operation.sequence).collect()
        };
        held.into_iter().for_each(|sequence| self.release(sequence));
    }

    /// Lets the held operation `sequence` complete; it does so when the world runs on.
    ///
    /// # Panics
    /// When no such operation is held.
    pub fn release(&self, sequence: u64) {
        let rule =
            self.state().borrow_mut().in_flight.get_mut(&sequence).and_then(|flight| flight.held.take());
        assert!(rule.is_some(), "operation {sequence} is not held");
        self.world.executor.queue_operation(sequence);
    }

    /// Releases everything that is held now, in the order of submission. The rules stay.
    pub fn release_all(&self) {
        self.held().iter().for_each(|operation| self.release(operation.sequence));
    }

    /// What is held, in the order of submission.
    #[must_use]
    pub fn held(&self) -> Vec<Operation> {
        self.state().borrow().held().map(|held| held.0.operation.clone()).collect()
    }

    /// What was submitted and has not completed, in the order of submission.
    #[must_use]
    pub fn in_flight(&self) -> Vec<Operation> {
        self.state().borrow().in_flight.values().map(|flight| flight.operation.clone()).collect()
    }

    /// The world stops when operation number `sequence` is submitted: see [`Rule::stop`].
    pub fn stop_at(&self, sequence: u64) {
        let mut state = self.state().borrow_mut();
        assert!(state.submitted < sequence, "operation {sequence} has been submitted already");
        state.stop_at = Some(sequence);
    }

    /// Stops the world now.
    pub fn stop(&self) {
        self.state().borrow_mut().stopped = true;
    }

    /// Whether the world has stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.state().borrow().stopped
    }

    /// How many operations have been submitted; the last one's number.
    #[must_use]
    pub fn submitted(&self) -> u64 {
        self.state().borrow().submitted
    }

    /// The operations that have completed, in that order.
    #[must_use]
    pub fn log(&self) -> Vec<Done> {
        self.state().borrow().log.clone()
    }

    /// How many operations of `kind` have completed, well or not.
    #[must_use]
    pub fn done(&self, kind: Kind) -> usize {
        self.state().borrow().log.iter().filter(|done| done.operation.kind == kind).count()
    }
}
