//! The agent against a real etcd and a real kernel, in a network namespace of its own, on both back ends.

mod bed;

use bed::{Bed, WEB_CLOSED, WEB_OPEN, endpoint, profile_key};
use nix::sys::signal::Signal;

const FROM: &str = "-A pa-from -i tap1 -g pa-fe-tap1";
const RULE_80: &str = "-A pa-pi-web -p tcp -m multiport --dports 80 -j MARK";
const RULE_443: &str = "-A pa-pi-web -p tcp -m multiport --dports 443 -j MARK";

#[test]
fn nf_tables() {
    bed::run("nf_tables", whole_life);
}

#[test]
fn legacy() {
    bed::run("legacy", whole_life);
}

fn whole_life(bed: &mut Bed) {
    // The agent is there before etcd: it waits, and programs nothing.
    bed.start_agent();
    bed.wait_for_log("a new snapshot in");
    bed.check("nothing without a snapshot", &[], &["pa-"]);
    bed.start_etcd();
    bed.wait(
        "hooks",
        &["-A FORWARD -j pa-FORWARD", "-A pa-from -i tap+ -j DROP"],
        &[],
    );

    programs_what_etcd_says(bed);
    bad_data_hurts_itself_alone(bed);
    etcd_killed_and_restarted(bed);
    compacted_while_paused(bed);
    agent_killed_and_restarted(bed);

    bed.delete(&endpoint("tap1").0);
    bed.delete(&profile_key("web"));
    bed.wait(
        "all gone",
        &["-A pa-from -i tap+ -j DROP"],
        &["tap1", "pa-pi-web", "pa-po-web"],
    );

    etcd_replaced(bed);
}

fn programs_what_etcd_says(bed: &Bed) {
    let (key, json) = endpoint("tap1");
    bed.put(&key, &json);
    bed.wait(
        "a stub for the missing profile",
        &[
            FROM,
            "--comment \"missing chain pa-pi-web\" -j DROP",
            "-A pa-te-tap1 -j pa-pi-web",
        ],
        &[],
    );
    bed.put(&profile_key("web"), WEB_CLOSED);
    bed.wait(
        "the profile",
        &[FROM, RULE_443],
        &["missing chain", RULE_80],
    );
    bed.put(&profile_key("web"), WEB_OPEN);
    bed.wait(
        "the profile changed",
        &[FROM, RULE_80],
        &["missing chain", RULE_443],
    );
    bed.check_versions(
        "-A pa-fe-tap1 -s 10.0.0.1/32 -j MARK",
        "-A pa-fe-tap1 -s 2001:db8::1/128 -j MARK",
    );
}

fn bad_data_hurts_itself_alone(bed: &Bed) {
    let (bad_key, _) = endpoint("tap2");
    bed.put(&bad_key, "{\"interface\": \"tap2 -j ACCEPT\"}");
    bed.put(
        &profile_key("bad"),
        "{\"inbound\": [{\"action\": \"permit\"}]}",
    );
    bed.wait_for_log("endpoint/tap2: not understood");
    bed.wait_for_log("profile/bad/rules: not understood");
    bed.check(
        "the good ones stay",
        &[FROM, RULE_80],
        &["tap2", "pa-pi-bad"],
    );

    bed.put(&profile_key("web"), "this is no JSON");
    bed.wait(
        "a profile gone bad fails closed",
        &[FROM, "missing chain pa-pi-web"],
        &[RULE_80],
    );
    bed.put(&profile_key("web"), WEB_OPEN);
    bed.wait("and recovers", &[FROM, RULE_80], &["missing chain"]);
    bed.delete(&bad_key);
    bed.delete(&profile_key("bad"));
}

fn etcd_killed_and_restarted(bed: &mut Bed) {
    bed.kill_etcd();
    bed.wait_for_log("again from revision");
    bed.check(
        "rules stay while etcd is away",
        &[FROM, RULE_80],
        &["missing chain"],
    );
    bed.start_etcd();
    bed.put(&profile_key("web"), WEB_CLOSED);
    bed.wait(
        "changes after etcd's restart",
        &[FROM, RULE_443],
        &["missing chain", RULE_80],
    );
}

fn compacted_while_paused(bed: &mut Bed) {
    bed.put(&endpoint("tap3").0, &endpoint("tap3").1);
    bed.wait(
        "one more endpoint",
        &["-A pa-from -i tap3 -g pa-fe-tap3"],
        &[],
    );
    let snapshots = bed.count_in_log("snapshot: ");
    bed.signal_agent(Signal::SIGSTOP);
    // The restart takes the watch away: what the agent misses now, no socket holds for it.
    bed.kill_etcd();
    bed.start_etcd();
    bed.put(&profile_key("web"), WEB_OPEN);
    bed.delete(&endpoint("tap3").0);
    bed.put(&endpoint("tap4").0, &endpoint("tap4").1);
    bed.compact();
    bed.check("paused", &[FROM, RULE_443], &["tap4"]);
    bed.signal_agent(Signal::SIGCONT);
    bed.wait(
        "the difference to a new snapshot",
        &[FROM, RULE_80, "-A pa-from -i tap4 -g pa-fe-tap4"],
        &[RULE_443, "tap3"],
    );
    bed.wait_for_log("is compacted away");
    assert_eq!(bed.count_in_log("snapshot: "), snapshots + 1);
}

fn agent_killed_and_restarted(bed: &mut Bed) {
    bed.kill_agent();
    bed.delete(&endpoint("tap4").0);
    bed.put(&profile_key("late"), WEB_OPEN);
    bed.check(
        "rules stay without the agent",
        &[FROM, RULE_80, "tap4"],
        &[],
    );
    // No instant of the restart may be without the endpoint's rules, so etcd keeps it waiting for a while.
    bed.kill_etcd();
    let watcher = bed.watch_that_stays(&[FROM, RULE_80, "-A FORWARD -j pa-FORWARD"]);
    bed.start_agent();
    bed.wait_for_log("a new snapshot in");
    bed.start_etcd();
    bed.wait(
        "leftovers go",
        &[FROM, RULE_80, "-A pa-pi-late"],
        &["tap4", "missing chain"],
    );
    bed.wait_for_log("IPv6: first snapshot programmed");
    let looks = watcher.stop();
    assert!(looks > 3, "looked only {looks} times");
    for hook in [
        "-A FORWARD -j pa-FORWARD",
        "-A INPUT -j pa-INPUT",
        "-A OUTPUT -j pa-OUTPUT",
    ] {
        bed.check_once(hook);
    }
}

fn etcd_replaced(bed: &mut Bed) {
    bed.put(&endpoint("tap1").0, &endpoint("tap1").1);
    bed.wait("the endpoint", &[FROM], &[]);
    bed.kill_etcd();
    bed.forget_etcd_data();
    bed.start_etcd();
    bed.put(&endpoint("tap5").0, &endpoint("tap5").1);
    bed.wait(
        "what the new etcd says",
        &["-A pa-from -i tap5 -g pa-fe-tap5"],
        &["tap1"],
    );
    bed.wait_for_log("this is another etcd");
}
