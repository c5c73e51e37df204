//! Any exit and any text on standard error, after any input.

use iptables_updater::{Backend, Chain, Exit, Failure, FailureClass, Outcome, Request};

use super::bytes::Bytes;
use super::canned::{Canned, builder};
use super::presentable;

pub fn classifier(data: &[u8]) {
    let mut bytes = Bytes(data);
    let exit = match bytes.next() {
        0xff => Exit::TimedOut,
        0xfe => Exit::Flooded,
        0xfd => Exit::Signal(9),
        code => Exit::Code(i32::from(code)),
    };
    let input = String::from_utf8_lossy(bytes.text()).into_owned();
    let stderr = bytes.0.to_vec();
    let outcome = Outcome::new(exit, [], stderr);
    judged(&outcome, &input);
    told(&outcome);
}

fn judged(outcome: &Outcome, input: &str) {
    let Some(failure) = Failure::of_restore(outcome, input) else {
        return assert!(outcome.exit.is_success());
    };
    assert!(!outcome.exit.is_success());
    let code = matches!(outcome.exit, Exit::Code(_));
    assert!(code || failure.class == FailureClass::Ambiguous);
    assert!(failure.line.is_none_or(|line| line > 0));
    assert!(!failure.cascade || failure.line.is_some());
    let stderr = String::from_utf8_lossy(&outcome.stderr);
    if let Some(object) = &failure.object {
        assert!(stderr.contains(object.as_str()) && !object.contains('\n'));
    }
    let saved = Failure::of_save(outcome).expect("a failure");
    assert!(saved.class == failure.class || failure.line.is_some());
}

/// An updater whose every restore fails so reports it, and takes nothing for done.
fn told(outcome: &Outcome) {
    let opened = builder().open(Canned {
        saved: Outcome::success("*filter\n:INPUT ACCEPT [0:0]\n:web-old - [0:0]\nCOMMIT\n"),
        restored: outcome.clone(),
        backend: Backend::Legacy,
    });
    let mut updater = opened.expect("a good save");
    let before = updater.index().clone();
    let chain = |name: &str| Chain::new(name, ["-j web-old", "-j web-b"]).unwrap();
    let requests = [
        Request::rewrite([chain("web-a")]),
        Request::rewrite([chain("web-c")]),
    ];
    let mut results = updater
        .apply(&requests)
        .into_iter()
        .map(|result| result.map(drop))
        .collect::<Vec<_>>();
    results.push(updater.ensure_rule_inserted("INPUT", "-j web-a"));
    let done = outcome.exit.is_success();
    assert!(
        results.iter().all(|result| result.is_ok() == done),
        "{results:?}"
    );
    assert_eq!(*updater.index() == before, !done);
    // What isn't there is as good as removed; nothing else is.
    let removed = updater.ensure_rule_removed("INPUT", "-p tcp -j web-a");
    let absence =
        Failure::of_restore(outcome, "").is_some_and(|failure| failure.class.is_absence());
    if !done && !absence && outcome.stderr.is_empty() {
        assert!(removed.is_err());
    }
    results.push(removed);
    for error in results.into_iter().filter_map(Result::err) {
        presentable(&error);
    }
    // An updater whose readings fail so doesn't open.
    let opened = builder().open(Canned {
        saved: outcome.clone(),
        restored: outcome.clone(),
        backend: Backend::NfTables,
    });
    presentable(&opened.err().expect("no table in it"));
}
