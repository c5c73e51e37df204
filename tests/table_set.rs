//! Several tables and both IP versions as one: on the simulated and the real kernel.

mod common;

use common::{KERNELS, each_kernel_of};
use iptables_updater::memory::Fault;
use iptables_updater::{
    Backend, Chain, CommandExecutor, Error, ExecutorError, FailureClass, IpVersion, MemoryExecutor,
    Place, RetryPolicy, Rule, Table, TableSet, TableSetBuilder, TableSetError, UpdaterBuilder,
};

fn chain() -> Chain {
    let rules = [
        Rule::new("-s 192.0.2.0/24 -j web-four")
            .unwrap()
            .only_for(IpVersion::V4),
        Rule::new("-s 2001:db8::/32 -j web-six")
            .unwrap()
            .only_for(IpVersion::V6),
        Rule::new("-j RETURN").unwrap(),
    ];
    Chain::new("web-a", rules).unwrap()
}

#[test]
fn a_rule_for_one_ip_version_is_left_out_of_the_other() {
    each_kernel_of(
        Backend::NfTables,
        "a_rule_for_one_ip_version_is_left_out_of_the_other",
        |_| {
            for backend in [Backend::NfTables, Backend::Legacy] {
                let builder = TableSet::builder()
                    .chain_prefix("web-")
                    .table(Table::Filter);
                let builder = builder
                    .table(Table::Nat)
                    .version(IpVersion::V4)
                    .version(IpVersion::V6);
                let open = |version| CommandExecutor::builder(version).backend(backend).build();
                let mut set = builder.open(open).unwrap();
                assert_eq!(set.places().count(), 4);
                set.rewrite_chains(Table::Filter, [chain()]).all().unwrap();
                set.rewrite_chains(Table::Nat, [chain()]).all().unwrap();
                let hook = Rule::new("-j web-a").unwrap();
                set.ensure_rule_inserted(
                    Table::Filter,
                    "INPUT",
                    hook.clone().only_for(IpVersion::V6),
                )
                .all()
                .unwrap();
                set.ensure_rule_inserted(Table::Nat, "OUTPUT", hook)
                    .all()
                    .unwrap();
                for kernel in KERNELS
                    .into_iter()
                    .filter(|kernel| kernel.backend == backend)
                {
                    let (own, stub) = match kernel.version {
                        IpVersion::V4 => ("-s 192.0.2.0/24 -j web-four", "web-four"),
                        IpVersion::V6 => ("-s 2001:db8::/32 -j web-six", "web-six"),
                    };
                    assert_eq!(
                        kernel.rules(Table::Filter, "web-a").unwrap(),
                        [own, "-j RETURN"]
                    );
                    assert_eq!(kernel.chains(Table::Filter, "web-"), ["web-a", stub]);
                    let hooks = kernel.rules(Table::Filter, "INPUT").unwrap().len();
                    assert_eq!(hooks, usize::from(kernel.version == IpVersion::V6));
                    assert_eq!(kernel.rules(Table::Nat, "OUTPUT").unwrap(), ["-j web-a"]);
                }
                assert!(
                    set.refresh()
                        .all()
                        .unwrap()
                        .iter()
                        .all(|(_, drift)| drift.is_empty())
                );
                set.cleanup().all().unwrap();
                set.delete_chains(Table::Nat, ["web-a"]).all().unwrap();
            }
        },
    );
}

#[test]
fn what_is_missing_is_left_out_only_if_it_may_be() {
    let missing = || ExecutorError::NotFound {
        program: "ip6tables-restore".into(),
    };
    let open = |version| match version {
        IpVersion::V4 => Ok(MemoryExecutor::new(version, Backend::Legacy)),
        IpVersion::V6 => Err(missing()),
    };
    let builder = TableSet::builder()
        .chain_prefix("web-")
        .table(Table::Filter);
    let both = builder
        .clone()
        .version(IpVersion::V4)
        .version(IpVersion::V6);
    let error = both.open(open).unwrap_err();
    let sentence = format!("table filter of IPv6: {}", missing());
    assert_eq!(error.to_string(), sentence);
    let Error::Place { place, source } = error else {
        panic!("{error}");
    };
    assert_eq!((place.version, place.table), (IpVersion::V6, Table::Filter));
    assert!(matches!(
        *source,
        Error::Executor(ExecutorError::NotFound { .. })
    ));
    let lenient = builder
        .version(IpVersion::V4)
        .optional_version(IpVersion::V6);
    let set = lenient.open(open).unwrap();
    assert_eq!(set.places().count(), 1);
    assert_eq!(set.absent()[0].0, place);
    assert_eq!(place.to_string(), "table filter of IPv6");
}

#[test]
fn a_table_that_the_kernel_lacks_may_be_optional() {
    let open = |version| {
        let kernel = MemoryExecutor::new(version, Backend::Legacy);
        kernel.fail_save(1, Fault::Fails(FailureClass::NoTable));
        Ok(kernel)
    };
    let builder = TableSet::builder()
        .chain_prefix("web-")
        .version(IpVersion::V4);
    assert!(builder.clone().table(Table::Security).open(open).is_err());
    let set = builder.optional_table(Table::Security).open(open).unwrap();
    assert_eq!((set.places().count(), set.absent().len()), (0, 1));
}

/// What is there and fails just now is no reason to go on without it: the host would be open on IPv6.
#[test]
fn an_optional_place_that_fails_otherwise_is_an_error() {
    for class in [
        FailureClass::NoPrivilege,
        FailureClass::LockHeld,
        FailureClass::LockFile,
        FailureClass::Ambiguous,
        FailureClass::Race,
    ] {
        let open = |version| {
            let kernel = MemoryExecutor::new(version, Backend::Legacy);
            if version == IpVersion::V6 {
                for call in 1..=20 {
                    kernel.fail_save(call, Fault::Fails(class));
                }
            }
            Ok(kernel)
        };
        let builder = TableSet::builder()
            .chain_prefix("web-")
            .table(Table::Filter)
            .version(IpVersion::V4)
            .optional_version(IpVersion::V6);
        let settings = |_, builder: UpdaterBuilder| builder.retry(RetryPolicy::never());
        let error = builder.open_with(open, settings).unwrap_err();
        let Error::Place { place, .. } = &error else {
            panic!("{class:?}: {error}");
        };
        assert_eq!(place.version, IpVersion::V6, "{class:?}");
        assert!(error.class().is_some(), "{class:?}: {error}");
    }
}

#[test]
fn a_set_that_cannot_be_meant_is_refused_before_anything_is_run() {
    let builder = || TableSet::builder().chain_prefix("web-");
    let never = |version| -> Result<MemoryExecutor, _> { panic!("opened for {version}") };
    let refused = |builder: TableSetBuilder| match builder.open(never).unwrap_err() {
        Error::TableSet(error) => error,
        other => panic!("{other}"),
    };
    let table = Table::Filter;
    let version = IpVersion::V4;
    assert_eq!(refused(builder().version(version)), TableSetError::NoTable);
    assert_eq!(refused(builder().table(table)), TableSetError::NoVersion);
    // One of the two updaters would delete the chains of the other.
    assert_eq!(
        refused(
            builder()
                .table(table)
                .optional_table(table)
                .version(version)
        ),
        TableSetError::TableTwice { table }
    );
    assert_eq!(
        refused(builder().table(table).version(version).version(version)),
        TableSetError::VersionTwice { version }
    );
}

#[test]
fn a_call_for_a_table_that_was_never_named_fails_at_each_ip_version() {
    let open = |version| Ok(MemoryExecutor::new(version, Backend::NfTables));
    let mut set = TableSet::builder()
        .chain_prefix("web-")
        .table(Table::Filter)
        .version(IpVersion::V4)
        .version(IpVersion::V6)
        .open(open)
        .unwrap();
    let table = Table::Nat;
    for outcome in [
        set.rewrite_chains(table, [chain()]).all().unwrap_err(),
        set.delete_chains(table, ["web-a"]).all().unwrap_err(),
        set.ensure_rule_inserted(table, "OUTPUT", "-j web-a")
            .all()
            .unwrap_err(),
    ] {
        let Error::Place { place, source } = outcome else {
            panic!("{outcome}");
        };
        assert_eq!(place.table, table);
        assert!(matches!(
            *source,
            Error::TableSet(TableSetError::NotInSet { table: Table::Nat })
        ));
    }
    assert_eq!(set.rewrite_chains(table, [chain()]).iter().count(), 2);
}

#[test]
fn a_failure_at_one_place_is_told_for_that_place() {
    let (four, six) = (
        MemoryExecutor::new(IpVersion::V4, Backend::NfTables),
        MemoryExecutor::new(IpVersion::V6, Backend::NfTables),
    );
    let open = |version| {
        Ok(match version {
            IpVersion::V4 => four.clone(),
            IpVersion::V6 => six.clone(),
        })
    };
    let builder = TableSet::builder()
        .chain_prefix("web-")
        .table(Table::Filter);
    let mut set = builder
        .version(IpVersion::V4)
        .version(IpVersion::V6)
        .open(open)
        .unwrap();
    six.fail_restore(1, Fault::Fails(FailureClass::Refused));
    let outcomes = set.rewrite_chains(Table::Filter, [chain()]);
    let failed: Vec<_> = outcomes
        .iter()
        .filter(|(_, result)| result.is_err())
        .map(|(place, _)| *place)
        .collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].version, IpVersion::V6);
    assert!(four.rules(Table::Filter, "web-a").is_some());
    assert!(six.rules(Table::Filter, "web-a").is_none());
    let place = Place {
        version: IpVersion::V4,
        table: Table::Filter,
    };
    assert_eq!(set.updater(place).unwrap().stats().requests, 1);
}
