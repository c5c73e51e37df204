//! Any sequence of requests on the simulated kernel, with faults, and with another program that writes, too.

use iptables_updater::memory::Fault;
use iptables_updater::{
    Backend, Chain, ChainState, Error, FailureClass, IpVersion, IptablesUpdater, MemoryExecutor,
    Position, Request, Table,
};

use super::bytes::Bytes;
use super::canned::builder;
use super::presentable;

type Updater = IptablesUpdater<MemoryExecutor>;

const NAMES: [&str; 5] = ["web-a", "web-b", "web-c", "web-d", "web-e"];

const RULES: [&str; 10] = [
    "-j web-a",
    "-j web-b",
    "-p tcp -j web-c",
    "-g web-d",
    "-j web-e",
    "-p udp --dport 53 -j ACCEPT",
    "-j DROP",
    "-m comment --comment \"COMMIT -j web-a\" -j RETURN",
    // Refused: there is no such chain; no such match.
    "-j nowhere",
    "-m nonsense -j web-b",
];

const HOOKS: [&str; 3] = ["-j web-a", "-p tcp -j web-b", "-g web-c"];

const FAULTS: [Fault; 9] = [
    Fault::Fails(FailureClass::LockHeld),
    Fault::Fails(FailureClass::Race),
    Fault::Fails(FailureClass::Ambiguous),
    Fault::Fails(FailureClass::TargetAbsent),
    Fault::Fails(FailureClass::Refused),
    Fault::Hangs,
    Fault::HangsAfterCommit,
    Fault::KilledBeforeCommit,
    Fault::KilledAfterCommit,
];

const OTHERS: &str = "*filter\n:other - [0:0]\n:web-d - [0:0]\n:web-old - [0:0]\n\
     -A other -p tcp -j RETURN\n-A INPUT -j other\n-A web-d -j DROP\n-A web-old -j web-d\nCOMMIT\n";

/// What is left of a previous run; what others have written isn't ours to change.
const LEFT: [&str; 2] = ["web-d", "web-old"];

pub fn requests(data: &[u8]) {
    let mut bytes = Bytes(data);
    let backend = bytes.of(&[Backend::NfTables, Backend::Legacy]);
    let kernel = MemoryExecutor::new(IpVersion::V4, backend);
    kernel.with_other_program(|other| assert!(other.restore(OTHERS).exit.is_success()));
    let before = others(&kernel);
    let mut updater = builder().open(kernel.clone()).unwrap();
    let mut steps = 0;
    while !bytes.is_empty() && steps < 40 {
        steps += 1;
        let index = updater.index().clone();
        let faulty = bytes.next() % 8 == 7;
        if faulty {
            kernel.fail_restore(1 + usize::from(bytes.next() % 3), bytes.of(&FAULTS));
        }
        let (changes_chains, result) = step(&kernel, &mut updater, &mut bytes);
        kernel.clear_faults();
        if let Err(error) = &result {
            presentable(error);
            assert!(!changes_chains || *updater.index() == index, "{error}");
        }
        assert_eq!(others(&kernel), before);
        if faulty {
            // A killed restore may have been applied, and deletions may have failed: this finds out.
            let result = updater.refresh_all().map(drop);
            refreshed(&updater, result);
            updater.cleanup().expect("a cleanup");
        }
        exact(&kernel, &mut updater);
    }
    updater.cleanup().expect("a cleanup");
    exact(&kernel, &mut updater);
    for name in kernel.chains(Table::Filter) {
        let wanted = updater.index().state(&name) != ChainState::Absent;
        assert!(
            wanted || !name.starts_with("web-") || is_referred(&kernel, &name),
            "{name} is an orphan"
        );
    }
}

/// Only a hook rule can't be put back, if it jumps to a chain that was deleted by request.
fn refreshed(updater: &Updater, result: Result<(), Error>) {
    let Err(error) = result else { return };
    let Error::Restore(refused) = &error else {
        panic!("{error}")
    };
    let object = refused.object.as_deref().unwrap_or_default();
    let target = refused.class == FailureClass::TargetAbsent;
    let deleted = updater.index().state(object) == ChainState::Absent;
    assert!(target && deleted, "{error}");
}

/// One call; whether it is one that leaves the index as it was if it fails.
fn step(
    kernel: &MemoryExecutor,
    updater: &mut Updater,
    bytes: &mut Bytes<'_>,
) -> (bool, Result<(), Error>) {
    match bytes.next() % 12 {
        0..=2 => {
            let chains = chains(bytes);
            (true, updater.rewrite_chains(chains).map(drop))
        }
        3 => (true, updater.delete_chains([bytes.of(&NAMES)]).map(drop)),
        4 => {
            let requests = [
                Request::rewrite(chains(bytes)),
                Request::delete([bytes.of(&NAMES)]).unwrap(),
                Request::rewrite(chains(bytes)),
            ];
            let results = updater.apply(&requests);
            results
                .iter()
                .filter_map(|result| result.as_ref().err())
                .for_each(presentable);
            (false, Ok(()))
        }
        5 => hook(bytes, |chain, rule| {
            updater.ensure_rule_inserted(chain, rule)
        }),
        6 => hook(bytes, |chain, rule| {
            updater.ensure_rule_appended(chain, rule)
        }),
        7 => hook(bytes, |chain, rule| {
            updater.ensure_rule_removed(chain, rule)
        }),
        8 => hook(bytes, |chain, rule| {
            updater.ensure_rule(Position::Append, chain, rule).map(drop)
        }),
        9 => (false, updater.cleanup().map(drop)),
        10 => (false, updater.refresh().map(drop)),
        _ => {
            meddle(kernel, bytes);
            let result = updater.refresh().map(drop);
            (false, result)
        }
    }
}

fn hook(
    bytes: &mut Bytes<'_>,
    mut call: impl FnMut(&'static str, &'static str) -> Result<(), Error>,
) -> (bool, Result<(), Error>) {
    (
        true,
        call(bytes.of(&["FORWARD", "OUTPUT"]), bytes.of(&HOOKS)),
    )
}

fn chains(bytes: &mut Bytes<'_>) -> Vec<Chain> {
    let count = 1 + bytes.next() % 2;
    let chain = |_| {
        let name = bytes.of(&NAMES);
        let rules: Vec<_> = (0..bytes.next() % 4).map(|_| bytes.of(&RULES)).collect();
        Chain::new(name, rules).unwrap()
    };
    (0..count).map(chain).collect()
}

/// Another program changes what is ours.
fn meddle(kernel: &MemoryExecutor, bytes: &mut Bytes<'_>) {
    let chain = bytes.of(&NAMES);
    let command = match bytes.next() % 5 {
        0 => format!("-F {chain}"),
        1 => format!("-A {chain} -p icmp -j ACCEPT"),
        2 => format!("-D {chain} 1"),
        3 => "-F FORWARD".to_owned(),
        _ => format!("-F FORWARD\n-F OUTPUT\n-F {chain}\n-X {chain}"),
    };
    // That chain may not be there: then nothing happens.
    kernel.with_other_program(|other| other.restore(&format!("*filter\n{command}\nCOMMIT\n")));
}

/// The dataplane is what the index says.
fn exact(kernel: &MemoryExecutor, updater: &mut Updater) {
    let names = kernel.chains(Table::Filter);
    for name in names.iter().filter(|name| name.starts_with("web-")) {
        let rules = kernel.rules(Table::Filter, name).unwrap();
        match updater.index().state(name) {
            ChainState::Programmed => {
                let programmed = updater.index().programmed(name).unwrap().rules().len();
                assert_eq!(rules.len(), programmed, "{name}");
            }
            ChainState::Leftover => assert!(LEFT.contains(&name.as_str()), "{name}"),
            ChainState::Stub => assert!(
                rules.len() == 1 && rules[0].ends_with("-j DROP"),
                "{name}: {rules:?}"
            ),
            // What couldn't be deleted, because a hook rule refers to it, waits for the next cleanup as a stub;
            // another program may have written into it since.
            _ => {}
        }
        for target in rules.iter().filter_map(|rule| target(rule)) {
            assert!(
                !target.starts_with("web-") || names.contains(&target.to_owned()),
                "{rules:?}"
            );
        }
    }
    for chain in updater.index().required_chains() {
        assert!(
            names.iter().any(|name| chain == name.as_str()),
            "{chain} is missing"
        );
    }
    for chain in updater.index().programmed_chains() {
        assert!(
            names.iter().any(|name| chain == name.as_str()),
            "{chain:?} is missing"
        );
    }
    let drift = updater.verify().expect("a reading");
    assert!(
        drift.missing.is_empty() && drift.changed.is_empty(),
        "{drift:?}"
    );
    assert!(drift.missing_stubs.is_empty(), "{drift:?}");
}

fn is_left(updater: &Updater, name: &str) -> bool {
    LEFT.contains(&name) && updater.index().state(name) == ChainState::Absent
}

fn is_referred(kernel: &MemoryExecutor, name: &str) -> bool {
    let chains = kernel.chains(Table::Filter).into_iter();
    let mut rules = chains.flat_map(|chain| kernel.rules(Table::Filter, &chain).unwrap());
    rules.any(|rule| target(&rule) == Some(name))
}

/// The target of a saved rule that jumps or goes to a chain: its last word.
fn target(rule: &str) -> Option<&str> {
    let (head, last) = rule.rsplit_once(' ')?;
    head.ends_with(['j', 'g']).then_some(last)
}

/// What others have, apart from our hook rules.
fn others(kernel: &MemoryExecutor) -> Vec<(String, Vec<String>)> {
    let mut chains = kernel.chains(Table::Filter);
    chains.retain(|name| !name.starts_with("web-"));
    let rules = |name: String| {
        let mut rules = kernel.rules(Table::Filter, &name).unwrap();
        rules.retain(|rule| !target(rule).is_some_and(|target| target.starts_with("web-")));
        (name, rules)
    };
    chains.into_iter().map(rules).collect()
}
