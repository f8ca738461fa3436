// Runs the JavaScript of a page of the book: each block of ```js must print what the block of ```text after it says.

import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const [page] = process.argv.slice(2);
const blocks = [...readFileSync(page, "utf8").matchAll(/^```(\w*)\n([^]*?)^```$/gm)];
let shown = 0;
for (const [i, [, kind, code]] of blocks.entries()) {
  if (kind !== "js") continue;
  writeFileSync("shown-block.mjs", code);
  const { stdout, stderr, status } = spawnSync(process.execPath, ["shown-block.mjs"], { encoding: "utf8" });
  const told = blocks[i + 1]?.[1] === "text" ? blocks[i + 1][2] : "";
  if (status !== 0 || stdout.trim() !== told.trim()) {
    console.error(`${page}: this block\n${code}prints\n${stdout}${stderr}and not\n${told}`);
    process.exit(1);
  }
  shown += 1;
}
if (shown === 0) throw new Error(`${page} has no block of JavaScript`);
console.log(`${shown} blocks of the page print what it says`);
