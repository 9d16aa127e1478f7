//! Use cases of visitors, who have no key: uses of limited links, previews, passwords, reports of abuse.

use super::links::Links;
use crate::problem::{Kind, Problem};
use edgelink_model::links::model::Link;
use edgelink_settings::telemetry::prometheus::VISITS_LEASED;
pub use edgelink_store::{NewReport, ReportReason, Reported, StoreError};
use edgelink_wire::LinkKey;
use edgelink_wire::clicks::WorkerId;
use edgelink_wire::visits::{ReturnOutcome, VisitsAnswer, VisitsRequest};
use metrics::counter;

impl Links {
    /// Finds a link as it is stored now. Whether a visitor may see it is for the caller to decide.
    pub async fn stored(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        self.store.find_link(key).await
    }

    /// True if a limited link has uses left, leased ones excluded.
    pub async fn has_uses(&self, key: &LinkKey) -> Result<bool, StoreError> {
        self.store.has_visits(key).await
    }

    /// Takes a use of a limited link. Returns false if none is left.
    pub async fn take_use(&self, key: &LinkKey) -> Result<bool, StoreError> {
        self.store.take_visit(key, &self.config.visits).await
    }

    /// Leases uses of a link to a worker.
    pub async fn lease_uses(
        &self,
        key: &LinkKey,
        request: &VisitsRequest,
    ) -> Result<VisitsAnswer, Problem> {
        let config = &self.config.visits;
        let leased = self.store.lease_visits(key, request, config).await?;
        let answer = leased.map_err(|_| Problem::new(Kind::StaleVisits))?;
        counter!(VISITS_LEASED).increment(answer.visits);
        Ok(answer)
    }

    /// Takes back uses that a worker returns. There is an outcome for each return, in their order.
    pub async fn return_uses(
        &self,
        worker: WorkerId,
        returns: &[(LinkKey, VisitsRequest)],
    ) -> Result<Vec<ReturnOutcome>, StoreError> {
        let config = &self.config.visits;
        self.store.return_visits(worker, returns, config).await
    }

    /// Stores a report of abuse, unless `reports.max_reports` are stored.
    pub async fn report(&self, report: &NewReport) -> Result<Reported, Problem> {
        let max = self.config.reports.max_reports;
        Ok(self.store.insert_report(report, max).await?)
    }
}
