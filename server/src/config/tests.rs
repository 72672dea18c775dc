//! Settings from the outside: what is typed, and what comes out or why it is refused.

mod tuning;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser as _;

use super::*;
use crate::config::value::Shape;

fn entries(text: &str) -> Vec<Entry> {
    file::parse("test.conf", text).unwrap()
}

fn loaded(text: &str) -> Loaded {
    resolve(&entries(text)).unwrap()
}

fn refusal(text: &str) -> String {
    match resolve(&entries(text)) {
        Ok(loaded) => panic!("accepted: {:?}", loaded.settings),
        Err(error) => error.to_string(),
    }
}

fn serve(arguments: &[&str]) -> ServeArgs {
    let all = ["ringmq", "serve"].iter().chain(arguments);
    match Cli::try_parse_from(all).unwrap().command {
        Command::Serve(args) => *args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_command_line_is_consistent() {
    use clap::CommandFactory as _;
    Cli::command().debug_assert();
}

#[test]
fn defaults_pass_the_checks_unchanged() {
    let loaded = loaded("");
    assert_eq!(loaded.settings, Settings::default());
    assert_eq!(loaded.notes, []);
}

#[test]
fn effective_settings_are_a_file_that_reads_back_the_same() {
    let text = "brokerName=b-7\nlistenPort=0\nnamesrvAddr=h1:1;h2:2\nmaxMessageSize=1000001\nspinBeforePark=7\n\
                cores=0,2-3\nshards=2\nbindAddress=0.0.0.0\nflushIntervalCommitLog=1500us\nstorePathRootDir=/a \"b\"\n\
                serverChannelMaxIdleTimeSeconds=2m\nmappedFileSizeCommitLog=67108864";
    let first = loaded(text).settings;
    let again = resolve(&file::parse("x.toml", &first.to_toml()).unwrap()).unwrap().settings;
    assert_eq!(again, first);
    let default = Settings::default();
    assert_eq!(resolve(&file::parse("x.toml", &default.to_toml()).unwrap()).unwrap().settings, default);
    assert!(first.to_toml().contains("mappedFileSizeCommitLog = \"64MiB\"\n"));
}

#[test]
fn later_sources_win_over_earlier_ones() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("broker.conf");
    std::fs::write(&path, "listenPort=1111\nbrokerName=file\nflushDiskType=ASYNC_FLUSH\nnamesrvAddr=a:1\n")
        .unwrap();
    let file = path.to_str().unwrap();
    let args = serve(&["-c", file, "--port", "2222", "--flush", "sync", "--set", "listenPort = 3333"]);
    let settings = load(&args).unwrap().settings;
    assert_eq!(settings.broker_name, "file");
    assert_eq!(settings.flush_disk_type, FlushDiskType::SyncFlush);
    assert_eq!(settings.listen_port, 3333);
    assert_eq!(settings.namesrv_port_embedded(), None);
    // The flag for the embedded name server takes back the file's external one.
    let settings = load(&serve(&["-c", file, "--embedded-namesrv", "0"])).unwrap().settings;
    assert_eq!((settings.namesrv_addr.len(), settings.namesrv_port_embedded()), (0, Some(0)));
}

#[test]
fn every_flag_reaches_its_setting() {
    let args = serve(&[
        "--data",
        "d",
        "--ip",
        "10.1.2.3",
        "--bind",
        "0.0.0.0",
        "--port",
        "0",
        "--shards",
        "2",
        "--cores",
        "1-2",
        "--backend",
        "mapped",
        "--flush",
        "sync",
        "--namesrv",
        "n:9876",
    ]);
    let settings = load(&args).unwrap().settings;
    let expected = Settings {
        store_path_root_dir: PathBuf::from("d"),
        broker_ip1: "10.1.2.3".parse().unwrap(),
        bind_address: Some("0.0.0.0".parse().unwrap()),
        listen_port: 0,
        shards: Shards::Count(2),
        cores: Cores::List(vec![1, 2]),
        backend: Backend::Mapped,
        flush_disk_type: FlushDiskType::SyncFlush,
        namesrv_addr: vec!["n:9876".to_owned()],
        ..Settings::default()
    };
    assert_eq!(settings, expected);
    assert_eq!(settings.listen_address(), "0.0.0.0".parse::<std::net::IpAddr>().unwrap());
}

#[test]
fn the_two_kinds_of_name_server_exclude_each_other_on_the_command_line() {
    let typed = ["ringmq", "serve", "--namesrv", "a:1", "--embedded-namesrv", "1"];
    assert!(Cli::try_parse_from(typed).is_err());
}

#[test]
fn sizes_and_times_take_rocketmqs_plain_numbers_and_suffixes() {
    let settings =
        loaded("maxMessageSize=65536\nflushIntervalCommitLog=20\nserverChannelMaxIdleTimeSeconds=60")
            .settings;
    assert_eq!(settings.max_message_size, ByteSize(65_536));
    assert_eq!(settings.flush_interval_commit_log, Duration::from_millis(20));
    assert_eq!(settings.server_channel_max_idle_time, Duration::from_secs(60));
    let settings = loaded("maxMessageSize=2MiB\nflushIntervalCommitLog=2s\nspinBeforePark=1ms").settings;
    assert_eq!(settings.max_message_size, ByteSize(2 << 20));
    assert_eq!(settings.flush_interval_commit_log, Duration::from_secs(2));
    assert_eq!(settings.spin_before_park, Duration::from_millis(1));
    let settings = loaded("mapedFileSizeCommitLog=64MiB").settings;
    assert_eq!(settings.mapped_file_size_commit_log, ByteSize(64 << 20));
}

#[test]
fn values_out_of_bounds_are_refused_with_what_is_accepted_and_where() {
    let cases = [
        ("listenPort=70000", "0 to 65535"),
        ("listenPort=-1", "0 to 65535"),
        ("maxMessageSize=16MiB", "15MiB"),
        ("maxMessageSize=4 parsecs", "KiB"),
        ("syncFlushTimeout=1ms", "10 to 60000 ms"),
        ("autoCreateTopicEnable=yes", "true or false"),
        ("flushDiskType=SYNC", "SYNC_FLUSH, ASYNC_FLUSH"),
        ("backend=floppy", "direct, mapped"),
        ("brokerIP1=localhost", "IP address"),
        ("brokerIP1=0.0.0.0", "bindAddress"),
        ("namesrvAddr=localhost", "host:port"),
        ("cores=3-1", "0,2-3"),
        ("shards=0", "1 to 64"),
        ("brokerName=a b", "letters"),
        ("storePathRootDir=", "directory"),
        ("embeddedNamesrvPort=yes", "`off`"),
    ];
    for (line, expected) in cases {
        let message = refusal(&format!("# first\n{line}\n"));
        assert!(message.contains(expected) && message.contains("test.conf line 2"), "{line}: {message}");
    }
}

#[test]
fn out_of_bounds_is_refused_at_both_ends_of_every_bounded_setting() {
    for key in settings::KEYS {
        let (min, max, suffix) = match key.shape {
            Shape::Count { min, max } | Shape::CountOrAuto { min, max } => (min, max, ""),
            Shape::Bytes { min, max } => (min, max, "B"),
            Shape::Time { min, max, .. } => (min, max, ""),
            _ => continue,
        };
        let mut settings = Settings::default();
        let mut accepts = |number: u64| (key.read)(&mut settings, &format!("{number}{suffix}")).is_ok();
        assert!(accepts(min) && accepts(max), "{}: an end is refused", key.name);
        assert!(!accepts(max + 1), "{}: more than the most is accepted", key.name);
        assert!(min == 0 || !accepts(min - 1), "{}: less than the least is accepted", key.name);
    }
}

#[test]
fn settings_of_rocketmq_without_effect_here_are_warned_about_once_each() {
    let notes = loaded("sendMessageThreadPoolNums=4\nfileReservedTime=48\nsendMessageThreadPoolNums=8").notes;
    let texts: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].contains("sendMessageThreadPoolNums") && texts[0].contains("line 1"));
    assert!(texts[1].contains("fileReservedTime"));
}

#[test]
fn what_would_break_a_promise_is_refused_and_its_harmless_value_accepted_in_silence() {
    for unbuilt in known::UNBUILT {
        assert!(
            known::is_known(unbuilt.key) || Key::find(unbuilt.key).is_some(),
            "{}: RocketMQ doesn't know it",
            unbuilt.key
        );
        for harmless in unbuilt.harmless {
            assert_eq!(loaded(&format!("{}={harmless}", unbuilt.key)).notes, [], "{}", unbuilt.key);
        }
        let message = refusal(&format!("{}=2", unbuilt.key));
        assert!(message.contains("is refused") && message.contains(unbuilt.remedy), "{message}");
    }
    for line in ["brokerRole=SYNC_MASTER", "brokerRole=SLAVE", "brokerId=1", "enableDLegerCommitLog=true"] {
        assert!(refusal(line).contains("is refused"), "{line}");
    }
    assert!(refusal("tls.server.mode=enforcing").contains("TLS"));
}

#[test]
fn parts_of_a_store_elsewhere_are_refused() {
    let message = refusal("storePathCommitLog=/fast/commitlog\nstorePathRootDir=/s");
    assert!(message.contains("/s/commitlog"), "{message}");
    assert_eq!(loaded("storePathCommitLog=/s/commitlog\nstorePathRootDir=/s").notes, []);
}

#[test]
fn unknown_names_are_refused_with_the_nearest() {
    let cases = [
        ("listenport=1", Some("listenPort")),
        ("flushDiskTyp=SYNC_FLUSH", Some("flushDiskType")),
        ("brokerip=1.2.3.4", Some("brokerIP1")),
        ("fileReserveTime=1", Some("fileReservedTime")),
        ("tailCache=1", Some("tailCacheBytes")),
        ("quux=1", None),
    ];
    for (line, expected) in cases {
        let message = refusal(line);
        match expected {
            Some(name) => assert!(message.contains(&format!("did you mean `{name}`")), "{message}"),
            None => assert!(message.contains("--check") && !message.contains("did you mean"), "{message}"),
        }
    }
}

#[test]
fn contradictions_are_refused() {
    let cases = [
        ("mappedFileSizeCommitLog=1048577\nmaxMessageSize=4096", "multiple"),
        ("mappedFileSizeCommitLog=1MiB\nmaxMessageSize=1MiB", "mappedFileSizeCommitLog"),
        ("maxConnectionMemory=1MiB", "maxConnectionMemory"),
        ("maxMessageSize=1KiB\nmaxConnectionMemory=256KiB\nmaxTransferBytesOnMessageInMemory=1MiB", "pull"),
        ("shards=3\ncores=0-1", "cores"),
        ("namesrvAddr=a:1\nembeddedNamesrvPort=9876", "remove one"),
        ("embeddedNamesrvPort=off", "find this broker"),
        ("embeddedNamesrvPort=10911", "both 10911"),
        ("brokerPermission=3", "brokerPermission"),
        ("flushIntervalCommitLog=20s", "flushCommitLogThoroughInterval"),
    ];
    for (text, expected) in cases {
        let message = refusal(text);
        assert!(message.contains("contradict") && message.contains(expected), "{text}: {message}");
    }
    loaded("mappedFileSizeCommitLog=1048577\nmaxMessageSize=4096\nbackend=mapped");
    loaded("listenPort=0\nembeddedNamesrvPort=0");
}

#[test]
fn the_largest_message_that_fits_a_segment_is_accepted_and_one_byte_more_is_not() {
    let segment = 1 << 20;
    let most = segment - 65_536 - 8;
    loaded(&format!("mappedFileSizeCommitLog={segment}\nmaxMessageSize={most}"));
    refusal(&format!("mappedFileSizeCommitLog={segment}\nmaxMessageSize={}", most + 1));
}

#[test]
fn clamps_are_applied_and_said() {
    let cases = [("1000", 10, 1), ("10000", 10, 0), ("60000", 60, 0), ("90000", 60, 1)];
    for (asked, used, notes) in cases {
        let loaded = loaded(&format!("registerNameServerPeriod={asked}"));
        assert_eq!(loaded.settings.register_name_server_period, Duration::from_secs(used));
        assert_eq!(loaded.notes.len(), notes, "{asked}");
    }
    let loaded = loaded("mappedFileSizeConsumeQueue=2001");
    assert_eq!(loaded.settings.mapped_file_size_consume_queue, ByteSize(2_020));
    assert!(loaded.notes[0].to_string().contains("2001") && loaded.notes[0].to_string().contains("2020"));
}

#[test]
fn queues_of_automatic_topics_divide_over_the_shards() {
    let settings = Settings::default();
    let per_shard = [1, 2, 3, 8, 64].map(|shards| settings.default_topic_queue_nums_of_shard(shards));
    assert_eq!(per_shard, [8, 4, 3, 1, 1]);
}

#[test]
fn set_without_equals_is_refused() {
    let error = load(&serve(&["--set", "listenPort"])).unwrap_err();
    assert!(error.to_string().contains("key=value"));
}

#[test]
fn a_file_that_is_missing_or_huge_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none.conf");
    let error = load(&serve(&["-c", missing.to_str().unwrap()])).unwrap_err().to_string();
    assert!(error.contains("none.conf"), "{error}");
    let huge = dir.path().join("huge.conf");
    std::fs::File::create(&huge).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
    let error = load(&serve(&["-c", huge.to_str().unwrap()])).unwrap_err().to_string();
    assert!(error.contains("another file"), "{error}");
}

#[test]
fn names_are_listed_once_and_ours_never_shadow_a_different_meaning() {
    let mut names: Vec<&str> = settings::KEYS.iter().map(|key| key.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
    let known: Vec<&str> = known::known_names().collect();
    assert!(known.windows(2).all(|pair| pair[0] < pair[1]), "the binary search needs them sorted");
}

#[test]
fn the_document_of_settings_is_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/settings.md");
    let expected = docs::settings_markdown();
    if std::env::var_os("RINGMQ_WRITE_DOCS").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap();
    assert!(found == expected, "docs/settings.md is stale: run the tests once with RINGMQ_WRITE_DOCS=1");
}
