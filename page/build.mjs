// Bundles libraries.js, with the licence of each package in front, into the file that is the first argument.
import { build } from "esbuild";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";

const [, , target] = process.argv;
const { outputFiles, metafile } = await build({
  entryPoints: ["libraries.js"],
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "Libraries",
  target: "es2022",
  legalComments: "none",
  metafile: true,
  write: false,
});

// The name of a package is the part of the path after node_modules, two parts if it has a scope.
const named = Object.keys(metafile.inputs).map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]);
const packages = [...new Set(named.filter(Boolean))].sort();
const licences = new Map();
for (const name of packages) {
  const folder = `node_modules/${name}`;
  const { version, license } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (file === undefined) throw new Error(`${name} has no licence file`);
  // Most licences differ only in the copyright line.
  const lines = readFileSync(`${folder}/${file}`, "utf8").replaceAll("*/", "* /").split("\n");
  const owners = lines.filter((line) => /^copyright/i.test(line.trim())).map((line) => line.trim());
  const terms = lines.filter((line) => !/^(copyright.*|(the )?mit license.*)$/i.test(line.trim()));
  const text = terms.join(" ").split(/\s+/).join(" ").trim();
  licences.set(text, [...(licences.get(text) ?? []), `${name} ${version} (${license}) ${owners.join("; ")}`]);
}
const notices = [...licences].map(([text, names]) => `${names.join("\n")}\n\n${text}`);
writeFileSync(target, `/*\n${notices.join("\n\n")}\n*/\n${outputFiles[0].text}`);
