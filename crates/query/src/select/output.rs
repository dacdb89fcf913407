//! Rows of the result: one by one, grouped, or to be sorted.

use crate::error::CqlError;
use functions::Accumulator;
use model::key::{clustering_components, partition_key_component};
use plan::select::{Grouping, SelectPlan};
use plan::term::Env;
use stdx::Put;

/// Takes the rows that pass, makes the result's rows.
pub(super) struct Output<'p> {
    plan: &'p SelectPlan,
    pub(super) body: Vec<u8>,
    pub(super) row_count: u64,
    group: Option<Group>,
    /// Where rows have to be sorted: clustering key and row.
    unsorted: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    /// Of groups: how many the present partition has had, and how many it may have.
    partition: Vec<u8>,
    groups_in_partition: u64,
    per_partition_max: u64,
    rows_max: u64,
}

#[derive(Clone)]
struct Group {
    /// The values that all of its rows share.
    id: Vec<u8>,
    partition: Vec<u8>,
    /// Of its first row.
    clustering: Vec<u8>,
    accumulators: Vec<Accumulator>,
}

impl<'p> Output<'p> {
    pub(super) fn new(plan: &'p SelectPlan, sorted_here: bool) -> Output<'p> {
        Output {
            plan,
            body: Vec::new(),
            row_count: 0,
            group: None,
            unsorted: sorted_here.then(Vec::new),
            partition: Vec::new(),
            groups_in_partition: 0,
            per_partition_max: u64::MAX,
            rows_max: u64::MAX,
        }
    }

    /// Limits for groups; rows are limited by the caller.
    pub(super) fn limit_groups(&mut self, rows_max: u64, per_partition_max: u64) {
        self.rows_max = rows_max;
        self.per_partition_max = per_partition_max;
    }

    /// Goes on in a partition that has had so many groups.
    pub(super) fn resume_groups(&mut self, key: &[u8], groups: u64) {
        self.partition = key.to_vec();
        self.groups_in_partition = groups;
    }

    /// How many groups there are with the open one, if it will count.
    pub(super) fn groups_with_open(&self) -> u64 {
        let counts = self.group.is_some() && self.groups_in_partition < self.per_partition_max;
        self.row_count + u64::from(counts)
    }

    /// How many groups the partition has had with the open one.
    pub(super) fn groups_of(&self, key: &[u8]) -> u64 {
        let open = self.group.as_ref().is_some_and(|group| group.partition == key);
        let before = if self.partition == key { self.groups_in_partition } else { 0 };
        before + u64::from(open)
    }

    /// Whether a row would begin another group than the open one.
    pub(super) fn is_of_other_group(&self, key: &[u8], clustering: &[u8]) -> bool {
        let open = self.group.as_ref();
        open.is_some_and(|open| open.id != self.group_id(self.plan.grouping, key, clustering))
    }

    /// The values that all rows of a group share.
    fn group_id(&self, grouping: Grouping, key: &[u8], clustering: &[u8]) -> Vec<u8> {
        let mut id = Vec::new();
        let Grouping::By { partition, clustering: columns } = grouping else { return id };
        let key_count = self.plan.table.schema.partition_key_count;
        if partition == key_count {
            id.put_u32_bytes(key);
        } else {
            for index in 0..partition {
                let part = partition_key_component(key, key_count, index);
                id.put_u32_bytes(part.unwrap_or_default());
            }
        }
        for part in clustering_components(clustering).take(columns) {
            id.put_u32_bytes(part);
        }
        id
    }

    /// Adds a row.
    pub(super) fn add(
        &mut self,
        key: &[u8],
        clustering: &[u8],
        env: &Env<'_>,
    ) -> Result<(), CqlError> {
        if self.plan.grouping != Grouping::None {
            self.begin_group(key, clustering, env)?;
            return self.add_to_group(env);
        }
        if let Some(rows) = &mut self.unsorted {
            let mut row = Vec::new();
            write_row(self.plan, env, &mut row)?;
            rows.push((clustering.to_vec(), row));
        } else {
            write_row(self.plan, env, &mut self.body)?;
        }
        self.row_count += 1;
        Ok(())
    }

    /// Adds a row that is copied as it is.
    pub(super) fn add_verbatim(&mut self, values: &[u8]) {
        self.body.put(values);
        self.row_count += 1;
    }

    /// Whether nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.row_count == 0 && self.body.is_empty()
    }

    /// Takes over `count` rows as the first ones.
    pub(super) fn add_rows(&mut self, rows: Vec<u8>, count: u64) {
        self.body = rows;
        self.row_count = count;
    }

    /// Adds a row of `count` nulls: of a partition that has no rows.
    pub(super) fn add_null_row(&mut self, count: usize) {
        (0..count).for_each(|_| self.body.put_i32(-1));
        self.row_count += 1;
    }

    /// Whether rows go into the result as they come.
    pub(super) fn is_plain(&self) -> bool {
        self.unsorted.is_none() && self.plan.grouping == Grouping::None
    }

    /// Opens the group of a row that will be added, where it is not open.
    pub(super) fn begin_group(
        &mut self,
        key: &[u8],
        clustering: &[u8],
        env: &Env<'_>,
    ) -> Result<(), CqlError> {
        if self.plan.grouping == Grouping::None {
            return Ok(());
        }
        let id = self.group_id(self.plan.grouping, key, clustering);
        if self.group.as_ref().is_none_or(|group| group.id != id) {
            self.finish_group(env)?;
            let accumulators = self.plan.aggregates.iter().map(|(a, _)| a.begin()).collect();
            let (partition, clustering) = (key.to_vec(), clustering.to_vec());
            self.group = Some(Group { id, partition, clustering, accumulators });
        }
        Ok(())
    }

    fn add_to_group(&mut self, env: &Env<'_>) -> Result<(), CqlError> {
        let Some(group) = &mut self.group else { return Ok(()) };
        if env.calls.is_none() {
            return add_to_all(&mut group.accumulators, self.plan, env);
        }
        // Calls may be interrupted: all of them take the row, or none.
        let mut accumulators = group.accumulators.clone();
        add_to_all(&mut accumulators, self.plan, env)?;
        group.accumulators = accumulators;
        Ok(())
    }

    /// Puts the open group out. Where calls are interrupted it stays open.
    fn finish_group(&mut self, env: &Env<'_>) -> Result<(), CqlError> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let kept = env.calls.map(|_| group.clone());
        let finished = self.put_out(group, env);
        if finished.is_err() {
            self.group = kept;
        }
        finished
    }

    fn put_out(&mut self, group: Group, env: &Env<'_>) -> Result<(), CqlError> {
        if self.rows_max <= self.row_count {
            return Ok(());
        }
        if self.per_partition_max <= self.groups_in_partition {
            return Ok(());
        }
        let values: Result<Vec<Option<Vec<u8>>>, CqlError> =
            group.accumulators.into_iter().map(|it| Ok(it.finish(env.calls)?)).collect();
        let values = values?;
        let env = Env { aggregates: &values, ..env.with_row(&[]) };
        match &mut self.unsorted {
            None => write_row(self.plan, &env, &mut self.body)?,
            Some(rows) => {
                let mut row = Vec::new();
                write_row(self.plan, &env, &mut row)?;
                rows.push((group.clustering, row));
            }
        }
        self.row_count += 1;
        self.groups_in_partition += 1;
        Ok(())
    }

    /// A partition begins.
    pub(super) fn begin_partition(&mut self, key: &[u8], env: &Env<'_>) -> Result<(), CqlError> {
        if self.per_partition_max == u64::MAX {
            return Ok(());
        }
        if self.partition != key {
            if self.group.as_ref().is_some_and(|group| group.partition != key) {
                self.finish_group(env)?;
            }
            self.partition.clear();
            self.partition.extend_from_slice(key);
            self.groups_in_partition = 0;
        }
        Ok(())
    }

    /// All rows were added.
    pub(super) fn finish(&mut self, env: &Env<'_>, rows_max: u64) -> Result<(), CqlError> {
        if self.plan.grouping == Grouping::All && self.group.is_none() {
            let accumulators = self.plan.aggregates.iter().map(|(a, _)| a.begin()).collect();
            let (id, partition, clustering) = (Vec::new(), Vec::new(), Vec::new());
            self.group = Some(Group { id, partition, clustering, accumulators });
        }
        self.finish_group(env)?;
        let Some(mut rows) = self.unsorted.take() else { return Ok(()) };
        let order = &self.plan.table.schema.order;
        rows.sort_by(|(a, _), (b, _)| {
            let by_table = order.compare((a, 0), (b, 0));
            if self.plan.reversed { by_table.reverse() } else { by_table }
        });
        rows.truncate(usize::try_from(rows_max).unwrap_or(usize::MAX));
        self.row_count = rows.len() as u64;
        rows.iter().for_each(|(_, row)| self.body.put(row));
        Ok(())
    }
}

fn add_to_all(
    accumulators: &mut [Accumulator],
    plan: &SelectPlan,
    env: &Env<'_>,
) -> Result<(), CqlError> {
    for (accumulator, (_, argument)) in accumulators.iter_mut().zip(&plan.aggregates) {
        match argument {
            None => accumulator.add(None, env.calls)?,
            Some(term) => accumulator.add(term.evaluate(env)?.bytes(), env.calls)?,
        }
    }
    Ok(())
}

/// Writes all of a row, or nothing.
fn write_row(plan: &SelectPlan, env: &Env<'_>, out: &mut Vec<u8>) -> Result<(), CqlError> {
    let start = out.len();
    for term in &plan.outputs {
        match term.evaluate(env) {
            Ok(value) => match value.bytes() {
                None => out.put_i32(-1),
                Some(bytes) => out.put_u32_bytes(bytes),
            },
            Err(error) => {
                out.truncate(start);
                return Err(error.into());
            }
        }
    }
    Ok(())
}
