//! etcd over its v3 JSON gateway: a snapshot of a range of keys, and the changes since.

use std::fmt;
use std::io::{BufReader, Read};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// How long a watch lives. It is begun again where it ended, so that a connection that died without a word
/// (a host that vanished) is noticed after this time, and nothing is lost.
const WATCH_FOR: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub struct Client {
    agent: ureq::Agent,
    url: String,
    key: String,
    range_end: String,
}

#[derive(Debug)]
pub struct Snapshot {
    pub pairs: Vec<(String, Vec<u8>)>,
    pub revision: i64,
    pub cluster: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Put(String, Vec<u8>),
    Delete(String),
}

#[derive(Debug)]
pub enum Error {
    /// The changes asked for aren't to be had any longer: only a new snapshot helps.
    Lost(String),
    /// No answer, or none that makes sense.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(why) | Self::Failed(why) => f.write_str(why),
        }
    }
}

fn failed(error: impl fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

// The gateway leaves out whatever has its default value, and writes 64-bit numbers as strings.

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Header {
    cluster_id: String,
    revision: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct KeyValue {
    key: String,
    value: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RangeAnswer {
    header: Header,
    kvs: Vec<KeyValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WatchLine {
    result: WatchResult,
    error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WatchResult {
    header: Header,
    canceled: bool,
    compact_revision: String,
    cancel_reason: String,
    events: Vec<WatchEvent>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WatchEvent {
    r#type: String,
    kv: KeyValue,
}

impl Client {
    /// A client for the keys that begin with `prefix`.
    pub fn new(url: &str, prefix: &str) -> Self {
        // Everything with a prefix lies before the prefix with its last byte raised.
        let mut end = prefix.as_bytes().to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(Duration::from_secs(5)))
            .timeout_recv_response(Some(Duration::from_secs(10)))
            .timeout_recv_body(Some(WATCH_FOR))
            // A new watch on a connection whose last answer wasn't read to its end makes no sense.
            .max_idle_connections(0)
            // etcd is the host's own business: a proxy in the environment is meant for others.
            .proxy(None)
            .build();
        Self {
            agent: config.into(),
            url: url.trim_end_matches('/').to_owned(),
            key: BASE64_STANDARD.encode(prefix),
            range_end: BASE64_STANDARD.encode(end),
        }
    }

    /// All keys and values at one revision.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        let request = json!({ "key": self.key, "range_end": self.range_end });
        let answer: RangeAnswer = one(self.post("/v3/kv/range", &request)?)?;
        let pairs = answer.kvs.into_iter().map(|pair| {
            let (key, value) = decode_pair(&pair)?;
            Ok((key, value))
        });
        Ok(Snapshot {
            pairs: pairs.collect::<Result<_, Error>>()?,
            revision: number(&answer.header.revision)?,
            cluster: answer.header.cluster_id,
        })
    }

    /// Hands on what changes after `revision`, message by message, with the revision after it; returns when
    /// the connection has reached its age.
    pub fn watch(
        &self,
        cluster: &str,
        revision: &mut i64,
        mut changed: impl FnMut(Vec<Event>),
    ) -> Result<(), Error> {
        let from = *revision + 1;
        let request = json!({ "create_request": {
            "key": self.key, "range_end": self.range_end, "start_revision": from.to_string(),
        }});
        let body = self.post("/v3/watch", &request)?;
        let lines = serde_json::Deserializer::from_reader(BufReader::new(body));
        for line in lines.into_iter::<WatchLine>() {
            let line = match line {
                Ok(line) => line,
                Err(error) if error.io_error_kind() == Some(std::io::ErrorKind::TimedOut) => {
                    return Ok(());
                }
                Err(error) => return Err(failed(error)),
            };
            if let Some(error) = line.error {
                return Err(failed(error));
            }
            let result = line.result;
            if !result.compact_revision.is_empty() {
                let at = result.compact_revision;
                return Err(Error::Lost(format!(
                    "revision {from} is compacted away (at {at})"
                )));
            }
            if result.canceled {
                return Err(failed(format!("watch cancelled: {}", result.cancel_reason)));
            }
            let now = number(&result.header.revision)?;
            // An etcd with other data, restored or made anew, would wait for our revision in silence.
            if result.header.cluster_id != cluster || now < *revision {
                return Err(Error::Lost("this is another etcd".to_owned()));
            }
            // The answer that tells of the beginning has the store's revision, not that of what was sent.
            if result.events.is_empty() {
                continue;
            }
            let events = result.events.iter().map(decode_event);
            let events = events.collect::<Result<_, Error>>()?;
            *revision = now;
            changed(events);
        }
        Err(failed("etcd has closed the watch"))
    }

    fn post(&self, path: &str, request: &Value) -> Result<impl Read + use<>, Error> {
        let request = request.to_string();
        let answer = self.agent.post(format!("{}{path}", self.url)).send(request);
        Ok(answer.map_err(failed)?.into_body().into_reader())
    }
}

fn one<T: DeserializeOwned>(body: impl Read) -> Result<T, Error> {
    serde_json::from_reader(BufReader::new(body)).map_err(failed)
}

fn number(text: &str) -> Result<i64, Error> {
    text.parse()
        .map_err(|error| failed(format!("revision {text:?}: {error}")))
}

fn decode_pair(pair: &KeyValue) -> Result<(String, Vec<u8>), Error> {
    let key = BASE64_STANDARD.decode(&pair.key).map_err(failed)?;
    let value = BASE64_STANDARD.decode(&pair.value).map_err(failed)?;
    // A key that isn't UTF-8 can't be one of ours.
    Ok((String::from_utf8_lossy(&key).into_owned(), value))
}

fn decode_event(event: &WatchEvent) -> Result<Event, Error> {
    let (key, value) = decode_pair(&event.kv)?;
    Ok(match event.r#type.as_str() {
        "DELETE" => Event::Delete(key),
        _ => Event::Put(key, value),
    })
}
