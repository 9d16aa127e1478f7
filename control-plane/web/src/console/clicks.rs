//! Clicks on pages that show other things too.

use super::api::Console;
use super::errors;
use edgelink_service::problem::{Kind, Problem};
use std::time::Duration;

/// The answer to a query of clicks, or the problem because of which there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked<T> {
    pub(super) answer: Option<T>,
    /// Empty if there is an answer.
    pub(super) problem: String,
}

/// Queries clicks. If they are not stored, or the answer takes too long, the page says so and shows everything else.
pub(super) async fn about_clicks<T>(
    console: &Console,
    question: impl Future<Output = Result<T, Problem>>,
) -> Result<Asked<T>, Problem> {
    // The other half is for the rest of the page.
    within(console.app.config.server.request_timeout_ms / 2, question).await
}

async fn within<T>(
    time: Duration,
    question: impl Future<Output = Result<T, Problem>>,
) -> Result<Asked<T>, Problem> {
    let answer = tokio::time::timeout(time, question).await;
    match answer.unwrap_or_else(|_| Err(Problem::new(Kind::AnalyticsUnavailable))) {
        Ok(answer) => Ok(Asked {
            answer: Some(answer),
            problem: String::new(),
        }),
        Err(problem) if is_of_clicks(&problem) => Ok(Asked {
            answer: None,
            problem: errors::describe(&problem),
        }),
        Err(problem) => Err(problem),
    }
}

fn is_of_clicks(problem: &Problem) -> bool {
    matches!(
        problem.kind(),
        Kind::AnalyticsUnavailable | Kind::ClicksNotKept | Kind::Overloaded | Kind::RequestTimeout
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn page_when_clicks_do_not_come_does_without_them() {
        let soon = Duration::from_secs(60);
        let asked = async |kind| within::<()>(soon, async { Err(Problem::new(kind)) }).await;
        for kind in [
            Kind::Overloaded,
            Kind::AnalyticsUnavailable,
            Kind::ClicksNotKept,
        ] {
            let asked = asked(kind).await.unwrap();
            assert_eq!((asked.answer, asked.problem.is_empty()), (None, false));
        }
        assert_eq!(
            asked(Kind::Forbidden).await.unwrap_err().kind(),
            Kind::Forbidden
        );
        let never = std::future::pending::<Result<(), Problem>>();
        let asked = within(Duration::from_millis(1), never).await.unwrap();
        assert_eq!((asked.answer, asked.problem.is_empty()), (None, false));
        let asked = within(soon, async { Ok(7) }).await.unwrap();
        assert_eq!((asked.answer, asked.problem.as_str()), (Some(7), ""));
    }
}
