//! Batches: several requests in one commit, and the search for the one at fault.

mod common;

use common::bed::{Bed, each_bed, stub};
use iptables_updater::{Backend, Chain, Error, FailureClass, Request};

fn chain(name: &str, rules: &[&str]) -> Chain {
    Chain::new(name, rules.iter().copied()).unwrap()
}

fn rewrite(name: &str, rules: &[&str]) -> Request {
    Request::rewrite([chain(name, rules)])
}

/// Which requests failed.
fn failed(results: &[Result<(), Error>]) -> Vec<usize> {
    (0..results.len())
        .filter(|n| results[*n].is_err())
        .collect()
}

#[test]
fn requests_made_together_are_one_commit_and_the_last_wins() {
    each_bed(
        "requests_made_together_are_one_commit_and_the_last_wins",
        |bed: Bed| {
            let mut updater = bed.open();
            bed.journal.take();
            let results = updater.apply(&[
                rewrite("web-a", &["-j ACCEPT"]),
                rewrite("web-b", &["-j web-a"]),
                rewrite("web-a", &["-j DROP"]),
                rewrite("web-c", &["-j DROP"]),
                Request::delete(["web-c"]).unwrap(),
            ]);
            assert_eq!(failed(&results), [] as [usize; 0]);
            assert_eq!(bed.journal.counts(), (1, 0));
            assert_eq!(bed.rules("web-a").unwrap(), ["-j DROP"]);
            assert_eq!(bed.web_chains(), ["web-a", "web-b"]);
            let stats = updater.stats();
            assert_eq!(
                (stats.requests, stats.requests_failed, stats.splits),
                (5, 0, 0)
            );
            assert_eq!(stats.chains_rewritten, 2);
            assert_eq!(
                (stats.batch_requests.count, stats.batch_requests.max),
                (1, 5)
            );
            assert!(updater.apply(&[]).is_empty());
        },
    );
}

#[test]
fn of_four_the_third_is_bad_and_only_it_fails() {
    each_bed("of_four_the_third_is_bad_and_only_it_fails", |bed: Bed| {
        let mut updater = bed.open();
        bed.journal.take();
        let results = updater.apply(&[
            rewrite("web-a", &["-j ACCEPT"]),
            rewrite("web-b", &["-j ACCEPT"]),
            rewrite("web-c", &["-j ACCEPT", "-m no-such-match"]),
            rewrite("web-d", &["-j web-c"]),
        ]);
        assert_eq!(failed(&results), [2]);
        let Err(Error::Restore(error)) = &results[2] else {
            panic!("{results:?}");
        };
        assert_eq!(
            (error.class, error.request),
            (FailureClass::Refused, Some(2))
        );
        assert_eq!(error.chain.as_deref(), Some("web-c"));
        assert_eq!(bed.journal.counts(), (2, 0));
        assert_eq!(bed.rules("web-c").unwrap(), stub("web-c"));
        let stats = updater.stats();
        assert_eq!(
            (stats.requests, stats.requests_failed, stats.splits),
            (4, 1, 1)
        );
        assert_eq!(stats.chains_rewritten, 3);
    });
}

/// 64 requests, of which the ones given are bad; returns how many restores that took.
fn sixty_four(bed: &Bed, bad: &[usize], bad_rule: &str) -> usize {
    let mut updater = bed.open();
    bed.journal.take();
    let requests: Vec<_> = (0..64)
        .map(|n| {
            let rule = if bad.contains(&n) {
                bad_rule
            } else {
                "-j ACCEPT"
            };
            rewrite(&format!("web-{n:02}"), &[rule])
        })
        .collect();
    let results = updater.apply(&requests);
    assert_eq!(failed(&results), bad, "{bad_rule}");
    assert_eq!(bed.web_chains().len(), 64 - bad.len());
    let (restores, _) = bed.journal.take();
    bed.other("-F\n-X");
    restores.len()
}

/// Which of 64 are bad, for each number of them.
fn bad_ones() -> Vec<Vec<usize>> {
    [0, 1, 2, 4, 8, 64]
        .iter()
        .map(|count| {
            (0..*count)
                .map(|n| (n * 64 / count + 63 / count) % 64)
                .collect::<Vec<_>>()
        })
        .map(|mut bad: Vec<usize>| {
            bad.sort_unstable();
            bad
        })
        .collect()
}

#[test]
fn errors_that_name_a_line_cost_one_restore_for_each_bad_request() {
    each_bed(
        "errors_that_name_a_line_cost_one_restore_for_each_bad_request",
        |bed: Bed| {
            for bad in bad_ones() {
                for rule in [
                    "-m no-such-match",
                    "-p tcp --dport no-such-port",
                    "-j no-such-chain",
                ] {
                    let restores = sixty_four(&bed, &bad, rule);
                    assert!(restores <= bad.len() + 1, "{bad:?} {rule}: {restores}");
                }
            }
        },
    );
}

#[test]
fn errors_that_name_none_are_found_by_halving() {
    each_bed("errors_that_name_none_are_found_by_halving", |bed: Bed| {
        for bad in bad_ones() {
            // Refused by the kernel: legacy names only the COMMIT line, and tries each part that fails three
            // times; nf_tables names lines that can't always be relied on.
            let restores = sixty_four(&bed, &bad, "-j MASQUERADE");
            let tries = if bed.backend == Backend::Legacy { 3 } else { 1 };
            let most = tries * bisection(&bad, 0, 64);
            assert!(restores <= most, "{bad:?}: {restores} > {most}");
        }
    });
}

/// How many commits plain bisection takes.
fn bisection(bad: &[usize], start: usize, end: usize) -> usize {
    let any = bad.iter().any(|n| (start..end).contains(n));
    if !any || end - start == 1 {
        return 1;
    }
    let middle = start + (end - start) / 2;
    1 + bisection(bad, start, middle) + bisection(bad, middle, end)
}

#[test]
fn requests_that_touch_the_same_chain_keep_their_order_through_any_split() {
    each_bed(
        "requests_that_touch_the_same_chain_keep_their_order_through_any_split",
        |bed: Bed| {
            for bad_at in 0..6 {
                let mut updater = bed.open();
                let mut requests: Vec<_> = (0..5)
                    .map(|n| {
                        rewrite(
                            "web-same",
                            &[&format!("-m comment --comment {n} -j ACCEPT")],
                        )
                    })
                    .collect();
                requests.insert(bad_at, rewrite("web-bad", &["-j MASQUERADE"]));
                let results = updater.apply(&requests);
                assert_eq!(failed(&results), [bad_at]);
                assert_eq!(
                    bed.rules("web-same").unwrap(),
                    ["-m comment --comment 4 -j ACCEPT"]
                );
                assert_eq!(updater.programmed_chains(), [&"web-same"]);
            }
        },
    );
}

#[test]
fn a_request_that_closes_a_circle_fails_alone_as_it_would_by_itself() {
    each_bed(
        "a_request_that_closes_a_circle_fails_alone_as_it_would_by_itself",
        |bed: Bed| {
            let requests = [
                rewrite("web-a", &["-j web-b"]),
                rewrite("web-b", &["-j web-a"]),
                rewrite("web-a", &["-j RETURN"]),
                rewrite("web-bad", &["-j MASQUERADE"]),
                rewrite("web-b", &["-j web-a"]),
            ];
            let mut updater = bed.open();
            let together = failed(&updater.apply(&requests));
            let table = bed.save();
            bed.other("-F\n-X");
            let mut updater = bed.open();
            let one_by_one: Vec<_> = requests
                .iter()
                .flat_map(|request| updater.apply(std::slice::from_ref(request)))
                .collect();
            assert_eq!(together, [1, 3]);
            assert_eq!(failed(&one_by_one), together);
            let rules = |save: &str| {
                let lines = save.lines().filter(|line| line.starts_with("-A"));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(rules(&table), rules(&bed.save()));
        },
    );
}

#[test]
fn a_request_fails_as_a_whole() {
    each_bed("a_request_fails_as_a_whole", |bed: Bed| {
        let mut updater = bed.open();
        let both = Request::rewrite([
            chain("web-a", &["-j ACCEPT"]),
            chain("web-b", &["--no-such-option"]),
        ]);
        let results = updater.apply(&[rewrite("web-c", &[]), both, rewrite("other", &[])]);
        assert_eq!(failed(&results), [1, 2]);
        assert!(matches!(results[2], Err(Error::NotOwned { .. })));
        assert_eq!(bed.web_chains(), ["web-c"]);
    });
}
