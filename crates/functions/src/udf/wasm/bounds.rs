//! What a module may have: memory, tables, refusals, fuel.
//!
//! Invariants
//!  - *confined*: no memory and no table grows beyond its bound.

use super::Limits;
use wasmi::ResourceLimiter;
use wasmi::errors::{MemoryError, TableError};
use wasmi_core::LimiterError;

/// Tables, and elements of all of them, at most.
const TABLES_MAX: usize = 100;
const TABLE_ELEMENTS_MAX: usize = 64 << 10;
/// How often a call may ask for what it may not have: a refusal costs little fuel and much time.
pub(super) const REFUSED_MAX: u32 = 256;

/// What an instance may have.
#[derive(Debug)]
pub(super) struct Bounds {
    memory_bytes_max: usize,
    /// Of all its memories, exported or not.
    pub(super) memory_bytes: usize,
    /// By how much that grew last.
    memory_growth: usize,
    pub(super) table_elements_max: usize,
    table_elements: usize,
    /// Of the current call.
    pub(super) refused: u32,
    /// What is left to the current call besides the portion that it is using up.
    pub(super) fuel: u64,
}

impl Bounds {
    pub(super) fn new(limits: &Limits) -> Bounds {
        Bounds {
            memory_bytes_max: limits.memory_bytes,
            table_elements_max: TABLE_ELEMENTS_MAX,
            ..Bounds::none()
        }
    }

    /// Those of what may have nothing.
    pub(super) fn none() -> Bounds {
        Bounds {
            memory_bytes_max: 0,
            memory_bytes: 0,
            memory_growth: 0,
            table_elements_max: 0,
            table_elements: 0,
            refused: 0,
            fuel: 0,
        }
    }

    /// Tells the module whether it has more; the call ends where it does not take no for an answer.
    fn answer(&mut self, fits: bool) -> Result<bool, LimiterError> {
        self.refused += u32::from(!fits);
        match self.refused <= REFUSED_MAX {
            true => Ok(fits),
            false => Err(LimiterError::ResourceLimiterDeniedAllocation),
        }
    }
}

impl ResourceLimiter for Bounds {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> Result<bool, LimiterError> {
        let growth = desired.saturating_sub(current);
        let bytes = self.memory_bytes.saturating_add(growth);
        let fits = bytes <= self.memory_bytes_max;
        if fits {
            (self.memory_bytes, self.memory_growth) = (bytes, growth);
        }
        self.answer(fits)
    }

    /// It did not grow after all; where its portion of fuel did not suffice, it asks again.
    fn memory_grow_failed(&mut self, _error: &MemoryError) -> Result<(), LimiterError> {
        self.memory_bytes -= self.memory_growth;
        self.memory_growth = 0;
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> Result<bool, LimiterError> {
        let elements = self.table_elements.saturating_add(desired.saturating_sub(current));
        let fits = elements <= self.table_elements_max;
        if fits {
            self.table_elements = elements;
        }
        self.answer(fits)
    }

    fn table_grow_failed(&mut self, _error: &TableError) -> Result<(), LimiterError> {
        Ok(())
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        TABLES_MAX
    }

    fn memories(&self) -> usize {
        1
    }
}
