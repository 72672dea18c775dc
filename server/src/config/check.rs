//! Settings against each other: contradictions are refused, values that RocketMQ moves into bounds are moved and said.
//!
//! Owns every relation between two settings. Never looks at the host or the store: those facts change between the
//! check and the start, so `placement.rs` and the engine look at them.

use std::time::Duration;

use super::Note;
use super::error::ConfigError;
use super::settings::Settings;
use super::value::{Backend, ByteSize, Cores, EmbeddedNamesrv, Shards};

/// Moves what is clamped, saying so in `notes`, then refuses what contradicts.
pub fn check(settings: &mut Settings, notes: &mut Vec<Note>) -> Result<(), ConfigError> {
    clamp(settings, notes);
    for refuse in [segment_holds_message, segment_suits_backend, connection_holds_frame, pulls_fit_connection]
    {
        refuse(settings)?;
    }
    for refuse in [shards_have_cores, one_source_of_names, permission_is_known, flush_intervals_in_order] {
        refuse(settings)?;
    }
    Ok(())
}

fn clamp(settings: &mut Settings, notes: &mut Vec<Note>) {
    let asked = settings.register_name_server_period;
    let period = asked.clamp(REGISTER_PERIOD_MIN, REGISTER_PERIOD_MAX);
    if period != asked {
        notes.push(Note::Clamped {
            key: "registerNameServerPeriod",
            asked: format!("{} ms", asked.as_millis()),
            used: format!("{} ms", period.as_millis()),
            reason: "name servers forget a broker after 120 s, and RocketMQ keeps this within 10 to 60 s",
        });
        settings.register_name_server_period = period;
    }
    let asked = settings.mapped_file_size_consume_queue;
    let rounded = ByteSize(asked.0.next_multiple_of(CONSUME_QUEUE_ENTRY_BYTES));
    if rounded != asked {
        notes.push(Note::Clamped {
            key: "mappedFileSizeConsumeQueue",
            asked: asked.to_string(),
            used: rounded.to_string(),
            reason: "a file holds whole entries of 20 bytes, and RocketMQ rounds up",
        });
        settings.mapped_file_size_consume_queue = rounded;
    }
}

/// A record that no file can hold would be refused at every send: say it at start instead.
fn segment_holds_message(settings: &Settings) -> Result<(), ConfigError> {
    let needed = settings.max_message_size.0 + RECORD_OVERHEAD_BYTES_MAX + BLANK_BYTES_MIN;
    let segment = settings.mapped_file_size_commit_log;
    refuse_if(needed > segment.0, || {
        format!(
            "a message of maxMessageSize ({}) with its topic and properties needs {needed} bytes of one commit-log \
             file, but mappedFileSizeCommitLog is {segment}; make the file larger or the message smaller",
            settings.max_message_size
        )
    })
}

fn segment_suits_backend(settings: &Settings) -> Result<(), ConfigError> {
    let segment = settings.mapped_file_size_commit_log;
    refuse_if(settings.backend == Backend::Direct && !segment.0.is_multiple_of(DIRECT_BLOCK_BYTES), || {
        format!(
            "backend=direct writes whole blocks of {DIRECT_BLOCK_BYTES} bytes, but mappedFileSizeCommitLog \
             ({segment}) isn't a multiple of that; round it or use backend=mapped"
        )
    })
}

/// Otherwise the largest legal request could never be received whole.
fn connection_holds_frame(settings: &Settings) -> Result<(), ConfigError> {
    let needed = settings.max_message_size.0 + RECORD_OVERHEAD_BYTES_MAX * 2;
    let memory = settings.max_connection_memory;
    refuse_if(memory.0 < needed, || {
        format!(
            "a request with a message of maxMessageSize ({}) takes up to {needed} bytes, but maxConnectionMemory is \
             {memory}; raise it or lower maxMessageSize",
            settings.max_message_size
        )
    })
}

/// Otherwise one pull's answer would stop its own connection for good.
fn pulls_fit_connection(settings: &Settings) -> Result<(), ConfigError> {
    let memory = settings.max_connection_memory;
    let largest =
        settings.max_transfer_bytes_on_message_in_memory.max(settings.max_transfer_bytes_on_message_in_disk);
    refuse_if(largest > memory, || {
        format!(
            "one answer to a pull may have {largest} (maxTransferBytesOnMessageIn…), but maxConnectionMemory is \
             {memory}; raise it or lower the answer's size"
        )
    })
}

fn shards_have_cores(settings: &Settings) -> Result<(), ConfigError> {
    let (Shards::Count(shards), Cores::List(cores)) = (settings.shards, &settings.cores) else {
        return Ok(());
    };
    refuse_if(shards as usize > cores.len(), || {
        format!(
            "{shards} shards need {shards} cores, but `cores` lists {}; list more or set shards={}",
            cores.len(),
            cores.len()
        )
    })
}

fn one_source_of_names(settings: &Settings) -> Result<(), ConfigError> {
    let embedded = matches!(settings.embedded_namesrv_port, EmbeddedNamesrv::Port(_));
    refuse_if(embedded && !settings.namesrv_addr.is_empty(), || {
        format!(
            "embeddedNamesrvPort asks for a name server in this process, namesrvAddr ({}) for others; name servers \
             don't share what they know, so remove one of the two",
            settings.namesrv_addr.join(";")
        )
    })?;
    let nowhere = settings.embedded_namesrv_port == EmbeddedNamesrv::Off && settings.namesrv_addr.is_empty();
    refuse_if(nowhere, || {
        "embeddedNamesrvPort is off and namesrvAddr is empty, so no client could find this broker; set one of the two"
            .to_owned()
    })?;
    let same_port =
        settings.namesrv_port_embedded() == Some(settings.listen_port) && settings.listen_port != 0;
    refuse_if(same_port, || {
        format!(
            "listenPort and embeddedNamesrvPort are both {}; choose another for one of them",
            settings.listen_port
        )
    })
}

fn permission_is_known(settings: &Settings) -> Result<(), ConfigError> {
    refuse_if(![2, 4, 6].contains(&settings.broker_permission), || {
        format!(
            "brokerPermission is {}; it must be 2 (write), 4 (read) or 6 (both)",
            settings.broker_permission
        )
    })
}

fn flush_intervals_in_order(settings: &Settings) -> Result<(), ConfigError> {
    let (interval, thorough) =
        (settings.flush_interval_commit_log, settings.flush_commit_log_thorough_interval);
    refuse_if(thorough < interval, || {
        format!(
            "flushCommitLogThoroughInterval ({} ms) is shorter than flushIntervalCommitLog ({} ms), at which it is \
             looked at; make it at least as long",
            thorough.as_millis(),
            interval.as_millis()
        )
    })
}

fn refuse_if(contradiction: bool, explanation: impl FnOnce() -> String) -> Result<(), ConfigError> {
    if contradiction { Err(ConfigError::Contradiction { explanation: explanation() }) } else { Ok(()) }
}

const REGISTER_PERIOD_MIN: Duration = Duration::from_secs(10);
const REGISTER_PERIOD_MAX: Duration = Duration::from_secs(60);
/// One entry of a consume queue: log offset, size, tags' hash.
const CONSUME_QUEUE_ENTRY_BYTES: u64 = 20;
/// Fixed fields, topic and properties of a record never take more.
const RECORD_OVERHEAD_BYTES_MAX: u64 = 64 << 10;
/// A commit-log file ends in a blank of at least this size.
const BLANK_BYTES_MIN: u64 = 8;
/// O_DIRECT's unit that every common device accepts.
const DIRECT_BLOCK_BYTES: u64 = 4_096;
