// The site that `lab/build` makes: the model in the browser, and no server but one for files.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";

import {
  anHourPasses,
  ask,
  firstVisit,
  openPage,
  program,
  rivals,
  setNumber,
  startBrowser,
  startBrowserWithBackground,
  withClock,
  written,
} from "../support.mjs";
import { startSite } from "./files.mjs";

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

test("how long a first visit takes, and how much comes", async (t) => {
  const site = await startSite();
  t.after(site.stop);
  const time = await firstVisit(browser, site.url);
  const files = await Promise.all([...new Set(site.asked)].map((path) => readFile(join(process.env.LAB_SITE, path))));
  const sum = (sizes) => sizes.reduce((all, size) => all + size, 0);
  const [plain, gzip] = [sum(files.map(({ length }) => length)), sum(files.map((file) => gzipSync(file).length))];
  t.diagnostic(`${time} ms to a prompt that can be written into; ${plain} bytes, ${gzip} with gzip`);
  // What a page may transfer, without a drafter, which comes once it is chosen.
  assert.ok(gzip < 14_000_000, `${gzip} bytes`);
  assert.ok(!site.asked.some((path) => path.includes("drafter-")), String(site.asked));
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

test("a browser without SIMD is told what it lacks", async (t) => {
  // As a browser that does not know the instruction sees it.
  const site = await startSite((path, file) =>
    path.endsWith("/engine/load.js") ? String(file).replace("253, 15, 26", "253, 255, 26") : file,
  );
  t.after(site.stop);
  const page = await (await browser.newContext({ serviceWorkers: "block" })).newPage();
  t.after(() => page.context().close());
  await page.goto(site.url);
  const told = await page.textContent("#loading [role=alert]");
  assert.match(told, /no WebAssembly with SIMD.*`onedraw lab` works in this one/);
});

test("a drafter is fetched once it is chosen, and one that does not arrive is told", async (t) => {
  let isThere = false;
  const site = await startSite((path, file) => (path.includes("drafter-") && !isThere ? null : file));
  t.after(site.stop);
  const page = await openPage(t, browser, site.url, { expected: /404/ });
  const text = await ask(page, "Once upon a time", 24);
  const fetched = () => site.asked.filter((path) => path.includes("drafter-")).length;
  assert.equal(fetched(), 0);
  await page.$eval("#guesses", (details) => (details.open = true));
  await page.selectOption("#draft", "draft");
  await page.waitForSelector(".notice.wrong");
  const told = await page.textContent(".notice.wrong p");
  assert.match(told, /^The drafter draft could not be loaded\. The file \S+ did not arrive: the site answers 404/);
  isThere = true;
  await page.click(".notice.wrong button");
  assert.equal(await written(page), text);
  await page.waitForFunction(() => / guesses were accepted/.test(document.querySelector("#guesses").textContent));
  assert.equal(fetched(), 2);
  // It stays: another text does not fetch it again.
  await ask(page, "Tom saw a big", 12);
  assert.equal(fetched(), 2);
});

test("a worker that crashed is told in a sentence, and the page goes on with a fresh one", async (t) => {
  // WebAssembly that traps throws such an error; nothing in it does so by wish.
  const site = await startSite((path, file) =>
    path.endsWith("onedraw_lab_web.js")
      ? String(file).replace(
          /( step\(answer\) \{)/,
          '$1 if (globalThis.traps) throw new WebAssembly.RuntimeError("unreachable");',
        )
      : file,
  );
  t.after(site.stop);
  const page = await openPage(t, browser, site.url, { expected: /gone/ });
  const first = await ask(page, "Once upon a time", 12);
  const crashes = {
    trap: () => void (globalThis.traps = true),
    error: () => void setTimeout(() => Promise.reject(new Error("gone")), 0),
  };
  await page.workers()[0].evaluate(crashes.trap);
  await page.fill("#prompt-field", "Tom saw a big");
  await page.press("#prompt-field", "Enter");
  await page.waitForSelector(".notice.wrong");
  assert.match(await page.textContent(".notice.wrong p"), /The model in this browser stopped/);
  await page.click(".notice.wrong button");
  const text = await written(page);
  const printed = await program("generate", "Tom saw a big", "--seed", "7", "--max-tokens", "12", "--format", "json");
  assert.equal(text, JSON.parse(printed).text);
  await page.click("#undo");
  assert.equal(await written(page), first);
});

test("a tab in the background for an hour goes on where it was", async (t) => {
  const site = await startSite();
  t.after(site.stop);
  const background = await startBrowserWithBackground();
  t.after(() => background.close());
  const page = await openPage(t, background, site.url);
  await withClock(page);
  await page.fill("#prompt-field", "Tom saw a big");
  await page.press("#prompt-field", "Enter");
  await anHourPasses(page);
  const printed = await program("generate", "Tom saw a big", "--seed", "7", "--max-tokens", "120", "--format", "json");
  assert.equal(await written(page), JSON.parse(printed).text);
  await setNumber(page, "min_p", 0.3);
  await page.waitForSelector('li[data-stage="min_p"]');
});
