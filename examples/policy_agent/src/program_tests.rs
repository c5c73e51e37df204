//! Refusals and failures, on the library's simulated kernel.

use iptables_updater::MemoryExecutor;
use iptables_updater::memory::Fault;

use super::*;

const BACKENDS: [Backend; 2] = [Backend::NfTables, Backend::Legacy];

fn chains(chains: &[(&str, &str)]) -> BTreeMap<String, Chain> {
    let top = ["pa-FORWARD", "pa-INPUT", "pa-OUTPUT"].map(|name| (name, "-j RETURN"));
    let chains = top.iter().chain(chains);
    chains
        .map(|(name, rule)| ((*name).to_owned(), Chain::new(*name, [*rule]).unwrap()))
        .collect()
}

fn programmer(kernel: &MemoryExecutor) -> Programmer<MemoryExecutor> {
    Programmer::with(IpVersion::V4, kernel.clone()).unwrap()
}

fn rules(kernel: &MemoryExecutor, chain: &str) -> Vec<String> {
    kernel.rules(Table::Filter, chain).unwrap_or_default()
}

/// A chain whose new contents iptables refuses drops; its old contents, which let more through, are gone. Others are
/// as wanted, and when the refusal is over, all is.
#[test]
fn what_is_refused_drops_and_hurts_nobody() {
    for backend in BACKENDS {
        let kernel = MemoryExecutor::new(IpVersion::V4, backend);
        let mut programmer = programmer(&kernel);
        let with = |rule: &str| {
            chains(&[
                ("pa-from", "-g pa-fe-tap1"),
                ("pa-fe-tap1", rule),
                ("pa-te-tap1", rule),
            ])
        };
        programmer.program(&with("-j ACCEPT"));
        assert_eq!(rules(&kernel, "pa-fe-tap1"), ["-j ACCEPT"]);

        let mut wanted = with("-j RETURN");
        let bad = Chain::new("pa-fe-tap1", ["-m no-such-match -j ACCEPT"]).unwrap();
        wanted.insert("pa-fe-tap1".to_owned(), bad);
        programmer.program(&wanted);
        assert!(
            rules(&kernel, "pa-fe-tap1")[0].ends_with("-j DROP"),
            "{backend:?}"
        );
        assert_eq!(rules(&kernel, "pa-te-tap1"), ["-j RETURN"]);

        programmer.program(&with("-j RETURN"));
        assert_eq!(rules(&kernel, "pa-fe-tap1"), ["-j RETURN"]);
        assert_eq!(rules(&kernel, "INPUT"), ["-j pa-INPUT"]);
    }
}

/// A previous run's chains aren't cleaned up before everything stands, and are at the next call that succeeds.
#[test]
fn leftovers_stay_until_everything_stands() {
    for backend in BACKENDS {
        let kernel = MemoryExecutor::new(IpVersion::V4, backend);
        let old = "*filter\n:pa-old - [0:0]\nCOMMIT\n";
        kernel.with_other_program(|other| other.restore(old));
        let mut programmer = programmer(&kernel);
        let wanted = chains(&[]);
        // More than the library's tries, for the batch and for each request of it by itself.
        for nth in 1..=200 {
            kernel.fail_restore(nth, Fault::Fails(FailureClass::LockHeld));
        }
        programmer.program(&wanted);
        assert_eq!(
            kernel
                .chains(Table::Filter)
                .iter()
                .filter(|name| name.starts_with("pa-"))
                .count(),
            1
        );

        kernel.clear_faults();
        programmer.program(&wanted);
        let chains = kernel.chains(Table::Filter);
        assert!(chains.contains(&"pa-INPUT".to_owned()) && !chains.contains(&"pa-old".to_owned()));
        assert_eq!(rules(&kernel, "FORWARD"), ["-j pa-FORWARD"]);
    }
}
