//! The rounds of an audit: load, kill, restart, read back. Owns the order of events; what they mean is judged by the
//! parent module.

use std::net::SocketAddr;
use std::time::Duration;

use super::evidence::{Found, ProducerLog};
use super::identity::Identity;
use super::reader::{Planted, Reader};
use super::{
    Audit, Audited, DIRECT_LOSS, Judged, OUTSTANDING_MIN, Plan, Promise, RoundSeen, Totals, external_name,
};
use crate::carried::{Backend, Carried, Flush, ServerPlan};
use crate::client::Topology;
use crate::client::control::{self, Control};
use crate::client::generator::{self, Ended, Running, Setup};
use crate::clock::{now_ns, wall_ms};
use crate::error::{Error, Result};
use crate::plan::{Random, Workload};
use crate::run::Style;
use crate::terminal::Progress;
use crate::units::whole;

/// Audits brokers that run already: nothing is killed.
pub fn external(plan: &Plan, style: &Style, text: &str, namesrv: SocketAddr) -> Result<Audited> {
    let audit = Audit {
        plan,
        server: external_name(text, namesrv),
        promise: Promise::All,
        judge_order: plan.workload.depth == 1,
        run: new_run(),
    };
    let topic = format!("{}-{:x}", style.topic, audit.run);
    let topology = control::prepare(namesrv, &[topic], plan.workload.queues)?;
    let mut progress = Progress::new(plan.verbose);
    let mut logs = new_logs(&plan.workload);
    let mut rounds = Vec::new();
    for number in 1..=plan.rounds {
        rounds.push(load_round(&audit, style, &topology, &mut logs, number, &mut progress)?);
    }
    let mut reader = Reader::new(&topology)?;
    let audited = read_everything(&audit, &mut reader, &logs, Judged::default(), rounds);
    progress.clear();
    audited
}

/// Audits the carried server, with kills or without, on one store.
pub fn carried(plan: &Plan, style: &Style, server_plan: &ServerPlan) -> Result<Audited> {
    let most = u64::from(plan.workload.connections) * u64::from(plan.workload.depth);
    if plan.kill && most < OUTSTANDING_MIN + OUTSTANDING_MIN / 4 {
        return Err(Error::Usage(format!(
            "--kill wants at least {OUTSTANDING_MIN} sends outstanding at each kill: {} connections with {} each are too few",
            plan.workload.connections, plan.workload.depth
        )));
    }
    let promise = match (server_plan.flush, server_plan.backend) {
        (Flush::Async, Backend::Direct) if plan.kill => {
            Promise::AllButLast { ms: u64::try_from(DIRECT_LOSS.as_millis()).expect("a few milliseconds") }
        }
        _ => Promise::All,
    };
    let audit = Audit {
        plan,
        server: format!("{} {}", server_plan.flush.name(), server_plan.backend.name()),
        promise,
        judge_order: true,
        run: new_run(),
    };
    let mut progress = Progress::new(plan.verbose);
    let audited = carried_rounds(&audit, style, server_plan, &mut progress);
    progress.clear();
    audited
}

fn carried_rounds(
    audit: &Audit<'_>,
    style: &Style,
    server_plan: &ServerPlan,
    progress: &mut Progress,
) -> Result<Audited> {
    let plan = audit.plan;
    let mut server = server_plan.start()?;
    let topics = [style.topic.clone()];
    let mut topology = control::prepare(server.namesrv, &topics, plan.workload.queues)?;
    let mut logs = new_logs(&plan.workload);
    let mut reader = Reader::new(&topology)?;
    let (mut found, mut judged) = (Found::new(audit.run), Judged::default());
    let mut random = Random::new(plan.seed);
    let mut rounds: Vec<RoundSeen> = Vec::new();
    for number in 1..=plan.attempts_max() {
        let counted = rounds.iter().filter(|round| round.counts).count();
        let hits = recovery_hits(&rounds);
        if counted >= plan.rounds as usize && (!plan.kill || hits >= plan.recovery_kills()) {
            break;
        }
        if !plan.kill {
            rounds.push(load_round(audit, style, &topology, &mut logs, number, progress)?);
            continue;
        }
        let mut round = RoundSeen { number, ..RoundSeen::default() };
        progress.show(&format!("round {number}: load, {counted} of {} count so far", plan.rounds));
        let killed_ns = kill_round(audit, style, &topology, &mut logs, server, &mut random, &mut round)?;
        // One in five, due in the first of each five, and again until it hits.
        if hits < (counted + 1).div_ceil(5) {
            round.killed_in_recovery = kill_in_recovery(server_plan, &rounds, &mut random)?;
        }
        server = server_plan.start()?;
        round.restart_ms = u64::try_from(server.start_took.as_millis()).ok();
        topology = control::prepare(server.namesrv, &topics, plan.workload.queues)?;
        round.unclean_bytes = unclean_bytes(&topology)?;
        reader.reconnect(&topology)?;
        reader.read(&mut found)?;
        if logs.iter().any(|log| found.lost(log).next().is_some()) {
            // Before something is called lost, the queues get the time to show it.
            reader.settle()?;
            reader.read(&mut found)?;
        }
        let losses = judged.judge(&logs, &found, audit.promise, plan.margin, Some(killed_ns));
        round.lost = losses.lost;
        round.lost_beyond_promise = losses.beyond_promise;
        round.oldest_lost_us = losses.oldest_us;
        round.reason = reason_against(&round);
        round.counts = round.reason.is_none();
        rounds.push(round);
    }
    progress.show("reading everything back");
    reader.rewind();
    let audited = read_everything(audit, &mut reader, &logs, judged, rounds)?;
    server.stop()?;
    Ok(audited)
}

/// Kills during recovery that counted.
fn recovery_hits(rounds: &[RoundSeen]) -> usize {
    rounds.iter().filter(|round| round.counts && round.killed_in_recovery).count()
}

/// Why a round proves nothing.
fn reason_against(round: &RoundSeen) -> Option<String> {
    match (round.outstanding_at_kill, round.unclean_bytes) {
        (Some(outstanding), _) if outstanding < OUTSTANDING_MIN => {
            Some(format!("only {outstanding} sends were outstanding at the kill"))
        }
        (_, None) => Some("the server does not tell ringmq.recovery.unclean_bytes".to_owned()),
        (_, Some(0)) => Some("the restart found no unclean byte".to_owned()),
        _ => None,
    }
}

/// Load until the round's end.
fn load_round(
    audit: &Audit<'_>,
    style: &Style,
    topology: &Topology,
    logs: &mut Vec<ProducerLog>,
    number: u32,
    progress: &mut Progress,
) -> Result<RoundSeen> {
    let before: u64 = logs.iter().map(|log| log.acked.len()).sum();
    let running = generator::start(&audit.plan.workload, setup(audit, style, topology, logs))?;
    while !running.has_ended() {
        std::thread::sleep(Duration::from_millis(10));
        if progress.is_due() {
            progress.show(&format!("round {number}: {} acknowledged", whole(running.read().acked)));
        }
    }
    let mut round = RoundSeen { number, counts: true, ..RoundSeen::default() };
    take(running.join()?, logs, &mut round, before);
    Ok(round)
}

/// Load, and kill -9 at a random moment with enough sends outstanding. Returns the moment.
fn kill_round(
    audit: &Audit<'_>,
    style: &Style,
    topology: &Topology,
    logs: &mut Vec<ProducerLog>,
    server: Carried,
    random: &mut Random,
    round: &mut RoundSeen,
) -> Result<u64> {
    let before: u64 = logs.iter().map(|log| log.acked.len()).sum();
    let workload = &audit.plan.workload;
    // At 20 to 80 % of the time or of the messages, whichever comes first.
    let share = 0.2 + 0.6 * f64::from(random.below(1_000)) / 1_000.0;
    let running = generator::start(workload, setup(audit, style, topology, logs))?;
    let kill_at_ns = running.window.start_ns + nanos(workload.duration.mul_f64(share));
    let messages = workload.messages_max.unwrap_or(u64::MAX) as f64 * share;
    wait_for_kill(&running, kill_at_ns, messages);
    round.outstanding_at_kill = Some(running.read().outstanding());
    let killed_ns = now_ns();
    server.kill()?;
    running.stop();
    take(running.join()?, logs, round, before);
    Ok(killed_ns)
}

/// Ends when the moment has come and enough is outstanding, or when the load ended by itself.
fn wait_for_kill(running: &Running, kill_at_ns: u64, messages: f64) {
    loop {
        let reading = running.read();
        let is_time = now_ns() >= kill_at_ns || reading.acked as f64 >= messages;
        if is_time && reading.outstanding() >= OUTSTANDING_MIN || running.sends_ended() || running.has_ended()
        {
            return;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Starts the server and kills it before it is ready; false when it was faster.
fn kill_in_recovery(server_plan: &ServerPlan, rounds: &[RoundSeen], random: &mut Random) -> Result<bool> {
    let usual_ms = rounds.last().and_then(|round| round.restart_ms).unwrap_or(50).max(2);
    let starting = server_plan.spawn()?;
    let share = f64::from(random.below(900)) / 1_000.0;
    std::thread::sleep(Duration::from_millis(usual_ms).mul_f64(share));
    starting.kill()
}

fn unclean_bytes(topology: &Topology) -> Result<Option<u64>> {
    let mut sum = None;
    for broker in &topology.brokers {
        let table = match Control::connect(broker.address)?.runtime_info() {
            Ok(table) => table,
            // Others' servers may have no counters so soon after their start.
            Err(Error::Refused { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let bytes = table.get("ringmq.recovery.unclean_bytes").and_then(|text| text.parse::<u64>().ok());
        sum = bytes.map(|bytes| bytes + sum.unwrap_or(0)).or(sum);
    }
    Ok(sum)
}

fn take(ended: Ended, logs: &mut Vec<ProducerLog>, round: &mut RoundSeen, acked_before: u64) {
    *logs = ended.logs;
    round.acked = logs.iter().map(|log| log.acked.len()).sum::<u64>() - acked_before;
    round.refused = ended.tally.failures.iter().map(|failed| failed.count).sum();
}

/// The last reading, of everything from the beginning, and the verdict on it.
fn read_everything(
    audit: &Audit<'_>,
    reader: &mut Reader,
    logs: &[ProducerLog],
    mut judged: Judged,
    rounds: Vec<RoundSeen>,
) -> Result<Audited> {
    reader.settle()?;
    if audit.plan.self_test {
        return self_test(audit, reader, logs, rounds);
    }
    let mut found = Found::new(audit.run);
    reader.read(&mut found)?;
    // What was there after its round and is missing now has no excuse.
    judged.judge(logs, &found, audit.promise, audit.plan.margin, None);
    let counts = found.against(logs);
    Ok(audit.conclude(Totals::new(&counts, judged.beyond_promise), rounds))
}

/// Reads everything with three faults planted on the way; the audit passes when it finds exactly those.
fn self_test(
    audit: &Audit<'_>,
    reader: &mut Reader,
    logs: &[ProducerLog],
    rounds: Vec<RoundSeen>,
) -> Result<Audited> {
    let is_acked = |identity: &Identity| {
        logs.iter().any(|log| log.producer == identity.producer && log.acked.contains(identity.sequence))
    };
    let mut planted = Planted::new(audit.run, &is_acked);
    reader.read(&mut planted)?;
    planted.finish();
    let (Some(lost), Some(duplicated), Some(swapped)) = (planted.lost, planted.duplicated, planted.swapped)
    else {
        return Err(Error::Usage(
            "too few messages to plant faults among: give a longer --duration or more --messages".to_owned(),
        ));
    };
    let (truth, tampered) = (planted.truth.against(logs), planted.tampered.against(logs));
    let name =
        |identity: Identity| format!("message {} of producer {}", identity.sequence, identity.producer);
    let mut verdict = Vec::new();
    let mut all_found = true;
    let mut check = |planted: &str, identity: Identity, number: u64, is_named: bool| {
        let is_found = number == 1 && is_named;
        all_found &= is_found;
        let end = if is_found { "found".to_owned() } else { format!("NOT found (counted {number})") };
        verdict.push(format!("Planted {planted}, {}: {end}.", name(identity)));
    };
    let same = |found: &[Identity], planted: Identity| found.contains(&planted);
    let is_lost = tampered.lost_examples.contains(&(lost.producer, lost.sequence)) || tampered.lost > 32;
    check("a lost one", lost, tampered.lost - truth.lost, is_lost);
    let is_duplicated = same(&planted.tampered.duplicated, duplicated) || tampered.duplicated > 32;
    check("a duplicated one", duplicated, tampered.duplicated - truth.duplicated, is_duplicated);
    let is_swapped = same(&planted.tampered.out_of_order, swapped) || tampered.out_of_order > 32;
    check("a swapped one", swapped, tampered.out_of_order - truth.out_of_order, is_swapped);
    let totals = Totals::new(&tampered, tampered.lost);
    let refused = !super::faults(&totals, Promise::All, true).is_empty();
    verdict.push(if refused {
        "With these faults the audit refuses to pass, as it must.".to_owned()
    } else {
        "With these faults the audit would have passed.".to_owned()
    });
    let mut audited = audit.conclude(totals, rounds);
    audited.passed = all_found && refused;
    audited.verdict = verdict;
    Ok(audited)
}

fn setup(audit: &Audit<'_>, style: &Style, topology: &Topology, logs: &[ProducerLog]) -> Setup {
    Setup {
        topology: topology.clone(),
        cores: style.cores.clone(),
        serialization: style.serialization,
        run: audit.run,
        audit: logs.to_vec(),
        start_offsets: Vec::new(),
        drain: style.drain,
    }
}

fn new_logs(workload: &Workload) -> Vec<ProducerLog> {
    (0..workload.connections).map(ProducerLog::new).collect()
}

/// Tells the messages of this run from those of others.
fn new_run() -> u64 {
    wall_ms() << 20 ^ u64::from(std::process::id())
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}
