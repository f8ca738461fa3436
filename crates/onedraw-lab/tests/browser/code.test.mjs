// The commands that are told of a text write this text: those of the folder `tests/code`, of which a test in Rust says
// that they are what the laboratory tells.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, readdir, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import { startServer } from "./support.mjs";

const TEXTS = new URL("../code/", import.meta.url).pathname;
const CRATE = new URL("../../", import.meta.url).pathname;

let server;
let folder;
before(async () => {
  [server, folder] = await Promise.all([startServer(), mkdtemp(join(tmpdir(), "onedraw-lab-"))]);
  await symlink(process.env.ONEDRAW_PROGRAM, join(folder, "onedraw"));
});
after(() => Promise.all([server?.stop(), folder && rm(folder, { recursive: true })]));

/** What a command writes. */
async function written(command, cwd = folder) {
  const env = { ...process.env, PATH: `${folder}:${process.env.PATH}` };
  const { stdout } = await promisify(execFile)("bash", ["-euc", command], { cwd, env, encoding: "utf8" });
  return stdout;
}

/** The text of an answer: of the server's own route, of a search, or of a text of the laboratory. */
function told(answer) {
  const last = JSON.parse(answer.trim().split("\n").at(-1));
  if (last.found) return last.found.map(({ text }) => text).join("\n");
  return (last.choices?.[0] ?? last).text;
}

const read = (name, file) => readFile(join(TEXTS, name, file), "utf8");

test("the program and a request write the text", async () => {
  const names = await readdir(TEXTS);
  assert.equal(names.length, 10);
  for (const name of names) {
    const [text, command, request] = await Promise.all(
      ["text.txt", "program.sh", "curl.sh"].map((file) => read(name, file)),
    );
    const prompt = command.match(/ -- '(.*)'\n$/)[1].replaceAll("'\\''", "'");
    // A model's folder is found from the crate. Only the laboratory takes the tokens of branches.
    if (name !== "branch") {
      const printed = await written(command, name === "folder" ? CRATE : folder);
      // A search has a heading over each text.
      const texts = name.startsWith("beams") ? text.split("\n") : [text];
      const expected = texts.map((each) => `${prompt}${each}\n`).join("");
      assert.equal(printed.replaceAll(/^--- \d: score -\d+\.\d+ ---\n/gm, ""), expected, name);
    }
    const answer = await written(request.replace("http://127.0.0.1:8080", server.url).replace("curl ", "curl -sS "));
    assert.equal(told(answer), text, name);
  }
});
