// Results as files: CSV and JSON.

/// A field of CSV (RFC 4180). Null is an empty field, an empty text is in quotes.
function field(value) {
  if (value === null) return "";
  return value === "" || /[",\r\n]/.test(value) ? `"${value.replace(/"/g, '""')}"` : value;
}

const NUMBERS = /^(tinyint|smallint|int|float|double)$/;

/// What JSON says of a value: numbers that it can hold are numbers, everything else is a text.
function told(value, type) {
  if (value === null) return null;
  if (type === "boolean") return value === "true";
  const number = Number(value);
  return NUMBERS.test(type) && Number.isFinite(number) ? number : value;
}

export function csv(columns, rows) {
  const lines = [columns.map((column) => field(column.name)), ...rows.map((row) => row.map(field))];
  return lines.map((line) => `${line.join(",")}\r\n`).join("");
}

export function json(columns, rows) {
  const object = (row) => Object.fromEntries(
    columns.map((column, at) => [column.name, told(row[at], column.type)]));
  return `${JSON.stringify(rows.map(object), null, 1)}\n`;
}

/// Gives a text to the operator as a file.
export function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
