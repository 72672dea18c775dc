//! A crash at every operation: kill -9 and power cut while messages are appended, files rolled, groups flushed, queues
//! and small files written, the store stopped, and while it is opened again.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

use engine::{
    commit_log::Backend,
    io::{
        Runtime,
        script::{InFlightFate, Kind, PowerCut, ScriptRuntime},
    },
    metadata::{self, Generation, MetadataWriter},
    store::StoreSettings,
    write::flush::FlushMode,
};

use crate::{
    oracle::{Crash, Journal, judge, judge_checkpoint},
    rig::{ASYNC_DIRECT, ASYNC_MAPPED, DSYNC, FDATASYNC, MAPPED, ROOT, Rig, on_log, settings},
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
    /// Messages that are durable, as the checkpoint of a first life says.
    claimed: BTreeSet<usize>,
}

impl Left {
    fn new() -> Left {
        Left { journal: Rc::default(), small_file: SmallFile::default(), claimed: BTreeSet::new() }
    }

    fn fork(&self) -> Left {
        let journal = Rc::new(RefCell::new(self.journal.borrow().fork()));
        Left { journal, small_file: self.small_file.clone(), claimed: BTreeSet::new() }
    }

    /// What must be there when the life has ended so.
    fn after(&self, finished: bool, crash: Crash) -> Left {
        let left = self.fork();
        match finished {
            true => left.journal.borrow_mut().on_clean_stop(),
            false => left.journal.borrow_mut().on_crash(crash),
        }
        left
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

/// A second life on what the first one left: judged when opened, then, if `used`, a little more is sent, the store
/// is stopped and judged again.
fn second_life(image: &ScriptRuntime, settings: &StoreSettings, left: &Left, used: bool) {
    let journal = Rc::clone(&left.journal);
    let rig = Rig::reopen(image, settings.clone(), &journal);
    image.block_on(async {
        let present = judge(&rig).await;
        let claimed = &left.claimed;
        assert!(claimed.is_subset(&present), "the checkpoint claims {claimed:?}, there are {present:?}");
        let found = metadata::load(image, &SmallFile::path(), parse_count).await.unwrap().unwrap_or(0);
        let (least, most) = (left.small_file.durable(), left.small_file.count.get());
        assert!((least..=most).contains(&found), "topics.json says {found}, not {least} to {most}");
    });
    if used {
        use_and_stop(rig, settings);
    } else {
        image.end();
    }
}

fn use_and_stop(rig: Rig, settings: &StoreSettings) {
    let journal = Rc::clone(&rig.journal);
    rig.runtime.block_on(async {
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

/// How a life goes.
#[derive(Clone, Copy, Debug)]
struct Course {
    way: (Backend, FlushMode),
    seed: u64,
    /// Syncs take so long that several groups are written meanwhile.
    slow_sync: bool,
    /// What is ready at one time runs in any order.
    shuffled: bool,
}

impl Course {
    /// A life that ends at operation `number` at the latest: the world then, and whether it had ended before.
    fn live(self, number: u64, settings: &StoreSettings) -> (ScriptRuntime, Left, bool) {
        let runtime = ScriptRuntime::new(self.seed);
        runtime.set_shuffled(self.shuffled);
        if self.slow_sync {
            runtime.plan().add(on_log(Kind::SyncData).delay(Duration::from_millis(40)));
        }
        let left = Left::new();
        runtime.plan().stop_at(number);
        let finished =
            runtime.try_block_on(life(runtime.clone(), settings.clone(), &left, self.seed)).is_some();
        (runtime, left, finished)
    }
}

/// A crash at each operation of a life.
fn check_life(course: Course) {
    let settings = small(course.way);
    let mut kept = 0;
    for number in 1.. {
        let (runtime, left, finished) = course.live(number, &settings);
        for (kind, (crash, how, image)) in (0..).zip(images(&runtime, course.seed ^ number)) {
            let mut left = left.after(finished, crash);
            left.claimed = judge_checkpoint(&image, &left.journal.borrow());
            kept = left.journal.borrow().kept_count().max(kept);
            let what = format!("{course:?}, operation {number}, {how}");
            let used = (number + kind) % 3 == 0;
            at_place(&what, || second_life(&image, &settings, &left, used));
        }
        runtime.end();
        if finished {
            assert!(number > 60, "a life has more than {number} operations");
            assert!(kept > 12, "most messages were promised");
            return;
        }
    }
}

/// A crash at each operation of the opening after a crash, for some crashes.
fn check_openings(course: Course) {
    let settings = small(course.way);
    for number in (5..).step_by(17) {
        let (runtime, left, finished) = course.live(number, &settings);
        if finished {
            assert!(number > 60, "a life has more than {number} operations");
            return;
        }
        let mut first_images = images(&runtime, course.seed ^ number);
        let pick = usize::try_from(number).unwrap() % first_images.len();
        let (first_crash, first_how, first_image) = first_images.swap_remove(pick);
        let (first_left, harder) = (left.after(false, first_crash), left.after(false, Crash::PowerCut));
        for opening in 1.. {
            let world = first_image.disk().kill_image(InFlightFate::Absent);
            let left = first_left.fork();
            world.plan().stop_at(opening);
            let open = Rig::open(world.clone(), settings.clone(), Rc::clone(&left.journal));
            let what = format!("{course:?}, operation {number}, {first_how}, opening at {opening}");
            let opened = world.try_block_on(open);
            if let Some(Err(error)) = &opened {
                panic!("{what}: {error}");
            }
            for (kind, (crash, how, image)) in (0..).zip(images(&world, course.seed ^ number ^ opening)) {
                // What a kill left may still be in memory only until the opening is done.
                let lost_power = opened.is_none() && crash == Crash::PowerCut;
                let left = if lost_power { harder.fork() } else { left.after(false, crash) };
                let used = (opening + kind) % 5 == 0;
                at_place(&format!("{what}, {how}"), || second_life(&image, &settings, &left, used));
            }
            world.end();
            if opened.is_some() {
                assert!(opening > 15, "an opening has more than {opening} operations");
                break;
            }
        }
        runtime.end();
    }
}

/// A test for each way to flush.
macro_rules! for_each_way {
    ($check:ident, $courses:expr, $($name:ident = $way:expr, $seed:literal;)+) => {$(
        #[test]
        fn $name() {
            for (more, slow_sync, shuffled) in $courses {
                $check(Course { way: $way, seed: $seed + more, slow_sync, shuffled });
            }
        }
    )+};
}

for_each_way! { check_life, [(0, false, false), (100, true, false), (200, true, true)],
    a_crash_at_any_operation_loses_nothing_that_fdatasync_promised = FDATASYNC, 1;
    a_crash_at_any_operation_loses_nothing_that_dsync_promised = DSYNC, 2;
    a_crash_at_any_operation_loses_nothing_that_a_mapped_log_promised = MAPPED, 3;
    a_crash_at_any_operation_of_async_flush_loses_only_what_was_not_written_or_synced = ASYNC_DIRECT, 4;
    a_crash_at_any_operation_of_async_flush_on_a_map_loses_only_what_was_not_synced = ASYNC_MAPPED, 5;
}

for_each_way! { check_openings, [(0, true, false)],
    a_crash_at_any_operation_of_an_opening_loses_nothing_that_fdatasync_promised = FDATASYNC, 11;
    a_crash_at_any_operation_of_an_opening_loses_nothing_that_dsync_promised = DSYNC, 12;
    a_crash_at_any_operation_of_an_opening_loses_nothing_that_a_mapped_log_promised = MAPPED, 13;
    a_crash_at_any_operation_of_an_opening_loses_nothing_of_async_flush = ASYNC_DIRECT, 14;
    a_crash_at_any_operation_of_an_opening_loses_nothing_of_async_flush_on_a_map = ASYNC_MAPPED, 15;
}
