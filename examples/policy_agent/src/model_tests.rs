//! Keys and JSON, good and bad.

use super::*;

fn endpoint_key(id: &str) -> Key {
    Key::Endpoint(format!("k8s/web/{id}"))
}

#[test]
fn keys() {
    let key = |text: &str| Key::parse(text, "h1");
    assert_eq!(
        key("/policy_agent/v1/host/h1/workload/k8s/web/endpoint/e0"),
        Some(endpoint_key("e0"))
    );
    assert_eq!(
        key("/policy_agent/v1/policy/profile/web/rules"),
        Some(Key::Profile("web".to_owned()))
    );
    for other in [
        "/policy_agent/v1/host/h2/workload/k8s/web/endpoint/e0",
        "/policy_agent/v1/host/h1/workload/k8s/web/endpoint/",
        "/policy_agent/v1/host/h1/workload/k8s/web/endpoint/e0/more",
        "/policy_agent/v1/policy/profile/web/tags",
        "/policy_agent/v2/policy/profile/web/rules",
        "",
    ] {
        assert_eq!(key(other), None, "{other}");
    }
}

#[test]
fn good_endpoint() {
    let mut state = State::default();
    let json = br#"{"interface":"tap1","nets":["10.0.0.1","2001:db8::1/128"],"profiles":["web"]}"#;
    state.put(endpoint_key("e"), json, "tap").unwrap();
    let endpoint = &state.endpoints["k8s/web/e"];
    let nets: Vec<String> = endpoint.nets.iter().map(ToString::to_string).collect();
    assert_eq!(nets, ["10.0.0.1/32", "2001:db8::1/128"]);
    state.delete(&endpoint_key("e"));
    assert_eq!(state, State::default());
}

#[test]
fn bad_endpoints_replace_the_good_and_leave_others() {
    for bad in [
        "",
        "[]",
        "{}",
        r#"{"interface":"eth0"}"#,
        r#"{"interface":"tap+"}"#,
        r#"{"interface":"tap 1 -j ACCEPT"}"#,
        r#"{"interface":"tap4567890123456"}"#,
        r#"{"interface":"tap1","net":["10.0.0.1"]}"#,
        r#"{"interface":"tap1","nets":["10.0.0.1/33"]}"#,
        r#"{"interface":"tap1","nets":["10.0.0.1/-1"]}"#,
    ] {
        let mut state = State::default();
        let good = |interface: &str| format!(r#"{{"interface":"{interface}"}}"#).into_bytes();
        state.put(endpoint_key("a"), &good("tap1"), "tap").unwrap();
        state.put(endpoint_key("b"), &good("tap2"), "tap").unwrap();
        state
            .put(endpoint_key("a"), bad.as_bytes(), "tap")
            .expect_err(bad);
        assert_eq!(
            state.endpoints.keys().collect::<Vec<_>>(),
            ["k8s/web/b"],
            "{bad}"
        );
    }
}

#[test]
fn profiles() {
    let mut state = State::default();
    let key = Key::Profile("web".to_owned());
    let mut put = |json: &str| {
        let result = state.put(key.clone(), json.as_bytes(), "tap");
        assert_eq!(result.is_ok(), state.profiles.contains_key("web"), "{json}");
        result
    };
    put(r#"{"inbound":[{"action":"allow","protocol":"tcp","ports":[80,"8000:8100"],"net":"10.0.0.0/8"}]}"#).unwrap();
    for bad in [
        r#"{"inbound":[{}]}"#,
        r#"{"inbound":[{"action":"permit"}]}"#,
        r#"{"inbound":[{"action":"allow","protocol":"tcpp"}]}"#,
        r#"{"inbound":[{"action":"allow","port":[80]}]}"#,
        r#"{"inbound":[{"action":"allow","ports":[80]}]}"#,
        r#"{"inbound":[{"action":"allow","protocol":"icmp","ports":[80]}]}"#,
        r#"{"outbound":[{"action":"allow","protocol":"tcp","ports":[65536]}]}"#,
        r#"{"outbound":[{"action":"allow","protocol":"tcp","ports":["9:8"]}]}"#,
        r#"{"outbound":[{"action":"allow","protocol":"icmp","net":"2001:db8::/32"}]}"#,
    ] {
        put(bad).expect_err(bad);
    }
}
