//! The destination of imports of the console: the use case of an import, on behalf of the user who is signed in.

use super::api::Console;
use super::signed_in::SignedIn;
use edgelink_service::answer_room::AnswerRoom;
use edgelink_service::bulk::NewLinks;
use edgelink_service::caller::Caller;
use edgelink_service::create_link::Created;
use edgelink_service::idempotency::{RequestId, Route};
use edgelink_service::import::Foreseen;
use edgelink_service::problem::Problem;
use edgelink_transfer::{AttemptError, Destination, ImportMode, ItemResult, problem_line};
use http::StatusCode;
use serde_json::{Map, Value};

/// The use cases of this process, as a caller.
pub(super) struct Here {
    console: Console,
    caller: Caller,
}

impl Here {
    pub(super) fn new(console: &Console, me: &SignedIn) -> Self {
        Self {
            console: console.clone(),
            caller: me.caller().clone(),
        }
    }

    async fn run(
        &self,
        items: &[Map<String, Value>],
        mode: &ImportMode,
    ) -> Result<Vec<ItemResult>, Problem> {
        let app = &self.console.app;
        let import = app.links.import(&self.caller).await?;
        let id = match mode {
            ImportMode::Create(key) => Some(RequestId::new(key, &self.caller, Route::Import, b"")?),
            ImportMode::DryRun => None,
        };
        let is_dry_run = id.is_none();
        let room = AnswerRoom::of(&app.config.server);
        let mut new = NewLinks::new(id, room, |object| import.read(object));
        let items = items.iter().enumerate();
        let items = items.map(|(index, item)| new.add(index, Value::Object(item.clone())));
        let items = items.collect();
        let _permit = self.console.bulk_permit(&self.caller).await?;
        let room = new.claim(&app.links).await?;
        if is_dry_run {
            let foreseen = import.try_out(items, room).await?;
            let is_found = |foreseen: &Foreseen| matches!(foreseen, Foreseen::Existing(_));
            return Ok(results(&foreseen, is_found));
        }
        let made = import.run(items, room).await?;
        Ok(results(&made.value, |made: &Created| made.is_found))
    }
}

impl Destination for Here {
    async fn import(
        &self,
        items: &[Map<String, Value>],
        mode: &ImportMode,
    ) -> Result<Vec<ItemResult>, AttemptError> {
        let run = self.run(items, mode).await;
        run.map_err(|problem| AttemptError::of_status(problem.status(), Some(line(&problem))))
    }
}

/// Results as the API has them.
fn results<O>(outcomes: &[Result<O, Problem>], is_found: fn(&O) -> bool) -> Vec<ItemResult> {
    let results = outcomes.iter().map(|outcome| {
        let status = match outcome {
            Ok(made) if is_found(made) => StatusCode::OK,
            Ok(_) => StatusCode::CREATED,
            Err(problem) => problem.status(),
        };
        ItemResult {
            status: status.as_u16(),
            problem: outcome.as_ref().err().map(line),
        }
    });
    results.collect()
}

fn line(problem: &Problem) -> String {
    let document = problem.document();
    let fields = problem.errors().iter();
    let fields = fields.map(|error| (&*error.field, &*error.reason));
    problem_line(document.title, document.detail, fields)
}
