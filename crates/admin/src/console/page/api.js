// Requests to the node. The secret of a login is kept here, in memory, and nowhere else.

/// A node that has not answered for so long does not answer.
const PATIENCE_MS = 8000;

let session = null;
let user = null;
let asksPasswords = false;
let login = null;
let told = () => {};

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/// `listener(true)` after each answer of the node, `listener(false)` where none came.
export function onAnswer(listener) {
  told = listener;
}

async function ask(method, path, { body, headers, patience = PATIENCE_MS } = {}) {
  const sent = { "X-Nereid-Console": "1", ...headers };
  if (session) sent["X-Nereid-Session"] = session;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  const options = {
    method, headers: sent, credentials: "omit", cache: "no-store", redirect: "error",
  };
  if (patience) options.signal = AbortSignal.timeout(patience);
  if (body !== undefined) options.body = JSON.stringify(body);
  let response;
  let text;
  try {
    response = await fetch(`/console/api/${path}`, options);
    text = await response.text();
  } catch {
    told(false);
    throw new Refused(0, "The node does not answer.");
  }
  told(true);
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    throw new Refused(response.status, "The node's answer is not JSON.");
  }
  if (response.ok) return value;
  throw new Refused(response.status, value?.message || `HTTP status ${response.status}`);
}

export const get = (path) => ask("GET", path);
export const post = (path, body) => ask("POST", path, { body });

/// How one logs in is up to who shows the form: (error) => { name, password } or null.
export function onLogin(form) {
  login = form;
}

export function setAsksPasswords(value) {
  asksPasswords = value;
}

export const who = () => user;
export const isLoggedIn = () => session !== null;

function basic(name, password) {
  const bytes = new TextEncoder().encode(`${name}:${password}`);
  return "Basic " + btoa(String.fromCharCode(...bytes));
}

async function begin() {
  let error = null;
  for (;;) {
    let headers = {};
    if (asksPasswords) {
      const given = await login(error);
      if (!given) throw new Refused(401, "Not logged in.");
      headers = { Authorization: basic(given.name, given.password) };
    }
    try {
      const answer = await ask("POST", "login", { headers, patience: 0 });
      session = answer.session;
      user = answer.user;
      return;
    } catch (refused) {
      if (refused.status !== 401 || !asksPasswords) throw refused;
      error = refused.message;
    }
  }
}

/// A request of someone who is let in: logs in first where that is needed. One that must not ask
/// for a password by itself (`quietly`) is refused instead. It may take as long as it takes.
export async function asUser(method, path, body, quietly = false) {
  for (let again = 0; ; again += 1) {
    if (!session) {
      if (quietly && asksPasswords) throw new Refused(401, "Log in to see this.");
      await begin();
    }
    try {
      return await ask(method, path, { body, patience: 0 });
    } catch (refused) {
      if (refused.status !== 401 || again) throw refused;
      session = null;
      user = null;
    }
  }
}

export async function logout() {
  await post("logout").catch(() => {});
  session = null;
  user = null;
}
