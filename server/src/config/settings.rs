//! The settings: one table that makes the checked struct, reads and prints its fields, and documents them.
//!
//! Owns every key's name, meaning, default and bounds, so that parser, printer, documents and suggestions can't
//! drift apart. Never reads a file or a clock, and never compares one setting with another: that is `check.rs`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use super::value::{
    Backend, BrokerRole, ByteSize, Cores, EmbeddedNamesrv, FlushDiskType, FlushMethod, PrepareMode, Shape,
    Shards, TimeUnit, Value,
};

/// One row of the table, without its type.
pub struct Key {
    /// The name in settings files and after `--set`: RocketMQ's where it has one.
    pub name: &'static str,
    /// The heading under which it is printed and documented.
    pub section: &'static str,
    /// What it means, in sentences; the field's own documentation.
    pub meaning: &'static str,
    /// What values it takes.
    pub shape: Shape,
    /// Reads a value into its field; the error says what is accepted, without naming the key.
    pub read: fn(&mut Settings, &str) -> Result<(), String>,
    /// Prints the field as a TOML value that `read` takes back (without its quotes).
    pub toml: fn(&Settings) -> String,
}

impl Key {
    /// The key of this name, RocketMQ's older spellings included.
    pub fn find(name: &str) -> Option<&'static Key> {
        let name = OLD_SPELLINGS.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new);
        KEYS.iter().find(|key| key.name == name)
    }
}

/// RocketMQ renamed these; its 4.x files still have them.
pub const OLD_SPELLINGS: &[(&str, &str)] = &[
    ("mapedFileSizeCommitLog", "mappedFileSizeCommitLog"),
    ("mapedFileSizeConsumeQueue", "mappedFileSizeConsumeQueue"),
];

macro_rules! settings {
    ($($section:literal { $(
        $(#[doc = $doc:literal])+
        $name:literal $field:ident: $type:ty = $default:expr, $shape:expr;
    )+ })+) => {
        /// What the process runs with: every value read, bounded, and (when it comes out of [`super::load`])
        /// compared with the others. The names in settings files are RocketMQ's where it has the setting.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct Settings { $($( $(#[doc = $doc])+ pub $field: $type, )+)+ }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($( $field: $default, )+)+ }
            }
        }

        /// Every setting, in the order in which they are printed.
        pub const KEYS: &[Key] = &[ $($(
            Key {
                name: $name,
                section: $section,
                meaning: concat!($($doc, "\n"),+),
                shape: $shape,
                read: |settings, text| {
                    settings.$field = <$type as Value>::read(text, &$shape)?;
                    Ok(())
                },
                toml: |settings| settings.$field.toml(&$shape),
            },
        )+)+ ];
    };
}

settings! {
    "Who this broker is" {
        /// Name of the cluster. Clients and tools group brokers by it.
        "brokerClusterName" broker_cluster_name: String = "DefaultCluster".to_owned(), Shape::Name { len_max: 127 };
        /// Name of the broker. With more than one shard, shard i is called `<brokerName>-<i>`.
        "brokerName" broker_name: String = "broker-a".to_owned(), Shape::Name { len_max: 120 };
        /// 0 means master. Slaves aren't built yet.
        "brokerId" broker_id: u32 = 0, Shape::Count { min: 0, max: 0 };
        /// The broker's part in replication. Roles that promise copies are refused until replication is built.
        "brokerRole" broker_role: BrokerRole = BrokerRole::AsyncMaster, Shape::Choice(BrokerRole::WORDS);
        /// The address that clients are told to connect to. Also the one listened on unless `bindAddress` is set.
        "brokerIP1" broker_ip1: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST), Shape::Address;
        /// The address to listen on; `auto` is `brokerIP1`, `0.0.0.0` is every address of the host.
        "bindAddress" bind_address: Option<IpAddr> = None, Shape::AddressOrAuto;
        /// The port of the first shard; shard i listens on `listenPort + 10 * i`. 0 takes ports that the kernel
        /// gives, which is useful to tests: the `ready` line tells them.
        "listenPort" listen_port: u16 = 10_911, Shape::Count { min: 0, max: 65_535 };
    }
    "Name servers" {
        /// The name servers to register with, `host:port;host:port`. Empty means the embedded one.
        "namesrvAddr" namesrv_addr: Vec<String> = Vec::new(), Shape::AddressList;
        /// The port of the name server inside this process. `auto` is 9876 when `namesrvAddr` is empty and none
        /// otherwise; 0 takes a port that the kernel gives.
        "embeddedNamesrvPort" embedded_namesrv_port: EmbeddedNamesrv = EmbeddedNamesrv::Auto, Shape::PortOrOff;
        /// How often every name server is told all topics. Values outside 10 to 60 s are moved to the nearer end,
        /// as RocketMQ does.
        "registerNameServerPeriod" register_name_server_period: Duration = Duration::from_secs(30),
            Shape::Time { unit: TimeUnit::Millis, min: 1, max: 86_400_000 };
        /// How long one registration may take before it counts as failed.
        "registerBrokerTimeoutMills" register_broker_timeout: Duration = Duration::from_secs(24),
            Shape::Time { unit: TimeUnit::Millis, min: 100, max: 60_000 };
    }
    "Shards and cores" {
        /// How many brokers, each with a core and a store of its own, this process is. `auto` is what the store was
        /// made with; for a new store it is the number of cores in `cores`, or, without such a list, the number that
        /// this process may use, less one when there are more.
        "shards" shards: Shards = Shards::Auto, Shape::CountOrAuto { min: 1, max: 64 };
        /// The cores that shards are pinned to, one each, like `0,2-3`. `auto` takes the highest-numbered ones that
        /// this process may use.
        "cores" cores: Cores = Cores::Auto, Shape::CoreList;
        /// How long an idle core polls for work before it sleeps. Longer costs CPU at rest and saves the wake-up
        /// (tens of µs) when work arrives.
        "spinBeforePark" spin_before_park: Duration = Duration::ZERO,
            Shape::Time { unit: TimeUnit::Micros, min: 0, max: 1_000_000 };
    }
    "Store" {
        /// The directory of the store; with several shards it holds `shard-<i>` of each.
        "storePathRootDir" store_path_root_dir: PathBuf = PathBuf::from("ringmq-data"), Shape::Directory;
        /// How bytes reach the commit log: `direct` writes around the page cache, `mapped` copies into a mapping.
        "backend" backend: Backend = Backend::Direct, Shape::Choice(Backend::WORDS);
        /// Size of a commit-log file. An existing store's size wins. `direct` needs a multiple of 4096.
        "mappedFileSizeCommitLog" mapped_file_size_commit_log: ByteSize = ByteSize(1 << 30),
            Shape::Bytes { min: 72 << 10, max: 0x7fff_f000 };
        /// Size of a consume-queue file; rounded up to a multiple of 20, one entry's size.
        "mappedFileSizeConsumeQueue" mapped_file_size_consume_queue: ByteSize = ByteSize(6_000_000),
            Shape::Bytes { min: 20, max: 0x7fff_f000 };
        /// Largest message body. With 64 KiB for topic and properties it must fit a commit-log file and a frame.
        "maxMessageSize" max_message_size: ByteSize = ByteSize(4 << 20), Shape::Bytes { min: 1, max: 15 << 20 };
        /// What is done ahead of time to the next commit-log files, so that no message pays for it.
        "prepareMode" prepare_mode: PrepareMode = PrepareMode::Zero, Shape::Choice(PrepareMode::WORDS);
        /// Memory of each shard for the newest part of its log, from which most pulls are answered (`direct`).
        "tailCacheBytes" tail_cache_bytes: ByteSize = ByteSize(32 << 20), Shape::Bytes { min: 1 << 20, max: 64 << 30 };
        /// Memory of each shard for older parts of its log, read ahead for consumers that lag (`direct`).
        "readCacheBytes" read_cache_bytes: ByteSize = ByteSize(32 << 20), Shape::Bytes { min: 1 << 20, max: 64 << 30 };
    }
    "Durability" {
        /// `SYNC_FLUSH` acknowledges a message once the device has it, `ASYNC_FLUSH` once it is in the log's memory.
        "flushDiskType" flush_disk_type: FlushDiskType = FlushDiskType::AsyncFlush, Shape::Choice(FlushDiskType::WORDS);
        /// How a group of messages is made durable on `direct`; `auto` measures both at start.
        "flushMethod" flush_method: FlushMethod = FlushMethod::Auto, Shape::Choice(FlushMethod::WORDS);
        /// How long a SYNC_FLUSH send may wait for its flush before it is answered FLUSH_DISK_TIMEOUT. RocketMQ's
        /// default is 5000, which is longer than its own client waits (3000).
        "syncFlushTimeout" sync_flush_timeout: Duration = Duration::from_millis(2_500),
            Shape::Time { unit: TimeUnit::Millis, min: 10, max: 60_000 };
        /// ASYNC_FLUSH: how often what was appended is flushed.
        "flushIntervalCommitLog" flush_interval_commit_log: Duration = Duration::from_millis(500),
            Shape::Time { unit: TimeUnit::Millis, min: 1, max: 60_000 };
        /// ASYNC_FLUSH: fewest 4 KiB pages that are worth a flush at that interval; 0 flushes whatever is there.
        "flushCommitLogLeastPages" flush_commit_log_least_pages: u32 = 4, Shape::Count { min: 0, max: 65_536 };
        /// ASYNC_FLUSH: the time after which even fewer pages are flushed.
        "flushCommitLogThoroughInterval" flush_commit_log_thorough_interval: Duration = Duration::from_secs(10),
            Shape::Time { unit: TimeUnit::Millis, min: 1, max: 3_600_000 };
        /// How often entries are written to consume-queue files. They are rebuilt from the log, so no message depends
        /// on it.
        "flushIntervalConsumeQueue" flush_interval_consume_queue: Duration = Duration::from_secs(1),
            Shape::Time { unit: TimeUnit::Millis, min: 1, max: 3_600_000 };
        /// How often consume-queue files are synced. A stop of the process doesn't need it; after a loss of power the
        /// entries since are built again from the log.
        "flushConsumeQueueThoroughInterval" flush_consume_queue_thorough_interval: Duration = Duration::from_secs(60),
            Shape::Time { unit: TimeUnit::Millis, min: 1, max: 3_600_000 };
        /// How often the consumer offsets are written to their file. After a crash consumers repeat at most what
        /// they consumed in this time.
        "flushConsumerOffsetInterval" flush_consumer_offset_interval: Duration = Duration::from_secs(5),
            Shape::Time { unit: TimeUnit::Millis, min: 100, max: 3_600_000 };
    }
    "Topics and groups" {
        /// Whether a send to an unknown topic creates it.
        "autoCreateTopicEnable" auto_create_topic_enable: bool = true, Shape::Switch;
        /// Most queues of a topic created that way (the queues of TBW102), over all shards together.
        "defaultTopicQueueNums" default_topic_queue_nums: u32 = 8, Shape::Count { min: 1, max: 1_024 };
        /// Whether a consumer group that nobody created is accepted, with default settings.
        "autoCreateSubscriptionGroup" auto_create_subscription_group: bool = true, Shape::Switch;
        /// Whether topics can be created automatically from the topic called like the cluster.
        "clusterTopicEnable" cluster_topic_enable: bool = true, Shape::Switch;
        /// Whether topics can be created automatically from the topic called like the broker.
        "brokerTopicEnable" broker_topic_enable: bool = true, Shape::Switch;
        /// Whether the topic for clients' message traces exists.
        "traceTopicEnable" trace_topic_enable: bool = false, Shape::Switch;
        /// What this broker allows: 2 write, 4 read, 6 both. Every topic is registered with its own permission
        /// AND this one.
        "brokerPermission" broker_permission: u32 = 6, Shape::Count { min: 2, max: 6 };
    }
    "Pulls" {
        /// Whether a pull that finds nothing waits for a message, as long as the client asks.
        "longPollingEnable" long_polling_enable: bool = true, Shape::Switch;
        /// How long a pull that finds nothing waits when `longPollingEnable` is false.
        "shortPollingTimeMills" short_polling_time: Duration = Duration::from_secs(1),
            Shape::Time { unit: TimeUnit::Millis, min: 1, max: 30_000 };
        /// Most bytes in the answer to one pull of messages that are in memory.
        "maxTransferBytesOnMessageInMemory" max_transfer_bytes_on_message_in_memory: ByteSize = ByteSize(256 << 10),
            Shape::Bytes { min: 1, max: 8 << 20 };
        /// Most messages in the answer to one pull of messages that are in memory.
        "maxTransferCountOnMessageInMemory" max_transfer_count_on_message_in_memory: u32 = 32,
            Shape::Count { min: 1, max: 1_024 };
        /// Most bytes in the answer to one pull of messages that are no longer in the tail cache.
        "maxTransferBytesOnMessageInDisk" max_transfer_bytes_on_message_in_disk: ByteSize = ByteSize(64 << 10),
            Shape::Bytes { min: 1, max: 8 << 20 };
        /// Most messages in the answer to one pull of messages that are no longer in the tail cache.
        "maxTransferCountOnMessageInDisk" max_transfer_count_on_message_in_disk: u32 = 8,
            Shape::Count { min: 1, max: 1_024 };
        /// Most pulls of each shard that wait for messages; further ones are answered at once.
        "maxHeldPulls" max_held_pulls: u32 = 65_536, Shape::Count { min: 1, max: 1 << 24 };
    }
    "Connections" {
        /// Most connections of each shard; further ones are closed as they arrive.
        "maxConnections" max_connections: u32 = 16_384, Shape::Count { min: 1, max: 1 << 20 };
        /// Most memory that one connection may hold for what it sent and hasn't been answered, and for answers it
        /// hasn't read. A connection at the limit isn't read from until it is below.
        "maxConnectionMemory" max_connection_memory: ByteSize = ByteSize(20 << 20),
            Shape::Bytes { min: 128 << 10, max: 1 << 30 };
        /// A connection on which nothing came and nothing went for this long is closed.
        "serverChannelMaxIdleTimeSeconds" server_channel_max_idle_time: Duration = Duration::from_secs(120),
            Shape::Time { unit: TimeUnit::Seconds, min: 10, max: 86_400 };
    }
}

impl Settings {
    /// The address to listen on.
    pub fn listen_address(&self) -> IpAddr {
        self.bind_address.unwrap_or(self.broker_ip1)
    }

    /// The port of the name server inside this process, if there is one; 0 is one that the kernel gives.
    pub fn namesrv_port_embedded(&self) -> Option<u16> {
        match self.embedded_namesrv_port {
            EmbeddedNamesrv::Auto if self.namesrv_addr.is_empty() => Some(NAMESRV_PORT_DEFAULT),
            EmbeddedNamesrv::Auto | EmbeddedNamesrv::Off => None,
            EmbeddedNamesrv::Port(port) => Some(port),
        }
    }

    /// `defaultTopicQueueNums` of one of `shards` shards: rounded up and at least 1, so that the shards together
    /// offer at least what was asked for.
    pub fn default_topic_queue_nums_of_shard(&self, shards: u32) -> u32 {
        assert!(shards > 0, "a placement has at least one shard");
        self.default_topic_queue_nums.div_ceil(shards).max(1)
    }

    /// Every setting as a TOML file that `ringmq serve -c` takes, grouped by section.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for key in KEYS {
            if key.section != section {
                section = key.section;
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(&format!("# {section}\n"));
            }
            text.push_str(&format!("{} = {}\n", key.name, (key.toml)(self)));
        }
        text
    }
}

/// RocketMQ's port for name servers.
pub const NAMESRV_PORT_DEFAULT: u16 = 9_876;
