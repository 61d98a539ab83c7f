//! What `ycsb-server` and `ycsb-client` print as JSON, with a schema.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;

use crate::rpc::client::{Answers, Figures, Run, State};
use crate::rpc::server::Served;
use crate::rpc::statistics::Statistics;

/// Of both documents. Rises when a value goes or changes its meaning.
pub const RPC_JSON_VERSION: u32 = 1;

/// What a `ycsb-server` did.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ServerDocument {
    /// Of this format.
    pub version: u32,
    /// Always `ycsb-server`.
    pub program: String,
    /// Where it listened.
    pub address: String,
    /// Rows of its table.
    pub rows: u64,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// What it counted.
    pub statistics: Statistics,
    /// The digest of all rows at the end, 16 hexadecimal digits.
    pub state_digest: String,
    /// The digest of the results of all accepted transactions, in their order, 16 hexadecimal digits.
    pub results_digest: String,
    /// Why it ended, if nobody told it to.
    pub failure: Option<String>,
}

impl ServerDocument {
    /// The document of a server of `rows` rows of `row_bytes` bytes each.
    #[must_use]
    pub fn new(
        served: &Served,
        state_digest: String,
        address: String,
        (rows, row_bytes): (u64, u64),
    ) -> Self {
        Self {
            version: RPC_JSON_VERSION,
            program: "ycsb-server".to_owned(),
            address,
            rows,
            row_bytes,
            statistics: served.statistics,
            state_digest,
            results_digest: served.results.to_string(),
            failure: served.failure.as_ref().map(ToString::to_string),
        }
    }
}

/// How a client was set up.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ClientSetup {
    /// The server.
    pub address: String,
    /// The log.
    pub log: String,
    /// Connections.
    pub connections: usize,
    /// Requests of one connection that wait for replies at most.
    pub pipeline: usize,
    /// The time between arrivals, as `-i` has it.
    pub arrivals: String,
}

/// What a `ycsb-client` measured.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ClientDocument {
    /// Of this format.
    pub version: u32,
    /// Always `ycsb-client`.
    pub program: String,
    /// How it ran.
    pub setup: ClientSetup,
    /// Whether it was interrupted; figures are of what was sent until then.
    pub interrupted: bool,
    /// What it took.
    pub figures: Figures,
    /// What the replies said.
    pub answers: Answers,
    /// The server's state after the last reply, if it told it.
    pub state: Option<ServerState>,
}

/// The state that a server tells.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ServerState {
    /// Transactions that it had accepted, of all clients.
    pub transactions: u64,
    /// The digest of their results, 16 hexadecimal digits.
    pub results_digest: String,
}

impl From<State> for ServerState {
    fn from(state: State) -> Self {
        Self {
            transactions: state.transactions,
            results_digest: format!("{:016x}", state.digest),
        }
    }
}

impl ClientDocument {
    /// The document of a run.
    #[must_use]
    pub fn new(run: Run, setup: ClientSetup, interrupted: bool) -> Self {
        Self {
            version: RPC_JSON_VERSION,
            program: "ycsb-client".to_owned(),
            setup,
            interrupted,
            figures: run.figures,
            answers: run.answers,
            state: run.state.map(Into::into),
        }
    }
}

/// The schema of [`ServerDocument`], with a line break at the end.
#[must_use]
pub fn server_schema() -> String {
    schema::<ServerDocument>()
}

/// The schema of [`ClientDocument`], with a line break at the end.
#[must_use]
pub fn client_schema() -> String {
    schema::<ClientDocument>()
}

fn schema<T: JsonSchema>() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}
