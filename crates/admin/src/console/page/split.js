// CQL as the editor needs it: words, and where statements begin and end. The server alone decides
// what is right.

/// Words that statements are made of.
export const KEYWORDS = (
  "ADD AGGREGATE ALL ALLOW ALTER AND APPLY AS ASC AUTHORIZE BATCH BEGIN BY BYPASS CACHE "
  + "CALLED CAST CLUSTERING COMPACT CONTAINS COUNTER CREATE CUSTOM DEFAULT DELETE DESC DESCRIBE "
  + "DISTINCT DROP ENTRIES EXECUTE EXISTS FALSE FILTERING FINALFUNC FROM FROZEN FULL FUNCTION "
  + "FUNCTIONS GRANT GROUP IF IN INDEX INITCOND INPUT INSERT INTO IS JSON KEY KEYS KEYSPACE "
  + "KEYSPACES LANGUAGE LIKE LIMIT LIST LOGIN MATERIALIZED MODIFY NOLOGIN NORECURSIVE "
  + "NOSUPERUSER NOT NULL OF ON OPTIONS OR ORDER PARTITION PASSWORD PER PERMISSIONS PRIMARY "
  + "RENAME REPLACE RETURNS REVOKE ROLE ROLES SELECT SERVICE LEVEL SET SFUNC STATIC STORAGE "
  + "STYPE SUPERUSER TABLE TABLES TIMEOUT TIMESTAMP TO TOKEN TRIGGER TRUE TRUNCATE TTL TYPE "
  + "TYPES UNLOGGED UNSET UPDATE USE USER USERS USING VALUES VIEW WHERE WITH WRITETIME"
).split(" ");

export const TYPES = (
  "ascii bigint blob boolean counter date decimal double duration float inet int list map set "
  + "smallint text time timestamp timeuuid tinyint tuple uuid varchar varint vector"
).split(" ");

const FORMS = [
  ["space", /\s+/y],
  ["comment", /(?:--|\/\/)[^\n]*|\/\*[^]*?(?:\*\/|$)/y],
  ["string", /'(?:[^']|'')*(?:'|$)|\$\$[^]*?(?:\$\$|$)/y],
  ["quoted", /"(?:[^"]|"")*(?:"|$)/y],
  ["number", /0[xX][0-9a-fA-F]*|\d[\w.]*/y],
  ["word", /[A-Za-z_]\w*/y],
  ["end", /;/y],
  ["other", /[^]/y],
];

/// The next piece of a text: [form, end].
export function piece(text, from) {
  for (const [form, pattern] of FORMS) {
    pattern.lastIndex = from;
    if (pattern.test(text) && pattern.lastIndex > from) return [form, pattern.lastIndex];
  }
  return ["end", text.length];
}

/// The statements of a text: { text, from, to }, without what is between them. Those of a batch
/// belong together.
export function statements(text) {
  const found = [];
  let [from, to, words, at] = [null, 0, [], 0];
  const close = () => {
    if (from !== null) found.push({ text: text.slice(from, to), from, to });
    from = null;
    words = [];
  };
  const inBatch = () => words[0] === "BEGIN"
    && !(words.at(-1) === "BATCH" && words.at(-2) === "APPLY");
  while (at < text.length) {
    const [form, end] = piece(text, at);
    if (form === "end" && !inBatch()) {
      close();
    } else if (form !== "space" && form !== "comment") {
      from ??= at;
      to = end;
      if (form === "word") words.push(text.slice(at, end).toUpperCase());
    }
    at = end;
  }
  close();
  return found;
}

/// Where in a statement an error is that names its place: { from, to }; all of it for others. What
/// is wrong is marked to the end of its word.
export function placeOf(message, statement) {
  const found = /^(?:\w+: )?line (\d+):(\d+)/.exec(message);
  if (!found) return { from: 0, to: statement.length };
  const lines = statement.split("\n");
  const line = Math.min(Number(found[1]), lines.length) - 1;
  const start = lines.slice(0, line).reduce((sum, one) => sum + one.length + 1, 0);
  const characters = [...lines[line]].slice(0, Number(found[2])).join("");
  const from = Math.min(start + characters.length, statement.length);
  if (from === statement.length) return { from: Math.max(0, from - 1), to: from };
  return { from, to: piece(statement, from)[1] };
}
