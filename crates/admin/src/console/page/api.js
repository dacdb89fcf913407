// Requests to the node. The secret of a login is kept here, in memory, and nowhere else.

let session = null;
let user = null;
let asksPasswords = false;
let login = null;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(method, path, { body, headers } = {}) {
  const sent = { "X-Nereid-Console": "1", ...headers };
  if (session) sent["X-Nereid-Session"] = session;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  const options = { method, headers: sent, credentials: "omit", cache: "no-store", redirect: "error" };
  if (body !== undefined) options.body = JSON.stringify(body);
  let response;
  try {
    response = await fetch(`/console/api/${path}`, options);
  } catch {
    throw new Refused(0, "The node does not answer.");
  }
  const text = await response.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    throw new Refused(response.status, "The node's answer is no JSON.");
  }
  if (!response.ok) throw new Refused(response.status, value?.message || `HTTP status ${response.status}`);
  return value;
}

export const get = (path) => ask("GET", path);
export const post = (path, body) => ask("POST", path, { body });

/// How one logs in is told by who shows the form: (error) => { name, password } or null.
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
      const told = await ask("POST", "login", { headers });
      session = told.session;
      user = told.user;
      return;
    } catch (refused) {
      if (refused.status !== 401 || !asksPasswords) throw refused;
      error = refused.message;
    }
  }
}

/// A request of someone who is let in: logs in first where that is needed. One that must not ask
/// for a password by itself is refused instead.
export async function asUser(method, path, body, quietly = false) {
  for (let again = 0; ; again += 1) {
    if (!session) {
      if (quietly && asksPasswords) throw new Refused(401, "Log in to see this.");
      await begin();
    }
    try {
      return await ask(method, path, { body });
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
