//! A form with a file. The file is written to the disk as it arrives, and is never held in memory.

use super::api::Console;
use super::disk::DiskShare;
use super::form::Form;
use super::jobs::{FILE, locked};
use axum::body::Body;
use axum::extract::FromRequestParts;
use bytes::Bytes;
pub(super) use edgelink_http::arriving::{Arriving, BodyError};
pub(super) use edgelink_http::auth::Caller;
use edgelink_service::problem::{Kind, Problem};
use futures_util::stream::{BoxStream, try_unfold};
use futures_util::{Stream, StreamExt};
use http::Extensions;
use http::request::Parts;
use multer::{Field, Multipart};
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use tempfile::TempDir;
use tokio::fs::{self, File};
use tokio::io::AsyncWriteExt;

/// Limit on the number of fields of a form.
const MAX_FIELDS: usize = 64;

/// Limit on the bytes of a form that are not content of a field, such as the heads of fields.
const MAX_HEAD_BYTES: usize = 1 << 20;

/// The field for pasted text; the field of the file is named like the file in its folder.
const TEXT: &str = "text";

/// The file that a form has sent, which can be taken once. `guard` puts it into the extensions of the request.
#[derive(Clone, Default)]
pub(super) struct Upload(Arc<Mutex<Option<SpooledFile>>>);

/// A file on the disk.
pub(super) struct SpooledFile {
    pub(super) folder: TempDir,
    pub(super) share: DiskShare,
}

impl Upload {
    /// The file; `None` if the form had none, or it was taken.
    pub(super) fn take(&self) -> Option<SpooledFile> {
        locked(&self.0).take()
    }
}

impl<S: Sync> FromRequestParts<S> for Upload {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// Reads the body of a form with a file, of a request with these extensions. It may be as long as the body of a bulk request; its
/// other fields have the bounds of any form.
pub(super) async fn read_upload(
    console: &Console,
    (caller, extensions): (&Caller, &Extensions),
    body: Body,
    boundary: String,
) -> Result<(Form, Upload), Problem> {
    let server = &console.app.config.server;
    let bounds = (server.max_bulk_body_bytes, server.body_timeout_ms);
    let arriving = Arriving::new(extensions, body, bounds);
    let mut arriving = arriving.keeping(server.max_body_bytes);
    let unread = Arc::new(AtomicUsize::new(0));
    let pieces = try_unfold(&mut arriving, async |arriving| {
        let piece = arriving.next().await?;
        Ok(piece.map(|piece| (piece, arriving)))
    });
    let pieces = OneByOne {
        pieces: pieces.map(|piece| piece.map_err(PieceError::Body)).boxed(),
        unread: unread.clone(),
        pauses: false,
    };
    let mut reader = UploadReader {
        console,
        caller,
        unread: &unread,
        room: server.max_body_bytes,
        pairs: Vec::new(),
        file: None,
    };
    let mut multipart = Multipart::new(pieces, boundary);
    let mut fields = 0;
    while let Some(field) = multipart
        .next_field()
        .await
        .map_err(|error| refusal(&error))?
    {
        fields += 1;
        if fields > MAX_FIELDS {
            let detail = format!("a form has at most {MAX_FIELDS} fields");
            return Err(Problem::new(Kind::BodyTooLarge).with_detail(detail));
        }
        unread.store(0, Ordering::Relaxed);
        reader.read(field).await?;
    }
    drop(multipart);
    let _arrived = arriving.arrived()?;
    let upload = Upload(Arc::new(Mutex::new(reader.file)));
    Ok((Form::of(reader.pairs), upload))
}

/// Reader of the fields of a form, as they arrive.
struct UploadReader<'a> {
    console: &'a Console,
    caller: &'a Caller,
    unread: &'a AtomicUsize,
    /// Bytes left for the fields that are not files.
    room: usize,
    pairs: Vec<(String, String)>,
    file: Option<SpooledFile>,
}

impl UploadReader<'_> {
    async fn read(&mut self, field: Field<'_>) -> Result<(), Problem> {
        match field.name().map(str::to_owned) {
            Some(name) if name == FILE || name == TEXT => self.spool(&name, field).await,
            Some(name) => self.keep(name, field).await,
            None => Ok(()),
        }
    }

    /// Writes a field to the disk. If several are not empty, the file counts.
    async fn spool(&mut self, name: &str, mut field: Field<'_>) -> Result<(), Problem> {
        let mut open: Option<(SpooledFile, File)> = None;
        while let Some(piece) = self.piece(&mut field).await? {
            // The format is recognized by the beginning of a text.
            let piece = match (&open, name) {
                (None, TEXT) => piece.slice_ref(piece.trim_ascii_start()),
                _ => piece,
            };
            if piece.is_empty() {
                continue;
            }
            let (spooled, file) = match &mut open {
                Some(open) => open,
                none => none.insert(self.create().await?),
            };
            let bytes = spooled.share.bytes() + piece.len() as u64;
            self.console.imports.make_room(
                &mut spooled.share,
                bytes,
                self.caller,
                &self.console.app.config.console,
            )?;
            file.write_all(&piece)
                .await
                .map_err(|error| failed(&error))?;
        }
        let Some((spooled, mut file)) = open else {
            return Ok(());
        };
        file.flush().await.map_err(|error| failed(&error))?;
        if name == TEXT {
            self.remember(&spooled).await?;
        }
        if name == FILE || self.file.is_none() {
            self.file = Some(spooled);
        }
        Ok(())
    }

    /// Keeps a text that is not longer than any other form may be, for a page that shows it again.
    async fn remember(&mut self, spooled: &SpooledFile) -> Result<(), Problem> {
        if spooled.share.bytes() <= self.room as u64 {
            let text = fs::read(spooled.folder.path().join(FILE)).await;
            let text = String::from_utf8_lossy(&text.map_err(|error| failed(&error))?).into_owned();
            self.room = self.room.saturating_sub(text.len());
            self.pairs.push((TEXT.to_owned(), text));
        }
        Ok(())
    }

    async fn create(&self) -> Result<(SpooledFile, File), Problem> {
        let folder = tokio::task::spawn_blocking(tempfile::tempdir).await;
        let folder = folder.map_err(io::Error::other).and_then(|made| made);
        let folder = folder.map_err(|error| failed(&error))?;
        let file = File::create(folder.path().join(FILE)).await;
        let share = self.console.imports.disk().share();
        Ok((
            SpooledFile { folder, share },
            file.map_err(|error| failed(&error))?,
        ))
    }

    /// Keeps a field in memory.
    async fn keep(&mut self, name: String, mut field: Field<'_>) -> Result<(), Problem> {
        let mut text = Vec::new();
        while let Some(piece) = self.piece(&mut field).await? {
            self.room = self.room.checked_sub(piece.len()).ok_or_else(|| {
                let limit = self.console.app.config.server.max_body_bytes;
                let detail = format!("the fields beside the file have at most {limit} bytes");
                Problem::new(Kind::BodyTooLarge).with_detail(detail)
            })?;
            text.extend_from_slice(&piece);
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        self.pairs.push((name, text));
        Ok(())
    }

    async fn piece(&self, field: &mut Field<'_>) -> Result<Option<Bytes>, Problem> {
        let piece = field.chunk().await.map_err(|error| refusal(&error))?;
        self.unread.store(0, Ordering::Relaxed);
        Ok(piece)
    }
}

fn failed(error: &io::Error) -> Problem {
    tracing::error!(%error, "failed to write a file of an import; answering 500");
    Problem::new(Kind::Internal)
}

fn refusal(error: &multer::Error) -> Problem {
    let cause = match error {
        multer::Error::StreamReadFailed(cause) => cause.downcast_ref::<PieceError>(),
        _ => None,
    };
    match cause {
        Some(PieceError::Body(cause)) => (*cause).into(),
        Some(head) => Problem::new(Kind::BodyTooLarge).with_detail(head.to_string()),
        None => Problem::new(Kind::InvalidBody).with_detail(error.to_string()),
    }
}

/// The failure to read the next piece.
#[derive(Debug, thiserror::Error)]
enum PieceError {
    #[error(transparent)]
    Body(BodyError),
    #[error("the heads of the fields of a form have at most {MAX_HEAD_BYTES} bytes")]
    Heads,
}

/// The pieces of a body. The parser would read everything available at once: after each piece this returns pending once, so that
/// the parser processes that piece first.
struct OneByOne<'a> {
    pieces: BoxStream<'a, Result<Bytes, PieceError>>,
    /// Bytes that the parser has not processed yet.
    unread: Arc<AtomicUsize>,
    pauses: bool,
}

impl Stream for OneByOne<'_> {
    type Item = Result<Bytes, PieceError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.pauses) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let piece = ready!(self.pieces.poll_next_unpin(context));
        self.pauses = true;
        let is_too_much = |piece: &Bytes| {
            let unread = self.unread.fetch_add(piece.len(), Ordering::Relaxed);
            unread > MAX_HEAD_BYTES
        };
        Poll::Ready(match piece {
            Some(Ok(piece)) if is_too_much(&piece) => Some(Err(PieceError::Heads)),
            piece => piece,
        })
    }
}
