// The command that makes the site without a server: what it refuses before it builds anything.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const command = fileURLToPath(new URL("../../../../../lab/build", import.meta.url));

/** Runs the command with a Rust that builds nothing. */
function build(rust, folder) {
  const found = spawnSync("bash", [command, folder], { env: { PATH: `${rust}:/usr/bin:/bin` } });
  return { status: found.status, said: String(found.stderr) };
}

test("a folder with other files is not replaced; one that is empty, new or a site may be", async (t) => {
  const room = await mkdtemp(join(tmpdir(), "onedraw-"));
  t.after(() => rm(room, { recursive: true }));
  const [rust, folder] = [join(room, "rust"), join(room, "site")];
  for (const made of [rust, folder]) await mkdir(made);
  for (const program of ["cargo", "rustup"])
    await writeFile(join(rust, program), "#!/bin/sh\necho reached >&2\nexit 3\n", { mode: 0o755 });
  for (const free of [folder, join(folder, "new")]) assert.match(build(rust, free).said, /^reached/);
  const letter = join(folder, "letter.txt");
  await writeFile(letter, "dear");
  for (const taken of [folder, letter]) {
    const { status, said } = build(rust, taken);
    assert.equal(status, 1);
    assert.match(said, /^lab\/build: .* has other files than a site of the laboratory/);
  }
  assert.equal(await readFile(letter, "utf8"), "dear");
  await writeFile(join(folder, "site.json"), "{}");
  assert.match(build(rust, folder).said, /^reached/);
});
