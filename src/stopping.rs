//! Waits of a stop: each has an end, is told if it takes a moment, and is over at once for somebody in a
//! hurry.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// What takes less is not told.
const A_MOMENT: Duration = Duration::from_millis(200);

/// Waits for `work`, until `most` has passed or somebody cancels `hurry`. Calls `tell` if it is not done in
/// a moment. Says whether it was done.
pub(crate) async fn wait(
    work: impl Future<Output = ()>,
    most: Duration,
    hurry: &CancellationToken,
    tell: impl FnOnce(),
) -> bool {
    let mut work = pin!(work);
    let moment = A_MOMENT.min(most);
    tokio::select! {
        biased;
        () = work.as_mut() => return true,
        () = hurry.cancelled() => return false,
        () = tokio::time::sleep(moment) => {}
    }
    if most > moment {
        tell();
    }
    tokio::select! {
        biased;
        () = work => true,
        () = hurry.cancelled() => false,
        () = tokio::time::sleep(most.saturating_sub(moment)) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const MOST: Duration = Duration::from_secs(20);

    /// How a wait for work of that length ends, whether it was told, and how long it took.
    async fn waited(work: Duration, hurry_after: Duration) -> (bool, bool, Duration) {
        let (hurry, is_told) = (CancellationToken::new(), Cell::new(false));
        let begun = tokio::time::Instant::now();
        let hurrying = async {
            tokio::time::sleep(hurry_after).await;
            hurry.cancel();
            std::future::pending::<()>().await;
        };
        let tell = || is_told.set(true);
        let waiting = wait(tokio::time::sleep(work), MOST, &hurry, tell);
        let is_done = tokio::select! {
            is_done = waiting => is_done,
            () = hurrying => unreachable!("it goes on for ever"),
        };
        (is_done, is_told.get(), begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_its_work_in_a_hurry_or_at_its_bound() {
        let [moment, second, minute] = [50, 1_000, 60_000].map(Duration::from_millis);
        assert_eq!(waited(moment, minute).await, (true, false, moment));
        assert_eq!(waited(second, minute).await, (true, true, second));
        assert_eq!(waited(minute, second).await, (false, true, second));
        assert_eq!(waited(minute, moment).await, (false, false, moment));
        assert_eq!(waited(minute, minute).await, (false, true, MOST));
    }
}
