// The site that `lab/build` makes: the model in the browser, and no server but one for files.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { after, before, test } from "node:test";

import { openPage, program, rivals, setNumber, startBrowser, written } from "../support.mjs";

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
 * @param {(path: string, file: Buffer) => Buffer | null} [change] what becomes of a file; null: it is not there
 */
async function startSite(change = (_path, file) => file) {
  const server = createServer(async (request, response) => {
    const path = normalize(new URL(request.url, "http://site").pathname).replace(/\/$/, "/index.html");
    const file = change(path, await readFile(join(LAB_SITE, path)).catch(() => null));
    response.writeHead(file === null ? 404 : 200, {
      "content-type": KINDS[extname(path)] ?? "application/octet-stream",
    });
    response.end(file);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${server.address().port}`, stop };
}

let browser;
before(async () => (browser = await startBrowser()));
after(() => browser?.close());

test("without a server, the story of seed 7 is the program's, and looks and sliders work", async (t) => {
  const site = await startSite();
  t.after(site.stop);
  const page = await openPage(t, browser, site.url);
  const printed = JSON.parse(
    await program("generate", "Once upon a time", "--seed", "7", "--max-tokens", "120", "--format", "json"),
  );
  assert.equal(await written(page), printed.text);
  await setNumber(page, "min_p", 0.2);
  await page.waitForSelector('li[data-stage="min_p"]');
  assert.ok((await rivals(page)).length > 1);
});

test("once it was opened, the site works without a network", async (t) => {
  const site = await startSite();
  const page = await openPage(t, browser, site.url, { expected: /ERR_CONNECTION_REFUSED|ERR_FAILED/ });
  const text = await written(page);
  await page.evaluate(() => navigator.serviceWorker.ready);
  await site.stop();
  await page.reload();
  await page.waitForSelector("#bench:not([hidden])");
  assert.equal(await written(page), text);
});

test("a model that is cut or missing is told in a sentence, and the next try works", async (t) => {
  let trouble = "cut";
  const site = await startSite((path, file) => {
    if (!path.endsWith(".safetensors") || trouble === "none") return file;
    return trouble === "cut" ? file.subarray(0, 1000) : null;
  });
  t.after(site.stop);
  const context = await browser.newContext({ serviceWorkers: "block" });
  t.after(() => context.close());
  const page = await context.newPage();
  for (const [kind, message] of [
    ["cut", /cut off after 1000 of \d+ bytes/],
    ["missing", /did not arrive: the site answers 404/],
  ]) {
    trouble = kind;
    await page.goto(site.url);
    await page.waitForSelector("#loading [role=alert]");
    assert.match(await page.textContent("#loading [role=alert]"), message);
  }
  trouble = "none";
  await page.click("#loading button");
  await page.waitForSelector("#bench:not([hidden])");
  assert.ok((await written(page)).length > 100);
});
