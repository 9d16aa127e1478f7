//! The control plane, as built.

use super::place::{edgelink_binary, free_port, local};
use super::{Connection, EDGE_TOKEN, Process, Version};
use crate::link::{LinkApi, LinkBuilder};
use crate::scenario::{DOMAIN, Request};
use edgelink_wire::{CodeLength, CodeSpace, PermutationKey};
use serde_json::Value;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Key that maps numbers to codes.
const CODE_KEY: &str = "000102030405060708090a0b0c0d0e0f";

/// Log message about an environment variable that no setting has.
const UNKNOWN_VARIABLE: &str = "unknown EDGELINK_ variable";

/// Mapping of numbers to codes.
///
/// # Panics
/// Does not panic: the key is valid.
#[must_use]
pub fn code_space() -> CodeSpace {
    let key: PermutationKey = CODE_KEY.parse().expect("a key");
    CodeSpace::new(CodeLength::DEFAULT, Some(key))
}

/// An answer of the API.
#[derive(Clone, Debug)]
pub struct ApiAnswer {
    /// The status code.
    pub status: u16,
    /// The body; null if there is none.
    pub body: Value,
}

impl ApiAnswer {
    /// A string of the body.
    ///
    /// # Panics
    /// Panics if there is no such string.
    #[must_use]
    pub fn text(&self, field: &str) -> &str {
        let value = self.body[field].as_str();
        value.unwrap_or_else(|| panic!("no '{field}' in {self:?}"))
    }
}

/// A running control plane, with its own SQLite database unless `EDGELINK_STORE_URL` names another one.
#[derive(Debug)]
pub struct ControlPlane {
    binary: PathBuf,
    process: Process,
    address: SocketAddr,
    folder: TempDir,
    variables: Vec<(String, String)>,
    admin_key: String,
}

impl ControlPlane {
    /// Starts a control plane for [`DOMAIN`], and returns when it is ready.
    pub async fn start() -> Self {
        Self::with_domains(&[DOMAIN]).await
    }

    /// Starts a control plane for these domains, the default one first.
    pub async fn with_domains(domains: &[&str]) -> Self {
        Self::with_variables(&[("EDGELINK_LINKS_DOMAINS", &domains.join(","))]).await
    }

    /// Starts a control plane for [`DOMAIN`] with further environment variables.
    ///
    /// # Panics
    /// Panics if no setting has one of them, so that a test notices when a setting is renamed.
    pub async fn with_variables(variables: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        Self::launch(edgelink_binary(), folder, owned(variables)).await
    }

    /// Starts another version of it for [`DOMAIN`].
    pub async fn of_version(version: &Version, variables: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        Self::launch(version.edgelink.clone(), folder, owned(variables)).await
    }

    /// Starts a control plane for [`DOMAIN`] with variables that depend on its address.
    pub async fn with_address(variables: impl FnOnce(SocketAddr) -> Vec<(String, String)>) -> Self {
        let address = local(free_port());
        let folder = TempDir::new().expect("a temporary folder");
        Self::launch_at(edgelink_binary(), address, folder, variables(address)).await
    }

    /// Starts another control plane with its variables and its admin key.
    pub async fn replica(&self) -> Self {
        self.replica_with(&[]).await
    }

    /// Starts a replica that differs in these variables.
    pub async fn replica_with(&self, variables: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let from = self.folder.path().join("admin-key");
        fs::copy(from, folder.path().join("admin-key")).expect("the admin key");
        let variables = [self.variables.clone(), owned(variables)].concat();
        Self::launch(self.binary.clone(), folder, variables).await
    }

    async fn launch(binary: PathBuf, folder: TempDir, variables: Vec<(String, String)>) -> Self {
        Self::launch_at(binary, local(free_port()), folder, variables).await
    }

    async fn launch_at(
        binary: PathBuf,
        address: SocketAddr,
        folder: TempDir,
        variables: Vec<(String, String)>,
    ) -> Self {
        let mut process = spawn(configured(&binary, &folder, address, &variables), &folder);
        await_ready(&mut process, address).await;
        assert_known(&variables, &process);
        let key = fs::read_to_string(folder.path().join("admin-key")).expect("the admin key");
        Self {
            binary,
            process,
            address,
            folder,
            variables,
            admin_key: key.trim().to_owned(),
        }
    }

    /// Restarts it after its end, on its port and database.
    pub async fn restart(&mut self) {
        self.process = spawn(self.configured(), &self.folder);
        await_ready(&mut self.process, self.address).await;
    }

    /// Sets the version of its next start, and of its commands.
    pub fn set_version(&mut self, version: &Version) {
        self.binary.clone_from(&version.edgelink);
    }

    fn configured(&self) -> Command {
        configured(&self.binary, &self.folder, self.address, &self.variables)
    }

    /// Listening address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Output so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Admin key of the first start.
    #[must_use]
    pub fn admin_key(&self) -> &str {
        &self.admin_key
    }

    /// Sends a request to the API with the admin key, over a new connection; `path` starts after `/api/v1`.
    pub async fn api(&self, method: &str, path: &str, body: &Value) -> ApiAnswer {
        let mut connection = self.connect().await;
        let answer = self.api_over(&mut connection, method, path, body).await;
        answer.expect("an answer of the API")
    }

    /// Sends a request with another key.
    pub async fn api_as(&self, key: &str, method: &str, path: &str, body: &Value) -> ApiAnswer {
        let mut connection = self.connect().await;
        let body = text(body);
        let answer = ask(&mut connection, key, (method, path), body.as_bytes()).await;
        answer.expect("an answer of the API")
    }

    /// Sends a request with the admin key over an open connection.
    ///
    /// # Errors
    /// Fails with the connection's errors.
    pub async fn api_over(
        &self,
        connection: &mut Connection,
        method: &str,
        path: &str,
        body: &Value,
    ) -> io::Result<ApiAnswer> {
        let body = text(body);
        self.api_raw(connection, method, path, body.as_bytes())
            .await
    }

    /// Sends a request whose body need not be JSON.
    ///
    /// # Errors
    /// Fails with the connection's errors.
    pub async fn api_raw(
        &self,
        connection: &mut Connection,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> io::Result<ApiAnswer> {
        ask(connection, &self.admin_key, (method, path), body).await
    }

    /// Opens the stream of clicks reported from now on; `query` is empty or begins with `?`.
    ///
    /// # Panics
    /// Panics if the API refuses it, or the stream ends.
    pub async fn listen(&self, query: &str) -> reqwest::Response {
        let url = format!("http://{}/api/v1/events{query}", self.address);
        let request = reqwest::Client::new().get(url).bearer_auth(&self.admin_key);
        let mut stream = request.send().await.expect("a stream");
        let mut head = Vec::new();
        while !head.starts_with(b": listening") {
            let chunk = stream.chunk().await.expect("a stream");
            head.extend(chunk.expect("the stream's first line"));
        }
        stream
    }

    /// Starts a link with that code; see [`LinkBuilder::new`].
    pub fn link(&self, code: &str) -> LinkBuilder<'_, Self> {
        LinkBuilder::new(self, code)
    }

    /// Prepares another command of the binary, with its configuration.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.configured();
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs another command of the binary with its configuration; returns its output.
    ///
    /// # Panics
    /// Panics if it does not start.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        let run = tokio::task::spawn_blocking(move || command.output());
        run.await.expect("a thread").expect("an output")
    }

    /// Opens a connection to the API.
    pub async fn connect(&self) -> Connection {
        Connection::open(self.address).await.expect("a connection")
    }
}

impl LinkApi for ControlPlane {
    type Answer = ApiAnswer;

    async fn post_link(&self, link: &Value) -> ApiAnswer {
        self.api("POST", "/links", link).await
    }

    fn created(answer: &ApiAnswer) -> Result<Value, String> {
        match answer.status {
            201 => Ok(answer.body.clone()),
            _ => Err(format!("{answer:?}")),
        }
    }
}

/// Text of a body; empty for null.
fn text(body: &Value) -> String {
    match body {
        Value::Null => String::new(),
        body => body.to_string(),
    }
}

/// Sends a request to the API; the path starts after `/api/v1`.
async fn ask(
    connection: &mut Connection,
    key: &str,
    (method, path): (&str, &str),
    body: &[u8],
) -> io::Result<ApiAnswer> {
    let request = Request::new(method, format!("/api/v1{path}").as_bytes())
        .header("x-api-key", key.as_bytes())
        .header("content-type", b"application/json");
    let answer = connection.exchange(&request, body).await?;
    Ok(ApiAnswer {
        status: answer.status,
        body: serde_json::from_slice(&answer.body).unwrap_or(Value::Null),
    })
}

fn owned(variables: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    variables.iter().map(own).collect()
}

fn spawn(mut command: Command, folder: &TempDir) -> Process {
    command.arg("serve");
    let log = folder.path().join("control-plane.log");
    Process::start("control plane", command, log)
}

/// The binary with its configuration.
fn configured(
    binary: &Path,
    folder: &TempDir,
    address: SocketAddr,
    variables: &[(String, String)],
) -> Command {
    let file = |name: &str| folder.path().join(name);
    let mut command = Command::new(binary);
    command
        .env("EDGELINK_SERVER_LISTEN", address.to_string())
        .env(
            "EDGELINK_STORE_URL",
            format!("sqlite://{}", file("edgelink.db").display()),
        )
        .env("EDGELINK_LINKS_DOMAINS", DOMAIN)
        .env("EDGELINK_LINKS_SHORT_URL_SCHEME", "http")
        .env("EDGELINK_AUTH_EDGE_TOKENS", EDGE_TOKEN)
        .env("EDGELINK_AUTH_ADMIN_KEY_FILE", file("admin-key"))
        .env("EDGELINK_LINKS_CODE_KEY", CODE_KEY)
        .envs(variables.iter().cloned());
    command
}

fn assert_known(variables: &[(String, String)], process: &Process) {
    let log = process.log();
    for line in log.lines().filter(|line| line.contains(UNKNOWN_VARIABLE)) {
        let is_named = |(name, _): &(String, String)| line.contains(&format!("\"{name}\""));
        assert!(!variables.iter().any(is_named), "{line}");
    }
}

async fn await_ready(process: &mut Process, address: SocketAddr) {
    process
        .await_ready(async || {
            let Ok(mut connection) = Connection::open(address).await else {
                return false;
            };
            let answer = connection
                .exchange(&Request::get("/health/ready"), b"")
                .await;
            answer.is_ok_and(|answer| answer.status == 200)
        })
        .await;
}
