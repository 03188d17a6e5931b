//! Every check can fail: histories that never happened, each with one broken promise.

use super::*;
use crate::call::Tool;

const LIMIT: Duration = Duration::from_secs(3);

fn call(tool: Tool, told: Told) -> Call {
    let begun = Duration::from_secs(1);
    Call { tool, begun, ended: Some(begun + Duration::from_millis(5)), told, answers: 1 }
}

fn fault(delivery: Delivery) -> Told {
    Told::Fault { kind: "interrupted".into(), delivery }
}

/// The promises that one call breaks, which ran so often.
fn broken_by(call: Call, ran: u32) -> Vec<Promise> {
    let runs = HashMap::from([(0, ran)]);
    judge_calls("lane 3", &[call], &runs, LIMIT, &[]).into_iter().map(|broken| broken.promise).collect()
}

fn sample(memory_kib: u64, files: u64, threads: u64) -> Sample {
    Sample { at: Duration::ZERO, memory_kib, files, threads, tasks: None }
}

#[test]
fn calls_as_they_should_be_break_nothing() {
    assert_eq!(broken_by(call(Tool::Count(0), Told::Right), 1), []);
    assert_eq!(broken_by(call(Tool::List, Told::Right), 0), []);
    assert_eq!(broken_by(call(Tool::Lookup, Told::Right), 3), []);
    assert_eq!(broken_by(call(Tool::Count(0), fault(Delivery::NotSent)), 0), []);
    assert_eq!(broken_by(call(Tool::Count(0), fault(Delivery::Unknown)), 0), []);
    assert_eq!(broken_by(call(Tool::Count(0), fault(Delivery::Unknown)), 1), []);
    assert_eq!(broken_by(call(Tool::Other("malformed"), fault(Delivery::Answered)), 1), []);
}

#[test]
fn a_double_run_is_found_whatever_its_caller_was_told() {
    assert_eq!(broken_by(call(Tool::Count(0), Told::Right), 2), [Promise::NeverTwice]);
    assert_eq!(broken_by(call(Tool::Count(0), fault(Delivery::Unknown)), 2), [Promise::NeverTwice]);
    assert_eq!(broken_by(call(Tool::Lookup, Told::Right), 4), [Promise::NeverTwice]);
}

#[test]
fn a_lost_call_and_a_second_answer_are_found() {
    let lost = Call { ended: None, answers: 0, ..call(Tool::Count(0), Told::Nothing) };
    assert_eq!(broken_by(lost, 1), [Promise::OneAnswer]);
    let doubled = Call { answers: 2, ..call(Tool::Count(0), Told::Right) };
    assert_eq!(broken_by(doubled, 1), [Promise::OneAnswer]);
    assert_eq!(broken_by(call(Tool::Echo, Told::Wrong), 1), [Promise::OneAnswer]);
}

#[test]
fn a_late_answer_is_found() {
    let late = Call { ended: Some(Duration::from_secs(5)), ..call(Tool::Count(0), Told::Right) };
    assert_eq!(broken_by(late, 1), [Promise::InTime]);
}

#[test]
fn a_machine_that_stood_still_excuses_a_late_answer_and_only_so_much() {
    let late = [Call { ended: Some(Duration::from_secs(5)), ..call(Tool::Count(0), Told::Right) }];
    let judge = |from, to| {
        let stall = Stall { from: Duration::from_millis(from), to: Duration::from_millis(to) };
        judge_calls("", &late, &HashMap::from([(0, 1)]), LIMIT, &[stall]).len()
    };
    assert_eq!(judge(2000, 3500), 0);
    assert_eq!(judge(2000, 2500), 1, "it was late by more than that");
    assert_eq!(judge(6000, 9000), 1, "that was after the answer");
}

#[test]
fn a_lie_is_found() {
    assert_eq!(broken_by(call(Tool::Count(0), fault(Delivery::NotSent)), 1), [Promise::Truth]);
    assert_eq!(broken_by(call(Tool::Count(0), fault(Delivery::Answered)), 0), [Promise::Truth]);
    assert_eq!(broken_by(call(Tool::Count(0), Told::Right), 0), [Promise::Truth]);
}

#[test]
fn a_failure_at_a_server_that_nothing_was_done_to_is_found() {
    assert_eq!(judge_spared("", &[call(Tool::Count(0), Told::Right)]), []);
    for told in [fault(Delivery::NotSent), fault(Delivery::Unknown), Told::Refused] {
        let broken = judge_spared("lane 11", &[call(Tool::List, Told::Right), call(Tool::Count(0), told)]);
        assert_eq!(broken.iter().map(|broken| broken.promise).collect::<Vec<_>>(), [Promise::Unharmed]);
    }
}

#[test]
fn an_orphan_is_found_and_named() {
    assert_eq!(judge_orphans("lane 1", "at the end", &[]), None);
    let broken = judge_orphans("lane 1", "at the end", &[(77, "chaos-server helper".into())]).unwrap();
    assert_eq!(broken.promise, Promise::NoOrphans);
    assert!(broken.to_string().contains("77 (chaos-server helper)"), "{broken}");
}

#[test]
fn a_leak_of_memory_files_threads_or_tasks_is_found() {
    let flat: Vec<Sample> = (0..200).map(|at| sample(9000 + at % 7 * 30, 12 + at % 3, 4)).collect();
    assert_eq!(judge_growth("", 1, &flat), []);
    let leaks: [fn(u64) -> Sample; 4] = [
        |at| sample(9000 + at * 40, 12, 4),
        |at| sample(9000, 12 + at / 10, 4),
        |at| sample(9000, 12, 4 + at / 10),
        |at| Sample { tasks: Some(50 + at / 10), ..sample(9000, 12, 4) },
    ];
    for leak in leaks {
        let samples: Vec<Sample> = (0..200).map(leak).collect();
        let broken = judge_growth("", 1, &samples);
        assert_eq!(broken.len(), 1, "{broken:?}");
        assert_eq!(broken[0].promise, Promise::Flat);
    }
}
