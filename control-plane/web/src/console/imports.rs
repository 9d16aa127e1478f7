//! Imports: a file of links is read and tried out, and imported on request, while its page shows the progress.
//!
//! It is the importer of the command line, with the use case of this process as its destination, as the caller who has sent the
//! file. The file and the progress belong to this process: they are gone when it stops, and other control planes do not know them.

use super::api::Console;
use super::fields::{Field, Fields, Input, stays};
use super::form::{Form, Query};
use super::guard;
use super::here::Here;
use super::jobs::{DiskBounds, Import, PATH, Phase, locked};
use super::layout::{self, Layout, Tab};
use super::links::domain_field;
use super::signed_in::SignedIn;
use super::strings as t;
use super::upload::Upload;
use askama::Template;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use bytes::{Bytes, BytesMut};
use edgelink_service::caller::Right;
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::sessions::Token;
use edgelink_transfer::{Format, ImportProgress, Loss, Mapping, Meaning, Survey};
use futures_util::Stream;
use futures_util::stream::try_unfold;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::Deserializer;
use std::io::{self, BufReader};
use std::sync::{Arc, Mutex};
use tokio::fs::File;
use tokio::io::AsyncReadExt;

/// Number of problems on the page; all of them are in the report.
const SHOWN: usize = 100;

/// Bytes of a problem on the page.
const SHOWN_BYTES: usize = 1_000;

/// Bytes of a report that are read at once.
const PIECE_BYTES: usize = 65_536;

/// Interval at which a page reloads itself while an import is running.
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
    survey: Option<Arc<Survey>>,
    /// Columns, and domains, that can be mapped; none once something was imported.
    columns: Vec<Mapped>,
    domains: Vec<Mapped>,
    /// Set if the counts are predictions of a trial.
    is_trial: bool,
    progress: ImportProgress,
    problems: Vec<Wrong>,
}

/// A column or a domain, and what it can be mapped to.
#[derive(Debug)]
struct Mapped {
    name: String,
    /// Number of links that have it.
    links: u64,
    /// Values of the form and their labels.
    choices: Vec<(String, String)>,
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
        me.check(Right::CreateLinks)?;
        let mut formats = vec![("", t::RECOGNISED)];
        formats.extend(Format::ALL.map(|format| (format.word(), format.label())));
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
    me.check(Right::CreateLinks)?;
    match take(&console, &me, &upload, &form).await {
        Ok(import) => {
            import.start(Here::new(&console, &me), true, bounds(&console));
            Ok(Redirect::to(&format!("{PATH}/{}", import.id)).into_response())
        }
        Err(problem) if stays(&problem) => {
            let mut page = ImportsPage::of(&console, &me).await?;
            page.fields = page.fields.filled(&form).with(&problem);
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
    let format = match form.get("format") {
        "" => None,
        word => {
            let format = Format::of_word(word);
            Some(format.ok_or_else(|| Problem::of_field("format", t::UNKNOWN_ACTION))?)
        }
    };
    let file = upload.take();
    let file = file.ok_or_else(|| Problem::of_field("file", t::NO_FILE))?;
    let domain = form.get("domain").trim();
    let mapping = Mapping {
        format,
        domain: (!domain.is_empty()).then(|| domain.to_owned()),
        find_if_exists: form.is_on("findIfExists"),
        is_without_history: form.is_on("withoutHistory"),
        ..Mapping::default()
    };
    let import = Arc::new(Import {
        id: Token::generate()?.expose(),
        caller: me.caller().clone(),
        folder: file.folder,
        share: Mutex::new(file.share),
        mapping: Mutex::new(mapping),
        state: Mutex::default(),
    });
    let config = &console.app.config.console;
    console.imports.add(import.clone(), config)?;
    Ok(import)
}

/// Limits on the disk space of imports. A report may be as long as a file.
fn bounds(console: &Console) -> DiskBounds {
    let config = &console.app.config;
    let file = config.server.max_bulk_body_bytes;
    DiskBounds {
        report: u64::try_from(file).unwrap_or(u64::MAX),
        all_imports: config.console.max_import_bytes,
    }
}

/// Runs work on files on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(io::Error::other).and_then(|done| done);
    done.map_err(|error| failed(&error))
}

fn failed(error: &io::Error) -> Problem {
    tracing::error!(%error, "failed to access a file of an import; answering 500");
    Problem::new(Kind::Internal)
}

/// An import of the caller, provided that it may still import.
fn own(console: &Console, me: &SignedIn, id: &str) -> Result<Arc<Import>, Problem> {
    me.check(Right::CreateLinks)?;
    console.imports.find(id, me.caller())
}

/// `GET /console/imports/{id}`.
pub(super) async fn one(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let import = own(&console, &me, &id)?;
    // Read before the report, which is complete once the import has ended.
    let (phase, survey, is_trial, progress) = {
        let state = locked(&import.state);
        let survey = state.survey.clone();
        let progress = state.progress.clone();
        (state.phase.clone(), survey, state.is_trial, progress)
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
    let is_open = is_trial && !phase.goes_on();
    let page = ImportPage {
        layout: Layout::new(&me, Some(Tab::Imports), phase.text()),
        id,
        format: import.format(),
        columns: match &survey {
            Some(survey) if is_open => columns(survey),
            _ => Vec::new(),
        },
        domains: match &survey {
            Some(survey) if is_open => domains(&console, &me, survey).await?,
            _ => Vec::new(),
        },
        survey,
        phase,
        is_trial,
        progress,
        problems,
    };
    Ok((headers, layout::send(StatusCode::OK, &page)).into_response())
}

/// The columns that are not understood, each with the fields that it may have.
fn columns(survey: &Survey) -> Vec<Mapped> {
    let unknown = survey.losses.iter().filter_map(|(loss, links)| match loss {
        Loss::Column(name) => Some((name, *links)),
        Loss::Property(_) | Loss::State(..) => None,
    });
    let mapped = |(name, links): (&String, u64)| {
        let fields = Meaning::fields().map(|field| {
            let label = if field == "-" { t::LEFT_OUT } else { field };
            (format!("{name}={field}"), label.to_owned())
        });
        let none = (String::new(), t::NOT_UNDERSTOOD.to_owned());
        Mapped {
            name: name.clone(),
            links,
            choices: [none].into_iter().chain(fields).collect(),
        }
    };
    unknown.map(mapped).collect()
}

/// The domains of the file, each with those that it may become.
async fn domains(
    console: &Console,
    me: &SignedIn,
    survey: &Survey,
) -> Result<Vec<Mapped>, Problem> {
    let field = domain_field(console, me, t::DEFAULT_DOMAIN).await?;
    let Input::Choice(own) = field.input else {
        // The user may not list them.
        return Ok(Vec::new());
    };
    let mapped = |(name, links): &(String, u64)| {
        let named = own.iter().filter(|(own, _)| !own.is_empty() && own != name);
        let choices = named.map(|(own, label)| (format!("{name}={own}"), label.clone()));
        let same = (String::new(), t::STAYS_DOMAIN.to_owned());
        Mapped {
            name: name.clone(),
            links: *links,
            choices: [same].into_iter().chain(choices).collect(),
        }
    };
    Ok(survey.domains.iter().map(mapped).collect())
}

/// `POST /console/imports/{id}/mapping`: maps columns and domains, and tries the file out again.
pub(super) async fn map(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let import = own(&console, &me, &id)?;
    let mut columns = locked(&import.mapping).columns.clone();
    for column in form.all("column").filter(|column| !column.is_empty()) {
        let added = columns.add(column);
        added.map_err(|error| Problem::of_field("column", error.to_string()))?;
    }
    let domains = form.all("domain").filter(|domain| !domain.is_empty());
    let is_mapped = import.map(|mapping| {
        mapping.columns = columns;
        domains.for_each(|domain| mapping.add_domain(domain));
    });
    if is_mapped {
        import.start(Here::new(&console, &me), true, bounds(&console));
    }
    Ok(Redirect::to(&format!("{PATH}/{id}")).into_response())
}

fn first_problems(report: &std::path::Path) -> io::Result<Vec<Wrong>> {
    let file = match std::fs::File::open(report) {
        Ok(file) => file,
        // There is no report before the first batch.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    // The other fields of a line may be long, and are skipped.
    let lines = Deserializer::from_reader(BufReader::new(file)).into_iter::<Wrong>();
    let shown = lines.map_while(Result::ok).take(SHOWN).map(|mut line| {
        line.reason
            .truncate(line.reason.floor_char_boundary(SHOWN_BYTES));
        line
    });
    Ok(shown.collect())
}

/// `POST /console/imports/{id}/run`: imports a file after its trial, or the rest of it after a stop.
pub(super) async fn run(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let import = own(&console, &me, &id)?;
    import.start(Here::new(&console, &me), false, bounds(&console));
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

/// `POST /console/imports/{id}/delete`: removes the file and its reports. Imported links stay.
pub(super) async fn delete(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    console.imports.remove(&*own(&console, &me, &id)?);
    Ok(Redirect::to("/console/imports?done=deleted").into_response())
}

/// `GET /console/imports/{id}/report`: a JSON object per line for each item that was not imported, or not unchanged.
pub(super) async fn report(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let import = own(&console, &me, &id)?;
    let path = import.report();
    let body = match File::open(path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Body::empty(),
        Err(error) => return Err(failed(&error)),
        Ok(file) => Body::from_stream(pieces(file)),
    };
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (
            header::CONTENT_DISPOSITION,
            "attachment; filename=\"import-report.ndjson\"",
        ),
    ];
    Ok((headers, body).into_response())
}

/// A file, piece by piece.
fn pieces(file: File) -> impl Stream<Item = io::Result<Bytes>> {
    try_unfold(file, async |mut file| {
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        let read = file.read_buf(&mut piece).await?;
        Ok((read > 0).then(|| (piece.freeze(), file)))
    })
}
