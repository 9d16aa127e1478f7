//! Imports: a file of links is read and tried out, and imported where that is asked for, while its page shows how far it has come.
//!
//! It is the importer of the command line, which asks the API's own route in this process, as the caller who has sent the file. The file
//! and the progress are of this process: they are gone when it stops, and another control plane does not know of them.

use super::api::Console;
use super::fields::{Field, Fields, Input, stays};
use super::form::{Form, Query, Upload};
use super::guard;
use super::jobs::{Import, PATH, Phase, locked};
use super::layout::{self, Layout, Tab};
use super::links::domain_field;
use super::signed_in::SignedIn;
use super::strings as t;
use crate::http::auth::sessions::Token;
use crate::problem::{Kind, Problem};
use crate::transfer::{Format, ImportProgress, Mapping};
use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// How many problems the page shows; all of them are in the report.
const SHOWN: usize = 100;

/// How often a page asks for itself while something goes on.
const REFRESH_SECONDS: u64 = 5;

#[derive(Template)]
#[template(path = "console/imports.html")]
struct ImportsPage {
    layout: Layout,
    fields: Fields,
    imports: Vec<Arc<Import>>,
}

#[derive(Template)]
#[template(path = "console/import.html")]
struct ImportPage {
    layout: Layout,
    id: String,
    format: &'static str,
    phase: Phase,
    /// Whether the counts are of what would be.
    is_trial: bool,
    progress: ImportProgress,
    problems: Vec<Wrong>,
}

/// A line of a report.
#[derive(Debug, Deserialize)]
struct Wrong {
    line: u64,
    outcome: String,
    reason: String,
}

impl ImportsPage {
    async fn of(console: &Console, me: &SignedIn) -> Result<Self, Problem> {
        me.check(&Method::POST, "/import")?;
        let formats = t::FORMATS.map(|(format, label)| (format.word(), label));
        Ok(Self {
            layout: Layout::new(me, Some(Tab::Imports), t::IMPORTS),
            fields: Fields::new(vec![
                Field::choice("format", t::FORMAT, &formats),
                Field::new("file", t::FILE)
                    .hint(t::FILE_HINT)
                    .input(Input::File),
                Field::new("text", t::PASTED)
                    .hint(t::PASTED_HINT)
                    .input(Input::Lines),
                domain_field(console, me, t::DEFAULT_DOMAIN).await?,
                Field::tick("findIfExists", t::FIND_IF_EXISTS, false),
                Field::tick("withoutHistory", t::WITHOUT_HISTORY, false),
            ]),
            imports: console.imports.of(me.caller()),
        })
    }
}

/// `GET /console/imports`.
pub(super) async fn page(
    State(console): State<Console>,
    me: SignedIn,
    Query(asked): Query,
) -> Result<Response, Problem> {
    let mut page = ImportsPage::of(&console, &me).await?;
    page.layout = page.layout.with_notice(&asked);
    layout::ok(&page)
}

/// `POST /console/imports`: takes a file, and tries it out.
pub(super) async fn upload(
    State(console): State<Console>,
    me: SignedIn,
    upload: Upload,
    form: Form,
) -> Result<Response, Problem> {
    me.check(&Method::POST, "/import")?;
    match take(&console, &me, &upload, &form).await {
        Ok(import) => {
            import.start(console.local(me.caller()), true, max_report(&console));
            Ok(Redirect::to(&format!("{PATH}/{}", import.id)).into_response())
        }
        Err(problem) if stays(&problem) => {
            let mut page = ImportsPage::of(&console, &me).await?;
            // What is longer than any other form is not sent back.
            if form.get("text").len() <= console.app.config.server.max_body_bytes {
                page.fields = page.fields.filled(&form);
            }
            page.fields = page.fields.with(&problem);
            Ok(layout::send(problem.status(), &page))
        }
        Err(problem) => Err(problem),
    }
}

async fn take(
    console: &Console,
    me: &SignedIn,
    upload: &Upload,
    form: &Form,
) -> Result<Arc<Import>, Problem> {
    let format = Format::of_word(form.get("format"));
    let format = format.ok_or_else(|| Problem::of_field("format", t::UNKNOWN_ACTION))?;
    let bytes = match upload.bytes.is_empty() {
        true => form.get("text").trim().to_owned().into(),
        false => upload.bytes.clone(),
    };
    if bytes.is_empty() {
        return Err(Problem::of_field("file", t::NO_FILE));
    }
    let domain = form.get("domain").trim();
    let mapping = Mapping {
        format,
        domain: (!domain.is_empty()).then(|| domain.to_owned()),
        domains: HashMap::new(),
        find_if_exists: form.is_on("findIfExists"),
        is_without_history: form.is_on("withoutHistory"),
    };
    let write = move || -> io::Result<TempDir> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("file"), &bytes)?;
        Ok(folder)
    };
    let import = Arc::new(Import {
        id: Token::generate()?.expose(),
        caller: me.caller().clone(),
        format,
        folder: blocking(write).await?,
        mapping,
        state: Mutex::default(),
    });
    let config = &console.app.config.console;
    console.imports.add(import.clone(), config)?;
    Ok(import)
}

/// How many bytes a report may have: as many as a file.
fn max_report(console: &Console) -> usize {
    console.app.config.server.max_bulk_body_bytes
}

/// Works with files where nothing else waits for them.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(io::Error::other).and_then(|done| done);
    done.map_err(|error| {
        tracing::error!(%error, "a file of an import cannot be used: the request is answered with 500");
        Problem::new(Kind::Internal)
    })
}

/// An import of the caller, who may still import.
fn own(console: &Console, me: &SignedIn, id: &str) -> Result<Arc<Import>, Problem> {
    me.check(&Method::POST, "/import")?;
    console.imports.find(id, me.caller())
}

/// `GET /console/imports/{id}`.
pub(super) async fn one(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let import = own(&console, &me, &id)?;
    // Before the report, which is whole when nothing goes on any more.
    let (phase, is_trial, progress) = {
        let state = locked(&import.state);
        (state.phase.clone(), state.is_trial, state.progress.clone())
    };
    let report = import.report();
    let problems = blocking(move || first_problems(&report)).await?;
    let mut headers = HeaderMap::new();
    let again = format!("{REFRESH_SECONDS}; url={PATH}/{id}?{}", guard::BY_ITSELF);
    if phase.goes_on()
        && let Ok(again) = HeaderValue::try_from(again)
    {
        headers.insert(header::REFRESH, again);
    }
    let page = ImportPage {
        layout: Layout::new(&me, Some(Tab::Imports), phase.text()),
        id,
        format: import.format.word(),
        phase,
        is_trial,
        progress,
        problems,
    };
    Ok((headers, layout::send(StatusCode::OK, &page)).into_response())
}

fn first_problems(report: &std::path::Path) -> io::Result<Vec<Wrong>> {
    let file = match File::open(report) {
        Ok(file) => file,
        // Nothing is written before the first batch.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let lines = BufReader::new(file).lines().take(SHOWN);
    let lines: io::Result<Vec<String>> = lines.collect();
    let read = |line: &String| serde_json::from_str(line).ok();
    Ok(lines?.iter().filter_map(read).collect())
}

/// `POST /console/imports/{id}/run`: imports what was tried out, or the rest of what has stopped.
pub(super) async fn run(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let import = own(&console, &me, &id)?;
    import.start(console.local(me.caller()), false, max_report(&console));
    Ok(Redirect::to(&format!("{PATH}/{id}")).into_response())
}

/// `POST /console/imports/{id}/stop`.
pub(super) async fn stop(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    own(&console, &me, &id)?.stop();
    Ok(Redirect::to(&format!("{PATH}/{id}")).into_response())
}

/// `POST /console/imports/{id}/delete`: forgets the file and what became of it. Links that were imported stay.
pub(super) async fn delete(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    console.imports.remove(&*own(&console, &me, &id)?);
    Ok(Redirect::to("/console/imports?done=deleted").into_response())
}

/// `GET /console/imports/{id}/report`: a JSON object a line for each item that is not imported, or not as it was.
pub(super) async fn report(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let import = own(&console, &me, &id)?;
    let path = import.report();
    let read = move || match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    };
    let bytes = blocking(read).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (
            header::CONTENT_DISPOSITION,
            "attachment; filename=\"import-report.ndjson\"",
        ),
    ];
    Ok((headers, bytes).into_response())
}
