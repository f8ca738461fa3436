// A program that serves the page, and a browser that opens it.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

/** The program, and the folder with the packages that `.ci/lab` installs. */
const { ONEDRAW_PROGRAM, LAB_PACKAGES, CHROMIUM = "/usr/bin/chromium" } = process.env;
assert.ok(ONEDRAW_PROGRAM && LAB_PACKAGES, "run these tests with .ci/lab");
export const packages = createRequire(join(LAB_PACKAGES, "packages.js"));
const { chromium } = packages("playwright-core");

/** What the program writes. */
export async function program(...args) {
  const { stdout } = await promisify(execFile)(ONEDRAW_PROGRAM, args, { encoding: "utf8" });
  return stdout;
}

/**
 * Starts `onedraw serve` and waits for its address.
 * @returns {Promise<{ url: string, stop: () => Promise<void> }>}
 */
export async function startServer(...args) {
  const child = spawn(ONEDRAW_PROGRAM, ["serve", "--port", "0", ...args], { stdio: ["ignore", "pipe", "ignore"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const url = await new Promise((resolve, reject) => {
    child.once("exit", (status) => reject(new Error(`onedraw serve ended with ${status}`)));
    createInterface(child.stdout).on("line", (line) => {
      const address = line.match(/http:\/\/[^\s/]+/)?.[0];
      if (address !== undefined) resolve(address);
    });
  });
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  return { url, stop };
}

export function startBrowser() {
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
}

/**
 * A browser whose tabs may go to the background: playwright's own browser says of every tab that it has the focus.
 * @returns {Promise<{ newContext: Function, close: () => Promise<void> }>}
 */
export async function startBrowserWithBackground() {
  const folder = await mkdtemp(join(tmpdir(), "onedraw-lab-"));
  const args = [
    "--headless=new",
    "--no-sandbox",
    "--remote-debugging-port=0",
    `--user-data-dir=${folder}`,
    "about:blank",
  ];
  const child = spawn(CHROMIUM, args, { stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const address = await new Promise((resolve, reject) => {
    child.once("exit", (status) => reject(new Error(`${CHROMIUM} ended with ${status}`)));
    createInterface(child.stderr).on("line", (line) => {
      const found = line.match(/^DevTools listening on (.*)/)?.[1];
      if (found !== undefined) resolve(found);
    });
  });
  const browser = await chromium.connectOverCDP(address, { noDefaults: true });
  const close = async () => {
    await browser.close();
    child.kill();
    await ended;
    await rm(folder, { recursive: true });
  };
  return { newContext: () => browser.contexts()[0], close };
}

/**
 * Opens the page in a fresh profile. At the end of the test the page must have written no error to the console, and
 * asked for nothing outside its origin.
 * @param {import("node:test").TestContext} t
 * @param {{ newContext: Function }} browser
 * @param {string} url
 * @param {{ fragment?: string, expected?: RegExp, [option: string]: unknown }} [options] `expected`: errors that belong to
 *   the test; all others are the browser's options
 */
export async function openPage(t, browser, url, { fragment = "", expected = /^$/, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const wrong = [];
  page.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
  page.on("pageerror", (error) => wrong.push(String(error)));
  const outside = [];
  page.on("request", (request) => new URL(request.url()).origin !== url && outside.push(request.url()));
  t.after(async () => {
    await context.close();
    assert.deepEqual(
      wrong.filter((message) => !expected.test(message)),
      [],
    );
    assert.deepEqual(outside, []);
  });
  await page.goto(`${url}/${fragment}`);
  await page.waitForSelector("#bench:not([hidden])");
  return page;
}

/**
 * The least time of three first visits, in milliseconds: from the navigation to a prompt that can be written into.
 * @param {{ newContext: Function }} browser
 * @param {string} url
 */
export async function firstVisit(browser, url) {
  let least = Infinity;
  for (let visit = 0; visit < 3; visit++) {
    const context = await browser.newContext({ serviceWorkers: "block" });
    const page = await context.newPage();
    await page.goto(url, { waitUntil: "commit" });
    // The page's own clock begins with the navigation.
    const time = await page.waitForFunction(() => {
      const field = document.querySelector("#bench:not([hidden]) #prompt-field");
      return field !== null && !field.disabled && performance.now();
    });
    least = Math.min(least, await time.jsonValue());
    await context.close();
  }
  return Math.round(least);
}

/**
 * Starts the clock that `anHourPasses` moves, and notes when the page freezes and goes on.
 * @param {import("playwright-core").Page} page
 */
export async function withClock(page) {
  await page.clock.install();
  await page.evaluate(() => {
    globalThis.heard = {};
    for (const event of ["freeze", "resume"])
      document.addEventListener(event, () => (globalThis.heard[event] = Date.now()));
  });
}

/**
 * Freezes the page behind another tab, as a browser does, and comes back to it an hour later by its clock.
 * @param {import("playwright-core").Page} page
 */
export async function anHourPasses(page) {
  const session = await page.context().newCDPSession(page);
  const other = await page.context().newPage();
  await session.send("Page.setWebLifecycleState", { state: "frozen" });
  await page.clock.fastForward("01:00:00");
  await session.send("Page.setWebLifecycleState", { state: "active" });
  await other.close();
  await page.waitForFunction(() => globalThis.heard.resume !== undefined);
  const { freeze, resume } = await page.evaluate(() => globalThis.heard);
  assert.ok(resume - freeze >= 3_600_000, `${resume - freeze} ms`);
}

/** Waits until a side is written, and returns its text, without the token that ends it. */
export async function written(page, side = "main") {
  await page.waitForSelector(`#text-${side}[aria-busy="false"]`);
  return page.$$eval(`#text-${side} .token:not(.ending)`, (all) => all.map((token) => token.textContent).join(""));
}

/** The words of the tokens of a side, with what is said of each. */
export function tokens(page, side = "main") {
  return page.$$eval(`#text-${side} [role=option]`, (options) => options.map((option) => option.textContent));
}

/** The rivals that are listed: token, figures before and after, and its classes. */
export function rivals(page) {
  return page.$$eval(".rival", (rows) =>
    rows.map((row) => ({
      text: row.querySelector(".piece").textContent,
      before: row.querySelector(".figure").textContent,
      after: row.querySelector(".figure.after").textContent,
      classes: [...row.classList],
    })),
  );
}

/** Asks for another prompt and waits for its text. */
export async function ask(page, prompt, length = 8) {
  await page.fill("#length", String(length));
  await page.press("#length", "Tab");
  await page.fill("#prompt-field", prompt);
  await page.press("#prompt-field", "Enter");
  return written(page);
}

/** Sets a parameter by its number field. */
export async function setNumber(page, name, value) {
  await openGroupOf(page, name);
  await page.fill(`#param-${name}`, String(value));
  await page.press(`#param-${name}`, "Tab");
}

/** Opens the group that has a parameter. */
export async function openGroupOf(page, name) {
  await page.$eval(`[data-name="${name}"]`, (control) => (control.closest("details").open = true));
}
