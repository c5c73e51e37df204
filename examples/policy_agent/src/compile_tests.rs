//! The chains that a state gives.

use super::*;
use crate::model::Key;

fn state(endpoints: &[(&str, &str)], profiles: &[(&str, &str)]) -> State {
    let mut state = State::default();
    for (id, json) in endpoints {
        let key = Key::Endpoint((*id).to_owned());
        state.put(key, json.as_bytes(), "tap").unwrap();
    }
    for (id, json) in profiles {
        let key = Key::Profile((*id).to_owned());
        state.put(key, json.as_bytes(), "tap").unwrap();
    }
    state
}

fn rules(state: &State, version: IpVersion, chain: &str) -> Vec<String> {
    let chains = compile(state, version, "tap");
    let chain = chains
        .get(chain)
        .unwrap_or_else(|| panic!("no {chain}: {:?}", chains.keys()));
    chain
        .rules()
        .iter()
        .map(|rule| rule.as_str().to_owned())
        .collect()
}

#[test]
fn nothing_known_drops_every_workload() {
    let state = State::default();
    for version in [IpVersion::V4, IpVersion::V6] {
        assert_eq!(rules(&state, version, "pa-from"), ["-i tap+ -j DROP"]);
        assert_eq!(rules(&state, version, "pa-to"), ["-o tap+ -j DROP"]);
        assert_eq!(compile(&state, version, "tap").len(), 5);
    }
}

#[test]
fn endpoint_and_missing_profile() {
    let endpoint =
        r#"{"interface":"tap1","nets":["10.0.0.1/32","2001:db8::1/128"],"profiles":["web"]}"#;
    let state = state(&[("e", endpoint)], &[]);
    assert_eq!(
        rules(&state, IpVersion::V4, "pa-from"),
        ["-i tap1 -g pa-fe-tap1", "-i tap+ -j DROP"]
    );
    let from = rules(&state, IpVersion::V4, "pa-fe-tap1");
    assert_eq!(
        from,
        [
            FORGET,
            "-s 10.0.0.1/32 -j MARK --set-xmark 0x1/0x1",
            "-m mark ! --mark 0x1/0x1 -j DROP",
            FORGET,
            "-m conntrack --ctstate INVALID -j DROP",
            "-m conntrack --ctstate RELATED,ESTABLISHED -j MARK --set-xmark 0x1/0x1",
            RETURN_IF_ALLOWED,
            "-j pa-po-web",
            RETURN_IF_ALLOWED,
            "-j DROP",
        ]
    );
    // The missing profile has no chain of ours: the library's stub stands in.
    assert!(!compile(&state, IpVersion::V4, "tap").contains_key("pa-po-web"));
    let from = rules(&state, IpVersion::V6, "pa-fe-tap1");
    assert!(from.contains(&"-s 2001:db8::1/128 -j MARK --set-xmark 0x1/0x1".to_owned()));
    assert!(!from.iter().any(|rule| rule.contains("10.0.0.1")));
}

#[test]
fn profile_directions_and_versions() {
    let profile = r#"{
        "inbound": [
            {"action":"allow","protocol":"tcp","ports":[80,"8000:8100"],"net":"192.0.2.0/24"},
            {"action":"allow","protocol":"icmp"}, {"action":"allow","protocol":"icmpv6"}],
        "outbound": [{"action":"deny","net":"2001:db8::/32"}, {"action":"allow"}]}"#;
    let state = state(&[], &[("web", profile)]);
    assert_eq!(
        rules(&state, IpVersion::V4, "pa-pi-web"),
        [
            "-p tcp -s 192.0.2.0/24 -m multiport --dports 80,8000:8100 -j MARK --set-xmark 0x1/0x1",
            RETURN_IF_ALLOWED,
            "-p icmp -j MARK --set-xmark 0x1/0x1",
            RETURN_IF_ALLOWED,
        ]
    );
    assert_eq!(
        rules(&state, IpVersion::V4, "pa-po-web"),
        [ALLOW, RETURN_IF_ALLOWED]
    );
    assert_eq!(
        rules(&state, IpVersion::V6, "pa-po-web"),
        ["-d 2001:db8::/32 -j DROP", ALLOW, RETURN_IF_ALLOWED]
    );
    assert_eq!(
        rules(&state, IpVersion::V6, "pa-pi-web"),
        ["-p icmpv6 -j MARK --set-xmark 0x1/0x1", RETURN_IF_ALLOWED]
    );
}

/// Every net that the model lets in makes a rule: were one refused, its whole chain would be left out.
#[test]
fn odd_nets_make_rules() {
    for net in [
        "0.0.0.0/0",
        "10.1.2.3/8",
        "::/0",
        "::ffff:10.0.0.1",
        "::10.0.0.1/96",
        "fe80::1/10",
    ] {
        let endpoint = format!(r#"{{"interface":"tap1","nets":["{net}"],"profiles":["web"]}}"#);
        let profile = format!(r#"{{"inbound":[{{"action":"allow","net":"{net}"}}]}}"#);
        let state = state(&[("e", &endpoint)], &[("web", &profile)]);
        for version in [IpVersion::V4, IpVersion::V6] {
            assert_eq!(compile(&state, version, "tap").len(), 9, "{net} {version}");
        }
    }
}

#[test]
fn many_ports_are_several_rules() {
    let ports: Vec<Ports> = (1..=16)
        .map(|port| Ports {
            first: port,
            last: port,
        })
        .collect();
    assert_eq!(
        port_lists(&ports),
        ["1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", "16"]
    );
    let ranges: Vec<Ports> = (1..=8)
        .map(|port| Ports {
            first: port,
            last: 99,
        })
        .collect();
    assert_eq!(port_lists(&ranges)[1], "8:99");
}

#[test]
fn one_interface_has_one_endpoint() {
    let first = r#"{"interface":"tap1","profiles":["a"]}"#;
    let second = r#"{"interface":"tap1","profiles":["b"]}"#;
    let state = state(&[("e2", second), ("e1", first)], &[]);
    let to = rules(&state, IpVersion::V4, "pa-te-tap1");
    assert!(to.contains(&"-j pa-pi-a".to_owned()) && !to.contains(&"-j pa-pi-b".to_owned()));
}

#[test]
fn long_and_odd_ids_have_chains_of_their_own() {
    let long = "a-profile-with-a-very-long-name";
    let ids = [
        long,
        &format!("{long}2"),
        "with space",
        "_0123",
        "ü",
        "plain",
    ];
    let names: std::collections::BTreeSet<String> = ids
        .iter()
        .map(|id| profile_chain(Direction::To, id))
        .collect();
    assert_eq!(names.len(), ids.len());
    assert!(names.contains("pa-pi-plain"));
    for name in names {
        iptables_updater::ChainName::new(&name).unwrap();
    }
}
