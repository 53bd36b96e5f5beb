// Builds src/ into dist/: hashed script, style and fonts, index.html, and the licences of what is inside.
import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "dist");
const options = {
  entryPoints: [join(here, "src/main.tsx")],
  outdir: join(out, "assets"),
  bundle: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  metafile: true,
  entryNames: "[name]-[hash]",
  assetNames: "[name]-[hash]",
  loader: { ".woff2": "file", ".svg": "file" },
  legalComments: "none",
  logLevel: "warning",
};

/** The page: one script, one style, nothing inline, so that the strictest content policy holds. */
async function writePage(metafile) {
  const names = Object.keys(metafile.outputs).map((name) => name.slice(name.lastIndexOf("/") + 1));
  const one = (pattern) => names.find((name) => pattern.test(name));
  const template = await readFile(join(here, "src/index.html"), "utf8");
  const page = template
    .replace("%STYLE%", `assets/${one(/^main-.*\.css$/)}`)
    .replace("%SCRIPT%", `assets/${one(/^main-.*\.js$/)}`)
    .replace("%ICON%", `assets/${await copyIcon()}`);
  await writeFile(join(out, "index.html"), page);
}

async function copyIcon() {
  const icon = await readFile(join(here, "src/icon.svg"));
  const name = `icon-${createHash("sha256").update(icon).digest("hex").slice(0, 8).toUpperCase()}.svg`;
  await writeFile(join(out, "assets", name), icon);
  return name;
}

/** Licence texts of every package that went into the bundle. */
async function writeLicences(metafile) {
  const inside = new Set();
  for (const input of Object.keys(metafile.inputs)) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found) inside.add(found[1]);
  }
  const texts = [];
  for (const name of [...inside].sort()) {
    const folder = join(here, "node_modules", name);
    const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
    texts.push(`${name}\n\n${file ? await readFile(join(folder, file), "utf8") : "(no licence file)"}`);
  }
  await writeFile(join(out, "assets", "licenses.txt"), texts.join(`\n${"-".repeat(72)}\n\n`));
}

async function build() {
  await rm(out, { recursive: true, force: true });
  await mkdir(join(out, "assets"), { recursive: true });
  const { metafile } = await esbuild.build(options);
  await writePage(metafile);
  await writeLicences(metafile);
}

await build();
if (process.argv.includes("--watch")) {
  const { watch } = await import("node:fs");
  let waiting;
  watch(join(here, "src"), { recursive: true }, () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => build().catch((error) => console.error(error.message)), 100);
  });
}
