//! Values built from files, and rebuilt when the files change: certificates, and edge tokens.

use crate::config::FileText;
use crate::telemetry::prometheus::FILES_UNUSABLE;
use metrics::gauge;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Builds a value from the files; the error describes an invalid file.
type Make<T> = Box<dyn Fn(&[FileText]) -> Result<T, String> + Send + Sync>;

/// A value that follows its files.
pub struct Reloaded<T> {
    /// Its name in log and metrics.
    name: &'static str,
    files: Vec<FileText>,
    make: Make<T>,
    current: RwLock<Arc<T>>,
}

/// Contents of the files; the error names the unreadable one.
type Files = Result<Vec<FileText>, String>;

/// The last read of the files, and the last one that took effect.
struct Reads {
    last: Files,
    used: Files,
}

impl Reads {
    fn new(files: &[FileText]) -> Self {
        let files = Ok(files.to_vec());
        Self {
            last: files.clone(),
            used: files,
        }
    }
}

impl<T> Reloaded<T> {
    /// Builds the value from the files as read with the configuration.
    ///
    /// # Errors
    /// A message if a file is invalid.
    pub fn new(
        name: &'static str,
        files: Vec<FileText>,
        make: impl Fn(&[FileText]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Arc<Self>, String> {
        let first = Arc::new(make(&files)?);
        gauge!(FILES_UNUSABLE, "files" => name).set(0);
        Ok(Arc::new(Self {
            name,
            files,
            make: Box::new(make),
            current: RwLock::new(first),
        }))
    }

    /// The current value.
    pub fn current(&self) -> Arc<T> {
        let current = self.current.read();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files every `period` until `stop`. Contents are compared instead of modification times: a file may be replaced by
    /// one with an equal time, or by retargeting a symbolic link. A change takes effect when two consecutive reads agree, because a
    /// file that is written in place may be read in part.
    pub async fn follow(self: Arc<Self>, period: Duration, stop: CancellationToken) {
        let mut reads = Reads::new(&self.files);
        while stop
            .run_until_cancelled(tokio::time::sleep(period))
            .await
            .is_some()
        {
            self.read_again(&mut reads).await;
        }
    }

    async fn read_again(&self, reads: &mut Reads) {
        let files = self.read().await;
        if files == reads.last && files != reads.used {
            self.renew(&files);
            reads.used.clone_from(&files);
        }
        reads.last = files;
    }

    async fn read(&self) -> Files {
        let mut files = Vec::with_capacity(self.files.len());
        for file in &self.files {
            files.push(file.again().await.map_err(|error| error.to_string())?);
        }
        Ok(files)
    }

    /// Rebuilds the value from changed files; the previous one stays if that fails.
    fn renew(&self, files: &Files) {
        let name = self.name;
        let files = files.as_ref().map_err(String::clone);
        let made = files.and_then(|files| (self.make)(files));
        gauge!(FILES_UNUSABLE, "files" => name).set(u8::from(made.is_err()));
        match made {
            Ok(value) => {
                let current = self.current.write();
                *current.unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
                tracing::info!(name, "files have changed: using them from now on");
            }
            Err(error) => {
                tracing::warn!(name, %error, "files have changed and cannot be used: what was read before stays in use");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::settings::{Problems, SettingValue};
    use std::path::Path;

    const PERIOD: Duration = Duration::from_secs(1);

    fn number(files: &[FileText]) -> Result<u32, String> {
        let numbers = files.iter().map(|file| file.text().parse::<u32>());
        let sum: Result<u32, _> = numbers.sum();
        sum.map_err(|error| error.to_string())
    }

    fn read(file: &Path) -> FileText {
        let path = file.to_str().unwrap().into();
        FileText::read(path, "a.file", &mut Problems::default()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn value_when_its_files_change_follows_the_right_ones() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["a", "b"].map(|name| folder.path().join(name));
        for file in &files {
            std::fs::write(file, "1").unwrap();
        }
        let texts = files.iter().map(|file| read(file)).collect();
        let sum = Reloaded::new("sum", texts, number).unwrap();
        let stop = CancellationToken::new();
        let following = tokio::spawn(sum.clone().follow(PERIOD, stop.clone()));
        assert_eq!(*sum.current(), 2);
        for (text, expected) in [
            (Some("2"), 3),
            (Some("x"), 3),
            (None, 3),
            (Some(""), 3),
            (Some("7"), 8),
        ] {
            match text {
                Some(text) => std::fs::write(&files[0], text).unwrap(),
                None => std::fs::remove_file(&files[0]).unwrap(),
            }
            // On the test's paused clock: the files have been read twice by then.
            tokio::time::sleep(3 * PERIOD).await;
            assert_eq!(*sum.current(), expected, "{text:?}");
        }
        stop.cancel();
        following.await.unwrap();
    }

    #[tokio::test]
    async fn value_when_read_only_once_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "1").unwrap();
        let value = Reloaded::new("sum", vec![read(&file)], number).unwrap();
        let mut reads = Reads::new(&value.files);
        for (text, expected) in [
            ("12", 1),
            ("123", 1),
            ("123", 123),
            ("1", 123),
            ("123", 123),
        ] {
            std::fs::write(&file, text).unwrap();
            value.read_again(&mut reads).await;
            assert_eq!(*value.current(), expected, "{text}");
        }
    }

    #[tokio::test]
    async fn metric_when_files_are_unusable_says_so() {
        let metrics = crate::telemetry::prometheus::recorder().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "1").unwrap();
        let value = Reloaded::new("numbers of a test", vec![read(&file)], number).unwrap();
        let mut reads = Reads::new(&value.files);
        for (text, unusable) in [("1", 0), ("x", 1), ("2", 0)] {
            std::fs::write(&file, text).unwrap();
            for _ in 0..2 {
                value.read_again(&mut reads).await;
            }
            let line =
                format!("edgelink_files_unusable{{files=\"numbers of a test\"}} {unusable}\n");
            assert!(metrics.render().contains(&line), "{text}");
        }
    }

    #[test]
    fn value_when_files_are_wrong_from_the_first_is_refused() {
        assert!(Reloaded::new("sum", vec![FileText::new("x")], number).is_err());
    }
}
