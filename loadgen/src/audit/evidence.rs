//! What is known of every message, in a few bits each: sent (a counter), acknowledged, found. Owns the comparison of
//! what was promised with what is there; reads no socket.

use std::collections::{HashMap, VecDeque};

use super::identity::Identity;

/// Acknowledgements remembered with their time, per producer. More than any connection gets in the 20 ms that
/// ASYNC_FLUSH on `direct` may lose.
const RECENT_MAX: usize = 1 << 14;

/// A growing set of sequence numbers, one bit each.
#[derive(Clone, Debug, Default)]
pub struct Bitmap {
    words: Vec<u64>,
    count: u64,
}

impl Bitmap {
    /// Adds a number; false when it was there.
    pub fn insert(&mut self, number: u64) -> bool {
        let word = usize::try_from(number / 64).expect("sequences count up from zero");
        if word >= self.words.len() {
            self.words.resize((word + 1).next_power_of_two().max(64), 0);
        }
        let bit = 1 << (number % 64);
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    /// Whether a number is there.
    pub fn contains(&self, number: u64) -> bool {
        let word = usize::try_from(number / 64).unwrap_or(usize::MAX);
        self.words.get(word).is_some_and(|bits| bits & 1 << (number % 64) != 0)
    }

    /// How many numbers are there.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// None is.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Numbers that are here and not in `other`, ascending.
    pub fn missing_from<'a>(&'a self, other: &'a Bitmap) -> impl Iterator<Item = u64> + 'a {
        self.words.iter().enumerate().flat_map(|(index, bits)| {
            let mut left = bits & !other.words.get(index).copied().unwrap_or(0);
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 64).then(|| index as u64 * 64 + u64::from(bit))
            })
        })
    }
}

/// What one producer knows of its own messages.
#[derive(Clone, Debug, Default)]
pub struct ProducerLog {
    /// Its number.
    pub producer: u32,
    /// The next sequence, hence how many were sent.
    pub next_sequence: u64,
    /// What was acknowledged with SUCCESS.
    pub acked: Bitmap,
    recent: VecDeque<Acked>,
}

/// An acknowledgement and when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// The message.
    pub sequence: u64,
    /// Monotonic nanoseconds.
    pub at_ns: u64,
}

impl ProducerLog {
    /// A producer that has sent nothing.
    pub fn new(producer: u32) -> ProducerLog {
        ProducerLog { producer, ..ProducerLog::default() }
    }

    /// The number of the next message.
    pub fn take_sequence(&mut self) -> u64 {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        sequence
    }

    /// The broker has acknowledged a message.
    pub fn on_acked(&mut self, sequence: u64, at_ns: u64) {
        assert!(sequence < self.next_sequence, "{sequence} was never sent");
        self.acked.insert(sequence);
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Acked { sequence, at_ns });
    }

    /// The last acknowledgements, as many as are kept with their time.
    pub fn recent(&self) -> impl Iterator<Item = Acked> {
        self.recent.iter().copied()
    }
}

/// What has been read back, and what was wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Found {
    run: u64,
    /// By producer.
    present: HashMap<u32, Bitmap>,
    /// The highest sequence seen so far, by producer and lane.
    last: HashMap<(u32, u32), u64>,
    /// Messages of this run read back, duplicates included.
    pub messages: u64,
    /// Read a second time in a queue, or in a queue that they were not sent to.
    pub duplicated: Vec<Identity>,
    /// Read behind a later message of the same producer and queue.
    pub out_of_order: Vec<Identity>,
    /// How many of each, also beyond what the lists keep.
    pub duplicated_count: u64,
    /// See above.
    pub out_of_order_count: u64,
    /// Bodies of ours whose checksum is wrong.
    pub damaged: u64,
    /// Messages that are not of this run.
    pub foreign: u64,
}

/// Examples kept of each fault.
const EXAMPLES_MAX: usize = 32;

impl Found {
    /// Nothing read yet.
    pub fn new(run: u64) -> Found {
        Found { run, ..Found::default() }
    }

    /// A message of ours was read from the queue `lane`. Messages of one queue come in the order of their offsets.
    pub fn on_message(&mut self, identity: Identity, lane: u32) {
        if identity.run != self.run {
            self.foreign += 1;
            return;
        }
        self.messages += 1;
        let is_new = self.present.entry(identity.producer).or_default().insert(identity.sequence);
        if !is_new || identity.lane != lane {
            self.duplicated_count += 1;
            keep(&mut self.duplicated, identity);
            return;
        }
        let last = self.last.entry((identity.producer, lane)).or_insert(identity.sequence);
        if identity.sequence < *last {
            self.out_of_order_count += 1;
            keep(&mut self.out_of_order, identity);
        } else {
            *last = identity.sequence;
        }
    }

    /// Whether a message was read.
    pub fn contains(&self, producer: u32, sequence: u64) -> bool {
        self.present.get(&producer).is_some_and(|present| present.contains(sequence))
    }

    /// Messages that a producer has acknowledgements for and that were not read, ascending.
    pub fn lost<'a>(&'a self, log: &'a ProducerLog) -> impl Iterator<Item = u64> + 'a {
        const NONE: &Bitmap = &Bitmap { words: Vec::new(), count: 0 };
        log.acked.missing_from(self.present.get(&log.producer).unwrap_or(NONE))
    }

    /// Sets what was promised against what was found.
    pub fn against(&self, logs: &[ProducerLog]) -> Counts {
        let empty = Bitmap::default();
        let mut counts = Counts {
            found: self.messages,
            duplicated: self.duplicated_count,
            out_of_order: self.out_of_order_count,
            damaged: self.damaged,
            foreign: self.foreign,
            ..Counts::default()
        };
        for log in logs {
            let present = self.present.get(&log.producer).unwrap_or(&empty);
            counts.sent += log.next_sequence;
            counts.acked += log.acked.len();
            counts.unacked_present += present.missing_from(&log.acked).count() as u64;
            for sequence in log.acked.missing_from(present) {
                counts.lost += 1;
                if counts.lost_examples.len() < EXAMPLES_MAX {
                    counts.lost_examples.push((log.producer, sequence));
                }
            }
        }
        counts
    }
}

fn keep(examples: &mut Vec<Identity>, identity: Identity) {
    if examples.len() < EXAMPLES_MAX {
        examples.push(identity);
    }
}

/// The audit's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages handed to the kernel.
    pub sent: u64,
    /// Acknowledged with SUCCESS.
    pub acked: u64,
    /// Read back, duplicates included.
    pub found: u64,
    /// Acknowledged and not found.
    pub lost: u64,
    /// Found again in a queue, or in a wrong one.
    pub duplicated: u64,
    /// Found behind a later one of the same producer and queue.
    pub out_of_order: u64,
    /// Found and never acknowledged.
    pub unacked_present: u64,
    /// Found with a wrong checksum.
    pub damaged: u64,
    /// Found, of another run.
    pub foreign: u64,
    /// Some of the lost ones: producer and sequence.
    pub lost_examples: Vec<(u32, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmaps_answer_what_was_put_in() {
        let mut set = Bitmap::default();
        for number in [0, 63, 64, 100_000] {
            assert!(set.insert(number));
            assert!(!set.insert(number));
        }
        assert_eq!(set.len(), 4);
        assert!(set.contains(64) && !set.contains(65) && !set.contains(u64::MAX));
        let mut other = Bitmap::default();
        other.insert(63);
        assert_eq!(set.missing_from(&other).collect::<Vec<_>>(), [0, 64, 100_000]);
        assert_eq!(other.missing_from(&set).count(), 0);
    }

    fn identity(sequence: u64) -> Identity {
        Identity { run: 1, producer: 5, sequence, intended_ns: 0, lane: sequence as u32 % 2 }
    }

    fn log(sent: u64) -> ProducerLog {
        let mut log = ProducerLog::new(5);
        for at_ns in 0..sent {
            let sequence = log.take_sequence();
            log.on_acked(sequence, at_ns);
        }
        log
    }

    fn counts(read: &[u64], log: &ProducerLog) -> Counts {
        let mut found = Found::new(1);
        for sequence in read {
            found.on_message(identity(*sequence), *sequence as u32 % 2);
        }
        found.against(std::slice::from_ref(log))
    }

    #[test]
    fn a_whole_store_has_no_faults() {
        let seen = counts(&[0, 2, 4, 1, 3, 5], &log(6));
        assert_eq!(seen, Counts { sent: 6, acked: 6, found: 6, ..Counts::default() });
    }

    #[test]
    fn lost_duplicated_and_swapped_messages_are_told_apart() {
        let lost = counts(&[0, 4, 1, 3, 5], &log(6));
        assert_eq!((lost.lost, lost.lost_examples.as_slice()), (1, &[(5, 2)][..]));
        let duplicated = counts(&[0, 2, 2, 4, 1, 3, 5], &log(6));
        assert_eq!((duplicated.duplicated, duplicated.lost, duplicated.out_of_order), (1, 0, 0));
        let swapped = counts(&[0, 4, 2, 1, 3, 5], &log(6));
        assert_eq!((swapped.out_of_order, swapped.lost, swapped.duplicated), (1, 0, 0));
    }

    #[test]
    fn unacknowledged_messages_may_be_there_and_are_counted() {
        let mut log = log(4);
        log.take_sequence();
        log.take_sequence();
        let seen = counts(&[0, 2, 4, 1, 3], &log);
        assert_eq!((seen.sent, seen.acked, seen.unacked_present, seen.lost), (6, 4, 1, 0));
    }

    #[test]
    fn a_message_in_a_wrong_queue_is_no_innocent_one() {
        let mut found = Found::new(1);
        found.on_message(identity(0), 1);
        assert_eq!(found.duplicated_count, 1);
        let mut other_run = identity(0);
        other_run.run = 9;
        found.on_message(other_run, 0);
        assert_eq!((found.foreign, found.messages), (1, 1));
    }

    #[test]
    fn recent_acknowledgements_are_kept_with_their_time() {
        let log = log(100);
        assert_eq!(log.recent().last(), Some(Acked { sequence: 99, at_ns: 99 }));
    }
}
