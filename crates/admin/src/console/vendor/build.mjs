// Bundles the libraries of the console. Cargo does not run this; the result is in the tree.
//
//   npm install --ignore-scripts --no-package-lock && node build.mjs
//
// `node build.mjs --check` compares instead: it fails where the bundles in the tree are not those
// of the packages.
import { readFileSync, writeFileSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";
import { buildSync } from "esbuild";

const checks = process.argv.includes("--check");
const bundles = [
  ["codemirror.js.gz", "codemirror.entry.js"],
  ["uplot.js.gz", "node_modules/uplot/dist/uPlot.esm.js"],
  ["uplot.css.gz", "node_modules/uplot/dist/uPlot.min.css"],
];
// Licences stand in licenses.txt, which the program serves beside the bundles.
const packages = Object.keys(JSON.parse(readFileSync("package.json")).dependencies)
  .filter((name) => name !== "esbuild");
const license = (name) => {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`));
  return `${name} ${version}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}\n`;
};

let differences = 0;
function kept(name, text, packed) {
  if (!checks) return writeFileSync(name, packed);
  const old = readFileSync(name);
  const same = (name.endsWith(".gz") ? gunzipSync(old) : old).equals(text);
  if (!same) console.error(`${name} is not what the packages give`);
  differences += same ? 0 : 1;
}

for (const [name, entry] of bundles) {
  const { outputFiles } = buildSync({
    entryPoints: [entry], bundle: true, minify: true, write: false, format: "esm",
    target: "es2022", legalComments: "none", charset: "ascii", logLevel: "warning",
  });
  const text = Buffer.from(outputFiles[0].contents);
  const packed = gzipSync(text, { level: 9 });
  kept(name, text, packed);
  console.log(`${name}: ${text.length} bytes, ${packed.length} compressed`);
}
const licenses = Buffer.from(packages.map(license).join(`\n${"-".repeat(80)}\n\n`));
kept("licenses.txt", licenses, licenses);
process.exitCode = differences ? 1 : 0;
