//! Tasks, time and order.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use engine::io::{Runtime, event::Event, script::ScriptRuntime};

use super::Notes;

/// The order in which ten tasks, each yielding once, take their two steps.
fn order_of_steps(runtime: &ScriptRuntime) -> Vec<(u32, u32)> {
    let notes: Notes<(u32, u32)> = Rc::default();
    for task in 0..10 {
        let (runtime, notes) = (runtime.clone(), Rc::clone(&notes));
        runtime.clone().spawn(async move {
            for step in 0..2 {
                notes.borrow_mut().push((task, step));
                runtime.yield_now().await;
            }
        });
    }
    runtime.run_until_idle();
    notes.take()
}

#[test]
fn ready_tasks_run_first_in_first_out() {
    let expected: Vec<_> = (0..2).flat_map(|step| (0..10).map(move |task| (task, step))).collect();
    assert_eq!(order_of_steps(&ScriptRuntime::new(1)), expected);
}

#[test]
fn shuffled_order_comes_from_the_seed() {
    let run = |seed| {
        let runtime = ScriptRuntime::new(seed);
        runtime.set_shuffled(true);
        order_of_steps(&runtime)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    let first_steps = |run: &[(u32, u32)]| run[..10].iter().all(|note| note.1 == 0);
    assert!((0..50).all(|seed| first_steps(&run(seed))), "yielding lets every other ready task run first");
}

#[test]
fn time_stands_still_until_nothing_is_ready() {
    let runtime = ScriptRuntime::new(1);
    let began = runtime.now();
    let wall_clock_ms = runtime.wall_clock_ms();
    runtime.block_on(async {
        runtime.yield_now().await;
        assert_eq!(runtime.now(), began);
        runtime.sleep(Duration::from_millis(1500)).await;
    });
    assert_eq!(runtime.now() - began, Duration::from_millis(1500));
    assert_eq!(runtime.wall_clock_ms() - wall_clock_ms, 1500);
    runtime.set_wall_clock_ms(5);
    runtime.advance(Duration::from_millis(2));
    assert_eq!(runtime.wall_clock_ms(), 7);
    assert_eq!(runtime.now() - began, Duration::from_millis(1502));
}

#[test]
fn advancing_fires_timers_in_order_at_their_time() {
    let runtime = ScriptRuntime::new(1);
    let notes: Notes<(u64, Duration)> = Rc::default();
    for ms in [30, 10, 20, 50] {
        let (world, notes) = (runtime.clone(), Rc::clone(&notes));
        runtime.spawn(async move {
            world.sleep(Duration::from_millis(ms)).await;
            notes.borrow_mut().push((ms, world.elapsed()));
        });
    }
    runtime.advance(Duration::from_millis(40));
    let at = |ms| (ms, Duration::from_millis(ms));
    assert_eq!(*notes.borrow(), [at(10), at(20), at(30)]);
    assert_eq!(runtime.elapsed(), Duration::from_millis(40));
}

#[test]
fn a_dropped_sleep_moves_no_clock() {
    let runtime = ScriptRuntime::new(1);
    let mut sleep = Box::pin(runtime.sleep(Duration::from_secs(9)));
    runtime.block_on(std::future::poll_fn(|context| {
        assert!(sleep.as_mut().poll(context).is_pending());
        std::task::Poll::Ready(())
    }));
    drop(sleep);
    assert!(runtime.try_block_on(std::future::pending::<()>()).is_none());
    assert_eq!(runtime.elapsed(), Duration::ZERO);
}

#[test]
fn tasks_wake_each_other_through_events() {
    let runtime = ScriptRuntime::new(1);
    let (event, seen) = (Event::new(), Rc::new(Cell::new(false)));
    let (waiting, noted) = (event.clone(), Rc::clone(&seen));
    runtime.spawn(async move {
        waiting.wait().await;
        noted.set(true);
    });
    runtime.run_until_idle();
    assert!(!seen.get());
    assert_eq!(runtime.task_count(), 1);
    event.set();
    runtime.run_until_idle();
    assert!(seen.get());
    assert_eq!(runtime.task_count(), 0);
}

#[test]
fn yielding_lets_a_task_run_that_was_just_woken() {
    for seed in 0..50 {
        let runtime = ScriptRuntime::new(seed);
        runtime.set_shuffled(true);
        let (event, seen) = (Event::new(), Rc::new(Cell::new(false)));
        let (waiting, noted) = (event.clone(), Rc::clone(&seen));
        runtime.spawn(async move {
            waiting.wait().await;
            noted.set(true);
        });
        runtime.run_until_idle();
        runtime.block_on(async {
            event.set();
            runtime.yield_now().await;
            assert!(seen.get(), "seed {seed}");
        });
    }
}

#[test]
#[should_panic(expected = "can't finish")]
fn a_future_that_nothing_wakes_is_a_failed_test_not_a_hang() {
    ScriptRuntime::new(1).block_on(std::future::pending::<()>());
}

#[test]
fn patience_ends_a_wait_that_periodic_timers_keep_alive() {
    let runtime = ScriptRuntime::new(1);
    let world = runtime.clone();
    runtime.spawn(async move {
        loop {
            world.sleep(Duration::from_millis(500)).await;
        }
    });
    runtime.set_patience(Duration::from_secs(10));
    assert!(runtime.try_block_on(std::future::pending::<()>()).is_none());
    assert_eq!(runtime.elapsed(), Duration::from_secs(10));
}

#[test]
fn the_end_drops_what_tasks_own() {
    let runtime = ScriptRuntime::new(1);
    let owned = Rc::new(RefCell::new(0));
    let (world, held) = (runtime.clone(), Rc::clone(&owned));
    runtime.spawn(async move {
        world.sleep(Duration::from_secs(1)).await;
        *held.borrow_mut() += 1;
    });
    runtime.run_until_idle();
    runtime.end();
    assert_eq!(Rc::strong_count(&owned), 1);
    runtime.advance(Duration::from_secs(2));
    assert_eq!(*owned.borrow(), 0);
}
