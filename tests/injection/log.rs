//! What others have written into a table, or a program prints, comes out escaped in errors and in log lines.

use std::sync::Mutex;

use iptables_updater::{
    Backend, Chain, Executor, ExecutorError, IpVersion, IptablesUpdater, MemoryExecutor, Outcome,
    Table,
};
use log::{Level, LevelFilter, Log, Metadata, Record};

use super::common::bed::NoWaiting;
use super::presentable;

/// Clears the screen, sets the title, turns red, in seven and in eight bits; a line of its own; the other way round.
const EVIL: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\u{202e}evil";

static LINES: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());

struct Collector;

impl Log for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = (record.level(), record.args().to_string());
        LINES.lock().unwrap().push(line);
    }

    fn flush(&self) {}
}

/// Answers with these outcomes.
struct Answers {
    saved: Outcome,
    restored: Outcome,
}

impl Executor for Answers {
    fn ip_version(&self) -> IpVersion {
        IpVersion::V4
    }

    fn backend(&self) -> Backend {
        Backend::NfTables
    }

    fn restore(&mut self, _: &str) -> Result<Outcome, ExecutorError> {
        Ok(self.restored.clone())
    }

    fn save(&mut self, _: Table) -> Result<Outcome, ExecutorError> {
        Ok(self.saved.clone())
    }
}

/// Does everything that reads and writes; errors have to be presentable.
fn use_it(saved: &str, restored: Outcome) {
    let builder = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
    let saved = Outcome::success(saved);
    let opened = builder.clock(NoWaiting).open(Answers { saved, restored });
    let mut updater = match opened {
        Ok(updater) => updater,
        Err(error) => return presentable(&error),
    };
    let chain = |rule: &str| Chain::new("web-a", [rule]).unwrap();
    let results = [
        updater.rewrite_chains([chain("-j web-b")]).map(drop),
        updater.verify().map(drop),
        updater.refresh().map(drop),
        updater.refresh_all().map(drop),
        updater.ensure_rule_appended("INPUT", "-j web-a"),
        updater.refresh().map(drop),
        updater.cleanup().map(drop),
        updater.delete_chains(["web-a"]).map(drop),
        updater.cleanup().map(drop),
    ];
    for error in results.into_iter().filter_map(Result::err) {
        let text = error.to_string();
        assert!(
            !text.contains(char::is_control) && !text.contains('\u{202e}'),
            "{text:?}"
        );
    }
}

/// What is logged in this test; the other tests of this program log nothing hostile.
#[test]
fn hostile_texts_are_escaped_in_errors_and_in_the_log() {
    log::set_logger(&Collector).unwrap();
    log::set_max_level(LevelFilter::Trace);
    let failures = [
        Outcome::success(""),
        Outcome::failure(1, EVIL),
        Outcome::failure(4, format!("iptables-restore: line 2 failed: {EVIL}\n")),
        Outcome::failure(
            2,
            format!("Chain '{EVIL}' does not exist\nError occurred at line: 2\n"),
        ),
        Outcome::failure(
            2,
            format!("Couldn't load target `{EVIL}':No such file or directory\n"),
        ),
        Outcome::failure(
            4,
            format!("line 3: CHAIN_DEL failed (Device or resource busy): chain {EVIL}\n"),
        ),
    ];
    let saves = [
        // A chain, an orphan's referrer, a rule, a notice, garbage.
        format!(
            "*filter\n:INPUT ACCEPT [0:0]\n:{EVIL} - [0:0]\n:web-{EVIL} - [0:0]\n:web-o - [0:0]\n-A {EVIL} -j web-o\n-A web-{EVIL} -j web-o\nCOMMIT\n"
        ),
        format!(
            "*filter\n:INPUT ACCEPT [0:0]\n:web-a - [0:0]\n:web-b - [0:0]\n-A web-a -m comment --comment \"{EVIL}\" -j {EVIL}\n-A web-b -j DROP\nCOMMIT\n"
        ),
        format!(
            "# Table `filter' contains incompatible base-chains, {EVIL}\n*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n"
        ),
        format!("# Table `filter' is incompatible, {EVIL}\n"),
        format!("{EVIL}\n"),
        format!("*filter\n{EVIL}\nCOMMIT\n"),
    ];
    for saved in &saves {
        for restored in &failures {
            use_it(saved, restored.clone());
        }
    }
    // On a table that works as one, too: a chain of ours has been written into by somebody with such a comment.
    let kernel = MemoryExecutor::new(IpVersion::V4, Backend::NfTables);
    let builder = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
    let mut updater = builder.clock(NoWaiting).open(kernel.clone()).unwrap();
    updater
        .rewrite_chains([Chain::new("web-a", ["-j RETURN"]).unwrap()])
        .unwrap();
    updater.verify().unwrap();
    let comment = EVIL.replace('\r', "");
    let input = format!("*filter\n-A web-a -m comment --comment \"{comment}\"\nCOMMIT\n");
    let outcome = kernel.with_other_program(|other| other.restore(&input));
    assert!(outcome.exit.is_success(), "{outcome:?}");
    assert_eq!(updater.refresh().unwrap().changed.len(), 1);

    let lines = std::mem::take(&mut *LINES.lock().unwrap());
    assert!(lines.len() > 100, "{} lines", lines.len());
    let said = |text: &str| lines.iter().any(|(_, line)| line.contains(text));
    assert!(said("incompatible base-chains") && said("stays") && said("owned"));
    for (level, line) in &lines {
        // A restore input is shown at `trace` as it is: it was checked line by line.
        let unfit =
            |c: char| (c.is_control() && !(c == '\n' && *level == Level::Trace)) || c == '\u{202e}';
        assert!(!line.contains(unfit), "{level}: {line:?}");
    }
}
