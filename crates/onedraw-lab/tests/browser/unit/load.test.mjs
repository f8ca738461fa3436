// What the site without a server fetches.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { checkBrowser, fetchModel, fetchSite } from "../../../page/engine/load.js";

const base = new URL("http://site.test/lab/");

/** Serves bodies by path: bytes, a status, or nothing where the network fails. */
function serve(t, files) {
  t.mock.method(globalThis, "fetch", async (url) => {
    const file = files[new URL(url).pathname];
    if (file === undefined) throw new TypeError("failed to fetch");
    return typeof file === "number" ? new Response("", { status: file }) : new Response(file);
  });
}

test("a browser with SIMD is taken, and one without is told what it lacks", (t) => {
  checkBrowser();
  t.mock.method(WebAssembly, "validate", () => false);
  assert.throws(checkBrowser, { kind: "browser", message: /no WebAssembly with SIMD/ });
});

test("the module that shows whether a browser has SIMD is that of the package", async () => {
  const [page, npm] = await Promise.all(
    ["../../../page/engine/load.js", "../../../../onedraw-web/package/load.js"].map((path) =>
      readFile(new URL(path, import.meta.url), "utf8"),
    ),
  );
  const bytes = (code) =>
    code
      .match(/new Uint8Array\(\[([\d,\s]+)\]\)/)[1]
      .match(/\d+/g)
      .map(Number);
  assert.deepEqual(bytes(page), bytes(npm));
  assert.ok(WebAssembly.validate(new Uint8Array(bytes(page))));
});

test("the files of the model arrive whole, with progress", async (t) => {
  serve(t, {
    "/lab/site.json": '{"module":"a.js"}',
    "/lab/a.bin": new Uint8Array([1, 2, 3]),
    "/lab/b.bin": new Uint8Array([4]),
  });
  assert.deepEqual(await fetchSite(base), { module: "a.js" });
  const progress = [];
  const parts = { weights: { path: "a.bin", bytes: 3 }, words: { path: "b.bin", bytes: 1 } };
  const files = await fetchModel(base, parts, (loaded, total) => progress.push(`${loaded}/${total}`));
  assert.deepEqual(files, { weights: new Uint8Array([1, 2, 3]), words: new Uint8Array([4]) });
  assert.deepEqual(progress, ["0/4", "3/4", "4/4"]);
});

test("a file that is missing, cut or another one is a sentence with its name", async (t) => {
  serve(t, { "/lab/short.bin": new Uint8Array(2), "/lab/long.bin": new Uint8Array(9), "/lab/gone.bin": 404 });
  const fetching = (path) => fetchModel(base, { weights: { path, bytes: 3 } }, () => {});
  await assert.rejects(fetching("short.bin"), {
    kind: "cut",
    message: "The file short.bin was cut off after 2 of 3 bytes. Try again.",
  });
  await assert.rejects(fetching("long.bin"), { kind: "changed", message: /not the one/ });
  await assert.rejects(fetching("gone.bin"), {
    kind: "missing",
    message: /gone\.bin did not arrive: the site answers 404/,
  });
  await assert.rejects(fetching("nowhere.bin"), { kind: "missing", message: /there is no connection/ });
});
