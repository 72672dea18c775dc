//! What a restarted process finds after a kill and after a power cut.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    rc::Rc,
};

use engine::io::{
    Access, File, Mapping, Runtime, Space,
    script::{InFlightFate, Kind, PowerCut, Rule, ScriptRuntime},
};

use super::{BLOCK, Notes, blocks_of, filled, open, segment, start_write, world, world_with_segment, write};

const SEGMENT: &str = "/store/commitlog/0";

fn after_kill(runtime: &ScriptRuntime) -> Vec<u8> {
    blocks_of(&runtime.disk().kill_image(InFlightFate::Absent), SEGMENT)
}

fn after_cut(runtime: &ScriptRuntime, cut: PowerCut) -> Vec<u8> {
    blocks_of(&runtime.disk().power_cut_image(cut), SEGMENT)
}

/// Everything that `look` sees over many power cuts.
fn outcomes<T: Ord>(runtime: &ScriptRuntime, look: impl Fn(&ScriptRuntime) -> T) -> BTreeSet<T> {
    (0..400).map(|seed| look(&runtime.disk().power_cut_image(PowerCut::seed(seed)))).collect()
}

fn exists(runtime: &ScriptRuntime, path: &str) -> bool {
    runtime.disk().read(path).is_some()
}

#[test]
fn a_completed_write_survives_a_kill_and_a_synced_one_a_power_cut() {
    let runtime = world_with_segment(2);
    let file = segment(&runtime, Access::Direct);
    write(&runtime, &file, 0, 1);
    runtime.block_on(file.sync_data()).unwrap();
    write(&runtime, &file, 1, 2);
    assert_eq!(after_kill(&runtime), [1, 2]);
    assert_eq!(after_cut(&runtime, PowerCut::nothing()), [1, 0]);
    assert_eq!(after_cut(&runtime, PowerCut::everything()), [1, 2]);
    assert_eq!(outcomes(&runtime, |image| image.disk().read(SEGMENT).unwrap()[0]), BTreeSet::from([1]));
}

#[test]
fn a_completed_write_to_a_sync_file_is_durable_and_older_ones_do_not_return() {
    let runtime = world_with_segment(2);
    let lazy = segment(&runtime, Access::Direct);
    runtime.block_on(lazy.write_buffer(filled(&runtime, 2, 1), 0)).unwrap();
    let file = segment(&runtime, Access::DirectSync);
    write(&runtime, &file, 0, 2);
    assert_eq!(after_cut(&runtime, PowerCut::nothing()), [2, 0]);
    assert_eq!(after_cut(&runtime, PowerCut::everything()), [2, 1]);
    let first_blocks = outcomes(&runtime, |image| image.disk().read(SEGMENT).unwrap()[..4096].to_vec());
    assert_eq!(first_blocks, BTreeSet::from([vec![2; 4096]]));
}

#[test]
fn a_sync_covers_the_writes_completed_before_it_and_no_others() {
    let runtime = world_with_segment(3);
    let file = segment(&runtime, Access::Direct);
    let notes = Notes::default();
    write(&runtime, &file, 0, 1);
    let hold_write = runtime.plan().add(Rule::of(Kind::Write).nth(1).hold());
    start_write(&runtime, &file, 1, 2, &notes);
    let hold_sync = runtime.plan().add(Rule::of(Kind::SyncData).hold());
    let syncing = Rc::clone(&file);
    runtime.spawn(async move { syncing.sync_data().await.unwrap() });
    runtime.run_until_idle();
    // Completes after the sync began and before it ends.
    runtime.plan().lift(hold_write);
    runtime.run_until_idle();
    assert_eq!(after_cut(&runtime, PowerCut::nothing()), [0, 0, 0], "a sync in flight promises nothing");
    runtime.plan().lift(hold_sync);
    runtime.run_until_idle();
    assert_eq!(after_cut(&runtime, PowerCut::nothing()), [1, 0, 0]);
    runtime.block_on(file.sync_data()).unwrap();
    assert_eq!(after_cut(&runtime, PowerCut::nothing()), [1, 2, 0]);
}

#[test]
fn a_write_in_flight_is_absent_whole_or_torn_after_a_kill() {
    let runtime = world_with_segment(4);
    let file = segment(&runtime, Access::Direct);
    runtime.plan().add(Rule::of(Kind::Write).hold());
    assert!(runtime.try_block_on(file.write_buffer(filled(&runtime, 4, 1), 0)).is_none());
    let image = |fate| runtime.disk().kill_image(fate).disk().read(SEGMENT).unwrap();
    assert_eq!(image(InFlightFate::Absent), [0; 4 * 4096]);
    assert_eq!(image(InFlightFate::Whole), [1; 4 * 4096]);
    let seen: BTreeSet<Vec<u8>> = (0..50).map(|seed| image(InFlightFate::Seed(seed))).collect();
    assert!(seen.contains(&vec![0; 4 * 4096]) && seen.contains(&vec![1; 4 * 4096]) && seen.len() > 3);
    for bytes in &seen {
        assert!(bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
    }
    assert_eq!(blocks_of(&runtime, SEGMENT), [0; 4], "the world itself goes on unharmed");
}

#[test]
fn a_power_cut_tears_unsynced_writes_at_sectors_in_any_version() {
    let runtime = world_with_segment(1);
    let file = segment(&runtime, Access::Direct);
    write(&runtime, &file, 0, 1);
    write(&runtime, &file, 0, 2);
    for sector_bytes in [512, 4096] {
        let mut versions = BTreeSet::new();
        for seed in 0..200 {
            let cut = PowerCut::seed(seed).sector_bytes(sector_bytes);
            let bytes = runtime.disk().power_cut_image(cut).disk().read(SEGMENT).unwrap();
            for sector in bytes.chunks(usize::try_from(sector_bytes).unwrap()) {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "torn inside a sector");
                versions.insert(sector[0]);
            }
        }
        assert_eq!(versions, BTreeSet::from([0, 1, 2]));
    }
    let torn = outcomes(&runtime, |image| {
        image
            .disk()
            .read(SEGMENT)
            .unwrap()
            .chunks(512)
            .map(|sector| sector[0])
            .collect::<BTreeSet<u8>>()
            .len()
    });
    assert_eq!(torn, BTreeSet::from([1, 2, 3]), "a block may hold sectors of one, two and all versions");
}

#[test]
fn write_n_plus_1_can_be_durable_without_write_n() {
    let runtime = world_with_segment(2);
    let file = segment(&runtime, Access::Direct);
    write(&runtime, &file, 0, 1);
    write(&runtime, &file, 1, 1);
    let kept = outcomes(&runtime, |image| {
        let bytes = image.disk().read(SEGMENT).unwrap();
        [0, 4096].map(|block: usize| bytes[block..block + 4096] == [1; 4096])
    });
    assert_eq!(kept, BTreeSet::from([[false, false], [false, true], [true, false], [true, true]]));
}

#[test]
fn what_a_kill_left_a_later_power_cut_can_still_take() {
    let runtime = world_with_segment(1);
    let file = segment(&runtime, Access::Direct);
    write(&runtime, &file, 0, 1);
    let restarted = runtime.disk().kill_image(InFlightFate::Absent);
    assert_eq!(after_cut(&restarted, PowerCut::nothing()), [0]);
    let file = segment(&restarted, Access::Direct);
    restarted.block_on(file.sync_data()).unwrap();
    assert_eq!(after_cut(&restarted, PowerCut::nothing()), [1]);
}

#[test]
fn a_map_survives_a_kill_and_after_a_sync_a_power_cut() {
    let runtime = world_with_segment(3);
    let mut map = runtime.block_on(runtime.map(Path::new(SEGMENT))).unwrap();
    let file = segment(&runtime, Access::Buffered);
    map.bytes_mut()[..4096].fill(1);
    runtime.block_on(file.sync_data()).unwrap();
    map.bytes_mut()[4096..8192].fill(2);
    assert_eq!(after_kill(&runtime), [1, 2, 0]);
    assert_eq!(after_cut(&runtime, PowerCut::nothing()), [1, 0, 0]);
    assert_eq!(after_cut(&runtime, PowerCut::everything()), [1, 2, 0]);

    // Written while a sync is in flight: not covered by it.
    let hold = runtime.plan().add(Rule::of(Kind::SyncData).hold());
    assert!(runtime.try_block_on(file.sync_data()).is_none());
    map.bytes_mut()[8192..].fill(3);
    runtime.plan().lift(hold);
    runtime.run_until_idle();
    assert_eq!(after_cut(&runtime, PowerCut::nothing()), [1, 2, 0]);
    drop(map);
    assert_eq!(after_cut(&runtime, PowerCut::nothing()), [1, 2, 0], "unmapping syncs nothing");
    assert_eq!(after_kill(&runtime), [1, 2, 3]);
    runtime.block_on(file.sync_data()).unwrap();
    assert_eq!(after_cut(&runtime, PowerCut::nothing()), [1, 2, 3]);
}

#[test]
fn names_are_durable_after_a_sync_of_their_directory() {
    let runtime = world();
    let [directory, other] = ["/store/commitlog", "/store"].map(Path::new);
    runtime.block_on(runtime.create(Path::new(SEGMENT), BLOCK, Space::Allocated)).unwrap();
    runtime.block_on(runtime.sync_directory(other)).unwrap();
    assert_eq!(outcomes(&runtime, |image| exists(image, SEGMENT)), BTreeSet::from([false, true]));
    runtime.block_on(runtime.sync_directory(directory)).unwrap();
    assert_eq!(outcomes(&runtime, |image| exists(image, SEGMENT)), BTreeSet::from([true]));
    runtime.block_on(runtime.remove(Path::new(SEGMENT))).unwrap();
    assert_eq!(outcomes(&runtime, |image| exists(image, SEGMENT)), BTreeSet::from([false, true]));
    runtime.block_on(runtime.sync_directory(directory)).unwrap();
    assert_eq!(outcomes(&runtime, |image| exists(image, SEGMENT)), BTreeSet::from([false]));
}

#[test]
fn a_new_directory_is_durable_after_a_sync_of_the_one_above() {
    let runtime = world();
    let (directory, file) = (Path::new("/store/consumequeue/t"), "/store/consumequeue/t/0");
    runtime.block_on(async {
        runtime.create_directory(directory).await.unwrap();
        runtime.write_file(Path::new(file), vec![1]).await.unwrap();
        runtime.sync_directory(directory).await.unwrap();
        runtime.sync_directory(Path::new("/store")).await.unwrap();
    });
    // `/store/consumequeue` is durable, `t` in it isn't, so neither is anything below.
    let cut = runtime.disk().power_cut_image(PowerCut::nothing());
    assert_eq!(cut.block_on(cut.list(Path::new("/store/consumequeue"))).unwrap(), Some(vec![]));
    assert_eq!(cut.block_on(cut.list(directory)).unwrap(), None);
    runtime.block_on(runtime.sync_directory(Path::new("/store/consumequeue"))).unwrap();
    assert!(exists(&runtime.disk().power_cut_image(PowerCut::nothing()), file));
}

#[test]
fn an_unsynced_replacement_leaves_the_old_file_or_the_new_one() {
    let runtime = world();
    let (new, path) = (Path::new("/store/ringmq/new"), "/store/config/topics.json");
    runtime.disk().put(path, b"old");
    runtime.disk().create_directory("/store/ringmq");
    runtime.block_on(async {
        runtime.write_file(new, b"new".to_vec()).await.unwrap();
        runtime.rename(new, Path::new(path)).await.unwrap();
    });
    let look = |image: &ScriptRuntime| (image.disk().read(path).unwrap(), exists(image, "/store/ringmq/new"));
    let (old, fresh) = (b"old".to_vec(), b"new".to_vec());
    let expected = BTreeSet::from([
        (old.clone(), false),
        (old.clone(), true),
        (fresh.clone(), false),
        (fresh.clone(), true),
    ]);
    assert_eq!(outcomes(&runtime, look), expected);
    runtime.block_on(runtime.sync_directory(Path::new("/store/config"))).unwrap();
    assert_eq!(outcomes(&runtime, |image| look(image).0), BTreeSet::from([fresh]));
}

#[test]
fn a_rename_never_loses_both_names() {
    let runtime = world();
    runtime.disk().put("/store/ringmq/prepared", &[1; 4096]);
    let names = ["/store/ringmq/prepared", SEGMENT];
    runtime.block_on(runtime.rename(Path::new(names[0]), Path::new(names[1]))).unwrap();
    let look = |image: &ScriptRuntime| names.map(|name| exists(image, name));
    let both_possible = BTreeSet::from([[true, false], [true, true], [false, true]]);
    assert_eq!(outcomes(&runtime, look), both_possible);
    let atomic: BTreeSet<_> = (0..100)
        .map(|seed| look(&runtime.disk().power_cut_image(PowerCut::seed(seed).atomic_renames())))
        .collect();
    assert_eq!(atomic, BTreeSet::from([[true, false], [false, true]]));
    // The old name's directory is synced: gone there, so surely there under the new name.
    runtime.block_on(runtime.sync_directory(Path::new("/store/ringmq"))).unwrap();
    assert_eq!(outcomes(&runtime, look), BTreeSet::from([[false, true]]));
}

#[test]
fn what_a_sync_elsewhere_made_durable_is_not_undone_by_an_older_name() {
    let runtime = world();
    runtime.disk().put("/store/ringmq/prepared", &[2; 4096]);
    runtime.block_on(async {
        runtime.write_file(Path::new(SEGMENT), vec![1; 4096]).await.unwrap();
        runtime.rename(Path::new("/store/ringmq/prepared"), Path::new(SEGMENT)).await.unwrap();
        runtime.sync_directory(Path::new("/store/ringmq")).await.unwrap();
    });
    assert_eq!(outcomes(&runtime, |image| blocks_of(image, SEGMENT)), BTreeSet::from([vec![2]]));
    runtime.block_on(runtime.sync_directory(Path::new("/store/commitlog"))).unwrap();
    assert_eq!(after_cut(&runtime, PowerCut::nothing()), [2]);
}

#[test]
fn unsynced_names_happen_independently_but_each_in_order() {
    let runtime = world();
    let [a, b] = ["/store/a", "/store/b"];
    runtime.block_on(async {
        runtime.write_file(Path::new(a), b"1".to_vec()).await.unwrap();
        runtime.remove(Path::new(a)).await.unwrap();
        runtime.write_file(Path::new(a), b"2".to_vec()).await.unwrap();
        runtime.write_file(Path::new(b), b"3".to_vec()).await.unwrap();
    });
    let seen = outcomes(&runtime, |image| (image.disk().read(a), exists(image, b)));
    let versions = [None, Some(b"1".to_vec()), Some(b"2".to_vec())];
    let all = versions.into_iter().flat_map(|version| [(version.clone(), false), (version, true)]);
    assert_eq!(seen, all.collect());
}

#[test]
fn a_hard_link_is_a_second_name_of_the_same_bytes() {
    let runtime = world_with_segment(1);
    let second = "/store/ringmq/0";
    runtime.disk().create_directory("/store/ringmq");
    runtime.block_on(runtime.hard_link(Path::new(SEGMENT), Path::new(second))).unwrap();
    let file = segment(&runtime, Access::Direct);
    write(&runtime, &file, 0, 5);
    let image = runtime.disk().kill_image(InFlightFate::Absent);
    assert_eq!(blocks_of(&image, second), [5]);
    let again = open(&image, second, Access::Direct);
    write(&image, &again, 0, 6);
    assert_eq!(blocks_of(&image, SEGMENT), [6]);
    assert_eq!(blocks_of(&runtime, SEGMENT), [5], "images share nothing with their world");
}

#[test]
fn rewriting_a_file_in_flight_can_leave_it_cut_short() {
    let runtime = world();
    let path = "/store/config/topics.json";
    runtime.disk().put(path, b"old");
    runtime.plan().add(Rule::of(Kind::WriteFile).stop());
    let new = vec![7; 2000];
    assert!(runtime.try_block_on(runtime.write_file(Path::new(path), new.clone())).is_none());
    let killed: BTreeSet<Vec<u8>> = (0..60)
        .map(|seed| runtime.disk().kill_image(InFlightFate::Seed(seed)).disk().read(path).unwrap())
        .collect();
    let cut = outcomes(&runtime, |image| image.disk().read(path).unwrap());
    for seen in [killed, cut] {
        assert!(seen.contains(b"old".as_slice()) && seen.contains(&new));
        assert!(seen.iter().any(|bytes| bytes != b"old" && *bytes != new), "torn");
        assert!(seen.iter().all(|bytes| bytes == b"old" || !bytes.starts_with(b"old")), "never both in one");
    }
}

#[test]
fn an_operation_on_names_in_flight_happened_or_not() {
    let runtime = world();
    runtime.disk().put("/store/a", b"a");
    runtime.plan().add(Rule::of(Kind::Rename).stop());
    assert!(runtime.try_block_on(runtime.rename(Path::new("/store/a"), Path::new("/store/b"))).is_none());
    let look = |image: ScriptRuntime| ["/store/a", "/store/b"].map(|name| exists(&image, name));
    assert_eq!(look(runtime.disk().kill_image(InFlightFate::Absent)), [true, false]);
    assert_eq!(look(runtime.disk().kill_image(InFlightFate::Whole)), [false, true]);
    let cuts = outcomes(&runtime, |image| look(image.clone()));
    assert_eq!(cuts, BTreeSet::from([[true, false], [true, true], [false, true]]));
}

#[test]
fn a_file_in_creation_may_be_shorter_than_asked() {
    let runtime = world();
    runtime.plan().add(Rule::of(Kind::Create).stop());
    assert!(runtime.try_block_on(runtime.create(Path::new(SEGMENT), 8192, Space::Allocated)).is_none());
    let lens: BTreeSet<Option<usize>> = (0..60)
        .map(|seed| runtime.disk().kill_image(InFlightFate::Seed(seed)).disk().read(SEGMENT).map(|b| b.len()))
        .collect();
    assert!(lens.contains(&None) && lens.contains(&Some(8192)));
    assert!(lens.iter().flatten().any(|len| *len < 8192));
}

#[test]
fn a_restarted_process_finds_the_lock_free_and_time_gone_on() {
    let runtime = world();
    let lock = runtime.block_on(runtime.lock(Path::new("/store/lock"))).unwrap();
    runtime.advance(std::time::Duration::from_millis(1234));
    for image in [
        runtime.disk().kill_image(InFlightFate::Absent),
        runtime.disk().power_cut_image(PowerCut::everything()),
    ] {
        image.block_on(image.lock(Path::new("/store/lock"))).unwrap();
        assert_eq!(image.wall_clock_ms(), runtime.wall_clock_ms());
        assert_eq!(image.now(), runtime.now());
        assert_eq!(image.plan().submitted(), 1, "a fresh world");
    }
    drop(lock);
}

#[test]
fn the_same_choice_gives_the_same_image() {
    let runtime = world_with_segment(8);
    let file = segment(&runtime, Access::Direct);
    for index in 0..8 {
        write(&runtime, &file, index, 1);
    }
    let image = |seed| runtime.disk().power_cut_image(PowerCut::seed(seed)).disk().files();
    assert!((0..50).all(|seed| image(seed) == image(seed)));
    let distinct: BTreeSet<BTreeMap<PathBuf, Vec<u8>>> = (0..50).map(image).collect();
    assert!(distinct.len() > 10);
}

/// The tests of the engine will look like this one: a tiny store that saves a counter by replacing a file, crashed at
/// every operation, in every way, must be found with a value that was acknowledged last or is newer.
#[test]
fn a_crash_at_every_operation_loses_nothing_of_a_careful_program() {
    let operations = save_ten(true, u64::MAX).1;
    assert!(operations > 30);
    for stop_at in 1..=operations {
        let (losses, _) = save_ten(true, stop_at);
        assert_eq!(losses, 0, "stopped at {stop_at}");
    }
    let careless: usize = (1..=operations).map(|stop_at| save_ten(false, stop_at).0).sum();
    assert!(careless > 0, "a missing directory sync shows");
}

/// Saves 1 to 10, stopping at an operation; counts the images that are behind what was acknowledged.
fn save_ten(careful: bool, stop_at: u64) -> (usize, u64) {
    let runtime = world();
    let (path, fresh) = (Path::new("/store/counter"), Path::new("/store/counter.tmp"));
    runtime.disk().put(path, b"0");
    if stop_at != u64::MAX {
        runtime.plan().stop_at(stop_at);
    }
    let acknowledged = Notes::default();
    let (world, notes) = (runtime.clone(), Rc::clone(&acknowledged));
    runtime.spawn(async move {
        for value in 1..=10_u8 {
            world.write_file(fresh, value.to_string().into_bytes()).await.unwrap();
            world.rename(fresh, path).await.unwrap();
            if careful {
                world.sync_directory(Path::new("/store")).await.unwrap();
            }
            world.list(Path::new("/store")).await.unwrap();
            notes.borrow_mut().push(value);
        }
    });
    runtime.run_until_idle();
    let last = acknowledged.borrow().last().copied().unwrap_or(0);
    let images = (0..20).flat_map(|seed| {
        let disk = runtime.disk();
        [disk.kill_image(InFlightFate::Seed(seed)), disk.power_cut_image(PowerCut::seed(seed))]
    });
    let value = |image: ScriptRuntime| -> u8 {
        String::from_utf8(image.disk().read(path).expect("never gone")).unwrap().parse().expect("never torn")
    };
    let losses = images.filter(|image| value(image.clone()) < last).count();
    let operations = runtime.plan().submitted();
    runtime.end();
    (losses, operations)
}
