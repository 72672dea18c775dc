//! RocketMQ's `checkpoint`: five numbers in a file of 4,096 bytes.
//!
//! It tells an opening after a kill where to begin. Two of RocketMQ's defects are avoided: a time is stored only
//! after a sync that covers it (there, every queue entry moved it in memory), and the file is replaced, never
//! written in place.

use std::path::{Path, PathBuf};

use crate::{error::StoreError, io::Runtime, metadata::replace_via};

/// Length of the file.
const FILE_BYTES: usize = 4096;
/// Where the numbers end; the rest is zero.
const FIELDS_BYTES: usize = 40;
/// Messages this much older than the checkpoint are taken as durable: clocks of several writers, as RocketMQ.
const SAFETY_MS: i64 = 3000;

/// ```text
///  0  physicMsgTimestamp    8  logicsMsgTimestamp    16  indexMsgTimestamp
/// 24  masterFlushedOffset  32  confirmPhyOffset      40  zeros
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// Every message stored up to this time is durable in the log (ms since 1970). 0: nothing is known.
    pub physic_msg_timestamp_ms: i64,
    /// Every message stored up to this time is durable in its queue.
    pub logics_msg_timestamp_ms: i64,
    /// End of what full index files hold; kept as found.
    pub index_msg_timestamp_ms: i64,
    /// Used by replication; kept as found.
    pub master_flushed_offset: i64,
    /// Used by replication; kept as found.
    pub confirm_phy_offset: i64,
}

impl Checkpoint {
    /// The numbers in `bytes`. A file that is too short says nothing: RocketMQ may leave one that is empty.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Checkpoint {
        let Some(fields) = bytes.first_chunk::<FIELDS_BYTES>() else { return Checkpoint::default() };
        let mut numbers = fields.as_chunks::<8>().0.iter().map(|bytes| i64::from_be_bytes(*bytes));
        let mut next = || numbers.next().unwrap_or(0);
        let (physic, logics, index) = (next(), next(), next());
        Checkpoint {
            physic_msg_timestamp_ms: physic.max(0),
            logics_msg_timestamp_ms: logics.max(0),
            index_msg_timestamp_ms: index,
            master_flushed_offset: next(),
            confirm_phy_offset: next(),
        }
    }

    /// The whole file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FILE_BYTES);
        for number in [
            self.physic_msg_timestamp_ms,
            self.logics_msg_timestamp_ms,
            self.index_msg_timestamp_ms,
            self.master_flushed_offset,
            self.confirm_phy_offset,
        ] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.resize(FILE_BYTES, 0);
        bytes
    }

    /// Everything stored up to this time is durable in the log and in its queue.
    #[must_use]
    pub fn min_timestamp_ms(&self) -> i64 {
        let both = self.physic_msg_timestamp_ms.min(self.logics_msg_timestamp_ms);
        both.saturating_sub(SAFETY_MS).max(0)
    }

    /// The checkpoint of the store at `root`; zeros when there is none.
    ///
    /// # Errors
    /// What the system refused.
    pub async fn load<R: Runtime>(runtime: &R, root: &Path) -> Result<Checkpoint, StoreError> {
        let path = path(root);
        let bytes = runtime.read_file(&path).await.map_err(StoreError::io("reading", &path))?;
        Ok(bytes.map_or_else(Checkpoint::default, |bytes| Checkpoint::decode(&bytes)))
    }

    /// Replaces the checkpoint of the store at `root`, durably. Its times must be covered by completed syncs.
    ///
    /// # Errors
    /// What the system refused; the old one is then still there.
    pub async fn store<R: Runtime>(&self, runtime: &R, root: &Path) -> Result<(), StoreError> {
        // A checkpoint that exists says something, if only that nothing was durable: 0 is what one that is lost says.
        let known = Checkpoint { physic_msg_timestamp_ms: self.physic_msg_timestamp_ms.max(1), ..*self };
        let temporary = root.join("ringmq").join("checkpoint.tmp");
        replace_via(runtime, &path(root), &temporary, known.encode()).await
    }
}

fn path(root: &Path) -> PathBuf {
    root.join("checkpoint")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_rocketmqs() {
        let checkpoint = Checkpoint {
            physic_msg_timestamp_ms: 0x01A2_31AC_8C77,
            logics_msg_timestamp_ms: 2,
            index_msg_timestamp_ms: 3,
            master_flushed_offset: 4,
            confirm_phy_offset: 5,
        };
        let bytes = checkpoint.encode();
        assert_eq!(bytes.len(), 4096);
        assert_eq!(bytes[..9], [0, 0, 0x01, 0xA2, 0x31, 0xAC, 0x8C, 0x77, 0]);
        assert_eq!(bytes[15], 2);
        assert!(bytes[40..].iter().all(|&byte| byte == 0));
        assert_eq!(Checkpoint::decode(&bytes), checkpoint);
    }

    #[test]
    fn a_short_file_says_nothing() {
        for len in [0, 8, 39] {
            assert_eq!(Checkpoint::decode(&vec![7; len]), Checkpoint::default());
        }
    }

    #[test]
    fn the_earlier_time_counts_less_three_seconds() {
        let check = |physic, logics, expected| {
            let checkpoint = Checkpoint {
                physic_msg_timestamp_ms: physic,
                logics_msg_timestamp_ms: logics,
                ..Checkpoint::default()
            };
            assert_eq!(checkpoint.min_timestamp_ms(), expected);
        };
        check(10_000, 20_000, 7_000);
        check(20_000, 10_000, 7_000);
        check(0, 10_000, 0);
        check(2_000, 2_000, 0);
    }
}
