// The editor of CQL: CodeMirror in a shadow root, where its styles need no exception from the
// page's policy.

import {
  acceptCompletion, autocompletion, bracketMatching, closeBrackets, closeBracketsKeymap,
  completionKeymap, defaultKeymap, drawSelection, EditorState, EditorView, HighlightStyle, history,
  historyKeymap, keymap, lineNumbers, placeholder, setDiagnostics, StreamLanguage,
  syntaxHighlighting, tags,
} from "./codemirror.js";
import { KEYWORDS, piece, statements, TYPES } from "./split.js";

const keywords = new Set(KEYWORDS);
const types = new Set(TYPES);
const FUNCTIONS = ["count(*)", "token()", "writetime()", "ttl()", "now()", "uuid()", "toJson()",
  "toTimestamp()", "minTimeuuid()", "maxTimeuuid()", "avg()", "sum()", "min()", "max()"];

/// Pieces line by line: what may span lines is in the state.
const language = StreamLanguage.define({
  name: "cql",
  startState: () => ({ until: null }),
  token(stream, state) {
    if (state.until) {
      const at = stream.string.indexOf(state.until, stream.pos);
      if (at < 0) stream.skipToEnd();
      else stream.pos = at + state.until.length;
      const kind = state.until === "*/" ? "comment" : "string";
      if (at >= 0) state.until = null;
      return kind;
    }
    for (const [start, end] of [["/*", "*/"], ["$$", "$$"]]) {
      if (stream.match(start)) {
        state.until = end;
        return start === "/*" ? "comment" : "string";
      }
    }
    const [form, end] = piece(stream.string, stream.pos);
    const text = stream.string.slice(stream.pos, end);
    stream.pos = end;
    if (form === "string" && !/^'(?:[^']|'')*'$/.test(text)) state.until = "'";
    if (form === "word") {
      if (keywords.has(text.toUpperCase())) return "keyword";
      return types.has(text.toLowerCase()) ? "typeName" : "variableName";
    }
    if (form === "quoted") return "propertyName";
    return ["comment", "string", "number"].includes(form) ? form : null;
  },
  languageData: { commentTokens: { line: "--", block: { open: "/*", close: "*/" } } },
});

const colors = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--a)", fontWeight: "600" },
  { tag: tags.string, color: "var(--c)" },
  { tag: tags.number, color: "var(--b)" },
  { tag: tags.comment, color: "var(--dim)", fontStyle: "italic" },
  { tag: tags.typeName, color: "var(--d)" },
  { tag: tags.propertyName, color: "var(--g)" },
]);

const look = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--panel)", fontSize: ".92rem" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", maxHeight: "45vh" },
  ".cm-content": { caretColor: "var(--text)", padding: ".5rem 0", minHeight: "6.5rem" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": {
    backgroundColor: "var(--row)", color: "var(--dim)", border: "none",
    borderRight: "1px solid var(--line)",
  },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": {
    backgroundColor: "var(--chosen)",
  },
  ".cm-selectionBackground": { backgroundColor: "var(--chosen)" },
  ".cm-placeholder": { color: "var(--dim)" },
  ".cm-tooltip": {
    backgroundColor: "var(--panel)", color: "var(--text)", border: "1px solid var(--line)",
    borderRadius: ".35rem",
  },
  ".cm-tooltip-autocomplete ul li[aria-selected]": {
    backgroundColor: "var(--accent)", color: "var(--accent-text)",
  },
  ".cm-completionDetail": { color: "var(--dim)", fontStyle: "normal" },
  "li[aria-selected] .cm-completionDetail": { color: "inherit" },
  ".cm-completionIcon": { display: "none" },
  // The library would draw this with a picture in its style sheet, which the policy refuses.
  ".cm-lintRange-error, .cm-lintRange-active": {
    backgroundImage: "none", backgroundColor: "var(--bad-ground)",
    textDecoration: "underline wavy var(--bad)", textDecorationSkipInk: "none",
  },
  ".cm-diagnostic": { whiteSpace: "pre-wrap", maxWidth: "40rem" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--chosen)" },
});

let schema = [];
let using = null;

/// What completion knows: tables with their columns.
export function setSchema(tables) {
  schema = tables;
}

/// The keyspace in use.
export function setKeyspace(name) {
  using = name;
}

const quote = (name) => (/^[a-z_]\w*$/.test(name) && name === name.toLowerCase()
  && !keywords.has(name.toUpperCase()) ? name : `"${name.replace(/"/g, '""')}"`);
const bare = (name) => name.startsWith('"') ? name.slice(1, -1).replace(/""/g, '"')
  : name.toLowerCase();

/// The tables that a statement names.
function mentioned(text) {
  const found = new Set();
  const name = '("[^"]+"|\\w+)';
  const words = "\\b(?:from|into|update|table|on|truncate)";
  const pattern = new RegExp(`${words}\\s+${name}(?:\\s*\\.\\s*${name})?`, "gi");
  for (const [, first, second] of text.matchAll(pattern)) {
    const [keyspace, name] = second ? [bare(first), bare(second)] : [using, bare(first)];
    schema.filter((one) => one.keyspace === keyspace && one.name === name)
      .forEach((one) => found.add(one));
  }
  return [...found];
}

function tablesOf(keyspace) {
  return schema.filter((one) => one.keyspace === keyspace)
    .map((one) => ({ label: quote(one.name), type: "class", detail: "table", boost: 2 }));
}

function complete(context) {
  const text = context.state.doc.toString();
  const word = context.matchBefore(/"?[\w]*$/);
  const at = word ? word.from : context.pos;
  const qualified = /("[^"]+"|\w+)\.$/.exec(text.slice(Math.max(0, at - 100), at));
  if (qualified) return { from: at, options: tablesOf(bare(qualified[1])), validFor: /^"?\w*$/ };
  if (!context.explicit && (!word || word.from === word.to)) return null;
  const before = text.slice(0, at);
  const wantsTable = /\b(?:from|into|update|table|truncate|describe|desc)\s+$/i.test(before);
  const names = [...new Set(schema.map((one) => one.keyspace))];
  const keyspaces = names.map((name) => ({ label: quote(name), detail: "keyspace", boost: 1 }));
  if (/\b(?:use|keyspace)\s+$/i.test(before)) return { from: at, options: keyspaces };
  if (wantsTable) {
    return { from: at, options: [...tablesOf(using), ...keyspaces], validFor: /^"?\w*$/ };
  }
  const all = statements(text);
  const here = all.find((one) => one.from <= context.pos && context.pos <= one.to + 1);
  const columns = mentioned(here?.text || "").flatMap((one) => one.columns.map((column) => ({
    label: quote(column.name), type: "property", boost: 3,
    detail: column.kind === "regular" ? column.type : `${column.type}, ${column.kind}`,
  })));
  const words = KEYWORDS.map((label) => ({ label, type: "keyword" }));
  const kinds = TYPES.map((label) => ({ label, detail: "type", boost: -1 }));
  const calls = FUNCTIONS.map((label) => ({ label, detail: "function", boost: -1 }));
  const options = [...columns, ...words, ...kinds, ...calls, ...keyspaces];
  return { from: at, options, validFor: /^"?\w*$/ };
}

/// An editor in `host`. `acts`: what Ctrl+Enter does, and what Alt+arrows do with a step.
export function makeEditor(host, { run, recall }) {
  const root = host.attachShadow({ mode: "open" });
  const own = [
    { key: "Mod-Enter", run: () => { run(); return true; } },
    { key: "Alt-ArrowUp", run: () => { recall(-1); return true; } },
    { key: "Alt-ArrowDown", run: () => { recall(1); return true; } },
    { key: "Tab", run: acceptCompletion },
  ];
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      extensions: [
        keymap.of(own), lineNumbers(), history(), drawSelection(), bracketMatching(),
        closeBrackets(), autocompletion({ override: [complete] }), language,
        syntaxHighlighting(colors), look, EditorView.lineWrapping,
        placeholder("SELECT * FROM system.local;"),
        EditorView.contentAttributes.of({
          "aria-label": "CQL statements", spellcheck: "false", autocapitalize: "off",
        }),
        keymap.of([
          ...completionKeymap, ...closeBracketsKeymap, ...historyKeymap, ...defaultKeymap,
        ]),
      ],
    }),
  });
  const textOf = () => view.state.doc.toString();
  return {
    text: textOf,
    focus: () => view.focus(),
    /// What is selected, or all: { text, from }.
    chosen() {
      const { from, to } = view.state.selection.main;
      return from === to ? { text: textOf(), from: 0 }
        : { text: view.state.sliceDoc(from, to), from };
    },
    set(text) {
      const changes = { from: 0, to: view.state.doc.length, insert: text };
      view.dispatch({ changes, selection: { anchor: text.length } });
    },
    /// Marks what is wrong; nothing where there is no message.
    mark(from, to, message) {
      const end = Math.min(to, view.state.doc.length);
      const wrong = message ? [{ from: Math.min(from, end), to: end, message, severity: "error" }]
        : [];
      view.dispatch(setDiagnostics(view.state, wrong));
    },
  };
}
