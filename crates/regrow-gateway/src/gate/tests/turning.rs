//! The limiter, in simulated time.

use std::sync::{Arc, Mutex};

use tokio::time::{Instant, sleep};

use super::*;

/// Who was told what, and when; and the passes of those who are in.
#[derive(Clone, Default)]
struct Hall(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    log: Vec<(u64, u32, Result<(), Rejected>)>,
    inside: Vec<Permit>,
}

impl Hall {
    fn comes(&self, limiter: &Limiter<u32>, key: u32, within: Option<Duration>, began: Instant) {
        let hall = self.clone();
        limiter.submit(ONE, key, within, move |end| {
            let mut told = hall.0.lock().expect("no panic");
            told.log.push((
                began.elapsed().as_millis() as u64,
                key,
                end.as_ref().map(drop).map_err(|why| *why),
            ));
            told.inside.extend(end);
        });
    }

    fn log(&self) -> Vec<(u64, u32, Result<(), Rejected>)> {
        std::mem::take(&mut self.0.lock().expect("no panic").log)
    }

    /// Somebody leaves.
    fn leave(&self) {
        let permit = self.0.lock().expect("no panic").inside.remove(0);
        drop(permit);
    }
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

#[test]
fn without_a_limit_there_is_no_lock_no_task_and_no_runtime_needed() {
    let limiter = Limiter::<u32>::new(Limits { concurrency: None, rate: None, queue: 0 }, true);
    assert_eq!(limiter.running(), None, "nobody counts");
    let (hall, began) = (Hall::default(), Instant::now());
    (0..1000).for_each(|key| hall.comes(&limiter, key, None, began));
    assert!(hall.log().iter().all(|(_, _, end)| end.is_ok()));
}

#[tokio::test(start_paused = true)]
async fn who_waits_goes_when_another_leaves_and_the_task_goes_with_the_last_who_waits() {
    let limiter = Limiter::new(Limits { concurrency: Some(1), rate: None, queue: 2 }, true);
    let (hall, began, before) = (Hall::default(), Instant::now(), tasks());
    hall.comes(&limiter, 0, None, began);
    assert_eq!(tasks(), before, "nobody waits");
    (1..4).for_each(|key| hall.comes(&limiter, key, None, began));
    assert_eq!(hall.log(), [(0, 0, Ok(())), (0, 3, Err(Rejected::Full))]);
    assert_eq!(tasks(), before + 1);
    sleep(secs(5)).await;
    hall.leave();
    settle().await;
    assert_eq!(hall.log(), [(5000, 1, Ok(()))]);
    hall.leave();
    settle().await;
    assert_eq!(hall.log(), [(5001, 2, Ok(()))]);
    assert_eq!((tasks(), limiter.waiting(), limiter.running()), (before, 0, Some(1)));
    hall.leave();
    assert_eq!(limiter.running(), Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_kept_by_the_clock() {
    let limiter = Limiter::new(Limits { concurrency: None, rate: Some((2, secs(1))), queue: 10 }, true);
    let (hall, began) = (Hall::default(), Instant::now());
    (0..5).for_each(|key| hall.comes(&limiter, key, None, began));
    sleep(secs(10)).await;
    let times: Vec<u64> = hall.log().into_iter().map(|(at, ..)| at).collect();
    assert_eq!(times, [0, 0, 500, 1000, 1500]);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_it_can_though_it_came_last() {
    let limiter = Limiter::new(Limits { concurrency: Some(1), rate: None, queue: 10 }, true);
    let (hall, began) = (Hall::default(), Instant::now());
    hall.comes(&limiter, 0, None, began);
    hall.comes(&limiter, 1, Some(secs(60)), began);
    sleep(secs(1)).await;
    hall.comes(&limiter, 2, Some(secs(2)), began);
    sleep(secs(100)).await;
    let late = Err(Rejected::Late);
    assert_eq!(hall.log(), [(0, 0, Ok(())), (3000, 2, late), (60_000, 1, late)]);
}

#[tokio::test(start_paused = true)]
async fn who_was_withdrawn_is_told_nothing_and_who_waits_at_the_end_is_told_so() {
    let limiter = Limiter::new(Limits { concurrency: Some(1), rate: None, queue: 10 }, true);
    let (hall, began, before) = (Hall::default(), Instant::now(), tasks());
    (0..6).for_each(|key| hall.comes(&limiter, key, None, began));
    assert!(limiter.withdraw_newest(|key| *key == 3));
    assert!(!limiter.withdraw_newest(|key| *key == 3));
    assert_eq!(limiter.withdraw(|key| *key > 3), 2);
    assert_eq!(hall.log(), [(0, 0, Ok(()))]);
    drop(limiter);
    let closed = Err(Rejected::Closed);
    assert_eq!(hall.log(), [(0, 1, closed), (0, 2, closed)]);
    settle().await;
    assert_eq!(tasks(), before);
    hall.leave();
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_one_who_is_let_in_keeps_nobody_else_waiting() {
    let limiter = Limiter::new(Limits { concurrency: Some(1), rate: None, queue: 10 }, true);
    let (hall, began) = (Hall::default(), Instant::now());
    hall.comes(&limiter, 0, None, began);
    limiter.submit(ONE, 1, None, |_pass| panic!("as planned by the test"));
    hall.comes(&limiter, 2, None, began);
    hall.leave();
    settle().await;
    assert_eq!(hall.log(), [(0, 0, Ok(())), (0, 2, Ok(()))]);
}

#[tokio::test(start_paused = true)]
async fn thousands_whose_calls_end_at_once_go_through_without_a_deep_stack() {
    let limiter = Arc::new(Limiter::new(Limits { concurrency: Some(1), rate: None, queue: 100_000 }, true));
    let hall = Hall::default();
    hall.comes(&limiter, 0, None, Instant::now());
    let ended = Arc::new(Mutex::new(0));
    for key in 1..=50_000 {
        let ended = ended.clone();
        limiter.submit(ONE, key, None, move |permit| {
            *ended.lock().expect("no panic") += 1;
            drop(permit); // Its call failed before it began.
        });
    }
    hall.leave();
    settle().await;
    assert_eq!(*ended.lock().expect("no panic"), 50_000);
}
