//! Small files: complete at every instant, read back by RocketMQ's rules.

use std::{cell::RefCell, path::Path, rc::Rc};

use engine::{
    error::StoreError,
    io::{
        Runtime,
        script::{ENOSPC, InFlightFate, Kind, PowerCut, Rule, ScriptRuntime},
    },
    metadata::{self, MetadataWriter},
};

const PATH: &str = "/store/config/topics.json";

/// Texts of the test: a generation between brackets.
fn text(generation: u64) -> Vec<u8> {
    format!("[{generation}]").into_bytes()
}

fn parse(bytes: &[u8]) -> Result<u64, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.and_then(|inner| inner.parse().ok()).ok_or_else(|| format!("\"{text}\" is no generation"))
}

fn world() -> ScriptRuntime {
    let runtime = ScriptRuntime::new(3);
    runtime.disk().create_directory("/store/config");
    runtime
}

fn load(runtime: &ScriptRuntime) -> Result<Option<u64>, StoreError> {
    runtime.block_on(metadata::load(runtime, Path::new(PATH), parse))
}

#[test]
fn a_replaced_file_has_the_text_before_as_its_backup() {
    let runtime = world();
    for generation in 1..4 {
        runtime.block_on(metadata::replace(&runtime, Path::new(PATH), text(generation))).unwrap();
        let durable = runtime.disk().durable_files();
        assert_eq!(durable[Path::new(PATH)], text(generation));
        let backup = durable.get(Path::new("/store/config/topics.json.bak"));
        assert_eq!(backup, (generation > 1).then(|| text(generation - 1)).as_ref());
        assert_eq!(durable.len(), 1 + usize::from(generation > 1), "nothing else is left");
    }
}

#[test]
fn a_crash_at_any_operation_leaves_the_old_text_or_the_new_one() {
    for number in 1.. {
        let runtime = world();
        runtime.plan().stop_at(number);
        let done = Rc::new(RefCell::new(0));
        let finished = runtime.try_block_on(async {
            for generation in 1..5 {
                metadata::replace(&runtime, Path::new(PATH), text(generation)).await.unwrap();
                *done.borrow_mut() = generation;
            }
        });
        let done = *done.borrow();
        let mut images = vec![
            runtime.disk().kill_image(InFlightFate::Absent),
            runtime.disk().kill_image(InFlightFate::Whole),
            runtime.disk().power_cut_image(PowerCut::nothing()),
            runtime.disk().power_cut_image(PowerCut::everything()),
        ];
        images.extend((0..8).map(|seed| runtime.disk().power_cut_image(PowerCut::seed(seed))));
        images.extend((0..4).map(|seed| runtime.disk().kill_image(InFlightFate::Seed(seed))));
        for image in images {
            // Asked before it is loaded, which would put it right.
            let is_there = image.disk().read(PATH).is_some();
            assert!(is_there || done == 0, "operation {number}: the file is always there");
            let found = load(&image).unwrap().unwrap_or(0);
            assert!(found == done || found == done + 1, "operation {number}: {found} after {done}");
            // The file itself is complete; a backup that is there is an earlier text.
            if let Some(bytes) = image.disk().read(PATH) {
                assert_eq!(parse(&bytes), Ok(found), "operation {number}");
            }
            if let Some(backup) = image.disk().read("/store/config/topics.json.bak") {
                assert!(parse(&backup).unwrap() <= found, "operation {number}");
            }
            // It goes on from there.
            image.block_on(metadata::replace(&image, Path::new(PATH), text(9))).unwrap();
            assert_eq!(load(&image).unwrap(), Some(9), "operation {number}");
        }
        runtime.end();
        if finished.is_some() {
            assert!(number > 12, "four replacements are more than {number} operations");
            return;
        }
    }
}

#[test]
fn a_file_system_without_hard_links_gets_a_copied_backup() {
    let runtime = world();
    runtime.plan().add(Rule::of(Kind::HardLink).fail(95));
    runtime.disk().put(PATH, &text(1));
    runtime.block_on(metadata::replace(&runtime, Path::new(PATH), text(2))).unwrap();
    let durable = runtime.disk().durable_files();
    assert_eq!(durable[Path::new(PATH)], text(2));
    assert_eq!(durable[Path::new("/store/config/topics.json.bak")], text(1));
}

#[test]
fn the_backup_counts_when_the_file_does_not() {
    let check = |file: Option<&[u8]>, backup: Option<&[u8]>, expected: Result<Option<u64>, ()>| {
        let runtime = world();
        if let Some(bytes) = file {
            runtime.disk().put(PATH, bytes);
        }
        if let Some(bytes) = backup {
            runtime.disk().put("/store/config/topics.json.bak", bytes);
        }
        let found = load(&runtime);
        assert_eq!(found.as_ref().map(|value| *value).map_err(|_| ()), expected, "{file:?} {backup:?}");
        if let Err(error) = found {
            let message = error.to_string();
            assert!(message.contains(PATH) && message.contains(".bak"), "{message}");
            assert!(message.contains("restore"), "{message}");
        }
        if let Ok(Some(generation)) = expected {
            // The file was put right, so that the next replacement doesn't make bad text the backup.
            assert_eq!(runtime.disk().durable_files()[Path::new(PATH)], text(generation));
        }
    };
    let good: Option<&[u8]> = Some(b"[1]");
    let older: Option<&[u8]> = Some(b"[0]");
    let bad: Option<&[u8]> = Some(b"[1");
    let empty: Option<&[u8]> = Some(b"");
    check(good, older, Ok(Some(1)));
    check(good, bad, Ok(Some(1)));
    for file in [None, empty, bad] {
        check(file, older, Ok(Some(0)));
    }
    for file in [None, empty] {
        for backup in [None, empty] {
            check(file, backup, Ok(None));
        }
        check(file, bad, Err(()));
    }
    for backup in [None, empty, bad] {
        check(bad, backup, Err(()));
    }
}

#[test]
fn the_writer_makes_every_request_durable_and_stops_when_told() {
    let runtime = world();
    let writer = Rc::new(RefCell::new(MetadataWriter::new()));
    let topics = writer.borrow_mut().add(PATH.into());
    let offsets = writer.borrow_mut().add("/store/config/consumerOffset.json".into());
    let state = Rc::new(RefCell::new(0));
    let task = {
        let state = Rc::clone(&state);
        metadata::run(runtime.clone(), Rc::clone(&writer), move |_| text(*state.borrow()))
    };
    runtime.spawn(task);
    runtime.run_until_idle();
    // The disk is slow: what is asked for meanwhile is one more write, not a hundred.
    let slow = runtime.plan().add(Rule::of(Kind::WriteFile).hold());
    let mut last = None;
    for generation in 1..=100 {
        *state.borrow_mut() = generation;
        last = Some(writer.borrow_mut().request(topics));
        runtime.run_until_idle();
    }
    let last = last.unwrap();
    assert!(writer.borrow().durable_generation(topics) < last);
    runtime.plan().lift(slow);
    runtime.run_until_idle();
    assert_eq!(writer.borrow().durable_generation(topics), last);
    assert_eq!(runtime.plan().done(Kind::WriteFile), 2);
    assert_eq!(runtime.disk().durable_files()[Path::new(PATH)], text(100));

    // A full disk: it is tried again.
    let full = runtime.plan().add(Rule::of(Kind::WriteFile).fail(ENOSPC));
    let wanted = writer.borrow_mut().request(offsets);
    runtime.run_until_idle();
    assert!(writer.borrow().failure(offsets).is_some());
    assert!(writer.borrow().durable_generation(offsets) < wanted);
    runtime.plan().remove(full);
    runtime.advance(std::time::Duration::from_secs(2));
    assert!(writer.borrow().failure(offsets).is_none());
    assert_eq!(writer.borrow().durable_generation(offsets), wanted);

    writer.borrow_mut().request(topics);
    writer.borrow_mut().stop();
    runtime.run_until_idle();
    assert_eq!(runtime.task_count(), 0, "the writer has stopped");
}
