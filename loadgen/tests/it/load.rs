//! The loops: what is measured, from when, and what is not.

use std::time::Duration;

use loadgen::client::control;
use loadgen::client::generator::{self, Ended, Setup};
use loadgen::plan::{BodySize, Pacing, Roles, Workload};
use protocol::Serialization;

use crate::scripted::{Script, Scripted};

const PRODUCERS: Roles = Roles { producers: true, consumers: false };

fn workload() -> Workload {
    Workload {
        topics: 1,
        queues: 4,
        body: BodySize::Fixed(256),
        connections: 4,
        depth: 1,
        pacing: Pacing::Closed,
        roles: PRODUCERS,
        warmup: Duration::from_millis(100),
        duration: Duration::from_millis(500),
        messages_max: None,
    }
}

fn load(script: Script, workload: &Workload) -> Ended {
    load_as(script, workload, Serialization::Json)
}

fn load_as(script: Script, workload: &Workload, serialization: Serialization) -> Ended {
    workload.check().unwrap();
    let drain = script.drain.unwrap_or(Duration::from_secs(5));
    let broker = Scripted::start(script);
    let topics = ["loadgen-0".to_owned()];
    let topology = control::prepare(broker.address, &topics, workload.queues).unwrap();
    let start_offsets = vec![0; topology.lanes.len()];
    let setup = Setup {
        topology,
        cores: Vec::new(),
        serialization,
        run: 77,
        audit: Vec::new(),
        start_offsets,
        drain,
    };
    generator::start(workload, setup).unwrap().join().unwrap()
}

#[test]
fn closed_loop_measures_the_servers_delay() {
    let script = Script { delay: Duration::from_millis(20), ..Script::default() };
    let ended = load(script, &workload());
    let summary = ended.tally.latency.summary().unwrap();
    assert!(summary.min_us >= 20_000, "{summary:?}");
    // However busy this machine is, four requests are outstanding at any time (Little's law).
    let outstanding = summary.mean_us * summary.samples as f64 / 1e6 / ended.tally.seconds();
    assert!((2.5..=6.0).contains(&outstanding), "{outstanding}: {summary:?}");
    assert!((1..=100).contains(&ended.tally.done), "{}", ended.tally.done);
    assert_eq!((ended.tally.unanswered, ended.tally.failures.len()), (0, 0));
}

#[test]
fn both_serialisations_are_spoken() {
    let mut workload = workload();
    workload.depth = 16;
    for serialization in [Serialization::Json, Serialization::RocketMq] {
        let ended = load_as(Script::default(), &workload, serialization);
        assert!(ended.tally.done > 100, "{serialization:?}: {}", ended.tally.done);
        assert_eq!(ended.tally.failures, []);
    }
}

/// A server that stalls for 200 ms of a window of 1 s keeps a fifth of the messages waiting. Counting from the actual
/// send would see one slow message per connection; counting from the intended time sees them all.
#[test]
fn open_loop_does_not_omit_what_a_stall_kept_waiting() {
    let script =
        Script { stall: Some((Duration::from_millis(500), Duration::from_millis(200))), ..Script::default() };
    let mut workload = workload();
    workload.pacing = Pacing::Open { per_second: 1_000.0 };
    workload.duration = Duration::from_secs(1);
    let ended = load(script, &workload);
    let latency = &ended.tally.latency;
    assert!((950..=1_001).contains(&latency.len()), "{}", latency.len());
    // One in five waited, evenly between 0 and 200 ms: the 95th percentile waited for three quarters of it.
    let p95_ms = latency.quantile_micros(0.95) / 1_000;
    assert!(p95_ms >= 110, "p95 {p95_ms} ms");
    assert!(latency.quantile_micros(0.999) / 1_000 >= 180, "{:?}", latency.summary());
}

#[test]
fn what_is_due_before_the_end_is_sent_behind_it_and_counted() {
    // Nothing is answered from 200 ms on, until long after the window of 400 ms.
    let script =
        Script { stall: Some((Duration::from_millis(200), Duration::from_millis(700))), ..Script::default() };
    let mut workload = workload();
    workload.pacing = Pacing::Open { per_second: 1_000.0 };
    workload.warmup = Duration::ZERO;
    workload.duration = Duration::from_millis(400);
    let ended = load(script, &workload);
    let latency = &ended.tally.latency;
    assert_eq!((ended.tally.unsent, ended.tally.unanswered), (0, 0));
    assert_eq!(latency.len(), 400);
    // The messages due from 210 to 400 ms waited until 900 ms: nearly half of all for at least 500 ms.
    assert!(latency.quantile_micros(0.6) >= 500_000, "{:?}", latency.summary());
}

#[test]
fn what_is_due_and_never_sent_is_counted_as_waiting() {
    let script = Script {
        stall: Some((Duration::from_millis(200), Duration::from_secs(3_600))),
        drain: Some(Duration::from_millis(300)),
        ..Script::default()
    };
    let mut workload = workload();
    workload.pacing = Pacing::Open { per_second: 1_000.0 };
    workload.warmup = Duration::ZERO;
    workload.duration = Duration::from_millis(400);
    let ended = load(script, &workload);
    // One outstanding on each of four connections; the others never found a place.
    assert_eq!(ended.tally.unanswered, 4);
    assert!(ended.tally.unsent > 100, "{}", ended.tally.unsent);
    assert_eq!(ended.tally.latency.len(), 400);
    assert!(ended.tally.latency.quantile_micros(1.0) >= 400_000, "{:?}", ended.tally.latency.summary());
}

#[test]
fn warm_up_is_in_no_figure() {
    // Nothing is answered in the first 900 ms; the warm-up ends behind that.
    let script = Script { stall: Some((Duration::ZERO, Duration::from_millis(900))), ..Script::default() };
    let mut workload = workload();
    workload.warmup = Duration::from_millis(1_200);
    let ended = load(script, &workload);
    let summary = ended.tally.latency.summary().unwrap();
    assert!(ended.tally.warmup_done > 0);
    assert!(summary.max_us < 800_000, "the stall of the warm-up is in the figures: {summary:?}");
}

#[test]
fn failures_are_counted_by_code_and_not_as_latencies() {
    let script = Script { refuse: Some((10, 2)), delay: Duration::from_millis(1), ..Script::default() };
    let ended = load(script, &workload());
    let failed = &ended.tally.failures[0];
    assert_eq!((failed.code, failed.remark.as_str()), (2, "as the script says"));
    assert_eq!(ended.tally.failures.len(), 1);
    let good = ended.tally.done + ended.tally.warmup_done;
    assert!(failed.count.abs_diff(good / 9) <= good / 18 + 4, "{} of {good}", failed.count);
    assert!(ended.tally.latency.len() <= good + 4);
}

#[test]
fn the_cap_on_messages_ends_the_window() {
    let mut workload = workload();
    workload.depth = 8;
    workload.warmup = Duration::ZERO;
    workload.duration = Duration::from_secs(20);
    workload.messages_max = Some(500);
    let ended = load(Script::default(), &workload);
    assert!(ended.tally.capped);
    assert!(ended.tally.done <= 500 && ended.tally.latency.len() == 500, "{}", ended.tally.latency.len());
    assert!(ended.tally.seconds() < 10.0);
}

#[test]
fn consumers_see_end_to_end_latency_of_what_producers_send() {
    let mut workload = workload();
    workload.roles = Roles { producers: true, consumers: true };
    workload.pacing = Pacing::Open { per_second: 200.0 };
    let ended = load(Script { delay: Duration::from_millis(5), ..Script::default() }, &workload);
    let sent = ended.tally.latency.len();
    let received = ended.tally.end_to_end.len();
    assert!((90..=101).contains(&sent), "{sent}");
    assert_eq!(received, sent, "every message of the window arrives once");
}

#[test]
fn a_server_that_goes_away_is_told_and_not_waited_for() {
    let mut workload = workload();
    workload.duration = Duration::from_secs(30);
    let broker = Scripted::start(Script::default());
    let topology = control::prepare(broker.address, &["T".to_owned()], 4).unwrap();
    let setup = Setup {
        topology,
        cores: Vec::new(),
        serialization: Serialization::Json,
        run: 1,
        audit: Vec::new(),
        start_offsets: Vec::new(),
        drain: Duration::from_secs(5),
    };
    let running = generator::start(&workload, setup).unwrap();
    while running.read().acked < 10 {
        std::thread::yield_now();
    }
    drop(broker);
    let ended = running.join().unwrap();
    assert_eq!(ended.tally.connections_lost, 4);
    assert!(ended.tally.seconds() < 20.0);
}
