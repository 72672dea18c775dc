//! SYNC_FLUSH: nothing is promised, nor visible, before it is durable.

use engine::{io::script::Kind, write::ack::Outcome};

use crate::rig::{DSYNC, Rig, SYNC_WAYS, TOPIC, on_log};

/// What makes a message durable: the operation to hold.
fn durable_by(way: usize) -> Kind {
    if SYNC_WAYS[way] == DSYNC { Kind::Write } else { Kind::SyncData }
}

fn stored(numbers: impl IntoIterator<Item = i32>) -> Vec<(i32, Outcome)> {
    numbers.into_iter().map(|number| (number, Outcome::Stored)).collect()
}

#[test]
fn a_held_sync_shows_nothing_and_acknowledges_nothing_until_it_is_done() {
    for way in 0..SYNC_WAYS.len() {
        let rig = Rig::new(SYNC_WAYS[way]);
        let rule = rig.runtime.plan().add(on_log(durable_by(way)).hold());
        for _ in 0..5 {
            rig.send(TOPIC, 0, 300).unwrap();
            rig.runtime.run_until_idle();
        }
        assert_eq!(rig.answers(), [], "{way}");
        assert_eq!(rig.pullable(TOPIC, 0), 0, "{way}");
        let held = rig.positions();
        assert_eq!((held.dispatched, held.confirmed, held.flushed), (0, 0, 0), "{way}");
        assert!(held.appended > 1500, "{way}");
        assert_eq!(rig.runtime.plan().held().len(), 1, "one group is in flight, the rest waits for it");

        rig.runtime.plan().release_all();
        rig.runtime.run_until_idle();
        assert_eq!(rig.answers(), stored([0]), "the first group was the first message");
        assert_eq!(rig.pullable(TOPIC, 0), 1);
        let first = rig.positions();
        assert!(first.confirmed > 0 && first.confirmed == first.flushed && first.flushed < first.appended);

        rig.runtime.plan().lift(rule);
        rig.runtime.run_until_idle();
        assert_eq!(rig.answers(), stored(0..5), "all, in order");
        assert_eq!(rig.pullable(TOPIC, 0), 5);
        let done = rig.positions();
        assert_eq!(done.dispatched, done.appended);
    }
}
