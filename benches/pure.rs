//! What the library's own work costs, without iptables: a transaction at several sizes, a whole commit, a save
//! parsed, a failure classified, and the memory that held rules take.
//!
//! `cargo bench --bench pure [-- FILTER]`. Needs neither root nor iptables.

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use iptables_updater::{
    Backend, Chain, Change, Executor, ExecutorError, Failure, Index, IpVersion, IptablesUpdater,
    Outcome, Prefixes, SavedTable, Table, Transaction,
};

fn main() {
    memory();
    divan::main();
}

/// A kernel that takes everything at once: what is left is what ours costs.
struct Nothing {
    backend: Backend,
    /// What stands in the table.
    save: String,
}

impl Executor for Nothing {
    fn ip_version(&self) -> IpVersion {
        IpVersion::V4
    }

    fn backend(&self) -> Backend {
        self.backend
    }

    fn restore(&mut self, input: &str) -> Result<Outcome, ExecutorError> {
        black_box(input);
        Ok(Outcome::success(""))
    }

    fn save(&mut self, _: Table) -> Result<Outcome, ExecutorError> {
        Ok(Outcome::success(self.save.as_str()))
    }
}

fn name(n: usize) -> String {
    format!("b-{n:06}")
}

/// Five rules, the last of which leads to the chain's second half, if it is a first.
fn chain(n: usize, of: usize) -> Chain {
    let rules = (0..4).map(|rule| {
        let (high, low) = (n / 256 % 256, n % 256);
        format!(
            "-s 10.{high}.{low}.{rule}/32 -p tcp -m tcp --dport {} -j ACCEPT",
            1024 + n % 60_000
        )
    });
    let last = match n + of / 2 {
        other if other < of => format!("-j {}", name(other)),
        _ => "-j RETURN".to_owned(),
    };
    let rules = rules.chain([last]);
    Chain::new(name(n), rules).expect("a chain")
}

fn chains(count: usize) -> Vec<Chain> {
    (0..count).map(|n| chain(n, count)).collect()
}

fn other_contents(count: usize) -> Chain {
    Chain::new(name(count / 4), ["-j DROP"]).expect("a chain")
}

fn open(backend: Backend) -> IptablesUpdater<Nothing> {
    let save = "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n".to_owned();
    IptablesUpdater::builder(Table::Filter)
        .chain_prefix("b-")
        .open(Nothing { backend, save })
        .expect("an updater")
}

fn held(count: usize) -> Index {
    let mut index = Index::new(Prefixes::new(["b-"]).expect("a prefix"));
    let changes: Vec<Change> = chains(count).into_iter().map(Change::Rewrite).collect();
    let mut transaction = Transaction::new(&index);
    transaction.request(&changes, 0).expect("no circle");
    let update = transaction.delta().into_update();
    index.apply(update);
    index
}

/// One chain's transaction; its cost mustn't depend on how many are held.
#[divan::bench(args = [1_000, 10_000, 100_000])]
fn transaction_for_one_chain(bencher: Bencher<'_, '_>, count: usize) {
    let index = held(count);
    let change = [Change::Rewrite(other_contents(count))];
    bencher.bench_local(|| {
        let mut transaction = Transaction::new(&index);
        transaction
            .request(black_box(&change), 0)
            .expect("no circle");
        transaction.delta()
    });
}

/// All that the updater itself does for new chains: transaction, rendering, and keeping them.
#[divan::bench(args = [1_000, 20_000], sample_count = 10)]
fn commit_of_new_chains(bencher: Bencher<'_, '_>, count: usize) {
    bencher
        .counter(ItemsCount::new(count))
        .with_inputs(|| (open(Backend::NfTables), chains(count)))
        .bench_local_refs(|(updater, chains)| {
            updater.rewrite_chains(chains.drain(..)).expect("written")
        });
}

/// A rewrite of one chain among many, from the call to the kernel and back.
#[divan::bench(args = [1_000, 20_000])]
fn commit_of_one_chain(bencher: Bencher<'_, '_>, count: usize) {
    let mut updater = open(Backend::NfTables);
    updater.rewrite_chains(chains(count)).expect("written");
    let mut contents = [other_contents(count), chain(count / 4, count)]
        .into_iter()
        .cycle();
    bencher
        .with_inputs(|| contents.next())
        .bench_local_values(|chain| updater.rewrite_chains(chain).expect("written"));
}

/// A rewrite of every chain with what it has.
#[divan::bench(args = [20_000], sample_count = 10)]
fn rewrite_that_changes_nothing(bencher: Bencher<'_, '_>, count: usize) {
    let mut updater = open(Backend::NfTables);
    updater.rewrite_chains(chains(count)).expect("written");
    bencher
        .with_inputs(|| chains(count))
        .bench_local_values(|chains| updater.rewrite_chains(chains).expect("nothing to do"));
}

/// A refresh that finds nothing to do: the reading, and the comparison with what is programmed.
#[divan::bench(args = [20_000], sample_count = 10)]
fn refresh_without_drift(bencher: Bencher<'_, '_>, count: usize) {
    let mut updater = open(Backend::NfTables);
    updater.rewrite_chains(chains(count)).expect("written");
    updater.executor_mut().save = save(count);
    bencher.bench_local(|| assert!(updater.refresh().expect("read").is_empty()));
}

/// What iptables-save prints of these chains.
fn save(count: usize) -> String {
    let mut save =
        "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n".to_owned();
    for n in 0..count {
        writeln!(save, ":{} - [0:0]", name(n)).expect("a string grows");
    }
    // One after the other, so that the memory figure sees nothing of them.
    for chain in (0..count).map(|n| chain(n, count)) {
        for rule in chain.rules() {
            writeln!(save, "-A {} {rule}", chain.name()).expect("a string grows");
        }
    }
    save.push_str("COMMIT\n");
    save
}

/// A save of 50,000 chains and 250,000 rules.
#[divan::bench(sample_count = 10)]
fn parse_of_250_000_rules(bencher: Bencher<'_, '_>) {
    let save = save(50_000);
    bencher.counter(BytesCount::of_str(&save)).bench_local(|| {
        SavedTable::parse(save.as_bytes(), Table::Filter)
            .expect("a save")
            .chains()
            .len()
    });
}

/// The message of a restore that failed at a line.
#[divan::bench]
fn classify(bencher: Bencher<'_, '_>) {
    let input = "*filter\n:b-1 - [0:0]\n-A b-1 -j b-2\nCOMMIT\n";
    let failed = Outcome::failure(
        2,
        "iptables-restore v1.8.9 (legacy): Couldn't load target `b-2':No such file or directory\n\n\
         Error occurred at line: 3\nTry `iptables-restore -h' or 'iptables-restore --help' for more information.\n",
    );
    bencher.bench_local(|| Failure::of_restore(black_box(&failed), input).expect("a failure"));
}

/// Resident bytes for each byte of the rules' text, while 250,000 rules are held: by an index, and by an updater that
/// has read the table once, and so knows how iptables prints them.
fn memory() {
    const CHAINS: usize = 50_000;
    let texts = (0..CHAINS).map(|n| {
        let chain = chain(n, CHAINS);
        let rules = chain.rules().iter();
        rules.map(|rule| rule.as_str().len()).sum::<usize>()
    });
    let text: usize = texts.sum();
    let save = save(CHAINS);
    let mut updater = open(Backend::NfTables);
    let before = resident();
    for first in (0..CHAINS).step_by(500) {
        let chains = (first..first + 500).map(|n| chain(n, CHAINS));
        updater.rewrite_chains(chains).expect("written");
    }
    let held = resident() - before;
    updater.executor_mut().save = save;
    let before = resident();
    assert!(updater.refresh().expect("read").is_empty());
    let learned = resident() - before;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let ratio = |bytes: usize| bytes as f64 / text as f64;
    println!(
        "memory: 250,000 rules in 50,000 chains, {} bytes of text a rule: {} resident bytes a rule, {:.2} times the \
         text; {:.2} times after a refresh\n",
        text / 250_000,
        held / 250_000,
        ratio(held),
        ratio(held + learned),
    );
    drop(black_box(updater));
}

fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line
        .and_then(|line| line.trim().strip_suffix(" kB"))
        .expect("it is there");
    kibibytes.trim().parse::<usize>().expect("a number") * 1024
}
