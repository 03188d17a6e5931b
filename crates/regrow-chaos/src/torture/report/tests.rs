//! A report says what was seen, in all its forms.

use std::time::Duration;

use super::super::checks::Broken;
use super::super::{Asked, Call, Cycle, Habit, Kind, Sample, Subject, Told, Tool};
use super::*;

fn outcome(broken: Vec<Broken>) -> Outcome {
    let second = Duration::from_secs(1);
    let call =
        Call { tool: Tool::Echo, begun: second, ended: Some(second * 2), told: Told::Right, answers: 1 };
    let cycle = Cycle {
        lane: 0,
        kind: Kind::Kill,
        life: Habit::Plain,
        next: Habit::Plain,
        at: second,
        recovery: Some(second / 4),
    };
    let subject = Subject {
        name: "serve".into(),
        lanes: vec![0],
        samples: vec![Sample { at: second, memory_kib: 9000, files: 11, threads: 3, tasks: Some(40) }],
        asked: Some(Asked { readings: 9, steady: 8, slowest: second / 100 }),
        waited: second / 2,
        log: vec!["a line".into()],
    };
    Outcome {
        seed: 42,
        target: Target::Serve,
        took: second * 3,
        stopped: false,
        cycles: vec![cycle],
        subjects: vec![subject],
        calls: vec![call],
        broken,
        stalls: vec![],
    }
}

fn a_lie() -> Vec<Broken> {
    vec![Broken { promise: Promise::Truth, whose: "lane 0".into(), what: "call 7 <b>lied</b>".into() }]
}

#[test]
fn a_kept_promise_and_a_broken_one_read_differently() {
    let (kept, broken) = (outcome(vec![]), outcome(a_lie()));
    let (kept, broken) = (Report::new(&kept).markdown(), Report::new(&broken).markdown());
    assert!(kept.contains("every promise was kept") && !kept.contains("--seed"), "{kept}");
    assert!(broken.contains("regrow torture --seed 42 --cycles 1 --target serve"), "{broken}");
    assert!(kept.contains("40 → 40 | 0.5 |") && kept.contains("asked about itself 9 times; in 8"), "{kept}");
    assert!(broken.contains("call 7") && broken.contains("| kill | 1 | 250 | 250 | 250 |"), "{broken}");
}

#[test]
fn the_page_escapes_what_it_quotes_and_needs_nothing_from_outside() {
    let outcome = outcome(a_lie());
    let page = Report::new(&outcome).html();
    assert!(page.contains("&lt;b&gt;lied") && !page.contains("<b>lied"), "{page}");
    assert!(!page.contains("http") && !page.contains("<script") && !page.contains("src="), "{page}");
    assert_eq!(page.matches("<svg").count(), 5);
}

#[test]
fn machines_read_the_same() {
    let outcome = outcome(a_lie());
    let json = Report::new(&outcome).json();
    assert_eq!((&json["seed"], &json["kept"]), (&json!(42), &json!(false)));
    assert_eq!(json["recovery"][0]["medianMs"], 250.0);
    assert_eq!(json["calls"]["worstMs"], 1000.0);
    assert_eq!(json["programs"][0]["asked"]["steady"], 8);
}

#[test]
fn a_folder_gets_all_forms_and_logs_only_where_a_promise_was_broken() {
    let folder = tempfile::tempdir().unwrap();
    let files = |outcome: &Outcome| {
        Report::new(outcome).write(folder.path()).unwrap();
        fs::read_dir(folder.path()).unwrap().count()
    };
    assert_eq!(files(&outcome(vec![])), 3);
    assert_eq!(files(&outcome(a_lie())), 4);
}
