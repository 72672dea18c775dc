//! The audit against a scripted broker: it passes when all is there, and says what is not.

use std::time::Duration;

use loadgen::audit::{self, Audited, Plan};
use loadgen::plan::{BodySize, Pacing, Roles, Workload};
use loadgen::run::Style;
use protocol::Serialization;

use crate::scripted::{Script, Scripted};

fn audited(script: Script, self_test: bool) -> Audited {
    let broker = Scripted::start(script);
    let plan = Plan {
        workload: Workload {
            topics: 1,
            queues: 3,
            body: BodySize::Uniform { min: 48, max: 300 },
            connections: 2,
            depth: 4,
            pacing: Pacing::Closed,
            roles: Roles { producers: true, consumers: false },
            warmup: Duration::ZERO,
            duration: Duration::from_secs(20),
            messages_max: Some(2_000),
        },
        rounds: 2,
        kill: false,
        self_test,
        margin: Duration::from_millis(2),
        seed: 1,
        verbose: false,
    };
    let style = Style {
        cores: Vec::new(),
        serialization: Serialization::Json,
        topic: "audit".to_owned(),
        drain: Duration::from_secs(5),
    };
    audit::external(&plan, &style, "scripted", broker.address).unwrap()
}

#[test]
fn a_broker_that_keeps_everything_passes() {
    let audited = audited(Script::default(), false);
    assert!(audited.passed, "{audited:?}");
    let totals = audited.totals;
    assert_eq!((totals.sent, totals.acked, totals.found, totals.lost), (4_000, 4_000, 4_000, 0));
    assert_eq!((totals.duplicated, totals.out_of_order, totals.foreign), (0, 0, 0));
    assert_eq!(audited.rounds.len(), 2);
}

#[test]
fn one_acknowledged_and_forgotten_message_fails_the_audit() {
    let audited = audited(Script { forget: Some(100), ..Script::default() }, false);
    assert!(!audited.passed);
    assert_eq!((audited.totals.lost, audited.totals.lost_beyond_promise), (1, 1), "{audited:?}");
    assert_eq!(audited.totals.duplicated, 0);
}

#[test]
fn refused_messages_are_neither_lost_nor_present() {
    let audited = audited(Script { refuse: Some((7, 14)), ..Script::default() }, false);
    assert!(audited.passed, "{audited:?}");
    assert!(audited.totals.acked < audited.totals.sent);
    assert_eq!(audited.totals.found, audited.totals.acked);
}

#[test]
fn planted_faults_are_found() {
    let audited = audited(Script::default(), true);
    assert!(audited.passed, "{:?}", audited.verdict);
    assert_eq!((audited.totals.lost, audited.totals.duplicated, audited.totals.out_of_order), (1, 1, 1));
    assert_eq!(audited.verdict.iter().filter(|sentence| sentence.ends_with(": found.")).count(), 3);
}
