use super::*;
use crate::lanes::{JobQueue, LANES, MAX_BATCH};
use edgelink_model::links::model::LinkContent;
use edgelink_settings::config::StoreConfig;
use edgelink_store::{Twin, connect};
use edgelink_wire::target::TargetUrl;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use std::collections::HashSet;
use std::str::FromStr;
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// A SQLite store, and a connection that can keep it from committing.
struct Fixture {
    store: Arc<Store>,
    blocker: SqliteConnection,
    _folder: TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let url = format!("sqlite://{}/edgelink.db", folder.path().display());
        let config = StoreConfig {
            timeout_ms: Duration::from_secs(60),
            ..StoreConfig::at(&url)
        };
        let store = connect(&config).await.unwrap();
        store.migrate().await.unwrap();
        // The domain gets its row, so that from here on one transaction does all.
        store
            .create_links(vec![link(1_000_000, "first")])
            .await
            .unwrap();
        let blocker = SqliteConnectOptions::from_str(&url).unwrap();
        Self {
            store,
            blocker: blocker.connect().await.unwrap(),
            _folder: folder,
        }
    }

    fn commits(&self, queue: usize) -> Arc<GroupCommit> {
        Arc::new(GroupCommit::start(&self.store, queue))
    }

    async fn block(&mut self) {
        sqlx::raw_sql("BEGIN IMMEDIATE")
            .execute(&mut self.blocker)
            .await
            .unwrap();
    }

    async fn unblock(&mut self) {
        sqlx::raw_sql("COMMIT")
            .execute(&mut self.blocker)
            .await
            .unwrap();
    }

    async fn exists(&self, code: &str) -> bool {
        let found = self.store.find_link(&link(0, code).key).await;
        found.unwrap().is_some()
    }
}

fn link(id: u64, code: &str) -> NewLink {
    let key = format!("a.example/{code}").parse().unwrap();
    let content = LinkContent::to(TargetUrl::from_store("https://x.example/"));
    NewLink::new(id, key, content)
}

type Answer = Result<Result<Link, CreateError>, CreateFailure>;
type Task = JoinHandle<Answer>;

const MINUTE: Duration = Duration::from_mins(1);

async fn create(commits: &GroupCommit, new: NewLink) -> Answer {
    create_within(commits, new, MINUTE).await
}

async fn create_within(commits: &GroupCommit, new: NewLink, limit: Duration) -> Answer {
    let answers = commits.create(vec![new], limit).await?;
    let [answer] = answers.try_into().unwrap();
    Ok(answer)
}

fn submit(commits: &Arc<GroupCommit>, new: NewLink) -> Task {
    let commits = Arc::clone(commits);
    tokio::spawn(async move { create(&commits, new).await })
}

/// Chunks that fill a transaction each.
fn submit_chunks(
    commits: &Arc<GroupCommit>,
    count: usize,
) -> Vec<JoinHandle<Result<Answers, CreateFailure>>> {
    let chunk = |chunk: u64| {
        let first = 1000 * (chunk + 1);
        let links = (first..first + MAX_BATCH as u64).map(|n| link(n, &format!("c{n}")));
        let (commits, links) = (Arc::clone(commits), links.collect());
        tokio::spawn(async move { commits.create(links, MINUTE).await })
    };
    (0..count as u64).map(chunk).collect()
}

/// Returns when `count` links are in the queue and not with a lane.
async fn await_queue(commits: &GroupCommit, count: usize) {
    while commits.links.max_capacity() - commits.links.capacity() != count {
        tokio::task::yield_now().await;
    }
}

/// Keeps every lane at a commit that cannot end.
async fn occupy_lanes(commits: &Arc<GroupCommit>) -> Vec<Task> {
    let mut tasks = Vec::new();
    for lane in 0..LANES as u64 {
        tasks.push(submit(
            commits,
            link(2_000_000 + lane, &format!("lane{lane}")),
        ));
        tokio::task::yield_now().await;
        await_queue(commits, 0).await;
    }
    tasks
}

#[tokio::test]
async fn link_when_alone_is_created_at_once() {
    let fixture = Fixture::new().await;
    let created = create(&fixture.commits(10), link(1, "x")).await;
    assert_eq!(created.unwrap().unwrap().id, 1);
    assert!(fixture.exists("x").await);
}

#[tokio::test]
async fn links_when_they_arrive_during_a_commit_share_the_next() {
    let mut fixture = Fixture::new().await;
    let commits = fixture.commits(100);
    fixture.block().await;
    let lanes = occupy_lanes(&commits).await;
    let mut tasks: Vec<Task> = (0..50)
        .map(|n| submit(&commits, link(n, &format!("c{n}"))))
        .collect();
    tasks.push(submit(&commits, link(50, "first")));
    await_queue(&commits, 51).await;
    fixture.unblock().await;
    let taken = tasks.pop().unwrap().await.unwrap().unwrap();
    assert_eq!(taken, Err(CreateError::CodeTaken));
    let mut times = HashSet::new();
    for (n, task) in tasks.into_iter().enumerate() {
        let link = task.await.unwrap().unwrap().unwrap();
        assert_eq!(link.id, n as u64);
        times.insert(link.created_at);
    }
    assert_eq!(times.len(), 1, "one transaction has one creation time");
    for lane in lanes {
        lane.await.unwrap().unwrap().unwrap();
    }
}

#[tokio::test]
async fn link_when_queue_is_full_is_refused_at_once() {
    let mut fixture = Fixture::new().await;
    let commits = fixture.commits(3);
    fixture.block().await;
    let mut tasks = occupy_lanes(&commits).await;
    for n in 0..3 {
        tasks.push(submit(&commits, link(n, &format!("c{n}"))));
        await_queue(&commits, n as usize + 1).await;
    }
    let refused = create(&commits, link(3, "c3")).await;
    assert!(matches!(refused, Err(CreateFailure::Overloaded)));
    fixture.unblock().await;
    for task in tasks {
        task.await.unwrap().unwrap().unwrap();
    }
    assert!(!fixture.exists("c3").await);
}

#[tokio::test]
async fn link_when_its_caller_leaves_is_taken_back() {
    let mut fixture = Fixture::new().await;
    let commits = fixture.commits(10);
    fixture.block().await;
    let mut tasks = occupy_lanes(&commits).await;
    let leaves = submit(&commits, link(1, "leaves"));
    await_queue(&commits, 1).await;
    leaves.abort();
    assert!(leaves.await.unwrap_err().is_cancelled());
    tasks.push(submit(&commits, link(2, "stays")));
    await_queue(&commits, 2).await;
    fixture.unblock().await;
    for task in tasks {
        task.await.unwrap().unwrap().unwrap();
    }
    assert!(!fixture.exists("leaves").await);
}

#[tokio::test]
async fn link_when_unstorable_fails_alone() {
    let mut fixture = Fixture::new().await;
    let commits = fixture.commits(10);
    fixture.block().await;
    let lanes = occupy_lanes(&commits).await;
    let good = [link(1, "a"), link(2, "b")].map(|link| submit(&commits, link));
    let bad = submit(&commits, link(u64::MAX, "bad"));
    await_queue(&commits, 3).await;
    fixture.unblock().await;
    for task in lanes.into_iter().chain(good) {
        task.await.unwrap().unwrap().unwrap();
    }
    let Err(CreateFailure::Store(error)) = bad.await.unwrap() else {
        panic!("created");
    };
    assert!(!error.is_transient());
}

#[tokio::test]
async fn link_when_contended_fails_alone() {
    let mut fixture = Fixture::new().await;
    // As if another transaction took the code in each round, and gave it back.
    let trigger = "CREATE TABLE taken (id INTEGER PRIMARY KEY); INSERT INTO taken VALUES (1); \
         CREATE TRIGGER contended BEFORE INSERT ON links WHEN NEW.id = 3 BEGIN INSERT INTO taken VALUES (1); END";
    let created = sqlx::raw_sql(trigger).execute(&mut fixture.blocker).await;
    created.unwrap();
    let commits = fixture.commits(10);
    fixture.block().await;
    let lanes = occupy_lanes(&commits).await;
    let good = [link(1, "a"), link(2, "b")].map(|link| submit(&commits, link));
    let contended = submit(&commits, link(3, "contended"));
    await_queue(&commits, 3).await;
    fixture.unblock().await;
    for task in lanes.into_iter().chain(good) {
        task.await.unwrap().unwrap().unwrap();
    }
    let Err(CreateFailure::Store(error)) = contended.await.unwrap() else {
        panic!("created");
    };
    assert!(error.is_contended(), "{error}");
}

#[tokio::test]
async fn link_when_alone_never_waits_behind_chunks() {
    let mut fixture = Fixture::new().await;
    let commits = fixture.commits(10);
    fixture.block().await;
    let chunks = submit_chunks(&commits, 6);
    let waiting = || commits.chunks.max_capacity() - commits.chunks.capacity();
    while waiting() != 6 - LANES {
        tokio::task::yield_now().await;
    }
    let single = submit(&commits, link(1, "single"));
    tokio::task::yield_now().await;
    // A lane takes it while all lanes of chunks are occupied.
    await_queue(&commits, 0).await;
    assert_eq!(waiting(), 6 - LANES);
    fixture.unblock().await;
    single.await.unwrap().unwrap().unwrap();
    for chunk in chunks {
        let created = chunk.await.unwrap().unwrap();
        assert_eq!(created.len(), MAX_BATCH);
        assert!(created.iter().all(Result::is_ok));
    }
}

#[tokio::test]
async fn link_when_it_may_have_twins_is_not_held_up() {
    let mut fixture = Fixture::new().await;
    let commits = fixture.commits(10);
    fixture.block().await;
    let queued = |queue: &mpsc::Sender<Job<Vec<NewLink>>>| queue.max_capacity() - queue.capacity();
    let mut without_twin = Vec::new();
    for id in 1..=LANES as u64 + 1 {
        let mut new = link(id, &format!("t{id}"));
        new.content.target = TargetUrl::from_store(&format!("https://x.example/{id}"));
        new.twin = Twin::NotWithAnyCode;
        without_twin.push(submit(&commits, new));
        tokio::task::yield_now().await;
        while id <= LANES as u64 && queued(&commits.without_twin) > 0 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(queued(&commits.without_twin), 1, "the lanes are occupied");
    let plain = submit(&commits, link(100, "plain"));
    await_queue(&commits, 0).await;
    fixture.unblock().await;
    plain.await.unwrap().unwrap().unwrap();
    for task in without_twin {
        task.await.unwrap().unwrap().unwrap();
    }
}

#[tokio::test]
async fn chunk_when_room_is_full_waits_until_its_limit() {
    let mut fixture = Fixture::new().await;
    let commits = fixture.commits(10);
    fixture.block().await;
    let chunks = submit_chunks(&commits, LANES + MAX_CHUNKS);
    while commits.chunks.capacity() > 0 {
        tokio::task::yield_now().await;
    }
    let links = vec![link(100, "x"), link(101, "y")];
    let Err(CreateFailure::Store(error)) = commits.create(links, Duration::from_millis(50)).await
    else {
        panic!("there was room");
    };
    assert!(error.is_transient());
    fixture.unblock().await;
    for chunk in chunks {
        assert_eq!(chunk.await.unwrap().unwrap().len(), MAX_BATCH);
    }
}

#[tokio::test]
async fn commit_when_too_slow_is_a_transient_error() {
    let mut fixture = Fixture::new().await;
    let commits = fixture.commits(10);
    fixture.block().await;
    let limit = Duration::from_millis(50);
    let Err(CreateFailure::Store(error)) = create_within(&commits, link(1, "x"), limit).await
    else {
        panic!("answered");
    };
    assert!(error.is_transient());
    fixture.unblock().await;
}

/// A job with one link, whose caller waits.
fn job(
    id: u64,
) -> (
    Job<Vec<NewLink>>,
    oneshot::Receiver<Result<Answers, StoreError>>,
) {
    let (answer, answered) = oneshot::channel();
    let links = vec![link(id, &format!("c{id}"))];
    let job = Job {
        work: links,
        answer,
        trace: None,
    };
    (job, answered)
}

#[tokio::test(start_paused = true)]
async fn links_when_a_transaction_runs_gather_up_to_the_linger() {
    let (sender, jobs) = mpsc::channel(10);
    let mut queue = JobQueue::new(jobs, LINGER);
    let running = Arc::clone(&queue.turn).lock_owned().await;
    let mut callers = Vec::new();
    for id in 0..3 {
        let (job, caller) = job(id);
        sender.send(job).await.unwrap();
        callers.push(caller);
    }
    let (first, _) = tokio::join!(queue.batch(), async {
        let (job, caller) = job(3);
        tokio::time::sleep(LINGER / 2).await;
        sender.send(job).await.unwrap();
        callers.push(caller);
        drop(running);
    });
    let gathered = first.unwrap();
    assert_eq!((gathered.jobs.len(), gathered.turn.is_some()), (4, true));

    sender.send(job(4).0).await.unwrap();
    let before = Instant::now();
    let beside = queue.batch().await.unwrap();
    assert_eq!((beside.jobs.len(), beside.turn.is_none()), (1, true));
    // Timers tick in milliseconds.
    assert!(before.elapsed() <= LINGER + Duration::from_millis(1));
    drop(gathered);
}

#[tokio::test(start_paused = true)]
async fn links_when_fewer_than_run_gather_until_they_are_as_many() {
    let (sender, jobs) = mpsc::channel(10);
    let mut queue = JobQueue::new(jobs, LINGER);
    let mut callers = Vec::new();
    let mut send = |id| {
        let (job, caller) = job(id);
        sender.try_send(job).unwrap();
        callers.push(caller);
    };
    send(0);
    send(1);
    let mut running = queue.batch().await.unwrap();
    assert_eq!(running.jobs.len(), 2);
    running.turn = None;

    send(2);
    let before = Instant::now();
    let (as_many, ()) = tokio::join!(queue.batch(), async {
        tokio::time::sleep(LINGER / 2).await;
        send(3);
    });
    let as_many = as_many.unwrap();
    assert_eq!((as_many.jobs.len(), as_many.turn.is_some()), (2, true));
    assert!(before.elapsed() < LINGER);
    drop(as_many);

    send(4);
    let before = Instant::now();
    let (after, ()) = tokio::join!(queue.batch(), async {
        tokio::time::sleep(LINGER / 2).await;
        drop(running);
    });
    assert_eq!(after.unwrap().jobs.len(), 1);
    assert!(before.elapsed() < LINGER);
}

#[tokio::test]
async fn changes_when_they_arrive_during_a_commit_share_the_next() {
    const CHANGES: u64 = 20;
    let mut fixture = Fixture::new().await;
    let links = (0..CHANGES).map(|n| link(n, &format!("c{n}")));
    fixture.store.create_links(links.collect()).await.unwrap();
    let config = StoreConfig {
        timeout_ms: MINUTE,
        ..StoreConfig::at("sqlite://changes.db")
    };
    let commits = Arc::new(ChangeCommit::start(&fixture.store, &config));
    fixture.block().await;
    let delete = |n: u64| {
        let (commits, key) = (Arc::clone(&commits), link(n, &format!("c{n}")).key);
        let change = LinkChange::Delete(Box::new(|_| Ok(())));
        let actor = Actor::command_line(1);
        tokio::spawn(async move { commits.change(key, change, actor).await })
    };
    // The last one is of a link that another one of them deletes.
    let mut tasks: Vec<_> = (0..CHANGES).chain([CHANGES - 1]).map(delete).collect();
    // All of them are in the queue by then.
    tokio::task::yield_now().await;
    while commits.changes.capacity() < commits.changes.max_capacity() {
        tokio::task::yield_now().await;
    }
    fixture.unblock().await;
    let repeated = tasks.pop().unwrap().await.unwrap();
    let mut outcomes = vec![tasks.pop().unwrap().await.unwrap(), repeated];
    outcomes.retain(|outcome| outcome.as_ref().is_ok_and(Option::is_some));
    assert_eq!(outcomes.len(), 1, "one of two deletes the link");
    let mut times = HashSet::new();
    for task in tasks {
        let changed = task.await.unwrap().unwrap().unwrap().unwrap();
        times.insert(changed.updated_at);
    }
    assert!(times.len() <= LANES + 1, "{times:?}");
    for n in 0..CHANGES {
        assert!(!fixture.exists(&format!("c{n}")).await);
    }
}
