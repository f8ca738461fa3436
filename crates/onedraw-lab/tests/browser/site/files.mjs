// A server of the site's files, and nothing else.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

const { LAB_SITE } = process.env;
assert.ok(LAB_SITE, "LAB_SITE is the folder that lab/build made");
const KINDS = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".json": "application/json",
  ".wasm": "application/wasm",
};

/**
 * Serves the files of the site.
 * @param {(path: string, file: Buffer | null) => Buffer | string | null} [change] what becomes of a file; null: it is not
 *   there
 * @param {(path: string) => string} [lies] where the file of a path lies
 * @returns {Promise<{ url: string, asked: string[], stop: () => Promise<void> }>} `asked`: the paths that were asked for
 */
export async function startSite(change = (_path, file) => file, lies = (path) => path) {
  const asked = [];
  const server = createServer(async (request, response) => {
    const path = normalize(new URL(request.url, "http://site").pathname).replace(/\/$/, "/index.html");
    asked.push(path);
    const file = change(path, await readFile(join(LAB_SITE, lies(path))).catch(() => null));
    response.writeHead(file === null ? 404 : 200, {
      "content-type": KINDS[extname(path)] ?? "application/octet-stream",
    });
    response.end(file ?? "not found");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { asked, url: `http://127.0.0.1:${server.address().port}`, stop };
}
