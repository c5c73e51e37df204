//! The part of etcd that the agent needs, by its JSON interface: all keys with a prefix, and what changes there from then on.

use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

/// A key and its value; `None` where it was deleted.
pub type Change = (String, Option<Vec<u8>>);

/// Where etcd is.
pub struct Etcd {
    url: String,
    agent: ureq::Agent,
}

#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    #[error("etcd can't be reached: {0}")]
    Http(#[from] Box<ureq::Error>),
    #[error("etcd's answer ended: {0}")]
    Ended(#[from] std::io::Error),
    #[error("etcd's answer can't be read: {0}")]
    Answer(#[from] serde_json::Error),
    #[error("etcd has compacted the changes that are to be watched")]
    Compacted,
}

#[derive(Deserialize)]
struct Header {
    revision: String,
}

#[derive(Deserialize)]
struct KeyValue {
    key: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct Range {
    header: Header,
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct Watched {
    result: Events,
}

#[derive(Deserialize)]
struct Events {
    #[serde(default)]
    canceled: bool,
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    /// Not given for a put.
    #[serde(default, rename = "type")]
    kind: String,
    kv: KeyValue,
}

impl KeyValue {
    fn change(&self, deleted: bool) -> Change {
        let bytes = |text: &str| BASE64_STANDARD.decode(text).unwrap_or_default();
        let key = String::from_utf8_lossy(&bytes(&self.key)).into_owned();
        (key, (!deleted).then(|| bytes(&self.value)))
    }
}

impl Etcd {
    /// The etcd at `http://…:2379`.
    pub fn new(url: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(Duration::from_secs(5)))
            .build();
        Self {
            url: url.trim_end_matches('/').to_owned(),
            agent: config.into(),
        }
    }

    fn post(&self, path: &str, body: &Value) -> Result<impl std::io::Read + use<>, EtcdError> {
        let response = self
            .agent
            .post(format!("{}{path}", self.url))
            .header("Content-Type", "application/json")
            .send(body.to_string())
            .map_err(Box::new)?;
        Ok(response.into_body().into_reader())
    }

    /// All keys with that prefix, and the revision at which that was so.
    ///
    /// # Errors
    /// etcd can't be reached, or its answer can't be read.
    pub fn all(&self, prefix: &str) -> Result<(Vec<Change>, u64), EtcdError> {
        let answer = self.post("/v3/kv/range", &range_of(prefix))?;
        let range: Range = serde_json::from_reader(answer)?;
        let changes = range.kvs.iter().map(|kv| kv.change(false)).collect();
        Ok((changes, range.header.revision.parse().unwrap_or(0)))
    }

    /// Hands over what changes from that revision on, until that fails: etcd stops, or has forgotten the revision.
    ///
    /// # Errors
    /// Always, in the end.
    pub fn watch(
        &self,
        prefix: &str,
        from: u64,
        mut take: impl FnMut(&[Change]),
    ) -> Result<(), EtcdError> {
        let mut request = range_of(prefix);
        request["start_revision"] = json!(from.to_string());
        let answer = self.post("/v3/watch", &json!({ "create_request": request }))?;
        for line in BufReader::new(answer).lines() {
            let watched: Watched = serde_json::from_str(&line?)?;
            if watched.result.canceled {
                return Err(EtcdError::Compacted);
            }
            let events = watched.result.events.iter();
            let changes: Vec<_> = events.map(|e| e.kv.change(e.kind == "DELETE")).collect();
            if !changes.is_empty() {
                take(&changes);
            }
        }
        Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into())
    }
}

/// All keys that begin so: up to, and without, the first that comes after them.
fn range_of(prefix: &str) -> Value {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    json!({ "key": BASE64_STANDARD.encode(prefix), "range_end": BASE64_STANDARD.encode(end) })
}
