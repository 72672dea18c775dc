//! The wording. Every number comes from the cells; a sentence that compares is a finding only when
//! [`compare`] says that the rounds support it.

use super::{Cell, Comparison, Kind, Sentence, Verdict, compare, count, micros, significant, times, warn};

/// From this ratio on a mode is called faster at all; below, the two are called equal when the rounds agree.
const NOTICEABLE: f64 = 1.05;

pub(super) fn flush_modes(cells: &[Cell]) -> Verdict {
    let mut verdict = Verdict::default();
    let pairs = pairs(cells);
    let mut open = Vec::new();
    for pair in &pairs {
        let place = format!("{} at {}", backend(pair.sync), pair.sync.load);
        match &pair.rate {
            None => verdict.sentences.push(silent(pair.sync, pair.background)),
            Some(rate) if rate.decided => verdict.sentences.push(cost(&place, pair, rate)),
            Some(rate) => open.push((place, *rate)),
        }
    }
    verdict.sentences.extend(undecided("ASYNC_FLUSH", "SYNC_FLUSH", &open));
    verdict.headline = flush_headline(&pairs);
    verdict.sentences.extend(reasons(cells));
    verdict.sentences.extend(backends(cells));
    verdict.sentences.extend(advice(&pairs));
    for cell in cells {
        warn(cell, &mut verdict);
    }
    verdict
}

pub(super) fn servers(cells: &[Cell]) -> Verdict {
    let mut verdict = Verdict::default();
    let Some(first) = cells.first().map(|cell| cell.server.clone()) else { return verdict };
    let (mut faster, mut slower, mut mute) = (0, 0, 0);
    let mut open = Vec::new();
    for base in cells.iter().filter(|cell| cell.server == first) {
        for other in cells.iter().filter(|cell| cell.server != first && cell.load == base.load) {
            let Some(rate) = compare(&other.messages_per_second.rounds, &base.messages_per_second.rounds)
            else {
                verdict.sentences.push(silent(base, other));
                mute += 1;
                continue;
            };
            match (rate.decided, rate.ratio > 1.0) {
                (false, _) => {
                    open.push((format!("{} at {}", other.server, base.load), rate));
                    continue;
                }
                (true, true) => faster += 1,
                (true, false) => slower += 1,
            }
            verdict.sentences.push(server_sentence(base, other, &rate));
        }
    }
    verdict.sentences.extend(undecided("These", &first, &open));
    let undecided_count = mute + open.len();
    verdict.headline = format!(
        "Against {first}: {faster} of {} comparisons faster, {slower} slower, {undecided_count} without a conclusion.",
        faster + slower + undecided_count
    );
    for cell in cells {
        warn(cell, &mut verdict);
    }
    verdict
}

fn server_sentence(base: &Cell, other: &Cell, rate: &Comparison) -> Sentence {
    let place = format!("At {}, {} against {}", base.load, other.server, base.server);
    let p99 = match (&other.p99_us, &base.p99_us) {
        (Some(a), Some(b)) => compare(&a.rounds, &b.rounds)
            .map(|c| {
                let sure = if c.decided { "" } else { ", not decided" };
                format!("; its 99th percentile is {} times as long{sure}", significant(c.ratio))
            })
            .unwrap_or_default(),
        _ => String::new(),
    };
    let text = format!(
        "{place}: {} messages/s against {}, {}{p99}.",
        count(other.messages_per_second.median),
        count(base.messages_per_second.median),
        times(rate)
    );
    Sentence { kind: Kind::Finding, text }
}

/// SYNC_FLUSH and ASYNC_FLUSH on one backend under one load.
struct Pair<'a> {
    sync: &'a Cell,
    background: &'a Cell,
    /// How many times as many messages ASYNC_FLUSH carries.
    rate: Option<Comparison>,
}

fn pairs(cells: &[Cell]) -> Vec<Pair<'_>> {
    let is = |cell: &&Cell, flush: &str| cell.flush.as_deref() == Some(flush);
    let mut pairs = Vec::new();
    for sync in cells.iter().filter(|cell| is(cell, "sync")) {
        let same = |cell: &&Cell| is(cell, "async") && cell.backend == sync.backend && cell.load == sync.load;
        if let Some(background) = cells.iter().find(same) {
            let rate = compare(&background.messages_per_second.rounds, &sync.messages_per_second.rounds);
            pairs.push(Pair { sync, background, rate });
        }
    }
    pairs
}

fn cost(place: &str, pair: &Pair<'_>, rate: &Comparison) -> Sentence {
    let latency = match (&pair.sync.latency, &pair.background.latency) {
        (Some(s), Some(a)) => format!(
            "; the median send takes {} instead of {}, the 99th percentile {} instead of {}",
            micros(s.p50_us as f64),
            micros(a.p50_us as f64),
            micros(s.p99_us as f64),
            micros(a.p99_us as f64)
        ),
        _ => String::new(),
    };
    let text = if rate.ratio >= 1.0 {
        format!(
            "{place}: SYNC_FLUSH carries {} messages/s, ASYNC_FLUSH {}, {}{latency}.",
            count(pair.sync.messages_per_second.median),
            count(pair.background.messages_per_second.median),
            times(rate)
        )
    } else {
        format!(
            "{place}: SYNC_FLUSH costs nothing here, it even carries {} messages/s against {}{latency}.",
            count(pair.sync.messages_per_second.median),
            count(pair.background.messages_per_second.median)
        )
    };
    Sentence { kind: Kind::Finding, text }
}

/// All refusals about one question in one sentence: what `a` came to as a multiple of `b`, and how far rounds differed.
fn undecided(a: &str, b: &str, open: &[(String, Comparison)]) -> Option<Sentence> {
    let one = |(place, rate): &(String, Comparison)| {
        let [min, max] = rate.bounds;
        format!(
            "{place} ({} times, single rounds {} to {})",
            significant(rate.ratio),
            significant(min),
            significant(max)
        )
    };
    let places: Vec<String> = open.iter().map(one).collect();
    let text = format!(
        "{a} against {b}: no conclusion with {}. The rounds differ as much as the two do; more or longer rounds may tell.",
        places.join("; ")
    );
    (!open.is_empty()).then_some(Sentence { kind: Kind::Undecided, text })
}

fn silent(a: &Cell, b: &Cell) -> Sentence {
    let text =
        format!("{} and {} at {}: no conclusion, one of them completed nothing.", a.server, b.server, a.load);
    Sentence { kind: Kind::Undecided, text }
}

fn flush_headline(pairs: &[Pair<'_>]) -> String {
    let decided: Vec<(&Pair<'_>, &Comparison)> =
        pairs.iter().filter_map(|p| p.rate.as_ref().filter(|r| r.decided).map(|r| (p, r))).collect();
    let by_ratio =
        |a: &&(&Pair<'_>, &Comparison), b: &&(&Pair<'_>, &Comparison)| a.1.ratio.total_cmp(&b.1.ratio);
    let (Some(most), Some(least)) = (decided.iter().max_by(by_ratio), decided.iter().min_by(by_ratio)) else {
        return "The rounds differ more than the modes do: this run does not support a conclusion about SYNC_FLUSH."
            .to_owned();
    };
    let place = |pair: &Pair<'_>| format!("{} at {}", backend(pair.sync), pair.sync.load);
    if most.1.ratio < NOTICEABLE {
        return "SYNC_FLUSH costs nothing noticeable here under any of the loads.".to_owned();
    }
    let best = if least.1.ratio < NOTICEABLE {
        format!("nothing noticeable ({})", place(least.0))
    } else {
        format!("a factor of {} ({})", significant(least.1.ratio), place(least.0))
    };
    let open = pairs.len() - decided.len();
    let open =
        if open > 0 { format!(" {open} of {} loads are undecided.", pairs.len()) } else { String::new() };
    if std::ptr::eq(most.0, least.0) {
        return format!("SYNC_FLUSH costs {best} in throughput here.{open}");
    }
    format!(
        "SYNC_FLUSH costs between {best} and a factor of {} ({}) in throughput here.{open}",
        significant(most.1.ratio),
        place(most.0)
    )
}

/// Why: how many messages share one sync, and how close the syncs come to what the device can do.
fn reasons(cells: &[Cell]) -> Vec<Sentence> {
    let mut sentences = Vec::new();
    for cell in extremes(cells) {
        let Some(flushes) = &cell.flushes else { continue };
        let floor = floor_words(cell);
        let text = format!(
            "{} at {}: each sync carries {} messages, and there are {} syncs/s{floor}.",
            backend(cell),
            cell.load,
            count(flushes.messages_per_sync),
            count(flushes.syncs_per_second)
        );
        sentences.push(Sentence { kind: Kind::Reason, text });
    }
    if sentences.is_empty() && cells.iter().any(|cell| cell.flush.is_some()) {
        let text = "The server gives no flush counters (keys ringmq.flush.* of code 28): how many messages share a sync is not available.";
        sentences.push(Sentence { kind: Kind::Reason, text: text.to_owned() });
    } else if !sentences.is_empty() {
        let text = "With SYNC_FLUSH a message waits for the device to say that it is durable. All that arrive meanwhile share the next sync: few outstanding messages pay a whole sync each, many divide it.";
        sentences.insert(0, Sentence { kind: Kind::Reason, text: text.to_owned() });
    }
    sentences
}

/// How close the syncs come to the device's own rate.
fn floor_words(cell: &Cell) -> String {
    let (Some(share), Some(best)) = (&cell.floor_share, cell.floor_best()) else { return String::new() };
    let mut words = format!(
        ", {:.0} % of what a plain loop of writes of {} gets from this device (rounds {:.0} to {:.0} %)",
        100.0 * share.median,
        crate::units::bytes(best.bytes),
        100.0 * share.min,
        100.0 * share.max
    );
    if share.max > 1.1 {
        words.push_str("; above 100 % the machine was busier while the device was measured");
    }
    words
}

/// Of each backend's SYNC_FLUSH cells the one whose syncs carry fewest messages, and the one whose carry most: the others
/// lie between and stand in the table.
fn extremes(cells: &[Cell]) -> Vec<&Cell> {
    let per_sync = |cell: &&Cell| cell.flushes.map_or(0.0, |flushes| flushes.messages_per_sync);
    let by_share = |a: &&Cell, b: &&Cell| per_sync(a).total_cmp(&per_sync(b));
    let is_sync = |cell: &&Cell| cell.flush.as_deref() == Some("sync") && cell.flushes.is_some();
    let mut named: Vec<&Cell> = Vec::new();
    let mut backends: Vec<Option<&str>> =
        cells.iter().filter(is_sync).map(|cell| cell.backend.as_deref()).collect();
    backends.dedup();
    for backend in backends {
        let own = || cells.iter().filter(is_sync).filter(|cell| cell.backend.as_deref() == backend);
        for cell in own().min_by(by_share).into_iter().chain(own().max_by(by_share)) {
            if !named.iter().any(|known| std::ptr::eq(*known, cell)) {
                named.push(cell);
            }
        }
    }
    named
}

fn backends(cells: &[Cell]) -> Vec<Sentence> {
    let mut sentences = Vec::new();
    let mut open = Vec::new();
    for direct in cells.iter().filter(|cell| cell.backend.as_deref() == Some("direct")) {
        let same = |cell: &&Cell| {
            cell.backend.as_deref() == Some("mapped")
                && cell.flush == direct.flush
                && cell.load == direct.load
        };
        let Some(mapped) = cells.iter().find(same) else { continue };
        let Some(rate) = compare(&direct.messages_per_second.rounds, &mapped.messages_per_second.rounds)
        else {
            continue;
        };
        let flush = if direct.flush.as_deref() == Some("sync") { "SYNC_FLUSH" } else { "ASYNC_FLUSH" };
        let place = format!("{flush} at {}", direct.load);
        if rate.decided {
            let text = format!("{place}: `direct` carries {} as much as `mapped`.", times(&rate));
            sentences.push(Sentence { kind: Kind::Finding, text });
        } else {
            open.push((place, rate));
        }
    }
    sentences.extend(undecided("`direct`", "`mapped`", &open));
    sentences
}

/// When each mode is the right choice. The promises are the modes'; the loads at which SYNC_FLUSH is cheap or dear are
/// this run's.
fn advice(pairs: &[Pair<'_>]) -> Vec<Sentence> {
    let mut sentences = vec![
        advise(
            "Choose SYNC_FLUSH when an acknowledged message must survive a power cut or a crash of the operating system: it then loses none.",
        ),
        advise(
            "Choose ASYNC_FLUSH when losing the last flush interval (500 ms by default) at a power cut is acceptable, or when other machines hold a copy. Killing the broker alone loses nothing on `mapped`, and at most the last 20 ms on `direct`.",
        ),
    ];
    let of = |keep: &dyn Fn(f64) -> bool| -> Vec<String> {
        let decided = pairs.iter().filter(|p| p.rate.is_some_and(|r| r.decided && keep(r.ratio)));
        decided.map(|p| format!("{} at {}", backend(p.sync), p.sync.load)).collect()
    };
    let cheap = of(&|ratio| ratio < 2.0);
    if !cheap.is_empty() {
        sentences.push(advise(&format!(
            "SYNC_FLUSH costs less than half of the throughput with {}: there it is the natural choice.",
            cheap.join(", ")
        )));
    }
    let dear = of(&|ratio| ratio >= 4.0);
    if !dear.is_empty() {
        sentences.push(advise(&format!(
            "SYNC_FLUSH costs three quarters of the throughput or more with {}: keep more requests outstanding, or send batches, before giving up durability.",
            dear.join(", ")
        )));
    }
    sentences
}

fn advise(text: &str) -> Sentence {
    Sentence { kind: Kind::Advice, text: text.to_owned() }
}

fn backend(cell: &Cell) -> String {
    cell.backend.as_ref().map_or_else(|| cell.server.clone(), |name| format!("`{name}`"))
}
