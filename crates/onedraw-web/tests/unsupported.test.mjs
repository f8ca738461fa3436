// Where WebAssembly or its vectors are missing, the import fails with a sentence.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";

/** What a program says that takes something away and then imports onedraw. */
function said(without) {
  const program = `${without}; import("onedraw").then(() => console.log("loaded"), (error) => console.log(JSON.stringify({ ...error, message: error.message })))`;
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "--eval", program], {
    cwd: import.meta.dirname,
    encoding: "utf8",
  });
  assert.equal(stderr, "");
  return stdout.trim();
}

test("no WebAssembly, and none with vectors", () => {
  assert.equal(said(""), "loaded");
  const old = JSON.parse(said("WebAssembly.validate = () => false"));
  assert.deepEqual([old.kind, old.field], ["unsupported", null]);
  assert.match(old.message, /^onedraw needs WebAssembly's 128-bit vectors \(SIMD\), which this browser/);
  const none = JSON.parse(said("delete globalThis.WebAssembly"));
  assert.match(none.message, /^onedraw needs WebAssembly, which/);
});
