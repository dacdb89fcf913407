//! The gate of a table's files: who writes or removes some passes it; who needs quiet has it whole.
//!
//! Invariants
//!  - *gate-units*: nobody asks for more units than the gate has.

use super::Table;
use runtime::sync::Permit;

/// Units of a table's gate: a flush takes one, who needs quiet takes all.
pub(crate) const GATE_UNITS: usize = 64;

/// Enters the gate of a table with that many units.
pub(crate) async fn pass_gate(table: &Table, units: usize) -> Option<Permit> {
    assert!(0 < units && units <= GATE_UNITS, "gate-units: {units}");
    let permit = table.gate.acquire(units).await.ok();
    assert!(permit.is_some(), "gate-units: nobody was let in");
    permit
}

/// Waits until nothing is written to or removed from the table's directory.
pub(crate) async fn quiet(table: &Table) -> Option<Permit> {
    table.quiet_wanted.set(true);
    let permit = pass_gate(table, GATE_UNITS).await;
    assert!(permit.is_none() || table.gate.available() == 0, "gate-units: it is not quiet");
    table.quiet_wanted.set(false);
    permit
}
