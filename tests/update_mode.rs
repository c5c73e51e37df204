//! Chains changed in place come to the same as chains written whole, keep the counters of what stays, and fail rather
//! than hit another rule. On the simulated and the real kernel.

mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use common::bed::{Bed, NoWaiting, Updater, each_bed};
use common::{Kernel, each_kernel};
use iptables_updater::{Chain, Error, IpVersion, IptablesUpdater, Table, UpdateMode};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

fn minimal(bed: &Bed) -> Updater {
    let builder = IptablesUpdater::builder(Table::Filter).update_mode(UpdateMode::Minimal);
    bed.open_with(builder)
}

fn whole(bed: &Bed) -> Updater {
    IptablesUpdater::builder(Table::Filter)
        .chain_prefix("whole-")
        .clock(NoWaiting)
        .open(bed.executor())
        .expect("open")
}

fn write(updater: &mut Updater, chain: &str, rules: &[String]) {
    let chain = Chain::new(chain, rules).expect("a chain");
    updater.rewrite_chains([chain]).expect("written");
}

fn port(port: usize) -> String {
    format!("-p udp --dport {port} -j ACCEPT")
}

fn ports(ports: impl IntoIterator<Item = usize>) -> Vec<String> {
    ports.into_iter().map(port).collect()
}

/// Rules of many kinds: some read back otherwise than they are written, and the last two can't be found again by
/// their own text on at least one back end.
const RULES: &[&str] = &[
    "-p tcp --dport 80 -j ACCEPT",
    "-p tcp -m tcp --dport 80 -j ACCEPT",
    "-p 6 --dport 443 -j DROP",
    "-p tcp -m multiport --dports 80,443 -j ACCEPT",
    "-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
    "-m comment --comment \"a b \\\"c\\\"\" -j RETURN",
    "-m mark --mark 0x1/0xff -j DROP",
    "! -i eth+ -j RETURN",
    "-m limit --limit 10/second -j ACCEPT",
    "-j LOG --log-prefix \"dropped: \"",
    "-g web-other",
    "-j web-other",
    "-m set",
    "-m connlimit --connlimit-above 3 -j DROP",
    "-m recent --name web --set",
];

#[test]
fn a_chain_changed_in_place_is_the_chain_written_whole() {
    each_bed(
        "a_chain_changed_in_place_is_the_chain_written_whole",
        |bed| {
            let mut random = StdRng::seed_from_u64(20_261_201);
            let mut minimal = minimal(&bed);
            let mut whole = whole(&bed);
            write(&mut minimal, "web-other", &[]);
            let rules: Vec<String> = RULES.iter().map(|rule| (*rule).to_owned()).collect();
            let usable = usable(&mut whole, rules);
            assert!(usable.len() >= RULES.len() - 2, "{usable:?}");
            let mut any = || usable[random.random_range(0..usable.len())].clone();
            let mut contents: Vec<String> = (0..20).map(|_| any()).collect();
            let mut random = StdRng::seed_from_u64(7);
            for turn in 0..60 {
                let mut any = || usable[random.random_range(0..usable.len())].clone();
                let new: Vec<String> = match turn % 4 {
                    0 => (0..2).map(|_| any()).collect(),
                    _ => vec![any()],
                };
                let place = random.random_range(0..=contents.len());
                let removed = random.random_range(0..3).min(contents.len() - place);
                let added = if random.random_bool(0.7) || contents.len() < 12 {
                    new
                } else {
                    vec![]
                };
                contents.splice(place..place + removed, added);
                write(&mut minimal, "web-a", &contents);
                write(&mut whole, "whole-a", &contents);
                assert_eq!(
                    bed.rules("web-a").expect("it is there"),
                    bed.rules("whole-a").expect("it is there"),
                    "turn {turn}: {contents:#?}"
                );
            }
            let stats = minimal.stats();
            assert!(stats.chains_edited >= 20, "{stats:#?}");
            assert!(minimal.verify().expect("read").is_empty());
        },
    );
}

/// Those of the rules that this kernel takes.
fn usable(updater: &mut Updater, rules: Vec<String>) -> Vec<String> {
    let mut usable = rules;
    usable.retain(|rule| {
        // Both updaters own what begins with their own prefix only.
        let chain = Chain::new("whole-try", [rule]).expect("a chain");
        updater.rewrite_chains([chain]).is_ok()
    });
    updater.delete_chains(["whole-try"]).expect("deleted");
    usable
}

#[test]
fn what_is_written_is_what_differs() {
    each_bed("what_is_written_is_what_differs", |bed| {
        let mut updater = minimal(&bed);
        write(&mut updater, "web-a", &ports(1..=100));
        bed.journal.take();
        let without_50 = ports((0..=101).filter(|n| *n != 50));
        let with_777 = ports((0..=99).map(|n| if n == 7 { 777 } else { n }));
        for (contents, lines) in [
            (ports(1..=101), 2), // appended
            (ports(0..=101), 2), // inserted at the top
            (without_50, 7),     // removed in the middle
            (ports(0..=101), 9), // put back, beside a rule that is written again
            (ports(0..=99), 8),  // two removed at the end
            (with_777, 8),       // replaced
        ] {
            write(&mut updater, "web-a", &contents);
            let (restores, saves) = bed.journal.take();
            let [input] = restores.as_slice() else {
                panic!("{restores:#?}")
            };
            assert_eq!(saves, 0);
            // Without `*filter` and `COMMIT`.
            assert_eq!(input.lines().count() - 2, lines, "{input}");
            let rules = bed.rules("web-a").expect("it is there");
            assert_eq!(rules.len(), contents.len());
        }
        assert_eq!(updater.stats().chains_edited, 6);
        assert_eq!(updater.stats().edits_refused, 0);
    });
}

/// What somebody else does to the chain of the ports 1 to 20, in which then port 10 is replaced.
const DAMAGE: &[(&str, &str)] = &[
    ("a rule above", "-I web-a 3 -p tcp -j DROP"),
    ("a rule above gone", "-D web-a 3"),
    ("the rule twice", "-I web-a 2 -p udp --dport 10 -j ACCEPT"),
    ("the rule gone", "-D web-a 10"),
    (
        "the rule moved up",
        "-D web-a 10\n-I web-a 9 -p udp --dport 10 -j ACCEPT",
    ),
    (
        "the rule moved down",
        "-D web-a 10\n-I web-a 11 -p udp --dport 10 -j ACCEPT",
    ),
    ("the chain emptied", "-F web-a"),
    (
        "all but the last gone",
        "-F web-a\n-A web-a -p udp --dport 20 -j ACCEPT",
    ),
];

#[test]
fn an_edit_of_a_chain_that_somebody_else_has_changed_is_refused_and_the_chain_written_whole() {
    each_bed(
        "an_edit_of_a_chain_that_somebody_else_has_changed_is_refused_and_the_chain_written_whole",
        |bed| {
            for (what, lines) in DAMAGE {
                let mut updater = minimal(&bed);
                write(&mut updater, "web-a", &ports(1..=20));
                bed.other(lines);
                bed.journal.take();
                let new = ports((1..=20).map(|n| if n == 10 { 100 } else { n }));
                write(&mut updater, "web-a", &new);
                let (restores, _) = bed.journal.take();
                assert_eq!(restores.len(), 2, "{what}: {restores:#?}");
                assert_eq!(updater.stats().edits_refused, 1, "{what}");
                assert_eq!(updater.stats().chains_edited, 0, "{what}");
                write(&mut whole(&bed), "whole-a", &new);
                assert_eq!(bed.rules("web-a"), bed.rules("whole-a"), "{what}");
                updater.delete_chains(["web-a"]).expect("deleted");
            }
        },
    );
}

#[test]
fn a_rule_that_iptables_refuses_is_the_error_and_nothing_changes() {
    each_bed(
        "a_rule_that_iptables_refuses_is_the_error_and_nothing_changes",
        |bed| {
            let mut updater = minimal(&bed);
            write(&mut updater, "web-a", &ports(1..=20));
            let before = bed.save();
            let mut bad = ports(1..=20);
            bad.push("-m no-such-match -j DROP".to_owned());
            let chain = Chain::new("web-a", &bad).unwrap();
            let error = updater.rewrite_chains([chain]).unwrap_err();
            let Error::Restore(error) = error else {
                panic!("{error}")
            };
            assert_eq!(error.chain.as_deref(), Some("web-a"), "{error}");
            assert_eq!(error.request, Some(0), "{error}");
            let rules = |save: &str| -> Vec<String> {
                let lines = save.lines().filter(|line| !line.starts_with('#'));
                lines.map(str::to_owned).collect()
            };
            assert_eq!(rules(&bed.save()), rules(&before));
            assert!(updater.verify().expect("read").is_empty());
        },
    );
}

#[test]
fn what_somebody_else_changed_before_an_edit_is_still_seen_after_it() {
    each_bed(
        "what_somebody_else_changed_before_an_edit_is_still_seen_after_it",
        |bed| {
            let mut updater = minimal(&bed);
            write(&mut updater, "web-a", &ports(1..=20));
            assert!(updater.verify().expect("read").is_empty());
            // As many rules, with the same targets.
            bed.other("-R web-a 3 -p tcp --dport 3 -j ACCEPT");
            write(&mut updater, "web-a", &ports(1..=21));
            assert_eq!(updater.stats().chains_edited, 1);
            let drift = updater.refresh().expect("repaired");
            let [changed] = drift.changed.as_slice() else {
                panic!("{drift:#?}")
            };
            let lost: Vec<_> = changed.lost.iter().map(ToString::to_string).collect();
            assert_eq!(lost, [port(3)]);
            assert_eq!(changed.foreign.len(), 1);
            assert!(updater.refresh().expect("read").is_empty());
            let rules = bed.rules("web-a").expect("it is there");
            assert_eq!(rules.len(), 21);
            assert!(rules.iter().all(|rule| rule.starts_with("-p udp")));
        },
    );
}

#[test]
fn the_rules_that_stay_keep_their_counters() {
    each_kernel("the_rules_that_stay_keep_their_counters", |kernel| {
        let mut updater = IptablesUpdater::builder(Table::Filter)
            .chain_prefix("web-")
            .update_mode(UpdateMode::Minimal)
            .open(kernel.executor())
            .expect("open");
        let mut write = |contents: &[String]| {
            let chain = Chain::new("web-a", contents).unwrap();
            updater.rewrite_chains([chain]).expect("written");
        };
        write(&ports(1..=20));
        send_packets(kernel);
        assert_eq!(packets(kernel), (1..=20).collect::<Vec<_>>());
        let counts = |contents: &[usize]| -> Vec<usize> {
            let expected = contents.iter();
            expected
                .map(|port| if (1..=20).contains(port) { *port } else { 0 })
                .collect()
        };
        // Replaced, appended, inserted at the top, removed.
        let steps: [&[usize]; 4] = [
            &[
                1, 2, 3, 4, 5, 6, 7, 8, 9, 100, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
            ],
            &[
                1, 2, 3, 4, 5, 6, 7, 8, 9, 100, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
            ],
            &[
                0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 100, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
            ],
            &[
                0, 1, 2, 3, 4, 6, 7, 8, 9, 100, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
            ],
        ];
        for contents in steps {
            write(&ports(contents.iter().copied()));
            assert_eq!(packets(kernel), counts(contents), "{contents:?}");
        }
        // Between 12 and 13, of which the first is written again.
        let mut last = steps[3].to_vec();
        let place = last.iter().position(|port| *port == 13).unwrap();
        last.insert(place, 130);
        write(&ports(last.iter().copied()));
        let mut expected = counts(&last);
        expected[place - 1] = 0;
        assert_eq!(packets(kernel), expected);
        assert_eq!(updater.stats().chains_edited, 5);
    });
}

/// Sends as many packets to each of the ports 1 to 20 as its number says, by way of the chain.
fn send_packets(kernel: Kernel) {
    kernel.must_restore("*filter\n-A OUTPUT -j web-a\nCOMMIT\n");
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    assert!(up.expect("iproute2").success());
    let address = match kernel.version {
        IpVersion::V4 => IpAddr::from(Ipv4Addr::LOCALHOST),
        IpVersion::V6 => IpAddr::from(Ipv6Addr::LOCALHOST),
    };
    let socket = UdpSocket::bind((address, 0)).expect("a socket");
    for port in 1..=20_u16 {
        for _ in 0..port {
            let sent = socket.send_to(b"x", (address, port));
            assert_eq!(sent.expect("sent"), 1);
        }
    }
}

/// The packets that each rule of the chain has met.
fn packets(kernel: Kernel) -> Vec<usize> {
    let output = Command::new(kernel.program("save"))
        .args(["-c", "-t", "filter"])
        .output()
        .expect("iptables-save");
    let text = String::from_utf8(output.stdout).expect("text");
    let rules = text.lines().filter(|line| line.contains("-A web-a "));
    let packets = rules.map(|line| line[1..line.find(':').expect("counters")].parse());
    packets.collect::<Result<_, _>>().expect("numbers")
}

/// A second program inserts and removes rules of its own anywhere in the chain, as fast as it can, while rules of ours are
/// replaced, inserted and removed in place. Ours stand in their order after each commit, whatever became of the edit.
#[test]
fn with_a_second_writer_in_the_chain_ours_stay_in_order() {
    each_kernel(
        "with_a_second_writer_in_the_chain_ours_stay_in_order",
        |kernel| {
            let mut updater = IptablesUpdater::builder(Table::Filter)
                .chain_prefix("web-")
                .update_mode(UpdateMode::Minimal)
                .open(kernel.executor())
                .expect("open");
            let mut random = StdRng::seed_from_u64(1);
            let mut contents: Vec<usize> = (1..=30).collect();
            let mut next = 31;
            let mut write = |contents: &[usize]| {
                let chain = Chain::new("web-a", ports(contents.iter().copied())).unwrap();
                updater.rewrite_chains([chain]).expect("written");
            };
            write(&contents);
            let ended = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    let mut random = StdRng::seed_from_u64(2);
                    let mut acts = 0;
                    while !ended.load(Ordering::Relaxed) {
                        let place = random.random_range(1..=10);
                        let mark = random.random_range(1..=5);
                        let rule = format!("-m mark --mark {mark} -j DROP");
                        // Either may fail: the rule may be gone with a rewrite, or there already.
                        let insert = format!("*filter\n-I web-a {place} {rule}\nCOMMIT\n");
                        let delete = format!("*filter\n-D web-a {rule}\nCOMMIT\n");
                        let input = if random.random_bool(0.5) {
                            insert
                        } else {
                            delete
                        };
                        acts += usize::from(kernel.restore(&input).status.success());
                    }
                    acts
                });
                for _ in 0..60 {
                    let place = random.random_range(0..contents.len());
                    match random.random_range(0..3) {
                        0 if contents.len() > 20 => drop(contents.remove(place)),
                        1 => contents[place] = next,
                        _ => contents.insert(place, next),
                    }
                    next += 1;
                    write(&contents);
                    let rules = kernel.rules(Table::Filter, "web-a").expect("it is there");
                    let ours: Vec<usize> = rules
                        .iter()
                        .filter(|rule| rule.contains("--dport"))
                        .map(|rule| {
                            let words: Vec<&str> = rule.split(' ').collect();
                            let option = words.iter().position(|word| *word == "--dport");
                            words[option.unwrap() + 1].parse().unwrap()
                        })
                        .collect();
                    assert_eq!(ours, contents);
                }
                ended.store(true, Ordering::Relaxed);
                let acts = writer.join().expect("the second writer");
                assert!(acts > 20, "{acts} acts");
            });
            let stats = updater.stats();
            eprintln!(
                "{kernel:?}: {} edits, {} refused",
                stats.chains_edited, stats.edits_refused
            );
            assert!(
                stats.chains_edited > 0 && stats.edits_refused > 0,
                "{stats:#?}"
            );
        },
    );
}
