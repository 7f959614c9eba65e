//! Bounds the memory of all answers that are collected before they are parsed.

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{ClickHouseError, Result};

/// An answer up to this size needs no permit: the number of running statements bounds how many of them there are.
const FREE_BYTES: usize = 1024 * 1024;
/// Memory for all larger answers of the process together: two of maximum size.
const MAX_RESPONSES_MIB: usize = 512;

static RESPONSES: Semaphore = Semaphore::const_new(MAX_RESPONSES_MIB);

/// The memory that one answer holds.
#[derive(Debug, Default)]
pub(crate) struct ResponseMemory {
    permit: Option<SemaphorePermit<'static>>,
}

impl ResponseMemory {
    /// Reserves memory for an answer of this size. It does not wait: answers that each hold a part and wait for the
    /// rest would deadlock.
    ///
    /// # Errors
    /// [`ClickHouseError::Unavailable`] when other answers hold the memory.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<()> {
        self.reserve_from(&RESPONSES, bytes)
    }

    fn reserve_from(&mut self, responses: &'static Semaphore, bytes: usize) -> Result<()> {
        if bytes <= FREE_BYTES {
            return Ok(());
        }
        let held = self.permit.as_ref().map_or(0, SemaphorePermit::num_permits);
        let missing = bytes.div_ceil(1024 * 1024).saturating_sub(held);
        if missing == 0 {
            return Ok(());
        }
        let more = responses.try_acquire_many(u32::try_from(missing).unwrap_or(u32::MAX)).map_err(|_| {
            let message = "the memory for large responses is in use".to_owned();
            ClickHouseError::Unavailable { message, retry_after_seconds: 1 }
        })?;
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_answers_share_one_bound() {
        static FEW: Semaphore = Semaphore::const_new(3);
        const MIB: usize = 1024 * 1024;
        let (mut one, mut other) = (ResponseMemory::default(), ResponseMemory::default());
        for bytes in [1, MIB, MIB + 1, 2 * MIB] {
            one.reserve_from(&FEW, bytes).unwrap();
        }
        assert_eq!(FEW.available_permits(), 1);
        other.reserve_from(&FEW, MIB).unwrap();
        let refused = other.reserve_from(&FEW, 2 * MIB);
        assert!(
            matches!(refused, Err(ClickHouseError::Unavailable { retry_after_seconds: 1, .. })),
            "{refused:?}"
        );
        drop(one);
        other.reserve_from(&FEW, 3 * MIB).unwrap();
        drop(other);
        assert_eq!(FEW.available_permits(), 3);
    }
}
