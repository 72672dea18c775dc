//! Holding, delaying, failing, shortening and stopping operations.

use std::{cell::Cell, path::Path, rc::Rc, time::Duration};

use engine::io::{
    Access, File, Runtime, Space,
    script::{Dirty, EIO, ENOSPC, Kind, PowerCut, Rule, ScriptRuntime},
};

use super::{BLOCK, Notes, blocks_of, filled, open, segment, start_write, world, world_with_segment, write};

#[test]
fn held_operations_complete_in_the_order_of_their_release() {
    let runtime = world_with_segment(4);
    let file = segment(&runtime, Access::Direct);
    runtime.plan().add(Rule::of(Kind::Write).under("commitlog").hold());
    let notes = Notes::default();
    for index in 0..3 {
        start_write(&runtime, &file, index, 10 + u8::try_from(index).unwrap(), &notes);
    }
    runtime.run_until_idle();
    let held = runtime.plan().held();
    assert_eq!(held.iter().map(|write| write.position).collect::<Vec<_>>(), [0, BLOCK, 2 * BLOCK]);
    assert_eq!(blocks_of(&runtime, "/store/commitlog/0"), [0, 0, 0, 0], "a held write has not happened");
    for write in held.iter().rev() {
        runtime.plan().release(write.sequence);
        runtime.run_until_idle();
    }
    assert_eq!(*notes.borrow(), [12, 11, 10]);
    assert_eq!(blocks_of(&runtime, "/store/commitlog/0"), [10, 11, 12, 0]);
}

#[test]
fn lifting_a_rule_releases_what_it_holds_and_no_more() {
    let runtime = world_with_segment(2);
    let file = segment(&runtime, Access::Direct);
    let writes = runtime.plan().add(Rule::of(Kind::Write).hold());
    let syncs = runtime.plan().add(Rule::of(Kind::SyncData).hold());
    let notes = Notes::default();
    start_write(&runtime, &file, 0, 1, &notes);
    let syncing = Rc::clone(&file);
    runtime.spawn(async move { syncing.sync_data().await.unwrap() });
    runtime.run_until_idle();
    runtime.plan().lift(writes);
    start_write(&runtime, &file, 1, 2, &notes);
    runtime.run_until_idle();
    assert_eq!(*notes.borrow(), [1, 2]);
    assert_eq!(runtime.plan().held().iter().map(|held| held.kind).collect::<Vec<_>>(), [Kind::SyncData]);
    runtime.plan().remove(syncs);
    runtime.plan().release_all();
    runtime.run_until_idle();
    assert_eq!(runtime.plan().in_flight(), []);
}

#[test]
fn a_delayed_operation_takes_virtual_time() {
    let runtime = world_with_segment(1);
    let file = segment(&runtime, Access::Direct);
    runtime.plan().add(Rule::of(Kind::SyncData).delay(Duration::from_millis(3)));
    write(&runtime, &file, 0, 1);
    assert_eq!(runtime.elapsed(), Duration::ZERO);
    runtime.block_on(file.sync_data()).unwrap();
    assert_eq!(runtime.elapsed(), Duration::from_millis(3));
}

#[test]
fn the_kth_matching_operation_fails_and_changes_nothing() {
    let runtime = world_with_segment(3);
    let file = segment(&runtime, Access::Direct);
    runtime.plan().add(Rule::of(Kind::Write).nth(2).fail(EIO));
    write(&runtime, &file, 0, 1);
    let failed = runtime.block_on(file.write_buffer(filled(&runtime, 1, 2), BLOCK));
    assert_eq!(failed.unwrap_err().raw_os_error(), Some(EIO));
    write(&runtime, &file, 2, 3);
    assert_eq!(blocks_of(&runtime, "/store/commitlog/0"), [1, 0, 3]);
}

#[test]
fn an_operation_can_fail_and_yet_have_happened() {
    let runtime = world();
    runtime.disk().put("/store/a", b"a");
    runtime.plan().add(Rule::of(Kind::Rename).fail_though_done(EIO));
    let failed = runtime.block_on(runtime.rename(Path::new("/store/a"), Path::new("/store/b")));
    assert_eq!(failed.unwrap_err().raw_os_error(), Some(EIO));
    assert_eq!(runtime.disk().read("/store/b"), Some(b"a".to_vec()));
}

#[test]
fn every_kind_of_operation_can_fail() {
    let runtime = world_with_segment(1);
    runtime.disk().put("/store/config/topics.json", b"{}");
    runtime.plan().add(Rule::on(|_| true).fail(ENOSPC));
    let (path, other) = (Path::new("/store/config/topics.json"), Path::new("/store/config/new"));
    let all_fail = async {
        let errors = [
            runtime.open(path, Access::Buffered).await.err(),
            runtime.create(other, 1, Space::Sparse).await.err(),
            runtime.write_file(other, vec![1]).await.err(),
            runtime.read_file(path).await.err(),
            runtime.rename(path, other).await.err(),
            runtime.hard_link(path, other).await.err(),
            runtime.remove(path).await.err(),
            runtime.create_directory(Path::new("/store/a/b")).await.err(),
            runtime.list(Path::new("/store")).await.err(),
            runtime.sync_directory(Path::new("/store")).await.err(),
            runtime.lock(other).await.err(),
            runtime.map(path).await.err(),
            runtime.disk_space(path).await.err(),
        ];
        errors.map(|error| error.expect("it fails").raw_os_error())
    };
    let before = runtime.disk().files();
    assert_eq!(runtime.block_on(all_fail), [Some(ENOSPC); 13]);
    assert_eq!(runtime.disk().files(), before);
}

#[test]
fn a_failed_sync_drops_or_keeps_what_it_was_to_make_durable() {
    for (dirty, after) in [(Dirty::Dropped, 0), (Dirty::Kept, 1)] {
        let runtime = world_with_segment(1);
        let file = segment(&runtime, Access::Direct);
        runtime.plan().add(Rule::of(Kind::SyncData).nth(1).fail_sync(EIO, dirty));
        write(&runtime, &file, 0, 1);
        runtime.block_on(file.sync_data()).unwrap_err();
        // The next sync "succeeds", whatever it has made durable.
        runtime.block_on(file.sync_data()).unwrap();
        assert_eq!(blocks_of(&runtime, "/store/commitlog/0"), [1], "the process still sees it");
        let image = runtime.disk().power_cut_image(PowerCut::everything());
        assert_eq!(blocks_of(&image, "/store/commitlog/0"), [after], "{dirty:?}");
    }
}

#[test]
fn a_failed_directory_sync_can_lose_the_name() {
    let runtime = world();
    runtime.plan().add(Rule::of(Kind::SyncDirectory).nth(1).fail_sync(EIO, Dirty::Dropped));
    runtime.block_on(async {
        runtime.write_file(Path::new("/store/abort"), vec![]).await.unwrap();
        runtime.sync_directory(Path::new("/store")).await.unwrap_err();
        runtime.sync_directory(Path::new("/store")).await.unwrap();
    });
    assert!(runtime.disk().read("/store/abort").is_some());
    assert_eq!(runtime.disk().power_cut_image(PowerCut::everything()).disk().read("/store/abort"), None);
}

#[test]
fn a_shortened_write_says_how_much_it_wrote() {
    let runtime = world_with_segment(4);
    let file = segment(&runtime, Access::Direct);
    runtime.plan().add(Rule::of(Kind::Write).nth(1).shorten(8192));
    let written = runtime.block_on(file.write_buffer(filled(&runtime, 4, 9), 0)).unwrap();
    assert_eq!(written, 8192);
    assert_eq!(blocks_of(&runtime, "/store/commitlog/0"), [9, 9, 0, 0]);
}

#[test]
fn a_buffered_write_goes_on_after_a_short_one() {
    let runtime = world();
    runtime.disk().put("/store/consumequeue/t/0/0", &[0; 6000]);
    let file = open(&runtime, "/store/consumequeue/t/0/0", Access::Buffered);
    runtime.plan().add(Rule::of(Kind::Write).nth(1).shorten(100));
    runtime.block_on(file.write_bytes(vec![5; 500], 10)).unwrap();
    let expected = [vec![0; 10], vec![5; 500], vec![0; 5490]].concat();
    assert_eq!(runtime.disk().read("/store/consumequeue/t/0/0"), Some(expected));
    assert_eq!(runtime.plan().done(Kind::Write), 2);
}

#[test]
fn a_stopped_world_completes_nothing_and_runs_nothing() {
    let runtime = world_with_segment(3);
    let file = segment(&runtime, Access::Direct);
    let notes = Notes::default();
    runtime.plan().stop_at(runtime.plan().submitted() + 2);
    let polled = Rc::new(Cell::new(0));
    for index in 0..3 {
        start_write(&runtime, &file, index, 7, &notes);
    }
    let (world, count) = (runtime.clone(), Rc::clone(&polled));
    runtime.spawn(async move {
        world.sleep(Duration::from_millis(1)).await;
        count.set(1);
    });
    assert!(runtime.try_block_on(file.sync_data()).is_none());
    runtime.advance(Duration::from_secs(1));
    assert!(runtime.plan().is_stopped());
    assert_eq!(*notes.borrow(), [0; 0]);
    assert_eq!(polled.get(), 0);
    assert_eq!(blocks_of(&runtime, "/store/commitlog/0"), [0, 0, 0]);
    assert_eq!(runtime.plan().in_flight().len(), 2, "the third was never submitted");
}

#[test]
fn a_rule_can_stop_the_world_at_a_named_operation() {
    let runtime = world();
    runtime.plan().add(Rule::of(Kind::Rename).under("config").stop());
    runtime.disk().put("/store/ringmq/1", b"new");
    runtime.disk().put("/store/config/topics.json", b"old");
    let source = Path::new("/store/ringmq/1");
    assert!(runtime.try_block_on(runtime.rename(source, Path::new("/store/config/topics.json"))).is_none());
    assert_eq!(runtime.plan().in_flight()[0].kind, Kind::Rename);
}

#[test]
fn the_log_tells_what_was_done_and_how_it_ended() {
    let runtime = world_with_segment(2);
    let file = segment(&runtime, Access::Direct);
    runtime.plan().add(Rule::of(Kind::SyncData).fail(EIO));
    write(&runtime, &file, 1, 1);
    runtime.block_on(file.sync_data()).unwrap_err();
    let log = runtime.plan().log();
    let [.., written, synced] = &log[..] else { panic!("two operations and more") };
    assert_eq!(
        (written.operation.kind, written.operation.position, written.operation.len),
        (Kind::Write, BLOCK, BLOCK)
    );
    assert_eq!(written.operation.path, Path::new("/store/commitlog/0"));
    assert_eq!(written.result, Ok(()));
    assert_eq!(synced.operation.sequence, written.operation.sequence + 1);
    assert_eq!(synced.result, Err(EIO));
}

#[test]
fn an_operation_on_an_open_file_bears_its_present_name() {
    let runtime = world();
    runtime.disk().put("/store/ringmq/prepared", &[0; 4096]);
    let file = open(&runtime, "/store/ringmq/prepared", Access::Direct);
    let (source, target) = (Path::new("/store/ringmq/prepared"), Path::new("/store/commitlog/0"));
    runtime.block_on(runtime.rename(source, target)).unwrap();
    write(&runtime, &file, 0, 3);
    assert_eq!(runtime.plan().log().last().unwrap().operation.path, target);
}

#[test]
fn an_operation_happens_though_nobody_waits_for_it_any_more() {
    let runtime = world_with_segment(1);
    let file = segment(&runtime, Access::Direct);
    let hold = runtime.plan().add(Rule::of(Kind::Write).hold());
    let buffer = filled(&runtime, 1, 4);
    assert!(runtime.try_block_on(file.write_buffer(Rc::clone(&buffer), 0)).is_none(), "dropped here");
    assert_eq!(Rc::strong_count(&buffer), 2, "the runtime owns the buffer until completion");
    runtime.plan().lift(hold);
    runtime.run_until_idle();
    assert_eq!(Rc::strong_count(&buffer), 1);
    assert_eq!(blocks_of(&runtime, "/store/commitlog/0"), [4]);
}

#[test]
fn shuffled_completions_come_in_any_order() {
    let orders: Vec<Vec<u8>> = (0..20)
        .map(|seed| {
            let runtime = ScriptRuntime::new(seed);
            runtime.disk().put("/store/commitlog/0", &[0; 4 * 4096]);
            let file = segment(&runtime, Access::Direct);
            let notes = Notes::default();
            runtime.set_shuffled(true);
            for index in 0..4 {
                start_write(&runtime, &file, index, u8::try_from(index).unwrap(), &notes);
            }
            runtime.run_until_idle();
            notes.take()
        })
        .collect();
    assert!(orders.iter().any(|order| *order != orders[0]));
    assert!(orders.iter().all(|order| order.len() == 4));
}
