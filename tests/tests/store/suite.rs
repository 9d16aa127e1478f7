//! Running one test on every database.

/// Makes a test of each function for each database: `sqlite::name` and `server::name`.
macro_rules! on_every_database {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name($crate::fixture::Database::sqlite()).await;
                }
            )+
        }

        mod server {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name($crate::fixture::Database::on_server().await).await;
                }
            )+
        }
    };
}
