//! A crash at every operation: kill -9 and power cut while messages are appended, files rolled, groups flushed, queues
//! and small files written, the store stopped, and while it is opened again.

use std::{
    cell::{Cell, RefCell},
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

use engine::{
    commit_log::Backend,
    io::{
        Runtime,
        script::{InFlightFate, PowerCut, ScriptRuntime},
    },
    metadata::{self, Generation, MetadataWriter},
    store::StoreSettings,
    write::flush::FlushMode,
};

use crate::{
    oracle::{Crash, Journal, judge},
    rig::{ASYNC_DIRECT, ASYNC_MAPPED, DSYNC, FDATASYNC, MAPPED, ROOT, Rig, settings},
};

/// Small files: a few messages fill a segment.
fn small(way: (Backend, FlushMode)) -> StoreSettings {
    StoreSettings { segment_bytes: 8192, ..settings(way) }
}

/// A stream of numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn len(&mut self) -> usize {
        // Mostly small ones, several to a block; a few over several blocks.
        let most = if self.below(4) == 0 { 2600 } else { 400 };
        usize::try_from(self.below(most)).unwrap() + 1
    }
}

/// What a process leaves behind besides its disk.
struct Left {
    journal: Rc<RefCell<Journal>>,
    small_file: SmallFile,
}

impl Left {
    fn new() -> Left {
        Left { journal: Rc::default(), small_file: SmallFile::default() }
    }
}

/// `topics.json`, with a count as its text.
#[derive(Clone, Default)]
struct SmallFile {
    count: Rc<Cell<u64>>,
    requests: Rc<RefCell<Vec<(Generation, u64)>>>,
    writer: Rc<RefCell<MetadataWriter>>,
}

impl SmallFile {
    fn path() -> PathBuf {
        Path::new(ROOT).join("config/topics.json")
    }

    /// The least count that must be read after a crash.
    fn durable(&self) -> u64 {
        let requests = self.requests.borrow();
        let Some(_) = requests.first() else { return 0 };
        let writer = self.writer.borrow();
        let durable = writer.durable_generation(Self::only(&writer));
        requests
            .iter()
            .filter(|(generation, _)| *generation <= durable)
            .map(|(_, count)| *count)
            .max()
            .unwrap_or(0)
    }

    fn only(_writer: &MetadataWriter) -> metadata::MetadataFile {
        // Files are numbered in the order in which they are added, whatever the writer.
        MetadataWriter::new().add(Self::path())
    }

    fn start(&self, runtime: &ScriptRuntime) {
        self.writer.borrow_mut().add(Self::path());
        let count = Rc::clone(&self.count);
        runtime.spawn(metadata::run(runtime.clone(), Rc::clone(&self.writer), move |_| {
            count.get().to_string().into_bytes()
        }));
    }

    fn change(&self) {
        self.count.set(self.count.get() + 1);
        let mut writer = self.writer.borrow_mut();
        let file = Self::only(&writer);
        self.requests.borrow_mut().push((writer.request(file), self.count.get()));
    }
}

/// A whole life on an empty disk: opened, used, stopped.
async fn life(runtime: ScriptRuntime, settings: StoreSettings, left: &Left, seed: u64) {
    let rig = Rig::open(runtime.clone(), settings, Rc::clone(&left.journal)).await.unwrap();
    left.small_file.start(&runtime);
    let mut dice = Dice(seed);
    for _ in 0..16 {
        send_something(&rig, &mut dice).await;
        match dice.below(5) {
            0 => rig.all_answered().await,
            1 => left.small_file.change(),
            2 => runtime.sleep(Duration::from_millis(dice.below(1500))).await,
            _ => {}
        }
    }
    rig.all_answered().await;
    runtime.sleep(Duration::from_millis(dice.below(1500))).await;
    left.small_file.writer.borrow_mut().stop();
    rig.store.stop().await.unwrap();
}

async fn send_something(rig: &Rig, dice: &mut Dice) {
    let topic = if dice.below(3) == 0 { "TopicB" } else { "TopicA" };
    let queue_id = u32::try_from(dice.below(2)).unwrap();
    let count = if dice.below(5) == 0 { 3 } else { 1 };
    let lens: Vec<usize> = (0..count).map(|_| dice.len() / count + 1).collect();
    rig.send_patiently(topic, queue_id, &lens).await.unwrap();
}

/// The worlds that a crash now may leave.
fn images(runtime: &ScriptRuntime, seed: u64) -> Vec<(Crash, &'static str, ScriptRuntime)> {
    let disk = runtime.disk();
    let kill = |how, fate| (Crash::Kill, how, disk.kill_image(fate));
    let cut = |how, cut| (Crash::PowerCut, how, disk.power_cut_image(cut));
    vec![
        kill("kill, nothing in flight lands", InFlightFate::Absent),
        kill("kill, all in flight lands", InFlightFate::Whole),
        kill("kill, parts land", InFlightFate::Seed(seed)),
        cut("power cut, only what is durable", PowerCut::nothing()),
        cut("power cut, everything", PowerCut::everything()),
        cut("power cut, torn at 512", PowerCut::seed(seed).sector_bytes(512)),
        cut("power cut, torn at 4096", PowerCut::seed(!seed).sector_bytes(4096)),
    ]
}

/// A second life on what the first one left: judged when opened, used a little, stopped, judged again.
fn second_life(image: &ScriptRuntime, settings: &StoreSettings, left: &Left) {
    let journal = Rc::clone(&left.journal);
    let rig = Rig::reopen(image, settings.clone(), &journal);
    image.block_on(async {
        judge(&rig).await;
        let found = metadata::load(image, &SmallFile::path(), parse_count).await.unwrap().unwrap_or(0);
        let (least, most) = (left.small_file.durable(), left.small_file.count.get());
        assert!((least..=most).contains(&found), "topics.json says {found}, not {least} to {most}");
        for len in [10, 900] {
            rig.send_patiently("TopicA", 0, &[len]).await.unwrap();
        }
        rig.all_answered().await;
    });
    let next = rig.stop().unwrap();
    journal.borrow_mut().on_clean_stop();
    let rig = Rig::reopen(&next, settings.clone(), &journal);
    assert_eq!(rig.store.recovered.unclean_bytes, 0);
    assert!(!rig.store.recovered.killed && !rig.store.recovered.queues_rebuilt);
    next.block_on(judge(&rig));
    next.end();
}

fn parse_count(text: &[u8]) -> Result<u64, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    text.parse().map_err(|error| format!("{error}: {text:?}"))
}

/// Runs `test`, and says where it was when it panics.
fn at_place(what: &str, test: impl FnOnce()) {
    struct Place<'a>(&'a str);
    impl Drop for Place<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("the test that failed was at: {}", self.0);
            }
        }
    }
    let _place = Place(what);
    test();
}

/// A crash at each operation of a life.
fn check_every_operation(way: (Backend, FlushMode), seed: u64) {
    let settings = small(way);
    let mut kept = 0;
    for number in 1.. {
        let runtime = ScriptRuntime::new(seed);
        let left = Left::new();
        runtime.plan().stop_at(number);
        let finished = runtime.try_block_on(life(runtime.clone(), settings.clone(), &left, seed)).is_some();
        let number_sent = left.journal.borrow().sent.len();
        for (crash, how, image) in images(&runtime, seed ^ number) {
            let left = Left {
                journal: Rc::new(RefCell::new(left.journal.borrow().fork())),
                small_file: left.small_file.clone(),
            };
            if finished {
                left.journal.borrow_mut().on_clean_stop();
            } else {
                left.journal.borrow_mut().on_crash(crash);
            }
            kept = left.journal.borrow().kept_count().max(kept);
            let what = format!("{way:?}, seed {seed}, operation {number}, {number_sent} sent, {how}");
            at_place(&what, || second_life(&image, &settings, &left));
        }
        runtime.end();
        if finished {
            assert!(number > 60, "a life has more than {number} operations");
            assert!(kept > 12, "most messages were promised");
            return;
        }
    }
}

#[test]
fn a_crash_at_any_operation_loses_nothing_that_fdatasync_promised() {
    check_every_operation(FDATASYNC, 1);
}

#[test]
fn a_crash_at_any_operation_loses_nothing_that_dsync_promised() {
    check_every_operation(DSYNC, 2);
}

#[test]
fn a_crash_at_any_operation_loses_nothing_that_a_mapped_log_promised() {
    check_every_operation(MAPPED, 3);
}

#[test]
fn a_crash_at_any_operation_of_async_flush_loses_only_what_was_not_written() {
    check_every_operation(ASYNC_DIRECT, 4);
}

#[test]
fn a_crash_at_any_operation_of_async_flush_on_a_map_loses_only_what_was_not_synced() {
    check_every_operation(ASYNC_MAPPED, 5);
}
