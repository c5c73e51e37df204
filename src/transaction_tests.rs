//! The deltas of single transactions, case by case.

use super::*;
use crate::Prefixes;

fn index() -> Index {
    Index::new(Prefixes::new(["felix-"]).unwrap())
}

fn name(short: &str) -> ChainName {
    ChainName::new(&format!("felix-{short}")).unwrap()
}

/// A chain that holds one rule of its own, and jumps to each of the others.
fn chain(short: &str, mark: &str, jumps: &[&str]) -> Chain {
    let jumps = jumps.iter().map(|jump| format!("-j felix-{jump}"));
    let mark = format!("-m comment --comment {mark}");
    Chain::new(name(short), [mark].into_iter().chain(jumps)).unwrap()
}

fn rewrite(transaction: &mut Transaction<'_>, chain: Chain, request: usize) {
    let changes = [Change::Rewrite(chain)];
    transaction.request(&changes, request).unwrap();
}

fn delete(transaction: &mut Transaction<'_>, chain: ChainName, request: usize) {
    let changes = [Change::Delete(chain)];
    transaction.request(&changes, request).unwrap();
}

fn after(index: &Index, change: impl FnOnce(&mut Transaction<'_>)) -> Index {
    let mut index = index.clone();
    let mut transaction = Transaction::new(&index);
    change(&mut transaction);
    let update = transaction.delta().into_update();
    index.apply(update);
    index
}

/// felix-a requires felix-b and felix-stub; felix-b and felix-c are programmed, felix-stub isn't.
fn three_chains() -> Index {
    after(&index(), |transaction| {
        for chain in [
            chain("a", "old", &["b", "stub"]),
            chain("b", "b", &[]),
            chain("c", "c", &[]),
        ] {
            rewrite(transaction, chain, 0);
        }
    })
}

/// What a delta writes, stubs and deletes.
fn summary(delta: &Delta) -> (Vec<&str>, Vec<&str>, Vec<&str>) {
    let rewrites = delta.rewrites.iter().map(|r| r.chain.name().as_str());
    let stubs = delta.stubs.iter().map(|stub| stub.chain.as_str());
    let deletions = delta.deletions.iter().map(|d| d.chain.as_str());
    (rewrites.collect(), stubs.collect(), deletions.collect())
}

fn required(index: &Index) -> Vec<&str> {
    let mut names: Vec<_> = index.required_chains().map(ChainName::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_stub_that_nobody_requires_any_longer_is_deleted() {
    let before = three_chains();
    let mut transaction = Transaction::new(&before);
    rewrite(&mut transaction, chain("a", "foo", &["b"]), 0);
    let delta = transaction.delta();
    assert_eq!(
        summary(&delta),
        (vec!["felix-a"], vec![], vec!["felix-stub"])
    );
    assert!(!delta.deletions[0].stub_first);
    let after = after(&before, |t| rewrite(t, chain("a", "foo", &["b"]), 0));
    assert_eq!(required(&after), ["felix-b"]);
}

#[test]
fn a_programmed_chain_that_nobody_requires_any_longer_stays() {
    let before = three_chains();
    let mut transaction = Transaction::new(&before);
    rewrite(&mut transaction, chain("a", "foo", &["stub"]), 0);
    let delta = transaction.delta();
    assert_eq!(summary(&delta), (vec!["felix-a"], vec![], vec![]));
    let after = after(&before, |t| rewrite(t, chain("a", "foo", &["stub"]), 0));
    assert_eq!(required(&after), ["felix-stub"]);
    assert_eq!(after.state("felix-b"), ChainState::Programmed);
}

#[test]
fn an_unrequired_chain_is_made_safe_and_deleted() {
    let before = three_chains();
    let mut transaction = Transaction::new(&before);
    delete(&mut transaction, name("c"), 0);
    let delta = transaction.delta();
    assert_eq!(summary(&delta), (vec![], vec![], vec!["felix-c"]));
    assert!(delta.deletions[0].stub_first);
    let after = after(&before, |t| delete(t, name("c"), 0));
    assert_eq!(required(&after), ["felix-b", "felix-stub"]);
    assert_eq!(after.programmed_chains().count(), 2);
}

#[test]
fn a_required_chain_that_is_deleted_becomes_a_stub() {
    let before = three_chains();
    let mut transaction = Transaction::new(&before);
    delete(&mut transaction, name("b"), 0);
    let delta = transaction.delta();
    assert_eq!(summary(&delta), (vec![], vec!["felix-b"], vec![]));
    let after = after(&before, |t| delete(t, name("b"), 0));
    assert_eq!(required(&after), ["felix-b", "felix-stub"]);
    assert_eq!(after.state("felix-b"), ChainState::Stub);
}

#[test]
fn a_delta_asked_for_again_has_what_was_recorded_meanwhile() {
    let before = three_chains();
    let mut transaction = Transaction::new(&before);
    assert!(transaction.delta().is_empty());
    delete(&mut transaction, name("a"), 0);
    assert_eq!(
        summary(&transaction.delta()),
        (vec![], vec![], vec!["felix-a", "felix-stub"])
    );
    rewrite(&mut transaction, chain("a", "new", &["x"]), 1);
    assert_eq!(
        summary(&transaction.delta()),
        (vec!["felix-a"], vec!["felix-x"], vec!["felix-stub"])
    );
    drop(transaction);
    assert_eq!(before, three_chains());
}

#[test]
fn what_a_chain_holds_already_is_no_change() {
    let before = three_chains();
    let mut transaction = Transaction::new(&before);
    rewrite(&mut transaction, chain("a", "old", &["b", "stub"]), 0);
    delete(&mut transaction, name("unknown"), 1);
    assert!(transaction.delta().is_empty());
}

#[test]
fn a_rewrite_and_a_deletion_of_the_same_new_chain_cancel_out() {
    let before = three_chains();
    let mut transaction = Transaction::new(&before);
    rewrite(&mut transaction, chain("new", "new", &["other"]), 0);
    delete(&mut transaction, name("new"), 1);
    assert!(transaction.delta().is_empty());
}

#[test]
fn lines_are_laid_to_the_request_that_caused_them() {
    let before = three_chains();
    let mut transaction = Transaction::new(&before);
    rewrite(&mut transaction, chain("d", "d", &["missing"]), 3);
    delete(&mut transaction, name("a"), 5);
    let delta = transaction.delta();
    assert_eq!(delta.rewrites[0].request, Some(3));
    assert_eq!(delta.stubs[0].request, Some(3));
    assert_eq!(delta.deletions[1].chain, "felix-stub");
    assert_eq!(delta.deletions[1].request, Some(5));
}

#[test]
fn leftover_contents_stay_until_they_are_replaced_or_given_up() {
    let before = index().with_leftover(["old", "other"].map(name));
    let mut transaction = Transaction::new(&before);
    rewrite(&mut transaction, chain("a", "a", &["old", "fresh"]), 0);
    let delta = transaction.delta();
    assert_eq!(
        summary(&delta),
        (vec!["felix-a"], vec!["felix-fresh"], vec![])
    );

    let during = after(&before, |t| {
        rewrite(t, chain("a", "a", &["old", "fresh"]), 0);
    });
    assert_eq!(during.state("felix-old"), ChainState::Leftover);
    let mut transaction = Transaction::new(&during);
    delete(&mut transaction, name("old"), 0);
    delete(&mut transaction, name("other"), 0);
    let delta = transaction.delta();
    assert_eq!(
        summary(&delta),
        (vec![], vec!["felix-old"], vec!["felix-other"])
    );
    assert!(delta.deletions[0].stub_first);
}

#[test]
fn what_the_dataplane_has_lost_is_written_again() {
    let before = three_chains();
    let mut transaction = Transaction::new(&before);
    for lost in ["b", "stub", "unknown"] {
        transaction.restore_missing(name(lost));
    }
    let delta = transaction.delta();
    assert_eq!(
        summary(&delta),
        (vec!["felix-b"], vec!["felix-stub"], vec![])
    );
}

#[test]
fn a_circle_is_named_whatever_its_length() {
    let long: Vec<_> = (0..5_000).map(|n| n.to_string()).collect();
    let link = |n: usize| chain(&long[n], "x", &[&long[(n + 1) % long.len()]]);
    let open = after(&index(), |transaction| {
        for n in 1..long.len() {
            rewrite(transaction, link(n), 0);
        }
    });
    let mut transaction = Transaction::new(&open);
    let closing = [Change::Rewrite(link(0))];
    let Err(Error::Cycle { chains }) = transaction.request(&closing, 0) else {
        panic!("a circle of 5,000 chains was accepted");
    };
    assert_eq!(chains.len(), 5_000);
    assert!(transaction.delta().is_empty());

    let empty = index();
    let mut transaction = Transaction::new(&empty);
    let itself = [Change::Rewrite(chain("self", "x", &["self"]))];
    let error = transaction.request(&itself, 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "these chains would jump in a circle: felix-self -> felix-self"
    );
}

#[test]
fn a_request_that_closes_a_circle_leaves_the_requests_before_it_as_they_were() {
    let before = after(&index(), |t| rewrite(t, chain("a", "x", &["b"]), 0));
    let mut transaction = Transaction::new(&before);
    rewrite(&mut transaction, chain("b", "first", &["d"]), 0);
    let closing = [
        Change::Rewrite(chain("c", "x", &[])),
        Change::Rewrite(chain("b", "second", &["a"])),
        Change::Delete(name("c")),
    ];
    assert!(transaction.request(&closing, 1).is_err());
    let delta = transaction.delta();
    assert_eq!(summary(&delta), (vec!["felix-b"], vec!["felix-d"], vec![]));
    assert_eq!(delta.rewrites[0].chain, chain("b", "first", &["d"]));
}

#[test]
fn a_circle_that_is_broken_in_the_same_request_is_none() {
    let before = after(&index(), |t| rewrite(t, chain("a", "x", &["b"]), 0));
    let mut transaction = Transaction::new(&before);
    let both = [
        Change::Rewrite(chain("b", "x", &["a"])),
        Change::Rewrite(chain("a", "y", &["c"])),
    ];
    assert!(transaction.request(&both[..1], 0).is_err());
    transaction.request(&both, 0).unwrap();
}
