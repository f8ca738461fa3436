// The text, its tokens, the draw of each, and branches.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";

import {
  ask,
  openGroupOf,
  openPage,
  program,
  rivals,
  setNumber,
  startBrowser,
  startServer,
  tokens,
  written,
} from "./support.mjs";

let server;
let browser;
before(async () => ([server, browser] = await Promise.all([startServer(), startBrowser()])));
after(() => Promise.all([server?.stop(), browser?.close()]));

test("the story of seed 7 is that of the README, and the program's, letter for letter", async (t) => {
  const page = await openPage(t, browser, server.url);
  const story = await written(page);
  assert.equal(await page.inputValue("#seed"), "7");
  const readme = await readFile(new URL("../../../../README.md", import.meta.url), "utf8");
  const quoted = readme
    .match(/^> Once upon a time.*\n(> .*\n)*/m)[0]
    .replaceAll(/^> /gm, "")
    .trim();
  assert.ok(quoted.endsWith(" …") && quoted.length > 300, quoted);
  assert.ok(`Once upon a time${story}`.startsWith(quoted.slice(0, -2)), story);
  const printed = JSON.parse(
    await program("generate", "Once upon a time", "--seed", "7", "--max-tokens", "120", "--format", "json"),
  );
  assert.equal(story, printed.text);
  assert.equal((await tokens(page)).length, 120);
  const shown = await page.$eval("#texts .text", (text) => text.textContent);
  assert.equal(shown, `Once upon a time${story}`);
});

test("a token that is hovered shows its rivals in a card, one that is clicked shows its draw", async (t) => {
  const page = await openPage(t, browser, server.url);
  await written(page);
  await page.hover("#main-2");
  await page.waitForSelector(".card:not([hidden])");
  assert.match(await page.textContent(".card p"), /^␣was /);
  assert.equal(await page.locator(".card tr").count(), 6);
  assert.equal((await page.textContent("#draw h2")).trim(), "Draw 1: ,");
  await page.mouse.move(5, 5);
  await page.waitForSelector(".card", { state: "hidden" });
  await page.click("#main-2");
  await page.waitForFunction(() => document.querySelector(".rival.drawn .piece")?.textContent === "␣was");
  assert.equal((await page.textContent("#draw h2")).trim(), "Draw 3: ␣was");
  assert.equal(await page.getAttribute("#main-2", "aria-selected"), "true");
});

test("colours tell probability, entropy or rank, with a legend of five steps", async (t) => {
  const page = await openPage(t, browser, server.url);
  await written(page);
  const steps = () =>
    page.$$eval("#text-main .token", (all) => all.map((token) => token.className.match(/step-(\d)/)[1]).join(""));
  const seen = [];
  for (const [measure, first] of [
    ["probability", "over 80 %"],
    ["entropy", "under 0.25"],
    ["rank", "1"],
  ]) {
    await page.selectOption("#measure", measure);
    assert.equal(await page.textContent(".steps li"), first);
    assert.equal(await page.locator(".steps li").count(), 5);
    seen.push(await steps());
  }
  assert.equal(new Set(seen).size, 3);
  assert.match(seen[2], /^0/);
});

test("a stranger sees what min-p does: a slider redraws the draw at once and the text on release", async (t) => {
  const page = await openPage(t, browser, server.url);
  await page.click("text=Tom saw a big >> visible=true");
  await written(page);
  await page.click("#plain");
  await written(page);
  await page.waitForFunction(() => document.querySelectorAll(".rival").length >= 12);
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  const before = await rivals(page);
  assert.deepEqual(
    before.filter(({ classes }) => classes.includes("gone")),
    [],
  );

  const slider = page.locator('[data-name="min_p"] input[type=range]');
  await slider.evaluate((range) => {
    for (const value of ["0.05", "0.1", "0.3"]) {
      range.value = value;
      range.dispatchEvent(new Event("input", { bubbles: true }));
    }
  });
  await page.waitForSelector(".rival.gone");
  await page.waitForFunction(() =>
    [...document.querySelectorAll(".stage b")].some((name) => name.textContent === "min_p"),
  );
  assert.deepEqual([...new Set(asked)], ["/lab/look"]);
  const moved = await rivals(page);
  const gone = moved.filter(({ classes }) => classes.includes("gone"));
  assert.ok(gone.length > 0 && gone.every(({ after }) => after === "min_p"));
  // At least this share of the best one's probability stays: the numbers agree with the rule.
  const number = (text) => Number.parseFloat(text.replace(/[<> %]/g, ""));
  // Of a drawn token that is not among the first, the row's probability is not listed.
  const listed = moved.filter((rival) => rival.before !== "");
  const best = Math.max(...listed.map((rival) => number(rival.before)));
  assert.ok(listed.length >= 12 && best > 1, `${listed.length} listed, the best with ${best} %`);
  for (const rival of listed)
    assert.equal(rival.classes.includes("gone"), number(rival.before) < 0.3 * best, JSON.stringify(rival));

  await slider.dispatchEvent("change");
  await written(page);
  assert.ok(asked.includes("/lab/write"));
  assert.match(await page.textContent(".tree [aria-selected=true]"), /^min_p 0\.3/);
  await page.click('[data-stage="min_p"] button');
  assert.match(await page.textContent('[data-stage="min_p"] .did'), /^removed \d+ with /);
  assert.match(await page.textContent(".nearest li"), /short by/);
});

test("a slider holds the tokens before the selected one; the text goes on from there", async (t) => {
  const page = await openPage(t, browser, server.url);
  await ask(page, "Once upon a time", 24);
  const first = await tokens(page);
  await page.click("#main-10");
  await setNumber(page, "temperature", 1.8);
  await written(page);
  const next = await tokens(page);
  assert.deepEqual(next.slice(0, 10), first.slice(0, 10));
  assert.notDeepEqual(next, first);
  assert.equal(await page.locator(".token.forced").count(), 10);
  await page.click("#free");
  await written(page);
  assert.equal(await page.locator(".token.forced").count(), 0);
});

test("a rival that is clicked begins a branch; undo, redo and the tree walk between them", async (t) => {
  const page = await openPage(t, browser, server.url);
  const first = await ask(page, "Tom saw a big", 16);
  const before = await tokens(page);
  await page.click("#main-3");
  await page.waitForFunction(() => document.querySelector("#draw h2").textContent.startsWith("Draw 4"));
  await page.waitForSelector(".rival.drawn");
  const rival = page.locator(".rival:not(.drawn)").first();
  const chosen = (await rival.locator(".piece").textContent()).replaceAll("␣", " ");
  await rival.click();
  await page.waitForSelector(".token.forced");
  await written(page);
  const after = await tokens(page);
  assert.deepEqual(after.slice(0, 3), before.slice(0, 3));
  assert.equal(after[3], chosen);
  const branch = after.join("");
  assert.notEqual(branch, first);

  await page.click("#undo");
  assert.equal(await written(page), first);
  await page.click("#redo");
  assert.equal(await written(page), branch);
  const items = page.locator(".tree [role=treeitem]");
  assert.match(await items.last().textContent(), /at 4/);
  await items.last().focus();
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  assert.equal(await written(page), first);
});

test("another seed writes another text, and the same seed the same", async (t) => {
  const page = await openPage(t, browser, server.url);
  const first = await ask(page, "Once upon a time", 16);
  await page.click("#roll");
  const rolled = await written(page);
  const seed = await page.inputValue("#seed");
  assert.match(seed, /^\d{1,10}$/);
  assert.notEqual(seed, "7");
  const printed = JSON.parse(
    await program("generate", "Once upon a time", "--seed", seed, "--max-tokens", "16", "--format", "json"),
  );
  assert.equal(rolled, printed.text);
  await page.fill("#seed", "7");
  await page.press("#seed", "Enter");
  assert.equal(await written(page), first);
});

test("the order of the stages changes by keys and by drag, and the draw with it", async (t) => {
  const page = await openPage(t, browser, server.url);
  await ask(page, "Tom saw a big", 8);
  await openGroupOf(page, "top_k");
  const order = () => page.$$eval(".handle", (handles) => handles.map((handle) => handle.dataset.stage));
  assert.deepEqual(await order(), ["temperature", "top_k", "top_p"]);
  await page.focus('.handle[data-stage="top_p"]');
  await page.keyboard.press("ArrowUp");
  assert.deepEqual(await order(), ["temperature", "top_p", "top_k"]);
  assert.equal(await page.evaluate(() => document.activeElement.dataset.stage), "top_p");
  assert.equal(await page.inputValue("#order-choice"), "own");
  await written(page);
  await page.waitForFunction(
    () =>
      [...document.querySelectorAll(".stage b")].map((b) => b.textContent).join() ===
      "all stages,temperature,top_p,top_k",
  );

  await page.locator('.handle[data-stage="temperature"]').scrollIntoViewIfNeeded();
  const from = await page.locator('.handle[data-stage="temperature"]').boundingBox();
  const to = await page.locator('.handle[data-stage="top_k"]').boundingBox();
  await page.mouse.move(from.x + 30, from.y + from.height / 2);
  await page.mouse.down();
  await page.mouse.move(from.x + 30, to.y + to.height - 2, { steps: 6 });
  await page.mouse.up();
  assert.deepEqual(await order(), ["top_p", "top_k", "temperature"]);
  await page.waitForFunction(
    () =>
      [...document.querySelectorAll(".stage b")].map((b) => b.textContent).join() ===
      "all stages,top_p,top_k,temperature",
  );
  await page.selectOption("#order-choice", "vllm");
  assert.deepEqual(await order(), ["temperature", "top_k", "top_p"]);
});
