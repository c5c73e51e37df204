//! What can be sent to another thread, shared, printed and boxed: a change here breaks programs.

use std::fmt::Debug;

use iptables_updater::memory::{Fault, JournalEntry};
use iptables_updater::worker::{Handle, Ticket, WorkerConfig};
use iptables_updater::{
    Backend, BadRule, Chain, ChainError, ChainName, ChainNameError, Change, Changes, CleanupReport,
    CommandExecutor, CommandExecutorBuilder, Delta, Drift, Error, ExecutorError, Failure,
    FailureClass, Graph, HookChain, Index, IpVersion, IptablesUpdater, MemoryExecutor, Outcome,
    Plan, Prefixes, Request, RestoreError, RestoreInput, RetryPolicy, Rule, RuleError, SaveError,
    SavedTable, Stats, Table, TableSet, Transaction, UpdaterBuilder,
};

fn anywhere<T: Debug + Send + Sync>() {}
fn sent<T: Debug + Send>() {}
fn error<T: std::error::Error + Send + Sync + 'static>() {}

#[test]
fn values_are_anywhere_and_updaters_can_be_sent() {
    anywhere::<(Backend, IpVersion, Table, FailureClass, RetryPolicy, Stats)>();
    anywhere::<(Chain, ChainName, HookChain, Rule, Prefixes, Change, Request)>();
    anywhere::<(Index, Transaction<'_>, Delta, RestoreInput, SavedTable<'_>)>();
    anywhere::<(Plan, Graph, Drift, Changes, CleanupReport, Failure, Outcome)>();
    anywhere::<(
        CommandExecutor,
        CommandExecutorBuilder,
        MemoryExecutor,
        Fault,
        JournalEntry,
    )>();
    anywhere::<(WorkerConfig, Handle<CommandExecutor>)>();
    sent::<(
        IptablesUpdater<CommandExecutor>,
        TableSet<CommandExecutor>,
        UpdaterBuilder,
    )>();
    sent::<Ticket<()>>();
}

#[test]
fn errors_are_errors() {
    error::<Error>();
    error::<RestoreError>();
    error::<ExecutorError>();
    error::<SaveError>();
    error::<ChainError>();
    error::<ChainNameError>();
    error::<RuleError>();
    error::<BadRule>();
}

#[test]
fn nothing_prints_a_giant() {
    let mut filter = IptablesUpdater::builder(Table::Filter)
        .chain_prefix("web-")
        .open(MemoryExecutor::new(IpVersion::V4, Backend::NfTables))
        .unwrap();
    let request = Request::rewrite((0..500).map(|n| {
        let rules = (0..50).map(|port| format!("-p tcp --dport {port} -j ACCEPT"));
        Chain::new(format!("web-{n}"), rules).unwrap()
    }));
    let plan = filter.plan(std::slice::from_ref(&request)).unwrap();
    assert!(filter.apply(&[request])[0].is_ok());
    for (what, text) in [
        ("updater", format!("{filter:?}")),
        ("index", format!("{:?}", filter.index())),
        ("executor", format!("{:?}", filter.executor())),
        ("plan", format!("{plan:?}")),
        ("input", format!("{:?}", plan.commit_input().unwrap())),
    ] {
        assert!(text.len() < 20_000, "{what} prints {} bytes", text.len());
    }
}
