// Questions to the operator: who one is, and whether one is sure.

import { byId, say } from "./text.js";

/// Asks for name and password: resolves to { name, password }, or to null where it was cancelled.
export function askLogin(error) {
  const dialog = byId("login");
  const message = byId("login-error");
  message.hidden = !error;
  say(message, error || "");
  return new Promise((resolve) => {
    const done = (given) => {
      byId("login-password").value = "";
      dialog.removeEventListener("close", cancelled);
      byId("login-form").onsubmit = null;
      byId("login-cancel").onclick = null;
      if (dialog.open) dialog.close();
      resolve(given);
    };
    const cancelled = () => done(null);
    dialog.addEventListener("close", cancelled);
    byId("login-form").onsubmit = (event) => {
      event.preventDefault();
      done({ name: byId("login-name").value, password: byId("login-password").value });
    };
    byId("login-cancel").onclick = () => done(null);
    if (!dialog.open) dialog.showModal();
    byId(byId("login-name").value ? "login-password" : "login-name").focus();
  });
}

/// Asks whether something is to be done: resolves to whether it is. The safe answer has the focus.
export function askSure(title, text, action) {
  const dialog = byId("confirm");
  say(byId("confirm-title"), title);
  say(byId("confirm-text"), text);
  say(byId("confirm-yes"), action);
  return new Promise((resolve) => {
    let answer = false;
    byId("confirm-yes").onclick = () => {
      answer = true;
      dialog.close();
    };
    byId("confirm-no").onclick = () => dialog.close();
    dialog.addEventListener("close", () => resolve(answer), { once: true });
    dialog.showModal();
    byId("confirm-no").focus();
  });
}
