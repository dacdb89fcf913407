//! The load of one shard: its connections, what is under way on them, what came of it.
//!
//! Each connection has a task that sends and one that takes answers. In a closed loop an answer
//! makes the next request; in an open loop a third task, one for all, makes those that are due.

use super::options::{Options, Workload};
use super::report::Sample;
use super::target::Target;
use super::wire::{self, Answer, Template, Verb};
use runtime::sync::Notify;
use runtime::task::{Scope, join_all, yield_if_needed};
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use stdx::Prng;
use tls::Stream;

/// What a read takes in at most.
const INPUT_BYTES: usize = 256 << 10;
/// Rows that are populated in one write of a connection.
const POPULATED_TOGETHER: usize = 64;
/// Requests that are not sent yet lie in pieces of about so many bytes: none is moved when there
/// come to be many, as of a node that falls behind.
const PIECE_BYTES: usize = 256 << 10;
/// Requests that are made before others have their turn.
const MADE_AT_ONCE: u64 = 256;
/// How often an open loop looks what is due: seldom enough that requests leave together.
const TICK: Duration = Duration::from_micros(500);

/// A connection whose requests are answered one by one.
struct Client {
    stream: Stream,
    input: Vec<u8>,
}

impl Client {
    async fn connect(target: &Target) -> Result<Client, String> {
        let mut client = Client { stream: target.connect().await?, input: Vec::new() };
        client.ask(wire::startup()).await?;
        Ok(client)
    }

    /// Sends a request and waits for its answer: its body.
    async fn ask(&mut self, request: Vec<u8>) -> Result<Vec<u8>, String> {
        self.send(request).await?;
        let (answer, body) = self.answer().await?;
        match answer.error {
            None => Ok(body),
            Some(code) => Err(format!("error {code:#x}: {}", String::from_utf8_lossy(&body))),
        }
    }

    async fn send(&mut self, requests: Vec<u8>) -> Result<(), String> {
        self.stream.write_all(requests).await.0.map_err(|error| error.to_string())
    }

    async fn answer(&mut self) -> Result<(Answer, Vec<u8>), String> {
        loop {
            if let Some(answer) = wire::answer(&self.input) {
                let frame: Vec<u8> = self.input.drain(..answer.bytes).collect();
                return Ok((answer, frame[frame.len().min(9)..].to_vec()));
            }
            let (read, input) = self.stream.read(std::mem::take(&mut self.input)).await;
            self.input = input;
            if !matches!(read, Ok(1..)) {
                return Err("the node ended the connection".to_string());
            }
        }
    }

    /// The templates of a workload on all tables.
    async fn templates(&mut self, options: &Options, verb: Verb) -> Result<Vec<Template>, String> {
        let (mut templates, workload) = (Vec::new(), options.workload);
        let how = (options.consistency, options.value_bytes);
        for table in 0..options.tables {
            let template = match options.use_prepared {
                true => {
                    let body =
                        self.ask(wire::prepare(&wire::statement(workload, verb, table))).await?;
                    let id = wire::prepared_id(&body).ok_or("not a prepared statement")?;
                    Template::new(workload, verb, table, Some(id), how)
                }
                false => Template::new(workload, verb, table, None, how),
            };
            templates.push(template);
        }
        Ok(templates)
    }
}

/// Makes the tables.
pub(super) async fn make_schema(options: &Options, target: &Target) -> Result<(), String> {
    let mut client = Client::connect(target).await?;
    for text in wire::schema(options.tables, options.copies, options.compressed) {
        client.ask(wire::query(&text)).await?;
    }
    Ok(())
}

/// A connection with many requests under way.
struct Pipe {
    stream: Stream,
    pending: RefCell<VecDeque<Vec<u8>>>,
    /// The memory of a piece that was sent.
    spare: RefCell<Vec<u8>>,
    filled: Notify,
    /// When the request of each stream fell due.
    due: RefCell<Vec<Instant>>,
    /// Streams without a request.
    free: RefCell<Vec<u16>>,
}

impl Pipe {
    fn new(stream: Stream, streams: usize) -> Rc<Pipe> {
        Rc::new(Pipe {
            stream,
            pending: RefCell::default(),
            spare: RefCell::default(),
            filled: Notify::new(),
            due: RefCell::new(vec![Instant::ZERO; streams]),
            free: RefCell::new((0..streams as u16).rev().collect()),
        })
    }
}

/// What a shard asks. Lives in `runtime::local`.
pub(super) struct Load {
    options: Options,
    target: Target,
    clients: RefCell<Vec<Client>>,
    pipes: RefCell<Vec<Rc<Pipe>>>,
    templates: Vec<Template>,
    writes: Vec<Template>,
    prng: RefCell<Prng>,
    sample: RefCell<Sample>,
    sampled_at: Cell<Instant>,
    /// Requests that may still be made.
    budget: Cell<u64>,
    /// And those of them that were answered.
    answered: Cell<u64>,
    /// Told when the budget is used up.
    spent: Notify,
    broken: RefCell<Option<String>>,
    tasks: Scope,
}

impl Load {
    /// Connects.
    pub(super) async fn start(options: Options, target: Target) -> Result<Load, String> {
        let seed = runtime::shard_id() as u64 + 1;
        let mut load = Load {
            target,
            clients: RefCell::default(),
            pipes: RefCell::default(),
            templates: Vec::new(),
            writes: Vec::new(),
            prng: RefCell::new(Prng::from_seed(seed)),
            sample: RefCell::new(Sample::new()),
            sampled_at: Cell::new(Instant::ZERO),
            budget: Cell::new(0),
            answered: Cell::new(0),
            spent: Notify::new(),
            broken: RefCell::new(None),
            tasks: Scope::new(),
            options,
        };
        // Each of the node's shards knows what was prepared on it only.
        for _ in 0..load.options.connections {
            let mut client = Client::connect(&load.target).await?;
            load.templates = client.templates(&load.options, Verb::Ask).await?;
            load.writes = client.templates(&load.options, Verb::Fill).await?;
            load.clients.get_mut().push(client);
        }
        Ok(load)
    }

    /// Writes this shard's part of the rows.
    pub(super) async fn populate(&self) -> Result<(), String> {
        let mut clients = self.clients.take();
        let (shard, shards) = (runtime::shard_id() as u64, runtime::shard_count() as u64);
        let step = clients.len() as u64 * shards;
        let parts = clients.iter_mut().enumerate().map(|(number, client)| async move {
            let first = number as u64 * shards + shard;
            let mut keys = (first..self.options.rows()).step_by(step as usize).peekable();
            while keys.peek().is_some() {
                let some: Vec<u64> = keys.by_ref().take(POPULATED_TOGETHER).collect();
                self.write_rows(client, some).await?;
            }
            Ok::<(), String>(())
        });
        let done: Result<Vec<()>, String> = join_all(parts).await.into_iter().collect();
        self.clients.replace(clients);
        done.map(drop)
    }

    /// Writes rows until they are all written: a node that is overloaded is asked again.
    async fn write_rows(&self, client: &mut Client, mut keys: Vec<u64>) -> Result<(), String> {
        const OVERLOADED: u32 = 0x1001;
        while !keys.is_empty() {
            let mut requests = Vec::new();
            for (stream, row) in keys.iter().enumerate() {
                self.template(&self.writes, *row).put(&mut requests, stream as u16, *row);
            }
            client.send(requests).await?;
            let mut again = Vec::new();
            for _ in 0..keys.len() {
                let (answer, body) = client.answer().await?;
                match answer.error {
                    None => {}
                    Some(OVERLOADED) => again.extend(keys.get(answer.stream as usize)),
                    Some(code) => {
                        let text = String::from_utf8_lossy(&body).into_owned();
                        return Err(format!("population: error {code:#x}: {text}"));
                    }
                }
            }
            if !again.is_empty() {
                runtime::time::sleep(Duration::from_millis(20)).await;
            }
            keys = again;
        }
        Ok(())
    }

    /// The template of the table that a row is in: partitions are dealt to the tables in turn.
    fn template<'t>(&self, templates: &'t [Template], row: u64) -> &'t Template {
        let partition = row / templates[0].rows();
        &templates[(partition % templates.len() as u64) as usize]
    }

    /// A random row that may be asked for.
    fn some_row(&self) -> (u64, &Template) {
        let rows = self.options.partitions * self.templates[0].rows();
        let row = self.prng.borrow_mut().below(rows);
        (row, self.template(&self.templates, row))
    }

    /// Begins to ask.
    pub(super) async fn begin(self: &Rc<Self>) -> Result<(), String> {
        let options = &self.options;
        self.sampled_at.set(Instant::now());
        if options.operations_per_shard.is_none() {
            self.budget.set(u64::MAX);
        }
        if options.connects_each_time() {
            self.clients.take();
            for _ in 0..options.connections {
                let load = self.clone();
                self.tasks.spawn(async move { load.connect_again_and_again().await });
            }
            return Ok(());
        }
        let streams = if options.rate.is_some() { options.streams } else { options.concurrency };
        for client in self.clients.take() {
            let pipe = Pipe::new(client.stream, streams);
            yield_if_needed().await;
            self.pipes.borrow_mut().push(pipe.clone());
            let sending = pipe.clone();
            self.tasks.spawn(async move { send_all(&sending).await });
            let load = self.clone();
            self.tasks.spawn(async move { load.take_answers(&pipe).await });
        }
        match options.rate {
            Some(rate) => {
                let load = self.clone();
                let rate = rate as f64 / runtime::shard_count() as f64;
                self.tasks.spawn(async move { load.ask_when_due(rate).await });
            }
            None => self.fill(),
        }
        Ok(())
    }

    /// Uses all streams, in a closed loop.
    fn fill(&self) {
        let now = Instant::now();
        for pipe in self.pipes.borrow().iter() {
            while 0 < self.budget.get() && self.ask(pipe, now) {}
            pipe.filled.notify_one();
        }
    }

    /// Waits for a sample to end: what was done in it.
    pub(super) async fn sample(self: &Rc<Self>) -> Result<Sample, String> {
        match self.options.operations_per_shard {
            None => runtime::time::sleep(Duration::from_secs(1)).await,
            Some(operations) => {
                self.sampled_at.set(Instant::now());
                self.answered.set(0);
                self.budget.set(operations);
                self.fill();
                while self.answered.get() < operations && self.broken.borrow().is_none() {
                    self.spent.notified().await;
                }
            }
        }
        if let Some(text) = self.broken.take() {
            return Err(text);
        }
        let now = Instant::now();
        let seconds = (now - self.sampled_at.replace(now)).as_secs_f64();
        Ok(Sample { seconds, ..self.sample.replace(Sample::new()) })
    }

    /// Asks nothing any more.
    pub(super) async fn end(&self) -> Result<(), String> {
        self.tasks.cancel().await;
        self.pipes.take();
        Ok(())
    }

    /// Adds a request to a connection; false: no stream of it is free.
    fn ask(&self, pipe: &Pipe, due: Instant) -> bool {
        let Some(stream) = pipe.free.borrow_mut().pop() else { return false };
        self.put(pipe, stream, due);
        true
    }

    fn put(&self, pipe: &Pipe, stream: u16, due: Instant) {
        self.budget.set(self.budget.get() - 1);
        pipe.due.borrow_mut()[stream as usize] = due;
        let (row, template) = self.some_row();
        let mut pending = pipe.pending.borrow_mut();
        if pending.back().is_none_or(|last| PIECE_BYTES <= last.len()) {
            pending.push_back(pipe.spare.take());
        }
        template.put(pending.back_mut().expect("a piece with room"), stream, row);
    }

    /// Makes requests as they fall due.
    async fn ask_when_due(&self, rate: f64) {
        let pipes = self.pipes.borrow().clone();
        let start = Instant::now();
        let (mut made, mut next) = (0u64, 0);
        loop {
            let due = (start.elapsed().as_secs_f64() * rate) as u64;
            let until = due.min(made + MADE_AT_ONCE);
            while made < until {
                let at = start + Duration::from_secs_f64(made as f64 / rate);
                if !self.ask(&pipes[next], at) {
                    self.sample.borrow_mut().unsent += 1;
                }
                made += 1;
                next = (next + 1) % pipes.len();
            }
            for pipe in &pipes {
                if !pipe.pending.borrow().is_empty() {
                    pipe.filled.notify_one();
                }
            }
            match made < due {
                true => yield_if_needed().await,
                false => runtime::time::sleep(TICK).await,
            }
        }
    }

    /// Takes the answers of a connection.
    async fn take_answers(&self, pipe: &Pipe) {
        let mut input = Vec::with_capacity(INPUT_BYTES);
        let timeout = self.options.timeout.as_micros() as u64;
        let closed_loop = self.options.rate.is_none();
        loop {
            let (read, buffer) = pipe.stream.read(input).await;
            input = buffer;
            if !matches!(read, Ok(1..)) {
                self.broken.replace(Some("the node ended a connection".to_string()));
                self.spent.notify_one();
                return;
            }
            let now = Instant::now();
            let mut used = 0;
            {
                let mut sample = self.sample.borrow_mut();
                while let Some(answer) = input.get(used..).and_then(wire::answer) {
                    used += answer.bytes;
                    let due = pipe.due.borrow()[answer.stream as usize];
                    match answer.error {
                        None => sample.record((now - due).as_micros() as u64, timeout),
                        Some(code) => *sample.failed.entry(code).or_default() += 1,
                    }
                    self.answered.set(self.answered.get() + 1);
                    if closed_loop && 0 < self.budget.get() {
                        self.put(pipe, answer.stream, now);
                    } else {
                        pipe.free.borrow_mut().push(answer.stream);
                    }
                }
            }
            input.drain(..used);
            input.reserve(INPUT_BYTES / 2);
            if closed_loop {
                pipe.filled.notify_one();
                self.spent.notify_one();
            }
        }
    }

    async fn connect_again_and_again(&self) {
        loop {
            while self.budget.get() == 0 {
                runtime::time::sleep(Duration::from_millis(1)).await;
            }
            self.budget.set(self.budget.get() - 1);
            let began = Instant::now();
            let done = self.connect_once().await;
            let micros = began.elapsed().as_micros() as u64;
            let mut sample = self.sample.borrow_mut();
            match done {
                Ok(()) => sample.record(micros, self.options.timeout.as_micros() as u64),
                Err(_) => *sample.failed.entry(0).or_default() += 1,
            }
            drop(sample);
            self.answered.set(self.answered.get() + 1);
            self.spent.notify_one();
        }
    }

    async fn connect_once(&self) -> Result<(), String> {
        let mut client = Client::connect(&self.target).await?;
        if self.options.workload != Workload::Connect {
            let (row, template) = self.some_row();
            let mut request = Vec::new();
            template.put(&mut request, 1, row);
            client.ask(request).await?;
        }
        Ok(())
    }
}

/// Sends what a connection has to send, together what came while it sent.
async fn send_all(pipe: &Pipe) {
    loop {
        let next = pipe.pending.borrow_mut().pop_front();
        let Some(piece) = next else {
            pipe.filled.notified().await;
            continue;
        };
        let (sent, mut memory) = pipe.stream.write_all(piece).await;
        if sent.is_err() {
            // Whoever takes the answers tells.
            return;
        }
        memory.clear();
        pipe.spare.replace(memory);
    }
}
