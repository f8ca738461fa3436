// What the service worker keeps: a version of the site as a whole, or nothing.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openPage, startBrowser, written } from "../support.mjs";
import { startSite } from "./files.mjs";

/** What a browser says of files that it cannot get. */
const expected = /ERR_CONNECTION_REFUSED|ERR_FAILED|404/;

let browser;
before(async () => (browser = await startBrowser()));
after(() => browser?.close());

/** The versions of which files were asked for, and which version the page is of. */
const versionsOf = (paths) => [...new Set(paths.map((path) => path.match(/^\/([0-9a-f]{16})\//)?.[1]).filter(Boolean))];
const versionOf = (page) => page.$eval("script[src]", (script) => script.getAttribute("src").split("/")[0]);

test("once it was opened, the site works without a network", async (t) => {
  const site = await startSite();
  const page = await openPage(t, browser, site.url, { expected });
  const text = await written(page);
  await page.evaluate(() => navigator.serviceWorker.ready);
  await site.stop();
  await page.reload();
  await page.waitForSelector("#bench:not([hidden])");
  assert.equal(await written(page), text);
});

test("a new version of the site is shown with the next visit, as a whole, and is what is kept", async (t) => {
  const other = "0123456789abcdef";
  let own = null;
  let isNew = false;
  // The other version has the same files in another folder, and another title.
  const site = await startSite(
    (path, file) => {
      own ??= String(file).match(/href="([0-9a-f]{16})\//)?.[1] ?? null;
      if (!isNew || own === null) return path.startsWith(`/${other}/`) ? null : file;
      if (file === null || path.startsWith(`/${own}/`)) return null;
      if (/\.(html|json)$/.test(path))
        return String(file).replaceAll(own, other).replace("laboratory<", "laboratory 2<");
      return file;
    },
    (path) => (isNew ? path.replace(other, own) : path),
  );
  t.after(site.stop);
  const page = await openPage(t, browser, site.url, { expected });
  const text = await written(page);
  await page.evaluate(() => navigator.serviceWorker.ready);
  assert.equal(await versionOf(page), own);
  isNew = true;
  site.asked.length = 0;
  await page.reload();
  await page.waitForSelector("#bench:not([hidden])");
  assert.equal(await versionOf(page), other);
  assert.equal(await page.title(), "onedraw laboratory 2");
  assert.equal(await written(page), text);
  assert.deepEqual(versionsOf(site.asked), [other]);
  // The new version's worker keeps its files, and takes over once no page of the old one is open.
  await page.waitForFunction(async () => (await navigator.serviceWorker.getRegistration())?.waiting !== null);
  await page.goto("about:blank");
  await page.goto(site.url);
  await page.waitForFunction((version) => navigator.serviceWorker.controller?.scriptURL.endsWith(version), other);
  await site.stop();
  site.asked.length = 0;
  await page.reload();
  await page.waitForSelector("#bench:not([hidden])");
  assert.equal(await versionOf(page), other);
  assert.equal(await written(page), text);
  assert.deepEqual(site.asked, []);
});

test("where the site is gone, its worker goes, too", async (t) => {
  let isGone = false;
  const site = await startSite((_path, file) => (isGone ? null : file));
  t.after(site.stop);
  const page = await openPage(t, browser, site.url, { expected });
  await page.evaluate(() => navigator.serviceWorker.ready);
  isGone = true;
  const answer = await page.reload();
  assert.equal(answer.status(), 404);
  await page.waitForFunction(async () => (await navigator.serviceWorker.getRegistrations()).length === 0);
});

test("where the browser refuses its storage, the page works while there is a network", async (t) => {
  // A worker that is there, and whose storage is refused from then on.
  const refusing = `self.addEventListener("activate", () => {
    caches.open = () => Promise.reject(new DOMException("refused", "QuotaExceededError"));
  });\n`;
  const site = await startSite((path, file) => (path === "/sw.js" ? refusing + file : file));
  t.after(site.stop);
  const page = await openPage(t, browser, site.url, { expected });
  const text = await written(page);
  await page.waitForFunction(() => navigator.serviceWorker.controller !== null);
  await page.reload();
  await page.waitForSelector("#bench:not([hidden])");
  assert.equal(await written(page), text);
  const blocked = await openPage(t, browser, site.url, { serviceWorkers: "block" });
  assert.equal(await written(blocked), text);
});
