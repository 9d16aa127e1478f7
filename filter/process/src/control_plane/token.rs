//! The token of the edge API, from a file that may be replaced.

use super::Log;
use edgelink_wire::settings::InvalidField;
use http::HeaderValue;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Period after which the file is read again.
const PERIOD: Duration = Duration::from_secs(1);

/// The token; none without a file.
pub(super) struct EdgeToken {
    file: Option<String>,
    state: Mutex<TokenState>,
    log: Log,
}

struct TokenState {
    /// The value of `authorization`.
    current: Option<HeaderValue>,
    /// `None` if it is to be read again at once.
    read_at: Option<Instant>,
    /// True while the file cannot be used, which is logged once.
    is_wrong: bool,
}

impl EdgeToken {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be used.
    pub(super) fn new(file: Option<String>, log: Log) -> Result<Self, InvalidField> {
        let current = file.as_deref().map(read).transpose();
        let current = current.map_err(|reason| InvalidField {
            field: "tokenFile".to_owned(),
            reason,
        })?;
        let state = TokenState {
            current,
            read_at: Some(Instant::now()),
            is_wrong: false,
        };
        Ok(Self {
            file,
            state: Mutex::new(state),
            log,
        })
    }

    /// The value of `authorization`; `None` without a file.
    pub(super) fn current(&self) -> Option<HeaderValue> {
        let file = self.file.as_deref()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.read_at.is_none_or(|at| at.elapsed() >= PERIOD) {
            state.read_at = Some(Instant::now());
            match read(file) {
                Ok(current) => {
                    state.current = Some(current);
                    state.is_wrong = false;
                }
                Err(reason) if !std::mem::replace(&mut state.is_wrong, true) => {
                    (self.log)(&format!(
                        "controlPlane.tokenFile: {reason}; the token that it had is used"
                    ));
                }
                Err(_) => {}
            }
        }
        state.current.clone()
    }

    /// Reads the file again after a server has refused a token. Returns `true` if it has another one now.
    pub(super) fn is_replaced(&self, refused: Option<&HeaderValue>) -> bool {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .read_at = None;
        self.current().as_ref() != refused
    }
}

/// Reads a file. The error does not have its content.
fn read(file: &str) -> Result<HeaderValue, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "{file} must have visible ASCII characters without spaces"
        ));
    }
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| format!("{file} must have visible ASCII characters without spaces"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn log() -> (Log, std::sync::mpsc::Receiver<String>) {
        let (sender, lines) = std::sync::mpsc::channel();
        let log = move |line: &str| sender.send(line.to_owned()).unwrap();
        (std::sync::Arc::new(log), lines)
    }

    #[tokio::test(start_paused = true)]
    async fn token_when_its_file_changes_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, "first\n").unwrap();
        let (log, lines) = log();
        let token = EdgeToken::new(Some(file.to_str().unwrap().to_owned()), log).unwrap();
        assert_eq!(token.current().unwrap(), "Bearer first");
        fs::write(&file, "second").unwrap();
        tokio::time::advance(PERIOD).await;
        assert_eq!(token.current().unwrap(), "Bearer second");
        assert!(token.current().unwrap().is_sensitive());
        let refused = token.current();
        assert!(!token.is_replaced(refused.as_ref()));
        fs::write(&file, "third").unwrap();
        assert!(token.is_replaced(refused.as_ref()), "at once");
        fs::write(&file, "second").unwrap();
        tokio::time::advance(PERIOD).await;
        assert_eq!(token.current().unwrap(), "Bearer second");
        for wrong in ["", "a b"] {
            fs::write(&file, wrong).unwrap();
            tokio::time::advance(PERIOD).await;
            assert_eq!(token.current().unwrap(), "Bearer second");
        }
        let lines: Vec<_> = lines.try_iter().collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("controlPlane.tokenFile: "));
        assert!(!lines[0].contains("a b"));
    }

    #[test]
    fn token_file_when_missing_is_named() {
        let (log, _lines) = log();
        let error = EdgeToken::new(Some("/missing/token".to_owned()), log).err();
        let error = error.unwrap();
        assert_eq!(error.field, "tokenFile");
        assert!(error.reason.starts_with("/missing/token: "), "{error:?}");
    }
}
